"""The whole engine on cases that are small enough for kernels that are not compiled: `make test-uncompiled`.

There a leaf holds four jobs and a group four leaves, so that a hundred waiting jobs fill, split, empty and merge nodes
as thousands do. Compiled kernels keep the sizes that they were compiled with, and pass the same tests.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.errors import BatfillError
from batfill.base.kernels import PLAIN
from batfill.engine import running
from batfill.model.jobs import SMALL
from batfill.model.policy import POLICIES, policy_named
from batfill.model.rules import Rules
from batfill.queue import Queue
from batfill.replays.engine_replay import EngineReplay
from from_python import from_python
from oracle import Oracle, assert_same, oracle
from strategies import (
    assert_goes_on,
    in_units,
    options,
    outliving,
    random_mixed,
    random_table,
    replayed,
    table,
    workloads,
)
from sweeps import examples, sweep

reservation = from_python(running.reservation)


pytestmark = pytest.mark.usefixtures("small_blocks")


def burst(seed, *, n_jobs=150, size=16, small=0.0, **shape):
    """Many more jobs than the machine can hold, all submitted within a few seconds."""
    return random_table(seed, n_jobs=n_jobs, size=size, small=small, wide=0.0, **{"span_s": 3, "longest": 20} | shape)


@settings(deadline=None, max_examples=examples(40 if PLAIN else 100))
@given(workloads(), options)
def test_any_workload_under_any_options_starts_what_the_oracle_starts(workload, case):
    jobs, size = workload
    assert_same(replayed(jobs, size, **case), oracle(jobs, size, **case))


@settings(deadline=None, max_examples=examples(40 if PLAIN else 100))
@given(workloads(), options, st.sampled_from([1.0, 45.0, 700.0]))
def test_any_workload_whose_jobs_outlive_their_requests_starts_what_the_oracle_starts(workload, case, unit_s):
    (jobs, size), case = workload, in_units(case, unit_s)
    jobs = outliving(jobs, unit_s)
    assert_same(replayed(jobs, size, **case), oracle(jobs, size, **case))


@pytest.mark.parametrize(
    *sweep(
        policy=["fcfs", "saf", "wfp3"],
        case=[{}, {"divider_s": 700.0}, {"divider_s": 200.0, "threshold_s": 9000.0}],
    )
)
def test_in_a_burst_of_jobs_that_outlive_their_requests_every_try_is_corrected_from_the_first_step(policy, case):
    jobs = outliving(burst(2, n_jobs=120, size=10, span_s=60, small=0.6, short=0.6), 90.0)
    assert_same(replayed(jobs, 10, policy, **case), oracle(jobs, 10, policy, **case))


@pytest.mark.parametrize("outlives", [True, False])
@pytest.mark.parametrize("policy", ["fcfs", "saf", "wfp3"])
def test_predictions_are_corrected_to_the_request_and_beyond_it_only_if_jobs_may_outlive_that(policy, outlives):
    extended = outliving(burst(3, n_jobs=120, size=10, span_s=60, short=0.4), 90.0)
    request_s = np.where(np.isnan(extended.user_request_s), math.inf, extended.user_request_s)
    jobs = extended if outlives else dataclasses.replace(extended, walltime_s=request_s, outlives=False)
    guess = np.minimum(np.random.default_rng(3).choice([1.0, 80.0, 170.0, 1000.0], len(jobs)), request_s)
    run = EngineReplay(jobs, 10, Rules(policy_named(policy), outlived=True), expected_s=guess)
    run.advance()
    assert_same(run.schedule(), oracle(jobs, 10, policy, expected_s=guess, outlived=True))


@pytest.mark.parametrize("policy", [*POLICIES, "mixed:2,-0.1,0.01,3,-40,0.02"])
def test_a_burst_drains_as_the_oracle_says_under_every_policy(policy):
    seed = len(policy)
    jobs = burst(seed, small=0.3)
    case = {"threshold_s": [math.inf, 40.0][seed % 2], "divider_s": [8.0, math.inf][seed % 2]}
    assert_same(replayed(jobs, 16, policy, **case), oracle(jobs, 16, policy, **case))


@pytest.mark.parametrize(*sweep(policy=["fcfs", "saf", "wfp3"], backfill=["fcfs", "lqf", "spf", "unicef"]))
def test_a_burst_drains_as_the_oracle_says_with_a_backfill_order_of_its_own(policy, backfill):
    jobs = burst(len(backfill), small=0.3)
    case = {"backfill": backfill, "threshold_s": 60.0}
    assert_same(replayed(jobs, 16, policy, **case), oracle(jobs, 16, policy, **case))


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("policy", ["fcfs", "lqf", "wfp3"])
def test_hundreds_that_become_overdue_at_once_leave_the_others_in_order(policy, half):
    rng = np.random.default_rng(1)
    rows = [
        (0, 1000, 1000, 8),  # what the head waits for
        *((1, 9, 5000, q) for q in rng.integers(9, 17, 150).tolist()),
        (2, 98, 98, 8),  # backfilled; from now on no processor is free
        *((40, 9, 5000, q) for q in rng.integers(9, 17, 60).tolist()),
        *((40, p, 200, q) for p, q in zip(rng.integers(1, 50, 20).tolist(), [1, 2, 3, 4] * 5, strict=True)),
        (80, 9, 9, 17),  # rejected: an instant at which nothing else happens
    ]
    jobs = table(rows)
    run = EngineReplay(jobs, 16, Rules(policy_named(policy), threshold_s=60.0, half=half))
    run.advance(160.0)
    assert_same(run.schedule(), Oracle(jobs, 16, policy, threshold_s=60.0, half=half).run(until=160.0))
    assert (run.schedule().start_s >= 100).sum() > 5


@pytest.mark.parametrize("policy", ["fcfs", "srf", "wfp3"])
def test_short_jobs_that_arrive_behind_long_ones_are_backfilled_as_the_oracle_says(policy):
    long, short = burst(5, n_jobs=100, longest=30), burst(6, n_jobs=80, size=4, span_s=300, longest=3)
    rows = [
        *zip(long.submit_s, long.runtime_s + 90, long.walltime_s + 90, 6 + long.procs % 5, strict=True),
        *zip(short.submit_s + 5, short.runtime_s, short.walltime_s, short.procs, strict=True),
    ]
    jobs = table(rows)
    run = EngineReplay(jobs, 16, Rules(policy_named(policy), threshold_s=250.0))
    run.advance(500.0)
    assert_same(run.schedule(), Oracle(jobs, 16, policy, threshold_s=250.0).run(until=500.0))
    assert run.schedule().backfilled.sum() > 20


# Many policies in one call, as tuning replays them


@pytest.mark.parametrize(
    ("more", "outlives"), [([], False), (["saf", "wfp3"], False), (["fcfs", "wfp3"], True)], ids=str
)
def test_policies_replayed_one_after_the_other_start_what_the_oracle_starts(more, outlives):
    rng = np.random.default_rng(3)
    names = [*(random_mixed(rng, expansion=expansion) for expansion in (0, 1, 1)), *more]
    jobs, threshold_s = random_table(3, n_jobs=150, size=10, span_s=40, longest=15), 99.0
    if outlives:
        jobs = outliving(random_table(4, n_jobs=150, size=10, span_s=100, longest=15, short=0.6), 90.0)
        threshold_s = 9000.0
    run = EngineReplay(jobs, 10, Rules(policy_named("fcfs")))
    found = run.starts_under([policy_named(name) for name in names], threshold_s=threshold_s)
    for name, start_s in zip(names, found, strict=True):
        expected = [job.start for job in oracle(jobs, 10, name, threshold_s=threshold_s).jobs]
        assert np.array_equal(start_s, expected, equal_nan=True)


def test_a_machine_taken_over_as_it_stands_goes_on_as_the_oracle_does():
    jobs = burst(8, n_jobs=200, longest=30)
    for policy in ("fcfs", "wfp3"):
        whole = oracle(jobs, 16, policy)
        start_s = np.array([job.start for job in whole.jobs])
        left = np.flatnonzero(start_s + np.minimum(jobs.runtime_s, jobs.walltime_s) > 50.5)
        run = EngineReplay(jobs.select(left), 16, Rules(policy_named(policy)))
        run.begin_at(50.5, np.where(start_s <= 50.5, start_s, np.nan)[left])
        run.advance()
        assert run.start_s.tolist() == start_s[left].tolist()


def test_those_overdue_that_go_first_are_chosen_again_before_a_kill():
    # When job 1 starts, six overdue jobs are left, three of which go first: a fourth has to move.
    rows = [(0, 90, 95, 2, SMALL), (1, 90, 95, 1), *((1, 9, 20 + number, 4) for number in range(6)), (8, 9, 9, 5)]
    jobs, rules = table([(0, 10, 10, 1), *rows]), {"threshold_s": 5.0, "divider_s": 10.0, "spares": True, "half": True}
    jobs = dataclasses.replace(jobs, procs=np.where(jobs.runtime_s == 90, 2, jobs.procs))
    run = EngineReplay(jobs, 4, Rules(policy_named("lpf"), **rules))
    run.advance()
    assert_same(run.schedule(), oracle(jobs, 4, "lpf", **rules))


def test_rules_that_cannot_be_are_refused_and_dividers_in_force_change_nothing():
    queue = Queue(4, Rules(policy_named("fcfs"), divider_s=3.0))
    with pytest.raises(BatfillError, match="threshold_s: nan is not a number of seconds >= 0"):
        queue.change_rules(Rules(policy_named("saf"), threshold_s=math.nan))
    before = queue.arrays
    queue.change_divider(3.0, bound=False)
    assert queue.arrays is before
    assert queue.divider_s == 3.0


@pytest.mark.parametrize("policy", ["saf", "wfp3"])
def test_a_replay_copied_or_saved_under_way_goes_on_as_the_oracle_does(policy, tmp_path):
    jobs, case = burst(9, n_jobs=100, small=0.3), {"threshold_s": 40.0, "divider_s": 8.0}
    run = EngineReplay(jobs, 16, Rules(policy_named(policy), **case))
    assert_goes_on(run, 20.0, oracle(jobs, 16, policy, **case), tmp_path)


# Predictions that jobs outlive


def raised(expected_s, walltime_s, times, ran_s):
    """What is expected of a job that has run for `ran_s`, and how often it was corrected, by the definition."""
    while expected_s <= ran_s and expected_s < walltime_s:
        expected_s = min(
            expected_s + running.CORRECTION_STEPS_S[min(times, len(running.CORRECTION_STEPS_S) - 1)], walltime_s
        )
        times += 1
    return expected_s, walltime_s, times


@pytest.mark.parametrize("seed", range(5))
def test_predictions_that_running_jobs_outlive_are_raised_step_by_step_to_their_walltimes(seed):
    rng = np.random.default_rng(seed)
    queue = Queue(40, Rules(policy_named("fcfs"), outlived=True))
    known = []
    for row in range(12):
        walltime_s, expected_s = float(rng.choice([100, 5000, 2_000_000])), float(rng.integers(1, 100))
        queue.submit(f"{row:02}", 0.0, walltime_s, int(rng.integers(1, 4)), expected_s=expected_s)
        known.append((expected_s, walltime_s, 0))
    assert queue.decide(0.0).tolist() == list(range(12))
    for now_s in (0.5, 50.0, 51.0, 400.0, 1500.0, 9_000.0, 900_000.0):
        queue.decide(now_s)
        running.correct(now_s, queue.arrays)  # twice is as good as once
        known = [raised(*job, now_s) for job in known]
        ends_s = [expected_s for expected_s, _, _ in known]
        assert queue.jobs["expected_s"][:12].tolist() == ends_s
        assert [ends_s[row] for row in queue.running_rows] == sorted(ends_s)
        assert reservation(40, queue.arrays) == (max(ends_s), 0)


def test_repeated_queues_hold_what_one_holds():
    queue = Queue(8, Rules(POLICIES["fcfs"]), capacity=4000)
    n_bytes = queue.nbytes
    copies = queue.repeated(3)
    assert len(copies.blocks.nodes) == 3
    assert copies.blocks.nodes.shape[1] == len(queue.arrays.blocks.nodes)
    assert queue.nbytes == n_bytes > queue.jobs.nbytes > 4000 * queue.jobs.dtype.itemsize - 1
