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
    found = resampled(task, parameters)
    ratios = {choice: {grid.label: ratios_of(grid) for grid in grids} for choice, grids in found.items()}
    first = next(iter(ratios.values()))
    fcfs, *others = (NAMES.index(name) for name in ("FCFS", "SPF", "SAF"))
    amplified = {label: [values[k] / values[fcfs] for k in others] for label, values in first.items()}
    return Outcome(
        tables=tuple(
            Table(tuple(columns), NAMES, tuple(zip(*columns.values(), strict=True)), choice)
            for choice, columns in ratios.items()
        ),
        verdicts={
            "worse-off": Verdict.of(
                {label: min(values) for label, values in first.items()}, lambda ratio: ratio > 1, "{:.2f} at the least"
            ),
            "amplified": Verdict(
                sum(each > 1 for values in amplified.values() for each in values) > len(amplified),
                "SPF and SAF over FCFS: "
                + ", ".join(f"{label} {spf:.2f} and {saf:.2f}" for label, (spf, saf) in amplified.items()),
            ),
        },
        notes=described(found),
    )


def ratios_of(grid: Grid) -> list[float]:
    """The mean over the samples, by policy."""
    return [float(np.mean([ratio(grid, row) for row in grid.of(policy)])) for policy in POLICIES]


def ratio(grid: Grid, row: dict[str, object]) -> float:
    """The ratio of one run."""
    jobs = grid.jobs(row, ("start_s", "end_s", "walltime_s", "bsld"))
    premature = jobs["walltime_s"] >= PREMATURE * (jobs["end_s"] - jobs["start_s"])
    return float(jobs["bsld"][premature].mean() / jobs["bsld"][~premature].mean())
