"""Uncertainty: bootstrap intervals, least squares with standard errors, and rank correlation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

RESAMPLES = 10_000
CONFIDENCE = 0.95
DRAWN_AT_ONCE = 5_000_000  # numbers; bounds the memory for many blocks


def ratio_intervals(
    sums: NDArray[np.float64],
    base: NDArray[np.float64] | NDArray[np.int64],
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = CONFIDENCE,
    by_row: bool = False,
) -> NDArray[np.float64]:
    """Confidence interval of each sum(sums[k]) / sum(base), shape (2, n_ratios): lower ends, upper ends.

    All ratios use the same resamples, so they are paired. Blocks are assumed independent; if they are not, as
    consecutive weeks may not be, the intervals are too narrow.

    Args:
        sums: by block, shape (n_ratios, n_blocks).
        base: by block, shape (n_blocks,). With the number of a block's items, the ratio is a mean over items.
        seed: of the resampling.
        resamples: number of resamples of n_blocks blocks.
        level: the share of the resamples between the two ends.
        by_row: draw block by block, rather than how often each block is drawn. The distribution is the same, the
            random numbers are not: a caller must keep to one so that its intervals stay the same between versions.
            Counts are faster for many ratios; rows are summed in the same order on every computer.
    """
    rng = np.random.default_rng(seed)
    n = len(base)
    at_once = max(1, DRAWN_AT_ONCE // n)
    ratios = []
    for first in range(0, resamples, at_once):
        size = min(at_once, resamples - first)
        drawn: NDArray[Any]
        if by_row:
            drawn = rng.integers(n, size=(size, n))
            ratios.append((sums[:, drawn].sum(axis=2) / base[drawn].sum(axis=1)).T)
        else:
            drawn = rng.multinomial(n, np.full(n, 1 / n), size).astype(np.float64)
            ratios.append((drawn @ sums.T) / (drawn @ base)[:, None])
    return np.asarray(np.quantile(np.concatenate(ratios), [(1 - level) / 2, (1 + level) / 2], axis=0))


def least_squares(
    design: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The coefficients that minimise sum(weights * (y - design @ coefficients)^2), and their standard errors.

    If columns are linearly dependent, it is the shortest such vector.

    Args:
        design: shape (n, k), scaled so that its columns have similar magnitudes.
        y: shape (n,).
        weights: shape (n,), inversely proportional to the variances of the errors.
    """
    root = np.sqrt(weights)
    x, y = root[:, None] * design, root * y
    inverse = np.linalg.pinv(x)
    coefficients = inverse @ y
    left = y - x @ coefficients
    rank = np.linalg.matrix_rank(x, rtol=x.shape[1] * np.finfo(float).eps)
    variance = left @ left / (len(y) - rank)
    return coefficients, np.sqrt(np.diagonal(inverse @ inverse.T) * variance)


def variance_inflation(design: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 - R^2) of each column of `design` on all others, shape (k - 1,): the first, a constant, has none.

    A constant column has 1, or nan if the others explain it to the last bit. Source: Marquardt, Technometrics 1970.

    Args:
        design: shape (n, k).
    """
    spread = design.std(axis=0)
    varies = spread > 1e-10
    standard = np.where(varies, (design - design.mean(axis=0)) / np.where(varies, spread, 1), design)
    factors = []
    for k in range(1, design.shape[1]):
        y, others = standard[:, k], standard[:, np.arange(design.shape[1]) != k]
        left, centred = y - others @ (np.linalg.pinv(others) @ y), y - y.mean()
        with np.errstate(divide="ignore", invalid="ignore"):
            explained = 1 - left @ left / (centred @ centred)
        factors.append(1 / (1 - np.clip(explained, 0, 1 - 1e-15)))  # at most about 1e15, the limit of rounding
    return np.array(factors)


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
