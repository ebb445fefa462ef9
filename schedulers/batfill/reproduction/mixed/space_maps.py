"""The search space of mixed policies in weeks that follow each other: Figure 4 of the 2019 study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from batfill.reproduction.mixed.coverage import Units, coverage_of, space_of
from batfill.reproduction.mixed.periods import PeriodParameters, described
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict
from batfill.schema import Count

if TYPE_CHECKING:
    from batfill.reproduction.task import Task
    from batfill.tuning.search import Coverage

POOR = 1.5  # times the week's best
COLUMNS = ("best weight on q", "on p~", "on w", "its bsld", "bsld of the best of the week before", "median, q < 0",
           "median, q > 0")  # fmt: skip


class Parameters(PeriodParameters):
    """The grid; `skip` and `count` say which weeks."""

    units: Annotated[list[Units], Field(min_length=1)]  # of the weights; each is a choice
    points: Count = 10_002


def compute(task: Task, parameters: Parameters) -> Outcome:
    """Where each week's best point lies and what it costs in the week after, a row per week; two maps of each."""
    ((label, path),) = task.logs.items()
    periods = parameters.periods(label, path)
    tables, charts = [], []
    after: dict[str, list[float]] = {}  # the cost of last week's best point over that of the week's own
    halves: dict[str, list[float]] = {}  # the median where q > 0 over that where q < 0
    for units in parameters.units:
        space = space_of(units, periods, len(periods))
        search = coverage_of(task, label, periods, parameters.setting, space, parameters.points)
        rows = [row_of(search, i) for i in range(len(periods))]
        tables.append(Table(COLUMNS, tuple(f"week {n}" for n in periods.numbers), tuple(rows), f"{units} units"))
        after[units] = [row[4] / row[3] for row in rows if row[4] is not None and row[3]]
        halves[units] = [row[6] / row[5] for row in rows if row[6] is not None and row[5]]
        charts += [
            chart_of(search, i, f"{units}-week-{number}", side)
            for i, number in enumerate(periods.numbers)
            for side in (-1, 1)
        ]
    return Outcome(
        tables=tuple(tables),
        verdicts={
            "moves": Verdict(
                all(max(ratios, default=0) > POOR for ratios in after.values()),
                "last week's best point over the best of the week: " + listed(after),
            ),
            "narrow-first": Verdict(
                any(max(ratios) < 1 for ratios in halves.values()),
                "median slowdown where q > 0 over that where q < 0: " + listed(halves),
            ),
        },
        charts=tuple(charts),
        notes=(described(label, periods),),
    )


def row_of(search: Coverage, i: int) -> tuple[float | None, ...]:
    """What COLUMNS say of one week."""
    q, cost = search.weights[:, 0], search.costs[:, i]
    best = search.place(i, i + 1)
    before = float(cost[search.place(i - 1, i)]) if i else None
    medians = (float(np.median(cost[q < 0])), float(np.median(cost[q > 0])))
    return (*search.weights[best].tolist(), float(cost[best]), before, *medians)


def listed(ratios: dict[str, list[float]]) -> str:
    """The ratios of every choice of units."""
    return "; ".join(f"{units} {', '.join(f'{ratio:.2f}' for ratio in each)}" for units, each in ratios.items())


def chart_of(search: Coverage, column: int, name: str, side: int) -> Chart:
    """One half of the sphere, q < 0 or q > 0, seen along q; the edge between them is on both."""
    q, p, w = search.weights.T
    there = side * q >= 0
    values = zip((w - p)[there].tolist(), (w + p)[there].tolist(), search.costs[there, column].tolist(), strict=True)
    return Chart(
        f"{name}-q-{'positive' if side > 0 else 'negative'}",
        "map",
        ("w_minus_p", "w_plus_p", "mean bsld"),
        tuple(values),
        x="weight on w - weight on p~",
        y="weight on w + weight on p~",
    )
