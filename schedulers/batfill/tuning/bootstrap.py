"""How sure a difference between two policies is, given that other periods might have come."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Ratio:
    """The sum of one policy's costs over that of another's, with a confidence interval."""

    ratio: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Better, worse, or not told apart."""
        return "better" if self.high < 1 else "worse" if self.low > 1 else "not told apart"

    def as_dict(self) -> dict[str, float | str]:
        """For result files."""
        return {**asdict(self), "verdict": self.verdict}


def paired_ratio(
    costs: NDArray[np.float64],
    baseline: NDArray[np.float64],
    *,
    seed: int,
    samples: int = 10_000,
    level: float = 0.95,
) -> Ratio:
    """sum(costs) / sum(baseline) over the same periods, each of shape (n_periods,), and its bootstrap percentiles.

    Periods are drawn with replacement, both policies' costs of a period together. Weeks that follow each other are
    taken as independent, so that the interval is too narrow where they are not.
    """
    rng = np.random.default_rng(seed)
    n = len(costs)
    ratios = np.empty(samples)
    for i in range(samples):
        drawn = rng.integers(n, size=n)
        ratios[i] = costs[drawn].sum() / baseline[drawn].sum()
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return Ratio(float(costs.sum() / baseline.sum()), float(low), float(high))
