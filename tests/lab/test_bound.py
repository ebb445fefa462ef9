"""Lower bounds on the total wait: never above the best schedule, and what their definitions say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batfill.model.calendar import ANNOUNCED, Calendar, Window
from batfill.model.invariants import InternalError
from batfill.model.policy import POLICIES
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from batfill_lab import bound
from batfill_lab.bound import least_delay, served
from batfill_lab.certificate import certificate
from strategies import random_table, table


def jobs_of(seed, *, n_jobs=5, size=4, longest=5, last_s=6):
    rng = np.random.default_rng(seed)
    submit_s = np.sort(rng.integers(0, last_s + 1, n_jobs)).astype(float)
    return submit_s, rng.integers(0, longest + 1, n_jobs).astype(float), rng.integers(1, size + 1, n_jobs), size


def least_total_wait(submit_s, runtime_s, procs, size):
    """The least total wait of any schedule without breaks, by trying every start of every job in whole seconds."""
    jobs = [(int(r), int(p), int(q)) for r, p, q in zip(submit_s, runtime_s, procs, strict=True)]
    horizon = max(r for r, _, _ in jobs) + sum(p for _, p, _ in jobs) + 1
    best = math.inf

    def place(k, used, wait):
        nonlocal best
        if wait >= best:
            return
        if k == len(jobs):
            best = wait
            return
        r, p, q = jobs[k]
        for start in range(r, horizon):
            if all(used[t] + q <= size for t in range(start, start + p)):
                after = list(used)
                for t in range(start, start + p):
                    after[t] += q
                place(k + 1, after, wait + start - r)

    place(0, [0] * (2 * horizon), 0)
    return best


@pytest.mark.parametrize("seed", range(60))
def test_no_bound_is_above_the_best_of_all_schedules(seed):
    jobs = jobs_of(seed)
    best = least_total_wait(*jobs)
    for rounds in (1, 30):
        assert max(least_delay(*jobs, rounds=rounds)) <= best + 1e-9


def test_over_small_cases_the_bounds_reach_half_of_the_least_wait():
    found = [(max(0.0, *least_delay(*jobs)), least_total_wait(*jobs)) for jobs in map(jobs_of, range(40))]
    assert sum(least for least, _ in found) > 0.5 * sum(best for _, best in found)


def step_by_step(submit_s, ticks, by_remaining):
    """One machine, second by second, always at the job with the least ticks (left); each job's served seconds."""
    left, times, now = list(ticks), [[] for _ in ticks], 0
    while any(left):
        ready = [j for j, some in enumerate(left) if some and submit_s[j] <= now]
        if ready:
            job = min(ready, key=lambda j: (left if by_remaining else ticks)[j])
            left[job] -= 1
            times[job].append(now)
        now += 1
    return times


@pytest.mark.parametrize("by_remaining", [True, False])
def test_one_machine_serves_as_second_by_second(by_remaining):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        submit_s = np.sort(rng.integers(0, 60, 12)).astype(float)
        ticks = rng.permutation(np.arange(1, 13))  # all different: ties may be broken in any way
        service = served(submit_s, ticks.astype(float), by_remaining=by_remaining)
        times = step_by_step(submit_s, ticks.tolist(), by_remaining)
        assert sorted(service.end_s) == sorted(seconds[-1] + 1 for seconds in times)
        if not by_remaining:
            for job, seconds in enumerate(times):
                of_job = service.row == job
                middle = (service.from_s + service.to_s)[of_job] / 2
                mean = ((service.to_s - service.from_s)[of_job] * middle).sum() / ticks[job]
                assert mean == pytest.approx(np.mean(seconds) + 0.5)


def test_jobs_as_wide_as_the_machine_are_one_machine_whose_best_is_known():
    # Two jobs of the whole machine: 4 s at 0, 1 s at 1. Broken off, the second ends at 2 and the first at 5: one second
    # of delay. Without breaks the first ends at 4, the second waits 3 s. Or the machine waits, and the first ends at 6:
    # 2 s of wait, the best.
    jobs = np.array([0.0, 1.0]), np.array([4.0, 1.0]), np.array([8, 8]), 8
    assert least_total_wait(*jobs) == 2
    found = least_delay(*jobs, rounds=200)
    assert found.remaining_s == 1.0
    assert 1.0 < found.priced_s <= 2.0 + 1e-9


def test_without_release_dates_the_squashed_bound_is_eastmans():
    # Four equal jobs of 2 s on 1 of 2 processors: squashed, 1 s each, so M = 0.5, 1.5, 2.5, 3.5; plus half of p is 12.
    # Two at a time they end at 2, 2, 4, 4: 12 as well.
    jobs = np.zeros(4), np.full(4, 2.0), np.ones(4, np.int64), 2
    assert least_delay(*jobs).least_s == pytest.approx(12 - 8)
    assert least_total_wait(*jobs) == 4


def test_prices_are_integrated_and_the_least_is_found_as_by_brute_force():
    rng = np.random.default_rng(3)
    for _ in range(40):
        width_s, n_slots, n_jobs = 4.0, 9, 6
        prices = np.append(rng.integers(0, 6, n_slots - 1), 0).astype(float)
        submit_s, runtime_s = rng.integers(0, 30, n_jobs).astype(float), rng.integers(1, 20, n_jobs).astype(float)
        share = rng.integers(1, 9, n_jobs) / 8
        by_second = np.append(np.repeat(prices, 4), np.zeros(200))
        expected = 0.0
        for r, p, part in zip(submit_s.astype(int), runtime_s.astype(int), share, strict=True):
            expected += min(d + part * by_second[r + d : r + d + p].sum() for d in range(60))
        totals, change = np.append(0.0, np.cumsum(prices[:-1] * width_s)), np.zeros(n_slots + 1)
        total = bound.answer(submit_s, runtime_s, share, width_s, prices, totals, change)
        assert total == pytest.approx(expected)
        assert np.cumsum(change)[:-1].sum() == pytest.approx((share * runtime_s).sum())
        assert np.cumsum(change).min() > -1e-9


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.compiled) for seed in range(1, 6))])
def test_no_policy_beats_the_bound_and_kills_do_not_change_it(seed):
    jobs = random_table(seed, n_jobs=200, size=16, span_s=600, small=0.5, wide=0.0)
    runs = [
        replay_jobs(jobs, 16, Rules(policy))
        for name, policy in POLICIES.items()
        if name in ("fcfs", "spf", "saf", "sqf")
    ]
    runs.append(replay_jobs(jobs, 16, Rules(POLICIES["saf"], divider_s=5.0)))
    assert len(runs[-1].kills)
    bounds = {certificate(run, rounds=3).mean_wait_bound_s for run in runs}
    assert len(bounds) == 1
    for run in runs:
        found = certificate(run, rounds=3)
        assert 0 < found.mean_wait_bound_s <= run.summary().mean_wait_s
        least = found.mean_wait_bound_s + run.runtime_s.mean()
        assert found.turnaround_ratio == pytest.approx(run.summary().mean_turnaround_s / least)
        assert found.turnaround_ratio >= 1


def test_what_never_waits_is_certified_as_the_best():
    found = certificate(replay_jobs(table([(0, 5, 5, 1), (1, 5, 5, 1), (20, 0, 5, 2)]), 2, Rules(POLICIES["fcfs"])))
    assert (found.mean_wait_bound_s, found.turnaround_ratio) == (0.0, 1.0)


@pytest.mark.parametrize("jobs", [[], [(3, 0, 5, 1), (4, 0, 5, 2)]], ids=["no jobs", "jobs that take no time"])
def test_no_jobs_and_jobs_that_take_no_time_have_a_bound(jobs):
    found = certificate(replay_jobs(table(jobs), 2, Rules(POLICIES["fcfs"])))
    assert (found.mean_wait_bound_s, found.turnaround_ratio) == (0.0, 1.0)


def test_a_bound_above_the_mean_is_refused(monkeypatch):
    monkeypatch.setattr("batfill_lab.certificate.least_delay", lambda *_: (1e11,))
    with pytest.raises(InternalError, match=r"the lower bound is .*, above"):
        certificate(replay_jobs(random_table(3, n_jobs=50, size=8, span_s=100), 8, Rules(POLICIES["fcfs"])))


def test_the_lower_bound_counts_what_is_available():
    jobs, fcfs = table([(0, 10, 10, 4), (0, 10, 10, 4)]), POLICIES["fcfs"]
    schedule = replay_jobs(jobs, 4, Rules(fcfs, calendar=Calendar((Window(ANNOUNCED, 0.0, 100.0, 4),))))
    assert schedule.start_s.tolist() == [100, 110]
    assert certificate(schedule, rounds=100).mean_wait_bound_s > 80
    assert certificate(replay_jobs(jobs, 4, Rules(fcfs)), rounds=100).mean_wait_bound_s <= 5


def test_a_longer_search_gives_a_better_bound():
    jobs = random_table(2, n_jobs=150, size=16, span_s=300, wide=0.0)
    columns = jobs.submit_s, np.minimum(jobs.runtime_s, jobs.walltime_s), jobs.procs, 16
    assert least_delay(*columns, rounds=1).priced_s < least_delay(*columns, rounds=100).priced_s
