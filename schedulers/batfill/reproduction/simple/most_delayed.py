"""How wide the jobs with the highest slowdowns are: Figure 2 of the CCGrid 2019 paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.reproduction.outcome import Outcome, Table, Verdict, box_chart
from batfill.reproduction.simple.resampled import NAMES, POLICIES, ResampledParameters, described, resampled
from batfill.schema import Count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.reproduction.grids import Grid
    from batfill.reproduction.task import Task


class Parameters(ResampledParameters):
    """How many jobs of each sample."""

    top: Count = 100


def compute(task: Task, parameters: Parameters) -> Outcome:
    """The median number of processors of those jobs, a row per policy and a column per log; boxes per log."""
    found = resampled(task, parameters)
    widths = {
        choice: {grid.label: widths_by_policy(grid, parameters.top) for grid in grids}
        for choice, grids in found.items()
    }
    medians = {
        choice: {label: [float(np.median(each)) for each in by_policy.values()] for label, by_policy in logs.items()}
        for choice, logs in widths.items()
    }
    spf, saf = NAMES.index("SPF"), NAMES.index("SAF")
    first = next(iter(medians))
    return Outcome(
        tables=tuple(
            Table(tuple(columns), NAMES, tuple(zip(*columns.values(), strict=True)), choice)
            for choice, columns in medians.items()
        ),
        verdicts={
            "spf-delays-narrow": Verdict(
                all(m[spf] < m[saf] for m in medians[first].values()),
                "medians under SPF and SAF: "
                + ", ".join(f"{label} {m[spf]:g} and {m[saf]:g}" for label, m in medians[first].items()),
            )
        },
        charts=tuple(
            box_chart(f"width-{label}", by_policy, y="processors", log_y=True)
            for label, by_policy in widths[first].items()
        ),
        notes=described(found),
    )


def widths_by_policy(grid: Grid, top: int) -> dict[str, NDArray[np.int64]]:
    """Over all samples."""
    return {
        name: np.concatenate([widths_of(grid, row, top) for row in grid.of(policy)])
        for policy, name in zip(POLICIES, NAMES, strict=True)
    }


def widths_of(grid: Grid, row: dict[str, object], top: int) -> NDArray[np.int64]:
    """The processors of a run's most delayed jobs, shape (top,)."""
    jobs = grid.jobs(row, ("bsld", "procs"))
    return np.asarray(jobs["procs"][np.argsort(-jobs["bsld"], kind="stable")[:top]])
