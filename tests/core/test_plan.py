"""Any number of reservations: recorded starts, cases that once were wrong, and a plan kept from pass to pass."""

from __future__ import annotations

import csv
import json
import lzma
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batfill as bf
from batfill.base.kernels import PLAIN
from batfill.engine.plan import FEW
from batfill.model.options import PRESETS, Options, plans_machines
from batfill.model.policy import policy_named
from batfill.model.rules import EVERY_JOB, Rules
from batfill.queue import Queue
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from batfill.workloads.batsim_json import read_batsim_json
from command import batfill
from oracle import assert_same, oracle
from small_runs import as_workload
from strategies import both, in_engine, random_table, table
from sweeps import COMPILED, examples

DATA = Path(__file__).parents[1] / "data" / "depth"
DEPTHS = (0, 2, 3, math.inf)


pytestmark = pytest.mark.usefixtures("small_blocks")


@pytest.mark.parametrize("seed", range(5))
def test_whether_a_kill_pays_is_asked_of_the_jobs_that_the_backfill_order_tests(seed):
    jobs = random_table(seed, n_jobs=30, size=6, span_s=20, longest=20, small=0.6)
    tries = {"divider_s": 3.0, "spares": True, "bound": True, "backfill": "spf"}
    assert_same(*both(jobs, 6, "fcfs", depth=1 + seed % 2, tested=3, **tries))


@pytest.mark.parametrize("depth", [*map(COMPILED, DEPTHS[:-1]), math.inf])
def test_predictions_of_no_time_and_those_that_are_outlived_are_planned_as_the_oracle_does(depth):
    for seed in (0, 1, 7) if PLAIN else range(12):  # in the last a noted job comes after a later date of its width
        jobs = random_table(seed, n_jobs=50, size=8, span_s=40, longest=20, wide=0.0)
        guess = np.minimum(np.random.default_rng(seed).choice([0.0, 3.0, 9.0], len(jobs)), jobs.walltime_s)
        run = EngineReplay(jobs, 8, Rules(policy_named("spf"), outlived=True, depth=in_engine(depth)), expected_s=guess)
        run.advance()
        assert_same(run.schedule(), oracle(jobs, 8, "spf", expected_s=guess, outlived=True, depth=depth))


@pytest.mark.compiled
@pytest.mark.parametrize("depth", [FEW, FEW + 1])
def test_from_so_many_reservations_on_those_far_away_are_noted_alone_and_change_no_start(depth):
    for seed, policy in enumerate(("fcfs", "lpf", "wfp3")):
        jobs = random_table(seed, n_jobs=90, size=8, span_s=40)
        assert_same(*both(jobs, 8, policy, depth=depth))


@pytest.mark.parametrize(("seed", "depth", "span_s"), [(1, 3, 60), (5, 3, 200), (38, 2, 200)])
def test_jobs_without_walltime_that_come_alone_are_judged_by_the_plan_as_the_oracle_does(seed, depth, span_s):
    jobs = random_table(seed, n_jobs=40, size=8, span_s=span_s, longest=30, wide=0.0, unlimited=0.3)
    assert_same(*both(jobs, 8, "fcfs", depth=depth))


def test_behind_the_head_of_a_queue_that_moves_nobody_may_start():
    jobs = table([(0, 10, 10, 3), (1, 5, 5, 4), (2, 100, 100, 1)])
    schedule, expected = both(jobs, 4, "wfp3", depth=2)
    assert_same(schedule, expected)
    assert schedule.start_s.tolist() == [0, 10, 15]


@pytest.mark.compiled
def test_the_starts_on_the_sample_are_those_of_an_independent_program():
    workload = read_batsim_json(Path(__file__).parents[2] / "workloads" / "sample.json")
    assert columns_off("sample", workload.jobs, workload.size) == dict.fromkeys(recorded("sample"), 0)


@pytest.mark.compiled
def test_the_starts_on_5000_jobs_of_kth_sp2_are_those_of_an_independent_program(archive_log, tmp_path):
    log, made = archive_log("KTH-SP2-1996-2.1-cln.swf.gz"), tmp_path / "kth.json"
    assert batfill("workload", "convert", log, "--overrun", "kill", "--jobs", "0:5000", "--out", made).status == 0
    workload = read_batsim_json(made)
    assert columns_off("kth", workload.jobs, workload.size) == dict.fromkeys(recorded("kth"), 0)


def recorded(name):
    """Each column of a recording but the ids: the starts by id."""
    with lzma.open(DATA / f"{name}.csv.xz", "rt") as file:
        rows = list(csv.DictReader(file))
    return {column: {row["job_id"]: float(row[column]) for row in rows} for column in list(rows[0])[1:]}


def columns_off(name, jobs, size):
    """How many starts differ from the recorded ones, by column."""
    off = {}
    for column, starts in recorded(name).items():
        policy, _, depth = column.partition("-k")
        rules = Rules(policy_named(policy), depth=EVERY_JOB if depth == "all" else int(depth))
        start_s = replay_jobs(jobs, size, rules).start_s
        assert len(starts) == len(jobs)
        off[column] = sum(starts[job] != start for job, start in zip(jobs.ids, start_s, strict=True))
    return off


# The queue


def test_a_plan_that_is_kept_gives_way_to_whatever_changes_it():
    queue = Queue(5, Rules(policy_named("fcfs"), depth=EVERY_JOB))
    queue.change_free(-1)
    first = queue.submit("a", 0.0, 10.0, 3)
    queue.submit("b", 0.0, 10.0, 2)
    assert queue.decide(0.0).tolist() == [first]
    behind = queue.submit("c", 1.0, 30.0, 1)  # and still beside b: the plan goes on
    assert queue.decide(1.0).tolist() == [behind]
    queue.submit("d", 2.0, 40.0, 4)
    assert queue.decide(2.0).tolist() == []
    queue.change_free(1)
    assert queue.decide(3.0).tolist() == []
    late = queue.submit("e", 4.0, 5.0, 1)
    assert queue.decide(4.0).tolist() == [late]
    queue.finish(first)
    assert queue.decide(5.0).tolist() == [1]


@settings(deadline=None, max_examples=examples(20))
@given(st.integers(0, 10_000), st.sampled_from([2, 20, math.inf]), st.booleans())
def test_a_plan_kept_through_changes_from_outside_starts_what_a_new_one_starts(seed, depth, threshold):
    rules = Rules(policy_named("fcfs" if seed % 2 else "saf"), threshold_s=9.0 if threshold else math.inf)
    kept = Queue(12, replace(rules, depth=in_engine(depth)))
    rng, waiting, now_s = np.random.default_rng(seed), [], 0.0
    for name in range(40):
        now_s += float(rng.integers(0, 3))
        what = rng.random()
        if what < 0.6 or not waiting:
            request_s = float(rng.integers(1, 40)) if rng.random() < 0.9 else math.inf
            waiting.append(kept.submit(f"{name:03}", now_s, request_s, int(rng.integers(1, 13))))
        elif what < 0.7:
            row = waiting.pop(int(rng.integers(len(waiting))))
            kept.start_waiting(row, now_s)
            kept.finish(row)
        elif what < 0.85 and len(kept.running_rows):
            kept.finish(int(kept.running_rows[rng.integers(len(kept.running_rows))]))
        elif what < 0.9:
            kept.change_rules(replace(rules, policy=policy_named("spf")))
        else:
            kept.change_free(-1 if kept.free else 1)
        new = kept.fork()  # which drops the plan
        started = kept.decide(now_s).tolist()
        assert new.decide(now_s).tolist() == started
        waiting = [row for row in waiting if row not in started]


@pytest.mark.compiled
@pytest.mark.parametrize("depth", [2, 5, EVERY_JOB])
def test_a_fork_at_any_instant_starts_what_its_origin_starts(depth):
    jobs = random_table(4, n_jobs=90, size=16, span_s=400, wide=0)
    run = EngineReplay(jobs, 16, Rules(policy_named("fcfs"), depth=depth))
    forks, done = [], False
    while not done:
        done = run.step()
        forks.append(run.fork())
    for fork in forks:
        fork.advance()
        assert fork.schedule().start_s.tolist() == run.schedule().start_s.tolist()


def test_a_job_that_needs_unavailable_processors_holds_back_only_jobs_without_a_walltime():
    queue = Queue(4, Rules(policy_named("fcfs"), depth=2))
    queue.change_free(-1)
    wide = queue.submit("a", 0.0, 10.0, 4)
    forever = queue.submit("b", 0.0, math.inf, 1)
    short = queue.submit("c", 0.0, 10.0, 3)
    assert queue.decide(0.0).tolist() == [short]
    queue.finish(short)
    queue.change_free(1)
    assert queue.decide(10.0).tolist() == [wide]
    queue.finish(wide)
    assert queue.decide(20.0).tolist() == [forever]


# Every host

COUNTING = [name for name in PRESETS if name != "first-tries" and not plans_machines(name)]


@pytest.mark.compiled
@pytest.mark.parametrize("depth", [0, 2, "all"])
def test_python_has_the_starts_of_the_oracle(tmp_path, depth):
    jobs = random_table(5, n_jobs=80, size=8, span_s=300, longest=40, wide=0.0, unlimited=0.0)
    path = tmp_path / "made.json"
    path.write_text(json.dumps({"nb_res": 8, **as_workload(jobs)}))
    expected = oracle(read_batsim_json(path).jobs, 8, "fcfs", depth=math.inf if depth == "all" else depth)
    assert_same(bf.replay(path, depth=depth).schedule, expected)


@pytest.mark.parametrize(
    ("system", "found"),
    [("none", [0, 0, 10, 53, 3]), ("slurm", [0, 0, 10, 20, 30]), ("pbs", [0, 0, 10, 53, 3])],
)
def test_the_defaults_of_a_real_scheduler_change_starts(system, found):
    # As above, where only a second reservation protects the second job.
    rows = [(0, 10, 10, 2), (0, 100, 100, 1), (1, 10, 10, 2), (2, 10, 10, 3), (3, 50, 50, 1)]
    assert replay_jobs(table(rows), 4, Options.of({"preset": system}).rules).start_s.tolist() == found


def test_the_defaults_of_openpbs_reserve_for_nobody_and_those_of_flux_test_32_jobs():
    # The first needs all 4 processors, and three run for 10 s: the last would end after that.
    delaying = [(0, 10, 10, 3), (1, 10, 10, 4), (3, 12, 12, 1)]
    started = {
        name: replay_jobs(table(delaying), 4, Options.of({"preset": name}).rules).start_s[2] for name in COUNTING
    }
    assert started == {"none": 20, "slurm": 20, "flux": 20, "pbs": 3}
    # 32 jobs need all processors, and behind them one would fit at once.
    many = [(0, 10, 10, 3), *[(1, 10, 10, 4)] * 32, (3, 5, 5, 1)]
    started = {name: replay_jobs(table(many), 4, Options.of({"preset": name}).rules).start_s[-1] for name in COUNTING}
    assert started == {"none": 3, "slurm": 3, "flux": 330, "pbs": 3}
    given = Options.of({"preset": "slurm", "depth": 2})
    assert (given.depth, given.tested) == (2, 500)
