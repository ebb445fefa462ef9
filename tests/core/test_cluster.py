"""A cluster fed job by job, in any order within an instant, while machines come and go."""

from __future__ import annotations

import heapq
import math
from dataclasses import replace

import numpy as np
import pytest

from batfill.engine.waiting import GAP
from batfill.learn import Judgement
from batfill.live.cluster import Cluster
from batfill.live.request import Request
from batfill.model.options import Options
from oracle import KEYS, SOME_DAY, STEPS, oracle
from strategies import outliving, random_table
from sweeps import COMPILED, sweep


def machine_ids(intervals):
    return {machine for first, last in intervals for machine in range(first, last + 1)}


def expected_end(t, start, expected_s):
    """When a running job is expected to end at t, corrected if it has outlived what is known of its run time."""
    for step in STEPS:
        if start + expected_s > t:
            break
        expected_s += step
    return min(start + expected_s, SOME_DAY)


def submit(cluster, name, submit_s, walltime_s, procs, *, small=False, request_s=None):
    """Submit a job of which nothing is predicted, with its request if it may outlive it."""
    request_s = walltime_s if request_s is None else request_s
    cluster.submit(Request(name, submit_s, request_s, walltime_s, procs, "delay"), Judgement(request_s, small))


@pytest.mark.compiled
@pytest.mark.parametrize(*sweep(policy=["saf", "wfp3", "fcfs", "lqf", "sexp"], threshold=[None, 40]))
def test_jobs_told_in_any_order_within_an_instant_start_as_the_oracle_says(policy, threshold):
    jobs = random_table(11, n_jobs=300, size=10, span_s=120, wide=0)
    jobs = replace(jobs, runtime_s=np.maximum(jobs.runtime_s, 1))  # whole instants: no job ends where it starts
    cluster = Cluster(range(10), Options.of({"policy": policy, "threshold": threshold}))
    rng = np.random.default_rng(1)
    ends, starts = [], {}
    for t in range(10_000):
        while ends and ends[0][0] == t:
            cluster.end(heapq.heappop(ends)[1])
        for row in rng.permutation(np.flatnonzero(jobs.submit_s == t)):
            submit(cluster, jobs.ids[row], t, float(jobs.walltime_s[row]), int(jobs.procs[row]))
        for begun in cluster.decide(float(t)):
            row = int(begun.job)
            starts[row] = t
            heapq.heappush(ends, (t + min(jobs.runtime_s[row], jobs.walltime_s[row]), begun.job))
    expected = oracle(jobs, 10, policy, threshold_s=math.inf if threshold is None else threshold)
    assert [starts[row] for row in range(len(jobs))] == [job.start for job in expected.jobs]


def test_a_job_put_between_two_neighbours_without_room_has_all_numbered_anew():
    cluster = Cluster(range(1), Options.of({"threshold": 5}))
    submit(cluster, "0", 0.0, 9.0, 1)
    cluster.decide(0.0)
    names = [f"{i:02}" for i in range(1, 61)]
    for name in reversed(names):  # halves the room below the last one; it is used up after some twenty
        submit(cluster, name, 1.0, 9.0, 1)
    seq = cluster.queue.jobs["seq"][:61]
    assert seq[[cluster.rows[name] for name in ("0", *names)]].tolist() == sorted(seq)
    assert seq[1] > 20 * GAP  # the first to come is the last in order
    for ended, name in zip(["0", *names], names, strict=False):
        cluster.end(ended)
        assert [start.job for start in cluster.decide(9.0)] == [name]


def table_of(seed, outlives, size):
    """Jobs for this machine, and the submission, expected run time and width of each by its name."""
    jobs = random_table(seed, n_jobs=200, size=size, span_s=250, wide=0, unlimited=0.1)
    if outlives:
        jobs = outliving(random_table(seed, n_jobs=150, size=size, span_s=250, wide=0, longest=150, short=0.5))
    columns = jobs.ids, jobs.submit_s, jobs.expected_s, jobs.procs
    return jobs, {str(i): (s, w, int(q)) for i, s, w, q in zip(*columns, strict=True)}


def check_each_second(cluster, jobs, ids, rng, every_s, expected_of, small=frozenset()):
    """Compare each pass with `expected_of` while machines come and go; returns how many started beside others."""
    waiting, running, away, beside = [], {}, set(), 0  # running: job -> (start, machines, true end)
    for t in range(600):
        for job in [job for job, (_, _, end) in running.items() if end <= t]:
            cluster.end(job)
            del running[job]
        changed = {ids[i] for i in rng.integers(0, len(ids), rng.integers(0, 3))} if t % every_s == 0 else set()
        gone, back = changed - away, changed & away
        cluster.withdraw(gone)
        cluster.restore(back)
        away = (away | gone) - back
        for row in np.flatnonzero(jobs.submit_s == t):
            name = str(jobs.ids[row])
            waiting.append(name)
            walltime_s, request_s = float(jobs.walltime_s[row]), float(jobs.expected_s[row])
            submit(cluster, name, float(t), walltime_s, int(jobs.procs[row]), small=name in small, request_s=request_s)
        expected = expected_of(t, waiting, running, away)
        found = [(start.job, machine_ids(start.machines)) for start in cluster.decide(float(t))]
        assert found == expected
        for job, machines in found:
            row = int(job)
            running[job] = t, machines, t + max(1, min(jobs.runtime_s[row], jobs.walltime_s[row]))
            waiting.remove(job)
        beside += bool(waiting and found)
        assert len(cluster.idle) == cluster.queue.free
    return beside


@pytest.mark.compiled
@pytest.mark.parametrize(*sweep(policy=["fcfs", "saf", "wfp3"], seed=list(range(6)), outlives=[False, True]))
def test_with_machines_that_come_and_go_each_pass_starts_what_the_definition_says(policy, seed, outlives):
    size = 8
    jobs, known = table_of(seed, outlives, size)

    def on_the_lowest(t, waiting, running, away):
        idle = sorted(set(range(size)) - away - set().union(*(machines for _, machines, _ in running.values())))
        placed = []
        for job in expected_starts(t, waiting, running, away, known, size, KEYS[policy]):
            width = known[job][2]
            placed.append((job, set(idle[:width])))
            del idle[:width]
        return placed

    cluster = Cluster(range(size), Options.of({"policy": policy}))
    check_each_second(cluster, jobs, range(size), np.random.default_rng(seed), 5, on_the_lowest)


def expected_starts(t, waiting, running, away, known, size, key):
    """One pass by its definition, where `free` and what a job gives back count only the machines that are there."""
    there = set(range(size)) - away
    busy = set().union(*(machines for _, machines, _ in running.values()))
    free = len(there - busy)
    held = [(expected_end(t, start, known[job][1]), len(on - away)) for job, (start, on, _) in running.items()]

    def rank(job):
        submit_s, expected_s, procs = known[job]
        return key(t, submit_s, min(expected_s, 1e12), procs), submit_s, job

    order, starts = sorted(waiting, key=rank), []
    while order and known[order[0]][2] <= free:
        job = order.pop(0)
        free -= known[job][2]
        held.append((expected_end(t, t, known[job][1]), known[job][2]))
        starts.append(job)
    if not order:
        return starts
    need = known[order[0]][2]

    def free_at(at):
        return free + sum(procs for end, procs in held if end <= at)

    shadow = next((at for at in sorted(end for end, _ in held) if free_at(at) >= need), SOME_DAY)
    extra = max(free_at(shadow) - need, 0)
    for job in order[1:]:
        _, walltime, procs = known[job]
        if procs <= free and (t + walltime <= shadow or procs <= extra):
            extra -= procs * (t + walltime > shadow)
            free -= procs
            starts.append(job)
    return starts


BESIDE = [
    COMPILED({}),
    COMPILED({"threshold": 40}),
    {"policy": "saf"},
    {"policy": "wfp3", "threshold": 60},
    COMPILED({"policy": "saf", "threshold": 10, "overdue": "half"}),
    COMPILED({"policy": "lqf", "backfill": "spf"}),
    {"backfill": "sexp", "small": "class", "divider": 30, "kill": "always"},
]


@pytest.mark.parametrize(*sweep(2, options=BESIDE, outlives=[COMPILED(False), True]))
@pytest.mark.parametrize("seed", [0])
def test_with_reserved_machines_each_pass_starts_what_the_definition_says(options, seed, outlives):
    ids = [2, 3, 5, 6, 7, 9, 12, 13]  # not all from 0 on
    jobs, known = table_of(seed, outlives, len(ids))
    rng = np.random.default_rng(seed)
    small = {name for name in known if "divider" in options and rng.random() < 0.3}

    def expected(t, waiting, running, away):
        return starts_beside_reserved_machines(t, waiting, running, set(ids), away, known, small, options)

    cluster = Cluster(ids, Options.of(options), by_machines=True)
    assert check_each_second(cluster, jobs, ids, rng, 20, expected, small) > 20


def starts_beside_reserved_machines(t, waiting, running, ids, away, known, small, options):
    """One pass by its definition: the head's machines are the first set that is free, at the earliest date."""

    def key(policy, job):
        submit, walltime, procs = known[job]
        return KEYS[policy](t, submit, min(walltime, 1e12), procs)

    late = [job for job in waiting if t - known[job][0] > options.get("threshold", math.inf)]
    late.sort(key=lambda job: (known[job][0], job))
    first = late[: max(4, math.ceil(len(late) / 2))] if options.get("overdue") == "half" else late

    def place(job):
        overdue = job in first
        rank = 0 if overdue else 1 if job in small else 2
        return rank, 0 if overdue else key(options.get("policy", "fcfs"), job), known[job][0], job

    def end(job, start):
        return expected_end(t, start, known[job][1])

    busy = {machine: end(job, start) for job, (start, machines, _) in running.items() for machine in machines}
    idle = ids - away - busy.keys()
    order, starts = sorted(waiting, key=place), []

    def begin(job, machines):
        chosen = set(sorted(machines)[: known[job][2]])
        idle.difference_update(chosen)
        busy.update(dict.fromkeys(chosen, end(job, t)))
        starts.append((job, chosen))

    while order and known[order[0]][2] <= len(idle):
        begin(order.pop(0), idle)
    if not order:
        return starts
    head, rest = known[order[0]][2], order[1:]
    if "backfill" in options:
        rest.sort(key=lambda job: (key(options["backfill"], job), known[job][0], job))
    shadow, reserved = SOME_DAY, ids
    for date in sorted({t, *busy.values()}):
        free = {machine for machine in ids - away if busy.get(machine, t) <= date}
        if len(free) >= head:
            shadow, reserved = date, set(sorted(free)[:head])
            break
    for job in rest:
        usable = set(idle) if t + known[job][1] <= shadow else idle - reserved
        if known[job][2] <= len(usable):
            begin(job, usable)
    return starts


def test_two_extra_processors_are_of_no_use_if_their_machines_are_reserved():
    """Machines 0-1 are idle, and the head gets 0-3 at 100; two processors are extra then, on machines 4-5."""
    for by_machines, expected in ((False, ["J"]), (True, [])):
        cluster = Cluster(range(6), Options.of({}), by_machines=by_machines)
        submit(cluster, "A", 0.0, 10.0, 2)
        submit(cluster, "B", 0.0, 100.0, 4)
        cluster.decide(0.0)
        cluster.end("A")
        submit(cluster, "H", 20.0, 50.0, 4)
        submit(cluster, "J", 30.0, 500.0, 2)
        assert [start.job for start in cluster.decide(30.0)] == expected


def test_a_small_job_is_to_be_killed_one_divider_after_its_start_unless_its_walltime_comes_first():
    cluster = Cluster(range(3), Options.of({"small": "class", "divider": 20}))
    for job, walltime_s, small in (("1", 50.0, True), ("2", 20.0, True), ("3", 50.0, False)):
        submit(cluster, job, 0.0, walltime_s, 1, small=small)
    assert [start.kill_at_s for start in cluster.decide(5.0)] == [25.0, math.inf, math.inf]
