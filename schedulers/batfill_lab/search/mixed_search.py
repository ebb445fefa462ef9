"""Searches for a mixed policy: over a whole uniform grid, or by exponential natural evolution strategies (xNES).

A search answers one question: which policy has the least total cost on these consecutive periods? The penalty of xNES
is equation 6 of the 2019 study. Source: Glasmachers et al., GECCO 2010; the steps are the `cmaes` package's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from batfill.base.errors import optional
from batfill.model.policy import FEATURES, Policy, mixed
from batfill_lab.search.periods import costs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill_lab.search.periods import Conditions, Periods

    Cost = Callable[[Sequence[Policy]], NDArray[np.float64]]

Features = Literal[3, 6]
# Narrow, short and old jobs first, weighted equally: the default without information.
SENSIBLE = np.array([1.0, 1.0, -1.0]) / 3
POINTS = 10_000
EVALUATIONS = 1000  # a tenth of the grid's points


class Search(Protocol):
    """Finds a policy for consecutive periods."""

    def best(self, first: int, stop: int) -> Policy:
        """The policy with the least total cost on the periods from `first` up to but not including `stop`."""

    def as_dict(self) -> dict[str, object]:
        """The search, for result files."""


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Vectors of weights on the first of FEATURES: 3 for (q, p~, w), or all 6."""

    units: NDArray[np.float64]  # amount of the feature that a weight of 1 counts, shape (3,) or (6,)

    @classmethod
    def of(cls, features: Features) -> Space:
        """The papers' space: weights on the raw features, in seconds and processors."""
        return cls(np.ones(features))

    @classmethod
    def scaled(cls, features: Features, periods: Periods) -> Space:
        """Weights on features divided by their mean over these periods' jobs.

        Areas are ten thousand times as large as processor counts: with weights per second and processor, nearly all of
        a sphere orders by area alone. Waits are not known beforehand and are divided by the mean p~; the expansion
        factor is near 1 anyway.
        """
        procs = np.concatenate([jobs.procs for jobs in periods.tables])
        request_s = np.concatenate([jobs.expected_s for jobs in periods.tables])
        finite = np.isfinite(request_s)
        p, q = request_s[finite], procs[finite]
        if not len(p):
            return cls.of(features)
        units = np.array([q.mean(), p.mean(), p.mean(), (p / q).mean(), 1.0, (p * q).mean()])
        return cls(units[:features])

    def as_dict(self) -> dict[str, object]:
        return {"units": dict(zip(FEATURES, self.units.tolist(), strict=False))}

    def policy(self, point: NDArray[np.float64]) -> Policy:
        """The mixed policy of a point, shape (3,) or (6,), not all zeros."""
        weights = np.zeros(len(FEATURES))
        weights[: len(point)] = point / self.units
        return mixed(tuple((weights / np.abs(weights).sum()).tolist()))


def l1_grid(least: int) -> NDArray[np.float64]:
    """The smallest grid on the L1 sphere in three dimensions with at least `least` points, shape (n, 3).

    Its points have coordinates that are multiples of 1 / k: 4 k^2 + 2 points, 10,002 for k = 50. Their order is fixed:
    ascending by coordinates.
    """
    k = 1
    while 4 * k * k + 2 < least:
        k += 1
    points = [
        (x, y, z)
        for x in range(-k, k + 1)
        for y in range(abs(x) - k, k - abs(x) + 1)
        for z in sorted({abs(x) + abs(y) - k, k - abs(x) - abs(y)})
    ]
    return np.array(points) / k


class Coverage:
    """Evaluates the whole grid: the cost of every point on every period."""

    def __init__(
        self,
        periods: Periods,
        conditions: Conditions,
        space: Space,
        least: int = POINTS,
        advance: Callable[[int], None] = lambda _: None,
        known: NDArray[np.float64] | None = None,
    ) -> None:
        """Replay every period under at least `least` points, unless costs, (n_points, n_periods), are `known`."""
        self.space = space
        self.weights = l1_grid(least)
        self.policies = [space.policy(point) for point in self.weights]
        # (n_points, n_periods)
        self.costs = costs(periods, self.policies, conditions, advance=advance) if known is None else known

    def best(self, first: int, stop: int) -> Policy:
        return self.policies[self.place(first, stop)]

    def place(self, first: int, stop: int) -> int:
        """Its index in the grid; among equally good points (in a calm week, all) the one nearest to SENSIBLE."""
        total = self.costs[:, first:stop].sum(axis=1)
        tied = np.flatnonzero(total == total.min())
        return int(tied[np.abs(self.weights[tied] - SENSIBLE).sum(axis=1).argmin()])

    def as_dict(self) -> dict[str, object]:
        return {"method": "coverage", **self.space.as_dict(), "points": len(self.policies)}


@dataclass(frozen=True, slots=True, eq=False)
class BestSeen:
    """The best policy seen in a search."""

    policy: Policy
    cost: float  # without the penalty
    evaluations: int


def penalty(point: NDArray[np.float64]) -> float:
    """|x| + 1 / |x| in the L1 norm: least, 2, at norm 1, so that the search stays near the sphere."""
    norm = float(np.abs(point).sum())
    return norm + 1 / norm if norm > 0 else np.inf


def first_places(n_features: int, n_random: int, rng: np.random.Generator) -> list[NDArray[np.float64]]:
    """The first points to evaluate, all of L1 norm 1: SENSIBLE, every pure policy, and random directions."""
    sensible = np.pad(SENSIBLE, (0, n_features - len(SENSIBLE)))
    pure = [sign * axis for axis in np.eye(n_features) for sign in (1.0, -1.0)]
    return [sensible, *pure, *(on_sphere(rng.normal(size=n_features)) for _ in range(n_random))]


def on_sphere(point: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(point / np.abs(point).sum())


class Evaluations:
    """Evaluates points of a space, counts them and keeps the best."""

    def __init__(self, cost: Cost, space: Space) -> None:
        self.cost, self.space = cost, space
        self.evaluated = 0
        self.point = np.array([])  # none yet
        self.least = np.inf

    def at(self, points: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """The cost of each point's policy, shape (n_points,); of equally good points the first is kept as the best."""
        values = self.cost([self.space.policy(point) for point in points])
        self.evaluated += len(points)
        first = int(values.argmin())
        if values[first] < self.least:
            self.point, self.least = points[first], float(values[first])
        return values

    def around(
        self, centre: NDArray[np.float64], sigma: float, *, seed: int, until: int, weight: float, patience: int
    ) -> None:
        """Run xNES until `until` points have been evaluated in total, or it has converged or stalled."""
        search = optional("cmaes", "tune").XNES(on_sphere(centre), sigma, seed=seed)
        least, stale = np.inf, 0
        while self.evaluated < until and stale < patience and not search.should_stop():
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
) -> BestSeen:
    """The best policy that xNES evaluates.

    The first tenth of the evaluations are pure and random policies. A search starts from each of the two best and may
    use a third of all evaluations: they often end in different valleys, one much better. The remaining budget goes to
    restarts from the best point so far with a smaller sigma, because the cost is piecewise constant. If all policies
    are equally good, SENSIBLE is the best. The last generation is always completed.

    `cost` gives that of each of several policies, (n,). `weight`: lambda of equation 6, which the paper leaves open.
    `sigma`: initial step size of the first searches, around a point of L1 norm 1; `sigma_again`: of the restarts.
    `patience`: how many generations without improvement end a search.
    """
    rng = np.random.default_rng(seed)
    looked = Evaluations(cost, space)
    places = first_places(len(space.units), evaluations // 10, rng)
    order = looked.at(places).argsort(kind="stable")

    def search(centre: NDArray[np.float64], sigma: float, most: int) -> None:
        until = min(looked.evaluated + most, evaluations)
        looked.around(centre, sigma, seed=int(rng.integers(2**31)), until=until, weight=weight, patience=patience)

    for place in order[:2]:
        search(places[place], sigma, evaluations // 3)
    while looked.evaluated < evaluations:
        search(looked.point, sigma_again, evaluations)
    return BestSeen(space.policy(looked.point), looked.least, looked.evaluated)


@dataclass(frozen=True, slots=True, eq=False)
class Evolution:
    """Runs a separate xNES search for every question."""

    periods: Periods
    conditions: Conditions
    space: Space
    seed: int
    evaluations: int = EVALUATIONS

    def best(self, first: int, stop: int) -> Policy:
        """The best policy seen for the total cost over the periods from `first` up to but not including `stop`."""
        part = self.periods.part(first, stop)

        def total(policies: Sequence[Policy]) -> NDArray[np.float64]:
            return np.asarray(costs(part, policies, self.conditions).sum(axis=1))

        seed = int(np.random.SeedSequence([self.seed, first, stop]).generate_state(1)[0])
        return xnes(total, self.space, seed=seed, evaluations=self.evaluations).policy

    def as_dict(self) -> dict[str, object]:
        return {"method": "xnes", **self.space.as_dict(), "evaluations": self.evaluations}
