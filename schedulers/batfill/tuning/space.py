"""Which features a search may weigh, and in which units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from batfill.policies import FEATURES, Policy, mixed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.tuning.weeks import Periods

Features = Literal[3, 6]
# Narrow, short and old jobs first, in equal parts: what is taken where nothing is known.
SENSIBLE = np.array([1.0, 1.0, -1.0]) / 3


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Vectors of weights on the first of FEATURES: 3 for (q, p~, w), or all 6."""

    units: NDArray[np.float64]  # a weight of 1 counts per so many units of the feature, shape (3,) or (6,)

    @classmethod
    def of(cls, features: Features) -> Space:
        """The papers' space: weights on the features as they are, in seconds and processors."""
        return cls(np.ones(features))

    @classmethod
    def scaled(cls, features: Features, periods: Periods) -> Space:
        """Weights on features divided by what is typical of these periods' jobs, their mean.

        Areas are ten thousand times as large as numbers of processors: where weights count per second and processor,
        all but a sliver of a sphere orders by the area alone. Waits are not known beforehand; they count per mean p~,
        and the expansion factor is near 1 as it is.
        """
        procs = np.concatenate([jobs.procs for jobs in periods.tables])
        walltime_s = np.concatenate([jobs.walltime_s for jobs in periods.tables])
        finite = np.isfinite(walltime_s)
        p, q = walltime_s[finite], procs[finite]
        if not len(p):
            return cls.of(features)
        units = np.array([q.mean(), p.mean(), p.mean(), (p / q).mean(), 1.0, (p * q).mean()])
        return cls(units[:features])

    def as_dict(self) -> dict[str, object]:
        """What result files say of it."""
        return {"units": dict(zip(FEATURES, self.units.tolist(), strict=False))}

    def policy(self, point: NDArray[np.float64]) -> Policy:
        """The mixed policy of a point, shape (3,) or (6,), not all zeros."""
        weights = np.zeros(len(FEATURES))
        weights[: len(point)] = point / self.units
        return mixed(tuple((weights / np.abs(weights).sum()).tolist()))
