"""Tries of jobs that are classified while the replay runs, dividers and orders that change, and what always holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.kernels import PLAIN
from batfill.batsim_files.replayed import Tries
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay
from oracle import Oracle, assert_same
from strategies import classify_both, classify_like, random_table, workloads
from sweeps import examples

DIVIDER = 6.0


def classified(jobs, size, policy, *, divider, seed, bound=False, **options):
    """A replay and an oracle whose jobs have random levels, some of them not to be killed."""
    run = EngineReplay(jobs, size, Rules(policy_named(policy), **options), learns=True)
    beside = Oracle(jobs, size, policy, divider_s=divider, bound=bound, **options)
    classify_both(run, beside, np.random.default_rng(seed))
    return run, beside


@pytest.mark.parametrize("policy", ["saf", pytest.param("wfp3", marks=pytest.mark.compiled)])
def test_dividers_that_change_hold_for_the_tries_that_start_from_then_on(policy):
    for seed in range(2 if PLAIN else examples(3)):
        jobs = random_table(seed, n_jobs=150, size=8, span_s=300)
        run, beside = classified(jobs, 8, policy, divider=DIVIDER, seed=seed, bound=seed % 2 == 1)
        for at_s, divider in ((50.5, 3.0), (150.5, 9.0), (400.5, 2.0)):
            run.advance(at_s)
            run.queue.change_divider(divider, bound=seed % 2 == 1)
            beside.run(until=at_s).divider_s = divider
            classify_like(run, beside.coming)
        run.advance()
        assert_same(run.schedule(), beside.run())


@pytest.mark.compiled
@pytest.mark.parametrize(("first", "then"), [("wfp3", "fcfs"), ("aged:90,0.5,0.5", "saf"), ("saf", "wfp3")])
def test_an_order_that_changes_decides_on_the_tries_at_their_dividers_from_then_on(first, then):
    for seed in range(examples(4)):
        jobs = random_table(seed, n_jobs=150, size=8, span_s=300)
        run, beside = classified(jobs, 8, first, divider=DIVIDER, seed=seed, bound=True, spares=True)
        for at_s, policy in ((80.5, then), (250.5, first), (500.5, then)):
            run.advance(at_s)
            run.queue.change_rules(replace(run.queue.rules, policy=policy_named(policy)))
            beside.run(until=at_s).policy = policy
        run.advance()
        assert_same(run.schedule(), beside.run())


@pytest.mark.compiled
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
