import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from batfill.base import version
from batfill.base.stats import Paired
from batfill.base.words import duration
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from batfill.replays.replay import replay
from batfill.workloads import generate_workload, read_workload
from batfill.workloads.generate import generate_log
from batfill.workloads.swf_log import write_log
from batfill_site.advice import promise
from batfill_site.advice.page import as_page
from batfill_site.advice.promise import Check, Figures
from batfill_site.advice.text import (
    NB,
    advice_text,
    answer_text,
    confidence_text,
    export_text,
    growth_of,
    options_words,
    pays_text,
    reaction_text,
    runner_up_text,
    terms_text,
    tie_text,
    trial_text,
)
from batfill_site.advice.what_if import (
    CHECKS,
    FEWEST_JOBS,
    HIGH,
    KILLS,
    LIMITS,
    LOW,
    MEDIUM,
    ORDER,
    PLAINER,
    THRESHOLD,
    TODAY,
    Changed,
    ChoiceFigures,
    advised,
    choices,
    groups_of,
    planned,
    what_if,
)
from batfill_site.fidelity import Score
from command import batfill, json_result
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
        for found, changes in ((one.jobs, longer_s), (one.users, means)):
            less, longer = sum(late < -600 for late in changes), sum(late > 600 for late in changes)
            assert found == (less, len(changes) - less - longer, longer)
    assert answer.outcomes[2].jobs.longer > 0 < answer.outcomes[2].users.less


def log_of(path, rows):
    """A log of four processors."""
    path.write_text("; MaxProcs: 4\n" + "".join(rows))
    return path


def told(answer):
    """The text for the terminal in one line."""
    return " ".join(answer_text(answer).split())


def outcome(name, effort, bsld, longest_h):
    waits = (None, 0, 0, 0, 0, None, {})
    same = Changed(0, 1, 0)
    return ChoiceFigures(name, name, {}, effort, bsld, 0, 0, longest_h * HOUR_S, same, None, None, 0, 0, None, *waits)


def pairs(outcomes, half):
    """Differences of the means, each with an interval so wide to both sides."""
    means = [o.mean_bsld for o in outcomes]
    return [{b: difference(other - one, half) for b, other in enumerate(means)} for one in means]


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


def with_p(answer, p, weeks):
    """The same over so many weeks, with this p of the choice that is advised without a limit."""
    period, k = np.minimum(answer.comparison.period, weeks - 1), answer.limits[-1].advised
    period[-1] = weeks - 1
    first = {**answer.bsld[0], k: replace(answer.bsld[0][k], corrected_p=p)}
    return replace(answer, bsld=[first, *answer.bsld[1:]], comparison=replace(answer.comparison, period=period))


def test_confidence_needs_weeks_and_a_small_p(answer):
    limit = answer.limits[-1]
    assert limit.advised
    for weeks, p, sure in ((24, 0.0099, HIGH), (23, 0.0099, MEDIUM), (24, 0.01, MEDIUM), (30, 0.05, MEDIUM)):
        assert with_p(answer, p, weeks).confidence(limit) == sure
    assert answer.confidence(limit._replace(advised=0)) is None


def graded(answer, ratio, logged_s=10_000.0):
    """The answer as if simulated waits were such a part of the logged ones."""
    score = Score(900, 0.5, 0.5, ratio * logged_s, logged_s, ratio, 0.5, 0.5, 2 * DAY_S, 9 * DAY_S)
    return replace(answer, logged=score)


def test_fidelity_and_invented_requests_cap_the_confidence_and_say_so(answer):
    limit, sure = answer.limits[-1], with_p(answer, 0.0, 31)
    name = answer.outcomes[limit.advised].name.replace(" ", NB)
    for ratio, level in ((0.5, HIGH), (0.3, MEDIUM), (3.5, MEDIUM), (0.06, LOW), (11.0, LOW)):
        found = graded(sure, ratio)
        assert found.confidence(limit) == level
        said = confidence_text(found, limit)
        if level == HIGH:
            assert said == f"**Confidence: high** that slowdown is lower under {name} than under fcfs, simulated."
        else:
            assert said.startswith(f"**Confidence: {level}**, although")
            assert f"simulated waits are {ratio:.2g} times the logged ones" in said
    guessed = replace(sure, workload=SimpleNamespace(invented_warning=("few have a request",), unrequested="runtime"))
    assert guessed.confidence(limit) == LOW
    assert "it rests on invented requests" in confidence_text(guessed, limit)


def test_where_the_log_has_waits_and_the_replay_has_none_the_answer_cannot_tell(answer, log):
    bars = re.findall("<i[^>]*--part", as_page(graded(answer, 0.001), log, "batfill what-if"))
    assert bars
    assert all("may be chance" in bar for bar in bars)
    never = [limit._replace(advised=0, equals=()) for limit in answer.limits]
    for found in (graded(answer, 0.001), replace(graded(answer, 0.06), limits=never)):
        said = advice_text(found, found.limit)
        assert said.startswith("Cannot tell: the replay does not show this site's waits: they are ")
        assert "2 h 46 min in the log" in said.replace(NB, " ")
        assert (found.as_dict()["advice"], found.as_dict()["trusted"]) == (None, False)
        assert "Keep" not in told(found)
    assert graded(answer, 0.06).undecided is None  # a choice gains: low confidence
    assert graded(answer, 0.0, logged_s=30.0).undecided is None  # the site has no waits, either


def test_the_mean_wait_in_the_log_stands_beside_that_of_simulated_fcfs(answer):
    fcfs, found = answer.outcomes[0], graded(answer, 0.5)
    beside = f"(fcfs, simulated: {duration(fcfs.mean_wait_s)}; in the log: 2 h 46 min)"
    assert beside in trial_text(found, 1).replace(NB, " ")
    assert re.search(r"in the log +2 h 46 min +9 d", answer_text(found))
    assert "in the log" not in told(answer)
    assert "today" not in told(found).lower()


def with_tries(answer, k, **checks):
    """The same, where the k-th choice is first tries."""
    outcomes = list(answer.outcomes)
    outcomes[k] = outcomes[k]._replace(options={"preset": "first-tries"}, name="first tries")
    return replace(answer, outcomes=outcomes, **checks)


def test_a_promise_broken_at_more_load_is_said_in_the_advice_and_caps_the_confidence(answer):
    base, limit = np.full((2, len(Figures._fields)), 9.0), answer.limits[-1]
    kept, worse = Check(base * 0.5, base, 100), Check(base * 1.06, base, 100, 1.1)
    found = with_tries(answer, limit.advised, promise=kept, busier=worse)
    broken = "t 10 % more load first tries break their promise (mean bsld 1.060 > 0.85"
    assert f"▲ A{broken}" in advice_text(found, limit).replace(NB, " ")
    assert f"a{broken.partition(' (')[0]}." in confidence_text(found, limit)
    assert found.confidence(limit) == MEDIUM
    assert "more load" not in advice_text(replace(found, busier=kept), limit)
    overloaded = Check(base * 1.06, base + 9 * HOUR_S, 100, 1.1)
    assert "overloaded and first tries promise nothing" in advice_text(replace(found, busier=overloaded), limit)


def test_a_tie_is_told_with_its_reason(answer):
    mine, other, third = (named(answer, name) for name in ("spf", "saf", "saf + 6 h"))
    limit = answer.limits[0]._replace(advised=mine, equals=(third,))
    assert tie_text(answer, limit) == "As far as this log can tell, as good: saf + 6 h, which asks more of a site."
    limit = limit._replace(growth=None, equals=(other,))
    assert "whose longest wait is no shorter" in tie_text(answer, limit)
    assert "Without a limit, of choices whose slowdowns do not differ surely" in tie_text(answer, limit)
    assert tie_text(answer, limit._replace(equals=())) == ""


def test_the_advice_is_given_for_every_limit(answer):
    assert [limit.growth for limit in answer.limits] == [*LIMITS, None]
    longest = answer.outcomes[0].max_wait_s
    for limit in answer.limits:
        taken = answer.outcomes[limit.advised]
        if limit.growth is not None:
            assert taken.max_wait_s <= (1 + limit.growth) * longest + 1e-6
        text = advice_text(answer, limit)
        assert taken.name.replace(" ", "\u00a0") in text
        assert text.startswith("Take" if limit.advised else "Keep")
    assert len({limit.advised for limit in answer.limits}) > 1


def test_where_nothing_gains_the_advice_is_to_stay_and_says_how_sure_that_is(tmp_path):
    path = log_of(tmp_path / "idle.swf", (row(k + 1, k * DAY_S, 600, req_time=600) for k in range(80)))
    for command in (["--no-small-first"], ["--no-small-first", "--threshold", "12h"]):
        done = batfill("what-if", path, *command)
        assert done.status == 0
        assert "Keep first come, first served (fcfs): no choice that was tested is better beyond chance." in done.out
        assert "fcfs, simulated: mean wait 0 s, longest wait 0 s, slowdown 1.0" in done.out.replace("\n", " ")
        assert "Confidence" not in done.out
        assert "* fcfs" in done.out
    assert json_result("what-if", path, "--no-small-first")["advice"] == "fcfs"


def test_a_choice_that_the_plan_stopped_before_is_said_not_to_be_tested(answer, log):
    k, stop = named(answer, "saf + 6 h"), named(answer, "saf + 24 h")
    unclear = {j: replace(answer.bsld[0][j], corrected_p=0.9) for j in (k, stop)}
    limit = answer.limits[0]._replace(advised=0, equals=(), longest_s=answer.outcomes[k].max_wait_s)
    found = replace(answer, bsld=[{**answer.bsld[0], **unclear}, *answer.bsld[1:]], limits=[limit] * len(answer.limits))
    why = "saf + 24 h, planned before it, may differ from fcfs by chance."
    said = advice_text(found, limit).replace(NB, " ")
    assert "no choice that was tested is better " in said
    assert f"; saf + 6 h is lower within the limit, but was not tested, because {why}" in said
    assert f"It was not tested, because {why}" in trial_text(found, k)
    page = page_of(found, log)
    table = page[page.index("Slowdown against fcfs") :]
    assert "<td>not tested</td>" in table[table.index("saf + 6") :].partition("</tr>")[0]
    assert (found.stopped_by(k), found.stopped_by(stop)) == (stop, None)


def test_the_intervals_of_pairs_are_those_of_the_comparison(answer):
    for k, one in enumerate(answer.comparison.differences(0), 1):
        assert (answer.bsld[0][k].value, answer.bsld[0][k].low) == (one.bsld.value, one.bsld.low)
        assert answer.bsld[k][0].low == pytest.approx(-answer.bsld[0][k].high)


def test_the_comparisons_with_fcfs_follow_a_plan_and_those_of_two_others_stand_alone(log, answer):
    fcfs, *others = answer.bsld
    named = [[answer.outcomes[k].name for k in chain] for chain in answer.chains]
    assert named == [["saf", "spf"], ["saf + 24 h", "saf + 6 h"]]
    for chain in answer.chains:
        for place, k in enumerate(chain):
            assert fcfs[k].corrected_p == min(1, 2 * max(fcfs[j].p for j in chain[: place + 1]))
    assert all(one.corrected_p == one.p for mine in others for one in mine.values())
    assert "2 planned comparisons with fcfs" in told(answer)
    assert answer.as_dict()["comparisons"] == named
    tried = choices([1, 5, 4], True)
    kinds = [[tried[k].name for k in chain] for chain in planned(tried, [1, 5, 4], {})]
    assert [(chain[0], len(chain)) for chain in kinds] == [("saf", 2), ("saf + 4 s", 3), ("first tries", 1)]


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
    assert not set(itertools.chain(*found.chains)) & set(found.withheld)
    text = told(found)
    assert ("not offered for" in text) == bool(withheld)
    if system in ("flux", "oar"):
        assert f"Keep first come, first served (fcfs): {system} can do none of the other choices." in text
        assert "can do none of the" in page_of(found, log)
    if system == "slurm":
        one = found.limits[0]._replace(advised=0, longest_s=1e9)
        k = next(iter(found.withheld))
        said = advice_text(found, one)
        assert "nothing that Slurm can do in full is better" in said
        assert "approximately" not in said  # Slurm cannot do saf + 24 h
        tries = found.outcomes[k]._replace(options={"preset": "first-tries"}, name="first tries")
        outcomes = [tries if o is found.outcomes[k] else o for o in found.outcomes]
        said = advice_text(replace(found, outcomes=outcomes), one)
        assert "; first tries would be, but Slurm can do it only approximately." in said
    if found.limit.advised:
        assert f"batfill export-config {system} " in text
        words = text.split(f"batfill export-config {system} ")[1].split("`")[0]
        assert batfill("export-config", system, *words.split()).status == 0


def test_the_advised_command_leaves_out_what_only_replays_take(log):
    answer = what_if(log, thresholds_s=[3600], small_first=False, feedback="after:20min:fcfs", max_wait_growth=1000.0)
    assert "--feedback" not in export_text(answer)


def test_a_page_is_made_where_a_system_gives_every_job_a_reservation_and_the_order_of_backfilling_is_given(log):
    answer = what_if(log, thresholds_s=[3600], small_first=False, backfill="saf")
    assert "every job reserved" in page_of(answer, log)


def test_first_tries_are_replayed_and_their_promise_is_checked(log):
    found = what_if(log, thresholds_s=[3600, 7200, 10_800], seed=1)
    tries = found.outcomes[1]
    assert (tries.name, tries.effort, options_words(tries)) == ("first tries", KILLS, "--preset first-tries")
    figures = json_result("replay", log, "--preset", "first-tries")
    large = figures["waits_by_class"][1]["max_wait_s"]
    assert tries.waits["small_below_s"] == figures["small_below_s"]
    assert (tries.max_wait_s, tries.large_max_wait_s) == (figures["max_wait_s"], large)
    assert tries.mean_bsld == pytest.approx(figures["mean_bsld"])
    assert (tries.kills, tries.wasted) == (figures["requeued"], figures["wasted"])
    assert tries.kills > 0
    assert f"every job of at most 12.5{NB}% of the processors first runs" in terms_text(found)
    assert f"first tries: {tries.kills:,} tries are killed" in told(found)
    assert (found.promise.load, found.busier.load) == (1, 1.1)
    base = found.busier.base[0][Figures._fields.index("wait")]
    assert base > found.promise.base[0][Figures._fields.index("wait")]
    advice = found.limits[-1]._replace(advised=1)
    gentle = found.without_kills(advice)
    assert gentle == found.best_of(advice, [k for k, o in enumerate(found.outcomes) if k and o.effort < KILLS])
    said = runner_up_text(found, advice)
    assert pays_text(found, gentle) in said if gentle else "no choice that was tested is better" in said


def rushes(path, run_s):
    """Fourteen weeks that begin with a rush: a fifth of the jobs run for a minute, the others for about `run_s`."""
    rng, rows = np.random.default_rng(1), []
    for k in range(1400):
        ran = 60 if rng.random() < 0.2 else int(rng.integers(run_s // 2, 2 * run_s))
        procs = 32 if rng.random() < 0.05 else int(rng.integers(1, 4))
        at = 7 * DAY_S * (k // 100) + 30 * (k % 100)
        rows.append(row(k + 1, at, ran, req_procs=procs, req_time=8 * run_s, user=k % 4))
    path.write_text("; MaxProcs: 32\n" + "".join(rows))
    return path


@pytest.mark.parametrize(
    ("run_s", "kept"),  # the longer jobs run, the less work tries waste
    [(5400, [True]), (3600, [False, False, False, True]), (1800, [False] * 4)],
)
def test_where_the_preset_breaks_its_promise_plainer_tries_are_checked_until_one_keeps_it(
    tmp_path, monkeypatch, run_s, kept
):
    monkeypatch.setattr(promise, "MOST", {"bsld": 0.85, "waste": 0.01})
    path, steps = rushes(tmp_path / "rushes.swf", run_s), []
    found = what_if(path, thresholds_s=[DAY_S], advance=steps.append)
    assert [not (found.promise.broken or found.busier.broken), *(one.kept for one in found.plainer)] == kept
    assert sum(steps) == pytest.approx(5 + CHECKS)
    text, page, k = told(found), page_of(found, path), len(found.outcomes) - 1
    assert [one["kept"] for one in found.as_dict()["plainer"]] == kept[1:]
    assert ("so plainer ones were checked" in text) == (len(kept) > 1)
    assert ("checked, and none keeps the promise" in text) == (not any(kept))
    if not any(kept):
        broken = found.plainer[0].checks[0].broken["waste"]
        assert (
            f"tries in order of submission (`--preset first-tries --policy fcfs`) break it ({broken}; at 10 %" in text
        )
    if found.picked is None:
        assert [o.name for o in found.outcomes if o.effort == KILLS] == ["first tries"]
        return
    assert found.outcomes[k].name == "tries that stand back early"
    assert found.chains[-1] == [1, k]
    p, before = found.bsld[0][k].p, found.bsld[0][1].p
    assert found.bsld[0][k].corrected_p == min(1, 3 * max(before, 3 * p))
    assert found.best_of(found.limits[-1], [k]) == k
    assert "The log picked tries that stand back early from 3, so their p is 3 times as large." in text
    command = re.search(f"batfill replay {re.escape(str(path))} (--preset [^\n<]* --stand-back [^\n<]*)", page)[1]
    assert command.startswith("--preset first-tries --policy fcfs --stand-back 8 ")
    alone = json_result("replay", path, *command.split())
    assert alone["mean_bsld"] == pytest.approx(found.outcomes[k].mean_bsld)


@pytest.mark.parametrize("load", [1.0, 1.1])
def test_plainer_tries_are_checked_on_the_submissions_and_the_fcfs_of_the_presets_check(log, load):
    workload = read_workload(log)
    made = promise.check(workload.jobs, workload, load=load)
    for choice in PLAINER:
        alone = promise.check(workload.jobs, workload, load=load, options=choice.options)
        beside = promise.check(workload.jobs, workload, load=load, options=choice.options, beside=made)
        assert (alone.figures == beside.figures).all()
        assert (alone.base == beside.base).all()


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
        assert one.clearly_longer == ((longer_s > 600) & (wait_s > 1.1 * waits[0])).sum()
        if (most := one.most_delayed) is not None:
            row = jobs.ids.tolist().index(most.job.zfill(len(jobs.ids[0])))
            assert (most.before_s, most.after_s, longer_s[row]) == (waits[0][row], wait_s[row], longer_s.max())
            said = f"Job {most.job} loses most: it waits {duration(most.after_s)}, not {duration(most.before_s)}."
            assert said in pays_text(answer, answer.outcomes.index(one)).replace(NB, " ")
    assert answer.outcomes[0].most_delayed is None
    assert f"Who pays: {pays_text(answer, answer.limit.advised)}".replace(NB, " ") in told(answer)
    assert max(one.large_delayed for one in answer.outcomes) > answer.outcomes[0].large_delayed == 0
    stated = answer.as_dict()["outcomes"][1]
    assert stated.items() >= answer.outcomes[1].waits.items()
    assert stated["most_delayed"] == answer.outcomes[1].most_delayed._asdict()
    assert "waits" not in answer.to_pandas().columns


def test_options_hold_for_every_choice_that_can_take_them(log):
    found = json_result("what-if", log, "--no-small-first", "--threshold", "6h", "--backfill", "spf")
    assert (found["backfill"], found["overdue_before"], found["bound"]) == ("spf", None, None)
    for outcome in found["outcomes"]:
        assert outcome["options"]["backfill"] == "spf"
        policy, *more = outcome["name"].split(" + ")
        threshold = ["--threshold", "6h"] if more else []
        alone = json_result("replay", log, "--policy", policy, "--backfill", "spf", *threshold)
        assert outcome["mean_bsld"] == pytest.approx(alone["mean_bsld"])
    tried = {one.name: one.options for one in choices([6 * HOUR_S], True, {"overdue-before": "large", "bound": False})}
    assert [name for name, options in tried.items() if "overdue-before" in options] == ["first tries"]
    assert [name for name, options in tried.items() if "bound" in options] == ["first tries"]


def test_advice_on_invented_requests_is_not_to_be_trusted(tmp_path):
    rows = (row(k + 1, k * DAY_S // 3, 600, req_time=-1 if k % 3 else 3600, user=1) for k in range(240))
    path, page = log_of(tmp_path / "invented.swf", rows), tmp_path / "page.html"
    words = ("what-if", path, "--no-small-first", "--unrequested", "runtime")
    done = batfill(*words, "-o", page)
    said = "it rests on invented requests; 160 of 240 jobs (66.7 %) have no requested time"
    assert f"Warning: do not trust this advice: {said}" in done.out.replace("\n", " ")
    assert page.read_text().replace("\N{NO-BREAK SPACE}", " ").count(said) == 1
    assert "do not trust this advice" in page.read_text()
    found = json.loads(batfill(*words, "--json").out)
    assert found["trusted"] is False
    assert found["cautions"][0].startswith("it rests on invented requests; 160 of 240 jobs")


def test_advice_from_a_few_days_is_not_to_be_trusted(tmp_path, answer):
    path = log_of(tmp_path / "short.swf", (row(k + 1, 60 * k, 600, req_time=600) for k in range(100)))
    found = what_if(path, small_first=False)
    assert found.undecided == "a week of submissions is too few, 12 are needed"
    assert (found.as_dict()["advice"], found.as_dict()["trusted"]) == (None, False)
    assert found.as_dict()["limits"] == []
    for text in (told(found), page_of(found, path)):
        assert "Cannot tell: a week of submissions is too few, 12 are needed." in text
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
    assert max(map(len, done.out.splitlines())) <= 100


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


def test_a_growth_is_a_duration_and_a_percentage(answer):
    today, other = answer.outcomes[:2]
    grown = {597: "+10 min (+0.1 %)", -40: "\u221240 s (\u22120.008 %)", 0: "", 250_000: "+2 d 21 h (+50 %)"}
    for more_s, words in grown.items():
        outcomes = [today._replace(max_wait_s=500_000), other]
        outcomes[1] = other._replace(max_wait_s=outcomes[0].max_wait_s + more_s)
        found = replace(answer, outcomes=[*outcomes, *answer.outcomes[2:]])
        assert growth_of(found, 1).replace("\u00a0", " ") == words


def test_the_confidence_says_where_moved_submissions_leave_the_limit(answer):
    base, longest_s = np.ones((2, len(Figures._fields))), answer.outcomes[0].max_wait_s
    found = with_tries(answer, answer.limits[-1].advised, promise=Check(base * [[1.0], [1.208]], base, 100))
    said = "the longest wait was 1.00 to 1.21 times fcfs's, in part above this limit."
    for growth, there in ((1.1, True), (1.25, False)):
        limit = answer.limits[-1]._replace(growth=growth - 1, longest_s=growth * longest_s)
        assert (said in confidence_text(found, limit)) == there
    assert said not in confidence_text(found, answer.limits[-1])


@pytest.mark.usefixtures("page")
def test_the_limit_moves_the_advice_and_what_is_shown_of_it(browser, answer):
    for at in (len(LIMITS), 0, 2):
        slid(browser, at)
        advised = answer.limits[at].advised
        said = advice_text(answer, answer.limits[at]).replace("**", "")
        assert text_of(browser, "#advice .answer") == " ".join(said.split())
        assert set(browser.run(SHOWN)) == {str(advised)}
        (limit, run), picked = browser.run(MARKED)
        assert (limit, str(at) in run.split(), picked) == ("limit", True, ["pick", str(advised)])
        aloud = browser.run("return document.getElementById('grow').ariaValueText")
        assert answer.outcomes[advised].name in aloud.replace("\u00a0", " ")


@pytest.mark.usefixtures("page")
def test_a_point_and_a_row_show_who_pays_under_another_choice(browser, answer):
    other = named(answer, "spf")
    chosen(browser, other)
    assert text_of(browser, "#advice .answer").startswith("If you took shortest first (spf): mean wait ")
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
    sure = text_of(browser, ".sure")
    assert "Confidence" in sure
    chosen(browser, other)
    address = browser.run("return location.hash")
    assert address == "#limit=10&choice=spf"
    name = answer.advice.name
    assert text_of(browser, ".sure") == sure.replace("Confidence", f"The advice, {name}: confidence", 1)
    assert text_of(browser, "#advice .answer").startswith("If you took shortest first (spf)")
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


def test_the_page_links_its_documentation_where_a_build_gives_the_address(answer, log, monkeypatch):
    assert "<a href" not in page_of(answer, log)
    monkeypatch.setattr(version, "DOCUMENTATION", "https://docs.example")
    links = re.findall('<a href="https://docs.example/([^"#]+)', page_of(answer, log))
    assert links
    assert [link for link in links if not (DOCS / link).with_suffix(".md").is_file()] == []


def test_without_a_script_the_answer_the_tables_and_the_bars_are_there(answer, text):
    still = re.sub("(?s)<script.*?</script>", "", text)
    assert "easiest to run, unless another is better in both slowdown and longest wait; at “any”" in still
    unlimited = re.sub('(?s)<div class="limit controls live" hidden>.*?</div></div>', "", still)
    dead = re.findall("<(?:button|input)[^>]*>", unlimited)
    assert [one for one in dead if "hidden" not in one and 'name="system"' not in one] == []
    for found in (advice_text(answer, answer.limit).split("**")[2], "The advice at each limit", "PBS"):
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
    assert "PBS can do saf in full" in text
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
    assert {o.users for o in found.outcomes} == {None}
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
    assert options_words(answer.outcomes[0]) == f"--calendar {calendar} --policy fcfs"


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
