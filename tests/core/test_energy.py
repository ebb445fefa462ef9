"""A budget: cases on paper, that it is kept, what is refused, and figures. Random ones are in `test_every_rule`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation4
from batfill.model.energy import Budget
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.model.schedule import Drawn, Use
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from batfill.workloads.batsim_json import BatsimDocument
from command import batfill, json_result, refusal
from oracle import assert_same, oracle
from small_runs import as_workload, machines, starts_under
from strategies import (
    WATTS,
    budget_for_oracle,
    random_table,
    table,
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
def test_a_reservation_may_move_to_a_later_date_than_that_for_which_a_call_was_requested(host):
    jobs = table([(0, 30, 100, 4), (1, 30, 100, 4), (2, 30, 100, 1), (3, 30, 300, 2), (50, 30, 50, 1)])
    given = Budget.of("energy-budget", "100kJ@0..1000,watts=100W")
    expected = replay_jobs(jobs, 4, Rules(policy_named("fcfs"), energy_budget=given)).start_s
    document = BatsimDocument(Path("w.json"), 4, *as_workload(jobs).values(), "")
    found = starts_under(host(Agent({"policy": "fcfs", "energy-budget": given})).answer, document, machines(4))
    assert [found[f"w0!{name}" if f"w0!{name}" in found else name] for name in jobs.ids] == expected.tolist()


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
        ("9999999GWh@0..9,watts=1W", "is not a number of J"),
        ("2MWh@0..9,watts=0W", "'0W' is not a number of W"),
        ("2MWh@9..9,watts=1W", "the period does not last for a second"),
        ("2MWh@0..9,watts=9007199254740991W", "job 001 draws more than 9,007,199,254,740,992 W, up to which sums"),
        ("2MWh@soon..9,watts=1W", "begin 'soon' is neither"),
        ("2MWh@0..2026-03-01T08:00+01:00,watts=1W", "seconds and dates are mixed"),
        ("2MWh@2026-03-01T08:00+01:00..2026-03-01T09:00+01:00,watts=1W", "the workload has no clock"),
        ("2MWh@0..9", "does not say what jobs draw"),
        ("2MWh@0..9,watts=1W,idle=2kB", "'2kB' is no amount in W, kW, MW"),
        ("2MWh@0..9,watts=1W,watts=2W", "is not part of a budget, or given twice"),
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
