"""How wide the jobs with the highest slowdowns are: Figure 2 of the CCGrid 2019 paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.campaign.config import Count
from batfill.reproduction.outcome import Outcome, Table, Verdict, box_chart
from batfill.reproduction.simple.resampled import NAMES, POLICIES, ResampledParameters, described, resampled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.reproduction.grids import Grid
    from batfill.reproduction.task import Task


class Parameters(ResampledParameters):
    """How many jobs of each sample."""

    top: Count = 100


def compute(task: Task, parameters: Parameters) -> Outcome:
    """The median number of processors of those jobs, a row per policy and a column per log; boxes per log."""
    medians: dict[str, list[float]] = {}
    charts, notes = [], []
    for grid in resampled(task, parameters):
        widths = {
            name: np.concatenate([widths_of(grid, row, parameters.top) for row in grid.of(policy)])
            for policy, name in zip(POLICIES, NAMES, strict=True)
        }
        medians[grid.label] = [float(np.median(each)) for each in widths.values()]
        charts.append(box_chart(f"width-{grid.label}", widths, y="processors", log_y=True))
        notes.append(described(grid))
    spf, saf = NAMES.index("SPF"), NAMES.index("SAF")
    narrower = {label: f"{m[spf]:g} and {m[saf]:g}" for label, m in medians.items()}
    return Outcome(
        tables=(Table(tuple(medians), NAMES, tuple(zip(*medians.values(), strict=True))),),
        verdicts={
            "spf-delays-narrow": Verdict(
                all(m[spf] < m[saf] for m in medians.values()),
                "medians under SPF and SAF: " + ", ".join(f"{label} {text}" for label, text in narrower.items()),
            )
        },
        charts=tuple(charts),
        notes=tuple(notes),
    )


def widths_of(grid: Grid, row: dict[str, object], top: int) -> NDArray[np.int64]:
    """The processors of a run's most delayed jobs, shape (top,)."""
    jobs = grid.jobs(row, ("bsld", "procs"))
    return np.asarray(jobs["procs"][np.argsort(-jobs["bsld"], kind="stable")[:top]])
