"""A replay stopped, looked into, changed and begun again, beside an oracle that is treated alike."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batfill.base.kernels import PLAIN
from batfill.model.policy import Policy, policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from oracle import Oracle, assert_same, oracle
from strategies import random_table

SIZE = 12
N_JOBS = 200 if PLAIN else 400  # the oracle's time grows with the square
JOBS = random_table(6, n_jobs=N_JOBS, size=SIZE, span_s=700 * N_JOBS // 400, small=0.3)
CASE = {"threshold_s": 50.0, "divider_s": 10.0}


def new_replay(policy="wfp3", **case):
    return EngineReplay(JOBS, SIZE, Rules(policy_named(policy), **case or CASE))


def test_every_instant_can_be_looked_at():
    run, beside = new_replay(), Oracle(JOBS, SIZE, "wfp3", **CASE)
    done, instants = False, 0
    while not done:
        due = run.next_s
        done = run.step()
        beside.run(until=run.now_s)
        assert run.now_s == due
        assert run.queue.waiting_rows.tolist() == sorted(job.seq for job in beside.waiting)
        assert sorted(run.queue.running_rows.tolist()) == sorted(job.seq for job in beside.running)
        assert run.queue.free == beside.free
        instants += 1
    assert instants > len(JOBS)
    assert run.next_s == math.inf
    assert_same(run.schedule(), beside)


@pytest.mark.parametrize(
    "changed",
    [
        ("unicef", "spf"),
        *(
            pytest.param(rules, marks=pytest.mark.compiled)
            for rules in (("fcfs", None), ("saf", "lexp"), ("mixed:1,0,0,-2,0,0", None))
        ),
    ],
)
@pytest.mark.parametrize(
    "threshold_s", [80.0, *(pytest.param(threshold, marks=pytest.mark.compiled) for threshold in (math.inf, 0.0))]
)
def test_new_rules_hold_from_the_next_decision_on(changed, threshold_s):
    policy, backfill = changed
    run, beside = new_replay("lqf"), Oracle(JOBS, SIZE, "lqf", **CASE)
    run.advance(500.0)
    beside.run(until=500.0)
    assert len(run.queue.waiting_rows) > 50
    run.queue.change_rules(
        Rules(policy_named(policy), backfill=policy_named(backfill) if backfill else None, threshold_s=threshold_s)
    )
    beside.policy, beside.backfill, beside.threshold_s = policy, backfill, threshold_s
    run.advance()
    assert_same(run.schedule(), beside.run())


ORDERS = ["wfp3", *(pytest.param(name, marks=pytest.mark.compiled) for name in ("fcfs", "saf"))]


def guesses(seed):
    """Guesses that are right, too long, too short, and without end."""
    rng = np.random.default_rng(seed)
    guess = np.maximum(JOBS.runtime_s + rng.integers(-8, 9, len(JOBS)), 1.0)
    return np.where(rng.random(len(JOBS)) < 0.03, math.inf, guess)


@pytest.mark.parametrize("policy", ORDERS)
def test_predictions_stand_for_walltimes_in_keys_and_reservations(policy):
    guess = guesses(1)
    run = EngineReplay(JOBS, SIZE, Rules(policy_named(policy), threshold_s=90.0), expected_s=guess)
    run.advance()
    assert_same(run.schedule(), oracle(JOBS, SIZE, policy, threshold_s=90.0, expected_s=guess))


@pytest.mark.parametrize("policy", ORDERS)
def test_new_predictions_hold_for_waiting_and_running_jobs(policy):
    run, beside = new_replay(policy), Oracle(JOBS, SIZE, policy, **CASE)
    for turn in range(1, 6):
        run.advance(turn * 150.0)
        beside.run(until=turn * 150.0)
        guess = guesses(turn)
        run.queue.change_expected(guess)
        for job in beside.jobs:
            job.whole_expected = float(guess[job.seq])
    run.advance()
    assert_same(run.schedule(), beside.run())


def test_a_small_job_exempt_from_the_kill_goes_first_all_the_same():
    run, beside = new_replay("saf"), Oracle(JOBS, SIZE, "saf", **CASE)
    for job in beside.jobs:
        if job.small and job.seq % 3:
            job.exempt = True
            run.queue.classify(job.seq, True, killable=False, expected_s=job.whole_expected)
    run.advance()
    assert_same(run.schedule(), beside.run())
    assert 0 < run.schedule().requeued.sum() < sum(job.exempt for job in beside.jobs)


def test_a_restarted_replay_is_a_new_one():
    run = new_replay("lqf")
    run.advance(600.0)
    run.restart(Rules(policy_named("saf"), backfill=policy_named("spf"), threshold_s=70.0))
    run.advance()
    assert_same(run.schedule(), oracle(JOBS, SIZE, "saf", backfill="spf", threshold_s=70.0, divider_s=10.0))


def test_an_order_may_read_another_run_time_than_reservations_do():
    jobs = random_table(7, n_jobs=300, size=SIZE, span_s=900)
    read_s = np.random.default_rng(7).integers(1, 60, len(jobs)).astype(float)
    run = EngineReplay(jobs, SIZE, Rules(policy_named("saf")), learns=True)
    for row, expected_s in enumerate(jobs.walltime_s.tolist()):
        run.queue.classify(row, False, killable=False, expected_s=expected_s, key_request_s=read_s[row])
    run.advance()
    built_in = Policy("saf of these", lambda r, p, q: read_s * q)
    assert run.schedule().start_s.tobytes() == replay_jobs(jobs, SIZE, Rules(built_in)).start_s.tobytes()
