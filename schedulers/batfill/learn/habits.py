"""The classifier's features: the user's request (0 if unknown), the calendar, and the user's earlier jobs.

Source: Table 4 of Zrigui et al., JPDC 2022. A user's jobs are grouped into categories: same requested time, same
processors, same day of the week. (By date, a category would never hold a job of an earlier week, and the paper's lags
see earlier weeks only.)
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from datetime import UTC
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.model.jobs import Clock

if TYPE_CHECKING:
    from datetime import datetime

    from numpy.typing import NDArray

    from batfill.learn import SubmittedJob

CATEGORIES = ("p~", "q", "day")
LAGS = 3
FEATURE_NAMES = (
    "p~",
    "q",
    "hour",
    "weekday",
    "day of month",
    "month",
    "week of year",
    "quarter",
    *(f"lag {lag} (u, {name})" for name in CATEGORIES for lag in range(1, LAGS + 1)),
    *(f"share (u, {name})" for name in CATEGORIES),
)
OWN = 8  # the features that do not depend on the divider come first
RECORD = OWN + 2 * len(CATEGORIES)  # numbers in a record
NONE_YET = -1.0  # a lag or share of a category with too few jobs
NO_CLOCK = Clock(0, UTC)  # for a workload without dates: its second 0 counts as midnight of a Thursday


class Category:
    """The run times of one category's jobs, as their classes became known; infinite while a large one still runs."""

    __slots__ = ("number", "runtime_s", "sorted_s")

    def __init__(self, number: int) -> None:
        self.number = number
        self.runtime_s: list[float] = []
        self.sorted_s: list[float] = []

    def add(self, runtime_s: float) -> int:
        self.runtime_s.append(runtime_s)
        insort(self.sorted_s, runtime_s)
        return len(self.runtime_s) - 1

    def settle(self, place: int, runtime_s: float) -> None:
        self.runtime_s[place] = runtime_s
        self.sorted_s.pop()  # its infinity, or another one
        insort(self.sorted_s, runtime_s)

    def lags(self, divider_s: float) -> list[float]:
        """Classes of the last three known jobs, newest first: 1 for small, 0 for large."""
        classes = [float(runtime_s < divider_s) for runtime_s in self.runtime_s[: -LAGS - 1 : -1]]
        return classes + [NONE_YET] * (LAGS - len(classes))

    def share(self, divider_s: float) -> float:
        return bisect_left(self.sorted_s, divider_s) / len(self.sorted_s) if self.sorted_s else NONE_YET


class Place(NamedTuple):
    """A job's own features and its categories."""

    own: list[float]  # the features that do not depend on the divider
    categories: list[Category]

    def record(self) -> list[float]:
        """What `matrix` needs to reconstruct what is known of the job now."""
        numbers = (float(category.number) for category in self.categories)
        known = (float(len(category.runtime_s)) for category in self.categories)
        return [*self.own, *numbers, *known]


class History:
    """The jobs with known class, by category."""

    def __init__(self, clock: Clock = NO_CLOCK) -> None:
        self.clock = clock
        self.categories: dict[tuple[int, str, float], Category] = {}
        self.large: dict[int, list[tuple[Category, int]]] = {}  # by row: indices of running jobs known to be large

    def found(self, job: SubmittedJob, date: datetime) -> list[Category]:
        values = (job.known_request_s, job.procs, date.weekday())
        keys = [(job.user, name, value) for name, value in zip(CATEGORIES, values, strict=True)]
        for key in keys:
            if key not in self.categories:
                self.categories[key] = Category(len(self.categories))
        return [self.categories[key] for key in keys]

    def place(self, job: SubmittedJob) -> Place:
        date = self.clock.date(job.submit_s)
        own = [
            job.known_request_s,
            float(job.procs),
            float(date.hour),
            float(date.weekday()),
            float(date.day),
            float(date.month),
            float(date.isocalendar().week),
            float((date.month + 2) // 3),
        ]
        return Place(own, self.found(job, date))

    def outlasted(self, job: SubmittedJob) -> None:
        if job.row not in self.large:
            categories = self.found(job, self.clock.date(job.submit_s))
            self.large[job.row] = [(category, category.add(math.inf)) for category in categories]

    def add(self, job: SubmittedJob, runtime_s: float) -> None:
        if job.row in self.large:
            for category, place in self.large.pop(job.row):
                category.settle(place, runtime_s)
            return
        for category in self.found(job, self.clock.date(job.submit_s)):
            category.add(runtime_s)

    def features(self, place: Place, divider_s: float) -> list[float]:
        lags = (lag for category in place.categories for lag in category.lags(divider_s))
        return [*place.own, *lags, *(category.share(divider_s) for category in place.categories)]

    def series(self) -> list[list[float]]:
        return [category.runtime_s.copy() for category in self.categories.values()]


def matrix(records: NDArray[np.float64], series: list[list[float]], divider_s: float) -> NDArray[np.float32]:
    """The features that jobs had at submission, with classes by this divider, (n_jobs, n_features).

    The divider moves; training data must not keep classes by its former values. `records`: (n_jobs, RECORD); `series`:
    the history's, taken when all of these jobs had ended, or later.
    """
    own, numbers, known = np.split(records, (OWN, OWN + len(CATEGORIES)), axis=1)
    first = np.cumsum([0, *(len(runtimes_s) for runtimes_s in series)])
    small = np.fromiter(chain.from_iterable(series), np.float64, first[-1]) < divider_s
    so_far = np.concatenate([[0], np.cumsum(small)])
    small = np.append(small, False)  # the entry that index -1 reads
    begin, n = first[numbers.astype(np.int64)], known.astype(np.int64)  # (n_jobs, n_categories)
    lags = [np.where(n >= lag, small[np.where(n >= lag, begin + n - lag, -1)], NONE_YET) for lag in range(1, LAGS + 1)]
    by_category = np.stack(lags, axis=2).reshape(len(records), -1)
    shares = np.where(n > 0, (so_far[begin + n] - so_far[begin]) / np.maximum(n, 1), NONE_YET)
    return np.column_stack([own, by_category, shares]).astype(np.float32)
