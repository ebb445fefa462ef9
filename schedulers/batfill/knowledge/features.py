"""What a job's class is told from: the job itself, the calendar, and its user's earlier jobs.

Source: Table 4 of Zrigui et al., JPDC 2022. A user's jobs belong together by category: same requested time, same
processors, same day of the week. (With the date for the day no job of an earlier week would ever be in the category,
and the paper's lags see earlier weeks only.)
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from datetime import UTC
from typing import TYPE_CHECKING

from batfill.workloads.clock import Clock

if TYPE_CHECKING:
    from datetime import datetime

    from batfill.knowledge import Job

CATEGORIES = ("p~", "q", "day")
LAGS = 3
NAMES = (
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
NONE_YET = -1.0  # a lag or a share of a category without so many jobs
UNLIMITED_S = 1e12  # what a job without a requested time asks for
NO_CLOCK = Clock(0, UTC)  # of a workload that does not say when it was: its second 0 counts as a Thursday's midnight


class Category:
    """The run times of the jobs in one category."""

    __slots__ = ("last", "sorted")

    def __init__(self) -> None:
        self.last: deque[float] = deque(maxlen=LAGS)  # the newest first
        self.sorted: list[float] = []

    def lags(self, divider_s: float) -> list[float]:
        """1 for small and 0 for large, of the last three jobs to end."""
        classes = [float(runtime_s < divider_s) for runtime_s in self.last]
        return classes + [NONE_YET] * (LAGS - len(classes))

    def share(self, divider_s: float) -> float:
        """How many of its jobs are small."""
        return bisect_left(self.sorted, divider_s) / len(self.sorted) if self.sorted else NONE_YET


class History:
    """The jobs that have ended, by category; `features` answers from them."""

    def __init__(self, clock: Clock = NO_CLOCK) -> None:
        self.clock = clock
        self.categories: dict[tuple[int, str, float], Category] = {}

    def keys(self, job: Job, date: datetime) -> list[tuple[int, str, float]]:
        """The job's three categories."""
        values = (job.walltime_s, job.procs, date.weekday())
        return [(job.user, name, value) for name, value in zip(CATEGORIES, values, strict=True)]

    def add(self, job: Job, runtime_s: float) -> None:
        """A job has ended."""
        for key in self.keys(job, self.clock.date(job.submit_s)):
            category = self.categories.setdefault(key, Category())
            category.last.appendleft(runtime_s)
            insort(category.sorted, runtime_s)

    def features(self, job: Job, divider_s: float) -> list[float]:
        """The job's features in the order of NAMES; classes are those by this divider."""
        date = self.clock.date(job.submit_s)
        found = [self.categories.get(key, NOTHING) for key in self.keys(job, date)]
        return [
            min(job.walltime_s, UNLIMITED_S),
            float(job.procs),
            float(date.hour),
            float(date.weekday()),
            float(date.day),
            float(date.month),
            float(date.isocalendar().week),
            float((date.month + 2) // 3),
            *(lag for category in found for lag in category.lags(divider_s)),
            *(category.share(divider_s) for category in found),
        ]


NOTHING = Category()
