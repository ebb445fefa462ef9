"""Pure policies on a log's weeks under several thresholds: Tables 3 to 6 of the 2019 study of mixed policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from batfill.policies import PURE, policy_named
from batfill.reproduction.outcome import Outcome, Table
from batfill.schema import Count, Seconds, Section, Text
from batfill.tuning.periods import Conditions, costs, read_periods
from batfill.workloads.splitting import Boundary

if TYPE_CHECKING:
    from batfill.reproduction.task import Task


class Parameters(Section):
    """Which weeks, and under what."""

    thresholds: Annotated[dict[Text, Seconds | None], Field(min_length=1)]  # by the labels of the columns
    boundaries: Annotated[list[Boundary], Field(min_length=1)]  # each is a choice
    backfill: Text = "spf"
    skip: Annotated[int, Field(ge=0)] = 0
    count: Count | None = None
    min_jobs: Count = 1


def compute(task: Task, parameters: Parameters) -> Outcome:
    """The sums over weeks of the weekly mean bounded slowdown, a row per policy and a column per threshold."""
    ((_, path),) = task.logs.items()
    policies = [policy_named(name) for name in PURE]
    tables, notes = [], []
    with task.bar("replays", len(parameters.boundaries) * len(parameters.thresholds)) as advance:
        for boundary in parameters.boundaries:
            periods = read_periods(
                path, boundary=boundary, skip=parameters.skip, count=parameters.count, min_jobs=parameters.min_jobs
            )
            columns = []
            for threshold in parameters.thresholds.values():
                setting = Conditions.of(parameters.backfill, threshold)
                columns.append(costs(periods, policies, setting).sum(axis=1).tolist())
                advance(1)
            rows = tuple(zip(*columns, strict=True))
            names = tuple(name.upper() for name in PURE)
            tables.append(Table(tuple(parameters.thresholds), names, rows, boundary))
            jobs = sum(len(table) for table in periods.tables)
            numbers = periods.numbers
            notes.append(
                f"{boundary}: {jobs:,} jobs in {len(periods)} weeks, {numbers[0]} to {numbers[-1]} of the log."
            )
    return Outcome(tuple(tables), notes=tuple(notes))
