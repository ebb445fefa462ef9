"""Several dividers in a row: from each level a job goes to the next when it is killed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.kernels import PLAIN
from batfill.batsim_files.replayed import Tries
from batfill.model.jobs import SMALL
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from oracle import Oracle, assert_same
from strategies import classify_both, classify_like, random_table, table, workloads
from sweeps import examples, sweep

FCFS = policy_named("fcfs")
DIVIDER = 6.0
N_JOBS = 90 if PLAIN else 150


def test_a_job_that_ends_at_its_second_divider_by_itself_or_by_its_walltime_is_complete():
    for runtime, walltime in ((20, 90), (50, 20)):
        schedule = replay_jobs(table([(0, runtime, walltime, 1, SMALL)]), 1, Rules(FCFS, divider_s=10.0))
        assert schedule.kills[["row", "start_s", "ran_s"]].tolist() == [(0, 0.0, 10.0)]
        assert schedule.start_s.tolist() == [10]


def test_overdue_jobs_go_before_those_of_every_level():
    # Killed at 10 job 0 has waited for longer than 5 s, and so has job 1; job 0 is older.
    jobs = table([(0, 50, 90, 1, SMALL), (1, 9, 9, 1, SMALL)])
    schedule = replay_jobs(jobs, 1, Rules(FCFS, divider_s=10.0, threshold_s=5.0))
    assert schedule.kills[["row", "start_s", "ran_s"]].tolist() == [(0, 0.0, 10.0)]
    assert schedule.start_s.tolist() == [10, 60]


# Beside the oracle


def classified(jobs, size, policy, *, divider, seed, bound=False, **options):
    """A replay and an oracle whose jobs have random levels, some of them not to be killed."""
    run = EngineReplay(jobs, size, Rules(policy_named(policy), **options), learns=True)
    beside = Oracle(jobs, size, policy, divider_s=divider, bound=bound, **options)
    classify_both(run, beside, np.random.default_rng(seed))
    return run, beside


@pytest.mark.parametrize(
    *sweep(
        2,
        policy=[
            "fcfs",
            "spf",
            *(pytest.param(name, marks=pytest.mark.compiled) for name in ("lqf", "wfp3", "lexp", "aged:90,0.5,0.5")),
        ],
        spares=[False, True],
        half=[False, True],
        bound=[False, True],
    )
)
def test_jobs_of_all_levels_start_and_are_killed_as_the_oracle_says(policy, spares, half, bound):
    rules = {"divider": DIVIDER, "bound": bound, "half": half, "spares": spares}
    for seed, threshold_s in enumerate([math.inf, 30.0, 300.0]):
        jobs = random_table(seed, n_jobs=N_JOBS, size=10, span_s=2 * N_JOBS)
        run, beside = classified(jobs, 10, policy, seed=seed, threshold_s=threshold_s, **rules)
        run.advance()
        assert_same(run.schedule(), beside.run())
        assert len(run.schedule().kills)


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


def test_what_makes_a_job_due_is_its_wait_a_backlog_or_processors_kept_idle_for_it():
    """On four processors; the first job takes three of them until 100 s, and tries run for 10 s."""
    head = [(0, 100, 100, 3), (1, 50, 50, 4), (2, 20, 20, 1, SMALL), (95, 50, 50, 1, SMALL)]
    rules = Rules(FCFS, divider_s=10.0, spares=True, bound=True)
    assert replay_jobs(table(head), 4, rules).start_s.tolist() == [0, 105, 2, 155]
    assert replay_jobs(table(head), 4, replace(rules, stand_back=9.0)).start_s.tolist() == [0, 100, 2, 150]
    # Eight processors are requested from 3 s on, more than 1.9 machines have.
    backlog = [(0, 20, 20, 4), (1, 50, 50, 4), (2, 5, 50, 3, SMALL), (3, 5, 50, 1, SMALL)]
    assert replay_jobs(table(backlog), 4, rules).start_s.tolist() == [0, 25, 20, 20]
    assert replay_jobs(table(backlog), 4, replace(rules, stand_back=1.9)).start_s.tolist() == [0, 20, 70, 70]
    assert replay_jobs(table(backlog), 4, replace(rules, stand_back=2.0)).start_s.tolist() == [0, 25, 20, 20]
    # Who is overdue at 20 s starts for good; otherwise it would be killed at 30 s, and be first again.
    late = [(0, 20, 20, 4), (1, 50, 50, 4, SMALL), (2, 5, 50, 4, SMALL)]
    rules = replace(rules, threshold_s=18.0)
    assert replay_jobs(table(late), 4, rules).start_s.tolist() == [0, 30, 80]
    assert replay_jobs(table(late), 4, replace(rules, stand_back=9.0)).start_s.tolist() == [0, 20, 70]
    # Of two that arrive together the first goes first at 4 s, also where a pass would start neither.
    both = [(0, 4, 4, 2), (0, 6, 12, 3), (3, 4, 12, 5), (3, 2, 2, 3), (4, 4, 24, 2, SMALL)]
    rules = Rules(FCFS, divider_s=10.0, spares=True, tested=1)
    assert replay_jobs(table(both), 6, rules).start_s.tolist() == [0, 0, 8, 12, 4]
    assert replay_jobs(table(both), 6, replace(rules, stand_back=9.0)).start_s.tolist() == [0, 0, 6, 10, 10]


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


def test_a_restarted_replay_of_levels_has_the_same_bytes():
    jobs = random_table(5, n_jobs=300, size=8, span_s=300, small=0.7)
    run = EngineReplay(jobs, 8, Rules(FCFS, divider_s=DIVIDER))
    run.advance(200.0)
    run.restart(Rules(policy_named("spf")))
    run.advance()
    fresh = replay_jobs(jobs, 8, Rules(policy_named("spf"), divider_s=DIVIDER))
    assert len(fresh.kills) > 50
    for name in ("start_s", "backfilled", "kills", "order"):
        assert getattr(run.schedule(), name).tobytes() == getattr(fresh, name).tobytes()
