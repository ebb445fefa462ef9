"""Slowdown of premature jobs over that of the others: Table IV of the CCGrid 2019 paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.reproduction.outcome import Outcome, Table, Verdict
from batfill.reproduction.simple.resampled import NAMES, POLICIES, ResampledParameters, described, resampled
from batfill.workloads.describe import PREMATURE

if TYPE_CHECKING:
    from batfill.reproduction.grids import Grid
    from batfill.reproduction.task import Task

Parameters = ResampledParameters


def compute(task: Task, parameters: ResampledParameters) -> Outcome:
    """The mean over samples of the ratio of both means, a row per policy and a column per log."""
    columns, notes = {}, []
    for grid in resampled(task, parameters):
        columns[grid.label] = [float(np.mean([ratio(grid, row) for row in grid.of(policy)])) for policy in POLICIES]
        notes.append(described(grid))
    fcfs, *others = (NAMES.index(name) for name in ("FCFS", "SPF", "SAF"))
    return Outcome(
        tables=(Table(tuple(columns), NAMES, tuple(zip(*columns.values(), strict=True))),),
        verdicts={
            "worse-off": Verdict(
                min(min(values) for values in columns.values()) > 1, "all ratios of the table above are to be above 1"
            ),
            "amplified": Verdict(
                all(values[k] > values[fcfs] for values in columns.values() for k in others),
                "SPF and SAF over FCFS: "
                + ", ".join(
                    f"{label} {' and '.join(f'{values[k] / values[fcfs]:.2f}' for k in others)}"
                    for label, values in columns.items()
                ),
            ),
        },
        notes=tuple(notes),
    )


def ratio(grid: Grid, row: dict[str, object]) -> float:
    """The ratio of one run."""
    jobs = grid.jobs(row, ("start_s", "end_s", "walltime_s", "bsld"))
    premature = jobs["walltime_s"] >= PREMATURE * (jobs["end_s"] - jobs["start_s"])
    return float(jobs["bsld"][premature].mean() / jobs["bsld"][~premature].mean())
