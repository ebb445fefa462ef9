"""Amounts over time that change at dates, such as the processors in use: their sums, means and highest levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

DATE_DECIMALS = 6  # of the dates in result files; ends are sums of them


class Steps(NamedTuple):
    """`level[k]` from `at_s[k]` until `at_s[k + 1]`, and 0 before the first date."""

    at_s: NDArray[np.float64]  # (n_dates,)  ascending, each once
    level: NDArray[np.float64]  # (n_dates,)  after all that happens at the date

    @classmethod
    def of(cls, begin_s: ArrayLike, end_s: ArrayLike, amount: ArrayLike, also_s: ArrayLike = ()) -> Steps:
        """The sum of the amounts, each from its begin to its end; `also_s` are further dates at which it is known."""
        amounts = np.asarray(amount, np.float64)
        dates = [np.asarray(dates, np.float64) for dates in (begin_s, end_s, also_s)]
        at_s, place = np.unique(np.concatenate(dates).round(DATE_DECIMALS), return_inverse=True)
        change = np.concatenate([amounts, -amounts, np.zeros(len(dates[2]))])
        return cls(at_s, np.cumsum(np.bincount(place, change, len(at_s))))

    def at(self, dates_s: ArrayLike) -> NDArray[np.float64]:
        levels = np.concatenate([[0.0], self.level])
        return np.asarray(levels[np.searchsorted(self.at_s, dates_s, "right")])

    def total(self, at_s: ArrayLike) -> NDArray[np.float64]:
        """The level times how long it lasts, summed up to these dates, none of which is after the last level."""
        sums = np.cumsum(self.level[:-1] * np.diff(self.at_s))
        return np.asarray(np.interp(np.asarray(at_s), self.at_s, np.concatenate([[0.0], sums])))

    def means(self, edges_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean level between these dates, ascending; shape (n_edges - 1,)."""
        return np.diff(self.total(edges_s)) / np.diff(edges_s)

    def most(self, edges_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """The highest level between these dates, ascending; shape (n_edges - 1,)."""
        levels = np.concatenate([[0.0], self.level])  # in force until the date of this index
        begun = np.maximum.reduceat(levels, np.searchsorted(self.at_s, edges_s, "right"))[:-1]
        return np.asarray(np.maximum(begun, levels[np.searchsorted(self.at_s, edges_s[1:])]))
