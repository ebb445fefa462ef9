"""The figures of one run's page: its longest waits, the queue over time, and the waits by width and run time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.model.jobs import DAY_S, HOUR_S
from batfill.model.metrics import RUNTIME_BINS, width_bins
from batfill.model.policy import POLICIES, reads_submission
from batfill_pages.sample import span_s, tries_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill_pages.runs import ReportedRun

LONGEST_WAITS = 10
PLAIN = {None, "request", "none"}  # values of predict and small under which the key alone orders jobs
# The bins of time, and what a page calls them; the shortest is taken that makes at most `MOST_BINS`.
TIME_BINS = {1: "second", 10: "10 seconds", 60: "minute", 600: "10 minutes", HOUR_S: "hour", 3 * HOUR_S: "3 hours"}
TIME_BINS |= {6 * HOUR_S: "6 hours", DAY_S: "day", 7 * DAY_S: "week", 28 * DAY_S: "4 weeks"}
MOST_BINS = 800


class WaitGrid(NamedTuple):
    """Waits by width (rows) and run time (columns), shapes (n_widths, n_lengths)."""

    widths: tuple[str, ...]
    lengths: tuple[str, ...]
    jobs: NDArray[np.int64]
    mean_wait_s: NDArray[np.float64]  # nan without jobs
    max_wait_s: NDArray[np.float64]  # 0 without jobs


def wait_grid(run: ReportedRun) -> WaitGrid:
    final = run.final
    widths = width_bins(run.size)
    row = np.searchsorted([one.high for one in widths], run.procs[final])
    column = np.searchsorted([one.high for one in RUNTIME_BINS], run.runtime_s[final])
    shape = len(widths), len(RUNTIME_BINS)
    cell = row * shape[1] + column
    jobs = np.bincount(cell, minlength=shape[0] * shape[1])
    wait_s = np.bincount(cell, weights=run.wait_s[final], minlength=len(jobs))
    mean_s = np.divide(wait_s, jobs, out=np.full(len(jobs), np.nan), where=jobs > 0)
    longest_s = np.zeros(len(jobs))
    np.maximum.at(longest_s, cell, run.wait_s[final])
    names = tuple(one.name for one in widths), tuple(one.name for one in RUNTIME_BINS)
    return WaitGrid(*names, jobs.reshape(shape), mean_s.reshape(shape), longest_s.reshape(shape))


class LongWait(NamedTuple):
    """One of the longest waits."""

    row: int
    later: int  # jobs submitted later that started before it
    late: int  # those of them that started when it was overdue


def longest_waits(run: ReportedRun) -> list[LongWait]:
    """The ten jobs that waited longest, of those that waited at all; of equal waits the first submitted."""
    final = np.flatnonzero(run.final)
    submit_s, start_s = run.submit_s[final], run.start_s[final]
    waited = np.flatnonzero(start_s > submit_s)
    rows = waited[np.argsort(-(start_s - submit_s)[waited], kind="stable")][:LONGEST_WAITS]
    later = [start_s[(start_s < start_s[i]) & (submit_s > submit_s[i])] - submit_s[i] for i in rows]
    late = [int((after_s > run.about.overdue_s).sum()) for after_s in later]
    return [LongWait(int(final[i]), len(later[k]), late[k]) for k, i in enumerate(rows)]


def order_share(run: ReportedRun, row: int) -> float | None:
    """The share of all jobs that the order puts before this one, by its key alone; None if keys move or are unknown.

    Keys that read the submission are left out, and runs in which something else than the request is known or predicted.
    """
    given = run.about.given
    policy = POLICIES.get(str(given.get("policy")))
    plain = {given.get("predict"), given.get("small")} <= PLAIN
    if policy is None or policy.moves or reads_submission(policy.key) or not plain:
        return None
    read_s, asked_s = run.walltime_s, run.facts.asked_s
    if given.get("overrun") == "extend":  # raises the limit alone: the order reads the request
        read_s = np.where(np.isfinite(asked_s), asked_s, read_s)
    keys, _ = policy.lines(run.submit_s, read_s, run.procs)
    return float((keys[run.final] < keys[row]).mean())


class Course(NamedTuple):
    """The queue and the machine over time, in equal bins."""

    begin_s: float
    step_s: int  # the length of a bin, a key of `TIME_BINS`
    queue: NDArray[np.int64]  # (n_bins,)  the most jobs that waited at one time
    used: NDArray[np.float64]  # (n_bins,)  mean utilisation, 0 to 1, of the part of the bin that is in the run
    longest_at_s: float  # when the queue was longest, for the first time

    @property
    def edges_s(self) -> NDArray[np.float64]:
        return self.begin_s + self.step_s * np.arange(len(self.queue) + 1.0)


def course(run: ReportedRun, span: tuple[float, float] | None = None) -> Course:
    """The run, or its part in a span of time, in bins that begin at round local times."""
    span = begin_s, end_s = span or span_s(run)
    step_s = next((step for step in TIME_BINS if end_s - begin_s <= step * MOST_BINS), max(TIME_BINS))
    clock = run.about.clock
    ahead = clock.date(begin_s).utcoffset() if clock else None
    local_s = begin_s + (clock.unix_start_s if clock else 0) + (ahead.total_seconds() if ahead else 0.0)
    first_s = begin_s - local_s % step_s
    n_bins = max(math.ceil((end_s - first_s) / step_s), 1)
    edges_s = first_s + step_s * np.arange(n_bins + 1.0)
    tries = tries_of(run)
    used = tries.using(tries.procs, edges_s).means(edges_s) / run.size
    inside_s = np.minimum(edges_s[1:], span[1]) - np.maximum(edges_s[:-1], span[0])
    waiting = tries.waiting(edges_s)
    longest_at_s = float(waiting.at_s[waiting.level.argmax()])
    return Course(first_s, step_s, waiting.most(edges_s).astype(np.int64), used * step_s / inside_s, longest_at_s)
