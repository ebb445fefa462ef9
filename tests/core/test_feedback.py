"""Replays whose users react: jobs that follow others are submitted when those have ended."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from batfill.base.errors import BatfillError
from batfill.live.agent import Agent
from batfill.model.calendar import Calendar
from batfill.model.feedback import NONE, Feedback, Follows, feedback_of
from batfill.model.invariants import InternalError
from batfill.model.jobs import Workload, job_table
from batfill.model.options import Options
from batfill.model.policy import POLICIES, Policy, policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay, follows_of, replay_jobs
from batfill.replays.replay import replay
from batfill.replays.session import Replay
from batfill.workloads import read_workload
from command import refusal
from oracle import Oracle, assert_same


def random_jobs(seed, n_jobs=60, size=8, *, zero=False):
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
    )


def random_follows(jobs, seed):
    """Two of three jobs follow one before them in the log, a few after no time at all."""
    rng = np.random.default_rng(seed)
    drawn = (int(rng.integers(0, k)) if rng.random() < 2 / 3 else NONE for k in range(1, len(jobs)))
    preceding = np.array([NONE, *drawn])
    return Follows(preceding, np.where(preceding >= 0, 10.0 * rng.integers(0, 12, len(jobs)), 0.0))


def expected(jobs, size, follows, policy, **options):
    """The slow closed replay."""
    rows = enumerate(zip(follows.preceding.tolist(), follows.think_s, strict=True))
    return Oracle(jobs, size, policy, follows={row: of for row, of in rows if of[0] >= 0}, **options).run()


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
    edges = [(k, i, jobs.submit_s[k] - ends[i]) for k, i in last.items() if i is not None]
    return [edge for edge in edges if edge[2] <= within_s]


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


def test_a_failure_is_no_end_of_the_job_that_it_kills():
    jobs = random_jobs(1)
    follows = random_follows(jobs, 1)
    rows = [{"kind": "failure", "begin": 300 + 400 * k, "end": 500 + 400 * k, "processors": 7} for k in range(6)]
    calendar = Calendar.of(rows)
    made = replay_jobs(jobs, 9, Rules(POLICIES["saf"], calendar=calendar), follows=follows)
    windows = [(row["begin"], row["end"], 7, row["begin"], True) for row in rows]
    assert_same(made, expected(jobs, 9, follows, "saf", windows=windows))
    assert any((follows.preceding == row).any() for row in made.kills["row"].tolist())


def table(*rows, **columns):
    """Jobs (r, p, q) with a request of 100 s, of one user."""
    r, p, q = zip(*rows, strict=True)
    n = len(rows)
    given = {"user": [1] * n, "waited_s": [0.0] * n, **columns}
    return job_table(submit_s=list(r), runtime_s=list(p), walltime_s=[100.0] * n, procs=list(q), **given)


def test_followers_wait_for_the_walltime_the_rejection_and_the_last_try():
    # Job 1 is killed at its walltime of 100 s, job 2 is wider than the machine, job 3 first has a try of 20 s.
    first, followers = [(0, 500, 1), (0, 50, 9), (0, 90, 1)], [(600, 1, 1), (601, 1, 1), (602, 1, 1)]
    jobs = table(*first, *followers, job_class=[None, None, "small", *3 * [None]])
    follows = Follows(np.array([NONE, NONE, NONE, 0, 1, 2]), np.array([0.0, 0, 0, 7, 8, 9]))
    made = replay_jobs(jobs, 1, Rules(POLICIES["fcfs"], divider_s=20), follows=follows)
    # Job 3 goes first and is killed at 20; job 1 runs from then until 120, and job 3 again until 210.
    assert made.submit_s.tolist() == [0, 0, 0, 127, 8, 219]
    assert made.start_s[[0, 2]].tolist() == [20, 120]


@pytest.mark.parametrize(
    "name", [*POLICIES, "aged:600,0.5,0", "aged:600,0,0", "mixed:1,0,-1,0,0,0", "mixed:0,0,0,0,1,1"]
)
def test_orders_that_say_so_do_not_read_the_submission(name):
    rng = np.random.default_rng(0)
    policy, (p, q) = policy_named(name), (rng.uniform(1, 1e5, 99), rng.integers(1, 64, 99))
    one, other = (policy.lines(r, p, q) for r in rng.uniform(0, 1e6, (2, 99)))
    reads = not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert bool(policy.dated) >= reads
    assert bool(policy.dated) == reads or name.startswith("mixed")
    assert Policy("mine", lambda r, p, q: p).dated


@pytest.mark.needs("pandas")
def test_a_closed_replay_stops_forks_and_is_saved_at_any_instant(tmp_path):
    jobs = random_jobs(5, 120)
    log = Workload("jobs", jobs, 8)
    given = {"policy": "f1", "threshold_s": 300, "feedback": "after:5min"}
    whole = replay(log, **given).schedule
    assert (whole.submit_s != jobs.submit_s).sum() > 20
    run = Replay(log, **given)
    while not run.ended:
        run.run(run.next_s)
        waiting = run.waiting
        assert (run.result().schedule.submit_s[np.isin(jobs.ids, waiting.ids)] <= run.now_s).all()
        if run.engine.queue.submitted == 60:
            break
    states = run.result().to_pandas().state
    assert (states == "not submitted").sum() == len(jobs) - 60
    run.save(tmp_path / "run.npz")
    assert Replay.load(tmp_path / "run.npz").run().result().schedule == whole
    assert run.fork().run().result().schedule == whole
    other = run.fork(policy="saf").run().result().schedule
    assert other != whole
    assert not np.isnan(other.start_s[~other.rejected]).any()


def test_what_breaks_the_order_of_submissions_is_found():
    jobs = random_jobs(2)
    run = EngineReplay(jobs, 8, Rules(POLICIES["fcfs"]), follows=random_follows(jobs, 2))
    run.advance()
    run.check(run.start_s)
    run.events.follows["think_s"] += run.events.follows["preceding"] < len(jobs)
    with pytest.raises(InternalError, match="is not submitted when the one it follows is over"):
        run.check(run.start_s)


def swf(*rows):
    """SWF text of rows (job, submit, wait, run time, preceding job, think time) on one processor, of user 1."""
    return "; MaxProcs: 4\n" + "".join(
        f"{job} {r} {w} {p} 1 -1 -1 1 100 -1 1 1 1 1 1 1 {before} {think}\n" for job, r, w, p, before, think in rows
    )


def test_the_fields_17_and_18_of_a_log_are_read(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(swf((1, 0, 0, 50, -1, -1), (2, 500, -1, 10, 1, 30), (3, 900, 5, 10, 2, -1)))
    jobs = read_workload(path).jobs
    assert np.array_equal(jobs.waited_s, [0, np.nan, 5], equal_nan=True)
    assert replay(path, "fcfs", feedback="log").schedule.submit_s.tolist() == [0, 80, 90]
    assert replay(path, "fcfs", feedback="after:20min").schedule.submit_s.tolist() == [0, 500, 900]


@pytest.mark.parametrize(
    ("rows", "feedback", "wrong"),
    [
        ([(1, 0, 0, 50, -1, -1)], "log", "no job names a preceding job"),
        ([(1, 0, 0, 50, 7, 5)], "log", "1 of 1 jobs follow one that is missing (first: job 1, which follows 7)"),
        ([(1, 0, 0, 5, 2, 5), (2, 0, 0, 5, 1, 5), (3, 0, 0, 5, 1, 5)], "log", "3 of 3 jobs wait for one another"),
        ([(1, 0, 0, 5, 1, 5)], "log", "wait for one another in a circle (first: job 1)"),
        ([(1, 0, -1, 50, -1, -1)], "sessions", "no job has a wait"),
    ],
)
def test_a_log_without_what_is_needed_gets_one_line(tmp_path, rows, feedback, wrong):
    path = tmp_path / "log.swf"
    path.write_text(swf(*rows))
    assert wrong in refusal("replay", path, "--feedback", feedback)


def test_a_log_without_users_and_values_that_mean_nothing_are_refused():
    with pytest.raises(BatfillError, match="no job has a user"):
        follows_of(Feedback("sessions"), replace(random_jobs(1), user=np.full(60, -1)), 8)
    for text in ("after", "after:x", "log:fcfs", "sessions:1h", "after:-1", ""):
        with pytest.raises(BatfillError, match="option feedback"):
            feedback_of("feedback", text)
    assert feedback_of("feedback", " AFTER:1h:FCFS ") == Feedback("after", 3600.0, "fcfs")


@pytest.mark.compiled
@pytest.mark.parametrize("options", [{"small": "forest"}, {"predict": "easy++"}, {"small": "all", "divider": "median"}])
def test_what_learns_and_live_schedulers_refuse_feedback(options):
    with pytest.raises(BatfillError, match="nothing can be learned"):
        Options.of({"feedback": "sessions", **options})
    with pytest.raises(BatfillError, match="jobs come here at their dates"):
        Agent({"policy": "fcfs", "feedback": "sessions"})


@pytest.mark.needs("pandas")
@pytest.mark.compiled
def test_a_result_states_the_feedback_and_what_it_moved():
    jobs = random_jobs(3, 200)
    result = replay(Workload("jobs", jobs, 8), "saf", feedback="after:1000")
    schedule, stated = result.schedule, json.loads(result.as_json())
    assert stated["options"]["feedback"] == "after:1000"
    assert stated["feedback"] == {
        "moved": int((schedule.submit_s != jobs.submit_s).sum()),
        "last_submit_s": schedule.submit_s.max(),
        "last_end_s": np.nanmax(schedule.end_s),
        "jobs_a_day": pytest.approx(int((~schedule.rejected).sum()) / (result.figures.makespan_s / 86_400)),
    }
    assert "mean_wait_bound_s" not in stated
    assert result.figures.mean_wait_s == np.nanmean(schedule.start_s - schedule.submit_s)
    frame = result.to_pandas()
    assert (frame.submit_s == schedule.submit_s).all()
    assert "feedback after:1000" in result.as_text()
    assert "lower bound" not in result.as_text()
