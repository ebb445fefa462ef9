"""Quantiles of a growing collection."""

from __future__ import annotations

import math
from heapq import heappop, heappush, heappushpop
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


class RollingQuantile:
    """Values come one at a time; the quantile costs nothing to read and O(log n) to keep.

    It is the smallest value that a share of all are not above; where the share falls between two values, their mean. So
    it is the median at a share of one half, and a whole number or a half one of whole numbers.
    """

    def __init__(self, share: float) -> None:
        """`share`: between 0 and 1."""
        self.share = share
        self.below: list[float] = []  # negated: a heap whose first is the largest of the lower values
        self.above: list[float] = []

    def add(self, value: float) -> None:
        """One more value."""
        heappush(self.above, -heappushpop(self.below, -value))
        while len(self.below) < self.share * (len(self.below) + len(self.above)):
            heappush(self.below, -heappop(self.above))

    @property
    def value(self) -> float:
        """The quantile; inf of none."""
        if not self.below:
            return math.inf
        if len(self.below) > self.share * (len(self.below) + len(self.above)):
            return -self.below[0]
        return (self.above[0] - self.below[0]) / 2


class RollingQuantiles:
    """Several quantiles of the same values."""

    def __init__(self, shares: Sequence[float]) -> None:
        """`shares`: between 0 and 1, ascending."""
        self.quantiles = [RollingQuantile(share) for share in shares]

    def add(self, value: float) -> None:
        """One more value."""
        for quantile in self.quantiles:
            quantile.add(value)

    @property
    def values(self) -> tuple[float, ...]:
        """The quantiles; inf of none."""
        return tuple(quantile.value for quantile in self.quantiles)


def quantiles(values: Sequence[float], shares: Sequence[float]) -> tuple[float, ...]:
    """The quantiles, by the same rule, of these values, of which there is one at least."""
    return tuple(np.quantile(values, shares, method="averaged_inverted_cdf").tolist())
