"""How alike the run times of neighbours in a category are: Figure 2 of the 2022 study of small jobs first."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from batfill.knowledge.features import CATEGORIES
from batfill.knowledge.study import LAGS, autocorrelations, read_jobs
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict
from batfill.schema import Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.reproduction.task import Task

SHOWN = (1, 2, 3, 5, 10, 20)  # lags of the table


class Parameters(Section):
    """Whose jobs."""

    user: int


def compute(task: Task, parameters: Parameters) -> Outcome:
    """The median over the user's categories of the autocorrelation at each lag; the chart has quartiles."""
    ((_, path),) = task.logs.items()
    jobs = read_jobs(path)
    own = jobs.user == parameters.user
    names = [f"(u, {name})" for name in CATEGORIES]
    by_place: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in autocorrelations(jobs):
        if row["user"] == parameters.user and np.isfinite(row["autocorrelation"]):
            by_place[row["category"], row["lag"]].append(row["autocorrelation"])
    lags = range(1, LAGS + 1)
    quartiles = np.array([[quartiles_of(by_place[name, lag]) for name in names] for lag in lags])  # (lag, name, 3)
    by_size = quartiles[:, names.index("(u, q)"), 0]
    return Outcome(
        (
            Table(
                tuple(names),
                tuple(f"lag {lag}" for lag in SHOWN),
                tuple(tuple(quartiles[lag - 1, :, 0].tolist()) for lag in SHOWN),
            ),
        ),
        {
            "first-lags": Verdict(
                float(by_size[:3].mean()) > float(by_size[3:].mean()),
                f"(u, q): {by_size[:3].mean():.2f} over lags 1 to 3, {by_size[3:].mean():.2f} over lags 4 to {LAGS}",
            )
        },
        (
            Chart(
                "autocorrelation",
                "bands",
                ("lag", *(part for name in names for part in (name, f"{name} q1", f"{name} q3"))),
                tuple((lag, *quartiles[lag - 1].ravel().tolist()) for lag in lags),
                "lag",
                "autocorrelation",
            ),
        ),
        (
            f"User {parameters.user} submitted {int(own.sum()):,} jobs with "
            f"{len(np.unique(jobs.procs[own]))} widths and {len(np.unique(jobs.requested_s[own]))} requested times.",
        ),
    )


def quartiles_of(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, then the lower and the upper quartile; nan of nothing."""
    if not values:
        return (float("nan"),) * 3
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return middle, low, high
