"""Learned and known policies on the windows of a log, for the entries of the 2023 study of regression heuristics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from batfill.policies import Term, polynomial
from batfill.reproduction.heuristics.proxy_scores import Fitting
from batfill.reproduction.outcome import Chart, Table
from batfill.reproduction.shared import kept
from batfill.schema import Count
from batfill.tuning.heuristics import RIVALS, evaluate
from batfill.tuning.periods import Periods, read_periods

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from batfill.reproduction.task import Task

Requests = Literal["users", "run times"]
SHOWN = dict(zip(RIVALS, ("FCFS", "SPT", "SAF", "WFP3", "UNICEF", "F2"), strict=True))  # as the paper calls them
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Windows(Fitting):
    """The windows, and what the policies know of the jobs in them."""

    requests: Requests = "users"
    backfilling: bool
    days: Annotated[float, Field(gt=0)] = 15.0
    count: Count | None = None  # the first so many windows


# By the policy's label and a log's: its mean bounded slowdown on each window.
Costs = dict[str, dict[str, list[float]]]


def costs_of(
    task: Task, label: str, parameters: Windows, learned: Mapping[str, Sequence[Term]]
) -> dict[str, list[float]]:
    """The mean bounded slowdown of each policy, the known ones first, on each of the log's windows."""
    windows = read_periods(
        task.logs[label], days=parameters.days, align="first", boundary="submitted", count=parameters.count
    )
    if parameters.requests == "run times":
        windows = told_run_times(windows)

    def make() -> dict[str, Any]:
        policies = [polynomial(name, terms, "") for name, terms in learned.items()]
        with task.bar(f"{label}: windows", 2 * len(windows)) as advance:
            return evaluate(windows, policies, advance=advance)

    key = {"windows": windows.provenance(), "requests": parameters.requests, "learned": learned}
    found = kept(task.folder, "windows", key, "tuning", make)
    by_policy = found["with_backfilling" if parameters.backfilling else "without_backfilling"]
    return {SHOWN.get(name, name): by_policy[name]["mean_bsld"] for name in (*RIVALS, *learned)}


def told_run_times(windows: Periods) -> Periods:
    """The same windows with the run times for requests; a job of no run time asks for a second."""
    tables = tuple(replace(jobs, walltime_s=np.maximum(jobs.runtime_s, 1)) for jobs in windows.tables)
    return replace(windows, tables=tables)


def medians(costs: Costs) -> Table:
    """Over the windows, a column per log."""
    names = tuple(next(iter(costs.values()), ()))
    rows = tuple(tuple(float(np.median(costs[label][name])) for label in costs) for name in names)
    return Table(tuple(costs), names, rows)


def boxes(costs: Costs) -> tuple[Chart, ...]:
    """A chart per log."""
    return tuple(
        Chart(
            name=label,
            kind="boxes",
            head=("policy", *(f"p{100 * share:.0f}" for share in QUANTILES)),
            rows=tuple((name, *np.quantile(values, QUANTILES).tolist()) for name, values in by_policy.items()),
            y="mean bounded slowdown",
            log_y=True,
        )
        for label, by_policy in costs.items()
    )


def counted(costs: Costs) -> str:
    """How many windows there were."""
    numbers = (f"{len(next(iter(by_policy.values())))} windows of {label}" for label, by_policy in costs.items())
    return f"{', '.join(numbers)}."
