"""SAF beside the best pure policy of every single week: Figure 2 of the 2019 study of mixed policies, and its like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from batfill.reproduction.mixed.periods import PeriodParameters, Weekly, described, weekly_costs
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

COLUMNS = ("SAF, sum", "best of each week, sum", "weeks SAF is best or near", "weeks SAF is far", "weeks")


class Parameters(PeriodParameters):
    """The paper's words are "very close" and "a significant margin"; here they are numbers."""

    near: Annotated[float, Field(ge=1)] = 1.05  # at most so many times the best
    far: Annotated[float, Field(ge=1)] = 1.25  # at least so many times


def compute(task: Task, parameters: Parameters) -> Outcome:
    """Sums over the weeks, and how often SAF is near the best pure policy of the week, a row per log."""
    rows, charts, notes = [], [], []
    for weekly in weekly_costs(task, parameters):
        saf, best = weekly.of("SAF"), weekly.costs.min(axis=0)
        near = int((saf <= parameters.near * best).sum())
        far = int((saf >= parameters.far * best).sum())
        rows.append((weekly.label, (float(saf.sum()), float(best.sum()), near, far, len(best))))
        charts.append(chart_of(weekly))
        notes.append(described(weekly.label, weekly.periods))
    counts = [(label, near, far, weeks) for label, (_, _, near, far, weeks) in rows]
    return Outcome(
        tables=(Table(COLUMNS, tuple(label for label, _ in rows), tuple(values for _, values in rows)),),
        verdicts={
            "mostly-near": Verdict(
                all(near > weeks / 2 for _, near, _, weeks in counts),
                ", ".join(f"{label}: {near} of {weeks} weeks" for label, near, _, weeks in counts),
            ),
            "sometimes-far": Verdict(
                all(far > 0 for _, _, far, _ in counts),
                ", ".join(f"{label}: {far} of {weeks} weeks" for label, _, far, weeks in counts),
            ),
        },
        charts=tuple(charts),
        notes=tuple(notes),
    )


def chart_of(weekly: Weekly) -> Chart:
    """Both lines."""
    columns = (weekly.periods.numbers, weekly.of("SAF").tolist(), np.min(weekly.costs, axis=0).tolist())
    return Chart(
        f"saf-and-best-{weekly.label}",
        "lines",
        ("week", "SAF", "best pure policy"),
        tuple(zip(*columns, strict=True)),
        x="week of the log",
        y="mean bsld",
        log_y=True,
    )
