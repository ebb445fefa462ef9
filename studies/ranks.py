"""Rank correlation, by which the studies compare orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rank of each value from 1, shape (n,); ties share their mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray((last - (count - 1) / 2)[place], np.float64)


def rank_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Spearman's coefficient of two sequences of shape (n,); nan if one of them is constant."""
    x, y = (ranks(np.asarray(values, np.float64)) for values in (first, second))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])
