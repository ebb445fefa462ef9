import html
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from batfill.base import version
from batfill.base.errors import BatfillError
from batfill.base.words import duration, percent
from batfill.model.policy import policy_named
from batfill.model.pools import amount_text
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from batfill.replays.replay import replay
from batfill.workloads import generate_workload, read_workload
from batfill.workloads.generate import generate_log
from batfill.workloads.swf_log import write_log
from batfill_pages.comparison import FEWEST_JOBS, compare
from batfill_pages.comparison_page import View
from batfill_pages.stats import Paired
from batfill_pages.words import slowdown
from batfill_site.advice import choices as trying
from batfill_site.advice import what_if as library
from batfill_site.advice.choices import KILLS, ORDER, THRESHOLD, TODAY, choices
from batfill_site.advice.page import as_page
from batfill_site.advice.payers import Changed, Payers
from batfill_site.advice.promise import Check, Figures
from batfill_site.advice.text import (
    MOST_WORDS,
    NB,
    able_text,
    answer_text,
    brief,
    cells,
    export_text,
    headline,
    looser_text,
    options_words,
    promise_text,
    promised_text,
    reaction_text,
    spread_text,
)
from batfill_site.advice.what_if import HIGH, LIMITS, LOW, MEDIUM, ChoiceFigures, advised, groups_of, what_if
from batfill_site.config.systems import BESIDE, EXPRESSIBLE, FIGURES, SYSTEMS
from batfill_site.fidelity import fidelity
from batfill_site.score import Score, Whose
from command import batfill, json_result, refusal
from swf_text import row

HOUR_S, DAY_S = 3600, 86_400
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Seventeen weeks, in each of which a rush begins with an empty machine."""
    path = tmp_path_factory.mktemp("log") / "cluster.swf"
    made, each = generate_log(1800, 64, seed=3, users=12, load=0.9), 110
    submit_s = made["submit_s"]
    for week, first in enumerate(range(0, len(submit_s), each)):
        rush = submit_s[first : first + each]
        rush += 7 * DAY_S * week - rush[0]
    write_log(made, path)
    return path


@pytest.fixture(scope="module")
def answer(log):
    return what_if(log, thresholds_s=[24 * HOUR_S, 6 * HOUR_S], small_first=False)


@pytest.fixture(scope="module")
def text(answer, log):
    """The page of the answer."""
    return page_of(answer, log)


def page_of(answer, log):
    return as_page(answer, log, "batfill what-if")


def named(answer, name):
    """The number of the choice of this name."""
    return [o.name for o in answer.outcomes].index(name)


def with_field(text, place, value):
    """The text of a log with this value in a field of every job, by its place from 0."""
    lines = [line if line.startswith(";") else line.split() for line in text.splitlines()]
    return "\n".join(x if isinstance(x, str) else " ".join([*x[:place], value, *x[place + 1 :]]) for x in lines) + "\n"


@pytest.fixture(scope="module")
def light(tmp_path_factory):
    """Twelve weeks in which the machine is nearly always free: two short jobs wait for a long one, once a day."""
    path = tmp_path_factory.mktemp("light") / "light.swf"
    rows = []
    for day in range(84):
        at = day * DAY_S
        rows += [row(3 * day + 1, at, 600, req_procs=4, req_time=600, user=1)]
        rows += [row(3 * day + 2, at + 590, 900, req_procs=4, req_time=900, user=2)]
        rows += [row(3 * day + 3, at + 591, 800, req_procs=1, req_time=800, user=3)]
    path.write_text("; MaxProcs: 4\n; UnixStartTime: 1000000000\n; TimeZoneString: Europe/Paris\n" + "".join(rows))
    return path


def test_every_choice_is_a_replay_of_the_log(log, answer):
    workload = read_workload(log)
    assert [o.name for o in answer.outcomes] == ["fcfs", "spf", "saf", "saf + 6 h", "saf + 24 h"]
    for outcome in answer.outcomes:
        policy = policy_named(outcome.options["policy"])
        threshold_s = outcome.options.get("threshold", np.inf)
        figures = replay_jobs(workload.jobs, workload.procs, Rules(policy, threshold_s=threshold_s)).summary()
        assert outcome.mean_bsld == pytest.approx(figures.mean_bsld)
        assert (outcome.mean_wait_s, outcome.max_wait_s) == (pytest.approx(figures.mean_wait_s), figures.max_wait_s)


def test_a_groups_difference_is_the_mean_over_its_jobs(log, answer):
    jobs = read_workload(log).jobs
    comparison = answer.comparison
    rows = {(by, name): which for by, name, which in groups_of(jobs, 64)}
    for by in ("processors", "ran for"):
        assert sum(group.jobs for group in answer.groups if group.by == by) == len(jobs)
    for group in answer.groups:
        which = rows[group.by, group.name]
        assert group.jobs == which.sum() > 0
        changed = (comparison.wait_s[2] - comparison.wait_s[0])[which].mean()
        assert group.differences[1].wait_s.value == pytest.approx(changed)
        assert group.max_wait_s[2] == comparison.wait_s[2][which].max()


def test_jobs_and_users_that_wait_ten_minutes_longer_or_less_are_counted(log, answer):
    user = read_workload(log).jobs.user.tolist()
    for k, one in enumerate(answer.outcomes):
        longer_s = (answer.comparison.wait_s[k] - answer.comparison.wait_s[0]).tolist()
        means = [
            np.mean([late for late, whose in zip(longer_s, user, strict=True) if whose == which])
            for which in set(user)
            if user.count(which) >= FEWEST_JOBS
        ]
        for found, changes in ((one.payers.jobs, longer_s), (one.payers.users, means)):
            less, longer = sum(late < -600 for late in changes), sum(late > 600 for late in changes)
            assert found == (less, len(changes) - less - longer, longer)
    assert answer.outcomes[2].payers.jobs.longer > 0 < answer.outcomes[2].payers.users.less


def log_of(path, rows):
    """A log of four processors."""
    path.write_text("; MaxProcs: 4\n" + "".join(rows))
    return path


def told(answer):
    """The text for the terminal with its details, in one line."""
    return " ".join(answer_text(answer, details=True).split())


def said(answer, name, limit=None, chosen=None):
    """A line of the first screen, with plain spaces."""
    return brief(answer, limit or answer.limit, chosen).get(name, "").replace(NB, " ").replace("**", "")


def head(answer, limit=None):
    """The headline, with plain spaces; it is short."""
    text = headline(answer, limit or answer.limit).replace(NB, " ").replace("**", "")
    assert len(text.split()) <= MOST_WORDS
    return text


def outcome(name, effort, bsld, longest_h, wait_h=0):
    payers = Payers(Changed(0, 1, 0), None, None, None, None, None)
    figures = (bsld, wait_h * HOUR_S, 0, longest_h * HOUR_S)
    return ChoiceFigures(name, name, {}, effort, *figures, payers, None, 0, 0, None, None, 0, 0, 0, 0, None, {})


def pairs(outcomes, half):
    """Differences of the means, each with an interval so wide to both sides."""
    means = [o.mean_bsld for o in outcomes]
    found = [[None if one is other else difference(other - one, half) for other in means] for one in means]
    return dict(enumerate(found))


def difference(value, half):
    """A difference with an interval so wide to both sides, and beyond chance if that excludes 0."""
    p = 1.0 if abs(value) <= half else 0.0
    return Paired(value, value - half, value + half, p, p, 0.0, 0.95, correlation=0.0, merged=1, blocks=30)


@pytest.mark.parametrize(
    ("saf", "threshold", "kills", "half", "limit_h", "chosen"),
    [
        ((90, 9), (99, 9), (120, 9), 1, 11, "saf"),  # the best that gains
        ((90, 12), (92, 9), (120, 9), 1, 11, "threshold"),  # within the limit
        ((90, 12), (92, 12), (120, 12), 1, 11, "fcfs"),  # nothing else is
        ((96, 9), (97, 9), (98, 9), 1, 11, "fcfs"),  # lower by less than 5 %
        ((60, 9), (70, 9), (80, 9), 50, 11, "fcfs"),  # may be chance
        ((60, 9), (60, 9), (60, 9), 1, 11, "saf"),  # as good: the simplest
        ((60, 9), (58, 9), (57.5, 9), 1, 11, "saf"),  # not better by 5 %
        ((60, 9), (55, 9), (54, 9), 1, 11, "threshold"),
        ((60, 9), (55, 9), (54, 9), 7, 11, "saf"),  # 54 may be chance over 60
        ((60, 9), (55, 9), (40, 9), 1, 11, "kills"),
    ],
)
def test_the_simplest_of_equals_that_gain_within_the_limit_is_advised(saf, threshold, kills, half, limit_h, chosen):
    outcomes = [
        outcome("fcfs", TODAY, 100, 10),
        outcome("kills", KILLS, *kills),
        outcome("threshold", THRESHOLD, *threshold),
        outcome("saf", ORDER, *saf),
    ]
    found, _ = advised(outcomes, pairs(outcomes, half), limit_h * HOUR_S, 0.05, range(1, 4))
    assert outcomes[found].name == chosen


@pytest.mark.parametrize(
    ("limit_h", "half", "chosen", "others"),
    [
        (2000, 5, "saf", ["kills"]),  # equals: the one that asks less of a site, though jobs wait for weeks
        (np.inf, 5, "kills", ["saf"]),  # without a limit the one under which no job waits so long
        (np.inf, 1, "saf", []),  # but only of equals
    ],
)
def test_without_a_limit_a_tie_goes_to_the_shorter_longest_wait(limit_h, half, chosen, others):
    outcomes = [outcome("fcfs", TODAY, 100, 72), outcome("kills", KILLS, 43, 99), outcome("saf", ORDER, 40, 1302)]
    found, equals = advised(outcomes, pairs(outcomes, half), limit_h * HOUR_S, 0.05, range(1, 3))
    assert (outcomes[found].name, [outcomes[k].name for k in equals]) == (chosen, others)


@pytest.mark.parametrize(
    ("threshold", "fcfs_h", "by", "chosen"),  # slowdown, longest wait, mean wait; kills have 40, 9 h, 2 h
    [
        ((60, 9, 1.9), 3, "waits", "threshold"),  # no longer a longest wait, a shorter mean, and asks less
        ((60, 9, 1.9), 3, "slowdown", "kills"),
        ((60, 9, 2.0), 3, "waits", "kills"),  # no shorter mean
        ((60, 9.1, 1.9), 3, "waits", "kills"),  # a longer longest wait
        ((99, 8, 1.0), 3, "waits", "kills"),  # does not gain itself
        ((60, 11, 3.0), 1.9, "waits", "kills"),  # fcfs has the longer longest wait
        ((60, 11, 3.0), 1.9, "fcfs", "fcfs"),  # and here it has not
    ],
)
def test_a_choice_is_out_if_one_that_asks_less_waits_less_at_the_mean_and_at_most(threshold, fcfs_h, by, chosen):
    fcfs = outcome("fcfs", TODAY, 100, 9 if by == "fcfs" else 10, fcfs_h)
    outcomes = [fcfs, outcome("kills", KILLS, 40, 9, 2), outcome("threshold", THRESHOLD, *threshold)]
    found, _ = advised(outcomes, pairs(outcomes, 1), 11 * HOUR_S, 0.05, range(1, 3), by != "slowdown")
    assert outcomes[found].name == chosen


def with_p(answer, p, weeks):
    """The same over so many weeks, with this p of the choice that is advised without a limit."""
    period, k = np.minimum(answer.comparison.period, weeks - 1), answer.limits[-1].advised
    period[-1] = weeks - 1
    found = with_gains(answer, {k: {"corrected_p": p, "merged": 1, "blocks": weeks}})
    return replace(found, comparison=replace(answer.comparison, period=period))


def with_gains(answer, changes):
    """The same with these fields of choices' comparisons with fcfs."""
    first = [one and replace(one, **changes.get(k, {})) for k, one in enumerate(answer.bsld[0])]
    return replace(answer, bsld={**answer.bsld, 0: first})


def test_confidence_needs_weeks_and_a_small_p(answer):
    limit = answer.limits[-1]
    assert limit.advised
    for weeks, p, sure in ((24, 0.0099, HIGH), (23, 0.0099, MEDIUM), (24, 0.01, MEDIUM), (30, 0.05, MEDIUM)):
        assert with_p(answer, p, weeks).confidence(limit) == sure
    assert answer.confidence(limit._replace(advised=0)) is None


def graded(answer, ratio, logged_s=10_000.0, rank=0.5):
    """The answer as if simulated waits were such a part of the logged ones, and ranked so."""
    score = Score(900, 0.5, 0.5, ratio * logged_s, logged_s, ratio, 0.5, rank, 0.5, 2 * DAY_S, 9 * DAY_S)
    return replace(answer, logged=score, logged_bsld=7.0, logged_whose=Whose("12", 3))


def invented(answer):
    """The answer as if two of three requests were invented."""
    n_jobs = len(answer.comparison.at)
    jobs = type("Jobs", (), {"__len__": lambda _: n_jobs, "n_missing": lambda *_: 2 * n_jobs / 3})()
    facts = {"invented_warning": ("most have none",), "unrequested": "runtime", "jobs": jobs, "size_warnings": ()}
    return replace(answer, workload=SimpleNamespace(**facts))


def test_invented_requests_and_correlated_weeks_cap_the_confidence_and_say_so(answer):
    limit, sure = answer.limits[-1], with_p(answer, 0.0, 31)
    assert sure.confidence(limit) == HIGH
    assert said(sure, "Confidence", limit).startswith("high that slowdown is below fcfs's (p 0).")
    guessed = invented(sure)
    assert guessed.confidence(limit) == LOW
    assert "it rests on invented requests" in said(guessed, "Confidence", limit)
    assert head(guessed, limit) == "Do not trust this advice: 67 % of the requests are invented"
    merged = with_gains(sure, {limit.advised: {"merged": 3, "blocks": 10}})
    assert merged.confidence(limit) == MEDIUM
    few = "fewer than 12 are left to compare saf + 24 h: the intervals may be too narrow"
    assert few in said(merged, "Confidence", limit)


@pytest.mark.parametrize(
    ("ratio", "rank", "logged_s", "why"),
    [
        (0.34, 0.15, 10_000.0, None),
        (2.9, None, 10_000.0, None),
        (0.33, 0.9, 10_000.0, "imulated ones are 55 min on average, and 2 h 46 min in the log"),
        (0.06, 0.9, 10_000.0, "imulated ones are 10 min on average, and 2 h 46 min in the log"),
        (3.1, 0.9, 10_000.0, "imulated ones are 8 h 36 min on average, and 2 h 46 min in the log"),
        (0.8, 0.14, 10_000.0, "ther jobs wait than in the log (rank correlation 0.14)"),
        (0.0, 0.0, 30.0, None),  # the site has no waits, either
    ],
)
def test_where_simulated_waits_are_not_the_sites_the_answer_cannot_tell_and_is_not_trusted(
    answer, log, ratio, rank, logged_s, why
):
    found = graded(answer, ratio, logged_s, rank)
    if why is None:
        assert (found.undecided, found.cautions, found.as_dict()["trusted"]) == (None, (), True)
        return
    assert head(found) == "Cannot tell: the simulation does not show this site's waits"
    assert why in said(found, "Why")
    stored = found.as_dict()
    assert (stored["advice"], stored["confidence"], stored["trusted"]) == (None, None, False)
    assert not {"Keep", "Take"} & set(told(found).split())
    bars = re.findall("<i[^>]*--part", as_page(found, log, "batfill what-if"))
    assert bars
    assert all("may be chance" in bar for bar in bars)


def test_the_first_table_has_the_advice_the_best_without_kills_and_fcfs_all_simulated(answer, log):
    found, limit = graded(answer, 0.5), answer.limits[-1]
    rows = [[text.replace(NB, " ") for text in cells(found, limit, row)] for row in found.rows(limit)]
    gentle = found.runner_up(limit)
    assert gentle not in (0, limit.advised)
    assert [row[0] for row in rows] == [
        answer.outcomes[limit.advised].name,
        f"next, no kills: {answer.outcomes[gentle].name}",
        "fcfs, simulated",
    ]
    assert rows[2][1:3] == [duration(answer.outcomes[0].mean_wait_s), duration(answer.outcomes[0].max_wait_s)]
    assert [row.choice for row in answer.rows(limit, 2)] == [2, 0]
    assert "today" not in told(found).lower()


def test_logged_waits_stand_apart_from_simulated_ones_and_say_whose_the_longest_is(answer, log, light):
    found = graded(answer, 0.5)
    line = "mean 2 h 46 min, longest 9 d (job 12, user 3) in the log; simulated ones are 0.50 of them"
    assert said(found, "Real waits").startswith(line)
    page = as_page(found, log, "batfill what-if").replace(NB, " ")
    assert html.unescape(page).count("longest 9 d (job 12, user 3)") > 0
    assert not any("2 h 46 min" in part for part in re.findall("(?s)<table.*?</table>", page))
    stored = found.as_dict()["logged"]
    assert (stored["longest_job"], stored["longest_user"], stored["mean_bsld"]) == ("12", 3, 7.0)
    text = "".join(
        " ".join([*one[:2], "9000" if one[0] == "8" else "60", *one[3:]]) + "\n"
        for one in map(str.split, light.read_text().splitlines()[3:])
    )
    path = light.parent / "waited.swf"
    path.write_text(f"; MaxProcs: 4\n{text}")
    assert what_if(path, thresholds_s=[], small_first=False).logged_whose == Whose("8", 2)


def with_tries(answer, k, **checks):
    """The same, where the k-th choice is first tries."""
    outcomes = list(answer.outcomes)
    outcomes[k] = outcomes[k]._replace(options={"preset": "first-tries"}, name="first tries", effort=KILLS)
    return replace(answer, outcomes=outcomes, **checks)


def test_the_price_of_kills_is_said_where_the_best_without_them_has_the_shorter_mean_wait(answer):
    limit = answer.limits[-1]
    found = with_tries(answer, limit.advised)
    gentle = found.runner_up(limit)
    name, bsld = found.outcomes[gentle].name, slowdown(found.outcomes[gentle].mean_bsld)
    assert cells(found, limit, found.rows(limit)[1])[0].replace(NB, " ") == f"best, no kills: {name}"
    for wait_s, price in ((1.0, f"{name} has the shorter mean wait, slowdown {bsld}, and kills nothing."), (9e9, "")):
        found.outcomes[gentle] = found.outcomes[gentle]._replace(mean_wait_s=wait_s)
        assert said(found, "Price", limit) == price
    assert not said(answer, "Price", limit)


def test_a_promise_broken_at_more_load_is_said_with_the_advice_and_caps_the_confidence(answer):
    base, limit = np.full((2, len(Figures._fields)), 9.0), answer.limits[-1]
    ratios = np.array([1.0] * 6 + [0.0, 0.0])  # no work is wasted
    kept, worse = Check(base * 0.5 * ratios, base, 100), Check(base * 1.06 * ratios, base, 100, 1.1)
    found = with_tries(answer, limit.advised, checks=(kept, worse))
    most = "slowdown (tau 60 s) at most 0.85 of fcfs's: "
    broken = f"{most}kept here; ▲ at 10 % more load first tries break their promise (mean bsld, tau 60 1.060 > 0.85"
    assert said(found, "Promise", limit).startswith(broken)
    assert found.confidence(limit) == MEDIUM
    assert said(replace(found, checks=(kept, kept)), "Promise", limit) == f"{most}kept here and here."
    busy = promised_text(replace(kept, jobs=20_000)).replace(NB, " ")
    assert busy == f"{most.removesuffix(': ')}, mean wait no longer, longest at most 1.25 times"
    assert promised_text(replace(kept, base=base / 9)).replace(NB, " ") == "mean wait at most 10 s longer"
    overloaded = Check(base * 1.06, base + 9 * HOUR_S, 100, 1.1)
    assert "overloaded: no promise" in said(replace(found, checks=(kept, overloaded)), "Promise", limit)


@pytest.mark.parametrize(
    ("ratios", "near"), [([0.82, 0.87, 0.85, 0.86, 0.84], True), ([0.80, 0.80, 0.81, 0.8, 0.8], False)]
)
def test_a_promise_says_whether_its_margin_is_within_the_noise_of_seeds(answer, ratios, near):
    base = np.full((5, len(Figures._fields)), 9.0)
    check = Check(base * np.array(ratios)[:, None] * ([1.0] * 6 + [0.0, 0.0]), base, 100)
    assert not check.broken
    assert (list(check.unsure) == ["bsld"]) == near
    found = with_tries(answer, answer.limits[-1].advised, checks=(check,))
    text = "other seeds might decide otherwise (mean bsld, tau 60 0.848 ± 0.024 of"
    assert (text in said(found, "Promise", answer.limits[-1])) == near
    assert ("Other seeds might decide otherwise" in promise_text(check, "first tries")) == near
    assert bool(check.as_dict()["within_noise"]) == near


def test_a_tie_is_told_with_its_reason(answer):
    mine, other, third = (named(answer, name) for name in ("spf", "saf", "saf + 6 h"))
    limit = answer.limits[0]._replace(advised=mine, by_slowdown=mine, equals=(third,))
    assert "As good, as far as this log can tell: saf + 6 h; this one asks least" in said(answer, "Why", limit)
    assert "As good" not in said(answer, "Why", limit._replace(equals=()))
    outcomes = list(answer.outcomes)  # the third asks less than another, which has the least slowdown, and waits less
    outcomes[other] = outcomes[other]._replace(effort=KILLS, mean_wait_s=9e9, max_wait_s=9e9)
    limit = answer.limits[-1]._replace(advised=third, by_slowdown=other, equals=())
    less = said(replace(answer, outcomes=outcomes), "Why", limit)
    assert f"without saf ({slowdown(outcomes[other].mean_bsld)}): saf + 6 h asks less of a site" in less


def test_where_a_looser_limit_has_more_slowdown_the_table_says_why(answer, log):
    few, many = sorted((1, 2), key=lambda k: answer.outcomes[k].mean_bsld)
    taken = [many if limit.growth is None else few for limit in answer.limits]
    limits = [one._replace(advised=k, by_slowdown=k) for one, k in zip(answer.limits, taken, strict=True)]
    found = replace(answer, limits=limits)
    why = looser_text(found, len(limits) - 1)
    assert why == f"as good as {answer.outcomes[few].name}, and has the shorter longest wait"
    assert looser_text(found, 1) == ""
    assert why in told(found)
    assert why in page_of(found, log)


def test_the_advice_is_given_for_every_limit(answer):
    assert [limit.growth for limit in answer.limits] == [*LIMITS, None]
    longest = answer.outcomes[0].max_wait_s
    for limit in answer.limits:
        taken = answer.outcomes[limit.advised]
        if limit.growth is not None:
            assert taken.max_wait_s <= (1 + limit.growth) * longest + 1e-6
        assert head(answer, limit).startswith(f"{'Take' if limit.advised else 'Keep'} {taken.name}: ")
    assert len({limit.advised for limit in answer.limits}) > 1


def test_it_is_said_if_every_limit_has_the_same_advice(answer, log):
    assert "the same at every limit" not in told(answer)
    k = min(answer.offered, key=lambda k: answer.outcomes[k].mean_bsld)
    outcomes = list(answer.outcomes)
    outcomes[k] = outcomes[k]._replace(max_wait_s=1.0)
    same = replace(answer, limits=[limit._replace(advised=k, equals=()) for limit in answer.limits], outcomes=outcomes)
    text = "The advice is the same at every limit, because it has the least slowdown and the shortest longest wait."
    assert text in told(same)
    assert text in page_of(same, log)
    never = replace(answer, limits=[limit._replace(advised=0, equals=()) for limit in answer.limits])
    assert "the same at every limit" not in told(never)


def test_where_nothing_gains_the_advice_is_to_stay(tmp_path):
    path = log_of(tmp_path / "idle.swf", (row(k + 1, k * DAY_S, 600, req_time=600) for k in range(80)))
    for command in (["--no-small-first"], ["--no-small-first", "--threshold", "12h"]):
        done = batfill("what-if", path, *command)
        assert done.status == 0
        assert "Keep fcfs: no choice that was tested is better\n" in done.out
        assert "Why: No choice that was tested is better beyond chance." in done.out
        assert re.search(r"fcfs, simulated +0 s +0 s +1.0", done.out)
        assert "Confidence" not in done.out
    assert json_result("what-if", path, "--no-small-first")["advice"] == "fcfs"


def test_a_choice_with_less_slowdown_that_is_not_advised_has_its_reason(answer, log):
    lower, mine = named(answer, "spf"), named(answer, "saf + 24 h")
    outcomes = list(answer.outcomes)
    outcomes[lower] = outcomes[lower]._replace(mean_bsld=1.5, max_wait_s=1.0)  # better in both
    limit = answer.limits[-1]._replace(advised=mine, by_slowdown=mine, equals=())
    found = with_gains(replace(answer, outcomes=outcomes), {lower: {"corrected_p": 0.9}})
    assert "; spf (1.5) would be lower, but the gain may be chance." in said(found, "Why", limit)
    assert said(found, "Tested", chosen=lower) == "Its slowdown may differ from that of fcfs by chance."
    sure = with_gains(found, {lower: {"corrected_p": 0.001}})
    sure = replace(sure, withheld={lower: "cannot"}, settings={**sure.settings, "system": "flux"})
    assert "; spf (1.5) would be lower, but Flux cannot do it." in said(sure, "Why", limit)
    assert "unless another is better in both" not in page_of(found, log)


def test_an_interval_and_the_sentence_beside_it_come_from_one_test(answer):
    """Both are corrected: an interval holds 0 just if the difference may be chance."""
    of_groups = [one for group in answer.groups for d in group.differences for one in (d.bsld, d.wait_s)]
    assert {one.verdict for one in of_groups} >= {"unclear", "better"}
    for one in (*filter(None, answer.bsld[0]), *of_groups):
        assert (one.low <= 0 <= one.high) == (one.verdict == "unclear")


@pytest.mark.needs("pandas")
def test_every_page_and_table_decides_a_comparison_by_the_same_rule(log, answer):
    """Of the advice, of a report and of `compare`: the same p, interval and verdict of each order against fcfs."""
    options = [dict(o.options) for o in answer.outcomes]
    runs = [replay(log, one.pop("policy"), threshold_s=one.get("threshold")) for one in options]
    rows = compare(*runs).query("figure == 'mean_bsld'")
    view = View(answer.comparison, seed=0)
    for k in range(1, len(runs)):
        mine, reported, row = answer.gain(k), view.pairs[0][k], rows.iloc[k - 1]
        for name in ("value", "corrected_p", "low", "high"):
            there = row["difference" if name == "value" else name]
            assert getattr(mine, name) == pytest.approx(getattr(reported, name)) == pytest.approx(there)
        assert mine.verdict == view.verdict(k, 0) == row.verdict


@pytest.mark.parametrize(
    ("system", "withheld"),
    [
        ("slurm", ["saf + 24 h"]),
        ("pbs", []),
        ("flux", ["spf", "saf", "saf + 24 h"]),
        ("oar", ["fcfs", "spf", "saf", "saf + 24 h"]),  # nothing in full, not even fcfs
    ],
)
def test_a_batch_system_is_offered_only_what_it_can_do(log, system, withheld):
    found = what_if(log, thresholds_s=[24 * HOUR_S], small_first=False, max_wait_growth=1000.0, system=system)
    assert [found.outcomes[k].name for k in found.withheld] == withheld
    assert list(found.as_dict()["withheld"]) == withheld
    assert not {limit.advised for limit in found.limits if limit.advised} & set(found.withheld)
    assert not set(found.offered) & set(found.withheld)
    text = told(found)
    assert ("not offered for" in text) == bool(withheld)
    if system in ("flux", "oar"):
        assert head(found) == f"Keep fcfs: {SYSTEMS[system].title} can do none of the other choices"
        assert "can do none of the" in page_of(found, log)
    if system == "slurm":
        one = found.limits[0]._replace(advised=0, by_slowdown=0, longest_s=1e9)
        k = next(iter(found.withheld))
        why = said(found, "Why", one)
        assert "Nothing that Slurm can be configured for is better" in why
        assert "approximately" not in why  # Slurm cannot do saf + 24 h
        tries = found.outcomes[k]._replace(options={"preset": "first-tries"}, name="first tries")
        outcomes = [tries if o is found.outcomes[k] else o for o in found.outcomes]
        why = said(replace(found, outcomes=outcomes), "Why", one)
        assert "; first tries would be, but Slurm can do it only approximately." in why
    if found.limit.advised:
        assert f"batfill export-config {system} " in text
        words = text.split(f"batfill export-config {system} ")[1].split("`")[0]
        assert batfill("export-config", system, *words.split()).status == 0


def test_the_advised_command_leaves_out_what_only_replays_take(log):
    answer = what_if(log, thresholds_s=[3600], small_first=False, feedback="after:20min:fcfs", max_wait_growth=1000.0)
    assert "--feedback" not in export_text(answer)
    given = what_if(log, thresholds_s=[3600], small_first=False, feedback="after:20min:fcfs", system="slurm")
    assert list(given.withheld) == [3]  # saf + 1 h


def test_a_page_is_made_where_a_system_gives_every_job_a_reservation_and_the_order_of_backfilling_is_given(log):
    answer = what_if(log, thresholds_s=[3600], small_first=False, backfill="saf")
    assert "every job reserved" in page_of(answer, log)


def test_first_tries_are_replayed_and_their_promise_is_checked(log):
    found = what_if(log, thresholds_s=[3600, 7200, 10_800], seed=1)
    tries = found.outcomes[1]
    assert (tries.name, tries.effort, options_words(tries.options)) == ("first tries", KILLS, "--preset first-tries")
    figures = json_result("replay", log, "--preset", "first-tries")
    large = figures["waits_by_class"][1]["max_wait_s"]
    assert tries.waits["small_below_s"] == figures["small_below_s"]
    assert (tries.max_wait_s, tries.large_max_wait_s) == (figures["max_wait_s"], large)
    assert tries.mean_bsld == pytest.approx(figures["mean_bsld"])
    assert (tries.kills, tries.wasted) == (figures["requeued"], figures["wasted"])
    assert tries.kills > 0
    killed = tries.payers.killed
    assert said(found, "Kills", chosen=1).startswith(
        f"{killed.jobs:,} jobs once, after 2 min, {percent(tries.wasted)} of"
    )
    assert f"first tries: {tries.kills:,} tries are killed" in told(found)
    assert [check.load for check in found.checks] == [1, 1.1]
    usual, busier = (check.base[0][Figures._fields.index("wait")] for check in found.checks)
    assert busier > usual
    advice = found.limits[-1]._replace(advised=1)
    assert found.outcomes[found.runner_up(advice)].effort < KILLS


@pytest.mark.needs("pandas")
def test_who_pays_is_measured_against_fcfs(log, answer):
    jobs = read_workload(log).jobs
    large = jobs.runtime_s >= np.median(jobs.runtime_s)
    waits = answer.comparison.wait_s
    for wait_s, one in zip(waits, answer.outcomes, strict=True):
        longer_s = (wait_s - waits[0])[large]
        assert one.small_mean_wait_s == pytest.approx(wait_s[~large].mean())
        assert one.large_mean_wait_s == pytest.approx(wait_s[large].mean())
        assert one.large_p999_wait_s == pytest.approx(np.quantile(wait_s[large], 0.999))
        assert one.large_delayed == pytest.approx((longer_s > HOUR_S).mean())
        late = longer_s[longer_s > HOUR_S]
        assert one.large_mean_delay_s == (pytest.approx(late.mean()) if len(late) else None)
        assert {row["user"] for row in one.waits["waits_by_user"]} == set(jobs.user.tolist())
        longer_s = wait_s - waits[0]
        if (most := one.payers.job) is not None:
            row = jobs.ids.tolist().index(most.job.zfill(len(jobs.ids[0])))
            assert (most.before_s, most.after_s, longer_s[row]) == (waits[0][row], wait_s[row], longer_s.max())
            start_s = jobs.submit_s + wait_s
            later = (jobs.submit_s > jobs.submit_s[row]) & (start_s < start_s[row])
            assert (most.user, most.procs, most.passed) == (jobs.user[row], jobs.procs[row], later.sum())
            text = said(answer, "Loses most", chosen=answer.outcomes.index(one))
            assert text.startswith(f"job {most.job} ({most.procs} processor")
            assert most.raised == (jobs.runtime_s[row] > jobs.user_request_s[row])
            assert ("in the log, raised to its run time" in text) == most.raised
            assert f"; user {most.user}) waits {duration(most.after_s)} (fcfs: {duration(most.before_s)}), " in text
        if (loser := one.payers.user) is not None:
            means = {who: (wait_s - waits[0])[jobs.user == who].mean() for who in np.unique(jobs.user)}
            assert loser.user == max(means, key=means.get)
            text = said(answer, "Of the users", chosen=answer.outcomes.index(one))
            assert text.startswith(f"{loser.user} loses most, ")
            assert loser.after_s - loser.before_s == pytest.approx(means[loser.user])
        if (gainer := one.payers.gainer) is not None:
            means = {who: (wait_s - waits[0])[jobs.user == who].mean() for who in np.unique(jobs.user)}
            assert gainer.user == min(means, key=means.get)
            text = said(answer, "Of the users", chosen=answer.outcomes.index(one))
            assert f"{gainer.user} gains most, {duration(gainer.after_s)} (fcfs: " in text
    assert [one.payers.gainer is None for one in answer.outcomes] == [True, False, False, False, False]
    assert answer.as_dict()["outcomes"][2]["payers"]["gainer"] == answer.outcomes[2].payers.gainer._asdict()
    assert answer.outcomes[0].payers.job is None
    assert max(one.large_delayed for one in answer.outcomes) > answer.outcomes[0].large_delayed == 0
    stated = answer.as_dict()["outcomes"][1]
    assert stated.items() >= answer.outcomes[1].waits.items()
    assert stated["payers"]["job"] == answer.outcomes[1].payers.job._asdict()
    assert "waits" not in answer.to_pandas().columns


def test_options_hold_for_every_choice_that_can_take_them(log):
    found = json_result("what-if", log, "--no-small-first", "--threshold", "6h", "--backfill", "spf")
    assert (found["backfill"], found["stand_back"], found["bound"]) == ("spf", None, None)
    for outcome in found["outcomes"]:
        assert outcome["options"]["backfill"] == "spf"
        policy, *more = outcome["name"].split(" + ")
        threshold = ["--threshold", "6h"] if more else []
        alone = json_result("replay", log, "--policy", policy, "--backfill", "spf", *threshold)
        assert outcome["mean_bsld"] == pytest.approx(alone["mean_bsld"])
    tried = {one.name: one.options for one in choices([6 * HOUR_S], True, {"kill": "always", "bound": False})}
    assert [name for name, options in tried.items() if options.get("kill") == "always"] == ["first tries"]
    assert [name for name, options in tried.items() if "bound" in options] == ["first tries"]


def test_advice_on_invented_requests_is_not_to_be_trusted(tmp_path):
    rows = (row(k + 1, k * DAY_S // 3, 600, req_time=-1 if k % 3 else 3600, user=1) for k in range(240))
    path, page = log_of(tmp_path / "invented.swf", rows), tmp_path / "page.html"
    words = ("what-if", path, "--no-small-first", "--unrequested", "runtime")
    done = batfill(*words, "-o", page)
    caution = "it rests on invented requests; 160 of 240 jobs (66.7 %) have no requested time"
    assert "\nDo not trust this advice: 67 % of the requests are invented\n" in done.out
    assert caution[1:] in " ".join(done.out.split())
    shown = page.read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "Do not trust this advice" in shown[shown.index('id="advice"') :].partition("</div>")[0]
    assert caution[1:] in shown
    found = json.loads(batfill(*words, "--json").out)
    assert found["trusted"] is False
    assert found["cautions"][0].startswith(caution)


def test_advice_from_a_few_days_is_not_to_be_trusted(tmp_path, answer):
    path = log_of(tmp_path / "short.swf", (row(k + 1, 60 * k, 600, req_time=600) for k in range(100)))
    found = what_if(path, small_first=False)
    assert found.undecided == "1 day is too few, another day may differ: it takes 12 weeks"
    assert head(found) == "Cannot tell: 1 day is too few, another day may differ"
    assert (found.as_dict()["advice"], found.as_dict()["trusted"]) == (None, False)
    assert found.as_dict()["limits"] == []
    for text in (told(found), page_of(found, path)):
        assert "Cannot tell: 1 day is too few, another day may differ" in text
        assert "Keep" not in text
        assert "Confidence" not in text
        assert "class=chosen" not in text
    assert answer.cautions == ()


def test_the_command_prints_a_table_and_writes_a_page(log, answer, tmp_path):
    page = tmp_path / "page.html"
    done = batfill("what-if", log, "--threshold", "6h", "--threshold", "24h", "--no-small-first", "-o", page)
    assert (done.status, done.err) == (0, f"batfill: open it in a browser: {page}\n")
    assert done.out == answer_text(answer) + "\n"
    assert "who pays" in page.read_text()
    assert max(map(len, done.out.splitlines())) <= 80
    assert len(done.out.splitlines()) <= 24
    details = batfill("what-if", log, "--threshold", "6h", "--threshold", "24h", "--no-small-first", "--details")
    assert details.out.endswith(f"\n\n{done.out}")  # the advice is last
    assert "Against fcfs: slowdown" in details.out
    both = batfill("what-if", log, "--details", "--json")
    assert (both.status, both.out) == (2, "")
    assert "--details: --json has all of them" in both.err


@pytest.fixture
def page(answer, log, browser, tmp_path):
    """The answer in a browser."""
    path = tmp_path / "page.html"
    path.write_text(page_of(answer, log))
    browser.sized(1280, 800)
    browser.open(path)
    yield path
    assert browser.log() == []


def text_of(browser, selector):
    return " ".join(browser.run(f"return document.querySelector('{selector}').innerText").split())


def slid(browser, at):
    """Move the slider of the limit there, and find where on the page it is."""
    return browser.run(
        "const grow = document.getElementById('grow'); grow.value = arguments[0];"
        "grow.dispatchEvent(new Event('input')); return grow.getBoundingClientRect().top",
        at,
    )


def chosen(browser, k):
    """Press the button of this choice."""
    browser.run(f"document.querySelector('[data-pick=\"{k}\"] button').click()")


# How many leaders of the chart touch the mark of another choice than their own.
CROSSED = """
const marks = [...document.querySelectorAll('#tradeoff .pick')].map((e) => e.getBBox())
  .map((b) => [b.x + b.width / 2, b.y + b.height / 2, Math.min(b.width, b.height) / 2 - 1]);
const ends = [...document.querySelectorAll('#tradeoff line[stroke="var(--mark)"]')]
  .map((l) => ['x1', 'y1', 'x2', 'y2'].map((name) => Number(l.getAttribute(name))));
return ends.filter(([x, y, toX, toY]) => marks.some(([mx, my, r]) => Math.hypot(x - mx, y - my) > 3
  && [...Array(45).keys()].map((k) => (k + 5) / 49)
    .some((k) => Math.hypot(x + k * (toX - x) - mx, y + k * (toY - y) - my) < r))
).length
"""
SHOWN = "return [...document.querySelectorAll('[data-choice]')].filter((e) => !e.hidden).map((e) => e.dataset.choice)"
MARKED = "return [...document.querySelectorAll('tr.chosen')].map((e) => [...Object.entries(e.dataset)].flat())"


@pytest.mark.usefixtures("page")
def test_the_slider_stays_where_it_is(browser, answer):
    assert len({slid(browser, at) for at in range(len(answer.limits))}) == 1


def test_it_is_said_where_moved_submissions_leave_the_limit(answer):
    base, longest_s = np.ones((2, len(Figures._fields))), answer.outcomes[0].max_wait_s
    found = with_tries(answer, answer.limits[-1].advised, checks=(Check(base * [[1.0], [1.208]], base, 100),))
    text = "the longest wait was 1.00 to 1.21 times fcfs's, in part above this limit."
    for growth, there in ((1.1, True), (1.25, False)):
        limit = answer.limits[-1]._replace(growth=growth - 1, longest_s=growth * longest_s)
        assert (text in spread_text(found, limit)) == there
    assert spread_text(found, answer.limits[-1]) == ""


@pytest.mark.usefixtures("page")
def test_the_limit_moves_the_advice_and_what_is_shown_of_it(browser, answer):
    for at in (len(LIMITS), 0, 2):
        slid(browser, at)
        advised = answer.limits[at].advised
        assert text_of(browser, "#advice .answer") == " ".join(head(answer, answer.limits[at]).split())
        assert f"Why {said(answer, 'Why', answer.limits[at])}"[:40] in text_of(browser, "#brief")
        assert answer.outcomes[advised].name in text_of(browser, "#four tr.chosen, #four")
        assert set(browser.run(SHOWN)) == {str(advised)}
        _, (limit, run), picked = browser.run(MARKED)
        assert (limit, str(at) in run.split(), picked) == ("limit", True, ["pick", str(advised)])
        aloud = browser.run("return document.getElementById('grow').ariaValueText")
        assert answer.outcomes[advised].name in aloud.replace("\u00a0", " ")


@pytest.mark.usefixtures("page")
def test_a_point_and_a_row_show_who_pays_under_another_choice(browser, answer):
    other = named(answer, "spf")
    chosen(browser, other)
    assert text_of(browser, "#advice .answer").startswith("If you took spf: shortest first")
    assert set(browser.run(SHOWN)) == {str(other)}
    browser.run("document.querySelectorAll('#tradeoff .pick')[0].dispatchEvent(new Event('click'))")
    shown = {int(k) for k in browser.run(SHOWN)}
    assert len(shown) == 1
    assert shown != {other}
    assert browser.run("return document.getElementById('tradeoff').dataset.unnamed") == "0"


@pytest.mark.usefixtures("page")
def test_the_address_names_the_choice_and_a_button_leads_back_to_the_advice(browser, answer, page):
    other, limit = named(answer, "spf"), answer.limit
    assert limit.advised != other
    assert "Confidence" in text_of(browser, "#brief")
    chosen(browser, other)
    address = browser.run("return location.hash")
    assert address == "#limit=10&choice=spf"
    assert "Confidence" not in text_of(browser, "#brief")
    assert text_of(browser, "#advice .answer").startswith("If you took spf: shortest first")
    browser.run("document.getElementById('back').click()")
    assert set(browser.run(SHOWN)) == {str(limit.advised)}
    assert browser.run("return document.getElementById('back')") is None
    browser.call("POST", "/url", {"url": f"{page.resolve().as_uri()}#limit=any&choice=spf"})
    browser.run("location.reload()")
    browser.waited("return document.documentElement.dataset.ready === 'yes'")
    assert set(browser.run(SHOWN)) == {str(other)}
    assert browser.run("return document.getElementById('grown').textContent") == "any amount"


@pytest.mark.usefixtures("page")
def test_printed_the_folds_open_and_the_configuration_files_stay_out(browser):
    browser.sized(718, 1_047, media="print")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("return document.querySelectorAll('details:not([open])').length") == 0
    seen = "return [...document.querySelectorAll('#configuration pre')].some((e) => e.checkVisibility())"
    assert browser.run(seen) is False
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run("return document.querySelectorAll('details[open]').length") == 0
    browser.sized(1280, 800)


@pytest.mark.usefixtures("page")
def test_on_a_phone_axe_finds_nothing_and_no_leader_crosses_a_mark(browser):
    for width in (320, 390):
        browser.sized(width, 844)
        browser.frame()
        assert browser.run(CROSSED) == 0
    browser.run("for (const e of document.querySelectorAll('details')) e.open = true; scrollers()")
    assert browser.violations() == []
    left, right = browser.run(
        "const four = document.querySelector('#four table').getBoundingClientRect(),"
        "captions = [...document.querySelectorAll('caption')].map((each) => each.getBoundingClientRect().right);"
        "return [four.left, Math.max(four.right, ...captions)]"
    )
    assert left >= 16
    assert right <= 390 - 16


def test_the_page_links_its_documentation_where_a_build_gives_the_address(answer, log, monkeypatch):
    assert "<a href" not in page_of(answer, log)
    monkeypatch.setattr(version, "DOCUMENTATION", "https://docs.example")
    links = re.findall('<a href="https://docs.example/([^"#]+)', page_of(answer, log))
    assert links
    assert [link for link in links if not (DOCS / link).with_suffix(".md").is_file()] == []


def test_without_a_script_the_answer_the_tables_and_the_bars_are_there(answer, text):
    still = re.sub("(?s)<script.*?</script>", "", text)
    assert "Why lower points are not advised: see Why." in still
    unlimited = re.sub('(?s)<div class="limit controls live" hidden>.*?</div></div>', "", still)
    dead = re.findall("<(?:button|input)[^>]*>", unlimited)
    assert [one for one in dead if "hidden" not in one and 'name="system"' not in one] == []
    for found in (answer.advice.words[1:].replace(" h", f"{NB}h"), "The advice at each limit", "PBS"):
        assert found in still
    runs = [run.split() for run in re.findall('data-limit="([^"]+)"', still)]
    assert list(itertools.chain(*runs)) == [str(i) for i in range(len(answer.limits))]
    assert len(runs) < len(answer.limits)
    assert all(len({answer.limits[int(i)].advised for i in run}) == 1 for run in runs)
    assert still.count("data-pick=") == len(answer.outcomes)
    panels = re.findall("(?s)<div data-choice=(\\d+)( hidden)?><h2>Who gains", still)
    assert [int(k) for k, hidden in panels if not hidden] == [answer.limit.advised]


def test_the_page_says_which_choices_a_batch_system_cannot_do(answer, text):
    assert "Flux cannot do saf" in text
    assert "PBS can be configured for saf" in text
    saf = answer.outcomes[named(answer, "saf")]
    plain = re.sub("<[^>]+>", "", text).replace("\u00a0", " ")
    assert "Slurm cannot do saf + 24 h. The nearest that it can do is smallest area first (saf): mean wait" in plain
    part = plain.split("Slurm cannot do saf + 24 h. ")[1].split("These files give saf alone.")[0]
    assert f"longest wait {duration(saf.max_wait_s)}" in part
    assert "OAR cannot do saf + 24 h. These files give smallest area first, every job reserved" in plain
    assert "no figure here is theirs" in plain
    slurm = plain.split("Slurm cannot do saf + 24 h.")[1].split("Copy slurm.conf")[1]
    assert slurm.startswith("# Smallest area first, for Slurm 22.05")


def test_a_log_without_users_says_so(tmp_path, log):
    path = tmp_path / "nobody.swf"
    path.write_text(with_field(log.read_text(), 11, "-1"))
    found = what_if(path, thresholds_s=[6 * HOUR_S], small_first=False)
    assert {o.payers.users for o in found.outcomes} == {None}
    assert "The log does not say whose the jobs are." in page_of(found, path)
    assert "the log names no such users" in told(found)


def test_the_waits_beside_the_logged_ones_are_those_of_this_replay(tmp_path, light):
    calendar, log = tmp_path / "windows.csv", tmp_path / "waited.swf"
    log.write_text(with_field(light.read_text(), 2, "7000"))
    calendar.write_text(f"kind,begin,end,processors\nannounced,0,{40 * DAY_S},4\n")
    found = what_if(log, thresholds_s=[6 * HOUR_S], small_first=False, calendar=calendar)
    assert found.logged.logged_mean_s == 7000
    assert found.logged.simulated_mean_s == pytest.approx(found.outcomes[0].mean_wait_s)
    assert found.fidelity.plain.simulated_mean_s < found.logged.simulated_mean_s
    assert "Without the options given, on this log simulated waits are" in told(found)
    scaled = tmp_path / "scaled.swf"
    assert batfill("workload", "scale", log, "--interarrival", "0.9", "-o", scaled).status == 0
    found = what_if(scaled, small_first=False)
    assert found.logged is found.as_dict()["logged"] is None
    assert "The log's submissions were scaled, so how near simulated waits are" in told(found)
    marked = tmp_path / "marked.swf"  # by an earlier version, which kept the waits
    marked.write_text("; Note: made_by batfill 0.1.0 workload resample, seed 1\n" + log.read_text())
    assert "the log's submissions were resampled" in batfill("fidelity", marked, "--no-fit").err


def test_a_calendar_is_named_by_its_file(tmp_path, log):
    """In JSON, on the page, and in the command that prints a configuration."""
    calendar, page = tmp_path / "windows.csv", tmp_path / "page.html"
    calendar.write_text("kind,begin,end,processors\nannounced,86400,172800,32\n")
    words = ("what-if", log, "--no-small-first", "--threshold", "6h", "--calendar", calendar)
    found = json_result(*words)
    assert found["calendar"] == found["outcomes"][0]["options"]["calendar"] == str(calendar)
    assert batfill(*words, "--out", page).status == 0
    assert f"calendar {calendar}" in page.read_text()
    answer = what_if(log, thresholds_s=[6 * HOUR_S], small_first=False, calendar=calendar)
    assert options_words(answer.outcomes[0].options) == f"--calendar {calendar} --policy fcfs"


@pytest.mark.compiled
def test_what_if_says_what_the_advice_gains_if_users_react():
    made = generate_workload(jobs=12_000, procs=32, load=0.5, seed=1)
    opened = replay(made, "fcfs").schedule
    log = replace(made, jobs=replace(made.jobs, waited_s=opened.wait_s))
    answer = what_if(log, small_first=False, max_wait_growth=5)
    advice = answer.advice.options
    advice = {name.replace("threshold", "threshold_s"): value for name, value in advice.items()}
    by_hand = [replay(log, **options, feedback="after:20min") for options in (advice, {"policy": "fcfs"})]
    assert answer.reaction.open == answer.advice.mean_bsld / answer.outcomes[0].mean_bsld
    assert answer.reaction.closed == by_hand[0].figures.mean_bsld / by_hand[1].figures.mean_bsld
    assert by_hand[1].schedule.closed().moved == 0
    assert f"is {answer.reaction.closed:.2f} of fcfs's, not {answer.reaction.open:.2f}" in reaction_text(answer)
    assert what_if(made, small_first=False, max_wait_growth=5).reaction is None
    closed = what_if(log, small_first=False, max_wait_growth=5, feedback="after:20min")
    assert closed.reaction is None
    assert closed.settings["feedback"] == "after:1200"
    assert closed.outcomes[0].mean_bsld == answer.outcomes[0].mean_bsld


@pytest.mark.compiled
@pytest.mark.parametrize("depth", [0, 2, "all"])
def test_what_if_and_a_replay_have_the_same_waits_at_any_depth(depth):
    log = generate_workload(jobs=300, procs=16, seed=3)
    found = what_if(log, depth=depth, small_first=False, thresholds_s=[3600])
    schedule = replay(log, "fcfs", depth=depth).schedule
    assert found.comparison.wait_s[0].tolist() == (schedule.start_s - schedule.jobs.submit_s).tolist()


def test_the_first_screen_says_which_rows_are_left_out_and_what_a_replay_knows_nothing_of(tmp_path, light):
    path = tmp_path / "left.swf"
    lines = light.read_text().splitlines()
    head_of, rows = lines[:3], [line.split() for line in lines[3:]]
    for k, one in enumerate(rows):
        one[14], one[15] = str(k % 3), str(1 + k % 2)  # queue and partition
        one[2] = "60"
    for one in rows[3:8]:
        one[3], one[10] = "0", "5"  # cancelled before it ran
    rows[9][3] = "-1"
    rows[10][4] = rows[10][7] = "5"  # wider than the machine
    noted = "; Note: 7 of 252 jobs requested GPUs, which is not modelled"
    imported = "; Note: 12 records: of other clusters"
    path.write_text(
        "\n".join([*head_of, "; Conversion: x, from slurm accounting", noted, imported, *map(" ".join, rows)])
    )
    found = what_if(path, thresholds_s=[6 * HOUR_S], small_first=False)
    left = "6 of 252 rows (run time <= 0 or unknown; 5 cancelled); 12 records: of other clusters; 1 job wider than"
    assert said(found, "Left out").startswith(left)
    assert said(found, "Not modelled").startswith("2 partitions; 3 queues; 7 of 252 jobs requested GPUs")
    assert " in the log; simulated ones are " in said(found, "Real waits")
    assert found.as_dict()["site_log"]["system"] == "slurm"
    system = said(found, "System", chosen=named(found, "saf + 6 h"))
    assert "Slurm, the system of this log, can run only saf instead of saf + 6 h (longest wait" in system
    for text in (told(found), " ".join(html.unescape(re.sub("<[^>]+>", " ", page_of(found, path))).split())):
        assert left in text.replace(NB, " ")


def test_the_log_is_compared_with_what_explains_its_waits(answer):
    found = graded(answer, 0.5)
    real = "mean 2 h 46 min, longest 9 d (job 12, user 3) in the log; simulated ones are"
    assert said(found, "Real waits") == f"{real} 0.50 of them; `batfill fidelity` finds no cause."
    near = found.fidelity._replace(explained="85 % of the processors", explained_ratio=0.6)
    assert replace(found, fidelity=near).as_dict()["explained_ratio"] == 0.6
    far = f"{real} 0.50 of them; with 85 % of the processors, 0.60: most is unexplained."
    assert said(replace(found, fidelity=near), "Real waits") == far
    near = near._replace(explained_ratio=1.1)
    assert said(replace(found, fidelity=near), "Real waits").endswith("with 85 % of the processors, 1.10.")
    assert said(found, "Left out") == "no row of the log; partition unknown, queue unknown."
    one = found.site._replace(places={"partition": 2, "queue": 1})
    assert said(replace(found, site=one), "Left out") == "no row of the log; one queue."
    assert said(graded(answer, 1.05), "Real waits") == f"{real} 1.05 of them."


def test_without_a_system_given_it_is_said_what_the_logs_own_or_slurm_can_do_of_both_choices(answer):
    saf = named(answer, "saf")
    whole = "Slurm and PBS can be configured for it. No real run checks these figures."
    assert said(answer, "System", chosen=saf) == whole
    only = "; Slurm can run only saf instead of saf + 24 h (longest wait "
    assert only in said(answer, "System", chosen=named(answer, "saf + 24 h"))
    limit = answer.limits[-1]
    tries = with_tries(answer, limit.advised)
    name, of_it = tries.outcomes[gentle := tries.runner_up(limit)].name, able_text(tries, limit, gentle, "slurm")
    both = "Slurm can run first tries but for 4 details"
    both += f", {of_it.format(name)}. " if tries.configurations[gentle]["slurm"].verdict != EXPRESSIBLE else ". "
    assert said(tries, "System", limit).startswith(both.replace(NB, " "))
    two = [able_text(answer, limit._replace(longest_s=1.0), named(answer, f"saf + {h} h"), "slurm") for h in (6, 24)]
    assert two[0] == two[1]
    assert two[0].endswith(", beyond the limit)")
    pbs = replace(answer, settings={**answer.settings, "system": "pbs"})
    assert said(pbs, "System", chosen=saf).startswith("PBS can be configured for saf. No real run")


def test_what_killed_jobs_pay_and_one_of_them_is_said(log):
    workload = read_workload(log)
    found = what_if(log, thresholds_s=[DAY_S])
    payers = found.outcomes[1].payers
    runs = [replay(workload, **options).schedule for options in ({"policy": "fcfs"}, {"preset": "first-tries"})]
    rows = np.unique(runs[1].kills["row"])
    longer_s = (runs[1].wait_s - runs[0].wait_s)[rows]
    assert (payers.killed.jobs, payers.killed.share) == (len(rows), len(rows) / len(workload.jobs))
    assert payers.killed.longer == (longer_s > 600).mean()
    one = payers.killed.example
    assert one.after_s - one.before_s == np.sort(longer_s)[len(rows) // 2]
    row = workload.jobs.ids.tolist().index(one.job.zfill(len(workload.jobs.ids[0])))
    assert (one.ran_s, one.tried_s) == (
        120,
        runs[1].kills["start_s"][runs[1].kills["row"] == row] - runs[1].submit_s[row],
    )
    assert said(found, "Kills", chosen=1).endswith(f"; {percent(payers.killed.longer)} wait longer.")
    assert f"user {one.user}) waits {duration(one.after_s)} in all (fcfs: {duration(one.before_s)})." in told(found)


def test_each_configuration_and_whether_the_log_decides_are_computed_once(log, monkeypatch):
    made, asked = [], []
    site_config, undecided = trying.site_config, library.undecided
    monkeypatch.setattr(trying, "site_config", lambda *a, **how: made.append((a, str(how))) or site_config(*a, **how))
    monkeypatch.setattr(library, "undecided", lambda *a: asked.append(a) or undecided(*a))
    trying.configured.cache_clear()
    found = what_if(log, thresholds_s=[DAY_S], small_first=False, system="slurm")
    page_of(found, log)
    told(found)
    assert len(made) == len(set(made)) == len(found.outcomes) * len(SYSTEMS)
    assert len(asked) == 1


def test_the_page_says_where_the_files_are_that_no_figures_are_theirs(answer, text):
    plain = html.unescape(text).replace("\u00a0", " ")
    for k in range(len(answer.outcomes)):
        for one in answer.configurations[k].values():
            assert not one.files or f"Tested: {one.tested}. Figures: {FIGURES}." in plain


def test_what_if_under_a_pool_compares_the_jobs_that_fit_it():
    sample = Path(__file__).parents[2] / "workloads" / "sample.json"
    jobs = read_workload(sample).jobs
    answer = what_if(sample, small_first=False, pool="slots=40@1")
    assert answer.comparison.bsld.shape[1] == (jobs.procs <= 40).sum() < len(jobs)
    with pytest.raises(BatfillError, match="option pool: every job wants more than there is of slots=1@2"):
        what_if(sample, small_first=False, pool="slots=1@2")


# Caps, budgets and gates

CAPS = {
    "pool": ("slots=40@1", "fcfs without the cap"),
    "energy-budget": ("60MWh@0..119d,watts=1kW", "fcfs without the budget"),
    "backfill-while": ("nights.csv", "fcfs without the gate"),
}


@pytest.fixture
def nights(tmp_path, monkeypatch):
    """A gate, in the folder of the test: the first six hours of each day."""
    monkeypatch.chdir(tmp_path)
    periods = [f"{day * DAY_S},{day * DAY_S + 6 * HOUR_S}\n" for day in range(130)]
    (tmp_path / "nights.csv").write_text("begin,end\n" + "".join(periods))


@pytest.mark.parametrize("name", CAPS)
def test_a_cap_has_a_row_and_a_line_that_say_what_it_costs_fcfs_and_who_pays(log, nights, name):
    value, called = CAPS[name]
    argument = {name.replace("-", "_"): value}
    found = what_if(log, thresholds_s=[24 * HOUR_S], small_first=False, **argument)
    runs = [replay(log, "fcfs", **given).schedule for given in ({}, argument)]
    allowed = ~runs[1].rejected
    waits = [replay_jobs(run.jobs.select(allowed), 64, Rules(policy_named("fcfs"))).wait_s for run in runs[:1]]
    waits.append(runs[1].wait_s[allowed])  # a job that is rejected delays no other
    cost, longer = found.cost, waits[1] - waits[0]
    assert cost.mean_wait_s == pytest.approx(waits[0].mean())
    assert cost.max_wait_s == waits[0].max()
    assert cost.longer.value == pytest.approx(longer.mean())
    assert cost.longer.value > 60
    assert cost.longer.low < cost.longer.value < cost.longer.high
    assert cost.payers.jobs == Changed.of(longer)
    assert cost.left_out == (~allowed).sum()
    assert (cost.left_out > 0) == (name == "pool")
    assert found.outcomes[0].mean_wait_s == pytest.approx(waits[1].mean())  # all choices are under the cap
    assert found.site.wide == 0
    shown = answer_text(found)
    assert [line.split("  ")[0] for line in shown.splitlines()].count(called) == 1
    line = " ".join(shown.split("\nCap: ")[1].split("\nSystem: ")[0].split())
    assert line.startswith(f"{value if name == 'pool' else next(iter(cost.limits))}")
    assert f": fcfs's mean wait +{duration(cost.longer.value)} (95 % interval " in line
    assert f"; {percent(Changed.of(longer).share)} of jobs, " in line
    assert " users with 20 or more, wait over 10 min longer" in line
    one = replace(found, cost=cost._replace(longer=replace(cost.longer, low=0.0)))
    assert " (95 % interval 0 to +" in said(one, "Cap")
    few = replace(found, cost=cost._replace(longer=replace(cost.longer, merged=4, blocks=10)))
    caution = ", which may be too narrow: it rests on 10 groups of correlated weeks)"
    assert caution in said(few, "Cap")
    alone = replace(found, cost=cost._replace(longer=replace(cost.longer, merged=1)))
    assert "too narrow" not in said(alone, "Cap")
    assert (f"; left out: {cost.left_out} jobs that would never fit." in line) == (name == "pool")
    assert "own starts" not in line  # which a generated log does not have
    assert len(shown.splitlines()) <= 24
    assert max(map(len, shown.splitlines())) <= 80
    assert "\nLoses most: " not in shown  # for which there is no room
    assert "Loses most" in page_of(found, log)
    page = html.unescape(page_of(found, log)).replace(NB, " ")
    assert f">{called}<" in page
    stored = found.as_dict()
    assert stored["cost"]["mean_wait_s"] == cost.mean_wait_s
    assert stored["cost"]["longer"]["high"] == cost.longer.high
    assert [row["role"] for row in stored["summary"]][-1] == "fcfs without limits"
    json.dumps(stored)


def test_a_cap_that_never_binds_costs_nothing_and_what_the_log_itself_used_is_said(tmp_path, light):
    lines = light.read_text().splitlines()
    path = tmp_path / "waited.swf"
    rows = [line.split() for line in lines[3:]]
    path.write_text("\n".join([*lines[:3], *(" ".join([*one[:2], "60", *one[3:]]) for one in rows)]))
    found = what_if(path, thresholds_s=[6 * HOUR_S], small_first=False, pool="power=1MW@100W")
    jobs = read_workload(path).jobs
    starts = jobs.submit_s + 60
    used = max(jobs.procs[(starts <= at_s) & (starts + jobs.runtime_s > at_s)].sum() for at_s in starts)
    amount = amount_text(100 * int(used), "W")
    leaves = "leaves fcfs's mean wait as it is. The log's own starts"
    assert said(found, "Cap") == f"power=1MW@100W {leaves} used up to {amount}."
    assert found.cost.longer.value == 0
    found = what_if(path, thresholds_s=[6 * HOUR_S], small_first=False, energy_budget="9GWh@0..99d,watts=1W")
    assert said(found, "Cap") == f"energy-budget 9GWh@0..8553600,watts=1W {leaves} are without it."


def test_without_its_pool_fcfs_has_the_windows_of_processors_alone(tmp_path, log):
    head, row = "kind,begin,end,processors,announced,pool\n", "announced,{0},{1},{2}\n"
    nights = [row.format(k * DAY_S, k * DAY_S + 6 * HOUR_S, "20,,slots") for k in range(1, 100)]
    whole, part = tmp_path / "whole.csv", tmp_path / "part.csv"
    part.write_text(head + row.format(DAY_S, 9 * DAY_S, "40,,"))
    whole.write_text(part.read_text() + "".join(nights))
    found = what_if(log, thresholds_s=[], small_first=False, pool="slots=64@1", calendar=whole)
    plain, mixed = replay(log, "fcfs", calendar=part), replay(log, "fcfs", pool="slots=64@1", calendar=whole)
    assert found.cost.mean_wait_s == pytest.approx(plain.schedule.wait_s.mean())
    assert found.outcomes[0].mean_wait_s == pytest.approx(mixed.schedule.wait_s.mean())
    assert found.cost.longer.value > 60


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_a_site_limits_whatever_the_order_is_no_reason_against_a_choice(log, nights, system):
    Path("windows.csv").write_text("kind,begin,end,processors\nannounced,86400,172800,32\n")
    limits = {name.replace("-", "_"): value for name, (value, _) in CAPS.items()} | {"calendar": "windows.csv"}
    how = {"thresholds_s": [24 * HOUR_S], "small_first": False, "system": system}
    free, found = what_if(log, **how), what_if(log, **how, max_running=50, **limits)
    assert found.withheld == free.withheld
    line = said(found, "System")
    title = SYSTEMS[system].title
    for name, lacking in BESIDE.items():
        lacks = name != "max_running" or system != "slurm"  # whose files have it
        assert (lacking in line.split(f" {title}'s files lack ")[1]) == lacks
    assert "files lack" not in said(free, "System")
    assert ", except" not in line
    words = export_text(found).split(f"batfill export-config {system} ")[1].split("`")[0]
    assert "--pool slots=40@1" in words
    assert batfill("export-config", system, *words.split()).status == 0


def test_what_a_system_lacks_of_a_choice_is_counted(light):
    found = what_if(light, thresholds_s=[], system="slurm")
    details = len(found.configurations[1]["slurm"].lacks)
    line = said(found, "System", chosen=1)
    assert line == f"Slurm can run first tries but for {details} details. No real run checks these figures."
    assert details > 1


def test_gpus_are_modelled_where_a_pool_has_them(tmp_path):
    path = tmp_path / "jobs.txt"
    head = "JobID|Submit|Eligible|Start|End|TimelimitRaw|AllocCPUS|AllocTRES|State\n"
    rows = [f"{k}|{k * 9000}|{k * 9000}|{k * 9000}|{k * 9000 + 600}|60|4|cpu=4,gres/gpu=1|CD\n" for k in range(1, 99)]
    path.write_text(head + "".join(rows))
    for pool, text in ((None, "98 of 98 jobs had GPUs"), ("gpu=4", None)):
        found = what_if(path, procs=8, thresholds_s=[6 * HOUR_S], small_first=False, pool=pool)
        assert (text is not None) == ("had GPUs" in " ".join(found.site.unmodelled))


def test_other_answers_refuse_a_cap_by_name_or_say_what_is_lacking(log, nights):
    for name, (value, _) in CAPS.items():
        option = [f"--{name}", value]
        assert refusal("fidelity", log, *option).startswith(f"--{name}: no such option")
        with pytest.raises(BatfillError, match="the log is compared with fcfs on processors alone; leave it out"):
            fidelity(log, **{name.replace("-", "_"): value})
        assert f"--{name} " not in batfill("when", "--help").out
        assert f"--{name} " in batfill("what-if", "--help").out
        assert refusal("when", log, "--at", 86400, *option).startswith(f"--{name}: an expected start ")
        for system in SYSTEMS:
            done = batfill("export-config", system, "--policy", "fcfs", *option)
            lacks = {"pool": "the pools of", "energy-budget": "the energy budget", "backfill-while": "the gate"}[name]
            assert done.status == 3
            assert lacks in done.err.splitlines()[-1]
            assert batfill("export-config", system, "--policy", "fcfs", *option, "--approximate").status == 0


def test_an_option_that_only_some_choices_take_is_given_to_those(light):
    found = what_if(light, thresholds_s=[6 * HOUR_S], overdue="half", pool="slots=64@1", small_width=0.25)
    taken = [(o.name, "overdue" in o.options, "small-width" in o.options, "pool" in o.options) for o in found.outcomes]
    assert [name for name, overdue, _, _ in taken if overdue] == ["first tries", "saf + 6 h"]
    assert [name for name, _, width, _ in taken if width] == ["first tries"]
    assert all(pool for *_, pool in taken)


def test_what_if_with_a_gate_from_python_states_its_name():
    sample, night = Path(__file__).parents[2] / "workloads" / "sample.json", [(0, 21_600)]
    answer = what_if(sample, thresholds_s=[], small_first=False, backfill_while=night)
    assert answer.as_dict()["outcomes"][0]["options"]["backfill-while"] == answer.as_dict()["backfill_while"] == "gate"
    assert answer.outcomes[0].mean_wait_s == replay(sample, backfill_while=night).figures.mean_wait_s
