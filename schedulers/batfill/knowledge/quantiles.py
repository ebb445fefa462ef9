"""Dividers: quantiles of a growing sample, or fixed."""

from __future__ import annotations

import math
from heapq import heappop, heappush, heappushpop
from typing import TYPE_CHECKING

import numpy as np

from batfill.options import Geometric

if TYPE_CHECKING:
    from collections.abc import Sequence


class RollingQuantile:
    """One quantile of a stream of values: O(1) to read, O(log n) to update.

    It is the smallest value that at least this share of all values do not exceed; if the share falls between two
    values, their mean. At a share of one half it is the median. Of integers it is an integer or half of one.
    """

    def __init__(self, share: float) -> None:
        """`share`: between 0 and 1."""
        self.share = share
        self.below: list[float] = []  # negated: a heap whose first is the largest of the lower values
        self.above: list[float] = []

    def add(self, value: float) -> None:
        """Add a value."""
        heappush(self.above, -heappushpop(self.below, -value))
        while len(self.below) < self.share * (len(self.below) + len(self.above)):
            heappush(self.below, -heappop(self.above))

    @property
    def value(self) -> float:
        """The quantile; inf if there are no values."""
        if not self.below:
            return math.inf
        if len(self.below) > self.share * (len(self.below) + len(self.above)):
            return -self.below[0]
        return (self.above[0] - self.below[0]) / 2


class RollingQuantiles:
    """Several quantiles of the same stream."""

    def __init__(self, shares: Sequence[float]) -> None:
        """`shares`: between 0 and 1, ascending."""
        self.quantiles = [RollingQuantile(share) for share in shares]

    def add(self, value: float) -> None:
        """Add a value."""
        for quantile in self.quantiles:
            quantile.add(value)

    @property
    def values(self) -> tuple[float, ...]:
        """The quantiles; inf if there are no values."""
        return tuple(quantile.value for quantile in self.quantiles)


class FixedDividers:
    """Dividers that no run time changes."""

    def __init__(self, values: tuple[float, ...]) -> None:
        """`values`: ascending."""
        self.values = values

    def add(self, value: float) -> None:
        """Nothing changes."""


def dividers_of(levels: Sequence[float] | Geometric, seed: int = 0) -> RollingQuantiles | FixedDividers:
    """The dividers of the option `levels`; the seed has an effect on random ones."""
    return FixedDividers(levels.dividers_s(seed)) if isinstance(levels, Geometric) else RollingQuantiles(levels)


def quantiles(values: Sequence[float], shares: Sequence[float]) -> tuple[float, ...]:
    """The quantiles of these values, at least one, by the same rule."""
    return tuple(np.quantile(values, shares, method="averaged_inverted_cdf").tolist())
