"""Pools: cases on paper, whole logs with pools that never run short, what is refused, and figures."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.live.agent import Agent
from batfill.live.request import Registration
from batfill.model.calendar import ANNOUNCED, Calendar, Window
from batfill.model.jobs import SMALL
from batfill.model.options import Options
from batfill.model.policy import policy_named
from batfill.model.pools import Pool, Pools
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from batfill.workloads.batsim_json import load_document
from batfill.workloads.swf_log import FIELDS
from command import batfill, refusal
from oracle import assert_same, oracle
from plugin import assert_same_starts, starts_of_plugin
from small_runs import as_workload
from strategies import pools_for_oracle, random_table, table, with_amounts

SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"
LOGS = ("KTH-SP2-1996-2.1-cln.swf.gz", "SDSC-SP2-1998-4.2-cln.swf.gz", "CTC-SP2-1996-3.1-cln.swf.gz")
DAY_S, HOUR_S = 86_400, 3600


def falls(pool, *dates):
    """The calendar of windows of a pool: begin, end, how much less, and since when known."""
    return Calendar(tuple(Window(ANNOUNCED, *date[:3], *date[3:], pool=pool) for date in dates))


# Who starts when: of each claim (pools, calendar, jobs, what they take, starts), on 4 processors in order of submission

P0, SKIPPED, OF_USER = Pool("p0", 4), Pool("p0", 4, skips=True), Pool("p0", 4, of_user=True)
ON_PAPER = {
    # the second waits for 3 of p0 until 10; the third would take 2 of the 1 left, the fourth takes nothing of it
    "a job that lacks a pool is the head, and one that takes nothing of it is not hindered": [
        ((P0,), None, [(0, 10, 10, 1), (1, 5, 5, 1), (2, 3, 3, 1), (3, 3, 3, 1)], [3, 3, 2, 0], [0, 10, 15, 3]),
    ],
    # at 10 the head takes 3 of 4, so that a long job may have 1 and no more
    "what is spare at the reservation may be used beyond it": [
        ((P0,), None, [(0, 10, 10, 1), (1, 5, 5, 1), (2, 90, 90, 1), (3, 90, 90, 1)], [2, 3, 1, 1], [0, 10, 2, 15]),
    ],
    "a job that lacks a pool that skips has no reservation": [
        ((SKIPPED,), None, [(0, 10, 10, 1), (1, 5, 5, 1), (2, 90, 90, 1), (3, 90, 90, 1)], [2, 3, 1, 1], [0, 92, 2, 3]),
    ],
    # of 5 there is enough for all who can run; the third lacks 2 processors and 1 of it: skipped, it holds back no job
    "a pool that suffices for all who run may skip one that waits": [
        (
            (replace(SKIPPED, capacity=5),),
            None,
            [(0, 10, 10, 2), (0, 20, 20, 1), (1, 5, 5, 3), (2, 30, 30, 1)],
            [2, 1, 3, 1],
            [0, 0, 20, 2],
        ),
    ],
    # 2 of 4 are left from 10 to 20: a request until 10 fits, one until 11 waits until 20
    "a known fall is kept free, and one that is not known stops nothing": [
        ((P0,), falls("p0", (10, 20, 2)), [(0, 10, 10, 1), (0, 9, 11, 1)], [3, 3], [0, 20]),
        ((P0,), falls("p0", (10, 20, 2, 10)), [(0, 9, 11, 1), (12, 1, 1, 1)], [3, 3], [0, 20]),
    ],
    # from 10 on 1 is there and 3 run: nothing is stopped, whoever takes any waits until 15, and others go on
    "a capacity that falls below what runs stops nothing": [
        ((P0,), falls("p0", (10, 99, 3, 10)), [(0, 15, 15, 1), (11, 2, 2, 1), (11, 2, 2, 1)], [3, 1, 0], [0, 15, 11]),
    ],
    # from 10 on 1 is there for ever: the second runs beside the third, and the head before it holds back neither
    "a fall that never ends leaves the rest": [
        ((P0,), falls("p0", (10, math.inf, 3)), [(0, 9, 9, 1), (11, 5, 5, 1), (11, 5, 5, 1)], [4, 1, 0], [0, 11, 11]),
    ],
    "more than there is is rejected, and delays no other job": [
        ((P0,), None, [(0, 9, 9, 1), (0, 9, 9, 1)], [5, 4], [math.nan, 0]),
    ],
    "a pool of each user skips, and jobs without a user take nothing of it": [
        ((OF_USER,), None, [(0, 9, 9, 1), (0, 9, 9, 1), (0, 9, 9, 1), (1, 9, 9, 1)], [3, 3, 3, 9], [0, 9, 0, 1]),
    ],
}


@pytest.mark.parametrize("claim", ON_PAPER)
def test_on_paper(claim):
    for pools, calendar, rows, takes, starts in ON_PAPER[claim]:
        jobs = with_amounts(table(rows), np.array(takes)[:, None])
        jobs = replace(jobs, user=np.array([1, 1, 2, -1][: len(jobs)]))
        schedule = replay_jobs(jobs, 4, Rules(policy_named("fcfs"), pools=pools, calendar=calendar))
        assert schedule.start_s.tolist() == pytest.approx(starts, nan_ok=True), claim
        slow = pools_for_oracle(pools, calendar)
        assert_same(schedule, oracle(jobs, 4, "fcfs", pools=slow, wants=schedule.wants))


def test_a_try_that_would_run_into_a_window_of_a_pool_is_killed_at_its_divider():
    """At 3 its request reaches into a window from 10 to 20, in which 1 of 4 is there: it waits for the window's end."""
    jobs = with_amounts(table([(0, 15, 18, 1, SMALL), (0, 15, 18, 1, SMALL)]), np.array([[2], [0]]))
    calendar, tries = falls("p0", (10, 20, 3)), {"divider_s": 3.0, "spares": True, "bound": True}
    schedule = replay_jobs(jobs, 4, Rules(policy_named("fcfs"), pools=(P0,), calendar=calendar, **tries))
    assert schedule.start_s.tolist() == [20.0, 0.0]
    slow = pools_for_oracle((P0,), calendar)
    assert_same(schedule, oracle(jobs, 4, "fcfs", pools=slow, wants=schedule.wants, **tries))


# Whole logs


def with_pools(jobs, size):
    """The jobs with two pools that never run short, though nothing tells so but the schedule: see `may_run_short`."""
    takes = np.ones((len(jobs), 2), np.int64)
    takes[np.argmin(jobs.procs)] = 2
    return with_amounts(jobs, takes), (Pool("p0", size + 1), Pool("p1", size + 1))


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("policy", ["fcfs", "spf", "saf"])
@pytest.mark.parametrize("name", LOGS)
def test_pools_that_never_run_short_change_no_start_of_a_whole_log(archive_log, name, policy):
    log = bf.read(archive_log(name))
    plain = replay_jobs(log.jobs, log.size, Rules(policy_named(policy)))
    jobs, pools = with_pools(log.jobs, log.size)
    run = EngineReplay(jobs, log.size, Rules(policy_named(policy), pools=pools))
    assert run.queue.rules.pools == pools
    run.advance()
    assert np.array_equal(run.schedule().start_s, plain.start_s, equal_nan=True)
    endless = tuple(Pool(name, 2**53) for name in ("p0", "p1"))
    run = EngineReplay(jobs, log.size, Rules(policy_named(policy), pools=endless))
    assert not run.queue.rules.planned  # they cost nothing
    run.advance()
    assert np.array_equal(run.schedule().start_s, plain.start_s, equal_nan=True)


@pytest.mark.slow
@pytest.mark.compiled
def test_windows_of_processors_are_those_of_a_pool_and_a_cap_in_watts(archive_log):
    log = bf.read(archive_log(LOGS[0]))

    def evenings(amount, pool=""):
        hours = [(day * DAY_S + 17 * HOUR_S, day * DAY_S + 21 * HOUR_S) for day in range(400)]
        rows = [{"kind": ANNOUNCED, "begin": begin, "end": end, "processors": amount} for begin, end in hours]
        return Calendar.of([{**row, "pool": pool} for row in rows])

    away = bf.replay(log, "fcfs", calendar=evenings(20)).schedule.start_s
    slots = bf.replay(log, "fcfs", pool="slots=100@1", calendar=evenings("20", "slots")).schedule.start_s
    watts = bf.replay(log, "fcfs", pool="power=10kW@100W", calendar=evenings("2kW", "power")).schedule.start_s
    assert (int((slots == away).sum()), int((watts == away).sum()), len(log)) == (28_467, 28_467, 28_467)
    assert (bf.replay(log, "fcfs").schedule.start_s != away).any()


# What is refused


@pytest.mark.parametrize(
    ("text", "stated", "taken"),
    [
        ("power=103.12W@100W", "power=103W@100W", 300),
        ("power=1.5e3kW@103.12W", "power=1.5MW@103.12W", 310),  # 309.36, a part of a watt as a whole one
        ("power=2e-3MW@203.125W", "power=2kW@203.125W", 610),
        ("licences=1e12@2", "licences=1000000000000@2", 6),
    ],
)
def test_amounts_have_decimals_and_exponents(text, stated, taken):
    (pool,) = Pools.of("pool", text)
    assert Pools.of("pool", stated) == (pool,)
    assert (pool.text, int(pool.amount({}, 3))) == (stated, taken)


@pytest.mark.parametrize(
    ("pool", "says"),
    [
        ("power", "'power' is no pool; give NAME=AMOUNT"),
        ("power=250 horses", "'250 horses' is no amount: a number, and for a unit one of W, kW, MW, kB, MB, GB, TB"),
        ("power=2MWh", "energy is not a pool"),
        ("power=250kW@2", "power: '2' is no amount in W, kW, MW"),
        ("power=0W", "power: '0W' is not a number of W from 1"),
        ("licences=4@-1", "licences: '-1' is no amount"),
        ("licences=4@.5", "licences: '.5' is no amount"),
        ("licences=4@0", "licences: '0' is not a whole number of pieces from 1"),
        ("licences=4@1W", "licences: '1W' is no amount without a unit"),
        ("power=0.5W", "'0.5W' is not a number of W from 1"),
        ("power=1e99W", "'1e99W' is not a number of W from 1"),
        ("licences=1.5", "'1.5' is not a whole number of pieces from 1"),
        ("power=1kW@1W,power=2kW@1W", "power is given twice"),
        ("procs=4", "procs are the machine's own"),
        ("licences=4", "no job has a field licences above 0"),
        ("licences=4@tokens", "no job has a field tokens above 0"),
        ("power=9kW@1W:hold", "is no pool"),
        ("power=80%@watts", "is not a share, up to 100%, of what all processors take; give an amount for each"),
        ("power=101%", "'power=101%' is not a share, up to 100%"),
        ("power=0%", "'power=0%' is not a share, up to 100%"),
        ("power=1%", "power=1% is 0 on 64 processors; give an amount"),
        ("=4", "'=4' is no pool"),
        ("gpu=4kW", "the field gpu of jobs is a number of pieces; give one, or name another field"),
        ("gpu-a100=4GB:user", "the field gpu-a100 of jobs is a number of pieces"),
        ("memory=100kW", "the field memory of jobs is in GB; give an amount in kB, MB, GB, TB"),
        ("memory=100", "the field memory of jobs is in GB"),
        ("power=4GB@mean_watts", "the field mean_watts of jobs is in W; give an amount in W, kW, MW"),
        ("matlab=4GB@license/matlab", "the field license/matlab of jobs is a number of pieces"),
    ],
)
def test_a_bad_pool_is_refused_in_one_line(pool, says):
    assert says in refusal("replay", SAMPLE, "--pool", pool)


HEADER = "kind,begin,end,processors,announced,pool"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["announced,1,9,2kW,,steam"], "line 2: takes 2kW of steam, and the machine's pools are power=5kW@100W"),
        (["announced,1,9,2,,power"], "line 2: takes 2 of power, and the machine's pools are power=5kW@100W"),
        (["announced,1,9,6kW,,power"], "line 2: takes 6kW of power=5kW@100W; give fewer"),
        (["announced,1,9,3kW,,power", "announced,8,10,3kW,,power"], "line 3: overlaps others (lines 2, 3): together"),
        (["failure,1,9,2kW,,power"], "line 2: only processors fail"),
        (["announced,1,9,two,,power"], "line 2: 'two' is no amount"),
        (["announced,1,9,0kW,,power"], "line 2: '0kW' is not a number of W from 1"),
        (["announced,1,,5kW,,power"], "jobs can never run"),
    ],
)
def test_a_bad_window_of_a_pool_is_refused_in_one_line(lines, says, tmp_path):
    path = tmp_path / "caps.csv"
    path.write_text("\n".join([HEADER, *lines]))
    assert says in refusal("replay", SAMPLE, "--pool", "power=5kW@100W", "--calendar", path)


def test_what_takes_no_pools_says_so():
    for options in ({"reservation": "kept"}, {"reservation": "machines"}):
        with pytest.raises(BatfillError, match=r"max.running, pool, energy.budget: with reservation"):
            Agent({"pool": "power=5kW@100W", **options})
    with pytest.raises(BatfillError, match="option plan: a kept plan is of machines alone; choose pool none"):
        Agent({"pool": "power=5kW@100W", "plan": "kept", "depth": "all"})
    with pytest.raises(BatfillError, match="select compares policies with one reservation"):
        Agent({"pool": "power=5kW@100W", "select": "full"})
    with pytest.raises(BatfillError, match="option pool: no job has a user"):
        bf.replay(random_table(1, n_jobs=9, size=4, span_s=20).stating(name="made", size=4), pool="power=1W@1W:user")
    with pytest.raises(BatfillError, match="7 is no pool"):
        Options.of({"pool": 7})
    with pytest.raises(BatfillError, match="amounts: a is not 2 numbers"):
        bf.job_table(submit_s=[0, 1], runtime_s=[1, 1], walltime_s=[1, 1], procs=[1, 1], amounts={"a": [1]})
    with pytest.raises(BatfillError, match=r"1 of 2 jobs have amounts that is not numbers >= 0"):
        bf.job_table(submit_s=[0, 1], runtime_s=[1, 1], walltime_s=[1, 1], procs=[1, 1], amounts={"a": [1, -1]})


# Where amounts come from, and what is stated


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("power=250kW@mean_watts", "power=250kW@mean_watts"),
        ("power=1500W@100W:skip", "power=1.5kW@100W:skip"),
        ("memory=2TB", "memory=2TB"),
        ("power=80 %@100W:user, cooling=62.50%:skip", "power=80%@100W:user,cooling=62.5%:skip"),
        ("a=7, b=0.5kW@1W:user", "a=7,b=500W@1W:user"),
        (["a=12345", "b=1234567W@1W"], "a=12345,b=1234.567kW@1W"),
    ],
)
def test_pools_are_stated_as_they_may_be_given(text, again):
    assert (Pools.of("pool", text).name, Pools.of("pool", again).name) == (again, again)


@pytest.mark.compiled
def test_a_share_is_of_what_all_processors_take_in_every_host():
    share, amount = bf.replay(SAMPLE, pool="power=80%@100W"), bf.replay(SAMPLE, pool="power=5.12kW@100W")
    assert np.array_equal(share.schedule.start_s, amount.schedule.start_s, equal_nan=True)
    assert np.array_equal(share.schedule.start_s, bf.replay(SAMPLE, pool="p=80%").schedule.start_s, equal_nan=True)
    assert share.as_dict()["pools"] == amount.as_dict()["pools"]
    assert share.as_dict()["options"]["pool"] == "power=80%@100W"
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
    pools = Pools.of("pool", "licences=2,power=1kW@watts,slots=4@2")
    jobs = bf.read(path).jobs
    assert [pool.amounts(jobs).tolist() for pool in pools] == [[2, 0, 0], [13, 0, 0], [4, 2, 2]]
    known = {"licences": 2.0, "watts": 12.5}
    assert [pool.amount(known, 2) for pool in pools] == [2, 13, 4]
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
    assert "requests no number >= 0 of licences: rejected" in caplog.text
    assert "2 jobs were rejected: they request more licences than there is or no number of licences" in caplog.text


def test_pools_with_the_names_of_other_rules_are_pools_as_any_other():
    jobs = with_amounts(table([(0, 9, 9, 1), (0, 9, 9, 1)]), np.array([[1], [1]]))
    rules = {"backfill_while": [(0, 9)], "energy_budget": "90J@0..9,watts=1W"}
    for name in ("p0", "energy", "backfill-while", "power"):
        calendar = Calendar.of([{"kind": "announced", "begin": 0, "end": 7, "processors": 1, "pool": name}])
        given = {"pool": f"{name}=2@p0", "calendar": calendar, **rules}
        assert bf.replay(jobs.stating(name="made", size=4), **given).schedule.start_s.tolist() == [0, 7], name


def test_more_than_any_capacity_is_rejected_however_much_it_is():
    jobs = with_amounts(table([(0, 9, 9, 1), (0, 9, 9, 4), (0, 9, 9, 1)]), np.array([[1e300], [math.inf], [2.0**53]]))
    pools = Pool("p0", 2**53), Pool("p1", 2**53, each=2**53)
    assert [pool.amounts(jobs).tolist() for pool in pools] == [[2**54, 2**54, 2**53], [2**53, 2**54, 2**53]]
    assert replay_jobs(jobs, 4, Rules(policy_named("fcfs"), pools=pools)).rejected.tolist() == [True, True, False]


def test_memory_is_what_each_processor_of_a_log_requests(tmp_path):
    row = dict.fromkeys(FIELDS, -1) | {"job": 1, "submit_s": 0, "runtime_s": 9, "requested_s": 9, "requested_procs": 2}
    rows = [row | {"requested_memory_kb": 1_500_001}, row | {"job": 2}]
    path = tmp_path / "made.swf"
    path.write_text("; MaxProcs: 4\n" + "\n".join(" ".join(str(one[name]) for name in FIELDS) for one in rows))
    assert Pools.of("pool", "memory=4GB")[0].amounts(bf.read(path).jobs).tolist() == [3_000_002, 0]
    result = bf.replay(path, pool="memory=2GB")
    assert result.figures.rejected == 1
    assert "1 job wants more (first: 1)" in result.as_text()


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
def test_a_result_states_the_use_of_each_pool_and_a_saved_replay_keeps_them(tmp_path):
    jobs = random_table(3, n_jobs=80, size=9, span_s=90, longest=20, unlimited=0.3)
    jobs = with_amounts(jobs, np.random.default_rng(3).integers(0, 6, (80, 1)))
    calendar = falls("p0", (20, 50, 3), (60, 70, 4, 60))
    log = jobs.stating(name="made", size=9)
    result = bf.replay(log, "saf", pool="p0=5", calendar=calendar)
    schedule, (use,) = result.schedule, result.as_dict()["pools"]
    seconds = range(int(jobs.submit_s[schedule.ended].min()), int(np.nanmax(schedule.end_s)))
    tries = list(zip(schedule.start_s, schedule.end_s, schedule.wants[:, 0], strict=True))
    used = [sum(n for start, end, n in tries if start <= t < end) for t in seconds]
    there = [5 - 3 * (20 <= t < 50) - 4 * (60 <= t < 70) for t in seconds]
    assert use["share"] == pytest.approx(sum(used) / sum(there))
    assert use["most"] == max(used)
    assert use["above_s"] == sum(n > most for n, most in zip(used, there, strict=True)) > 0
    assert use["refused"] == (schedule.wants[:, 0] > 5).sum()
    assert (use["name"], use["capacity"], use["unit"]) == ("p0", 5, "")
    run = bf.Replay(log, "saf", pool="p0=5", calendar=calendar).run(40)
    run.save(tmp_path / "run.npz")
    for going_on in (run.fork(), bf.Replay.load(tmp_path / "run.npz")):
        assert going_on.run().result() == result


def test_a_window_that_is_announced_before_the_first_job_leaves_the_shares_as_they_are():
    jobs = table([(1000 + 10 * k, 100, 100, 1) for k in range(9)])
    for announced in (None, 0.0, 1015.0):
        cap = Calendar((Window(ANNOUNCED, 1020.0, 1060.0, 2, announced, pool="p0"),))
        pools = (Pool("p0", 4, each=1),)
        run = replay_jobs(jobs, 4, Rules(policy_named("fcfs"), pools=pools, calendar=cap))
        first_s, last_s = run.submit_s.min(), run.end_s.max()
        used = sum(((run.start_s <= at_s) & (at_s < run.end_s)).sum() for at_s in np.arange(first_s, last_s))
        assert run.uses()[0].share == pytest.approx(used / (4 * (last_s - first_s) - 2 * 40))
