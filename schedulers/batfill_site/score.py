"""How far simulated waits are from those in a log.

The error is the mean absolute percentage error of moving means: at each hour, the mean wait of the jobs submitted
within a week before or after it, simulated and logged; near the ends of the log of fewer jobs.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import WorkloadError
from batfill.base.sums import rank_correlation
from batfill.base.words import percent as in_percent
from batfill.model.jobs import HOUR_S, WEEK_S, Jobs
from batfill.workloads.swf import job_rows
from batfill.workloads.swf_log import SwfLog
from batfill_pages.words import id_in_log
from batfill_site.answer import duration

FEWEST_JOBS, LEAST_WAIT_S = 50, 60.0  # of a moving mean that is compared
LEAST_SHARE = 0.01  # of the jobs, for a partition or queue to count
LEAST_GAIN = 0.1  # of the error, that a factor must take away
FAR = 3.0  # see `Score.unlike`
LOW_RANK = 0.25  # the rank correlation below which confidence in advice is low
UNEVEN = 1.25  # between narrow and wide jobs, how many times the ratio of one is the other's, to be said
UNLIKE = "the simulation does not show this site's waits"


class Whose(NamedTuple):
    """Whose the longest wait in a log is."""

    job: str
    user: int | str | None  # None if unknown

    def __str__(self) -> str:
        return f"job {self.job}" + ("" if self.user is None else f", user {self.user}")

    @classmethod
    def of(cls, jobs: Jobs, row: int) -> Whose:
        user = int(jobs.user[row])
        return cls(id_in_log(jobs.ids[row], jobs.name), user if user >= 0 else None)

    def as_dict(self) -> dict[str, int | str | None]:
        return {"longest_job": self.job, "longest_user": self.user}


class Score(NamedTuple):
    """Simulated waits against the logged ones of the same jobs. Times in seconds; None: cannot be computed."""

    jobs: int
    error: float | None  # see the module; None if no moving mean counts
    simulated_mean_s: float
    logged_mean_s: float
    ratio: float | None  # of these
    rank_correlation: float | None
    simulated_longest_s: float
    logged_longest_s: float
    off_s: float  # the mean distance of a job's simulated wait from its logged one
    narrow: float | None = None  # the ratio of the jobs that are at most as wide as half of them,
    wide: float | None = None  # and of the others

    def __str__(self) -> str:
        return "; ".join(filter(None, [self.near, self.by_width]))

    @property
    def near(self) -> str:
        said = f"{ratio_text(self.ratio)} of the real ones, and a job's is off by {duration(self.off_s)}, on average"
        rank = f"rank correlation {ratio_text(self.rank_correlation)} (1: the same jobs wait longest, 0: chance)"
        return said if self.rank_correlation is None else f"{said}; {rank}"

    @property
    def by_width(self) -> str:
        """Where narrow and wide jobs differ, how."""
        if self.narrow is None or self.wide is None:
            return ""
        said = f"narrow jobs have {ratio_text(self.narrow)} of theirs, the wider half {ratio_text(self.wide)}"
        return said * uneven(self.narrow, self.wide)

    def unlike(self, far: float = FAR, least: float = -1.0) -> str | None:
        """Why the simulated waits are not the site's, so that no answer rests on them; None if they may be.

        They are not if their mean is over so many times the logged one or less than that part of it, or if jobs rank
        otherwise by them. Waits of under a minute on average, in both, need no likeness.
        """
        if max(self.logged_mean_s, self.simulated_mean_s) < LEAST_WAIT_S:
            return None
        if not 1 / far <= (math.inf if self.ratio is None else self.ratio) <= far:
            means = f"{duration(self.simulated_mean_s)} on average, and {duration(self.logged_mean_s)} in the log"
            return f"{UNLIKE}: simulated ones are {means}"
        if self.rank_correlation is not None and self.rank_correlation < least:
            return f"{UNLIKE}: other jobs wait than in the log (rank correlation under {least:g})"
        return None


def percent(share: float | None) -> str:
    return "-" if share is None else in_percent(share)


def uneven(*ratios: float) -> bool:
    return max(ratios) > UNEVEN * min(ratios)


def ratio_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def score(
    submit_s: NDArray[np.float64],
    logged_s: NDArray[np.float64],
    simulated_s: NDArray[np.float64],
    procs: NDArray[np.int64],
) -> Score:
    logged, simulated, off_s = float(logged_s.mean()), float(simulated_s.mean()), np.abs(simulated_s - logged_s)
    wide = procs > np.median(procs)
    sums = [(float(simulated_s[rows].sum()), float(logged_s[rows].sum())) for rows in (~wide, wide)]
    varied = len(submit_s) > 1 and logged_s.std() > 0 and simulated_s.std() > 0
    return Score(
        len(submit_s),
        error_of(submit_s, logged_s, simulated_s),
        simulated,
        logged,
        simulated / logged if logged > 0 else None,
        rank_correlation(logged_s, simulated_s) if varied else None,
        float(simulated_s.max()),
        float(logged_s.max()),
        float(off_s.mean()),
        *(one / of if of else None for one, of in sums),
    )


def error_of(
    submit_s: NDArray[np.float64], logged_s: NDArray[np.float64], simulated_s: NDArray[np.float64]
) -> float | None:
    """Percentage error of moving means; None if none has `FEWEST_JOBS` and waits over a minute."""
    if not len(submit_s):
        return None
    at_s = np.arange(submit_s[0], submit_s[-1] + 1, HOUR_S)
    first, beyond = np.searchsorted(submit_s, at_s - WEEK_S), np.searchsorted(submit_s, at_s + WEEK_S, side="right")
    jobs = beyond - first

    def means(wait_s: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.append(0, np.cumsum(wait_s))
        mean: NDArray[np.float64] = (sums[beyond] - sums[first]) / np.maximum(jobs, 1)
        return mean

    logged, simulated = means(logged_s), means(simulated_s)
    counts = (jobs >= FEWEST_JOBS) & (logged > LEAST_WAIT_S)
    return float((np.abs(simulated - logged)[counts] / logged[counts]).mean()) if counts.any() else None


UNKNOWN_WAIT = -1


class Logged(NamedTuple):
    """A log with waits, and what of it the job table does not have; columns in the table's order."""

    where: Path | str
    log: SwfLog
    workload: Jobs
    wait_s: NDArray[np.float64]  # nan for unknown
    queue: NDArray[np.int64]  # -1 for unknown, as in
    partition: NDArray[np.int64]

    @property
    def size(self) -> int:
        assert self.workload.size is not None
        return self.workload.size

    def compared(self, wait_s: NDArray[np.float64], rows: NDArray[np.bool_] | bool = True) -> NDArray[np.bool_]:
        """Those of the rows that have a wait in the log and in a replay."""
        return ~np.isnan(self.wait_s) & ~np.isnan(wait_s) & rows

    @property
    def first_half(self) -> NDArray[np.bool_]:
        """The first half of the jobs; the second begins with a submission."""
        submit_s = self.workload.jobs.submit_s
        first: NDArray[np.bool_] = submit_s < submit_s[len(submit_s) // 2]
        return first

    def longest(self, replayed_s: float) -> str:
        """Whose wait is the log's longest, if that of the jobs that are replayed is shorter."""
        row = int(np.nanargmax(self.wait_s))
        longest = f"{duration(self.wait_s[row])} ({Whose.of(self.workload, row)})"
        return f"the log's longest wait is {longest}, not of these jobs" * bool(self.wait_s[row] > replayed_s)

    def score(self, wait_s: NDArray[np.float64], rows: NDArray[np.bool_] | bool = True) -> Score:
        rows = self.compared(wait_s, rows)
        jobs = self.workload.jobs
        return score(jobs.submit_s[rows], self.wait_s[rows], wait_s[rows], jobs.procs[rows])

    def select(self, rows: NDArray[np.bool_]) -> Logged:
        """These of the jobs, and the whole log."""
        columns = self.wait_s[rows], self.queue[rows], self.partition[rows]
        return Logged(self.where, self.log, self.workload.select(rows), *columns)


def logged_of(workload: Jobs, log: SwfLog, where: Path | str) -> Logged:
    """The log of a workload with its waits; WorkloadError if they are not a site's, or one is negative."""
    ran = job_rows(Path(where), log)
    kept = ran.row
    wait_s, jobs = log["wait_s"][kept], f"{len(kept):,} jobs that ran"
    below = (wait_s < 0) & (wait_s != UNKNOWN_WAIT)
    if below.any():
        row = int(np.argmax(below))
        raise WorkloadError(
            f"{where}: {int(below.sum()):,} of {jobs} have a negative wait (first: job {ran.number[row]}, "
            f"{wait_s[row]:g} s); correct or drop them, or write -1 for unknown"
        )
    waited = wait_s > 0
    why = log.unlogged
    if why is None and (not waited.any() or (workload.jobs.procs[waited] > (workload.size or 0)).all()):
        why = f"none of the log's {jobs} has a wait above 0"
    if why is not None:
        raise WorkloadError(f"{where}: {why}, so how near simulated waits are to the site's cannot be known")
    places = (log[name][kept].astype(np.int64) for name in ("queue", "partition"))
    unknown = (wait_s == UNKNOWN_WAIT) | log.left[kept]
    return Logged(where, log, workload, np.where(unknown, np.nan, wait_s), *places)
