"""An energy budget: cases on paper, random ones, that it is kept, what is refused, and figures."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation4
from batfill.model.calendar import ANNOUNCED, Calendar, Window
from batfill.model.energy import Budget
from batfill.model.policy import policy_named
from batfill.model.pools import Pool, wanted
from batfill.model.rules import EVERY_JOB, Rules
from batfill.model.schedule import Drawn, Use
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from batfill.workloads.batsim_json import BatsimDocument
from command import batfill, json_result, refusal
from oracle import Oracle, assert_same, oracle
from small_runs import as_workload, machines, starts_under
from strategies import (
    WATTS,
    budget_for_oracle,
    for_oracle,
    pools_for_oracle,
    random_table,
    table,
    with_amounts,
    with_watts,
)
from through5 import Through5

SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"


def budget(rate_w, begin, end, *, idle_w=0, holds=False):
    """So many watts from one second until another."""
    joules = rate_w * (end - begin)
    return Budget(joules, float(begin), float(end), idle_w, holds, WATTS)


# Who starts when: of each claim (budget, jobs, what they draw, starts), on 4 processors in order of submission
TEN = (0, 10, 10, 1)
ON_PAPER = {
    # 10 W are given and 20 drawn: at 10 of the 200 J that it takes 100 are there, with those of 10 s before the start
    "a job starts when the joules suffice until its end": [
        (budget(10, 0, 100), [TEN], [20], [10]),
        (budget(10, 0, 100), [TEN], [10], [0]),
        (budget(10, 0, 100), [TEN], [11], [1]),
    ],
    # from 91 on it runs on behind the end of the period: at 91 910 J are there, and 9 s take 900
    "joules are needed in the period alone, and all fit at its end": [
        (budget(10, 0, 100), [TEN], [100], [90]),
        (budget(10, 0, 100), [TEN], [110], [91]),
        (budget(10, 0, 100), [TEN], [1_000_000], [100]),
        (budget(10, 50, 100), [TEN], [1_000_000], [0]),
        (budget(10, 5, 100), [TEN], [11], [6]),
    ],
    "idle machines draw theirs": [(budget(12, 0, 100, idle_w=2), [TEN], [20], [10])],
    # the first draws what comes until 10; the second has 10 W from there on
    "what runs draws until its expected end": [
        (budget(10, 0, 100), [(0, 10, 10, 1), TEN], [10, 20], [0, 20]),
        (budget(10, 0, 100), [(0, 5, 10, 1), TEN], [10, 20], [0, 15]),
    ],
    # the head waits until 10; the third would draw what it waits for
    "joules that the head does not hold are spent behind it": [
        (budget(10, 0, 100), [TEN, (0, 5, 5, 1)], [20, 10], [15, 0]),
        (budget(10, 0, 100, holds=True), [TEN, (0, 5, 5, 1)], [20, 10], [10, 20]),
        (budget(10, 0, 100, holds=True), [TEN, (0, 5, 5, 1)], [20, 0], [10, 0]),
    ],
    # without a walltime the first could draw all until the end of the period, and ends at 20
    "what has no walltime may draw until the end": [
        (budget(10, 0, 100), [(0, 20, None, 1), (6, 1, 1, 1), (6, 1, 1, 1)], [10, 5, 0], [0, 20, 6]),
    ],
}


@pytest.mark.parametrize("claim", ON_PAPER)
def test_on_paper(claim):
    for given, rows, watts, starts in ON_PAPER[claim]:
        jobs = with_watts(table(rows), watts)
        schedule = replay_jobs(jobs, 4, Rules(policy_named("fcfs"), energy_budget=given))
        slow = oracle(jobs, 4, "fcfs", budget=budget_for_oracle(given), watts=watts)
        assert_same(schedule, slow)
        assert schedule.start_s.tolist() == starts, (claim, given.name, watts)


def case(seed):
    """A random replay with a budget, and the oracle's."""
    rng = np.random.default_rng(seed)

    def one_of(*values):
        return values[int(rng.integers(len(values)))]

    size, n_jobs, unit_s = int(rng.integers(1, 7)), int(rng.integers(1, 26)), one_of(1.0, 1.0, 0.25, 7.0)
    span_s, unlimited, small = one_of(5, 40, 100), one_of(0, 0.1, 0.4), one_of(0, 0.5)
    jobs = random_table(seed, n_jobs=n_jobs, size=size, span_s=span_s, longest=20, unlimited=unlimited, small=small)
    times = {name: getattr(jobs, name) * unit_s for name in ("submit_s", "runtime_s", "walltime_s")}
    jobs = replace(jobs, **times, killable=rng.random(n_jobs) < 0.8, user=rng.integers(-1, 3, n_jobs))
    most, idle_w = one_of(3, 20, 2000), one_of(0, 2, 7)
    rate_w = idle_w + int(one_of(0.2, 0.5, 1, 2) * most) + int(rng.integers(1, 3))
    begin, lasts_s = int(unit_s * rng.integers(0, 60)), max(1, int(unit_s * one_of(1, 20, 90, 200)))
    given = budget(rate_w, begin, begin + lasts_s, idle_w=idle_w, holds=one_of(False, True))
    pools = one_of((), (), (Pool("p0", 4),), (Pool("p0", 4, skips=True),))
    jobs = with_amounts(jobs, rng.integers(0, 5, (n_jobs, 1))) if pools else jobs
    windows = (Window(ANNOUNCED, unit_s * 10, unit_s * 30, int(rng.integers(1, size + 1))),)
    calendar = one_of(None, None, Calendar(windows))
    jobs = with_watts(jobs, one_of(rng.integers(0, most + 1, n_jobs), jobs.procs * int(rng.integers(1, 6))))
    spares = one_of(False, True)
    rules = {
        "threshold_s": unit_s * one_of(5, 40, math.inf), "half": one_of(False, True), "spares": spares,
        "bound": one_of(False, True), "divider_s": unit_s * one_of(2, 6, math.inf, math.inf),
        "stand_back": one_of(math.inf, 0.5, 3) if spares else math.inf,
    }  # fmt: skip
    depth, tested, order = one_of(1, 1, 2, 0, math.inf), one_of(math.inf, math.inf, 1, 3), one_of("fcfs", "saf", "sexp")
    backfill = one_of(None, "lcfs") if depth in (1, 2) else None
    expected_s = one_of(None, np.minimum(unit_s * rng.integers(1, 25, n_jobs), jobs.expected_s))
    rules["outlived"] = expected_s is not None
    in_engine = {name: EVERY_JOB if n == math.inf else n for name, n in (("depth", depth), ("tested", tested))}
    second = policy_named(backfill) if backfill else None
    run = EngineReplay(
        jobs,
        size,
        Rules(policy_named(order), second, **rules, **in_engine, calendar=calendar, pools=pools, energy_budget=given),
        expected_s=expected_s,
    )
    slow = Oracle(
        jobs, size, order, **rules, backfill=backfill, depth=depth, tested=tested, expected_s=expected_s,
        windows=for_oracle(calendar) if calendar else [], pools=pools_for_oracle(pools, calendar),
        wants=wanted(pools, jobs), budget=budget_for_oracle(given), watts=given.pool.amounts(jobs),
    )  # fmt: skip
    for job, killable in zip(slow.jobs, jobs.killable.tolist(), strict=True):
        job.exempt = not killable
    return run, slow


@pytest.mark.parametrize("tens", range(30))
def test_random_replays_are_the_oracles_runs(tens):
    for seed in range(10 * tens, 10 * tens + 10):
        run, slow = case(seed)
        run.advance()
        assert_same(run.schedule(), slow.run())


@pytest.mark.compiled
def test_if_all_runs_as_expected_no_more_is_drawn_than_there_is():
    rng = np.random.default_rng(7)
    for seed in range(30):
        jobs = random_table(seed, n_jobs=120, size=9, span_s=2000, longest=90, unlimited=0)
        jobs = with_watts(replace(jobs, walltime_s=np.maximum(jobs.runtime_s, 1)), rng.integers(1, 50, len(jobs)))
        given = budget(int(rng.integers(20, 60)), 300, 2500, idle_w=7, holds=bool(seed % 2))
        drawn = replay_jobs(jobs, 9, Rules(policy_named("saf"), energy_budget=given)).drawn()
        assert drawn.above_s == 0
        assert 0.5 < drawn.drawn_j / drawn.budget_j <= 1


@pytest.mark.parametrize("host", [Conversation4, lambda agent: Through5(agent, "")], ids=["4", "5"])
def test_a_scheduler_under_batsim_makes_the_decisions_of_a_replay_at_all_dates(host):
    paper = table([(0, 30, 100, 4), (1, 30, 100, 4), (2, 30, 100, 1), (3, 30, 300, 2), (50, 30, 50, 1)])
    # The first reservation moves to a later date than that for which a call was requested.
    assert_starts_are_the_replays(host, paper, 4, Budget.of("energy-budget", "100kJ@0..1000,watts=100W"))
    for seed in range(40):
        rng = np.random.default_rng(seed)
        jobs = random_table(seed, n_jobs=30, size=5, span_s=400, longest=90, unlimited=0)
        begin, lasts = int(rng.integers(0, 300)), int(rng.integers(100, 3000))
        given = budget(int(rng.integers(3, 12)), begin, begin + lasts, holds=seed % 3 == 0)
        assert_starts_are_the_replays(host, jobs, 5, replace(given, pool=Pool("watts", 2**53, 3)))


def assert_starts_are_the_replays(host, jobs, size, given):
    jobs = replace(jobs, runtime_s=np.maximum(jobs.runtime_s, 1.0), procs=np.minimum(jobs.procs, size))
    expected = replay_jobs(jobs, size, Rules(policy_named("fcfs"), energy_budget=given)).start_s
    document = BatsimDocument(Path("w.json"), 4, *as_workload(jobs).values(), "")
    agent = Agent({"policy": "fcfs", "energy-budget": given})
    found = starts_under(host(agent).answer, document, machines(size))
    assert {name.removeprefix("w0!"): start_s for name, start_s in found.items()} == dict(
        zip(jobs.ids.tolist(), expected.tolist(), strict=True)
    )


# The option


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("2MWh@0..3d,watts=100W", "2MWh@0..259200,watts=100W"),
        ("7200MJ@3600..2h,idle=2kW,watts=draws,head-holds", "2MWh@3600..7200,watts=draws,idle=2kW,head-holds"),
        ("1.5kWh@0..100", "1.5kWh@0..100"),
        ("1001J@0..100", "1.001kJ@0..100"),
        (
            "2MWh@2026-03-01T08:00+01:00..2026-03-02T08:00+01:00",
            "2MWh@2026-03-01T08:00:00+01:00..2026-03-02T08:00:00+01:00",
        ),
    ],
)
def test_a_budget_is_stated_as_it_may_be_given(text, again):
    found = Budget.of("energy-budget", text)
    assert found.name == again
    assert Budget.of("energy-budget", again) == found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2MWh", "is no budget; give AMOUNT@BEGIN..END"),
        ("2MW@0..9,watts=1W", "'2MW' is no amount in J, kJ, MJ"),
        ("0MWh@0..9,watts=1W", "'0MWh' is not a number of J from 1"),
        ("1.2.3MWh@0..9,watts=1W", "'1.2.3MWh' is no amount"),
        ("9999999GWh@0..9,watts=1W", "is not a number of J"),
        ("0.5J@0..9,watts=1W", "is not a number of J"),
        ("2MWh@0..9,watts=0W", "'0W' is not a number of W"),
        ("2MWh@0..9,watts=-5W", "'-5W' is no amount"),
        ("2MWh@9..9,watts=1W", "the period does not last for a second"),
        ("2MWh@0..1e-320,watts=1W", "the period does not last for a second"),
        ("2MWh@0..9,watts=9007199254740991W", "job 001 draws more than 9,007,199,254,740,992 W, up to which sums"),
        ("2MWh@soon..9,watts=1W", "begin 'soon' is neither"),
        ("2MWh@0..2026-03-01T08:00+01:00,watts=1W", "seconds and dates are mixed"),
        ("2MWh@2026-03-01T08:00..2026-03-01T09:00,watts=1W", "has no time zone"),
        ("2MWh@2026-03-01T08:00+01:00..2026-03-01T09:00+01:00,watts=1W", "the workload has no clock"),
        ("2MWh@0..9", "does not say what jobs draw"),
        ("2MWh@0..9,watts=100", "'100' is no amount in W, kW, MW"),
        ("2MWh@0..9,watts=1W,idle=2kB", "'2kB' is no amount in W, kW, MW"),
        ("2MWh@0..9,watts=1W,watts=2W", "is not part of a budget, or given twice"),
        ("2MWh@0..9,watts=1W,hold", "is not part of a budget"),
        ("2MWh@0..9,watts=memory", "the field memory of jobs is in GB"),
        ("2MWh@0..9,watts=draws", "no job has a field draws above 0"),
        ("1kJ@0..100,watts=1W,idle=10W", "gives 10 W, and idle machines draw 10 W"),
    ],
)
def test_a_bad_budget_is_refused_in_one_line(text, says):
    assert says in refusal("replay", SAMPLE, "--energy-budget", text)


def test_what_takes_no_budget_says_so():
    text = "2MWh@0..3d,watts=100W"
    with pytest.raises(BatfillError, match=r"is of machines alone; choose energy.budget none"):
        Agent({"energy-budget": text, "plan": "kept", "depth": "all"})
    with pytest.raises(BatfillError, match="select compares policies with one reservation"):
        Agent({"energy-budget": text, "select": "full"})
    with pytest.raises(BatfillError, match="does not say what jobs draw"):
        Agent({"energy-budget": "2MWh@0..3d"})
    with pytest.raises(BatfillError, match=r"pool, energy.budget: with reservation kept"):
        bf.replay(SAMPLE, energy_budget=text, reservation="kept")
    with pytest.raises(BatfillError, match="7 is no budget"):
        bf.replay(SAMPLE, energy_budget=7)


@pytest.mark.compiled
def test_a_result_states_what_was_drawn_and_a_saved_replay_keeps_the_budget(tmp_path):
    text = "60kWh@0..2d,watts=100W,idle=500W"
    result = json_result("replay", SAMPLE, "--energy-budget", text)
    assert result["options"]["energy-budget"] == "60kWh@0..172800,watts=100W,idle=500W"
    assert result["energy"]["budget_j"] == 216_000_000
    assert 0 < result["energy"]["share"] <= 1
    assert result["energy"]["above_s"] == 0
    assert "of the budget" in batfill("replay", SAMPLE, "--energy-budget", text).out
    pooled = bf.replay(SAMPLE, pool="power=900kW@100W", energy_budget="60kWh@0..2d,idle=500W")
    whole = bf.replay(SAMPLE, energy_budget=text)
    assert (pooled.schedule.start_s == whole.schedule.start_s).all()
    assert (bf.replay(SAMPLE).schedule.start_s != whole.schedule.start_s).any()
    run = bf.Replay(SAMPLE, energy_budget=text).run(40_000)
    run.save(tmp_path / "run.npz")
    for going_on in (run.fork(), bf.Replay.load(tmp_path / "run.npz"), run.fork(policy="saf").fork(policy="fcfs")):
        assert going_on.run().result().schedule == whole.schedule


def test_amounts_are_shown_in_the_unit_of_their_size_and_pieces_exactly():
    assert Drawn(20_000, 17_440.0, 0.0).as_text() == "4.844Wh, 87.20% of the budget"
    for used, text in (
        (Use("memory", 10**8, "kB", 0.5, 68_719_477, 0.0, 0, ""), "100GB in use, at most 68.72GB"),
        (Use("power", 10**7, "W", 0.5, 500, 0.0, 0, ""), "10MW in use, at most 0.0005MW"),
        (Use("cores", 123_456, "", 0.5, 12_345, 0.0, 0, ""), "123,456 in use, at most 12,345"),
    ):
        assert used.as_text() == f"{used.name}: 50.00% of {text}"


@pytest.mark.compiled
def test_figures_are_those_of_every_second():
    jobs = random_table(3, n_jobs=80, size=9, span_s=200, longest=20, unlimited=0.3)
    jobs = with_watts(jobs, np.random.default_rng(3).integers(0, 9, len(jobs)))
    given = budget(6, 10, 250, idle_w=2)
    rules = Rules(policy_named("fcfs"), energy_budget=given, outlived=True)
    run = EngineReplay(jobs, 9, rules, expected_s=np.ones(len(jobs)))  # all outlive what is expected
    run.advance()
    schedule, watts = run.schedule(), given.pool.amounts(jobs)
    balance, drawn, above = 0, 0, 0
    for t in range(10, 250):
        now_w = 2 + sum(w for w, s, e in zip(watts, schedule.start_s, schedule.end_s, strict=True) if s <= t < e)
        drawn += now_w
        before, balance = balance, balance + 6 - now_w
        low, high = sorted((before, balance))
        above += 0 if low >= 0 else 1 if high <= 0 else -low / (high - low)
    found = schedule.drawn()
    assert (found.budget_j, found.drawn_j) == (6 * 240, drawn)
    assert found.above_s == pytest.approx(above)
    assert above > 0
