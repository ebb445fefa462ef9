import html
import json
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from batfill.base.errors import BatfillError
from batfill.model.limits.calendar import Calendar
from batfill.model.limits.pools import amount_text
from batfill.model.options import arguments_of
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from batfill.replays.replay import replay
from batfill.workloads import read_workload
from batfill.workloads.generate import generate_log
from batfill.workloads.swf_log import write_log
from batfill_pages.comparison import FEWEST_JOBS, compare
from batfill_pages.comparison_page import View
from batfill_pages.stats import FEWEST_BLOCKS, Paired
from batfill_pages.words import slowdown
from batfill_site.advice.choices import KILLS, ORDER, THRESHOLD, TODAY, choices
from batfill_site.advice.configuration import SYSTEMS
from batfill_site.advice.fill import MOST_WORDS, commands, ends_text, groups_of, options_words, screen
from batfill_site.advice.found import HIGH_P, HIGH_WEEKS, LOW, ChoiceFigures, advised, outdoes
from batfill_site.advice.payers import Changed, Payers, kinds_of
from batfill_site.advice.what_if import LIMITS, limit_of, what_if
from batfill_site.answer import NB, columns, duration, plain, stored
from batfill_site.fidelity import LOW_IDLE, Factors, fidelity
from batfill_site.machine import Held
from batfill_site.score import FAR, Score, Whose
from command import batfill, json_result, refusal
from golden_text import check
from swf_text import row

HOUR_S, DAY_S = 3600, 86_400


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
def text(answer):
    """The page of the answer."""
    return page_of(answer)


def page_of(answer):
    return answer.answer().as_page("batfill what-if")


def told(answer):
    """The text for the terminal with its details, in one line."""
    return " ".join(answer.answer().as_text(details=True).split())


def said(answer, name, limit=None, chosen=None):
    """A line of the first screen, with plain spaces."""
    return plain(screen(answer, limit or answer.limit, chosen).lines[name])


def head(answer, limit=None):
    """The headline, with plain spaces; it is short."""
    text = plain(screen(answer, limit or answer.limit).headline)
    assert len(text.split()) <= MOST_WORDS
    return text


def named(answer, name):
    """The number of the choice of this name."""
    return [o.name for o in answer.outcomes].index(name)


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


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """Thirty weeks that each begin with a rush, whose jobs waited for an hour, and fourteen in which nothing waits."""
    path = tmp_path_factory.mktemp("changed") / "changed.swf"
    made, each, rush_weeks = generate_log(3300, 64, seed=3, users=12, load=0.9), 110, 30
    submit_s = made["submit_s"]
    for week, first in enumerate(range(0, len(submit_s), each)):
        rush = submit_s[first : first + each]
        rush += 7 * DAY_S * week - rush[0]
    write_log(made, path)
    more = (row(10_000 + k, rush_weeks * 7 * DAY_S + k * DAY_S // 4, 600, req_time=600, user=1) for k in range(392))
    lines = [line for line in path.read_text().splitlines() if not line.startswith(";")]
    waited = [" ".join([*one[:2], "3600", *one[3:]]) + "\n" for one in map(str.split, lines)]
    path.write_text("".join(["; MaxProcs: 64\n", *waited, *more]))
    return path


def test_every_choice_is_a_replay_of_the_log(log, answer):
    workload = read_workload(log)
    assert [o.name for o in answer.outcomes] == ["fcfs", "spf", "saf", "saf + 6 h", "saf + 24 h"]
    for outcome in answer.outcomes:
        policy = policy_named(outcome.options["policy"])
        threshold_s = outcome.options.get("threshold", np.inf)
        figures = replay_jobs(workload.jobs, workload.size, Rules(policy, threshold_s=threshold_s)).summary()
        assert outcome.mean_bsld == pytest.approx(figures.mean_bsld)
        assert (outcome.mean_wait_s, outcome.max_wait_s) == (pytest.approx(figures.mean_wait_s), figures.max_wait_s)


def test_a_groups_difference_is_the_mean_over_its_jobs(log, answer):
    jobs = read_workload(log).jobs
    comparison = answer.comparison
    kinds = kinds_of(jobs, 64, jobs.user)
    rows = {(by, name): kind.of == k for by, kind in kinds.items() for k, name in enumerate(kind.names or ())}
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
        later = sorted(late for late in longer_s if late > 600)
        ends = np.interp([0.5, 0.95], np.linspace(0, 1, len(later)), later) if later else ()
        assert [*one.payers.added.values()] == pytest.approx(ends)
    assert answer.outcomes[2].payers.jobs.longer > 0 < answer.outcomes[2].payers.users.less


def test_a_user_of_one_job_does_not_lose_most(log, answer, tmp_path):
    worst, path = answer.outcomes[2].payers.job.job, tmp_path / "log.swf"
    rows = [line.split() for line in log.read_text().splitlines()]
    path.write_text("\n".join(" ".join([*one[:11], "99", *one[12:]] if one[0] == worst else one) for one in rows))
    payers = what_if(path, thresholds_s=[], small_first=False).outcomes[2].payers
    assert (payers.job.job, payers.job.user) == (worst, 99)
    assert payers.losers
    assert "99" not in [one.name for one in payers.losers]


def test_each_period_has_the_advice_of_its_own_jobs_and_the_newest_leads_where_it_decides_otherwise(changed):
    found = what_if(changed, thresholds_s=[6 * HOUR_S], small_first=False)
    jobs, whole = read_workload(changed).jobs, found.whole
    assert sum(period.rows.sum() for period in found.periods) == len(jobs)
    for period in found.periods:
        of = np.flatnonzero(period.rows)
        waits, bsld = whole.comparison.wait_s[:, of], whole.comparison.bsld[:, of]
        assert np.ptp(jobs.submit_s[of]) <= 1.25 * 13 * 7 * DAY_S
        for one in period.figures:
            figures = (waits[one.choice].mean(), waits[one.choice].max(), bsld[one.choice].mean())
            assert one[2:5] == pytest.approx(figures)
        logged_s = jobs.waited_s[of].sum()
        assert period.ratio == (pytest.approx(waits[0].sum() / logged_s) if logged_s else None)
        able = [
            k
            for k in range(1, 4)
            if bsld[k].mean() <= 0.95 * bsld[0].mean() and waits[k].max() <= (1.1 if k == 3 else 1) * waits[0].max()
        ]
        assert (period.advised in able) if able else period.advised == 0
    taken = whole.advice.name
    assert (found.advice.name, found.periods[-1].advised) == ("fcfs", 0)
    assert head(found) == f"Last 13 weeks: keep fcfs, not {taken}"
    own, beside, fcfs = found.periods[-1].figures
    assert [found.outcomes[one.choice].name for one in (own, beside, fcfs)] == ["fcfs", taken, "fcfs"]
    by = said(found, "By 13 weeks")
    assert by.startswith(f"oldest first, {taken} takes fcfs's slowdown from ")
    assert f", from {fcfs.mean_bsld:.1f} to {beside.mean_bsld:.1f} (each alone may be chance); in " in by
    others = sum(period.advised != whole.limit.advised for period in found.periods)
    assert f"; in {others} of them the rule would advise another choice, perhaps by chance: " in by
    assert by.endswith(f" and fcfs ({own.mean_bsld:.1f}).")
    newest = found.periods[-1].rows
    assert len(found.comparison.at) == newest.sum() == found.outcomes[0].payers.jobs.same
    assert found.outcomes[2].mean_wait_s == pytest.approx(whole.comparison.wait_s[2][newest].mean())
    assert f"over the whole log {taken}, slowdown" in said(found, "Why")
    stored = found.as_dict()
    assert (stored["of"], stored["advice"], stored["advice_of_all"]) == ("the jobs of the newest period", "fcfs", taken)
    assert [one["jobs"] for one in stored["periods"]] == [period.rows.sum() for period in found.periods]


def log_of(path, rows):
    """A log of four processors."""
    path.write_text("; MaxProcs: 4\n" + "".join(rows))
    return path


def outcome(name, effort, bsld, longest_h, wait_h=0):
    payers = Payers(Changed(0, 1, 0), None, {}, None, [], [])
    figures = (bsld, wait_h * HOUR_S, longest_h * HOUR_S, Whose("1", None))
    return ChoiceFigures(name, name, {}, effort, *figures, payers, None, 0, 0)


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
        ((60, 10), (70, 9), (80, 9), 1, 11, "saf"),  # an order without a threshold: as long as fcfs's, and no longer,
        ((60, 10.1), (70, 10.1), (80, 9), 1, 11, "threshold"),  # whatever the limit,
        ((60, 10.1), (70, 11.1), (80, 11), 1, 11, "kills"),  # which is for the others
    ],
)
def test_the_simplest_of_equals_that_gain_within_the_limit_is_advised(saf, threshold, kills, half, limit_h, chosen):
    outcomes = [
        outcome("fcfs", TODAY, 100, 10),
        outcome("kills", KILLS, *kills),
        outcome("threshold", THRESHOLD, *threshold),
        outcome("saf", ORDER, *saf),
    ]
    found, *_ = advised(outcomes, pairs(outcomes, half), limit_h * HOUR_S, 0.05, range(1, 4))
    assert outcomes[found].name == chosen


@pytest.mark.parametrize(
    ("limit_h", "half", "chosen", "others"),
    [
        (2000, 5, "kills", []),  # nothing in saf bounds a wait
        (np.inf, 5, "kills", ["saf"]),  # without a limit the one under which no job waits so long
        (np.inf, 1, "saf", []),  # but only of equals
    ],
)
def test_without_a_limit_a_tie_goes_to_the_shorter_longest_wait(limit_h, half, chosen, others):
    outcomes = [outcome("fcfs", TODAY, 100, 72), outcome("kills", KILLS, 43, 99), outcome("saf", ORDER, 40, 1302)]
    found, equals, _ = advised(outcomes, pairs(outcomes, half), limit_h * HOUR_S, 0.05, range(1, 3))
    assert (outcomes[found].name, [outcomes[k].name for k in equals]) == (chosen, others)


@pytest.mark.parametrize(
    ("threshold", "fcfs", "chosen", "least"),  # slowdown, longest wait, mean wait; kills have 40, 9 h, 2 h
    [
        ((60, 9, 1.9), (10, 3), "threshold", "kills"),  # no longer a longest wait, a shorter mean, and asks less
        ((60, 9, 2.0), (10, 3), "kills", "kills"),  # no shorter mean
        ((60, 9.1, 1.9), (10, 3), "kills", "kills"),  # a longer longest wait
        ((99, 8, 1.0), (10, 3), "kills", "kills"),  # does not gain itself
        ((60, 11, 3.0), (10, 1.9), "kills", "kills"),  # fcfs has the longer longest wait
        ((60, 11, 3.0), (9, 1.9), "fcfs", "kills"),  # and here it has not
    ],
)
def test_a_choice_is_out_if_one_that_asks_less_waits_less_at_the_mean_and_at_most(threshold, fcfs, chosen, least):
    first = outcome("fcfs", TODAY, 100, *fcfs)
    outcomes = [first, outcome("kills", KILLS, 40, 9, 2), outcome("threshold", THRESHOLD, *threshold)]
    found, _, lowest = advised(outcomes, pairs(outcomes, 1), 11 * HOUR_S, 0.05, range(1, 3))
    assert (outcomes[found].name, outcomes[lowest].name) == (chosen, least)


def test_the_choice_with_the_least_slowdown_is_out_only_because_of_another(answer):
    for seed in range(300):
        assert_is_out_because_of_another(answer, np.random.default_rng(seed))


def assert_is_out_because_of_another(answer, rng):
    first, *others = answer.outcomes
    made = (
        one._replace(
            effort=int(rng.choice([ORDER, THRESHOLD, KILLS])),
            mean_bsld=first.mean_bsld * rng.choice([0.5, 0.6, 0.8]),
            mean_wait_s=rng.choice([1.0, 2.0]),
            max_wait_s=rng.choice([1.0, 2.0]),
        )
        for one in others
    )
    outcomes = [first, *made]
    compared = pairs(outcomes, 0)
    for k, ones in compared.items():  # any two may differ by chance, as only pairs of jobs can say
        for j in np.flatnonzero(rng.random(len(ones)) < 0.4):
            ones[j] = None if j == k else difference(ones[j].value, 9e9)
    limit = limit_of(0.1, outcomes, compared, answer.offered, 0.05)
    if limit.by_slowdown != limit.advised:
        found = replace(answer, outcomes=outcomes, bsld=compared)
        assert outdoes(outcomes[found.outdoing(limit)], outcomes[limit.by_slowdown])


def test_a_choice_is_not_out_for_one_that_asks_as_much():
    outcomes = [
        outcome("fcfs", TODAY, 100, 10, 3),
        outcome("kills", KILLS, 40, 9, 2),
        outcome("more", KILLS, 60, 9, 1.9),
    ]
    found, *_ = advised(outcomes, pairs(outcomes, 1), 11 * HOUR_S, 0.05, range(1, 3))
    assert outcomes[found].name == "kills"


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


def test_an_interval_and_the_sentence_beside_it_come_from_one_test(answer):
    """Both are corrected: an interval holds 0 just if the difference may be chance."""
    of_groups = [one for group in answer.groups for d in group.differences for one in (d.bsld, d.wait_s)]
    assert {one.verdict for one in of_groups} >= {"unclear", "better"}
    for one in (*filter(None, answer.bsld[0]), *answer.waits, *of_groups):
        assert (one.low <= 0 <= one.high) == (one.verdict == "unclear")
    waits = answer.comparison.wait_s
    assert [one.value for one in answer.waits] == pytest.approx((waits[1:] - waits[0]).mean(axis=1))
    shown = {row[0].strip("*"): row[2] for limit in answer.limits for row in screen(answer, limit).table.rows}
    for name, change in shown.items():
        one = None if "fcfs" in name else answer.waits[named(answer, name.split(": ")[-1].replace(NB, " ")) - 1]
        sure = one is not None and one.verdict != "unclear"
        assert change == "" if one is None else (" to " in change) == sure and ("may be chance" in change) != sure


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((0, "0 s"), (0.04, "0 s"), (0.26, "0.3 s"), (-9.9, "−9.9 s"), (59.6, "59 s"), (3599.7, "59 min 59 s")),
        *((5431, "1 h 30 min"), (86_399, "23 h 59 min"), (4 * DAY_S - 1799, "3 d 23 h")),
    ],
)
def test_a_duration_in_an_answer_is_cut_as_everywhere_and_has_tenths_below_10_s(seconds, said):
    assert plain(duration(seconds)) == said


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


def test_options_hold_for_every_choice_that_can_take_them(log):
    found = json_result("what-if", log, "--no-small-first", "--threshold", "6h", "--backfill", "spf")
    assert (found["backfill"], found["stand_back"]) == ("spf", None)
    for outcome in found["outcomes"]:
        assert outcome["options"]["backfill"] == "spf"
        policy, *more = outcome["name"].split(" + ")
        threshold = ["--threshold", "6h"] if more else []
        alone = json_result("replay", log, "--policy", policy, "--backfill", "spf", *threshold)
        assert outcome["mean_bsld"] == pytest.approx(alone["mean_bsld"])
    tried = {one.name: one.options for one in choices([6 * HOUR_S], True, {"kill": "always"})}
    assert [name for name, options in tried.items() if options.get("kill") == "always"] == ["first tries"]


def test_predictions_order_the_choices_that_go_by_run_times_and_fcfs_is_without(log, answer, tmp_path):
    jobs, path = read_workload(log, unrequested="runtime"), tmp_path / "mine.csv"
    rows = zip(jobs.ids.tolist(), jobs.runtime_s.tolist(), strict=True)
    path.write_text("job,expected_s\n" + "".join(f"{job},{max(seconds, 1)}\n" for job, seconds in rows))
    found = what_if(log, thresholds_s=[24 * HOUR_S], predict=str(path))
    fcfs, _, spf, saf, late = (one.mean_wait_s for one in found.outcomes)
    assert fcfs == answer.outcomes[0].mean_wait_s
    assert spf != answer.outcomes[named(answer, "spf")].mean_wait_s
    assert ["predict" in one.options for one in found.outcomes] == [False, False, True, True, True]
    first = found.outcomes[0].options
    shared = arguments_of({name: first[name] for name in ("calendar", "depth", "max-running") if name in first})
    for wait_s, more in ((saf, {}), (late, {"threshold_s": 24 * HOUR_S})):
        again = replay(jobs, "saf", predict=str(path), **more, **shared)
        assert again.figures.mean_wait_s == pytest.approx(wait_s)
    assert len(found.figures()["predict_sha256"]) == 64


@pytest.fixture
def page(answer, browser, tmp_path):
    """The answer in a browser."""
    path = tmp_path / "page.html"
    path.write_text(page_of(answer))
    browser.sized(1280, 800)
    browser.open(path)
    yield path
    assert browser.log() == []


def text_of(browser, selector):
    return " ".join(browser.run(f"return document.querySelector('{selector}').innerText").split())


def chosen(browser, k):
    """Press the button of this choice."""
    browser.run(f"document.querySelector('[data-pick=\"{k}\"] button').click()")


SHOWN = "return [...document.querySelectorAll('[data-choice]')].filter((e) => !e.hidden).map((e) => e.dataset.choice)"


@pytest.mark.usefixtures("page")
def test_the_address_names_the_choice_and_a_button_leads_back_to_the_advice(browser, answer, page):
    other, limit = named(answer, "spf"), answer.limit
    assert limit.advised != other
    assert "Confidence" in text_of(browser, "#brief")
    chosen(browser, other)
    address = browser.run("return location.hash")
    assert address == "#choice=spf"
    assert "Confidence" not in text_of(browser, "#brief")
    assert text_of(browser, "#advice .answer").startswith("If you took spf: shortest first")
    browser.run("document.getElementById('back').click()")
    assert set(browser.run(SHOWN)) == {str(limit.advised)}
    assert browser.run("return document.getElementById('back')") is None
    browser.call("POST", "/url", {"url": f"{page.resolve().as_uri()}#choice=spf"})
    browser.run("location.reload()")
    browser.waited("return document.documentElement.dataset.ready === 'yes'")
    assert set(browser.run(SHOWN)) == {str(other)}


def test_json_keeps_names_as_they_are():
    assert stored({"user": "a`b**c", "text": f"1{NB}h"}) == {"user": "a`b**c", "text": "1 h"}


@pytest.mark.usefixtures("page")
def test_the_slider_shows_what_is_advised_at_a_limit_and_stays_where_it_is(browser, answer):
    browser.sized(390, 844)
    slide = (
        "const grow = document.getElementById('grow'); if (arguments[0] < 0) grow.scrollIntoView({ block: 'center' });"
        "else { grow.value = arguments[0]; grow.dispatchEvent(new Event('input')); }"
        "return grow.getBoundingClientRect().top"
    )
    top = browser.run(slide, -1)
    for k, limit in [*enumerate(answer.limits), (answer.given, answer.limit)]:
        assert abs(browser.run(slide, k) - top) < 2
        assert set(browser.run(SHOWN)) == {str(limit.advised)}
        grown = browser.run("return document.getElementById('grown').textContent")
        assert grown.startswith(f"any{NB}amount" if limit.growth is None else f"{100 * limit.growth:g}{NB}%, to ")
    assert "Confidence" in text_of(browser, "#brief")


@pytest.mark.usefixtures("page")
def test_a_row_of_the_advice_at_each_limit_moves_the_slider_and_alone_is_marked(browser, answer):
    press = (
        "const fold = [...document.querySelectorAll('details')].find((e) => e.innerText.startsWith('The advice at'));"
        "const rows = [...fold.querySelectorAll('tbody tr')]; rows[arguments[0]]?.querySelector('button').click();"
        "const marked = [...rows.keys()].filter((k) => rows[k].classList.contains('chosen'));"
        "return [...marked, Number(document.getElementById('grow').value)]"
    )
    assert len({limit.advised for limit in answer.limits}) < len(answer.limits)
    assert browser.run(press, -1) == [answer.given, answer.given]
    for k, limit in enumerate(answer.limits):
        assert browser.run(press, k) == [k, k]
        assert set(browser.run(SHOWN)) == {str(limit.advised)}
        assert "above the limit" not in text_of(browser, "#advice")


@pytest.mark.usefixtures("page")
def test_on_a_phone_axe_finds_nothing(browser):
    browser.sized(390, 844)
    browser.run("for (const e of document.querySelectorAll('details')) e.open = true; scrollers()")
    assert browser.violations() == [] == browser.cut(1200, 768, 390)
    left, right = browser.run(
        "const four = document.querySelector('#four table').getBoundingClientRect(),"
        "captions = [...document.querySelectorAll('caption')].map((each) => each.getBoundingClientRect().right);"
        "return [four.left, Math.max(four.right, ...captions)]"
    )
    assert left >= 16
    assert right <= 390 - 16


def test_what_if_under_a_pool_compares_the_jobs_that_fit_it():
    sample = Path(__file__).parents[2] / "workloads" / "sample.json"
    jobs = read_workload(sample).jobs
    answer = what_if(sample, small_first=False, pool="slots=40@1")
    assert answer.comparison.bsld.shape[1] == (jobs.procs <= 40).sum() < len(jobs)
    with pytest.raises(BatfillError, match="option pool: every job wants more than there is of slots=1@2"):
        what_if(sample, small_first=False, pool="slots=1@2")


# The machine that ran


@pytest.fixture(scope="module")
def shrunk(tmp_path_factory):
    """A log of fcfs on 64 processors, of which 40 are there from its middle on, as its waits show."""
    work = generate_log(16_000, 64, seed=5, users=40, load=0.62)
    return ran_on(tmp_path_factory.mktemp("shrunk") / "log.swf", work, {"": (64, 40)})


def ran_on(path, made, parts):
    """The log of these jobs on parts of a machine, each with so many processors in either half; users have a part."""
    write_log(made, path)
    whole = read_workload(path)
    half_s, head, rows = float(whole.submit_s[-1]) / 2, ["; MaxProcs: 64\n", "; UnixStartTime: 1000000000\n"], {}
    for number, (before, after) in enumerate(parts.values(), 1):
        those = (whole.user % len(parts) == number - 1) & (whole.procs <= min(before, after))
        work = whole.select(those).stating(size=before)
        away = {"kind": "announced", "begin": half_s, "end": 1e9, "processors": before - after}
        start_s = replay(work, calendar=Calendar.of([away]) if after < before else None).schedule.start_s
        for k, at in enumerate(np.flatnonzero(those).tolist()):
            submit_s, wait_s = work.submit_s[k], int(start_s[k] - work.submit_s[k])
            more = {"req_procs": work.procs[k], "req_time": int(work.walltime_s[k]), "user": work.user[k]}
            rows[at] = row(at + 1, int(submit_s), int(work.runtime_s[k]), wait=wait_s, partition=number, **more)
    path.write_text("".join([*head, *(rows[at] for at in sorted(rows))]))
    return path


def test_choices_are_replayed_on_the_machine_that_the_log_shows_and_its_commands_repeat_them(shrunk, monkeypatch):
    monkeypatch.chdir(shrunk.parent)
    how = {"thresholds_s": [24 * HOUR_S], "small_first": False}
    found, header = what_if(shrunk, **how), what_if(shrunk, machine="header", **how)
    (_, before), (from_s, after) = found.fidelity.part.steps
    assert (before, after) == (64, pytest.approx(40, rel=0.05))
    assert from_s == pytest.approx(float(read_workload(shrunk).submit_s[-1]) / 2, rel=0.1)
    whole = found.whole or found
    assert whole.logged.ratio == pytest.approx(1, rel=0.1)
    assert (header.whole or header).logged.ratio < 0.6
    assert "64 processors" in said(found, "Machine")
    assert "(the header: 64)" in said(found, "Machine")
    lines = commands(found, shrunk.name).splitlines()
    assert batfill(*shlex.split(lines[0], comments=True)[1:]).status == 0
    for line, one in zip(lines[1:], whole.outcomes, strict=True):
        again = json_result(*line.split()[1:])
        assert (again["mean_wait_s"], again["max_wait_s"]) == (pytest.approx(one.mean_wait_s), one.max_wait_s)
    stored = found.as_dict()
    assert stored["machine"] == "log"
    assert stored["held"]["idle"] < stored["held_on_header"]["idle"]


@pytest.mark.parametrize("given", [{"procs": 48}, {"machine": 48}, {"machine": "header"}, {"calendar": "windows.csv"}])
def test_a_machine_that_the_user_states_is_replayed(shrunk, given, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("windows.csv").write_text(f"kind,begin,end,processors\nannounced,0,{40 * DAY_S},4\n")
    found = what_if(shrunk, thresholds_s=[], small_first=False, **given)
    options = {name: value for name, value in given.items() if name == "calendar"}
    fitted = {**found.fidelity.options, **options}
    again = replay(shrunk, procs=given.get("procs", {48: 48}.get(given.get("machine"))), **arguments_of(fitted))
    assert (found.whole or found).outcomes[0].mean_wait_s == pytest.approx(again.figures.mean_wait_s)
    assert found.workload.size == (48 if 48 in given.values() else 64)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"machine": "ours"}, "option machine: 'ours' is neither log, header nor a number of processors"),
        ({"machine": 0}, "option machine: 0 is neither"),
        ({"machine": "log", "calendar": "windows.csv"}, "option calendar: the machine from the log has its own"),
    ],
)
def test_a_machine_that_cannot_be_is_refused(light, given, why, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("windows.csv").write_text("kind,begin,end,processors\nannounced,0,9,1\n")
    with pytest.raises(BatfillError, match=re.escape(why)):
        what_if(light, **given)


def test_windows_that_the_user_states_are_no_doubt_about_the_simulation(shrunk, tmp_path):
    windows = tmp_path / "machine.csv"
    assert batfill("fidelity", shrunk, "--calendar", windows).status == 0
    own = what_if(shrunk, thresholds_s=[], small_first=False)
    found = what_if(shrunk, thresholds_s=[], small_first=False, calendar=windows, procs=own.workload.size)
    assert found.outcomes[0].mean_wait_s == own.outcomes[0].mean_wait_s
    assert what_if(shrunk, thresholds_s=[], small_first=False, machine="header").unseen
    assert not found.unseen
    assert "Explained" not in found.answer().screen.lines or not found.answer().screen.lines["Explained"]


def test_advice_is_on_the_part_with_most_of_the_waiting_and_names_the_others(tmp_path, monkeypatch):
    log = ran_on(
        tmp_path / "log.swf", generate_log(16_000, 64, seed=5, users=40, load=0.75), {"1": (44, 44), "2": (20, 20)}
    )
    wide = row(20_000, read_workload(log).submit_s[-1], 60, wait=99 * DAY_S, req_procs=64, partition=1, user=7)
    log.write_text(log.read_text() + wide)  # wider than either part
    found = what_if(log, thresholds_s=[24 * HOUR_S], small_first=False)
    part, other = found.fidelity.machine.parts
    assert part.waiting > other.waiting > 0
    logged = found.fidelity.site.logged
    assert part.waiting == pytest.approx(logged.wait_s[part.rows][:-1].sum() / logged.wait_s.sum(), rel=0.001)
    longest = "the log's longest wait is 99 d (job 20000, user 7), not of these jobs"
    assert longest in said(found, "Real waits")
    graded = fidelity(log, fit=False)
    assert longest in told(graded)
    jobs = len(read_workload(log).jobs)
    assert f"{jobs - 1:,} of {jobs:,} jobs on 64 processors" in told(graded)
    jobs = read_workload(log).jobs
    assert len((found.whole or found).comparison.at) == (part.rows & ~found.fidelity.machine.wide).sum() < len(jobs)
    assert f"all figures are of {part.name}, with" in said(found, "Machine")
    assert other.name in said(found, "Machine")
    monkeypatch.chdir(tmp_path)
    select, *lines = commands(found, log.name).splitlines()
    subprocess.run(select, shell=True, check=True)
    for line, one in zip(lines, (found.whole or found).outcomes, strict=True):
        again = json_result(*line.split()[1:])
        assert (again["mean_wait_s"], again["max_wait_s"]) == (one.mean_wait_s, one.max_wait_s)
    assert commands(found, "log.json").startswith(f"# No command selects the jobs of {part.name}")


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


def graded(answer, ratio, logged_s=10_000.0, rank=0.5, idle=0.2, **near):
    """The answer as if simulated waits were such a part of the logged ones, ranked so, and `idle` is of nothing."""
    score = Score(900, 0.5, ratio * logged_s, logged_s, ratio, rank, 2 * DAY_S, 9 * DAY_S, 7000.0, 1, ratio)
    held = Held(0.75 - idle, 0.1, 0.15, 0.0, idle)
    its = answer.fidelity._replace(near=score, held=held, held_header=Held(0.1, 0.1, 0.1, 0.0, 0.7), **near)
    return replace(answer, logged=score, logged_whose=Whose("12", 3), fidelity=its)


def with_figures(answer, k, **changes):
    """The same with these figures of the k-th choice."""
    outcomes = list(answer.outcomes)
    outcomes[k] = outcomes[k]._replace(**changes)
    return replace(answer, outcomes=outcomes)


TRIES = {"options": {"preset": "first-tries"}, "name": "first tries", "effort": KILLS}


def variants(answer):
    """Answers by name, each under a limit and of a choice that was picked, if one was."""
    last, first = answer.limits[-1], answer.limits[0]
    spf, saf, late = (named(answer, name) for name in ("spf", "saf", "saf + 6 h"))
    for limit in answer.limits:
        yield f"limit {limit.growth}", answer, limit, None
    for k, one in enumerate(answer.outcomes):
        yield f"picked {one.name}", answer, answer.limit, k
    sure = with_p(answer, 0.0, 31)
    for weeks, p in ((24, 0.0099), (23, 0.0099), (24, 0.01), (30, 0.05)):
        yield f"p {p} over {weeks} weeks", with_p(answer, p, weeks), last, None
    yield "groups of weeks", with_gains(sure, {last.advised: {"merged": 3, "blocks": 10}}), last, None
    tries = with_figures(sure, last.advised, **TRIES)
    for wait_s in (1.0, 9e9):
        gentle = with_figures(tries, tries.runner_up(last), mean_wait_s=wait_s)
        yield f"kills, and the next waits {wait_s:g} s", gentle, last, None
    for ratio, rank, logged_s in (
        (0.34, 0.15, 1e4),
        (2.9, None, 1e4),
        (0.33, 0.9, 1e4),
        (3.1, 0.9, 1e4),
        (0.8, 0.14, 1e4),
        (0.0, 0.0, 30.0),  # the site has no waits, either
    ):
        yield (
            f"waits {ratio} of {logged_s:g} s, ranks {rank}",
            graded(answer, ratio, logged_s, rank),
            answer.limit,
            None,
        )
    yield "as logged", graded(answer, 1.05), answer.limit, None
    for idle in (0.3, 0.31, 0.5, 0.51):
        yield f"nothing holds the job in {idle} of the waiting time", graded(answer, 0.5, idle=idle), last, None
    part = answer.fidelity.part._replace(name="partition 1", steps=((0.0, 64), (9e5, 32)), waiting=0.7)
    rest = part._replace(name="the rest", steps=((0.0, 9),), waiting=0.3)
    both = answer.fidelity.machine._replace(parts=(part, rest))
    factors = Factors(notice_s=604_800.0, depth="all", max_running=60)
    yield "parts, steps and behaviour", graded(answer, 0.5, machine=both, factors=factors), answer.limit, None
    tie = first._replace(advised=spf, by_slowdown=spf, equals=(late,))
    yield "a tie", answer, tie, None
    level = with_figures(answer, late, max_wait_s=answer.outcomes[spf].max_wait_s)
    yield "a tie, and equal longest waits", level, tie, None
    # The third asks less than another, which has the least slowdown, and waits less.
    outdone = with_figures(answer, saf, effort=KILLS, mean_wait_s=9e9, max_wait_s=9e9)
    yield "outdone", outdone, last._replace(advised=late, by_slowdown=saf, equals=()), None
    best, limit = (
        with_figures(outdone, spf, mean_bsld=1.5, max_wait_s=1.0),
        last._replace(advised=late, by_slowdown=late),
    )
    chance = with_gains(best, {spf: {"corrected_p": 0.9}})
    yield "passed over by chance", chance, limit._replace(equals=()), None
    yield "picked, by chance", chance, answer.limit, spf
    withheld = replace(with_gains(best, {spf: {"corrected_p": 0.001}}), withheld={spf: "it cannot"})
    yield "passed over by the system", withheld, limit._replace(equals=()), None
    payers = [one.payers._replace(users=None) for one in answer.outcomes]
    yield "no users", with_figures(answer, spf, payers=payers[spf]), answer.limit, spf
    yield "parts of a site", replace(answer, site=answer.site._replace(unmodelled=["2 partitions"])), answer.limit, None


def test_golden_what_is_said_of_each_variant(answer):
    said = []
    for name, found, limit, k in variants(answer):
        one = screen(found, limit, k)
        lines = [f"{about}: {text}" for about, text in one.lines.items() if text]
        said += [f"== {name}", one.headline, *columns(one.table), *lines, ""]
        assert len(plain(one.headline).split()) <= MOST_WORDS
        if k is None and limit.growth is not None and not found.undecided:
            assert found.outcomes[limit.advised].max_wait_s <= limit.longest_s + 1e-6
    check("what-if-variants", "\n".join(map(plain, said)))
    assert [limit.growth for limit in answer.limits] == [*LIMITS, None]
    assert len({limit.advised for limit in answer.limits}) > 1


def test_where_simulated_waits_are_not_the_sites_nothing_is_advised(answer, light):
    found = graded(answer, 0.33, rank=0.9)
    stored = found.as_dict()
    assert (stored["advice"], stored["confidence"], stored["trusted"]) == (None, None, False)
    assert not {"Keep", "Take"} & set(told(found).split())
    page = page_of(found)
    assert "class=chosen" not in page
    bars = re.findall("<i[^>]*--part", page)
    assert bars
    assert all("may be chance" in bar for bar in bars)
    waited = light.parent / "waited.swf"
    rows = [one.split() for one in light.read_text().splitlines()[3:]]
    rows = [" ".join([*one[:2], "9000" if one[0] == "8" else "60", *one[3:]]) + "\n" for one in rows]
    waited.write_text(f"; MaxProcs: 4\n{''.join(rows)}")
    assert what_if(waited, thresholds_s=[], small_first=False).logged_whose == Whose("8", 2)


def test_where_nothing_gains_the_advice_is_to_stay(tmp_path):
    path = log_of(tmp_path / "idle.swf", (row(k + 1, k * DAY_S, 600, req_time=600) for k in range(80)))
    check("what-if-keep-fcfs", batfill("what-if", path, "--no-small-first", "--threshold", "12h").out)


@pytest.mark.parametrize(("system", "withheld"), [("slurm", ["saf + 24 h"]), ("pbs", [])])
def test_a_batch_system_is_offered_only_what_it_can_do(log, system, withheld):
    how = {"thresholds_s": [24 * HOUR_S], "small_first": False, "max_wait_growth": 1000.0, "system": system}
    found = what_if(log, **how)
    assert list(found.as_dict()["withheld"]) == withheld
    assert not {limit.advised for limit in found.limits if limit.advised} & set(found.withheld)
    assert not set(found.offered) & set(found.withheld)
    assert ("is not offered for" in told(found)) == bool(withheld)
    for limit in found.limits:  # another headline than without a system is no contradiction
        assert head(found, limit).startswith(
            f"Of what {SYSTEMS[system]} can do, {'take' if limit.advised else 'keep'} "
        )
        assert len(head(found, limit).split()) <= MOST_WORDS
    none = what_if(log, **how, backfill="spf")
    assert {"saf", "saf + 24 h"} <= set(none.as_dict()["withheld"])
    nothing = replace(none, withheld=dict.fromkeys(range(1, 4), "it cannot"))
    limit = nothing.limits[0]._replace(advised=0, by_slowdown=0)
    assert head(nothing, limit) == f"Keep fcfs: {SYSTEMS[system]} can do none of the other choices"
    assert options_words(none.outcomes[0].options) == "--backfill spf --policy fcfs"


def test_first_tries_are_replayed_and_what_killed_jobs_pay_is_counted(log):
    found, workload = what_if(log, thresholds_s=[3600, 7200, 10_800], seed=1), read_workload(log)
    tries, figures = found.outcomes[1], json_result("replay", log, "--preset", "first-tries")
    assert (tries.name, tries.effort, options_words(tries.options)) == ("first tries", KILLS, "--preset first-tries")
    assert (tries.kills, tries.wasted) == (figures["requeued"], figures["wasted"])
    assert tries.max_wait_s == figures["max_wait_s"]
    assert tries.mean_bsld == pytest.approx(figures["mean_bsld"])
    assert found.outcomes[found.runner_up(found.limits[-1]._replace(advised=1))].effort < KILLS
    runs = [replay(workload, **options).schedule for options in ({"policy": "fcfs"}, {"preset": "first-tries"})]
    rows, killed = np.unique(runs[1].kills["row"]), tries.payers.killed
    longer_s = (runs[1].wait_s - runs[0].wait_s)[rows]
    assert (killed.jobs, killed.share) == (len(rows), len(rows) / len(workload.jobs))
    assert killed.longer == (longer_s > 600).mean()
    picked = "\n\nWho pays if they are picked: " + said(found, "Who pays", chosen=1)
    check("what-if-first-tries", found.answer().as_text() + picked)


@pytest.mark.needs("pandas")
def test_who_pays_is_measured_against_fcfs(log, answer):
    jobs = read_workload(log).jobs
    waits, points, drawn = answer.comparison.wait_s, answer.answer().picture.points, set()
    for k, (wait_s, one, point) in enumerate(zip(waits, answer.outcomes, points, strict=True)):
        longer_s = wait_s - waits[0]
        if (most := one.payers.job) is not None:
            row = jobs.ids.tolist().index(most.job.zfill(len(jobs.ids[0])))
            assert (most.before_s, most.after_s, longer_s[row]) == (waits[0][row], wait_s[row], longer_s.max())
            assert most.user == jobs.user[row]
        for groups, end in ((one.payers.losers, max), (one.payers.gainers, min)):
            assert len({group.by for group in groups}) == len(groups)
            for group in groups:
                kind = kinds_of(jobs, 64, jobs.user)[group.by]
                means = {kind.name(k): longer_s[kind.of == k].mean() for k in np.unique(kind.of)}
                assert group.name == end(means, key=means.get)
                assert group.after_s - group.before_s == pytest.approx(means[group.name])
                which = next(k for k in np.unique(kind.of) if kind.name(k) == group.name)
                (alone,) = answer.comparison.paired([np.where(kind.of == which, longer_s, 0)], 0)
                assert group.chance == (alone.p * len(means) > 0.05)
        most = int(np.argmax(wait_s))
        assert one.whose == Whose(jobs.ids[most].lstrip("0"), jobs.user[most])
        hatched = {(bar.by, bar.name): bar.unclear for bar in point.bars}
        ends, groups = [*one.payers.losers, *one.payers.gainers], groups_of(answer, k) if k else []
        said, _, perhaps = plain("; ".join(ends_text([one for one in ends if one.by == "user"] + groups))).partition(
            "perhaps most: "
        )
        chance = {(group.by, group.name) for group in (*ends, *groups) if group.chance}
        for group in ends:
            drawn.add(group.chance)
            assert group.chance <= hatched.get((group.by, group.name), True)
            assert (f"{group.words} (" in said) == ((group.by, group.name) not in chance)
            assert (f"{group.words} (" in perhaps) == (group.by == "user" and group.chance)
    assert drawn == {True, False}
    kinds = [{group.by for group in one.payers.gainers} for one in answer.outcomes]
    assert kinds == [set(), *[{"user", "processors", "ran for"}] * 4]
    assert answer.outcomes[0].payers.job is None
    stated = answer.as_dict()["outcomes"][1]
    assert stated["payers"]["job"] == answer.outcomes[1].payers.job._asdict()


def test_advice_on_invented_requests_is_not_to_be_trusted(tmp_path):
    rows = (row(k + 1, k * DAY_S // 3, 600, req_time=-1 if k % 3 else 3600, user=1) for k in range(240))
    path, page = log_of(tmp_path / "invented.swf", rows), tmp_path / "page.html"
    words = ("what-if", path, "--no-small-first", "--unrequested", "runtime")
    check("what-if-invented-requests", batfill(*words, "-o", page).out)
    assert "Do not trust this advice" in page.read_text().partition('id="advice"')[2].partition("</div>")[0]
    assert json.loads(batfill(*words, "--json").out)["trusted"] is False
    invented = what_if(path, small_first=False, unrequested="runtime")
    assert invented.confidence(invented.limit._replace(advised=1)) in (LOW, None)


def test_advice_from_a_few_days_is_not_to_be_trusted(tmp_path):
    path = log_of(tmp_path / "short.swf", (row(k + 1, 60 * k, 600, req_time=600) for k in range(100)))
    found = what_if(path, small_first=False)
    assert plain(found.undecided) == "too few jobs (100 within 1 h 39 min), and others may differ: it takes 12 weeks"
    assert (found.as_dict()["advice"], found.as_dict()["trusted"], found.as_dict()["limits"]) == (None, False, [])
    check("what-if-short-log", found.answer().as_text(details=True))
    page = page_of(found)
    for word in ("Keep", "class=chosen", 'id="grow"', "The advice at each limit"):
        assert word not in page


def test_golden_the_command_prints_one_screen_and_writes_a_page(log, tmp_path, monkeypatch):
    monkeypatch.chdir(log.parent)
    page = tmp_path / "page.html"
    words = ("what-if", log.name, "--threshold", "6h", "--threshold", "24h", "--no-small-first")
    done = batfill(*words, "-o", page)
    assert (done.status, done.err) == (0, f"batfill: open it in a browser: {page}\n")
    assert max(map(len, done.out.splitlines())) <= 80
    assert len(done.out.splitlines()) <= 24
    details = batfill(*words, "--details").out
    commands = details.partition(", then the other choices\n")[2].split("\nbatfill replay")
    taken = json.loads(batfill(*words, "--json").out)["advice"]
    assert [f"--policy {taken.partition(' ')[0]}" in one for one in commands[1:]].index(True) == 0
    assert details.endswith(f"\n\n{done.out}")  # the advice is last
    check("what-if", details)
    assert "<code>" in page.read_text()  # of the log's sha256
    both = batfill("what-if", log, "--details", "--json")
    assert (both.status, both.out) == (2, "")
    assert "--details: --json has all of them" in both.err


def test_the_page_says_everything_without_a_script(answer, text):
    still = re.sub("(?s)<(script|template).*?</\\1>", "", text)
    shown = html.unescape(re.sub("<[^>]+>", "", still)).replace(NB, " ")
    first = answer.answer()
    for said_first in (first.screen.headline, *first.screen.first.values(), *first.about.split("; ")):
        assert plain(said_first) in shown
    for detail in first.all_details:
        for each in (detail.title, *map(plain, detail.sentences), detail.code):
            assert each in shown
    assert text.count("<template") == len(answer.outcomes)
    panels = re.findall("(?s)<div data-choice=(\\d+)( hidden)?>", still)
    assert [int(k) for k, hidden in panels if not hidden] == [answer.limit.advised]
    unlimited = re.sub('(?s)<div class="limit controls live" hidden>.*?</div></div>', "", still)
    assert re.findall("<(?:button|input)[^>]*>", unlimited) == []


def test_a_name_from_a_log_or_an_option_is_no_html(answer):
    outcomes = [o._replace(name=f"<b>{o.name}</b>") for o in answer.outcomes]
    page = page_of(replace(answer, outcomes=outcomes))
    assert "<b>saf" not in page
    assert "&lt;b&gt;" in page


def test_the_waits_beside_the_logged_ones_are_those_of_this_replay(tmp_path, light):
    calendar, log = tmp_path / "windows.csv", tmp_path / "waited.swf"
    rows = [line if line.startswith(";") else line.split() for line in light.read_text().splitlines()]
    log.write_text("\n".join(x if isinstance(x, str) else " ".join([*x[:2], "7000", *x[3:]]) for x in rows) + "\n")
    calendar.write_text(f"kind,begin,end,processors\nannounced,0,{40 * DAY_S},4\n")
    found = what_if(log, thresholds_s=[6 * HOUR_S], small_first=False, calendar=calendar)
    assert found.logged.logged_mean_s == 7000
    assert found.logged.simulated_mean_s == pytest.approx(found.outcomes[0].mean_wait_s)
    assert found.fidelity.plain.simulated_mean_s < found.logged.simulated_mean_s
    assert found["outcomes"][0]["options"]["calendar"] == str(calendar)
    scaled = tmp_path / "scaled.swf"
    assert batfill("workload", "scale", log, "--interarrival", "0.9", "-o", scaled).status == 0
    found = what_if(scaled, small_first=False)
    assert found.logged is found.as_dict()["logged"] is None


def test_what_is_left_out_of_a_log_and_what_a_replay_knows_nothing_of_is_said(tmp_path, light):
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
    text = [*head_of, "; Conversion: x, from slurm accounting", noted, imported, *map(" ".join, rows)]
    path.write_text("\n".join(text))
    found = what_if(path, thresholds_s=[6 * HOUR_S], small_first=False)
    check("what-if-left-out", found.answer().as_text())
    for left in ("6 of 252 rows dropped: run time <= 0", "5 of them cancelled", "1 wider job", "12 records: of"):
        assert left in told(found)
    assert found.as_dict()["site_log"]["slurm"] is True


def test_the_guide_has_the_figures_of_the_rules():
    text = (Path(__file__).parents[2] / "docs/how-to/what-if.md").read_text()
    sure = f"p is below {100 * HIGH_P:g} % and the log has at least {HIGH_WEEKS} weeks"
    idle = f"in over {100 * LOW_IDLE:g} % of the waiting time", f"more than {FAR:g} times the logged"
    for words in (sure, f"it has at least {FEWEST_BLOCKS} weeks", *idle):
        assert words in text


def test_confidence_says_what_another_year_may_bring(answer):
    limit = answer.limits[-1]
    gain = answer.gain(limit.advised)
    low, high = (slowdown(-end) for end in (gain.high, gain.low))
    text = f", by {slowdown(-gain.value)} (95 %: {low} to {high}), less in another year"
    assert text in said(answer, "Confidence", limit)


def test_a_threshold_that_is_given_and_never_applies_is_said_on_the_first_screen(light):
    given = what_if(light, thresholds_s=[99 * DAY_S], small_first=False)
    assert said(given, "Without effect").startswith("saf + 2,376 h: no job waits as long as the threshold")
    usual = what_if(light, small_first=False)
    assert said(usual, "Without effect") == ""
    assert "no job waits as long as the threshold" in told(usual)


def test_a_cap_that_cannot_carry_the_load_is_a_warning_with_the_load(tmp_path):
    rows = (row(k + 1, k * HOUR_S, 7272, req_time=7272, user=1) for k in range(2200))  # 2.02 processors, all the time
    path = log_of(tmp_path / "even.swf", rows)
    options = {
        "the cap": {"pool": "power=2W@1W"},
        "the budget": {"energy_budget": f"{4400 * HOUR_S}J@0..2200h,watts=1W"},
    }
    for name, option in options.items():
        found = what_if(path, thresholds_s=[], small_first=False, **option)
        assert found.cost.load == pytest.approx(1.01, rel=0.001)
        shown = " ".join(found.answer().as_text().split())
        assert f"Warning: the jobs want 101 % of what {name} allows while they arrive, so waits grow" in shown
        undone = re.search(r"arrives, 1(.1)? % of their processor time is not run .0.1 % without the cap.\.", shown)
        assert (undone is not None) == (name == "the cap")  # a budget may end before the log
    late = log_of(tmp_path / "late.swf", (row(k + 1, k * HOUR_S, 9 * HOUR_S, req_time=7272) for k in range(2200)))
    killed = what_if(late, thresholds_s=[], small_first=False, pool="power=2W@1W", overrun="kill", procs=4)
    assert killed.cost.load == pytest.approx(1.01, rel=0.001)
    assert killed.cost.undone == pytest.approx(what_if(path, small_first=False, pool="power=2W@1W").cost.undone)
    away = {"kind": "announced", "begin": 0, "end": 240 * HOUR_S, "processors": 4}
    down = what_if(path, thresholds_s=[], small_first=False, pool="power=3W@1W", calendar=Calendar.of([away]), procs=4)
    assert down.cost.load == pytest.approx(2.02 / 3 * 2199 / (2199 - 240), rel=0.001)  # the cap, less what is out
    more = what_if(path, thresholds_s=[], small_first=False, pool="power=3W@1W")
    assert more.cost.load < 1
    assert "so waits grow" not in more.answer().as_text()


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
    assert cost.left_work == pytest.approx(np.average(~allowed, weights=runs[1].jobs.procs * runs[1].jobs.runtime_s))
    assert (cost.left_out > 0) == (name == "pool")
    assert found.outcomes[0].mean_wait_s == pytest.approx(waits[1].mean())  # all choices are under the cap
    assert found.site.wide == 0
    assert [row[0] for row in screen(found, found.limit).table.rows].count(called) == 1
    shown = found.answer().as_text()
    check(f"what-if-{name}", shown)
    assert len(shown.splitlines()) <= 26
    assert max(map(len, shown.splitlines())) <= 80
    json.dumps(found.as_dict())
    option = [f"--{name}", value]
    assert refusal("fidelity", log, *option)
    assert refusal("when", log, "--at", 86400, *option)


def test_a_short_threshold_has_a_unit(log):
    said = "--threshold 12: a number alone is in seconds; give its unit, as 12h or 12s"
    assert refusal("what-if", log, "--threshold", 12) == said
    assert any("saf + 12 s" in one["name"] for one in json_result("what-if", log, "--threshold", "12s")["outcomes"])


def test_what_urgent_jobs_cost_is_shown_with_and_without_stopping_others(log):
    urgent, stops = {"urgent": "share:5%"}, {"preempt": "least-lost", "requeue_delay_s": 60}
    both = what_if(log, thresholds_s=[], small_first=False, **urgent, **stops)
    alone = replay(log, **urgent).figures
    assert both.cost.alone == (pytest.approx(alone.mean_wait_s), alone.max_wait_s, pytest.approx(alone.mean_bsld))
    names = [row[0] for row in screen(both, both.limit).table.rows]
    assert names[-2:] == ["fcfs, no job stopped", "fcfs without urgent jobs"]
    assert "fcfs with urgent jobs" in [name.strip("*") for name in names]
    assert what_if(log, thresholds_s=[], small_first=False, **urgent).cost.alone is None


def test_a_cap_that_never_binds_costs_nothing_and_what_the_log_itself_used_is_said(tmp_path, light):
    lines = light.read_text().splitlines()
    path = tmp_path / "waited.swf"
    rows = [line.split() for line in lines[3:]]
    path.write_text("\n".join([*lines[:3], *(" ".join([*one[:2], "60", *one[3:]]) for one in rows)]))
    found = what_if(path, thresholds_s=[6 * HOUR_S], small_first=False, pool="power=1MW@100W")
    jobs = read_workload(path).jobs
    starts = jobs.submit_s + 60
    used = max(jobs.procs[(starts <= at_s) & (starts + jobs.runtime_s > at_s)].sum() for at_s in starts)
    leaves, most = "leaves fcfs's mean wait as it is", amount_text(100 * int(used), "W")
    leaves = f"(enough for all 4 processors, so it tests nothing) {leaves}"
    assert said(found, "Cap") == f"power=1MW@100W {leaves}; the log's own starts used up to {most} of 1MW power."
    share = what_if(path, thresholds_s=[6 * HOUR_S], small_first=False, pool="power=75%")
    assert f"used up to {used} of 3 processors." in said(share, "Cap")
    assert found.cost.longer.value == 0
    found = what_if(path, thresholds_s=[6 * HOUR_S], small_first=False, energy_budget="9GWh@0..99d,watts=1W")
    assert said(found, "Cap") == f"energy-budget 9GWh@0..8553600,watts=1W {leaves}."
