"""A replay of thousands of jobs, what holds of every schedule, figures known from other programs, and refusals."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from batfill.base.errors import PolicyError, WorkloadError
from batfill.model.jobs import job_table
from batfill.model.policy import Policy, policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from batfill.replays.many import measure_policies
from batfill.workloads import read_workload
from oracle import KEYS, Oracle, assert_same, oracle
from strategies import random_table, replayed, table
from sweeps import LATER, sweep


def assert_begins_as_the_oracle(jobs, until_s, policy, *, backfill=None, **case):
    """The same until this date, on 64 processors; the replay goes no further."""
    order = policy_named(backfill) if backfill else None
    run = EngineReplay(jobs, 64, Rules(policy_named(policy), order, **case))
    assert not run.advance(until_s)
    assert_same(run.schedule(), Oracle(jobs, 64, policy, backfill, **case).run(until=until_s))
    return run


def assert_as_the_oracle(jobs, size, policy, **case):
    assert_same(replayed(jobs, size, policy, **case), oracle(jobs, size, policy, **case))


# Thousands of waiting jobs, in blocks of the size that users have


MOVING = ["sexp", "lexp", "wfp3", "unicef", "mixed:2,-0.1,0.01,3,-40,0.02"]


@pytest.mark.parametrize(*sweep(policy=MOVING, threshold_s=[math.inf, 4000.0]))
def test_a_long_queue_whose_order_changes_drains_as_the_oracle_says(policy, threshold_s):
    jobs = random_table(3, n_jobs=600, size=16, span_s=1980, longest=60, small=0.2)
    assert_as_the_oracle(jobs, 16, policy, threshold_s=threshold_s, divider_s=40.0)


@pytest.mark.parametrize(("policy", "threshold_s"), [("srf", 900.0), LATER("lpf", math.inf), LATER("wfp3", 2500.0)])
def test_short_jobs_that_arrive_behind_4500_long_ones_are_backfilled_as_the_oracle_says(policy, threshold_s):
    # No long job fits beside two others, so some processors are always left for short ones.
    long = random_table(5, n_jobs=4500, size=64, span_s=3, longest=30, unit_s=100, wide=0)
    short = random_table(6, n_jobs=500, size=8, span_s=60, longest=3, unit_s=50)
    rows = [
        *zip(long.submit_s, long.runtime_s + 500, long.walltime_s + 500, 20 + long.procs % 20, strict=True),
        *zip(short.submit_s * 50 + 50, short.runtime_s, short.walltime_s, short.procs, strict=True),
    ]
    run = assert_begins_as_the_oracle(table(rows), 3500.0, policy, threshold_s=threshold_s)
    assert len(run.queue.waiting_rows) > 4096
    assert run.schedule().backfilled[4500:].sum() > 20


@pytest.mark.parametrize("policy", ["laf", LATER("lqf"), LATER("sqf"), "fcfs"])
def test_thousands_that_become_overdue_at_once_leave_the_others_in_order(policy):
    """Their leaving empties most leaves between those of the others, so that groups of leaves are merged."""
    rng = np.random.default_rng(1)
    old, wide, narrow = rng.integers(35, 65, 9000), rng.integers(40, 65, 2500), rng.integers(1, 9, 400)
    rows = [
        (0, 100_000, 100_000, 30),  # what the head waits for
        *((1, 9, 1_000_000, q) for q in old.tolist()),
        (2, 698, 698, 34),  # backfilled; from now on no processor is free
        *((300, 9, 1_000_000, q) for q in wide.tolist()),
        *((300, p, 500, q) for p, q in zip(rng.integers(1, 100, 400).tolist(), narrow.tolist(), strict=True)),
        *((t, 9, 9, 65) for t in (502, 650)),  # rejected: instants at which nothing else happens
    ]
    run = assert_begins_as_the_oracle(table(rows), 780.0, policy, threshold_s=500.0)
    assert (run.schedule().start_s >= 700).sum() > 5  # narrow jobs, when the backfilled one has ended


# What holds of every schedule


def test_the_order_of_the_rows_given_does_not_matter():
    jobs = random_table(5, n_jobs=300, size=12, span_s=100)
    shuffled = np.random.default_rng(5).permutation(len(jobs))
    columns = {name: getattr(jobs, name)[shuffled] for name in ("submit_s", "runtime_s", "walltime_s", "procs", "ids")}
    again = job_table("shuffled", **columns)
    assert replayed(again, 12, "saf").start_s.tobytes() == replayed(jobs, 12, "saf").start_s.tobytes()


def test_an_empty_workload_is_an_empty_schedule():
    schedule = replayed(table([]), 4, "saf")
    assert len(schedule.start_s) == len(schedule.order) == 0


# Figures that other programs find, too


@pytest.mark.parametrize(
    ("log", "policy", "jobs", "backfilled", "mean_wait_s", "mean_bsld"),
    [
        ("KTH-SP2-1996-2.1-cln.swf.gz", "fcfs", 28_467, 17_183, 6804.974, 90.7559),
        ("KTH-SP2-1996-2.1-cln.swf.gz", "saf", 28_467, None, 5823.627, 39.2288),
        ("SDSC-SP2-1998-4.2-cln.swf.gz", "fcfs", 54_034, None, 21183.671, 92.6288),
        ("SDSC-SP2-1998-4.2-cln.swf.gz", "saf", 54_034, None, 73235.109, 118.0797),
        ("SDSC-BLUE-2000-4.2-cln.swf.gz", "fcfs", 232_536, None, 7751.054, 35.2060),
        ("SDSC-BLUE-2000-4.2-cln.swf.gz", "saf", 232_536, None, 7082.804, 37.7218),
    ],
)
def test_the_archive_logs_give_the_known_figures(archive_log, log, policy, jobs, backfilled, mean_wait_s, mean_bsld):
    workload = read_workload(archive_log(log))
    figures = replayed(workload.jobs, workload.size, policy).summary()
    assert (figures.jobs, backfilled) in ((jobs, figures.backfilled), (jobs, None))
    assert round(figures.mean_wait_s, 3) == mean_wait_s
    assert round(figures.mean_bsld, 4) == mean_bsld


# What a caller in Python gets wrong


def policy(key, **moving):
    return Policy("mine", key, **moving)


def first_come(r, p, q):
    return r


JOBS = table([(i, 5, 10, 1) for i in range(4)])
FCFS = policy_named("fcfs")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (policy(lambda r, p, q: r * np.nan), "policy mine: its key is nan for r = 0, p~ = 10, q = 1; correct its"),
        (policy(lambda r, p, q: np.where(r == 2, np.inf, r)), "policy mine: its key is inf for r = 2, "),
        (policy(lambda r, p, q: 1.0), r"policy mine: its key has shape \(\), not \(4,\); return one number per job"),
        (policy(lambda r, p, q: r[:2]), r"policy mine: its key has shape \(2,\), not \(4,\)"),
        (policy(first_come, per_wait=lambda r, p, q: r * np.nan), "policy mine: its per_wait is nan for r = 0, "),
        (policy(first_come, per_expansion=lambda r, p, q: p[:1]), "policy mine: its per_expansion has shape"),
    ],
)
def test_a_policy_that_nothing_can_be_sorted_by_is_refused_everywhere(wrong, said):
    for rules in (Rules(wrong), Rules(FCFS, backfill=wrong)):
        with pytest.raises(PolicyError, match=said):
            replay_jobs(JOBS, 4, rules)
    with pytest.raises(PolicyError, match=said):
        measure_policies(JOBS, 4, [FCFS, wrong])


def test_a_policy_moves_in_one_way():
    with pytest.raises(PolicyError, match="policy mine: per_wait and per_expansion are both given; give one of them"):
        policy(first_come, per_wait=lambda r, p, q: q, per_expansion=lambda r, p, q: q)


# A policy's key at the submission, and how fast it moves.
AGED = {
    "aged": (lambda r, p, q: p * q, lambda r, p, q: -q),
    "rooted": (lambda r, p, q: -100 / np.cbrt(p * q), lambda r, p, q: -1 / np.cbrt(p * q)),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", AGED)
@pytest.mark.parametrize("as_backfill", [False, True])
def test_a_policy_of_ones_own_that_moves_starts_as_the_oracle_says(monkeypatch, name, as_backfill, seed):
    fixed, rise = AGED[name]
    own = Policy(name, fixed, per_wait=rise)
    monkeypatch.setitem(KEYS, name, lambda t, r, p, q: float(fixed(r, p, q) + rise(r, p, q) * (t - r)))
    jobs = random_table(seed, n_jobs=300, size=10, span_s=600, unlimited=0.05)
    if as_backfill:
        found = replay_jobs(jobs, 10, Rules(FCFS, backfill=own, threshold_s=80.0))
        assert_same(found, oracle(jobs, 10, "fcfs", backfill=name, threshold_s=80.0))
    else:
        assert_same(replay_jobs(jobs, 10, Rules(own)), oracle(jobs, 10, name))


def test_ties_out_of_the_order_of_their_ids_are_refused():
    with pytest.raises(WorkloadError, match="job 000000 at 0 follows job 000001 at 0"):
        dataclasses.replace(table([(0, 5, 10, 1)] * 2), ids=np.array(["000001", "000000"], object))


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("submit_s", np.nan, "a submission time"),
        ("runtime_s", -1, "a run time"),
        ("walltime_s", 0, "a requested time"),
        ("procs", 0, "a number of processors"),
        ("job_class", 7, "a class"),
    ],
)
def test_a_job_table_made_by_hand_is_checked(column, value, said):
    changed = getattr(JOBS, column).copy()
    changed[2] = value
    with pytest.raises(WorkloadError, match=rf"the job table: 1 of 4 jobs have {said} that is not .*first: job 000002"):
        replay_jobs(dataclasses.replace(JOBS, **{column: changed}), 4, Rules(FCFS))
    with pytest.raises(WorkloadError, match=r"the job table: column \w+ has shape"):
        replay_jobs(dataclasses.replace(JOBS, **{column: changed[:2]}), 4, Rules(FCFS))
