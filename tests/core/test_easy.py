"""The rules of the EASY pass, one by one, on cases small enough to check on paper."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batfill.engine import running as engine_running
from batfill.engine.records import NEVER_S
from batfill.model.jobs import LARGE, SMALL
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.queue import Queue
from batfill.replays.engine_replay import replay_jobs
from from_python import from_python
from strategies import table

reservation = from_python(engine_running.reservation)
FCFS = policy_named("fcfs")


def running(size, *jobs):
    """The running jobs of (expected end, processors), started at 0, on a machine of `size` processors."""
    queue = Queue(size, Rules(FCFS))
    for row, (end_s, procs) in enumerate(jobs):
        assert queue.submit(str(row), 0.0, float(end_s), procs) == row
        assert queue.decide(0.0).tolist() == [row]
    return queue


def starts(size, rows, policy="fcfs", **options):
    """Start of each (submit, run time, walltime, processors[, class]) row."""
    return replay_jobs(table(rows), size, Rules(policy_named(policy), **options)).start_s.tolist()


# The reservation


@pytest.mark.parametrize(
    ("size", "jobs", "need", "found"),
    [
        # 10 processors, 2 free; 4 more at 100, 3 more at 200, 1 more at 300
        *((10, [(300, 1), (100, 4), (200, 3)], need, found)
          for need, found in ((5, (100, 1)), (6, (100, 0)), (7, (200, 2)), (10, (300, 0)))),
        # 4 and 4 processors until 100: a head of 6 starts then with 2 + 8 - 6 = 4 to spare
        (10, [(100, 4), (100, 4)], 6, (100, 4)),
        (10, [(100, 4), (100.001, 4)], 6, (100, 0)),
        # behind jobs without walltime it is never, and yet before their like
        (4, [(10, 1), (math.inf, 3)], 3, (NEVER_S, 1)),
        # a head that fits at no time, as when machines are away: 2 processors are free or will be, the head needs 3
        (2, [(10, 1)], 3, (NEVER_S, 0)),
    ],
)  # fmt: skip
def test_the_shadow_time_is_the_first_expected_end_at_which_the_head_fits(size, jobs, need, found):
    assert reservation(need, running(size, *jobs).arrays) == found
    assert found[0] < math.inf


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_an_ended_job_gives_its_processors_back_and_leaves_the_others_in_order(gone):
    jobs = running(10, (100, 4), (100, 3), (200, 2))
    procs = [4, 3, 2]
    jobs.finish(gone)
    del procs[gone]
    assert jobs.free == 10 - sum(procs)
    assert jobs.jobs["procs"][jobs.running_rows].tolist() == procs


# The pass: who starts when. Rows are (submit, run time, walltime, processors); "saf 99" has a threshold of 99 s.

CASES = {
    # the second job waits for all 4 processors until 100; at 40 a third may take one of the two free ones until 100 ...
    "a job that ends at exactly the shadow time is backfilled": [
        (4, "fcfs", [(0, 100, 100, 2), (10, 10, 10, 4), (40, 60, 60, 1)], [0, 100, 40]),
        (4, "fcfs", [(0, 100, 100, 2), (10, 10, 10, 4), (40, 61, 61, 1)], [0, 100, 110]),  # ... but not until 101
    ],
    # at 100 the head takes 3 of 5 processors: 2 are extra, for the third and the fourth job, and none for the fifth
    "a long job is backfilled on extra processors only": [
        (
            *(5, "fcfs", [(0, 100, 100, 3), (1, 10, 10, 3), *((r, 500, 500, 1) for r in (2, 3, 4))]),
            [0, 100, 2, 3, 110],
        ),
    ],
    # 8 of 10 processors are given back at 100, the head needs 6: the long job of 2 does not delay it
    "two ends at the shadow time make extra processors": [
        (10, "fcfs", [(0, 100, 100, 4), (0, 100, 100, 4), (1, 10, 10, 6), (2, 999, 999, 2)], [0, 0, 100, 2]),
    ],
    # at 10 the second job starts until 60; the third then waits for it, and the fourth fits before that
    "the reservation counts jobs started ahead of it in the same pass": [
        (
            *(4, "fcfs", [(0, 10, 10, 4), (1, 50, 50, 2), (2, 5, 5, 4), (3, 50, 50, 1), (4, 51, 51, 1)]),
            [0, 10, 60, 10, 65],
        ),
    ],
    # promised for 100, the head starts at 20, when the first job really ends
    "the reservation is made again when a job ends early": [(4, "fcfs", [(0, 20, 100, 4), (1, 10, 10, 4)], [0, 20])],
    # at 5 a smaller job becomes the head, and the one that had the reservation goes behind it
    "nothing is kept from one pass to the next": [
        (4, "saf", [(0, 100, 100, 4), (1, 50, 50, 4), (5, 10, 10, 4)], [0, 110, 100]),
    ],
    # of 4 processors the head leaves 1 extra, of 3 none
    "a job without walltime is backfilled on extra processors alone": [
        (4, "fcfs", [(0, 100, 100, 2), (1, 10, 10, 3), (2, 5, None, 1), (3, 5, None, 1)], [0, 100, 2, 7]),
        (3, "fcfs", [(0, 100, 100, 2), (1, 10, 10, 3), (2, 5, None, 1), (3, 5, None, 1)], [0, 100, 110, 110]),
    ],
    "behind a job without walltime every job with one is backfilled and none without": [
        (
            *(3, "fcfs", [(0, 100, None, 2), (1, 10, 10, 3), (2, 50_000, 50_000, 1), (3, 1, None, 1)]),
            [0, 50_002, 2, 50_012],
        ),
    ],
    # at 100 the wide old job has waited for 99 s and comes first only if the threshold is less
    "a job is overdue strictly after the threshold": [
        (4, "saf 99", [(0, 100, 100, 4), (1, 90, 90, 4), (50, 10, 10, 4)], [0, 110, 100]),
        (4, "saf 98", [(0, 100, 100, 4), (1, 90, 90, 4), (50, 10, 10, 4)], [0, 100, 190]),
    ],
    "overdue jobs go by age among themselves": [
        (4, "saf 60", [(0, 100, 100, 4), (1, 90, 90, 4), (2, 10, 10, 4), (50, 1, 1, 4)], [0, 100, 190, 200]),
    ],
    "a job of no length frees its processor for a second pass at the same date": [
        (1, "fcfs", [(0, 0, 10, 1), (0, 5, 10, 1)], [0, 0]),
    ],
    # at 10 the waits are 9 and 8 s and both walltimes 5 s: log2(max(1, 2)) = log2(2), so the older goes first,
    # whichever of them has one processor
    "unicef counts one processor as two": [
        (2, "unicef", [(0, 10, 10, 2), (1, 5, 5, 2), (2, 5, 5, 1)], [0, 10, 15]),
        (2, "unicef", [(0, 10, 10, 2), (1, 5, 5, 1), (2, 5, 5, 2)], [0, 10, 15]),
    ],
    # at 10: (9 + 30) / 30 = 1.3 and (2 + 10) / 10 = 1.2; at 100: 99 / 30 + 1 = 4.3 and 92 / 10 + 1 = 10.2
    "sexp and lexp change the order of waiting jobs": [
        (1, "sexp", [(0, 10, 10, 1), (1, 30, 30, 1), (8, 10, 10, 1)], [0, 20, 10]),
        (1, "sexp", [(0, 100, 100, 1), (1, 30, 30, 1), (8, 10, 10, 1)], [0, 100, 130]),
        (1, "lexp", [(0, 10, 10, 1), (1, 30, 30, 1), (8, 10, 10, 1)], [0, 10, 40]),
        (1, "lexp", [(0, 100, 100, 1), (1, 30, 30, 1), (8, 10, 10, 1)], [0, 110, 100]),
    ],
}


@pytest.mark.parametrize("claim", CASES)
def test_on_paper(claim):
    for size, order, rows, expected in CASES[claim]:
        policy, _, threshold = order.partition(" ")
        assert starts(size, rows, policy, threshold_s=float(threshold or "inf")) == expected


def test_ties_go_by_submission_and_then_by_id_as_a_string():
    rows = [(0, 10, 10, 1), (1, 10, 10, 1), (1, 10, 10, 1)]
    schedule = replay_jobs(table(rows, ids=["1", "9", "10"]), 1, Rules(policy_named("spf")))
    assert dict(zip(schedule.jobs.ids, schedule.start_s, strict=True)) == {"1": 0, "10": 10, "9": 20}


def test_the_backfill_order_decides_who_is_tried_first_and_knows_no_overdue_jobs():
    # one processor is free until the head's shadow time; two jobs would fit it
    spf = policy_named("spf")
    for runtime, found in ((99, [0, 100, 110, 2]), (98, [0, 100, 2, 110])):  # 2 + 99 > 100
        rows = [(0, 100, 100, 2), (1, 10, 10, 3), (2, runtime, runtime, 1), (2, 20, 20, 1)]
        assert starts(3, rows) == found
        assert starts(3, rows, backfill=spf) == [0, 100, 110, 2]
    # at 21 the first one-processor job is overdue and the second is shorter: `same` goes by age, spf does not
    rows = [(0, 100, 100, 2), (0, 10, 10, 3), (1, 60, 60, 1), (1, 20, 20, 1)]
    assert starts(3, rows, threshold_s=0.0) == [0, 100, 1, 61]
    assert starts(3, rows, threshold_s=0.0, backfill=spf) == [0, 100, 21, 1]


def test_jobs_wider_than_the_machine_are_rejected_and_block_nobody():
    schedule = replay_jobs(table([(0, 10, 10, 5), (0, 10, 10, 4)]), 4, Rules(FCFS))
    assert schedule.rejected.tolist() == [True, False]
    assert np.isnan(schedule.start_s[0])
    assert schedule.start_s[1] == 0


def test_a_job_is_ended_at_its_walltime():
    schedule = replay_jobs(table([(0, 50, 20, 1), (0, 20, 20, 1), (0, 19, 20, 1)]), 3, Rules(FCFS))
    assert schedule.end_s.tolist() == [20, 20, 19]
    assert schedule.killed.tolist() == [True, True, False]


# Small jobs


@pytest.mark.parametrize(("rules", "found"), [({"divider_s": 10.0}, [0, 20, 10]), ({}, [0, 10, 20])])
def test_small_jobs_go_first_and_a_class_without_a_divider_means_nothing(rules, found):
    assert starts(1, [(0, 10, 10, 1, LARGE), (1, 10, 10, 1, LARGE), (2, 10, 10, 1, SMALL)], **rules) == found


def test_a_small_job_is_killed_at_the_divider_and_runs_again_as_a_large_one_from_the_beginning():
    rows = [(0, 30, 40, 1, SMALL), (1, 10, 10, 1, SMALL), (2, 10, 10, 1, LARGE)]
    schedule = replay_jobs(table(rows), 1, Rules(FCFS, divider_s=20.0))
    # killed at 20, it comes behind the small job, and before the younger large one: its wait counts from 0
    assert schedule.kills.tolist() == [(0, 0.0, 20.0, 0, 20.0)]
    assert schedule.start_s.tolist() == [30, 20, 60]
    assert schedule.requeued.tolist() == [True, False, False]
    assert schedule.end_s.tolist() == [60, 30, 70]


def test_a_small_job_of_exactly_the_divider_or_with_a_walltime_before_it_ends_for_good():
    for runtime, walltime, divider_s in ((20, 40, 20.0), (50, 20, 30.0)):
        schedule = replay_jobs(table([(0, runtime, walltime, 1, SMALL)]), 1, Rules(FCFS, divider_s=divider_s))
        assert schedule.end_s.tolist() == [20]
        assert not schedule.requeued.any()


def test_a_killed_job_is_overdue_from_its_first_submission():
    # saf; killed at 20 it has waited for more than 15 s since 0, and so comes before the smaller job of 10
    rows = [(0, 30, 40, 1, SMALL), (10, 1, 1, 1, LARGE)]
    assert starts(1, rows, "saf", divider_s=20.0) == [21, 20]
    assert starts(1, rows, "saf", divider_s=20.0, threshold_s=15.0) == [20, 50]
