"""What limits jobs beside processors: cases on paper, what is refused, what results state, and that copies keep it."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation4
from batfill.live.request import Registration
from batfill.model.jobs import SMALL, Clock
from batfill.model.limits.calendar import ANNOUNCED, FAILURE, Calendar, Window
from batfill.model.limits.energy import Budget
from batfill.model.limits.gate import Gate
from batfill.model.limits.pools import Pool, Pools, wanted
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.queue import Queue, users_by_number
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from batfill.workloads.batsim_json import BatsimDocument, load_document
from batfill.workloads.swf_log import FIELDS
from command import batfill, json_result, refusal
from golden_text import check
from oracle import assert_same, oracle
from plugin import assert_same_starts, starts_of_plugin
from small_runs import as_workload, machines, starts_under
from strategies import (
    WATTS,
    announced,
    budget_for_oracle,
    failure,
    pools_for_oracle,
    random_table,
    table,
    with_amounts,
    with_watts,
)
from through5 import Through5

ROOT = Path(__file__).parents[2]
SAMPLE, DATA = ROOT / "workloads" / "sample.json", ROOT / "tests" / "data" / "gate"
FCFS = policy_named("fcfs")


def falls(*dates):
    """The calendar of windows of the pool p0: begin, end, how much less, and since when known."""
    return Calendar(tuple(Window(ANNOUNCED, *date[:3], *date[3:], pool="p0") for date in dates))


def budget(rate_w, begin, end, *, idle_w=0, holds=False):
    """So many watts from one second until another."""
    return Budget(rate_w * (end - begin), float(begin), float(end), idle_w, holds, WATTS)


def gated(*periods):
    return {"backfill_while": Gate.given("gate", list(periods))}


def pooled(pool, *dates):
    return {"pools": (pool,), "calendar": falls(*dates) if dates else None}


def powered(*given, **more):
    return {"energy_budget": budget(*given, **more)}


# Who starts when: of each claim (limits, jobs, what they take or draw, starts), on 4 processors in order of submission

# The second waits for all until 10, and the third and the fourth would fit beside the first
ROWS, TEN = [(0, 10, 10, 3), (1, 5, 5, 4), (2, 3, 3, 1), (2, 3, 3, 1)], (0, 10, 10, 1)
LONG = [(0, 10, 10, 1), (1, 5, 5, 1), (2, 90, 90, 1), (3, 90, 90, 1)]
P0, SKIPPED, OF_USER = Pool("p0", 4), Pool("p0", 4, skips=True), Pool("p0", 4, of_user=True)
ON_PAPER = {
    "while it is open, jobs are backfilled": [(gated((0, math.inf)), ROWS, None, [0, 10, 2, 5])],
    "while it is shut, none starts behind the head, which goes on": [
        (gated((99, math.inf)), ROWS, None, [0, 10, 15, 15]),
    ],
    "jobs start when it opens, before it shuts, and not when it shuts": [(gated((4, 7)), ROWS, None, [0, 10, 4, 15])],
    "at the end of a period it is shut, and at the begin of the next open": [
        (gated((2, 4), (7, 8)), ROWS, None, [0, 10, 2, 7]),
    ],
    "periods may touch": [(gated((3, 6), (6, 9)), ROWS, None, [0, 10, 3, 6])],
    "without a period it is always shut": [(gated(), ROWS, None, [0, 10, 15, 15])],
    # the second waits for 3 of p0 until 10; the third would take 2 of the 1 left, the fourth takes nothing of it
    "a job that lacks a pool is the head, and one that takes nothing of it is not hindered": [
        (pooled(P0), [(0, 10, 10, 1), (1, 5, 5, 1), (2, 3, 3, 1), (3, 3, 3, 1)], [3, 3, 2, 0], [0, 10, 15, 3]),
    ],
    # at 10 the head takes 3 of 4, so that a long job may have 1 and no more
    "what is spare at the reservation may be used beyond it": [(pooled(P0), LONG, [2, 3, 1, 1], [0, 10, 2, 15])],
    "a job that lacks a pool that skips has no reservation": [(pooled(SKIPPED), LONG, [2, 3, 1, 1], [0, 92, 2, 3])],
    # of 5 there is enough for all who can run; the third lacks 2 processors and 1 of it: skipped, it holds back no job
    "a pool that suffices for all who run may skip one that waits": [
        (
            pooled(replace(SKIPPED, capacity=5)),
            [(0, 10, 10, 2), (0, 20, 20, 1), (1, 5, 5, 3), (2, 30, 30, 1)],
            [2, 1, 3, 1],
            [0, 0, 20, 2],
        ),
    ],
    # 2 of 4 are left from 10 to 20: a request until 10 fits, one until 11 waits until 20
    "a known fall is kept free, and one that is not known stops nothing": [
        (pooled(P0, (10, 20, 2)), [(0, 10, 10, 1), (0, 9, 11, 1)], [3, 3], [0, 20]),
        (pooled(P0, (10, 20, 2, 10)), [(0, 9, 11, 1), (12, 1, 1, 1)], [3, 3], [0, 20]),
    ],
    # from 10 on 1 is there and 3 run: nothing is stopped, whoever takes any waits until 15, and others go on
    "a capacity that falls below what runs stops nothing": [
        (pooled(P0, (10, 99, 3, 10)), [(0, 15, 15, 1), (11, 2, 2, 1), (11, 2, 2, 1)], [3, 1, 0], [0, 15, 11]),
    ],
    # from 10 on 1 is there for ever: the second runs beside the third, and the head before it holds back neither
    "a fall that never ends leaves the rest": [
        (pooled(P0, (10, math.inf, 3)), [(0, 9, 9, 1), (11, 5, 5, 1), (11, 5, 5, 1)], [4, 1, 0], [0, 11, 11]),
    ],
    "more than there is is rejected, and delays no other job": [
        (pooled(P0), [(0, 9, 9, 1), (0, 9, 9, 1)], [5, 4], [math.nan, 0]),
    ],
    "a pool of each user skips, and jobs without a user take nothing of it": [
        (pooled(OF_USER), [(0, 9, 9, 1), (0, 9, 9, 1), (0, 9, 9, 1), (1, 9, 9, 1)], [3, 3, 3, 9], [0, 9, 0, 1]),
    ],
    # 10 W are given and 20 drawn: at 10 of the 200 J that it takes 100 are there, with those of 10 s before the start
    "a job starts when the joules suffice until its end": [
        (powered(10, 0, 100), [TEN], [20], [10]),
        (powered(10, 0, 100), [TEN], [10], [0]),
        (powered(10, 0, 100), [TEN], [11], [1]),
    ],
    # from 91 on it runs on behind the end of the period: at 91 910 J are there, and 9 s take 900
    "joules are needed in the period alone, and all fit at its end": [
        (powered(10, 0, 100), [TEN], [100], [90]),
        (powered(10, 0, 100), [TEN], [110], [91]),
        (powered(10, 0, 100), [TEN], [1_000_000], [100]),
        (powered(10, 50, 100), [TEN], [1_000_000], [0]),
        (powered(10, 5, 100), [TEN], [11], [6]),
    ],
    "idle machines draw theirs": [(powered(12, 0, 100, idle_w=2), [TEN], [20], [10])],
    # the first draws what comes until 10; the second has 10 W from there on
    "what runs draws until its expected end": [
        (powered(10, 0, 100), [TEN, TEN], [10, 20], [0, 20]),
        (powered(10, 0, 100), [(0, 5, 10, 1), TEN], [10, 20], [0, 15]),
    ],
    # the head waits until 10; the third would draw what it waits for
    "joules that the head does not hold are spent behind it": [
        (powered(10, 0, 100), [TEN, (0, 5, 5, 1)], [20, 10], [15, 0]),
        (powered(10, 0, 100, holds=True), [TEN, (0, 5, 5, 1)], [20, 10], [10, 20]),
        (powered(10, 0, 100, holds=True), [TEN, (0, 5, 5, 1)], [20, 0], [10, 0]),
    ],
    # without a walltime the first could draw all until the end of the period, and ends at 20
    "what has no walltime may draw until the end": [
        (powered(10, 0, 100), [(0, 20, None, 1), (6, 1, 1, 1), (6, 1, 1, 1)], [10, 5, 0], [0, 20, 6]),
    ],
}


@pytest.mark.parametrize("claim", ON_PAPER)
def test_on_paper(claim):
    for given, rows, takes, starts in ON_PAPER[claim]:
        jobs = replace(table(rows), user=np.array([1, 1, 2, -1][: len(rows)]))
        pools, spent, gate = given.get("pools", ()), given.get("energy_budget"), given.get("backfill_while")
        jobs = with_watts(jobs, takes) if spent else with_amounts(jobs, np.array(takes)[:, None]) if pools else jobs
        schedule = replay_jobs(jobs, 4, Rules(FCFS, **given))
        assert schedule.start_s.tolist() == pytest.approx(starts, nan_ok=True), claim
        slow = {"pools": pools_for_oracle(pools, given.get("calendar")), "wants": wanted(pools, jobs)} if pools else {}
        slow |= {"budget": budget_for_oracle(spent), "watts": takes} if spent else {}
        assert_same(schedule, oracle(jobs, 4, "fcfs", gate=gate and gate.periods, **slow))


def test_a_try_that_would_run_into_a_window_of_a_pool_is_killed_at_its_divider():
    """At 3 its request reaches into a window from 10 to 20, in which 1 of 4 is there: it waits for the window's end."""
    jobs = with_amounts(table([(0, 15, 18, 1, SMALL), (0, 15, 18, 1, SMALL)]), np.array([[2], [0]]))
    calendar, tries = falls((10, 20, 3)), {"divider_s": 3.0, "spares": True, "bound": True}
    schedule = replay_jobs(jobs, 4, Rules(FCFS, pools=(P0,), calendar=calendar, **tries))
    assert schedule.start_s.tolist() == [20.0, 0.0]
    assert_same(
        schedule, oracle(jobs, 4, "fcfs", pools=pools_for_oracle((P0,), calendar), wants=schedule.wants, **tries)
    )


@pytest.mark.compiled
def test_times_in_fractions_of_a_second_are_no_violation():
    jobs = random_table(8, n_jobs=120, size=9, span_s=60, longest=20, wide=0.0)
    times = ("submit_s", "runtime_s", "walltime_s", "request_s")
    jobs = replace(jobs, **{name: getattr(jobs, name) * 0.1 for name in times})
    calendar = Calendar(tuple(Window(FAILURE, 0.7 * i, 0.7 * i + 0.3, 9) for i in range(1, 9)))
    assert replay_jobs(jobs, 9, Rules(FCFS, calendar=calendar)).kills["why"].sum() > 8  # BY_FAILURE is 1


def test_a_narrow_job_is_backfilled_once_enough_is_idle_although_a_decision_before_found_too_little():
    # Of 10 processors 4 and 2 are idle from 100 on, 2 from 10 on and 2 from 20 on; 10 and, behind them, 4 are wanted.
    rows = [(0, 100, 100, 4), (0, 100, 100, 2), (0, 10, 10, 2), (0, 20, 20, 2), (1, 9, 9, 10), (2, 5, 5, 4)]
    run = EngineReplay(replace(table(rows), user=np.full(6, 3)), 10, Rules(FCFS, max_running=9))
    run.advance()
    assert run.start_s.tolist() == [0, 0, 0, 0, 100, 20]


def test_jobs_submitted_one_by_one_are_counted_by_user_however_many_come():
    queue = Queue(4, Rules(FCFS, max_running=1), capacity=2)
    rows = [queue.submit(str(n), float(n), 9.0, 1, user=user) for n, user in enumerate((8, 8, -1, -1, 2))]
    assert queue.fork().decide(5.0).tolist() == queue.decide(5.0).tolist() == [rows[n] for n in (0, 2, 3, 4)]
    assert [queue.is_held(row) for row in rows] == [True, True, False, False, True]
    queue.finish(rows[0])
    assert queue.decide(6.0).tolist() == [rows[1]]
    assert not Queue(4, Rules(FCFS)).is_held(0)
    assert users_by_number(np.array([7, -5, 0, -1, 7])).tolist() == [2, 0, 1, 0, 2]


@pytest.mark.parametrize("host", [Conversation4, lambda agent: Through5(agent, "")], ids=["4", "5"])
def test_a_budget_calls_at_another_date_if_the_first_reservation_moves(host):
    jobs = table([(0, 30, 100, 4), (1, 30, 100, 4), (2, 30, 100, 1), (3, 30, 300, 2), (50, 30, 50, 1)])
    given = Budget.of("energy-budget", "100kJ@0..1000,watts=100W")
    expected = replay_jobs(jobs, 4, Rules(FCFS, energy_budget=given)).start_s
    document = BatsimDocument(Path("w.json"), 4, *as_workload(jobs).values(), "")
    found = starts_under(host(Agent({"energy-budget": given})).answer, document, machines(4))
    starts = {name.removeprefix("w0!"): start_s for name, start_s in found.items()}
    assert starts == dict(zip(jobs.ids.tolist(), expected.tolist(), strict=True))


# Jobs that can never run


def test_a_job_that_no_gap_is_wide_enough_for_is_named_before_the_replay_begins_or_at_its_end():
    calendar = Calendar((announced(10, math.inf, 1),))
    calendar.require_possible(table([(0, 10, 10, 4), (0, 50, 50, 3)]), 4, "here")
    with pytest.raises(BatfillError, match=r"here: 1 of 2 jobs can .*first: job 000001, 4 processors from 1 s"):
        calendar.require_possible(table([(0, 10, 10, 4), (1, 10, 10, 4)]), 4, "here")
    with pytest.raises(BatfillError, match=r"the replay: 1 of 2 jobs can never run.*job 000001"):
        replay_jobs(table([(0, 9, 9, 4), (1, 9, 9, 4)]), 4, Rules(FCFS, calendar=calendar))


@pytest.mark.compiled
@pytest.mark.parametrize("pool", ["", "p0"])
def test_a_job_that_fits_no_gap_between_windows_that_end_is_named_at_the_end(pool):
    def warned(*rows, windows=((20, 30), (40, 50), (60, 70)), least=3, kind=ANNOUNCED):
        taken = [{"kind": kind, "begin": b, "end": e, "processors": least, "pool": pool} for b, e in windows]
        given = {"pool": "p0=4@1"} if pool else {}
        result = bf.replay(table(rows).stating(name="made", size=4), calendar=Calendar.of(taken), **given)
        says = "the gaps between them are shorter than its request"
        return [text for text in result.warnings if says in text], result

    ((line,), result) = warned((0, 2, 2, 1), (6, 15, 15, 2), (90, 9, 9, 4))
    assert result.schedule.start_s.tolist() == [0, 70, 90]
    assert line.startswith("calendar: 1 job (first: 000001) waited until its windows were over, up to 1 min 4 s: they")
    assert ("\ncalendar     " in result.as_text()) == (pool == "")  # processor-hours, of windows that take some
    assert "2 jobs (first: 000000)" in warned((6, 15, 15, 2), (7, 15, 15, 2))[0][0]
    for rows in [(6, 15, 15, 1)], [(6, 14, 14, 2)], [(21, 10, 10, 2)], [(50, 99, 99, 2)], [(71, 99, 99, 4)]:
        assert not warned(*rows)[0]
    assert not warned((6, 15, 15, 2), windows=((20, 30), (50, 60)))[0]  # the gap of 20 is long enough
    assert not warned((6, 15, 15, 2), windows=((20, 30), (30, 40)))[0]  # they have none between them
    assert warned((6, 15, 15, 2), windows=((20, 30), (40, 50)))[0]
    if not pool:
        assert not warned((6, 15, 15, 4), kind=FAILURE)[0]  # of which no job knows


# What users write


@pytest.mark.parametrize(
    ("kind", "text", "again"),
    [
        (Pools.of, "power=250kW@mean_watts", "power=250kW@mean_watts"),
        (Pools.of, "power=103.12W@100W", "power=103W@100W"),
        (Pools.of, "power=1.5e3kW@103.12W", "power=1.5MW@103.12W"),
        (Pools.of, "licences=1e12@2", "licences=1000000000000@2"),
        (Pools.of, "power=1500W@100W:skip", "power=1.5kW@100W:skip"),
        (Pools.of, "power=80 %@100W:user, cooling=62.50%:skip", "power=80%@100W:user,cooling=62.5%:skip"),
        (Pools.of, ["a=12345", "b=1234567W@1W", "memory=2TB"], "a=12345,b=1234.567kW@1W,memory=2TB"),
        (Budget.of, "2MWh@0..3d,watts=100W", "2MWh@0..259200,watts=100W"),
        (
            Budget.of,
            "7200MJ@3600..2h,idle=2kW,watts=draws,head-holds",
            "2MWh@3600..7200,watts=draws,idle=2kW,head-holds",
        ),
        (Budget.of, "1001J@0..100", "1.001kJ@0..100"),
        (Budget.of, "2MWh@2026-03-01T08:00Z..2026-03-02", None),
        (
            Budget.of,
            "2MWh@2026-03-01T08:00+01:00..2026-03-02T08:00+01:00",
            "2MWh@2026-03-01T08:00:00+01:00..2026-03-02T08:00:00+01:00",
        ),
    ],
    ids=str,
)
def test_a_limit_is_stated_as_it_may_be_given(kind, text, again):
    if again is None:
        with pytest.raises(BatfillError, match="has no time zone"):
            kind("it", text)
    else:
        assert kind("it", text).name == again
        assert kind("it", again) == kind("it", text)


@pytest.mark.compiled
def test_an_intensity_and_a_bound_make_the_periods_of_a_gate():
    assert Gate.given("gate", f"{DATA / 'intensity.csv'}:300").periods == ((0, 3600), (7200, 20_000))
    assert Gate.given("gate", f"{DATA / 'intensity.csv'}:301").periods == ((0, 3600), (7200, math.inf))
    assert Gate.given("gate", f"{DATA / 'intensity.csv'}:1").periods == ()
    assert Gate.given("gate", DATA / "periods.csv").periods == ((0, 7200), (20_000, math.inf))
    gates = [(0, 60), (90, math.inf)], [("0", "60"), ("90", "")], np.array([[0, 60], [90, np.inf]])
    (made,) = {Gate.given("gate", gate) for gate in gates}
    assert made.periods == ((0, 60), (90, math.inf))
    digest = bf.replay(SAMPLE, backfill_while=gates[0]).as_dict()["backfill_while_sha256"]
    assert digest == made.digest != Gate.given("gate", [(0, 61), (90, math.inf)]).digest


def test_dates_are_those_of_the_logs_clock():
    hour = timedelta(hours=1)
    begin = datetime(2026, 3, 1, 8, tzinfo=timezone(hour))
    dated = Calendar((Window(ANNOUNCED, begin, begin + hour, 4, begin - hour), Window(ANNOUNCED, begin, math.inf, 1)))
    there = dated.on(Clock(int(begin.timestamp()) - 7200, timezone(hour)))
    assert [window[1:5] for window in there.windows] == [(7200.0, 10_800.0, 4, 3600.0), (7200.0, math.inf, 1, None)]
    again = Calendar.of(csv.DictReader(dated.as_csv().splitlines()))
    assert (again.windows, again.digest) == (dated.windows, dated.digest)


DATE, ZONE = "2026-03-01T08:00", "+01:00"
OF_CALENDAR = (
    *("announced,5,5,1,", "announced,1,9,1,\nfailure,7,6,1,", "announced,1,9,65,", "planned,1,9,1,", "announced,,9,1,"),
    *("announced,1,9,40,\nfailure,8,10,25,", "announced,1,9,x,", "announced,1,9,0,", "announced,1,9,\u0663,"),
    *("announced,1,9,1,,junk", f"{'x' * 200_000},1,9,1,", "announced,soon,9,1,", "announced,nan,9,1,"),
    *("announced,1,9,1,2", "failure,1,9,1,0", f"announced,{DATE},,1,", f"announced,1,{DATE}Z,1,"),
    *(f"announced,1,2,1,\nannounced,{DATE}Z,,1,", f"announced,{DATE}Z,,1,"),
)
OF_POOLS = (
    *("announced,1,9,2kW,,steam", "announced,1,9,2,,power", "announced,1,9,6kW,,power", "failure,1,9,2kW,,power"),
    *("announced,1,9,3kW,,power\nannounced,8,10,3kW,,power", "announced,1,9,two,,power", "announced,1,,5kW,,power"),
)
PERIODS = (
    *("9,5", "1,5\n4,9", "1,\n4,9", f"1,{DATE}{ZONE}", f"{DATE},{DATE}", "soon,9", "0,3\n\n5", ",9", "1"),
    *(f"{DATE}+00:00,2026-03-01T09:00{ZONE}", f"{DATE}+00:00,2026-03-01T10:00{ZONE}"),
    "\n".join(f"{2 * n},{2 * n + 1}" for n in range(20_001)),
)
REFUSED = {
    "calendar": [
        *("", "kind,begin,end,procs", "kind,begin,end\nannounced,1,9"),
        *(f"kind,begin,end,machines\nannounced,1,9,{machines}" for machines in ("0-3", "0-3 2", "3-1", "x")),
        "kind,begin,end,processors,machines\nannounced,1,9,4,0-3",
        *(f"kind,begin,end,processors,announced\n{lines}" for lines in OF_CALENDAR),
        *(f"kind,begin,end,processors,announced,pool\n{lines}" for lines in OF_POOLS),
    ],
    "backfill-while": [
        *("", "begin,intensity\n1,2", *(f"begin,end\n{lines}" for lines in PERIODS)),
        *(":300begin,end\n1,2", ":300begin,intensity\n1,low", ":300begin,intensity\n5,2\n5,3"),
        f":300begin,intensity\n5,2\n{DATE}{ZONE},3",
    ],
    "pool": [
        *("power", "power=250 horses", "power=2MWh", "power=250kW@2", "power=0W", "licences=4@-1", "licences=4@.5"),
        *("licences=4@0", "licences=4@1W", "power=0.5W", "power=1e99W", "licences=1.5", "power=1kW@1W,power=2kW@1W"),
        *("procs=4", "licences=4", "licences=4@tokens", "power=9kW@1W:hold", "power=80%@watts", "power=101%", "=4"),
        *("power=0%", "power=1%", "gpu=4kW", "gpu-a100=4GB:user", "memory=100kW", "memory=100", "power=4GB@mean_watts"),
        "matlab=4GB@license/matlab",
    ],
    "energy-budget": [
        *("2MWh", "2MW@0..9,watts=1W", "0MWh@0..9,watts=1W", "1.2.3MWh@0..9,watts=1W", "9999999GWh@0..9,watts=1W"),
        *("0.5J@0..9,watts=1W", "2MWh@0..9,watts=0W", "2MWh@0..9,watts=-5W", "2MWh@9..9,watts=1W", "2MWh@0..9"),
        *("2MWh@0..1e-320,watts=1W", "2MWh@0..9,watts=9007199254740991W", "2MWh@soon..9,watts=1W"),
        *(f"2MWh@0..{DATE}{ZONE},watts=1W", f"2MWh@{DATE}{ZONE}..2026-03-01T09:00{ZONE},watts=1W"),
        *("2MWh@0..9,watts=100", "2MWh@0..9,watts=1W,idle=2kB", "2MWh@0..9,watts=1W,watts=2W", "2MWh@0..9,watts=1W,x"),
        *("2MWh@0..9,watts=memory", "2MWh@0..9,watts=draws", "1kJ@0..100,watts=1W,idle=10W"),
    ],
    "max-running": ["0", "x"],
}


@pytest.mark.parametrize("option", REFUSED)
def test_a_bad_limit_is_refused_in_one_line(option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    for given in REFUSED[option]:
        words = ["--pool", "power=5kW@100W"] if ",pool\n" in given else []
        if option in ("calendar", "backfill-while"):
            bound = ":300" if given.startswith(":300") else ""
            Path("given.csv").write_text(given.removeprefix(bound))
            words += [f"--{option}", f"given.csv{bound}"]
        else:
            words += [f"--{option}", given]
        said += [f"{given!r:.90}", f"  {refusal('replay', SAMPLE, *words)}"]
    check(f"refused-{option}", "\n".join(said))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"calendar": 7}, "neither a file nor a Calendar"),
        ({"pool": 7}, "7 is no pool"),
        ({"energy_budget": 7}, "7 is no budget"),
        *(
            ({"backfill_while": wrong}, r"^(option backfill.while|gate): ")
            for wrong in (7, "", [3], [(1, 2, 3)], [(0, "x")], [(0, 10**400)], [(-math.inf, 1)], [(None, 1)])
        ),
    ],
)
def test_what_is_no_limit_in_python_is_refused(options, says):
    with pytest.raises(BatfillError, match=says):
        bf.replay(SAMPLE, **options)


@pytest.mark.parametrize("limit", [{"max_running": 3}, {"pool": "power=1W@1W:user"}], ids=str)
def test_a_limit_of_users_is_refused_where_no_job_has_one(limit):
    workload = table(ROWS).stating(name="made", size=4)
    for run in (bf.replay, bf.Replay):
        with pytest.raises(BatfillError, match=f"made: option {next(iter(limit))}: no job has a user; leave it out"):
            run(workload, **limit)


FAILING = bf.Calendar.of([{"kind": "failure", "begin": 1e4, "end": 2e4, "processors": 60}])
LIMITS = {"backfill-while": [(0, 9)], "pool": "power=5kW@100W", "energy-budget": "2MWh@0..3d,watts=100W"}
NOT_HERE = [
    ({"calendar": FAILING, "small": "all"}, "nothing can be learned of"),
    ({"calendar": FAILING, "predict": "easy++"}, "nothing can be learned of"),
    ({"calendar": FAILING}, "under Batsim machine events say what fails"),
    ({"energy-budget": "2MWh@0..3d"}, "does not say what jobs draw"),
    *(
        ({name: value, **more}, says)
        for name, value in LIMITS.items()
        for more, says in (
            ({"reservation": "kept"}, "max.running, pool, energy.budget: with reservation"),
            ({"reservation": "machines"}, "max.running, pool, energy.budget: with reservation"),
            ({"plan": "kept", "depth": "all"}, f"a kept plan .*; choose {name.replace('-', '.')} none"),
            ({"select": "full"}, "select compares policies with one reservation"),
        )
    ),
]


@pytest.mark.parametrize(("options", "says"), NOT_HERE)
def test_what_cannot_take_a_limit_says_so(options, says):
    with pytest.raises(BatfillError, match=says):
        Agent(options)


# What jobs take


@pytest.mark.compiled
def test_a_share_is_of_what_all_processors_take_in_every_host():
    share, amount = bf.replay(SAMPLE, pool="power=80%@100W"), bf.replay(SAMPLE, pool="power=5.12kW@100W")
    assert np.array_equal(share.schedule.start_s, amount.schedule.start_s, equal_nan=True)
    assert np.array_equal(share.schedule.start_s, bf.replay(SAMPLE, pool="p=80%").schedule.start_s, equal_nan=True)
    assert share.as_dict()["pools"] == amount.as_dict()["pools"]
    found = bf.Replay(SAMPLE, "fcfs", pool="power=80%@100W").run(until_s=100_000).fork("saf").run()
    assert [pool.capacity for pool in found.engine.queue.rules.pools] == [5120]
    agent = Agent({"pool": "power=80%@100W"})
    agent.begin(range(64), Registration(False, False, False), print)
    assert [pool.capacity for pool in agent.cluster.pools] == [5120]
    document = load_document(SAMPLE)
    live = starts_of_plugin(document, 64, pool="power=80%@100W")
    assert_same_starts(live, starts_of_plugin(document, 64, pool="power=5.12kW@100W"))


def test_jobs_state_what_they_take_in_resources_or_fields_and_others_take_nothing(tmp_path):
    content = as_workload(table([(0, 9, 9, 2), (0, 9, 9, 1), (0, 9, 9, 1)]))
    content["jobs"][0] |= {"resources": {"licences": 2, "power": -1}, "watts": 12.5}
    content["jobs"][1] |= {"resources": "none", "watts": None}
    path = tmp_path / "made.json"
    path.write_text(json.dumps({"nb_res": 4, **content}))
    pools = Pools.of("pool", "licences=2,power=1kW@watts,slots=4@2,heat=2kW@103.12W")
    jobs = bf.read(path).jobs
    assert [pool.amounts(jobs).tolist() for pool in pools] == [[2, 0, 0], [13, 0, 0], [4, 2, 2], [207, 104, 104]]
    known = {"licences": 2.0, "watts": 12.5}
    assert [pool.amount(known, 2) for pool in pools] == [2, 13, 4, 207]
    result = bf.replay(path, pool=["licences=2", "power=1kW@watts"]).as_dict()
    assert result["warnings"] == ["job 000001: resources 'none' is not an object of amounts by name: it is ignored"]
    assert result["options"]["pool"] == "licences=2,power=1kW@watts"
    said = batfill("replay", path).out
    assert "not modelled: the field resources of 2 jobs" in said
    assert "not modelled: the field watts of 2 jobs" in said


@pytest.mark.parametrize("value", ["two", -1, True, [2], {}])
def test_a_field_that_is_no_amount_is_refused_in_a_replay_and_its_job_rejected_under_batsim(value, tmp_path, caplog):
    content = {"nb_res": 4, **as_workload(table([(0, 9, 9, 2), (0, 9, 9, 1), (0, 9, 9, 1)]))}
    for job, amount in zip(content["jobs"], (1, value, 1e30), strict=True):
        job["resources"] = {"licences": amount}
    (tmp_path / "made.json").write_text(json.dumps(content))
    says = refusal("replay", tmp_path / "made.json", "--pool", "licences=2")
    assert says == "made.json: option pool: licences of job 000001 is no number >= 0; correct it"
    document = load_document(tmp_path / "made.json")
    assert len(starts_of_plugin(document, 4, pool="licences=2")) == 1
    assert "2 jobs were rejected: they request more licences than there is or no number of licences" in caplog.text


@pytest.mark.parametrize("amounts", [{"a": [1]}, {"a": [1, -1]}])
def test_amounts_in_python_are_numbers_one_for_each_job(amounts):
    with pytest.raises(BatfillError, match=r"a is not 2 numbers|have amounts that is not numbers >= 0"):
        bf.job_table(submit_s=[0, 1], runtime_s=[1, 1], walltime_s=[1, 1], procs=[1, 1], amounts=amounts)


def test_more_than_any_capacity_is_rejected_however_much_it_is():
    jobs = with_amounts(table([(0, 9, 9, 1), (0, 9, 9, 4), (0, 9, 9, 1)]), np.array([[1e300], [math.inf], [2.0**53]]))
    pools = Pool("p0", 2**53), Pool("p1", 2**53, each=2**53)
    assert [pool.amounts(jobs).tolist() for pool in pools] == [[2**54, 2**54, 2**53], [2**53, 2**54, 2**53]]
    assert replay_jobs(jobs, 4, Rules(FCFS, pools=pools)).rejected.tolist() == [True, True, False]


def test_memory_is_what_each_processor_of_a_log_requests(tmp_path):
    row = dict.fromkeys(FIELDS, -1) | {"job": 1, "submit_s": 0, "runtime_s": 9, "requested_s": 9, "requested_procs": 2}
    rows = [row | {"requested_memory_kb": 1_500_001}, row | {"job": 2}]
    path = tmp_path / "made.swf"
    path.write_text("; MaxProcs: 4\n" + "\n".join(" ".join(str(one[name]) for name in FIELDS) for one in rows))
    assert Pools.of("pool", "memory=4GB")[0].amounts(bf.read(path).jobs).tolist() == [3_000_002, 0]
    assert "1 job wants more (first: 1)" in bf.replay(path, pool="memory=2GB").as_text()


# What results state


def seconds_and_tries(schedule, takes):
    """Each second of a run, and (start, end, what it takes) of each of its tries."""
    seconds = range(int(schedule.submit_s[schedule.ended].min()), int(np.nanmax(schedule.end_s)))
    tries = list(zip(schedule.start_s, schedule.end_s, takes, strict=True))
    return seconds, tries + [(kill.start_s, kill.end_s, takes[kill.row]) for kill in schedule.kills.view(np.recarray)]


@pytest.mark.compiled
def test_a_result_states_the_calendar_its_digest_and_what_it_took(tmp_path):
    path = tmp_path / "calendar.csv"
    path.write_text("kind,begin,end,processors,announced\nannounced,10000,20000,16,\nfailure,50000,60000,8,\n")
    plain, beside = (json_result("replay", SAMPLE, *more) for more in ((), ("--calendar", path)))
    assert beside["options"]["calendar"] == str(path)
    assert beside["calendar_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    took = beside["calendar"]
    assert (took["away_proc_s"], took["overrun_proc_s"], took["failed"], beside["requeued"]) == (240_000.0, 0.0, 1, 1)
    assert took["windows"] == [[10_000.0, 20_000.0, 16], [50_000.0, 60_000.0, 8]]
    assert "calendar" not in plain


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(4))
def test_figures_count_what_is_available_second_by_second(seed):
    jobs = random_table(seed, n_jobs=60, size=9, span_s=80, longest=20, unlimited=0.3)
    calendar = Calendar((announced(10, 40, 5, 10.0), failure(50, 70, 6), announced(60, 90, 3, 60.0)))
    schedule = replay_jobs(jobs, 9, Rules(FCFS, calendar=calendar))
    figures, took = schedule.summary(), schedule.away()
    seconds, tries = seconds_and_tries(schedule, jobs.procs)
    busy = [sum(q for start, end, q in tries if start <= t < end) for t in seconds]
    away = [sum(w.processors for w in calendar.windows if w.begin <= t < w.end) for t in seconds]
    over = [max(used + gone - 9, 0) for used, gone in zip(busy, away, strict=True)]
    assert took.away_proc_s == sum(away)
    assert took.overrun_proc_s == sum(over) > 0
    assert took.failed == len(schedule.kills)
    assert figures.utilisation == pytest.approx(sum(busy) / (9 * len(seconds) - sum(away) + sum(over)))
    dates, available = schedule.available()
    known = available[np.searchsorted(dates, seconds, side="right") - 1]
    assert known.tolist() == [9 - gone + more for gone, more in zip(away, over, strict=True)]


def test_nothing_is_in_use_of_a_machine_that_is_away_until_a_job_of_no_time_starts():
    run = replay_jobs(table([(0, 0, 30, 2)]), 2, Rules(FCFS, calendar=Calendar((announced(0, 50, 2),))))
    assert run.start_s.tolist() == [50]
    assert run.summary().utilisation == 0


def test_a_result_states_for_how_long_the_gate_was_open_and_which_dates_were_never_reached():
    log, last = table([(10, 60, 60, 1), (10, 90, 90, 1)]).stating(name="made", size=4), "the last job ended at 100 s"
    never = f"option backfill-while: the gate never opened, so no job was backfilled; {last}; check its dates"
    for gate, open_s, warned in (
        ([(0, 40), (80, None)], 50, []),
        ([(0, math.inf)], 90, []),
        ([(100, 101)], 0, []),
        ([(101, 300)], 0, [never]),
        ([(-9, 0)], 0, [never]),
        ([], 0, [never]),
    ):
        result = bf.replay(log, backfill_while=gate)
        assert (result.as_dict()["gate"], result.as_dict()["warnings"]) == ({"open_s": open_s, "span_s": 90}, warned)
        assert f"gate         open for {open_s / 90:.2%} of 1 min 30 s" in result.as_text()
    result = bf.replay(log, energy_budget="9kWh@101..200,watts=1W").as_dict()
    assert result["warnings"] == [f"option energy-budget did nothing: it begins at 101 s, and {last}"]
    assert "gate" not in result


def test_a_result_states_what_one_user_held_of_a_users_pool_and_who_wants_more():
    jobs = table([(0, 9, 9, 3), (0, 9, 9, 2), (9, 9, 9, 3), (9, 9, 9, 9), (9, 9, 9, 6), (9, 9, 9, 7)])
    jobs = replace(jobs, user=np.array([7, 7, 8, -1, 8, 7]))
    result = bf.replay(jobs.stating(name="made", size=20), pool="slots=5@1:user")
    (use,) = result.as_dict()["pools"]
    given = {"name": "slots", "capacity": 5, "unit": "", "share": None, "most": 5, "above_s": 0, "refused": 2}
    assert use == given | {"first_refused": str(jobs.ids[4])}
    says = f"slots: at most 5 of 5 in use by one user; 2 jobs want more (first: {jobs.ids[4]})"
    assert f"pool         {says}\n" in result.as_text()
    all_lost = bf.replay(result.workload, pool="slots=1@2").as_text()
    assert "pool         slots: 0.00% of 1 in use, at most 0; 6 jobs want more (first: 000000)\n" in all_lost


@pytest.mark.compiled
def test_the_use_of_a_pool_is_that_of_every_second():
    jobs = random_table(3, n_jobs=80, size=9, span_s=90, longest=20, unlimited=0.3)
    jobs = with_amounts(jobs, np.random.default_rng(3).integers(0, 6, (80, 1)))
    result = bf.replay(
        jobs.stating(name="made", size=9), "saf", pool="p0=5", calendar=falls((20, 50, 3), (60, 70, 4, 60))
    )
    schedule, (use,) = result.schedule, result.as_dict()["pools"]
    seconds, tries = seconds_and_tries(schedule, schedule.wants[:, 0])
    used = [sum(n for start, end, n in tries if start <= t < end) for t in seconds]
    there = [5 - 3 * (20 <= t < 50) - 4 * (60 <= t < 70) for t in seconds]
    assert use["share"] == pytest.approx(sum(used) / sum(there))
    assert use["most"] == max(used)
    assert use["above_s"] == sum(n > most for n, most in zip(used, there, strict=True)) > 0
    assert use["refused"] == (schedule.wants[:, 0] > 5).sum()


@pytest.mark.compiled
def test_what_is_drawn_of_a_budget_is_that_of_every_second():
    jobs = random_table(3, n_jobs=80, size=9, span_s=200, longest=20, unlimited=0.3)
    jobs = with_watts(jobs, np.random.default_rng(3).integers(0, 9, len(jobs)))
    given = budget(6, 10, 250, idle_w=2)
    run = EngineReplay(jobs, 9, Rules(FCFS, energy_budget=given, outlived=True), expected_s=np.ones(len(jobs)))
    run.advance()  # all outlive what is expected
    schedule = run.schedule()
    _, tries = seconds_and_tries(schedule, given.pool.amounts(jobs))
    balance, drawn, above = 0, 0, 0
    for t in range(10, 250):
        now_w = 2 + sum(w for start, end, w in tries if start <= t < end)
        drawn += now_w
        before, balance = balance, balance + 6 - now_w
        low, high = sorted((before, balance))
        above += 0 if low >= 0 else 1 if high <= 0 else -low / (high - low)
    found = schedule.drawn()
    assert (found.budget_j, found.drawn_j) == (6 * 240, drawn)
    assert found.above_s == pytest.approx(above)
    assert above > 0


# Copies

KEPT = (
    {"calendar": bf.Calendar.of([{"kind": "announced", "begin": 1e4, "end": 2e4, "processors": 60}])},
    {"backfill_while": [(10_000, 30_000), (50_000, math.inf)]},
    {"pool": "power=4kW@100W"},
    {"energy_budget": "60kWh@0..2d,watts=100W,idle=500W"},
)


@pytest.mark.needs("pandas")
@pytest.mark.compiled
@pytest.mark.parametrize("limit", KEPT, ids=str)
def test_a_saved_forked_or_compared_replay_keeps_its_limits(limit, tmp_path):
    whole = bf.replay(SAMPLE, "saf", **limit)
    assert (whole.schedule.start_s != bf.replay(SAMPLE, "saf").schedule.start_s).any()
    run = bf.Replay(SAMPLE, "saf", **limit).run(15_000)
    run.save(tmp_path / "run.npz")
    for going_on in (run.fork(), bf.Replay.load(tmp_path / "run.npz"), run.fork(policy="fcfs").fork(policy="saf")):
        assert going_on.run().result().schedule == whole.schedule
    frame = bf.replay_many(SAMPLE, ["fcfs", "saf"], **limit)
    assert frame.mean_wait_s["saf"] == whole.figures.mean_wait_s
    assert frame.attrs.items() >= {name: digest for name, digest in whole.about().items() if "sha256" in name}.items()
