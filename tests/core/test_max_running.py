"""A limit of running jobs per user: the engine against the oracle's count, properties, and cases drawn on paper."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_calendar import calendars

from batfill.base.errors import BatfillError
from batfill.model.jobs import Workload
from batfill.model.options import Options
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.queue import Queue, users_by_number
from batfill.replays.engine_replay import EngineReplay
from batfill.replays.replay import replay
from batfill.replays.session import Replay
from oracle import assert_same, oracle
from strategies import assert_goes_on, both, for_replay, in_units, options, outliving, random_table, table, workloads
from sweeps import examples

USERS = (-1, 3, 3, 7, 0)  # a user below 0 is unknown
limits = st.integers(1, 3)
depths = st.sampled_from((0, 1, 1, 2, math.inf))


def of_users(jobs, numbers):
    """The same jobs with these users."""
    return replace(jobs, user=np.array(list(numbers), np.int64))


@st.composite
def workloads_of_users(draw):
    """(job table, machine size), as `workloads` draws them."""
    jobs, size = draw(workloads())
    return of_users(jobs, [draw(st.sampled_from(USERS)) for _ in range(len(jobs))]), size


def most_at_once(schedule):
    """The most tries of each known user that ran at once, counted at each begin; tries of no length count there."""
    jobs, tries = (
        schedule.jobs,
        [
            (row, start_s, start_s + ran_s)
            for row, start_s, ran_s in schedule.kills[["row", "start_s", "ran_s"]].tolist()
        ],
    )
    ran = np.flatnonzero(~np.isnan(schedule.start_s))
    tries += zip(ran.tolist(), schedule.start_s[ran].tolist(), schedule.end_s[ran].tolist(), strict=True)
    found = {}
    for row, at_s, _ in tries:
        user = int(jobs.user[row])
        beside = [1 for other, start_s, end_s in tries if jobs.user[other] == user and start_s <= at_s < end_s]
        found[user] = max(found.get(user, 0), len(beside))
    return {user: n for user, n in found.items() if user >= 0}


@settings(deadline=None, max_examples=examples(120))
@given(workloads_of_users(), options, depths, limits)
def test_any_workload_under_any_options_and_limit_starts_what_the_oracle_starts(workload, case, depth, limit):
    schedule, expected = both(*workload, depth=depth, max_running=limit, **case)
    assert_same(schedule, expected)
    assert max(most_at_once(schedule).values(), default=0) <= limit


@settings(deadline=None, max_examples=examples(40))
@given(st.data(), workloads_of_users(), options, depths, limits, st.sampled_from([1, 2, 5]))
def test_windows_and_passes_that_test_few_jobs_skip_users_as_the_oracle_does(
    data, workload, case, depth, limit, tested
):
    jobs, size = workload
    case |= {"calendar": data.draw(calendars(size)), "tested": tested}
    assert_same(*both(jobs, size, depth=depth, max_running=limit, **case))


@settings(deadline=None, max_examples=examples(30))
@given(workloads_of_users(), options, depths, limits, st.sampled_from([1.0, 45.0, 700.0]))
def test_jobs_that_outlive_their_requests_count_until_they_end(workload, case, depth, limit, unit_s):
    jobs, size = workload
    case = in_units(case, unit_s)
    assert_same(*both(outliving(jobs, unit_s), size, depth=depth, max_running=limit, **case))


def drawn():
    """Five processors: 0 runs until 10 on two of them; 1, of user 1, needs all; 2 is too long; 3, of user 1, fits."""
    rows = [(0, 10, 10, 2), (1, 5, 5, 5), (2, 20, 20, 2), (3, 5, 5, 1), (4, 1, 1, 5)]
    return of_users(table(rows, ids=list("01234")), [-1, 1, 2, 1, -1])


@pytest.mark.parametrize(
    ("limit", "starts"),
    [
        # 3 is backfilled, and so its user is at the limit when 4 comes: 1 is skipped, and 2 starts in its place.
        (1, [0, 24, 4, 3, 29]),
        (2, [0, 10, 15, 3, 35]),
    ],
)
def test_a_start_behind_a_reservation_of_its_user_counts_at_once(limit, starts):
    schedule, expected = both(drawn(), 5, "fcfs", max_running=limit)
    assert_same(schedule, expected)
    assert schedule.start_s.tolist() == starts


def test_a_skipped_job_keeps_its_place_and_others_pass_without_counting_as_backfilled():
    rows = [(0, 10, 10, 1), (1, 10, 10, 1), (2, 10, 10, 1), (3, 10, 10, 2), (11, 1, 1, 2)]
    jobs = of_users(table(rows, ids=list("01234")), [5, 5, 5, 6, 7])
    schedule, expected = both(jobs, 3, "fcfs", max_running=1)
    assert_same(schedule, expected)
    assert schedule.start_s.tolist() == [0, 10, 20, 3, 13]
    assert not schedule.backfilled.any()


def test_an_end_counts_in_the_decision_of_its_instant_and_a_job_of_no_length_in_its_second():
    jobs = of_users(table([(0, 0, 5, 1), (0, 4, 5, 1), (0, 4, 5, 1)], ids=list("012")), [5, 5, 5])
    schedule, expected = both(jobs, 3, "fcfs", max_running=1)
    assert_same(schedule, expected)
    assert schedule.start_s.tolist() == [0, 0, 4]


@pytest.mark.parametrize("depth", [1, 2])
def test_a_replay_copied_or_saved_under_way_goes_on_as_the_oracle_does(depth, tmp_path):
    jobs = of_users(random_table(depth, n_jobs=80, size=6, span_s=200), np.arange(80) % 5 % 4 - 1)
    case = {"max_running": 2, "half": True, "threshold_s": 20.0, "depth": depth}
    run = EngineReplay(jobs, 6, Rules(policy_named("saf"), **for_replay(jobs, case)))
    assert_goes_on(run, 100.0, oracle(jobs, 6, "saf", **case))


def test_jobs_submitted_one_by_one_are_counted_by_user_however_many_come():
    queue = Queue(4, Rules(policy_named("fcfs"), max_running=1), capacity=2)
    rows = [queue.submit(str(n), float(n), 9.0, 1, user=user) for n, user in enumerate((8, 8, -1, -1, 2))]
    assert queue.fork().decide(5.0).tolist() == queue.decide(5.0).tolist() == [rows[n] for n in (0, 2, 3, 4)]
    assert [queue.is_held(row) for row in rows] == [True, True, False, False, True]
    queue.finish(rows[0])
    assert queue.decide(6.0).tolist() == [rows[1]]
    assert not Queue(4, Rules(policy_named("fcfs"))).is_held(0)


def test_users_are_numbered_from_one_and_unknown_ones_have_none():
    assert users_by_number(np.array([7, -5, 0, -1, 7])).tolist() == [2, 0, 1, 0, 2]


def test_a_limit_of_users_is_refused_where_no_job_has_one():
    workload = Workload("made", random_table(1, n_jobs=9, size=4, span_s=20), 4)
    for run in (replay, Replay):
        with pytest.raises(BatfillError, match="made: option max_running: no job has a user; leave it out"):
            run(workload, max_running=3)
    with pytest.raises(BatfillError, match=r"option max_running: 0 is neither .* nor none; try 40"):
        Options.of({"max-running": 0})


@settings(deadline=None, max_examples=examples(40))
@given(workloads_of_users(), limits)
def test_without_reservations_who_waits_does_not_fit_or_has_a_user_at_the_limit(workload, limit):
    jobs, size = workload
    run, over = EngineReplay(jobs, size, Rules(policy_named("saf"), depth=0, max_running=limit)), False
    while not over:
        over = run.step()
        running = jobs.user[run.queue.running_rows].tolist()
        for row in run.queue.waiting_rows.tolist():
            held = jobs.user[row] >= 0 and running.count(jobs.user[row]) == limit
            assert held == run.queue.is_held(row)
            assert held or jobs.procs[row] > run.queue.free


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_the_reservation_of_the_first_job_is_never_pushed_back(seed, limit):
    """In order of submission; wide jobs have users of their own, whom no limit holds back, and requests are exact."""
    jobs = random_table(seed, n_jobs=120, size=8, span_s=400, wide=0, unlimited=0)
    jobs = replace(jobs, walltime_s=np.maximum(jobs.runtime_s, jobs.walltime_s))
    jobs = of_users(jobs, np.where(jobs.procs > 3, 10 + np.arange(120), np.arange(120) % 3))
    run = EngineReplay(jobs, 8, Rules(policy_named("fcfs"), max_running=limit))
    promised, over, held = {}, False, 0
    while not over:
        over = run.step()
        waiting = run.queue.waiting_rows.tolist()
        held += sum(map(run.queue.is_held, waiting))
        if not waiting or jobs.procs[waiting[0]] <= 3:
            continue
        head, free = waiting[0], run.queue.free
        for end in run.queue.running:
            if free < jobs.procs[head]:
                free += int(end["procs"])
                date = max(float(end["end_s"]), run.now_s)
        promised[head] = min(promised.get(head, math.inf), date)
    assert held > 0
    assert len(promised) > 5
    assert all(run.start_s[row] <= date for row, date in promised.items())
