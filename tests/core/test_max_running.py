"""A limit of running jobs per user: who is held, what is promised, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.errors import BatfillError
from batfill.model.options import Options
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.queue import Queue, users_by_number
from batfill.replays.engine_replay import EngineReplay
from batfill.replays.replay import replay
from batfill.replays.session import Replay
from strategies import random_table, table, workloads
from sweeps import examples

USERS = (-1, 3, 3, 7, 0)  # a user below 0 is unknown
limits = st.integers(1, 3)


def of_users(jobs, numbers):
    """The same jobs with these users."""
    return replace(jobs, user=np.array(list(numbers), np.int64))


@st.composite
def workloads_of_users(draw):
    """(job table, machine size), as `workloads` draws them."""
    jobs, size = draw(workloads())
    return of_users(jobs, [draw(st.sampled_from(USERS)) for _ in range(len(jobs))]), size


def test_jobs_submitted_one_by_one_are_counted_by_user_however_many_come():
    queue = Queue(4, Rules(policy_named("fcfs"), max_running=1), capacity=2)
    rows = [queue.submit(str(n), float(n), 9.0, 1, user=user) for n, user in enumerate((8, 8, -1, -1, 2))]
    assert queue.fork().decide(5.0).tolist() == queue.decide(5.0).tolist() == [rows[n] for n in (0, 2, 3, 4)]
    assert [queue.is_held(row) for row in rows] == [True, True, False, False, True]
    queue.finish(rows[0])
    assert queue.decide(6.0).tolist() == [rows[1]]
    assert not Queue(4, Rules(policy_named("fcfs"))).is_held(0)


def test_a_narrow_job_is_backfilled_once_enough_is_idle_although_a_decision_before_found_too_little():
    # Of 10 processors 4 and 2 are idle from 100 on, 2 from 10 on and 2 from 20 on; 10 and, behind them, 4 are wanted.
    rows = [(0, 100, 100, 4), (0, 100, 100, 2), (0, 10, 10, 2), (0, 20, 20, 2), (1, 9, 9, 10), (2, 5, 5, 4)]
    run = EngineReplay(of_users(table(rows), [3] * 6), 10, Rules(policy_named("fcfs"), max_running=9))
    run.advance()
    assert run.start_s.tolist() == [0, 0, 0, 0, 100, 20]


def test_users_are_numbered_from_one_and_unknown_ones_have_none():
    assert users_by_number(np.array([7, -5, 0, -1, 7])).tolist() == [2, 0, 1, 0, 2]


def test_a_limit_of_users_is_refused_where_no_job_has_one():
    workload = random_table(1, n_jobs=9, size=4, span_s=20).stating(name="made", size=4)
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
