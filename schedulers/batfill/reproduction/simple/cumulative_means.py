"""Means over the jobs finished so far, week by week, and the gain over FCFS: Figure 1 of the CCGrid 2019 paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.jobs import WEEK_S
from batfill.metrics import bounded_slowdown, per_processor_slowdown
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict
from batfill.reproduction.simple.resampled import NAMES, POLICIES, ResampledParameters, described, kept, resampled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.reproduction.grids import Grid
    from batfill.reproduction.task import Task

    Curves = dict[str, NDArray[np.float64]]  # by objective: shape (n_policies, n_samples, n_weeks)
    Ends = dict[str, list[NDArray[np.float64]]]  # by log: the means at the end per objective, shape (n_policies,)

OBJECTIVES = ("slowdown", "waiting time", "pp-slowdown")
CLOSE = 1.1  # "close to the best" is at most so many times the best
LARGEST = "largest gain over the logs"
Parameters = ResampledParameters


def compute(task: Task, parameters: ResampledParameters) -> Outcome:
    """The gain over FCFS in %, a column per objective and a row per log and policy; curves per log and objective."""
    found = resampled(task, parameters)
    tables = []
    ends: list[Ends] = []
    charts: list[Chart] = []
    for choice, grids in found.items():
        end: Ends = {}
        for grid in grids:
            bands = {name: trimmed(curves) for name, curves in curves_of(grid).items()}
            end[grid.label] = [each[:, 1, -1] for each in bands.values()]
            if not ends:  # curves are of the first choice
                charts += [chart_of(grid.label, name, each) for name, each in bands.items()]
        ends.append(end)
        tables.append(table_of(choice, end))
    return Outcome(tuple(tables), verdicts(ends[0]), tuple(charts), described(found))


def table_of(choice: str, end: Ends) -> Table:
    """The gains in %, the largest of all logs first."""
    gains = {
        f"{label}, {policy}": tuple(100 * (1 - float(mean[k] / mean[0])) for mean in means)
        for label, means in end.items()
        for k, policy in enumerate(NAMES)
        if k > 0
    }
    largest = tuple(max(column) for column in zip(*gains.values(), strict=True))
    return Table(OBJECTIVES, (LARGEST, *gains), (largest, *gains.values()), choice)


def curves_of(grid: Grid) -> Curves:
    """The cumulative means of every run: at the end of a week, over the jobs that have ended by then."""
    runs = [[cumulative(grid, row) for row in grid.of(policy)] for policy in POLICIES]
    weeks = min(len(curve) for of_policy in runs for curve in of_policy)
    stacked = np.array([[curve[:weeks] for curve in of_policy] for of_policy in runs])
    return {name: stacked[..., i] for i, name in enumerate(OBJECTIVES)}


def cumulative(grid: Grid, row: dict[str, object]) -> NDArray[np.float64]:
    """Shape (n_weeks, n_objectives), from the first week in which a job ends."""
    jobs = grid.jobs(row, ("start_s", "end_s", "wait_s", "procs"))
    runtime_s = jobs["end_s"] - jobs["start_s"]
    values = np.array(
        [
            bounded_slowdown(jobs["wait_s"], runtime_s),
            jobs["wait_s"],
            per_processor_slowdown(jobs["wait_s"], runtime_s, jobs["procs"]),
        ]
    )
    week = (jobs["end_s"] // WEEK_S).astype(np.int64)
    counts = np.cumsum(np.bincount(week))
    sums = np.array([np.cumsum(np.bincount(week, weights=each)) for each in values])
    return np.asarray((sums / np.maximum(counts, 1)).T)


def trimmed(curves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least, mean and most over the samples that are kept, shape (n_policies, 3, n_weeks)."""
    result = []
    for of_policy in curves:
        samples = of_policy[kept(of_policy[:, -1])]
        result.append([samples.min(axis=0), samples.mean(axis=0), samples.max(axis=0)])
    return np.array(result)


def chart_of(label: str, objective: str, bands: NDArray[np.float64]) -> Chart:
    """The mean of each policy between its least and its most."""
    head = ["week"]
    columns = [list(range(1, bands.shape[2] + 1))]
    for name, (least, mean, most) in zip(NAMES, bands.tolist(), strict=True):
        head += [name, f"{name} least", f"{name} most"]
        columns += [mean, least, most]
    unit = " (s)" if objective == "waiting time" else ""
    rows = tuple(zip(*columns, strict=True))
    return Chart(
        f"{objective.replace(' ', '-')}-{label}", "bands", tuple(head), rows, x="week", y=f"mean {objective}{unit}"
    )


def verdicts(end: Ends) -> dict[str, Verdict]:
    """What Sections V.A and V.B say of the figure."""
    fcfs, spf, sqf, saf = range(4)
    oblivious, pp, close = [], [], []
    for label, means in end.items():
        for name, m in zip(OBJECTIVES, means, strict=True):
            if max(m[spf], m[saf]) >= min(m[fcfs], m[sqf]):
                oblivious.append(f"{label}, {name}")
            close.append((f"{label}, {name}", float(m[saf] / m.min())))
        if means[-1].argmin() != saf:
            pp.append(label)
    worst = max(close, key=lambda each: each[1])
    return {
        "estimates-help": Verdict(
            not oblivious, f"not so: {'; '.join(oblivious)}" if oblivious else "so for every log and objective"
        ),
        "saf-pp": Verdict(not pp, f"not so: {', '.join(pp)}" if pp else "so for every log"),
        "saf-close": Verdict(worst[1] <= CLOSE, f"at most {worst[1]:.2f} times the best ({worst[0]})"),
    }
