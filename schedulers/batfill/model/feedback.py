"""Feedback: which jobs of a workload were submitted because others of their users had ended.

Sources: Shmueli and Feitelson, IEEE Transactions on Parallel and Distributed Systems 20(7), 2009; Zakay and Feitelson,
MASCOTS 2014, for batches, sessions and think times, and JSSPP 2012 for the usual limit of 20 minutes.

>>> feedback_of("feedback", "after:20min:fcfs")
Feedback(kind='after', within_s=1200.0, base='fcfs')
>>> feedback_of("feedback", "sessions").name
'sessions'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.errors import BatfillError
from batfill.model.values import seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from batfill.model.jobs import JobTable

LOG, AFTER, SESSIONS = KINDS = ("log", "after", "sessions")
FCFS = "fcfs"
SESSION_S = 1200.0  # the longest think time within a session
FORMS = "log, after:20min or sessions, the last two also with :fcfs at the end"
NONE = -1  # the row of no job


class Follows(NamedTuple):
    """What each job waits for before it is submitted; columns of shape (n_jobs,)."""

    preceding: NDArray[np.int64]  # the row of a job; NONE if it is submitted at its date in the log
    think_s: NDArray[np.float64]  # how long after that job's last end, >= 0

    def in_circles(self) -> NDArray[np.intp]:
        """The rows of jobs that wait for themselves through others."""
        before = self.preceding.copy()
        for _ in range(len(before).bit_length()):  # each step looks twice as far back
            before = np.where(before >= 0, before[before], NONE)
        return np.flatnonzero(before >= 0)


@dataclass(frozen=True, slots=True)
class Feedback:
    """How to find the jobs that follow others."""

    kind: str  # one of KINDS
    within_s: float = SESSION_S  # the longest think time
    base: str = LOG  # where the ends of the jobs are from: the log, or an FCFS replay of it

    @property
    def name(self) -> str:
        """As a user writes it."""
        words = [self.kind]
        if self.kind == AFTER:
            words.append(f"{self.within_s:.12g}")
        if self.base == FCFS:
            words.append(FCFS)
        return ":".join(words)

    def follows(self, jobs: JobTable, source: str, fcfs_end_s: Callable[[], NDArray[np.float64]]) -> Follows:
        """What the jobs follow.

        Args:
            jobs: the workload.
            source: what messages call it.
            fcfs_end_s: the last ends in an FCFS replay, shape (n_jobs,), the submission for a rejected job.

        Raises:
            BatfillError: the workload does not say what is needed, or jobs would wait for one another.
        """
        if self.kind == LOG:
            return stated(jobs, source)
        if len(jobs) and not (jobs.user >= 0).any():
            raise BatfillError(f"{source}: option feedback: no job has a user; leave it out, or take a log with users")
        if self.base == FCFS:
            end_s, length_s = fcfs_end_s(), np.minimum(jobs.runtime_s, jobs.walltime_s)
        else:
            if jobs.waited_s is None or (len(jobs) and np.isnan(jobs.waited_s).all()):
                raise BatfillError(
                    f"{source}: option feedback: no job has a wait, so its end in the log is unknown; take the ends of "
                    f"an FCFS replay: {self.name}:{FCFS}"
                )
            end_s, length_s = jobs.submit_s + jobs.waited_s + jobs.runtime_s, jobs.runtime_s
        # A job that takes no time, or is rejected, ends behind the submissions of its date.
        at_once = (length_s == 0) | (end_s == jobs.submit_s)
        over_s = np.where(at_once, np.nextafter(end_s, np.inf), end_s)
        preceding = last_ended(jobs, over_s) if self.kind == AFTER else last_of_batch(jobs, over_s)
        think_s = jobs.submit_s - end_s[preceding]
        preceding[~((preceding >= 0) & (think_s <= self.within_s))] = NONE
        return Follows(preceding, np.where(preceding >= 0, think_s, 0.0))


def last_ended(jobs: JobTable, over_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """The row of the job of the same user that ended last before each is submitted, shape (n_jobs,); NONE without any.

    `over_s`: from when on the job has ended; nan if unknown.
    """
    rows = np.arange(len(jobs))
    ends = np.flatnonzero((jobs.user >= 0) & ~np.isnan(over_s))
    row, user = np.concatenate([ends, rows]), np.concatenate([jobs.user[ends], jobs.user])
    order = np.lexsort((np.concatenate([over_s[ends], jobs.submit_s]), user))  # stable: at a date the ends come first
    mine = order >= len(ends)
    place = np.maximum.accumulate(np.where(mine, NONE, np.arange(len(order))))
    found, last = row[order][mine], place[mine]
    preceding = np.full(len(rows), NONE, np.int64)
    same = (last >= 0) & (user[order][last] == jobs.user[found])
    preceding[found[same]] = row[order][last[same]]
    return preceding


def last_of_batch(jobs: JobTable, over_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """The row of the job that ended last in the batch before each job's, shape (n_jobs,); NONE without any.

    A batch of a user begins with a job that is submitted when all before it have ended.
    """
    preceding = np.full(len(jobs), NONE, np.int64)
    mine = np.flatnonzero(jobs.user >= 0)
    mine = mine[np.argsort(jobs.user[mine], kind="stable")]
    if not len(mine):
        return preceding
    place = np.arange(len(mine))
    number = np.cumsum(np.diff(jobs.user[mine], prepend=jobs.user[mine[0]]) != 0)
    # Ranks of the ends, those of a later user above all of an earlier one: the largest so far is the user's last end.
    end_s = np.where(np.isnan(over_s), -np.inf, over_s)[mine]
    in_order = np.lexsort((mine, end_s))
    rank = np.empty(len(mine), np.int64)
    rank[in_order] = place
    latest = np.maximum.accumulate(number * len(mine) + rank)
    before = np.where(np.diff(number, prepend=-1) != 0, NONE, np.concatenate([[NONE], latest[:-1]]))
    last = np.where(before >= 0, in_order[before % len(mine)], NONE)  # places in `mine`
    begins = (last < 0) | (end_s[last] <= jobs.submit_s[mine])
    began = np.maximum.accumulate(np.where(begins, place, 0))  # the place of each job's batch's first job
    last = last[began]
    known = (last >= 0) & np.isfinite(end_s[last])
    preceding[mine[known]] = mine[last[known]]
    return preceding


def stated(jobs: JobTable, source: str) -> Follows:
    """What the jobs follow by the log's own fields, Preceding Job Number and Think Time from Preceding Job.

    Raises:
        BatfillError: there are none, or a job follows a missing one, or itself through others.
    """
    if jobs.preceding is None or jobs.think_s is None:
        raise BatfillError(
            f"{source}: option feedback: no job names a preceding job (SWF field 17); choose after:20min or sessions"
        )
    rows = np.flatnonzero(jobs.preceding >= 0)
    numbers = jobs.ids.astype(np.int64)
    in_order = np.argsort(numbers, kind="stable")
    place = np.minimum(np.searchsorted(numbers, jobs.preceding[rows], sorter=in_order), len(numbers) - 1)
    found = in_order[place]
    if (missing := rows[numbers[found] != jobs.preceding[rows]]).size:
        first = missing[0]
        raise BatfillError(
            f"{source}: option feedback: {len(missing)} of {len(jobs)} jobs follow one that is missing (first: job "
            f"{jobs.ids[first]}, which follows {jobs.preceding[first]}); choose after:20min or sessions"
        )
    preceding = np.full(len(jobs), NONE, np.int64)
    preceding[rows] = found
    follows = Follows(preceding, np.where(preceding >= 0, np.maximum(jobs.think_s, 0.0), 0.0))
    if (circular := follows.in_circles()).size:
        raise BatfillError(
            f"{source}: option feedback: {len(circular)} of {len(jobs)} jobs wait for one another in a circle (first: "
            f"job {jobs.ids[circular[0]]}); choose after:20min or sessions"
        )
    return follows


def feedback_of(name: str, value: Any) -> Feedback:
    """The feedback that a text names, as after:20min:fcfs."""
    if isinstance(value, Feedback):
        return value
    kind, *rest = str(value).strip().lower().split(":")
    base = FCFS if rest[-1:] == [FCFS] and kind != LOG else LOG
    if base == FCFS:
        del rest[-1]
    if kind not in KINDS or len(rest) != (kind == AFTER):
        raise BatfillError(f"option {name}: {value!r} is none of none, {FORMS}")
    return Feedback(kind, seconds_of(name, rest[0]) if rest else SESSION_S, base)
