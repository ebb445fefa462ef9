"""The search space of mixed policies in weeks that follow each other: Figure 4 of the 2019 study."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.campaign.config import Count
from batfill.reproduction.mixed.coverage import Units, coverage_of, space_of
from batfill.reproduction.mixed.periods import PeriodParameters, described
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict

if TYPE_CHECKING:
    from batfill.reproduction.task import Task
    from batfill.tuning.coverage import Coverage

COLUMNS = ("best weight on q", "on p~", "on w", "its bsld", "bsld of the best of the week before", "median, q < 0",
           "median, q > 0")  # fmt: skip


class Parameters(PeriodParameters):
    """The grid; `skip` and `count` say which weeks."""

    units: Units = "plain"
    points: Count = 10_002


def compute(task: Task, parameters: Parameters) -> Outcome:
    """Where each week's best point lies and what it costs in the week after, a row per week; two maps of each."""
    ((label, path),) = task.logs.items()
    periods = parameters.periods(label, path)
    space = space_of(parameters.units, periods, len(periods))
    search = coverage_of(task, label, periods, parameters.setting, space, parameters.points)
    q = search.weights[:, 0]
    rows: list[tuple[float | None, ...]] = []
    after, narrow_first = [], True
    for i in range(len(periods)):
        cost = search.costs[:, i]
        best = search.place(i, i + 1)
        before = float(cost[search.place(i - 1, i)]) if i else None
        if before is not None:
            after.append(before / float(cost[best]))
        wide, narrow = float(np.median(cost[q < 0])), float(np.median(cost[q > 0]))
        narrow_first = narrow_first and narrow <= wide
        rows.append((*search.weights[best].tolist(), float(cost[best]), before, wide, narrow))
    return Outcome(
        tables=(Table(COLUMNS, tuple(f"week {number}" for number in periods.numbers), tuple(rows)),),
        verdicts={
            "moves": Verdict(
                max(after, default=1) > 1.5,
                "in the next week the best point costs "
                + ", ".join(f"{ratio:.2f}" for ratio in after)
                + " times that week's best",
            ),
            "narrow-first": Verdict(narrow_first, "the medians over both halves are in the table"),
        },
        charts=tuple(chart_of(search, i, number, side) for i, number in enumerate(periods.numbers) for side in (-1, 1)),
        notes=(described(label, periods),),
    )


def chart_of(search: Coverage, column: int, number: int, side: int) -> Chart:
    """One half of the sphere, q < 0 or q > 0, seen along q; the edge between them is on both."""
    q, p, w = search.weights.T
    there = side * q >= 0
    values = zip((w - p)[there].tolist(), (w + p)[there].tolist(), search.costs[there, column].tolist(), strict=True)
    return Chart(
        f"week-{number}-q-{'positive' if side > 0 else 'negative'}",
        "map",
        ("w_minus_p", "w_plus_p", "mean bsld"),
        tuple(values),
        x="weight on w - weight on p~",
        y="weight on w + weight on p~",
    )
