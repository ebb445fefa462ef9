"""The divider: fixed, or the median of a growing sample or a part of it."""

from __future__ import annotations

import math
from heapq import heappop, heappush, heappushpop
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batfill.model.kinds import Divider


class RollingMedian:
    """The median of a stream of values: O(1) to read, O(log n) to update. Of integers it is whole or a half."""

    def __init__(self) -> None:
        self.below: list[float] = []  # negated: a heap whose first is the largest of the lower values
        self.above: list[float] = []

    def add(self, value: float) -> None:
        heappush(self.above, -heappushpop(self.below, -value))
        if len(self.below) < len(self.above):
            heappush(self.below, -heappop(self.above))

    @property
    def value(self) -> float:
        if not self.below:
            return math.inf
        if len(self.below) > len(self.above):
            return -self.below[0]
        return (self.above[0] - self.below[0]) / 2


class Divided:
    """The divider in force, as run times become known."""

    def __init__(self, divider: Divider) -> None:
        self.divider, self.median = divider, RollingMedian()

    @property
    def value(self) -> float:
        fixed_s = self.divider.fixed_s
        return fixed_s if fixed_s < math.inf else self.divider.of_median(self.median.value)
