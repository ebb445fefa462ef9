"""The periods of each log that an entry replays policies on: what such entries have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from batfill.policies import PURE, policy_named
from batfill.schema import Count, Seconds, Section, Text
from batfill.tuning.periods import Conditions, Periods, costs, read_periods
from batfill.workloads.splitting import Boundary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from batfill.reproduction.task import Task


class PeriodParameters(Section):
    """Which periods of which log are taken, and how they are scheduled. Logs go by the entry's labels."""

    boundary: Boundary = "submit-finish"
    days: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["month"] = 7.0
    skip: dict[Text, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)  # 0 for a log that is not named
    count: dict[Text, Count] = Field(default_factory=dict)  # all for a log that is not named
    backfill: Text = "spf"
    threshold: Seconds | None = None

    @property
    def setting(self) -> Conditions:
        """What is the same for all policies."""
        return Conditions.of(self.backfill, self.threshold)

    def periods(self, label: str, path: Path) -> Periods:
        """The periods of this log."""
        return read_periods(
            path,
            days=self.days,
            boundary=self.boundary,
            skip=self.skip.get(label, 0),
            count=self.count.get(label),
        )


class Weekly(NamedTuple):
    """What the twelve pure policies cost on one log's periods."""

    label: str
    periods: Periods
    costs: NDArray[np.float64]  # (n_policies, n_periods), mean bounded slowdowns

    def of(self, policy: str) -> NDArray[np.float64]:
        """The costs of one policy, by its name in capitals."""
        return np.asarray(self.costs[NAMES.index(policy)])


NAMES = tuple(name.upper() for name in PURE)


def weekly_costs(task: Task, parameters: PeriodParameters) -> Iterator[Weekly]:
    """The pure policies on every log at hand."""
    policies = [policy_named(name) for name in PURE]
    for label, path in task.logs.items():
        periods = parameters.periods(label, path)
        with task.bar(f"periods of {label}", len(periods)) as advance:
            yield Weekly(label, periods, costs(periods, policies, parameters.setting, advance=advance))


def described(label: str, periods: Periods) -> str:
    """How many jobs and periods there are, for a note."""
    jobs = sum(len(table) for table in periods.tables)
    word = "months" if periods.choices.get("days") == "month" else "weeks"
    return f"{label}: {jobs:,} jobs in {len(periods)} {word}, {periods.numbers[0]} to {periods.numbers[-1]} of the log."
