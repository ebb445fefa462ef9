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
from batfill.replays.engine_replay import replay_jobs
from batfill.replays.queue import Queue
from from_python import from_python
from strategies import table

reservation = from_python(engine_running.reservation)


def running(size, *jobs):
    """The running jobs of (expected end, processors), started at 0, on a machine of `size` processors."""
    queue = Queue(size, Rules(policy_named("fcfs")))
    for row, (end_s, procs) in enumerate(jobs):
        assert queue.submit(str(row), 0.0, float(end_s), procs) == row
        assert queue.decide(0.0).tolist() == [row]
    return queue


def starts(size, rows, policy="fcfs", **options):
    """Start of each (submit, run time, walltime, processors[, class]) row."""
    return replay_jobs(table(rows), size, Rules(policy_named(policy), **options)).start_s.tolist()


# The reservation


def test_the_shadow_time_is_the_first_expected_end_at_which_the_head_fits():
    # 10 processors, 2 free; 4 more at 100, 3 more at 200, 1 more at 300
    jobs = running(10, (300, 1), (100, 4), (200, 3))
    assert reservation(5, jobs.arrays) == (100.0, 1)
    assert reservation(6, jobs.arrays) == (100.0, 0)
    assert reservation(7, jobs.arrays) == (200.0, 2)
    assert reservation(10, jobs.arrays) == (300.0, 0)


def test_all_ends_at_exactly_the_shadow_time_count():
    # 4 and 4 processors until 100: a head of 6 starts then with 2 + 8 - 6 = 4 to spare
    assert reservation(6, running(10, (100, 4), (100, 4)).arrays) == (100.0, 4)
    assert reservation(6, running(10, (100, 4), (100.001, 4)).arrays) == (100.0, 0)


def test_a_reservation_behind_jobs_without_walltime_is_never_and_yet_before_their_like():
    shadow_s, extra = reservation(3, running(4, (10, 1), (math.inf, 3)).arrays)
    assert (shadow_s, extra) == (NEVER_S, 1)
    assert shadow_s < math.inf


def test_a_head_that_fits_at_no_time_holds_back_no_job_with_a_walltime():
    # as when machines are away: 2 processors are free or will be, the head needs 3
    assert reservation(3, running(2, (10, 1)).arrays) == (NEVER_S, 0)


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_an_ended_job_gives_its_processors_back_and_leaves_the_others_in_order(gone):
    jobs = running(10, (100, 4), (100, 3), (200, 2))
    procs = [4, 3, 2]
    jobs.finish(gone)
    del procs[gone]
    assert jobs.free == 10 - sum(procs)
    assert jobs.jobs["procs"][jobs.running_rows].tolist() == procs


# The pass: who starts when. Rows are (submit, run time, walltime, processors[, class]).


def test_a_job_that_ends_at_exactly_the_shadow_time_is_backfilled():
    # the second job waits for all 4 processors until 100; at 40 a third may take one of the two free ones until 100 ...
    assert starts(4, [(0, 100, 100, 2), (10, 10, 10, 4), (40, 60, 60, 1)]) == [0, 100, 40]
    # ... but not until 101
    assert starts(4, [(0, 100, 100, 2), (10, 10, 10, 4), (40, 61, 61, 1)]) == [0, 100, 110]


def test_a_long_job_is_backfilled_on_extra_processors_only():
    # at 100 the head takes 3 of 5 processors: 2 are extra, for the third and the fourth job, and none for the fifth
    rows = [(0, 100, 100, 3), (1, 10, 10, 3), (2, 500, 500, 1), (3, 500, 500, 1), (4, 500, 500, 1)]
    assert starts(5, rows) == [0, 100, 2, 3, 110]


def test_two_ends_at_the_shadow_time_make_extra_processors():
    # 8 of 10 processors are given back at 100, the head needs 6: the long job of 2 does not delay it
    rows = [(0, 100, 100, 4), (0, 100, 100, 4), (1, 10, 10, 6), (2, 999, 999, 2)]
    assert starts(10, rows) == [0, 0, 100, 2]


def test_the_reservation_counts_jobs_started_ahead_of_it_in_the_same_pass():
    # at 10 the second job starts until 60; the third then waits for it, and the fourth fits before that
    rows = [(0, 10, 10, 4), (1, 50, 50, 2), (2, 5, 5, 4), (3, 50, 50, 1), (4, 51, 51, 1)]
    assert starts(4, rows) == [0, 10, 60, 10, 65]


def test_the_reservation_is_made_anew_when_a_job_ends_early():
    # promised for 100, the head starts at 20, when the first job really ends
    assert starts(4, [(0, 20, 100, 4), (1, 10, 10, 4)]) == [0, 20]


def test_nothing_is_kept_from_one_pass_to_the_next():
    # saf: at 5 a smaller job becomes the head, and the one that had the reservation goes behind it
    rows = [(0, 100, 100, 4), (1, 50, 50, 4), (5, 10, 10, 4)]
    assert starts(4, rows, "saf") == [0, 110, 100]


def test_a_job_without_walltime_is_never_backfilled_in_time_but_on_extra_processors():
    rows = [(0, 100, 100, 2), (1, 10, 10, 3), (2, 5, None, 1), (3, 5, None, 1)]
    # of 4 processors the head leaves 1 extra
    assert starts(4, rows) == [0, 100, 2, 7]
    # of 3 it leaves none
    assert starts(3, rows) == [0, 100, 110, 110]


def test_behind_a_job_without_walltime_every_job_with_one_is_backfilled_and_none_without():
    rows = [(0, 100, None, 2), (1, 10, 10, 3), (2, 50_000, 50_000, 1), (3, 1, None, 1)]
    assert starts(3, rows) == [0, 50_002, 2, 50_012]


def test_a_job_is_overdue_strictly_after_the_threshold():
    # saf; at 100 the wide old job has waited for 99 s and comes first only if the threshold is less
    rows = [(0, 100, 100, 4), (1, 90, 90, 4), (50, 10, 10, 4)]
    assert starts(4, rows, "saf", threshold_s=99.0) == [0, 110, 100]
    assert starts(4, rows, "saf", threshold_s=98.0) == [0, 100, 190]


def test_overdue_jobs_go_by_age_among_themselves():
    rows = [(0, 100, 100, 4), (1, 90, 90, 4), (2, 10, 10, 4), (50, 1, 1, 4)]
    assert starts(4, rows, "saf", threshold_s=60.0) == [0, 100, 190, 200]


def test_ties_go_by_submission_and_then_by_id_as_a_string():
    rows = [(0, 10, 10, 1), (1, 10, 10, 1), (1, 10, 10, 1)]
    schedule = replay_jobs(table(rows, ids=["1", "9", "10"]), 1, Rules(policy_named("spf")))
    assert dict(zip(schedule.jobs.ids, schedule.start_s, strict=True)) == {"1": 0, "10": 10, "9": 20}


def test_the_backfill_order_decides_who_is_tried_first():
    # one processor is free until the head's shadow time; two jobs would fit it
    rows = [(0, 100, 100, 2), (1, 10, 10, 3), (2, 99, 99, 1), (2, 20, 20, 1)]
    jobs, fcfs = table(rows), policy_named("fcfs")
    assert replay_jobs(jobs, 3, Rules(fcfs)).start_s.tolist() == [0, 100, 110, 2]  # 2 + 99 > 100
    rows[2] = (2, 98, 98, 1)
    jobs = table(rows)
    assert replay_jobs(jobs, 3, Rules(fcfs)).start_s.tolist() == [0, 100, 2, 110]
    assert replay_jobs(jobs, 3, Rules(fcfs, backfill=policy_named("spf"))).start_s.tolist() == [0, 100, 110, 2]


def test_a_backfill_order_of_its_own_knows_no_overdue_jobs():
    # at 21 the first one-processor job is overdue and the second is shorter: `same` goes by age, spf does not
    rows = [(0, 100, 100, 2), (0, 10, 10, 3), (1, 60, 60, 1), (1, 20, 20, 1)]
    jobs, fcfs = table(rows), policy_named("fcfs")
    assert replay_jobs(jobs, 3, Rules(fcfs, threshold_s=0.0)).start_s.tolist() == [0, 100, 1, 61]
    assert replay_jobs(jobs, 3, Rules(fcfs, threshold_s=0.0, backfill=policy_named("spf"))).start_s.tolist() == [
        0,
        100,
        21,
        1,
    ]


def test_jobs_wider_than_the_machine_are_rejected_and_block_nobody():
    schedule = replay_jobs(table([(0, 10, 10, 5), (0, 10, 10, 4)]), 4, Rules(policy_named("fcfs")))
    assert schedule.rejected.tolist() == [True, False]
    assert np.isnan(schedule.start_s[0])
    assert schedule.start_s[1] == 0


def test_a_job_is_ended_at_its_walltime():
    schedule = replay_jobs(table([(0, 50, 20, 1), (0, 20, 20, 1), (0, 19, 20, 1)]), 3, Rules(policy_named("fcfs")))
    assert schedule.end_s.tolist() == [20, 20, 19]
    assert schedule.killed.tolist() == [True, True, False]


def test_a_job_of_no_length_frees_its_processor_for_a_second_pass_at_the_same_date():
    assert starts(1, [(0, 0, 10, 1), (0, 5, 10, 1)]) == [0, 0]


# Small jobs


def test_small_jobs_go_first():
    rows = [(0, 10, 10, 1, LARGE), (1, 10, 10, 1, LARGE), (2, 10, 10, 1, SMALL)]
    assert starts(1, rows, divider_s=10.0) == [0, 20, 10]


def test_a_class_without_a_divider_means_nothing():
    rows = [(0, 10, 10, 1, LARGE), (1, 10, 10, 1, LARGE), (2, 10, 10, 1, SMALL)]
    assert starts(1, rows) == [0, 10, 20]


def test_a_small_job_is_killed_at_the_divider_and_runs_again_as_a_large_one_from_the_beginning():
    rows = [(0, 30, 40, 1, SMALL), (1, 10, 10, 1, SMALL), (2, 10, 10, 1, LARGE)]
    schedule = replay_jobs(table(rows), 1, Rules(policy_named("fcfs"), divider_s=20.0))
    # killed at 20, it comes behind the small job, and before the younger large one: its wait counts from 0
    assert schedule.kills.tolist() == [(0, 0.0, 20.0, 0, 20.0)]
    assert schedule.start_s.tolist() == [30, 20, 60]
    assert schedule.requeued.tolist() == [True, False, False]
    assert schedule.end_s.tolist() == [60, 30, 70]


def test_a_small_job_of_exactly_the_divider_is_complete():
    rows = [(0, 20, 40, 1, SMALL), (1, 10, 10, 1, LARGE)]
    schedule = replay_jobs(table(rows), 1, Rules(policy_named("fcfs"), divider_s=20.0))
    assert schedule.start_s.tolist() == [0, 20]
    assert not schedule.requeued.any()


def test_a_walltime_before_the_divider_ends_the_job_for_good():
    schedule = replay_jobs(table([(0, 50, 20, 1, SMALL)]), 1, Rules(policy_named("fcfs"), divider_s=30.0))
    assert schedule.end_s.tolist() == [20]
    assert not schedule.requeued.any()


def test_a_killed_job_is_overdue_from_its_first_submission():
    # saf; killed at 20 it has waited for more than 15 s since 0, and so comes before the smaller job of 10
    rows = [(0, 30, 40, 1, SMALL), (10, 1, 1, 1, LARGE)]
    assert starts(1, rows, "saf", divider_s=20.0) == [21, 20]
    assert starts(1, rows, "saf", divider_s=20.0, threshold_s=15.0) == [20, 50]


# Policies that change the order while jobs wait


def test_unicef_counts_one_processor_as_two():
    # at 10 the waits are 9 and 8 s and both walltimes 5 s: log2(max(1, 2)) = log2(2), so the older goes first ...
    assert starts(2, [(0, 10, 10, 2), (1, 5, 5, 2), (2, 5, 5, 1)], "unicef") == [0, 10, 15]
    # ... whichever of them has one processor
    assert starts(2, [(0, 10, 10, 2), (1, 5, 5, 1), (2, 5, 5, 2)], "unicef") == [0, 10, 15]


def test_sexp_and_lexp_change_the_order_of_waiting_jobs():
    # at 10: (9 + 30) / 30 = 1.3 and (2 + 10) / 10 = 1.2; at 100: 99 / 30 + 1 = 4.3 and 92 / 10 + 1 = 10.2
    for busy, sexp in [(10, [0, 20, 10]), (100, [0, 100, 130])]:
        rows = [(0, busy, busy, 1), (1, 30, 30, 1), (8, 10, 10, 1)]
        assert starts(1, rows, "sexp") == sexp
    assert starts(1, [(0, 10, 10, 1), (1, 30, 30, 1), (8, 10, 10, 1)], "lexp") == [0, 10, 40]
    assert starts(1, [(0, 100, 100, 1), (1, 30, 30, 1), (8, 10, 10, 1)], "lexp") == [0, 110, 100]
