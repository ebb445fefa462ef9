"""Expected run times without learning a model: the user's word, clairvoyance, and the mean of the last two."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING

from batfill.knowledge import Job, Plain, Verdict
from batfill.knowledge.quantiles import RollingQuantiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class UserEstimate(Plain):
    """The requested time p~, and no class: what EASY has always used."""

    name = "user"

    def judge(self, job: Job) -> Verdict:
        """p~."""
        return Verdict(job.walltime_s, small=False)


class RuntimeClairvoyant(Plain):
    """The true run time p."""

    name = "runtime-clairvoyant"

    def __init__(self, runtime_s: NDArray[np.float64]) -> None:
        """`runtime_s`, shape (n_jobs,): p by row."""
        self.runtime_s = runtime_s

    def judge(self, job: Job) -> Verdict:
        """min(p, p~)."""
        return Verdict(min(float(self.runtime_s[job.row]), job.walltime_s), small=False)


class ClassClairvoyant(Plain):
    """The true class by rolling quantiles of the run times of all jobs that have ended, and p~ otherwise."""

    name = "class-clairvoyant"
    classifies = True

    def __init__(self, runtime_s: NDArray[np.float64], levels: Sequence[float] = (0.5,)) -> None:
        """`runtime_s`, shape (n_jobs,): p by row; `levels`: the dividers' shares of the run times, ascending."""
        self.runtime_s = runtime_s
        self.quantiles = RollingQuantiles(levels)
        self.dividers_s = self.quantiles.values

    def judge(self, job: Job) -> Verdict:
        """Small, of the first level whose divider is longer than p."""
        if self.divider_s == math.inf:
            return Verdict(job.walltime_s, small=False, probability=0.0)
        level = bisect_right(self.dividers_s, self.runtime_s[job.row]) + 1
        small = level <= len(self.dividers_s)
        return Verdict(job.walltime_s, small, float(small), level)

    def ended(self, job: Job, runtime_s: float, end_s: float) -> None:
        """One more run time is known."""
        self.quantiles.add(runtime_s)

    def renew(self, now_s: float) -> None:
        """The dividers are those of now."""
        self.dividers_s = self.quantiles.values


class LastTwo(Plain):
    """EASY++: the mean of the run times of the user's last two jobs to end, at most p~; p~ before there are two.

    Source: Tsafrir, Etsion, Feitelson, TPDS 2007.
    """

    name = "easy++"
    outlived = True

    def __init__(self) -> None:
        self.last: dict[int, deque[float]] = {}

    def judge(self, job: Job) -> Verdict:
        """The mean, of at least a second."""
        last = self.last.get(job.user, ())
        if len(last) < 2:
            return Verdict(job.walltime_s, small=False)
        return Verdict(min(max(sum(last) / 2, 1.0), job.walltime_s), small=False)

    def ended(self, job: Job, runtime_s: float, end_s: float) -> None:
        """It is one of its user's last two."""
        self.last.setdefault(job.user, deque(maxlen=2)).append(runtime_s)
