"""Replays whose users react: jobs that follow others are submitted when those have ended."""

import math

import numpy as np
import pytest

from batfill.model.feedback import NONE, Feedback, Follows, feedback_of
from batfill.model.jobs import job_table
from batfill.model.policy import POLICIES, policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import follows_of, replay_jobs
from oracle import Oracle, assert_same


def random_jobs(seed, n_jobs=60, size=8, *, zero=False, small=False):
    """Jobs of a few users full of ties, some wider than the machine; with `zero` some take no time."""
    rng = np.random.default_rng(seed)
    runtime_s = 10.0 * rng.integers(0 if zero else 1, 30, n_jobs)
    return job_table(
        ids=[f"{number:03}" for number in rng.permutation(n_jobs)],
        submit_s=10.0 * rng.integers(0, 6 * n_jobs, n_jobs),
        runtime_s=runtime_s,
        walltime_s=10.0 * rng.integers(1, 40, n_jobs),
        procs=rng.choice([1, 2, 3, 5, size, size + 1], n_jobs, p=[0.3, 0.2, 0.2, 0.15, 0.1, 0.05]),
        user=rng.integers(-1, 4, n_jobs),
        waited_s=np.where(rng.random(n_jobs) < 0.1, np.nan, 10.0 * rng.integers(0, 20, n_jobs)),
        job_class=np.where(rng.random(n_jobs) < 0.5, "small", "large") if small else None,
    )


def random_follows(jobs, seed):
    """Two of three jobs follow one before them in the log, a few after no time at all."""
    rng = np.random.default_rng(seed)
    preceding = np.array(
        [NONE] + [int(rng.integers(0, k)) if rng.random() < 2 / 3 else NONE for k in range(1, len(jobs))]
    )
    return Follows(preceding, np.where(preceding >= 0, 10.0 * rng.integers(0, 12, len(jobs)), 0.0))


def expected(jobs, size, follows, policy, **options):
    """The slow closed replay."""
    after = {
        row: (before, follows.think_s[row]) for row, before in enumerate(follows.preceding.tolist()) if before >= 0
    }
    return Oracle(jobs, size, policy, follows=after, **options).run()


@pytest.mark.parametrize("policy", [*POLICIES, "aged:600,0.5,0", "mixed:1,0,-1,0,0,0"])
@pytest.mark.parametrize("seed", range(3))
def test_a_closed_replay_is_the_slow_one(policy, seed):
    jobs = random_jobs(seed, zero=seed == 2)
    follows = random_follows(jobs, seed)
    made = replay_jobs(jobs, 8, Rules(policy_named(policy)), follows=follows)
    assert_same(made, expected(jobs, 8, follows, policy))


@pytest.mark.parametrize("seed", range(12))
def test_thresholds_tries_backfill_orders_and_reservations_read_the_date_in_the_replay(seed):
    jobs = random_jobs(seed, small=True)
    follows = random_follows(jobs, seed)
    policy, backfill = ("saf", "fcfs", "aged:600,0.5,0")[seed % 3], (None, "lcfs", "wfp3")[seed % 3]
    rules = Rules(
        policy_named(policy),
        policy_named(backfill) if backfill else None,
        threshold_s=200,
        half=seed % 2 == 0,
        divider_s=60,
        spares=seed % 4 > 1,
        bound=True,
        depth=1 + (seed % 5 == 4),
    )
    made = replay_jobs(jobs, 8, rules, follows=follows)
    slow = expected(
        jobs,
        8,
        follows,
        policy,
        backfill=backfill,
        threshold_s=200,
        half=rules.half,
        divider_s=60,
        spares=rules.spares,
        bound=True,
        depth=2 if rules.depth == 2 else None,
    )
    assert len(made.kills) > 0
    assert_same(made, slow)


@pytest.mark.parametrize("kind", ["after:20min", "after:3min", "after:10h", "sessions"])
@pytest.mark.parametrize("seed", range(8))
def test_the_closed_fcfs_replay_equals_the_open_one_with_the_dependencies_of_fcfs(kind, seed):
    jobs = random_jobs(seed, 200, zero=seed % 2 == 1)
    follows = follows_of(feedback_of("feedback", f"{kind}:fcfs"), jobs, 8)
    rules = Rules(POLICIES["fcfs"])
    closed, opened = replay_jobs(jobs, 8, rules, follows=follows), replay_jobs(jobs, 8, rules)
    assert (follows.preceding >= 0).sum() > 20
    assert np.array_equal(closed.submit_s, jobs.submit_s)
    assert np.array_equal(closed.start_s, opened.start_s, equal_nan=True)
    assert np.array_equal(closed.order, opened.order)


def slow_edges(jobs, ends, lengths, kind, within_s):
    """The definition, job by job."""

    def over(i, k):
        """Whether job i has ended, and is known to have, when job k is submitted."""
        if math.isnan(ends[i]) or jobs.user[i] != jobs.user[k] or jobs.user[k] < 0 or i == k:
            return False
        at_once = lengths[i] == 0 or ends[i] == jobs.submit_s[i]
        return ends[i] < jobs.submit_s[k] if at_once else ends[i] <= jobs.submit_s[k]

    rows = range(len(jobs))
    last = {}
    for k in rows:
        before = [i for i in rows if over(i, k)]
        if kind == "sessions":
            before = [i for i in range(k) if jobs.user[i] == jobs.user[k] >= 0 and not math.isnan(ends[i])]
            if not all(over(i, k) for i in before):  # the batch goes on
                last[k] = last[max(i for i in range(k) if jobs.user[i] == jobs.user[k])]
                continue
        last[k] = max(before, key=lambda i: (ends[i], lengths[i] == 0 or ends[i] == jobs.submit_s[i], i), default=None)
    return [
        (k, i, jobs.submit_s[k] - ends[i])
        for k, i in last.items()
        if i is not None and jobs.submit_s[k] - ends[i] <= within_s
    ]


@pytest.mark.parametrize("kind", ["after", "sessions"])
@pytest.mark.parametrize("seed", range(12))
def test_each_job_follows_what_the_definition_says(kind, seed):
    jobs = random_jobs(seed, 120, zero=seed % 2 == 1)
    ends = jobs.submit_s + jobs.waited_s + jobs.runtime_s
    found = Feedback(kind, 100.0).follows(jobs, "jobs", None)
    rows = np.flatnonzero(found.preceding >= 0)
    assert (found.think_s >= 0).all()
    edges = list(zip(rows.tolist(), found.preceding[rows].tolist(), found.think_s[rows].tolist(), strict=True))
    assert edges == slow_edges(jobs, ends, jobs.runtime_s, kind, 100.0)
    assert len(edges) > 5
