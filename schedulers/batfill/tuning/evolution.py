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

    Cost = Callable[[Sequence[Policy]], NDArray[np.float64]]

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


class Looking:
    """Looks at points of a space, and remembers how many and the best of them."""

    def __init__(self, cost: Cost, space: Space) -> None:
        self.cost, self.space = cost, space
        self.asked = 0
        self.point = np.array([])  # none yet
        self.least = np.inf

    def at(self, points: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """What their policies cost, shape (n_points,); of equally good points the first one seen is the best."""
        values = self.cost([self.space.policy(point) for point in points])
        self.asked += len(points)
        first = int(values.argmin())
        if values[first] < self.least:
            self.point, self.least = points[first], float(values[first])
        return values

    def from_there(
        self, centre: NDArray[np.float64], sigma: float, *, seed: int, until: int, weight: float, patience: int
    ) -> None:
        """Search by xNES until so many points were looked at in all, or it has converged or finds nothing better."""
        search = XNES(on_sphere(centre), sigma, seed=seed)
        least, stale = np.inf, 0
        while self.asked < until and stale < patience and not search.should_stop():
            points = [search.ask() for _ in range(search.population_size)]
            values = self.at(points)
            search.tell([(x, float(v) + weight * penalty(x)) for x, v in zip(points, values, strict=True)])
            stale = 0 if values.min() < least else stale + 1
            least = min(least, float(values.min()))


def xnes(
    cost: Cost,
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

    The first tenth of the evaluations are pure and random policies. From each of the two best of them a search begins
    and may take a third of all evaluations: where they end in different valleys, one is often much better. What is left
    goes to searches around the best point seen so far that look less far: a sum of step functions has small valleys in
    its large ones. Where all policies are equally good, SENSIBLE is the best.

    Args:
        cost: the cost of each of several policies, shape (n,).
        space: where to search.
        seed: of all randomness.
        evaluations: how many policies to look at, at least; whole generations are.
        weight: lambda of equation 6, which the paper leaves open.
        sigma: how far xNES looks at first, from a point of L1 norm 1.
        sigma_again: how far it looks around the best point.
        patience: how many generations without anything better end a search.
    """
    rng = np.random.default_rng(seed)
    looking = Looking(cost, space)
    places = first_places(len(space.units), evaluations // 10, rng)
    order = looking.at(places).argsort(kind="stable")

    def search(centre: NDArray[np.float64], sigma: float, most: int) -> None:
        until = min(looking.asked + most, evaluations)
        looking.from_there(centre, sigma, seed=int(rng.integers(2**31)), until=until, weight=weight, patience=patience)

    for place in order[:2]:
        search(places[place], sigma, evaluations // 3)
    while looking.asked < evaluations:
        search(looking.point, sigma_again, evaluations)
    return Found(space.policy(looking.point), looking.least, looking.asked)


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
