"""Weights found by exponential natural evolution strategies (xNES) under the penalty of equation 6 of the 2019 study.

Source: Glasmachers et al., GECCO 2010; the steps are the `cmaes` package's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from cmaes import XNES  # type: ignore[import-untyped]

from batfill.tuning.costs import costs
from batfill.tuning.space import SENSIBLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.policies import Policy
    from batfill.tuning.costs import Setting
    from batfill.tuning.space import Space
    from batfill.tuning.weeks import Periods

EVALUATIONS = 1000  # a tenth of the grid's points


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


def first_places(n_features: int, n_random: int, rng: np.random.Generator) -> list[NDArray[np.float64]]:
    """Where to look at first, all of L1 norm 1: the sensible point, every pure policy, and random directions."""
    sensible = np.pad(SENSIBLE, (0, n_features - len(SENSIBLE)))
    pure = [sign * axis for axis in np.eye(n_features) for sign in (1.0, -1.0)]
    return [sensible, *pure, *(on_sphere(rng.normal(size=n_features)) for _ in range(n_random))]


def on_sphere(point: NDArray[np.float64]) -> NDArray[np.float64]:
    """The point of L1 norm 1 in the same direction: the same policy."""
    return np.asarray(point / np.abs(point).sum())


def xnes(
    cost: Callable[[Sequence[Policy]], NDArray[np.float64]],
    space: Space,
    *,
    seed: int,
    evaluations: int,
    weight: float = 1.0,
    sigma: float = 0.3,
    sigma_again: float = 0.03,
    patience: int = 20,
) -> Found:
    """The best of so many policies, most of which xNES asks about.

    It begins at the best of the pure policies and of random ones, a tenth of all evaluations. Sums of step functions
    have many small valleys: when it has converged, or found nothing better for a while, it begins again around the
    best point seen so far, looking less far. Where all policies are equally good, SENSIBLE is the best.

    Args:
        cost: the cost of each of several policies, shape (n,).
        space: where to search.
        seed: of all randomness.
        evaluations: how many policies to look at, at least; whole generations are.
        weight: lambda of equation 6, which the paper leaves open.
        sigma: how far xNES looks at first, from a point of L1 norm 1.
        sigma_again: how far it looks when it begins again.
        patience: how many generations without anything better it takes before it does.
    """
    rng = np.random.default_rng(seed)

    def begin(sigma: float) -> XNES:
        return XNES(centre, sigma, seed=int(rng.integers(2**31)))

    points = first_places(len(space.units), evaluations // 10, rng)
    policies = [space.policy(point) for point in points]
    values = cost(policies)
    first = int(values.argmin())
    best, centre, least, asked = policies[first], points[first], float(values[first]), len(points)
    search, lowest, stale = begin(sigma), np.inf, 0
    while asked < evaluations:
        if stale == patience or search.should_stop():
            search, lowest, stale = begin(sigma_again), np.inf, 0
        points = [search.ask() for _ in range(search.population_size)]
        policies = [space.policy(point) for point in points]
        values = cost(policies)
        search.tell([(x, float(v) + weight * penalty(x)) for x, v in zip(points, values, strict=True)])
        asked += len(points)
        first = int(values.argmin())
        stale = 0 if values[first] < lowest else stale + 1
        lowest = min(lowest, float(values[first]))
        if lowest < least:
            best, centre, least = policies[first], on_sphere(points[first]), lowest
    return Found(best, least, asked)


@dataclass(frozen=True, slots=True, eq=False)
class Evolution:
    """Searches by xNES, anew for every question."""

    periods: Periods
    setting: Setting
    space: Space
    seed: int
    evaluations: int = EVALUATIONS

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
