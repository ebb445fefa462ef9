"""Sums of figures that are the same to the last bit on every machine, and in a browser.

numpy adds in the order that suits a machine's registers, and the last bit of a sum depends on the order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.kernels import F8, Array, entry, kernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@entry(Array(F8, read=True), gives=float, brief=True)
@kernel
def add(values):
    """The sum of these, float64 (n,), in their order, with what rounding loses added at the end.

    Source: Neumaier, ZAMM 54, 1974.
    """
    found, lost = 0.0, 0.0
    for i in range(len(values)):
        value = values[i]
        after = found + value
        if abs(found) >= abs(value):
            lost += (found - after) + value
        else:
            lost += (value - after) + found
        found = after
    return found + lost if lost == lost else found  # infinite ones leave no such rest


def sum_of(values: NDArray[Any]) -> float:
    """The sum of these numbers, (n,)."""
    return float(add(np.ascontiguousarray(values, np.float64)))


def mean_of(values: NDArray[Any]) -> float:
    """The mean of these numbers, (n,); nan of none."""
    return sum_of(values) / len(values) if len(values) else math.nan


def correlation(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Pearson's coefficient of two rows of numbers that vary, (n,)."""
    x, y = one - mean_of(one), other - mean_of(other)
    return sum_of(x * y) / math.sqrt(sum_of(x * x) * sum_of(y * y))


def rank_correlation(one: ArrayLike, other: ArrayLike) -> float:
    """Spearman's coefficient of two rows of numbers, (n,); nan if one of them is constant."""
    x, y = ranks(one), ranks(other)
    return correlation(x, y) if np.ptp(x) > 0 and np.ptp(y) > 0 else math.nan


def ranks(values: ArrayLike) -> NDArray[np.float64]:
    """The rank of each value from 1, (n,); ties share their mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    found: NDArray[np.float64] = (np.cumsum(count) - (count - 1) / 2)[place]
    return found
