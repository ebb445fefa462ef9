"""How many jobs are started by backfilling: Figure 4 of the CCGrid 2019 paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.reproduction.outcome import Outcome, Table, Verdict, box_chart
from batfill.reproduction.simple.resampled import NAMES, POLICIES, ResampledParameters, described, resampled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.reproduction.grids import Grid
    from batfill.reproduction.task import Task

FEWER, MEAN = "fewer than under FCFS (%)", "mean over the logs"
Parameters = ResampledParameters


def compute(task: Task, parameters: ResampledParameters) -> Outcome:
    """Means over the samples, a row per policy: how many fewer than under FCFS, and how many."""
    found = resampled(task, parameters)
    counts = {choice: {grid.label: counts_of(grid) for grid in grids} for choice, grids in found.items()}
    first = next(iter(counts.values()))
    most = {label: int(each[NAMES.index("SQF")].max()) for label, each in first.items()}
    return Outcome(
        tables=tuple(table_of(choice, each) for choice, each in counts.items()),
        verdicts={"none-under-sqf": Verdict.of(most, lambda count: count == 0, "{:,} in the sample that has the most")},
        charts=tuple(
            box_chart(f"backfilled-{label}", dict(zip(NAMES, each.tolist(), strict=True)), y="jobs backfilled")
            for label, each in first.items()
        ),
        notes=described(found),
    )


def counts_of(grid: Grid) -> NDArray[np.int64]:
    """Shape (n_policies, n_samples)."""
    return np.array([[row["backfilled"] for row in grid.of(policy)] for policy in POLICIES])


def table_of(choice: str, counts: dict[str, NDArray[np.int64]]) -> Table:
    """The columns of one choice."""
    means = {label: each.mean(axis=1) for label, each in counts.items()}
    fewer = {label: 100 * (1 - each / each[0]) for label, each in means.items()}
    columns = {
        f"{MEAN}: {FEWER}": np.mean(list(fewer.values()), axis=0),
        **{f"{label}: {FEWER}": each for label, each in fewer.items()},
        **{f"{label}: jobs": each for label, each in means.items()},
    }
    values = np.array(list(columns.values())).T.tolist()
    return Table(tuple(columns), NAMES, tuple(map(tuple, values)), choice)
