"""Grids of mixed policies on a log's periods, computed once for all entries of a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from batfill.reproduction.mixed.kept import kept_array
from batfill.tuning.periods import Conditions, costs
from batfill.tuning.search import Coverage, Features, Space, l1_grid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from batfill.reproduction.task import Task
    from batfill.tuning.periods import Periods

Units = Literal["plain", "typical"]


def space_of(units: Units, periods: Periods, n_training: int, features: Features = 3) -> Space:
    """Weights on features as they are, or divided by what is typical of the training periods."""
    return Space.of(features) if units == "plain" else Space.scaled(features, periods.part(0, n_training))


def coverage_of(task: Task, label: str, periods: Periods, setting: Conditions, space: Space, points: int) -> Coverage:
    """The grid's costs on these periods."""

    def searched() -> NDArray[np.float64]:
        with task.bar(f"periods of {label}, each under {points:,} policies", len(periods)) as advance:
            return Coverage(periods, setting, space, points, advance).costs

    asked = {"setting": setting.as_dict(), **space.as_dict(), "points": points}
    known = kept_array(task.folder / "coverage", periods, asked, (costs, Conditions, Space, l1_grid), searched)
    return Coverage(periods, setting, space, points, known=known)
