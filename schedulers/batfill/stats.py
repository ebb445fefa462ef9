"""How sure a figure is: the percentile bootstrap of ratios of sums, over blocks that are drawn with replacement.

Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESAMPLES = 10_000
CONFIDENCE = 0.95
DRAWN_AT_ONCE = 5_000_000  # numbers: many blocks take more time, but no more memory


def ratio_intervals(
    sums: NDArray[np.float64],
    base: NDArray[np.float64] | NDArray[np.int64],
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = CONFIDENCE,
    by_row: bool = False,
) -> NDArray[np.float64]:
    """The ends of the confidence interval of each sum(sums[k]) / sum(base), shape (2, n_ratios): the low, the high.

    All ratios come from the same resamples, so they are paired. Blocks are taken as independent of each other; if they
    are not, as weeks that follow each other may not be, the intervals are too narrow.

    Args:
        sums: by block, shape (n_ratios, n_blocks).
        base: by block, shape (n_blocks,). The number of a block's items makes the ratio a mean over items.
        seed: of the draws.
        resamples: how often n_blocks blocks are drawn.
        level: the share of the resamples between the two ends.
        by_row: draw block by block, not how often each is drawn. Both draw from the same distribution, but by other
            random numbers: a caller keeps to one, so that its intervals stay the same from version to version. Counts
            are faster for many ratios; rows are added up alike on every computer.
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
    return np.quantile(np.concatenate(ratios), [(1 - level) / 2, (1 + level) / 2], axis=0)
