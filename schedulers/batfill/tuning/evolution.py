"""Weights found by exponential natural evolution strategies (xNES) under the penalty of equation 6 of the 2019 study.

Source: Glasmachers et al., GECCO 2010; the steps are the `cmaes` package's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from cmaes import XNES  # type: ignore[import-untyped]

from batfill.tuning.costs import costs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.policies import Policy
    from batfill.tuning.costs import Setting
    from batfill.tuning.space import Space
    from batfill.tuning.weeks import Periods


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The best policy seen in a search."""

    policy: Policy
    cost: float  # without the penalty
    evaluations: int


def penalty(point: NDArray[np.float64]) -> float:
    """|x| + 1 / |x| in the L1 norm: least, 2, on the sphere of norm 1, so that the search keeps near it."""
    norm = float(np.abs(point).sum())
    return norm + 1 / norm if norm > 0 else np.inf


def xnes(
    cost: Callable[[Sequence[Policy]], NDArray[np.float64]],
    space: Space,
    *,
    seed: int,
    evaluations: int,
    weight: float = 1.0,
    sigma: float = 0.3,
) -> Found:
    """The best of so many policies that xNES asks about; it begins anew from another place when it has converged.

    Args:
        cost: the cost of each of several policies, shape (n,).
        space: where to search.
        seed: of all randomness.
        evaluations: how many policies to look at, at least; whole generations are.
        weight: lambda of equation 6, which the paper leaves open.
        sigma: how far the search looks at first; it begins on the sphere of L1 norm 1.
    """
    rng = np.random.default_rng(seed)
    best: Policy | None = None
    least, asked = np.inf, 0
    search: XNES | None = None
    while asked < evaluations:
        if search is None or search.should_stop():
            start = rng.normal(size=len(space.units))
            search = XNES(start / np.abs(start).sum(), sigma, seed=int(rng.integers(2**31)))
        points = [search.ask() for _ in range(search.population_size)]
        policies = [space.policy(point) for point in points]
        values = cost(policies)
        search.tell([(x, float(v) + weight * penalty(x)) for x, v in zip(points, values, strict=True)])
        asked += len(points)
        first = int(values.argmin())
        if best is None or values[first] < least:
            best, least = policies[first], float(values[first])
    assert best is not None, "at least one evaluation"
    return Found(best, least, asked)


@dataclass(frozen=True, slots=True, eq=False)
class Evolution:
    """Searches by xNES, anew for every question."""

    periods: Periods
    setting: Setting
    space: Space
    seed: int
    evaluations: int = 1000

    def best(self, first: int, stop: int) -> Policy:
        """The best policy seen for the sum of costs over the periods from `first` to before `stop`."""
        asked = self.periods.part(first, stop)

        def total(policies: Sequence[Policy]) -> NDArray[np.float64]:
            return np.asarray(costs(asked, policies, self.setting).sum(axis=1))

        seed = int(np.random.SeedSequence([self.seed, first, stop]).generate_state(1)[0])
        return xnes(total, self.space, seed=seed, evaluations=self.evaluations).policy

    def as_dict(self) -> dict[str, object]:
        """What result files say of the search."""
        return {"method": "xnes", **self.space.as_dict(), "evaluations": self.evaluations}
