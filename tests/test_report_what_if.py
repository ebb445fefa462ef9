import itertools
import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from batfill.options import part_of
from batfill.policy import policy_named
from batfill.replays import replay
from batfill.reports.palette import style
from batfill.reports.what_if import (
    CLASSES,
    FEWEST_JOBS,
    KILLS,
    ORDER,
    THRESHOLD,
    TODAY,
    ChoiceFigures,
    advised,
    choices,
    groups_of,
    planned,
    what_if,
)
from batfill.reports.what_if_page import advice_lines, as_page, as_text, change, options_words
from batfill.stats import Paired
from batfill.workloads import read_workload
from batfill.workloads.generate import generate_log
from batfill.workloads.swf_log import write_log
from browser import CHROMIUM, DRIVER, Browser
from command import batfill, json_result, refusal
from swf_text import row

HOUR_S, DAY_S = 3600, 86_400


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "cluster.swf"
    write_log(generate_log(3000, 64, seed=3, users=12, load=0.9), path)
    return path


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """The jobs of a few weeks, for what judges them one by one."""
    path = tmp_path_factory.mktemp("few") / "few.swf"
    write_log(generate_log(1800, 64, seed=3, users=12, load=0.9), path)
    return path


@pytest.fixture(scope="module")
def answer(log):
    return what_if(log, thresholds_s=[24 * HOUR_S, 6 * HOUR_S], small_first=False)


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
    assert [o.name for o in answer.outcomes] == ["fcfs", "spf", "saf", "saf, threshold 6 h", "saf, threshold 24 h"]
    for outcome in answer.outcomes:
        policy = policy_named(outcome.name.partition(",")[0])
        threshold_s = outcome.options.get("threshold", np.inf)
        figures = replay(workload.jobs, workload.procs, policy, threshold_s=threshold_s).summary()
        assert outcome.mean_bsld == pytest.approx(figures.mean_bsld)
        assert (outcome.mean_wait_s, outcome.max_wait_s) == (pytest.approx(figures.mean_wait_s), figures.max_wait_s)


def test_who_loses_waits_longer_on_average_than_under_fcfs(log, answer):
    user = read_workload(log).jobs.user
    asked = [one for one in np.unique(user) if (user == one).sum() >= FEWEST_JOBS]
    wait_s = answer.comparison.wait_s
    for k, outcome in enumerate(answer.outcomes):
        losers = [one for one in asked if wait_s[k][user == one].mean() > wait_s[0][user == one].mean()]
        assert outcome.losers == pytest.approx(len(losers) / len(asked))
    assert answer.outcomes[0].losers == 0 < max(outcome.losers for outcome in answer.outcomes)


def test_groups_by_class_width_length_and_user_each_hold_every_job_once(log):
    jobs = read_workload(log).jobs
    rows = [rows.astype(int) for _, rows in groups_of(jobs, 64)]
    assert len(rows) == 12
    for part in (rows[:2], rows[2:6], rows[6:9], rows[9:]):
        assert (sum(part) == 1).all()


def test_the_heaviest_users_are_fewer_and_do_about_a_third_of_the_work(log):
    jobs = read_workload(log).jobs
    work = jobs.runtime_s * jobs.procs
    heavy, _, light = [rows for _, rows in groups_of(jobs, 64)][9:]
    assert len(np.unique(jobs.user[heavy])) < len(np.unique(jobs.user[light]))
    assert work[heavy].sum() > work.sum() / 3


def test_a_groups_difference_is_the_mean_over_its_jobs(log, answer):
    jobs = read_workload(log).jobs
    comparison = answer.comparison
    rows = dict(groups_of(jobs, 64))
    assert answer.groups
    for group in answer.groups:
        assert group.jobs == rows[group.name].sum() >= FEWEST_JOBS
        changed = (comparison.wait_s[2] - comparison.wait_s[0])[rows[group.name]].mean()
        assert group.differences[1].wait_s.value == pytest.approx(changed)


def outcome(name, effort, bsld, longest_h):
    waits = (None, 0, 0, 0, 0, None, {})
    return ChoiceFigures(name, {}, effort, bsld, 0, 0, longest_h * HOUR_S, None, None, 0, 0, *waits)


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
    assert outcomes[advised(outcomes, pairs(outcomes, half), limit_h * HOUR_S, 0.05, range(1, 4))].name == chosen


def test_of_equals_that_ask_as_much_the_one_with_the_shortest_longest_wait_is_advised():
    outcomes = [outcome("fcfs", TODAY, 100, 10), outcome("spf", ORDER, 90, 8), outcome("saf", ORDER, 88, 9)]
    assert advised(outcomes, pairs(outcomes, 1), 36_000, 0.05, [1, 2]) == 1
    assert advised(outcomes, pairs(outcomes, 1), 36_000, 0.05, [2]) == 2
    assert advised(outcomes, pairs(outcomes, 1), 36_000, 0.01, [1, 2]) == 2


def test_what_another_choice_beats_in_both_figures_is_never_advised():
    outcomes = [outcome("fcfs", TODAY, 100, 10), outcome("saf", ORDER, 60, 9), outcome("tries", KILLS, 50, 8)]
    assert advised(outcomes, pairs(outcomes, 20), 36_000, 0.05, [1, 2]) == 2


def test_a_threshold_that_never_fires_is_said_to_and_never_advised(light):
    found = what_if(light, small_first=False, max_wait_growth=100)
    bounded = [o for o in found.outcomes if o.effort == THRESHOLD]
    assert all(o.overdue == 0 and o.mean_bsld == found.outcomes[2].mean_bsld for o in bounded)
    assert found.advice.effort < THRESHOLD
    assert "No job waits as long as 6 h, 12 h, 24 h, 48 h, 96 h under saf" in as_text(found)


def test_where_nothing_gains_the_advice_is_to_stay_and_says_how_sure_that_is(tmp_path):
    path = tmp_path / "idle.swf"
    path.write_text("; MaxProcs: 4\n" + "".join(row(k + 1, k * DAY_S, 600, req_time=600) for k in range(80)))
    for command in (["--no-small-first"], ["--no-small-first", "--threshold", "12h"]):
        done = batfill("what-if", path, *command)
        assert done.status == 0
        assert "Nothing to gain, whatever the limit on the longest wait: stay with fcfs." in done.out
        assert "(+0.00, 95 % interval +0.00 to +0.00, p 1): no lower." in done.out
        assert "* fcfs" in done.out
    assert json_result("what-if", path, "--no-small-first")["advice"] == "fcfs"


def test_the_intervals_of_pairs_are_those_of_the_comparison(answer):
    for k, one in enumerate(answer.comparison.differences(0), 1):
        assert (answer.bsld[0][k].value, answer.bsld[0][k].low) == (one.bsld.value, one.bsld.low)
        assert answer.bsld[k][0].low == pytest.approx(-answer.bsld[0][k].high)


def test_the_comparisons_with_fcfs_follow_a_plan_and_those_of_two_others_stand_alone(log, answer):
    fcfs, *others = answer.bsld
    named = [[answer.outcomes[k].name for k in chain] for chain in answer.chains]
    assert named == [["saf", "spf"], ["saf, threshold 24 h", "saf, threshold 6 h"]]
    for chain in answer.chains:
        for place, k in enumerate(chain):
            assert fcfs[k].corrected_p == min(1, 2 * max(fcfs[j].p for j in chain[: place + 1]))
    assert all(one.corrected_p == one.p for mine in others for one in mine.values())
    assert "2 planned comparisons with fcfs" in as_text(answer)
    assert answer.as_dict()["comparisons"] == named
    tried = choices([1, 5, 4], True, 0)
    kinds = [[tried[k].name for k in chain] for chain in planned(tried, [1, 5, 4], {})]
    assert [chain[0] for chain in kinds] == ["saf", "saf, threshold 4 s", "first tries, threshold 4 s"]
    assert len(kinds[1]) == 3
    assert len(kinds[2]) == 4


@pytest.mark.parametrize(
    ("system", "withheld"),
    [("slurm", ["saf, threshold 24 h"]), ("pbs", []), ("flux", ["spf", "saf", "saf, threshold 24 h"])],
)
def test_a_batch_system_is_offered_only_what_it_can_do(log, system, withheld):
    found = what_if(log, thresholds_s=[24 * HOUR_S], small_first=False, max_wait_growth=1000.0, system=system)
    assert [found.outcomes[k].name for k in found.withheld] == withheld
    assert list(found.as_dict()["withheld"]) == withheld
    assert not {limit.advised for limit in found.limits} & set(found.withheld)
    assert not set(itertools.chain(*found.chains)) & set(found.withheld)
    text = as_text(found)
    assert ("not offered for" in text) == bool(withheld)
    if system == "flux":
        assert "flux can do none of the other choices: stay with fcfs" in text
    if found.limit.advised:
        assert f"batfill export-config {system} " in text
        words = text.split(f"batfill export-config {system} ")[1].split("`")[0]
        assert batfill("export-config", system, *words.split()).status == 0


def test_the_limit_on_the_longest_wait_is_an_option_with_its_price_at_half_and_double(log):
    options = ("what-if", log, "--no-small-first", "--threshold", "6h", "--threshold", "24h")
    found = json_result(*options, "--max-wait-growth", "30%")
    assert [limit["growth"] for limit in found["limits"]] == [0.15, 0.3, 0.6, None]
    outcomes = {o["name"]: o for o in found["outcomes"]}
    for limit in found["limits"]:
        chosen = outcomes[limit["advice"]]
        assert (limit["mean_bsld"], limit["max_wait_s"]) == (chosen["mean_bsld"], chosen["max_wait_s"])
        if limit["growth"] is not None:
            assert limit["longest_s"] == pytest.approx((1 + limit["growth"]) * outcomes["fcfs"]["max_wait_s"])
            assert chosen["max_wait_s"] <= limit["longest_s"]
    assert found["advice"] == found["limits"][1]["advice"]
    assert all(a["mean_bsld"] >= b["mean_bsld"] for a, b in pairwise(found["limits"][:3]))
    tight = json_result(*options, "--max-wait-growth", "0")
    assert [limit["growth"] for limit in tight["limits"]] == [0, 0.05, 0.1, None]
    assert tight["advice"] == tight["limits"][0]["advice"]
    assert tight["limits"][0]["longest_s"] == outcomes["fcfs"]["max_wait_s"]
    wide = json_result(*options, "--max-wait-growth", "1000%")
    assert wide["advice"] != tight["advice"]


def test_what_is_beyond_the_limit_is_named_with_the_growth_that_it_takes(log, answer):
    kept = what_if(log, thresholds_s=[], small_first=False, max_wait_growth=0)
    assert kept.limit.advised == 0
    line = next(line for line in advice_lines(kept) if "--max-wait-growth" in line)
    growth = re.search(r"--max-wait-growth (\d+%)", line)[1]
    name = re.search("that gains is (.*): mean", line)[1]
    grown = json_result("what-if", log, "--no-small-first", "--threshold", "1000h", "--max-wait-growth", growth)
    assert grown["advice"] == name


def test_the_smallest_gain_is_an_option(log):
    wide = ("what-if", log, "--no-small-first", "--max-wait-growth", "1000%")
    assert json_result(*wide)["advice"] != "fcfs"
    assert json_result(*wide, "--min-gain", "0.99")["advice"] == "fcfs"
    assert json_result(*wide, "--min-gain", "0")["min_gain"] == 0


@pytest.mark.parametrize(("text", "share"), [("10%", 0.1), (0, 0), ("150 %", 1.5), (1, 1), (0.25, 0.25)])
def test_a_share_is_written_with_or_without_per_cent(text, share):
    assert part_of("x", text) == share


def test_small_first_is_replayed_without_and_with_kills(few):
    found = what_if(few, thresholds_s=[3600, 7200, 10_800], seed=1)
    plain, killing, tries, guarded = found.outcomes[6:]
    assert [(o.name, o.effort) for o in (plain, killing, tries, guarded)] == [
        ("small first, no kill", CLASSES),
        ("small first, kill", KILLS),
        ("first tries", KILLS),
        ("first tries, threshold 2 h", KILLS),
    ]
    given = ("replay", few, "--small", "forest", "--kill", "never", "--seed")
    kill = ["--kill", "always"]
    for choice, more in (
        (plain, []),
        (killing, kill),
        (tries, [*kill, "--cut", "0"]),
        (guarded, [*kill, "--cut", "0", "--threshold", "2h"]),
    ):
        assert set(options_words(choice).split()) >= {word for word in more if word != "2h"}
        figures = json_result(*given, *more)
        assert choice.waits["class_divider_s"] == figures["class_divider_s"]
        assert (choice.max_wait_s, choice.large_max_wait_s) == (
            figures["max_wait_s"],
            figures["waits_by_class"][1]["max_wait_s"],
        )
        assert choice.mean_bsld == pytest.approx(figures["mean_bsld"])
        assert (choice.kills, choice.wasted) == (figures["requeued"], figures["wasted"])
    assert plain.kills == 0 < killing.kills < tries.kills
    assert f"small first, kill: {killing.kills:,} tries are killed" in as_text(found)
    assert plain.mean_bsld not in {found.outcomes[0].mean_bsld, killing.mean_bsld}


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
        assert f"{one.large_delayed:.1%}" in as_text(answer)
        assert {row["user"] for row in one.waits["waits_by_user"]} == set(jobs.user.tolist())
    assert max(one.large_delayed for one in answer.outcomes) > answer.outcomes[0].large_delayed == 0
    told = answer.as_dict()["outcomes"][1]
    assert told.items() >= answer.outcomes[1].waits.items()
    assert "waits" not in answer.to_pandas().columns
    small, others = (dict(groups_of(jobs, 64))[name] for name in list(dict(groups_of(jobs, 64)))[:2])
    assert (small == ~large).all()
    assert (others == large).all()


def test_options_hold_for_every_choice_that_can_take_them(log):
    found = json_result(
        *("what-if", log, "--no-small-first", "--threshold", "6h", "--backfill", "spf"),
    )
    assert (found["backfill"], found["overdue_before"], found["bound"]) == ("spf", None, None)
    for outcome in found["outcomes"]:
        assert outcome["options"]["backfill"] == "spf"
        policy, *more = outcome["name"].split(", threshold ")
        alone = json_result(
            "replay", log, "--policy", policy, "--backfill", "spf", *(["--threshold", "6h"] if more else [])
        )
        assert outcome["mean_bsld"] == pytest.approx(alone["mean_bsld"])
    tried = {one.name: one.options for one in choices([6 * HOUR_S], True, 0, {"overdue-before": "large"})}
    assert [name for name, options in tried.items() if "overdue-before" in options] == ["first tries, threshold 6 h"]
    assert [name for name, options in tried.items() if "bound" in options] == [
        "small first, kill",
        "first tries",
        "first tries, threshold 6 h",
    ]


def test_an_option_that_changes_first_tries_changes_their_figures(few):
    tries = ("what-if", few, "--threshold", "2h", "--json")
    plain, large = (
        json.loads(batfill(*tries, *more).out) for more in ((), ("--overdue-before", "large", "--no-bound"))
    )
    assert (plain["bound"], plain["overdue_before"]) == (True, "all")
    assert (large["bound"], large["overdue_before"]) == (False, "large")
    for k, name in enumerate(o["name"] for o in plain["outcomes"]):
        changed = plain["outcomes"][k]["mean_bsld"] != large["outcomes"][k]["mean_bsld"]
        assert changed == (name in ("small first, kill", "first tries", "first tries, threshold 2 h")), name
    words = ("--small", "all", "--kill", "always", "--threshold", "2h", "--overdue-before", "large")
    assert large["outcomes"][-1]["mean_bsld"] == pytest.approx(json_result("replay", few, *words)["mean_bsld"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--overdue-before", "large"], "option overdue-before: no choice takes it"),
        ([], "option bound: no choice takes it"),
        (["--backfill", "sfp"], "policy 'sfp' is unknown"),
    ],
)
def test_an_option_that_no_choice_takes_is_refused(log, options, words):
    assert words in refusal("what-if", log, "--no-small-first", *options)


def test_the_page_draws_small_against_large_and_the_front(log, answer):
    page = as_page(answer, log, "")
    for title in ("mean wait of small and of large jobs under each choice", "over the longest wait of each choice"):
        (plot,) = re.findall(rf'<svg class="plot wide"[^>]*{title}".*?</svg>', page)
        assert plot.count("<circle") == len(answer.outcomes) * (2 if "small" in title else 1)


def test_what_takes_long_is_said_on_standard_error(few):
    done = batfill("what-if", few, "--json")
    assert done.err.splitlines() == [
        f"batfill: {name}: judging 1,800 jobs one by one, the slow part"
        for name in ("small first, no kill", "small first, kill", "first tries", "first tries, threshold 24 h")
    ]


def test_advice_on_invented_requests_is_not_to_be_trusted(tmp_path):
    path, page = tmp_path / "invented.swf", tmp_path / "page.html"
    path.write_text(
        "; MaxProcs: 4\n"
        + "".join(row(k + 1, k * DAY_S // 3, 600, req_time=-1 if k % 3 else 3600, user=1) for k in range(240))
    )
    done = batfill("what-if", path, "--no-small-first", "--unrequested", "runtime", "-o", page)
    said = "it rests on invented requests; 160 of 240 jobs (66.7%) have no requested time"
    assert f"Warning: do not trust this advice: {said}" in done.out
    assert said in page.read_text()
    assert "(not to be trusted)</h2>" in page.read_text()
    found = json.loads(batfill("what-if", path, "--no-small-first", "--unrequested", "runtime", "--json").out)
    assert found["trusted"] is False
    assert found["cautions"][0].startswith("it rests on invented requests; 160 of 240 jobs")


def test_advice_from_a_few_days_is_not_to_be_trusted(tmp_path, answer):
    path = tmp_path / "short.swf"
    path.write_text("; MaxProcs: 4\n" + "".join(row(k + 1, 60 * k, 600, req_time=600) for k in range(100)))
    found = what_if(path, small_first=False)
    assert found.undecided == "1 days with submissions, 12 needed"
    assert (found.as_dict()["advice"], found.as_dict()["trusted"]) == (None, False)
    for text in (as_text(found), as_page(found, path, "batfill what-if")):
        assert "Cannot tell: 1 days with submissions, 12 needed" in text
        assert "Nothing to gain" not in text
        assert "(advised)" not in text
    assert answer.cautions == ()


def test_a_change_says_its_unit_and_whether_it_is_beyond_chance():
    assert change(difference(-600, 300)) == "▼ -10 min<br><small>-15 to -5</small>"
    assert change(difference(7200, 3600)) == "▲ +2.0 h<br><small>+1.0 to +3.0</small>"
    assert change(difference(30, 60)) == "+30 s<br><small>-30 to +90</small>"


def test_the_command_prints_a_table_and_writes_a_page(log, answer, tmp_path):
    page = tmp_path / "page.html"
    done = batfill("what-if", log, "--threshold", "6h", "--threshold", "24h", "--no-small-first", "-o", page)
    assert (done.status, done.err) == (0, f"batfill: open it in a browser: {page}\n")
    assert done.out == as_text(answer) + "\n"
    assert "Who gains, who loses" in page.read_text()


def test_the_command_prints_json(log, answer):
    done = batfill("what-if", log, "--threshold", "6h", "--threshold", "24h", "--no-small-first", "--json")
    assert json.loads(done.out) == json.loads(json.dumps(answer.as_dict()))


class Links(HTMLParser):
    """What a page points to and what can be pointed at, with the heading of each section."""

    def __init__(self, page):
        super().__init__()
        self.targets, self.ids = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.targets += [found[name] for name in ("href", "src") if name in found]
        self.ids += [found["id"]] if "id" in found else []


def test_every_link_of_the_page_holds(answer, log, tmp_path):
    found = Links(as_page(answer, log, ""))
    assert len(found.ids) == len(set(found.ids))
    assert {"#answer", "#groups", "#comparison-0", "#made"} <= set(found.targets)
    for target in found.targets:
        if target.startswith("#"):
            assert target[1:] in found.ids
        else:
            assert (tmp_path / target).exists(), target


def test_the_advised_choice_is_drawn_and_marked_in_every_chart_and_table(log):
    found = what_if(log, thresholds_s=[HOUR_S * k for k in range(1, 30)], small_first=False, max_wait_growth=100)
    k = found.limit.advised
    assert found.advice.effort == ORDER
    page = as_page(found, log, "")
    name = f"{found.advice.name} (advised)"
    assert page.count(name) >= 6  # the choices, the groups, the ranking, both charts of rows, the curves' key
    ink = re.escape(style(sorted({0, k, *np.argsort([o.mean_bsld for o in found.outcomes])[:8]}).index(k)).ink)
    assert re.search(rf"<polyline[^>]*{ink}", page)


def test_the_page_names_log_machine_dates_options_engine_and_version(light):
    from batfill import __version__

    found = what_if(light, small_first=False, thresholds_s=[1800], tau_s=60)
    page = as_page(found, light, "batfill what-if light.swf")
    for words in (
        "light.swf: 252 jobs on 4 processors, submitted 9 Sep 2001 03:46:40 to 1 Dec 2001 02:56:31 (Europe/Paris)",
        f"batfill replay {__version__}",
        "options other than the defaults: thresholds 30 min, small-first no, tau 60 s",
        "<code>batfill what-if light.swf</code>",
        f"batfill replay {light} --policy saf --threshold 1800 --procs 4 --overrun keep --unrequested refuse --tau 60",
    ):
        assert words in page, words


def test_the_longest_wait_stands_beside_each_mean(answer, log):
    page = as_page(answer, log, "")
    sections = re.split("<section", page)[1:]
    for section in sections[:2]:
        assert section.count("mean wait") <= 4 or "longest wait" in section
    for group in answer.groups:
        assert len(group.max_wait_s) == len(answer.outcomes)
        assert group.max_wait_s[0] >= group.mean_wait_s


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium and chromedriver on PATH")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_phones_and_wide_screens(answer, log, tmp_path, scheme):
    page = tmp_path / "page.html"
    page.write_text(as_page(answer, log, "batfill what-if"))
    window = Browser(tmp_path / "chromium", *(["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []))
    try:
        for width in (400, 1280, 2560):
            size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
            window.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": size})
            window.open(page)
            dark = window.run("return matchMedia('(prefers-color-scheme: dark)').matches")
            assert dark == (scheme == "dark")
            beyond = window.run(
                "return [...document.querySelectorAll('body, section, section .scroll')]"
                ".filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.outerHTML.slice(0, 80))"
            )
            assert beyond == []
            assert window.run("return document.documentElement.scrollWidth") <= width
        assert window.log() == []
    finally:
        window.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--threshold", "0"], "option threshold"),
        (["--tau", "0"], "option tau"),
        (["--seed", "-1"], "--seed"),
        (["--max-wait-growth", "-5%"], "option max-wait-growth: '-5%' is not a share"),
        (["--max-wait-growth", "10"], "option max-wait-growth: 10 is more than the whole; write 10% for per cent"),
        (["--max-wait-growth", "nan"], "option max-wait-growth: nan is not a share"),
        (["--min-gain", "101%"], "option min-gain: '101%' is not a share"),
        (["--min-gain", "much%"], "option min-gain: 'much%' is not a share"),
    ],
)
def test_a_mistake_is_refused_in_one_line(log, options, words):
    assert words in refusal("what-if", log, *options)


def test_a_log_wider_than_the_machine_is_refused(tmp_path):
    path = tmp_path / "wide.swf"
    path.write_text("1 0 0 10 8 -1 -1 8 20 -1 1 1 1 1 1 1 -1 -1\n")
    assert "no job fits 4 processors" in refusal("what-if", path, "--procs", 4)
