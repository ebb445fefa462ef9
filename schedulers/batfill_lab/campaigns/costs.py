"""Splitting a campaign into tasks of about a second, and estimating their time from a few timed runs."""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from heapq import heapreplace
from typing import TYPE_CHECKING, Any

from batfill.learn import forest
from batfill.model.options import FOREST, Options
from batfill.replays.replay import simulate
from batfill_lab.campaigns.traces import piece_of
from batfill_lab.campaigns.work import Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from batfill_lab.campaigns.plan import Plan, Planned, Readings
    from batfill_lab.campaigns.traces import Trace
    from batfill_lab.campaigns.work import Run

TASK_S = 1.0  # the work lost when a worker dies; long enough to hide the cost of sending a task
MOST_RUNS = 500  # in a task
RUN_S = 0.002  # fixed time of a run: selecting its jobs, and its row
WORKER_S = 1.5  # from a worker's start to its first task: Python's imports, on an idle machine
LEARNING_S = 1.5  # loading scikit-learn, once per worker
FIRST_JOBS = 2000  # of the first timed replay
LONGER = 4  # how many times as many jobs the next one has, while they are quick
QUICK_S = 0.5
MOST_TIMED = 12  # kinds of replays that are timed; others are assumed similar
LEARNING_S_IN_ALL = 8.0  # for timing all kinds of learning, roughly; each gets at least a second


@dataclass(frozen=True, slots=True)
class Curve:
    """The cost of a log's first jobs: seconds on this machine by jobs, both cumulative, and processors kept busy."""

    jobs: tuple[float, ...]  # ascending, without 0
    seconds: tuple[float, ...]
    busy: float = 1.0

    def at(self, jobs: float) -> float:
        """Seconds for this many jobs: linear between points; beyond them with the slope of their second half."""
        xs, ys = (0.0, *self.jobs), (0.0, *self.seconds)
        if len(xs) == 1:
            return 0.0
        if jobs <= xs[-1]:
            right = max(bisect_left(xs, jobs), 1)
            share = (jobs - xs[right - 1]) / (xs[right] - xs[right - 1])
            return ys[right - 1] + share * (ys[right] - ys[right - 1])
        half = min(bisect_left(xs, xs[-1] / 2), len(xs) - 2)
        return ys[-1] + (jobs - xs[-1]) * (ys[-1] - ys[half]) / (xs[-1] - xs[half])


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of a campaign's parts on one worker, in seconds."""

    curves: Mapping[str, Curve]  # by `kind_of`
    readings: Readings
    slowdown: float = 1.0  # of a run that keeps several processors busy, when others do so too
    load: float = 1.0  # relative to an idle machine, with the workers running
    beside: float = 1.0  # relative to the timing, which ran alone

    def run_s(self, planned: Planned) -> float:
        """Time of one run, its log loaded."""
        curve = self.curves[kind_of(planned.run.given)]
        return RUN_S + curve.at(planned.jobs) * max(curve.busy * self.slowdown, 1.0)

    def task_s(self, task: Task, planned: Mapping[str, Planned]) -> float:
        """Time of a task: all its runs, and reading and cutting their log."""
        return self.readings.traces.get(task.trace, 0.0) + sum(self.run_s(planned[run.id]) for run in task.runs)

    def total_s(self, tasks: Sequence[Task], planned: Mapping[str, Planned], workers: int) -> float:
        """Time from the workers' start to the last task's end, each task given to the first free worker."""
        if not tasks:
            return 0.0
        sources = {task.trace.source for task in tasks}
        loading_s = WORKER_S + LEARNING_S * any(learns(run.given) for task in tasks for run in task.runs)
        reading_s = sum(self.readings.logs.get(source, 0.0) for source in sources)
        start_s = loading_s * self.load + reading_s * self.beside
        free_s = [start_s] * min(workers, len(tasks))
        for task in tasks:
            heapreplace(free_s, free_s[0] + self.task_s(task, planned) * self.beside)
        return max(free_s)


def kind_of(given: Mapping[str, Any]) -> str:
    """The kind of a replay; costs differ by the knowledge, and in plain replays by the orders."""
    of_order = ("policy", "backfill")
    beside = ("threshold", "seed", *of_order) if learns(given) else ("threshold", "seed")
    return json.dumps({name: given[name] for name in sorted(given) if name not in beside})


def learns(given: Mapping[str, Any]) -> bool:
    """Whether a replay with these options processes jobs one by one in Python."""
    return Options.of(given).learns


def measured(left: Sequence[Planned], readings: Readings, workers: int, cores: int, others: float) -> Costs:
    """The costs of these runs; each kind is timed on the largest piece it replays, or on that piece's beginning.

    Args:
        left: the runs.
        readings: time spent reading.
        workers: the number of workers.
        cores: processors that the workers share.
        others: average number of other processes competing for them.
    """
    largest: dict[str, Planned] = {}
    for planned in left:
        known = largest.setdefault(kind_of(planned.run.given), planned)
        if planned.jobs > known.jobs:
            largest[kind_of(planned.run.given)] = planned
    learning = [key for key, planned in largest.items() if learns(planned.run.given)]
    plain = [key for key in largest if key not in learning]
    curves: dict[str, Curve] = {}
    quick_learning_s = max(LEARNING_S_IN_ALL / max(len(learning), 1), 1.0) / LONGER
    for kinds, quick_s in ((plain, QUICK_S), (learning, quick_learning_s)):
        for key in kinds[:MOST_TIMED]:
            curves[key] = timed(largest[key], quick_s)
        for key in kinds[MOST_TIMED:]:
            curves[key] = max((curves[like] for like in kinds[:MOST_TIMED]), key=lambda curve: curve.at(FIRST_JOBS))
    running = min(workers, len(left))
    load = max((others + running) / cores, 1.0)
    return Costs(curves, readings, running / cores, load, load / max((others + 1) / cores, 1.0))


def timed(planned: Planned, quick_s: float) -> Curve:
    """The cost of a replay, from increasingly long beginnings until one takes longer than `quick_s`."""
    workload, options = piece_of(planned.trace, planned.run.window).workload, Options.of(planned.run.given)
    simulate(workload.jobs.select(slice(0)), workload, options)  # loads what a replay with these options needs
    if options.small == FOREST:
        forest.load_forest_code()
    jobs: list[float] = []
    seconds: list[float] = []
    size, busy = FIRST_JOBS, 1.0
    while len(beginning := workload.jobs.select(slice(size))):
        began, processor_s = time.perf_counter(), time.process_time()
        simulate(beginning, workload, options)
        took_s = time.perf_counter() - began
        busy = (time.process_time() - processor_s) / took_s
        jobs.append(float(len(beginning)))
        seconds.append(max(took_s, seconds[-1] if seconds else 0.0))
        if size >= len(workload.jobs) or took_s > quick_s:
            break
        size *= LONGER
    return Curve(tuple(jobs), tuple(seconds), max(busy, 1.0))


def by_kind(runs: Sequence[Planned], costs: Costs) -> dict[str, float]:
    """Total seconds of the runs of each kind."""
    total: dict[str, float] = defaultdict(float)
    for planned in runs:
        total[kind_of(planned.run.given)] += costs.run_s(planned)
    return dict(total)


def in_tasks(left: Sequence[Planned], costs: Costs, planned: Plan, workers: int) -> list[Task]:
    """The runs grouped into tasks: one trace each, window by window, so that reading and cutting are shared."""
    by_trace: dict[Trace, list[Planned]] = defaultdict(list)
    for one in left:
        by_trace[one.trace].append(one)
    share_s = min(TASK_S, sum(map(costs.run_s, left)) / (4 * workers))
    tasks: list[Task] = []
    for trace, members in by_trace.items():
        runs: list[Run] = []
        cost_s = 0.0
        for one in members:
            if runs and (cost_s >= share_s or len(runs) >= MOST_RUNS):
                tasks.append(Task(trace, tuple(runs), planned.tau_s, planned.per_job))
                runs, cost_s = [], 0.0
            runs.append(one.run)
            cost_s += costs.run_s(one)
        tasks.append(Task(trace, tuple(runs), planned.tau_s, planned.per_job))
    return tasks


class Remaining:
    """The time left, from the time that finished tasks took; each kind of work is scaled separately."""

    def __init__(self, expected: Mapping[str, float], workers: float) -> None:
        """Set the expected work of each kind.

        Args:
            expected: total seconds of each kind's tasks.
            workers: number of tasks that run at a time.
        """
        self.left = dict(expected)
        self.workers = workers
        self.done: dict[str, float] = defaultdict(float)
        self.took_s: dict[str, float] = defaultdict(float)

    def ended(self, kind: str, expected: float, took_s: float) -> None:
        """Record that a task of this kind, expected to take `expected`, took `took_s`."""
        self.left[kind] -= expected
        self.done[kind] += expected
        self.took_s[kind] += took_s

    def seconds(self) -> float:
        """Seconds until the remaining tasks have ended, roughly."""
        total_s = 0.0
        for kind, left in self.left.items():
            if left <= 1e-9:  # rounding errors
                continue
            total_s += left * self.took_s[kind] / self.done[kind] if self.done[kind] > 0 else left
        return total_s / self.workers
