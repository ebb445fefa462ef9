"""Tries of jobs that are classified while the replay runs, dividers and orders that change, and what always holds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.kernels import PLAIN
from batfill.batsim_files.replayed import Tries
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from oracle import Oracle, assert_same
from strategies import classify_both, classify_like, random_table, workloads
from sweeps import examples, sweep

FCFS = policy_named("fcfs")
DIVIDER = 6.0
N_JOBS = 90 if PLAIN else 150


def classified(jobs, size, policy, *, divider, seed, bound=False, **options):
    """A replay and an oracle whose jobs have random levels, some of them not to be killed."""
    run = EngineReplay(jobs, size, Rules(policy_named(policy), **options), learns=True)
    beside = Oracle(jobs, size, policy, divider_s=divider, bound=bound, **options)
    classify_both(run, beside, np.random.default_rng(seed))
    return run, beside


@pytest.mark.parametrize("policy", ["saf", pytest.param("wfp3", marks=pytest.mark.compiled)])
def test_dividers_that_change_hold_for_the_tries_that_start_from_then_on(policy):
    for seed in range(2 if PLAIN else 6):
        jobs = random_table(seed, n_jobs=150, size=8, span_s=300)
        run, beside = classified(jobs, 8, policy, divider=DIVIDER, seed=seed, bound=seed % 2 == 1)
        for at_s, divider in ((50.5, 3.0), (150.5, 9.0), (400.5, 2.0)):
            run.advance(at_s)
            run.queue.change_divider(divider, bound=seed % 2 == 1)
            beside.run(until=at_s).divider_s = divider
            classify_like(run, beside.coming)
        run.advance()
        assert_same(run.schedule(), beside.run())


@pytest.mark.parametrize(("first", "then"), [("wfp3", "fcfs"), ("aged:90,0.5,0.5", "saf"), ("saf", "wfp3")])
def test_an_order_that_changes_decides_on_the_tries_at_their_dividers_from_then_on(first, then):
    for seed in range(2 if PLAIN else 12):
        jobs = random_table(seed, n_jobs=150, size=8, span_s=300)
        run, beside = classified(jobs, 8, first, divider=DIVIDER, seed=seed, bound=True, spares=True)
        for at_s, policy in ((80.5, then), (250.5, first), (500.5, then)):
            run.advance(at_s)
            run.queue.change_rules(replace(run.queue.rules, policy=policy_named(policy)))
            beside.run(until=at_s).policy = policy
        run.advance()
        assert_same(run.schedule(), beside.run())


# Where tries stand back

AGED = pytest.param("aged:90,0.5,0", marks=pytest.mark.compiled)


@pytest.mark.parametrize(
    *sweep(2, policy=["fcfs", "spf", AGED], half=[False, True], stand_back=[0.5, 4.0, 1e6], more=[{}, {"depth": 2}])
)
def test_tries_stand_back_as_the_oracle_says(policy, half, stand_back, more):
    rules = {"half": half, "stand_back": stand_back, "divider_s": DIVIDER, "spares": True, "bound": True, **more}
    tried = 0
    for seed, threshold_s in enumerate([math.inf, 30.0, 300.0]):
        jobs = random_table(seed, n_jobs=N_JOBS, size=10, span_s=(1 + seed) * N_JOBS, small=0.7)
        run = replay_jobs(jobs, 10, Rules(policy_named(policy), threshold_s=threshold_s, **rules))
        assert_same(run, Oracle(jobs, 10, policy, threshold_s=threshold_s, **rules).run())
        tried += len(run.kills)
    assert tried or stand_back < 1


# Invariants


@settings(max_examples=examples(40), deadline=None)
@given(workloads(max_jobs=30), st.sampled_from(["fcfs", "saf", "wfp3"]), st.booleans(), st.integers(0, 99))
def test_at_each_instant_the_machine_holds_its_jobs_and_nobody_waits_who_could_start(workload, policy, bound, seed):
    jobs, size = workload
    jobs = replace(jobs, walltime_s=np.minimum(jobs.walltime_s, 40.0))
    run, _ = classified(jobs, size, policy, divider=2.0, seed=seed, bound=bound)
    done = False
    while not done:
        started = len(run.tries)
        done = run.step()
        now_s, busy, waiting = run.now_s, run.queue.running_rows, run.queue.waiting_rows
        free = size - int(jobs.procs[busy].sum())
        assert free == run.queue.free >= 0
        if done or not len(waiting):
            continue
        key = run.queue.jobs["key"] if policy != "wfp3" else wfp3_keys(run)
        order = sorted(waiting.tolist(), key=lambda row: (not run.queue.jobs["small"][row], float(key[row]), row))
        need = int(jobs.procs[order[0]])
        assert need > free
        promised_s = run.start_s[busy] + run.queue.jobs["expected_s"][busy]
        shadow_s, extra = shadow(promised_s, jobs.procs[busy], free, need)
        for row in order[1:]:
            procs = int(jobs.procs[row])
            assert procs > free or (now_s + run.queue.jobs["expected_s"][row] > shadow_s and procs > extra)
        new = run.tries[started:]
        if not np.isin(new["row"], busy).all():
            continue  # what ran for no time at all was promised longer when others were backfilled beside it
        late = np.isin(busy, new["row"][new["backfilled"] == 1])
        kept, _ = shadow(promised_s[~late], jobs.procs[busy][~late], free + int(jobs.procs[busy][late].sum()), need)
        assert shadow_s <= kept  # backfilling has not pushed the head back


def wfp3_keys(run):
    wait_s = run.now_s - run.table.submit_s
    return -((wait_s / np.minimum(run.table.walltime_s, 1e12)) ** 3) * run.table.procs


def shadow(promised_s, procs, free, need):
    """When `need` processors are free, and how many more are then."""
    promised_s = np.minimum(promised_s, np.finfo(float).max)
    there = {t: free + int(procs[promised_s <= t].sum()) for t in promised_s.tolist()}
    return min((t, n - need) for t, n in there.items() if n >= need)


@settings(max_examples=examples(40), deadline=None)
@given(workloads(max_jobs=30), st.integers(0, 99))
def test_every_job_runs_whole_once_and_is_killed_at_ascending_levels_before(workload, seed):
    jobs, size = workload
    run, _ = classified(jobs, size, "spf", divider=2.0, seed=seed)
    exempt = (run.queue.jobs["killable"] == 0).tolist()
    run.advance()
    schedule = run.schedule()
    assert not np.isnan(schedule.start_s[~schedule.rejected]).any()
    tries = Tries(schedule)
    assert (tries.killed == (tries.number < np.bincount(schedule.kills["row"], minlength=len(jobs))[tries.row])).all()
    for row in range(len(jobs)):
        of_job = schedule.kills[schedule.kills["row"] == row]
        assert len(of_job) <= 1
        assert (of_job["ran_s"] < schedule.runtime_s[row]).all()
        assert not (exempt[row] and len(of_job))
