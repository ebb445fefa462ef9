"""How many jobs are started by backfilling: Figure 4 of the CCGrid 2019 paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.reproduction.outcome import Outcome, Table, Verdict, box_chart
from batfill.reproduction.simple.resampled import NAMES, POLICIES, ResampledParameters, described, resampled

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

FEWER, MEAN = "fewer than under FCFS (%)", "mean over the logs"
Parameters = ResampledParameters


def compute(task: Task, parameters: ResampledParameters) -> Outcome:
    """Means over the samples, a row per policy: how many fewer than under FCFS, and how many."""
    counts: dict[str, list[list[int]]] = {}
    charts, notes = [], []
    for grid in resampled(task, parameters):
        counts[grid.label] = [[row["backfilled"] for row in grid.of(policy)] for policy in POLICIES]
        samples = dict(zip(NAMES, counts[grid.label], strict=True))
        charts.append(box_chart(f"backfilled-{grid.label}", samples, y="jobs backfilled"))
        notes.append(described(grid))
    means = {label: np.mean(values, axis=1) for label, values in counts.items()}
    fewer = {label: 100 * (1 - m / m[0]) for label, m in means.items()}
    columns = {
        f"{MEAN}: {FEWER}": np.mean(list(fewer.values()), axis=0).tolist(),
        **{f"{label}: {FEWER}": values.tolist() for label, values in fewer.items()},
        **{f"{label}: jobs": m.tolist() for label, m in means.items()},
    }
    most = {label: max(values[NAMES.index("SQF")]) for label, values in counts.items()}
    return Outcome(
        tables=(Table(tuple(columns), NAMES, tuple(zip(*columns.values(), strict=True))),),
        verdicts={
            "none-under-sqf": Verdict(
                not any(most.values()),
                "most of a sample under SQF: " + ", ".join(f"{label} {count:,}" for label, count in most.items()),
            )
        },
        charts=tuple(charts),
        notes=tuple(notes),
    )
