"""The 2019 study of mixed policies on any log: w*, w*train, wgreedy, and its open question, the walk forward.

A search answers one question: which policy costs least, in sum, on these consecutive periods?

- w*        each period under the policy that is best on that very period: what could be had at most
- w*train   one policy, the best on the training periods in sum; it is only tested on the others
- wgreedy   each period under the best of the period before
- last k    each period under the best, in sum, of the k periods before: k = 1 is wgreedy
- pure k    the same among the pure policies alone, as the online choice with full feedback does
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from batfill.tuning.bootstrap import paired_ratio
from batfill.tuning.costs import costs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.policies import Policy
    from batfill.tuning.costs import Setting
    from batfill.tuning.weeks import Periods


class Search(Protocol):
    """Anything that finds a policy for consecutive periods."""

    def best(self, first: int, stop: int) -> Policy:
        """The policy that costs least, in sum, on the periods from `first` to before `stop`."""

    def as_dict(self) -> dict[str, object]:
        """What result files say of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One way to choose policies: what it chose in each period and what that cost."""

    policies: tuple[str | None, ...]  # None where it had not enough periods behind it
    costs: NDArray[np.float64]  # (n_periods,), nan where it did not choose


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Every line of a study over the same periods, the first `n_training` of which are for training."""

    lines: dict[str, Line]
    n_training: int

    def total(self, name: str, first: int, stop: int | None = None) -> float:
        """The sum of a line's costs over the periods from `first` to before `stop`."""
        return float(self.lines[name].costs[first:stop].sum())

    def sums(self) -> list[dict[str, Any]]:
        """Table 2: every line's sums over the training and testing periods (null where it cannot be known)."""

        def known(value: float) -> float | None:
            return None if np.isnan(value) else value

        rows = [
            {
                "policy": name,
                "training": known(self.total(name, 0, self.n_training)),
                "testing": known(self.total(name, self.n_training)),
            }
            for name in self.lines
        ]
        return sorted(rows, key=lambda row: (row["testing"], row["policy"]))

    def against(self, baseline: str, *, seed: int) -> dict[str, Any]:
        """Every other line's testing costs over the baseline's, with bootstrap intervals over periods."""
        base = self.lines[baseline].costs[self.n_training :]
        return {
            name: paired_ratio(line.costs[self.n_training :], base, seed=seed).as_dict()
            for name, line in self.lines.items()
            if name != baseline
        }


def study(
    periods: Periods,
    setting: Setting,
    search: Search,
    *,
    pure: Sequence[Policy],
    n_training: int,
    last: Sequence[int] = (1, 4),
    advance: Callable[[int], None] = lambda _: None,
) -> Study:
    """Compare `pure` policies with what the search finds; all choices but w* see only the periods before.

    Args:
        periods: where everything is replayed.
        setting: backfilling and threshold, the same for all.
        search: over these very periods and setting.
        pure: policies that are compared as they are.
        n_training: how many periods w*train learns from, at least the longest of `last`: sums over the others are fair.
        last: how many periods back each walk forward looks; "last 1" is called wgreedy.
        advance: told of every search done.
    """
    assert max(last, default=1) <= n_training < len(periods)
    n = len(periods)

    def found(first: int, stop: int) -> Policy:
        policy = search.best(first, stop)
        advance(1)
        return policy

    best = [found(i, i + 1) for i in range(n)]
    trained = found(0, n_training)
    chosen: dict[str, list[Policy | None]] = {"w*": [*best], "w*train": [trained] * n}
    for k in last:
        ahead = [best[i - 1] if k == 1 else found(i - k, i) for i in range(k, n)]
        chosen["wgreedy" if k == 1 else f"last {k}"] = [None] * k + ahead

    known = costs(periods, pure, setting)
    lines = {policy.name: Line((policy.name,) * n, row) for policy, row in zip(pure, known, strict=True)}
    for k in last:
        lines[f"pure {k}"] = choice_of(known, [policy.name for policy in pure], k)
    mixed_costs = np.full((len(chosen), n), np.nan)
    for i in range(n):
        now = {row: policies[i] for row, policies in enumerate(chosen.values()) if policies[i] is not None}
        mixed_costs[list(now), i] = costs(periods.part(i, i + 1), [p for p in now.values() if p], setting)[:, 0]
    for name, row in zip(chosen, mixed_costs, strict=True):
        lines[name] = Line(tuple(policy.name if policy else None for policy in chosen[name]), row)
    return Study(lines, n_training)


def choice_of(costs: NDArray[np.float64], names: Sequence[str], k: int) -> Line:
    """Each period under that policy whose costs, shape (n_policies, n_periods), were least in the k periods before."""
    n = costs.shape[1]
    chosen = [int(costs[:, i - k : i].sum(axis=1).argmin()) for i in range(k, n)]
    paid = costs[chosen, np.arange(k, n)]
    return Line((*(None,) * k, *(names[i] for i in chosen)), np.concatenate([np.full(k, np.nan), paid]))
