"""Copies that stop where an agent decides, beside a plain simulation whose decisions are taken by the same rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill import engine
from batfill.env.easy import EasyCopies
from batfill.model.jobs import Workload
from batfill.model.policy import aged, mixed, policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from oracle import Oracle, free_at
from strategies import random_table, table

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
        first = self.in_base_order(t)[: self.visible]
        while self.waiting and self.free:
            seen = first if self.kind == "priorities" else self.in_base_order(t)[: self.visible]
            if not seen:
                super().easy_pass(t)
                return
            job = min(seen, key=lambda job: whim(t, job.seq))
            if job.q > self.free:
                self.backfill_behind(t, job)
                return
            first = [other for other in first if other is not job]
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


def copies_of(jobs, *, kind="pick", copies=1, visible=4, base="fcfs", warm=0, every=2, threads=1, length=None):
    length = len(jobs) if length is None else length
    return EasyCopies(
        Workload("made", jobs, SIZE),
        copies=copies,
        action=kind,
        visible=visible,
        base=policy_named(base),
        jobs=length - warm,
        warm=warm,
        every=every,
        threads=threads,
    )


def begin(copies, firsts):
    """Begin an episode in every copy; returns the jobs started before the first decisions."""
    n = len(firsts)
    width = max(copies.seen.mask.shape[1], 6)
    tasks = np.full(n, engine.BEGINS, np.uint8)
    return copies.step(np.zeros(n, np.int64), np.zeros((n, width)), tasks, np.asarray(firsts, np.int64))


def act(copies, actions=None, values=None):
    n = len(copies.seen.done)
    values = np.zeros((n, 6)) if values is None else np.array(values, np.float64)
    actions = np.zeros(n, np.int64) if actions is None else np.asarray(actions, np.int64)
    tasks = np.where(copies.seen.done, engine.RESTS, engine.ACTS).astype(np.uint8)
    return copies.step(actions, values, tasks, np.zeros(n, np.int64))


def by_whim(copies, i, kind):
    """The action or priorities of copy i's agent."""
    queue, seen = copies.copies.queue.all, int(copies.copies.state["seen"][i, 0])
    now_s = copies.copies.events.all.clock["now_s"][i, 0]
    whims = np.array([whim(now_s, row) for row in queue.picks.rows[i, :seen].tolist()])
    mask = copies.seen.mask[i]
    if kind == "priorities":
        return -whims.astype(float)
    allowed = np.where(mask[:seen] != 0, whims, 10_000)
    place = int(np.argmin(allowed))
    return len(mask) - 1 if kind == "backfill" and allowed[place] > 800 else place


def played(copies, kind, first=0):
    """The start times of one copy's episode under whims."""
    begin(copies, [first])
    while not copies.seen.done[0]:
        choice = by_whim(copies, 0, kind)
        if kind == "priorities":
            values = np.zeros((1, copies.seen.mask.shape[1]))
            values[0, : len(choice)] = choice
            act(copies, values=values)
        else:
            act(copies, [choice])
    return copies.copies.queue.all.jobs["start_s"][0].copy()


def agent(jobs, kind, *, visible, base, warm):
    simulation = Agent(jobs, SIZE, base)
    simulation.kind, simulation.visible, simulation.warm = kind, visible, warm
    return np.array([job.start for job in simulation.run().jobs])


@pytest.mark.parametrize("kind", ["pick", "backfill", "priorities"])
@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    visible=st.integers(2, 12),
    base=st.sampled_from(["fcfs", "saf", "lcfs"]),
    warm=st.sampled_from([0, 0, 9]),
)
def test_an_agent_gets_the_starts_that_a_plain_simulation_gives_it(kind, seed, visible, base, warm):
    jobs = random_table(seed, n_jobs=40, size=SIZE, span_s=150, wide=0.0, unlimited=0.0)
    started = played(copies_of(jobs, kind=kind, visible=visible, base=base, warm=warm), kind)
    expected = agent(jobs, kind, visible=visible, base=base, warm=warm)
    scored = np.isfinite(started)  # the episode ends when all scored jobs have started
    assert scored[warm:].all()
    assert np.array_equal(started[scored], expected[scored])


@pytest.mark.parametrize(
    ("kind", "weights", "policy"),
    [
        ("mixed", (0.1, 0.2, -0.3, 0.1, -0.25, 0.05), mixed((0.1, 0.2, -0.3, 0.1, -0.25, 0.05))),
        ("mixed", (0, 1, 0, 0, 0, 0), policy_named("spf")),
        ("aged", (100, 0.5, 1.5), aged(100, 0.5, 1.5)),
    ],
)
@pytest.mark.parametrize(("every", "span_s", "least"), [(1, 60, 15), (7, 60, 3), (1, 2000, 2)])
def test_constant_weights_are_the_order_that_they_describe(kind, weights, policy, every, span_s, least):
    jobs = random_table(8, n_jobs=60, size=SIZE, span_s=span_s, wide=0.0, unlimited=0.0)
    copies = copies_of(jobs, kind=kind, every=every)
    begin(copies, [0])
    decisions = 0
    while not copies.seen.done[0]:
        act(copies, values=[weights])
        decisions += 1
    assert decisions >= least
    assert np.array_equal(copies.copies.queue.all.jobs["start_s"][0], replay_jobs(jobs, SIZE, Rules(policy)).start_s)


def test_weights_that_change_apply_from_their_decision_on():
    jobs = random_table(8, n_jobs=60, size=SIZE, span_s=300, wide=0.0, unlimited=0.0)
    copies = copies_of(jobs, kind="mixed", every=5, warm=10)
    begin(copies, [0])
    spf, lpf = np.array([[0.0, 1, 0, 0, 0, 0]]), np.array([[0.0, -1, 0, 0, 0, 0]])
    act(copies, values=spf)
    at_s = copies.copies.events.all.clock["now_s"][0, 0]
    while not copies.seen.done[0]:
        act(copies, values=lpf)
    started = copies.copies.queue.all.jobs["start_s"][0]
    expected = replay_jobs(jobs, SIZE, Rules(policy_named("fcfs"))).start_s
    first_s = jobs.submit_s[10]
    assert np.array_equal(started[expected < first_s], expected[expected < first_s])
    assert (started > at_s).any()
    assert not np.array_equal(started, replay_jobs(jobs, SIZE, Rules(policy_named("lpf"))).start_s)


def test_an_episode_begins_anew_where_jobs_of_the_last_one_still_wait():
    jobs = random_table(11, n_jobs=60, size=SIZE, span_s=60, wide=0.0, unlimited=0.0)
    copies = copies_of(jobs, length=30, warm=15, visible=30)

    def leaves_old_jobs(first):
        begin(copies, [first])
        while not copies.seen.done[0]:
            procs = copies.seen.jobs[0, :, list(engine.FEATURES_OF_JOB).index("wait")]
            act(copies, [int(np.argmin(np.where(copies.seen.mask[0], procs, np.inf)))])
        return copies.copies.queue.all.jobs["start_s"][0].copy()

    once = leaves_old_jobs(10)
    assert np.isnan(once).any()  # jobs before the scored ones
    leaves_old_jobs(20)
    assert np.array_equal(leaves_old_jobs(10), once, equal_nan=True)


def test_a_decision_is_offered_only_where_it_matters():
    jobs = random_table(3, n_jobs=200, size=SIZE, span_s=800, wide=0.0, unlimited=0.0)
    copies = copies_of(jobs, visible=200)
    begin(copies, [0])
    seen = 0
    while not copies.seen.done[0]:
        queue = copies.copies.queue.all
        rows = queue.picks.rows[0, : copies.copies.state["seen"][0, 0]]
        procs, free = queue.jobs["procs"][0, rows], queue.state["free"][0, 0]
        assert len(rows) > 1
        assert procs.min() <= free < procs.sum()
        seen += 1
        act(copies, [0])
    assert seen > 20
    assert copies.counts(np.zeros(1, np.intp))[0].tolist() == [seen]


def test_jobs_that_no_priority_was_given_for_are_decided_in_the_base_order():
    """Both visible jobs start; of the other two the first is the head, and the second is backfilled."""
    small = (1, 5, 5, 2)
    jobs = table([(0, 10, 10, SIZE), small, small, (1, 5, 5, SIZE - 2), small])
    copies = copies_of(jobs, kind="priorities", visible=2)
    begin(copies, [0])
    act(copies, values=np.array([[0.0, 1.0]]))
    assert copies.seen.done[0]
    assert copies.copies.queue.all.jobs["start_s"][0].tolist() == [0, 10, 10, 15, 10]


def test_a_backfilled_job_takes_processors_that_the_head_leaves_from_the_next():
    """Two jobs wait behind a head that leaves two processors: one needs two of them, the other one."""
    jobs = table([(0, 100, 100, SIZE - 3), (1, 9, 9, SIZE - 2), (1, 500, 500, 2), (1, 500, 500, 1)])
    copies = copies_of(jobs, kind="backfill")
    begin(copies, [0])
    assert copies.seen.mask[0].tolist() == [0, 1, 1, 0, 1]
    act(copies, [1])
    assert copies.seen.done[0]
    assert copies.copies.queue.all.jobs["start_s"][0].tolist() == [0, 100, 1, 109]


@pytest.mark.parametrize("kind", ["pick", "backfill"])
@pytest.mark.parametrize("action", [-1, 3, 99])
def test_an_action_that_names_nothing_counts_as_the_default(kind, action):
    jobs = random_table(7, n_jobs=60, size=SIZE, span_s=200, wide=0.0, unlimited=0.0)
    copies, other = copies_of(jobs, kind=kind, visible=3), copies_of(jobs, kind=kind, visible=3)
    default = 0 if kind == "pick" else 3
    valid = kind == "backfill" and action == 3
    for each in (copies, other):
        begin(each, [0])
    while not copies.seen.done[0]:
        act(copies, [action])
        act(other, [default])
    assert np.array_equal(copies.copies.queue.all.jobs["start_s"], other.copies.queue.all.jobs["start_s"])
    decisions, invalid = (counted.item() for counted in copies.counts(np.zeros(1, np.intp)))
    assert invalid == (0 if valid else decisions) > -1


@pytest.mark.parametrize(("seed", "visible"), [(9, 6), (3, 40), (4, 40)])
def test_an_observation_shows_the_waiting_jobs_and_zeros_beyond_them(seed, visible):
    jobs = random_table(seed, n_jobs=80, size=SIZE, span_s=700, wide=0.0, unlimited=0.0)
    copies = copies_of(jobs, visible=visible)
    begin(copies, [0])
    share = list(engine.FEATURES_OF_JOB).index("share")
    while not copies.seen.done[0]:
        seen = int(copies.copies.state["seen"][0, 0])
        assert copies.seen.mask[0].tolist() == [1] * seen + [0] * (visible - seen)
        shown, queue = copies.seen.jobs[0], copies.copies.queue.all
        rows = queue.picks.rows[0, :seen]
        assert np.isnan(queue.jobs["start_s"][0, rows]).all()
        assert (shown[seen:] == 0).all()
        assert shown[:seen, share] == pytest.approx(queue.jobs["procs"][0, rows] / SIZE)
        act(copies, [by_whim(copies, 0, "pick")])
    assert (copies.seen.jobs == 0).all()
    assert copies.seen.mask[0].tolist() == [1] + [0] * (visible - 1)


def test_jobs_that_started_without_a_decision_cannot_be_chosen_at_the_next():
    together = [(0, 10, 10, 1)] * 5
    jobs = table([*together, (100, 50, 50, SIZE), (101, 20, 20, 10), (101, 20, 20, 10)])
    copies = copies_of(jobs, visible=8)
    begin(copies, [0])
    assert copies.seen.mask[0].tolist() == [1, 1] + [0] * 6
    act(copies, [4])
    assert copies.counts(np.zeros(1, np.intp))[1].tolist() == [1]
    assert copies.copies.queue.all.jobs["start_s"][0].tolist() == [0.0] * 5 + [100.0, 150.0, 170.0]
