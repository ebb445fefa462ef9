"""Runs of the model that begin with jobs that run (R0), take other run times, and end with given starts."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from batfill_site.slurm.arrays import possible
from batfill_site.slurm.ensemble import clocks
from batfill_site.slurm.model import Model
from slurm_cases import random_case
from slurm_twin import Twin


def state_of(seed):
    """A random case with the jobs that run at a date of its run."""
    site, jobs, clock = random_case(seed)
    jobs, _ = possible(site, jobs)
    if not len(jobs):
        return None
    run = Model(site, jobs).run(clock)
    started = np.isfinite(run.start_s)
    if not started.any():
        return None
    begin_s = float(np.quantile(run.start_s[started], 0.6)) + 0.5
    places = [run.at[a:b] for a, b in zip(run.first, run.first[1:], strict=False)]
    ran_on = tuple(",".join(site.nodes[k].name for k in at) for at in places)
    running = started & (run.start_s <= begin_s) & (run.start_s + jobs.run_s > begin_s)
    ended = started & (run.start_s + jobs.run_s <= begin_s)
    seen = replace(jobs, started_s=np.where(started, run.start_s, np.nan), ran_on=ran_on)
    clock = clock._replace(first_decay_s=begin_s - 8)  # ticks before the start of a job that runs make no sense
    return site, seen.select(np.flatnonzero(~ended)), clock, running[~ended], begin_s


@pytest.mark.parametrize("seed", range(40))
def test_a_run_that_begins_with_jobs_on_their_nodes_is_that_of_the_twin(seed):
    state = state_of(seed)
    if state is None or not len(state[1]):
        return
    site, jobs, clock, running, begin_s = state
    mine, other = (each(site, jobs, running, begin_s).run(clock) for each in (Model, Twin))
    np.testing.assert_array_equal(mine.start_s, other.start_s)
    np.testing.assert_array_equal(mine.by, other.by)
    np.testing.assert_array_equal(mine.first, other.first)
    np.testing.assert_array_equal(mine.at, other.at)


@pytest.mark.parametrize("seed", range(8))
def test_run_times_may_be_others_and_a_run_ends_with_the_starts_that_are_asked_for(seed):
    site, jobs, clock = random_case(seed, 60)
    jobs, _ = possible(site, jobs)
    if not len(jobs):
        return
    shorter = np.ceil(jobs.run_s / 2)
    model = Model(site, jobs)
    whole = model.run(clock)
    other = model.run(clock, run_s=shorter)
    np.testing.assert_array_equal(other.start_s, Model(site, replace(jobs, run_s=shorter)).run(clock).start_s)
    asked = np.arange(len(jobs)) % 7 == 0
    part = model.run(clock, asked=asked)
    np.testing.assert_array_equal(part.start_s[asked], whole.start_s[asked])
    known = np.isfinite(part.start_s)
    np.testing.assert_array_equal(part.start_s[known], whole.start_s[known])
    assert part.cycles <= whole.cycles
    np.testing.assert_array_equal(model.run(clock).start_s, whole.start_s)


def test_runs_of_one_model_may_be_made_at_once():
    site, jobs, _ = random_case(3, 60)
    jobs, _ = possible(site, jobs)
    model, dates = Model(site, jobs), clocks(site, jobs, 20, 0)
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(lambda clock: model.run(clock).start_s, dates * 5))
    np.testing.assert_array_equal(at_once, [model.run(clock).start_s for clock in dates * 5])
