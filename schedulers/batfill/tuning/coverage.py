"""The space of mixed policies covered by a uniform grid: every point with |q| + |p~| + |w| = 1 of a given step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.tuning.costs import costs
from batfill.tuning.space import SENSIBLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from batfill.policies import Policy
    from batfill.tuning.costs import Setting
    from batfill.tuning.space import Space
    from batfill.tuning.weeks import Periods

POINTS = 10_000


def l1_grid(least: int) -> NDArray[np.float64]:
    """The grid on the L1 sphere in three dimensions with the fewest points that are at least `least`, shape (n, 3).

    The points are those whose coordinates are multiples of 1 / k: 4 k^2 + 2 of them, 10,002 for k = 50. Their order is
    fixed: by the coordinates, rising.
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
    """Searches by looking everything up: the cost of every point of the grid on every period."""

    def __init__(
        self,
        periods: Periods,
        setting: Setting,
        space: Space,
        least: int = POINTS,
        advance: Callable[[int], None] = lambda _: None,
        known: NDArray[np.float64] | None = None,
    ) -> None:
        """Replay every period under every point; `space` has 3 features, `least` and the order are `l1_grid`'s.

        `known` are the costs of an equal search before: then nothing is replayed.
        """
        self.space = space
        self.weights = l1_grid(least)
        self.policies = [space.policy(point) for point in self.weights]
        # (n_points, n_periods)
        self.costs = costs(periods, self.policies, setting, advance=advance) if known is None else known

    def best(self, first: int, stop: int) -> Policy:
        """The point with the least sum of costs over the periods from `first` to before `stop`."""
        return self.policies[self.place(first, stop)]

    def place(self, first: int, stop: int) -> int:
        """Its place in the grid; of points that are equally good (in a calm week, all) the one nearest to SENSIBLE."""
        total = self.costs[:, first:stop].sum(axis=1)
        tied = np.flatnonzero(total == total.min())
        return int(tied[np.abs(self.weights[tied] - SENSIBLE).sum(axis=1).argmin()])

    def as_dict(self) -> dict[str, object]:
        """What result files say of the search."""
        return {"method": "coverage", **self.space.as_dict(), "points": len(self.policies)}
