"""Replays that stop where an agent decides, beside a plain simulation whose decisions are taken by the same rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features_oracle import features
from oracle import Oracle, free_at
from strategies import random_table, table

pytest.importorskip("gymnasium", reason="needs the extra rl")

from batfill_lab.env import SchedulingEnv

SIZE = 16


def whim(now_s, row):
    """A number that looks random, the same for the agent and the oracle."""
    return (int(now_s) * 7919 + row * 104729) % 1009


class Agent(Oracle):
    """An oracle that decides by whims, as an agent does that sees `visible` jobs once a scored job has come."""

    kind, visible, warm = "pick", 4, 0

    def easy_pass(self, t):
        came = len(self.jobs) - len(self.coming)
        if came <= self.warm:
            super().easy_pass(t)
        elif self.kind == "backfill":
            self.backfill_by_whim(t)
        else:
            self.pick_by_whim(t)

    def in_base_order(self, t):
        return sorted(self.waiting, key=self.sort_rule(t))

    def pick_by_whim(self, t):
        while self.waiting and self.free:
            job = min(self.in_base_order(t)[: self.visible], key=lambda job: whim(t, job.seq))
            if job.q > self.free:
                self.backfill_behind(t, job)
                return
            self.begin(t, job)

    def backfill_behind(self, t, head):
        for job in self.in_base_order(t):
            if job is not head and self.may_go(t, job, head):
                self.begin(t, job, backfilled=True)

    def may_go(self, t, job, head):
        """Whether the head can start when it could without this job."""
        held, shadow = self.held(t), self.shadow(t, head)
        return job.q <= self.free and free_at(shadow, self.size, [*held, (t + job.whole_expected, job.q)]) >= head.q

    def backfill_by_whim(self, t):
        for job in self.in_base_order(t):
            if job.q > self.free:
                break
            self.begin(t, job)
        while self.waiting and self.free:
            head, *rest = self.in_base_order(t)
            may = [job for job in rest[: self.visible - 1] if self.may_go(t, job, head)]
            if not may:
                self.backfill_behind(t, head)
                return
            job = min(may, key=lambda job: whim(t, job.seq))
            if whim(t, job.seq) > 800:
                return
            self.begin(t, job, backfilled=True)


def made(jobs, *, kind="pick", visible=4, base="fcfs", warm=0):
    """An environment whose one episode is all jobs, begun."""
    log = jobs.stating(name="made", size=SIZE)
    env = SchedulingEnv(log, action=kind, visible=visible, base=base, warm=warm, jobs=len(jobs) - warm)
    env.first = 0
    env.begin()
    return env


def goes_on(env):
    return env.episode["seen"][0] > 0


def by_whim(env):
    """The agent's action."""
    seen, mask = int(env.episode["seen"][0]), env.sight.mask
    whims = np.array([whim(env.replay.now_s, row) for row in env.sight.rows[:seen].tolist()])
    allowed = np.where(mask[:seen] != 0, whims, 10_000)
    place = int(np.argmin(allowed))
    return len(mask) - 1 if env.backfills and allowed[place] > 800 else place


def agent(jobs, kind, *, visible, base, warm):
    simulation = Agent(jobs, SIZE, base)
    simulation.kind, simulation.visible, simulation.warm = kind, visible, warm
    return np.array([job.start for job in simulation.run().jobs])


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["pick", "backfill"])
@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    visible=st.integers(2, 12),
    base=st.sampled_from(["fcfs", "saf", "lcfs"]),
    warm=st.sampled_from([0, 0, 9]),
)
def test_an_agent_gets_the_starts_that_a_plain_simulation_gives_it(kind, seed, visible, base, warm):
    jobs = random_table(seed, n_jobs=40, size=SIZE, span_s=150, wide=0.0, unlimited=0.0)
    env = made(jobs, kind=kind, visible=visible, base=base, warm=warm)
    while goes_on(env):
        env.advance(by_whim(env), acts=True)
    started = env.replay.start_s
    expected = agent(jobs, kind, visible=visible, base=base, warm=warm)
    scored = np.isfinite(started)  # the episode ends when all scored jobs have started
    assert scored[warm:].all()
    assert np.array_equal(started[scored], expected[scored])


@pytest.mark.compiled
def test_a_decision_is_offered_only_where_it_matters():
    env = made(random_table(3, n_jobs=200, size=SIZE, span_s=800, wide=0.0, unlimited=0.0), visible=200)
    seen = 0
    while goes_on(env):
        rows = env.sight.rows[: env.episode["seen"][0]]
        procs, free = env.replay.queue.jobs["procs"][rows], env.replay.queue.free
        assert len(rows) > 1
        assert procs.min() <= free < procs.sum()
        seen += 1
        env.advance(0, acts=True)
    assert seen > 20
    assert env.episode["decisions"][0] == seen


def test_a_backfilled_job_takes_processors_that_the_head_leaves_from_the_next():
    """Two jobs wait behind a head that leaves two processors: one needs two of them, the other one."""
    jobs = table([(0, 100, 100, SIZE - 3), (1, 9, 9, SIZE - 2), (1, 500, 500, 2), (1, 500, 500, 1)])
    env = made(jobs, kind="backfill")
    assert env.sight.mask.tolist() == [0, 1, 1, 0, 1]
    env.advance(1, acts=True)
    assert not goes_on(env)
    assert env.replay.start_s.tolist() == [0, 100, 1, 109]


@pytest.mark.parametrize("kind", ["pick", "backfill"])
@pytest.mark.parametrize("action", [-1, 3, 99])
def test_an_action_that_names_nothing_counts_as_the_default(kind, action):
    jobs = random_table(7, n_jobs=60, size=SIZE, span_s=200, wide=0.0, unlimited=0.0)
    env, other = made(jobs, kind=kind, visible=3), made(jobs, kind=kind, visible=3)
    default = 0 if kind == "pick" else 3
    while goes_on(env):
        env.advance(action, acts=True)
        other.advance(default, acts=True)
    assert np.array_equal(env.replay.start_s, other.replay.start_s)
    decisions, invalid = env.episode["decisions"][0], env.episode["invalid"][0]
    assert decisions > 0
    assert invalid == (0 if action == default else decisions)


def seen_plainly(env, rows):
    """The features of these waiting jobs, the visible ones, and of the cluster."""
    jobs, now_s = env.replay.queue.jobs, env.replay.now_s
    running = jobs[np.isfinite(jobs["start_s"]) & (jobs["start_s"] + env.replay.events.duration_s > now_s)]
    ends = [(float(job["start_s"] + job["expected_s"]), int(job["procs"])) for job in running]
    free, first = SIZE - sum(q for _, q in ends), jobs[rows[0]]
    dates_s = (now_s, *(end_s for end_s, _ in ends))
    shadow_s = min(at_s for at_s in dates_s if free_at(at_s, SIZE, ends) >= first["procs"])
    extra, seen = free_at(shadow_s, SIZE, ends) - int(first["procs"]), []
    for row in rows:
        job = jobs[row]
        q, end_s = int(job["procs"]), float(now_s + job["expected_s"])
        safe = q <= free and (row == rows[0] or end_s <= shadow_s or q <= extra)
        seen.append((job["submit_s"], job["expected_s"], q, safe))
    waiting, visible = len(env.replay.queue.waiting_rows), len(env.sight.rows)
    return features(now_s, SIZE, free, ends, seen, waiting, visible, shadow_s, extra)


@pytest.mark.parametrize(("seed", "visible", "unit_s"), [(9, 6, 1.0), (3, 40, 600.0), (4, 40, 60.0)])
def test_an_observation_shows_the_waiting_jobs_and_zeros_beyond_them(seed, visible, unit_s):
    jobs = random_table(seed, n_jobs=80, size=SIZE, span_s=700 * unit_s, wide=0.0, unlimited=0.0, unit_s=unit_s)
    env = made(jobs, visible=visible)
    sight = env.sight
    while goes_on(env):
        seen = int(env.episode["seen"][0])
        assert sight.mask.tolist() == [1] * seen + [0] * (visible - seen)
        rows = sight.rows[:seen]
        assert np.isnan(env.replay.start_s[rows]).all()
        of_jobs, of_cluster = seen_plainly(env, rows)
        np.testing.assert_allclose(sight.jobs[:seen], of_jobs, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(sight.cluster, of_cluster, rtol=1e-5, atol=1e-6)
        assert (sight.jobs[seen:] == 0).all()
        env.advance(by_whim(env), acts=True)
    assert (sight.jobs == 0).all()
    assert sight.mask.tolist() == [1] + [0] * (visible - 1)


def test_jobs_that_started_without_a_decision_cannot_be_chosen_at_the_next():
    together = [(0, 10, 10, 1)] * 5
    env = made(table([*together, (100, 50, 50, SIZE), (101, 20, 20, 10), (101, 20, 20, 10)]), visible=8)
    assert env.sight.mask.tolist() == [1, 1] + [0] * 6
    env.advance(4, acts=True)
    assert env.episode["invalid"][0] == 1
    assert env.replay.start_s.tolist() == [0.0] * 5 + [100.0, 150.0, 170.0]
