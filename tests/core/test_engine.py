"""What the engine does beside a whole replay: many policies at once, a machine taken over, corrected predictions.

Kernels that are not compiled have blocks of four jobs, so that a hundred waiting jobs fill, split and empty blocks as
thousands do. Compiled kernels keep the size that they were compiled with.
"""

from __future__ import annotations

import numpy as np
import pytest

from batfill.engine import running
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.queue import Queue
from batfill.replays.engine_replay import EngineReplay
from batfill.workloads import generate_workload
from from_python import from_python
from oracle import Oracle, assert_same, oracle
from strategies import outliving, random_mixed, random_table, table
from sweeps import COMPILED

reservation = from_python(running.reservation)


pytestmark = pytest.mark.usefixtures("small_blocks")


def burst(seed, *, n_jobs=150, size=16, small=0.0, **shape):
    """Many more jobs than the machine can hold, all submitted within a few seconds."""
    return random_table(seed, n_jobs=n_jobs, size=size, small=small, wide=0.0, **{"span_s": 3, "longest": 20} | shape)


@pytest.mark.parametrize("half", [COMPILED(False), True])
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


# Many policies in one call, as tuning replays them

LONG = [COMPILED(*case) for case in [(["saf", "wfp3"], False), (["fcfs", "wfp3"], True)]]


@pytest.mark.parametrize(("more", "outlives"), [([], False), *LONG], ids=str)
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


def test_the_bytes_of_a_queue_grow_with_its_jobs():
    jobs = generate_workload(200, 16, 1).jobs
    half, whole = (
        EngineReplay(jobs.select(range(n)), 16, Rules(policy_named("fcfs"))).queue.nbytes for n in (100, 200)
    )
    assert 1.2 * half < whole < 2 * half


def test_a_divider_in_force_changes_nothing():
    queue = Queue(4, Rules(policy_named("fcfs"), divider_s=3.0))
    before = queue.arrays
    queue.change_divider(3.0, bound=False)
    assert queue.arrays is before
    assert queue.divider_s == 3.0


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


def test_a_replay_that_restarts_while_jobs_wait_is_a_new_one():
    jobs = random_table(4, n_jobs=80, size=6, span_s=100)
    run = EngineReplay(jobs, 6, Rules(policy_named("fcfs")))
    run.advance(60.0)
    assert len(run.queue.waiting_rows)
    run.restart(Rules(policy_named("saf")))
    run.advance()
    assert_same(run.schedule(), oracle(jobs, 6, "saf"))
