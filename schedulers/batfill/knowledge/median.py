"""The median of a growing collection."""

from __future__ import annotations

import math
from heapq import heappush, heappushpop


class RollingMedian:
    """Values come one at a time; the median costs nothing to read and O(log n) to keep."""

    def __init__(self) -> None:
        self.below: list[float] = []  # negated: a heap whose first is the largest of the lower half
        self.above: list[float] = []

    def add(self, value: float) -> None:
        """One more value."""
        if len(self.below) == len(self.above):
            heappush(self.below, -heappushpop(self.above, value))
        else:
            heappush(self.above, -heappushpop(self.below, -value))

    @property
    def value(self) -> float:
        """The median; the mean of the middle two of an even number; inf of none."""
        if not self.below:
            return math.inf
        if len(self.below) > len(self.above):
            return -self.below[0]
        return (self.above[0] - self.below[0]) / 2
