"""The invariants of every run, as one function of arrays: plain Python for simulations, compiled for replays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from batfill.base.kernels import F8, I4, I8, outlined, record

# What is wrong with a job, by the number that `first_violation` returns; 0 is for nothing.
WRONG = (
    "",
    "starts although it runs, has ended, or is wider than the machine",
    "starts before its submission",
    "starts after a job that starts later",
    "starts on processors that others use",
    "ends twice",
    "ends after a job that ends later",
    "ends without having started, or never ends",
)
SOUND, RESTARTS, EARLY, UNORDERED, CROWDED, AGAIN, LATE, UNENDED = range(len(WRONG))


class Ran(NamedTuple):
    """What happened in a run; jobs are named by their rows."""

    submit_s: Any  # float64 (n_jobs,)
    procs: Any  # integers (n_jobs,), or what the jobs take of another pool
    owner: Any  # unsigned (n_jobs,), whose pool each takes from; (0,) if it is the machine's
    start_s: Any  # float64 (n_jobs,), of the last try; nan before its start
    end_s: Any  # float64 (n_jobs,), of the final try, known beforehand if it runs
    starts: Any  # unsigned (n_tries,), the jobs of all tries in order of start
    ended: Any  # unsigned (n_tries,), how many tries had ended before each start
    ends: Any  # unsigned (n_ended,), the jobs of the tries that have ended, in order of end
    available_s: Any  # float64 (n_dates,), dates at which the number of processors changes; the first is -inf
    available: Any  # int64 (n_dates,), the processors available from each of them on
    kill_row: Any  # unsigned (n_kills,), the jobs of the tries that were killed and requeued, in order of time
    kill_start_s: Any  # float64 (n_kills,), when these tries started,
    kill_end_s: Any  # float64 (n_kills,), and when they were killed
    cancel_s: Any  # float64 (n_jobs,), when a job that has not started leaves; (0,) if none does


@record(I4, I8, F8, F8)
class Marks(NamedTuple):
    """Memory for the check."""

    marks: Any  # int32 (n_jobs,), zeros, and with kills (4 n_jobs + n_kills,)
    used: Any  # int64 (n_owners,), zeros: what is taken of each owner's pool
    dates_s: Any  # float64 (n_ended + 1,)
    end_s: Any  # float64 (n_jobs,), unless the caller knows the ends


@outlined
def first_violation(size: Any, until_s: Any, ran: Any, scratch: Any) -> Any:
    """A violation of an invariant: (its place in WRONG, row, date); (SOUND, 0, 0.0) if there is none.

    Each job that fits runs once, without a break, from its submission at the earliest, after tries that were killed; no
    job starts on more processors than are free, which those of a window are not, or on more than there is of a user's
    pool. It is linear in the number of tries, since it is given the order of the ends, and how many came before each
    start; both are checked.

    `size`: the machine's processors, or the capacity of a pool. `until_s`: the last instant processed; inf if the run
    is over, and every job must have ended. `ran`: Ran. `scratch`: Marks; changed.
    """
    submit_s, procs, start_s, end_s, ends = ran.submit_s, ran.procs, ran.start_s, ran.end_s, ran.ends
    marks, used, dates_s = scratch.marks, scratch.used, scratch.dates_s
    n_jobs, n_kills = len(submit_s), len(ran.kill_row)
    if n_kills > 0:  # each job's kills as lists, 0 at their ends: two of them to walk through, and the last kill passed
        for kill in range(n_kills, 0, -1):
            row = ran.kill_row[kill - 1]
            marks[4 * n_jobs + kill - 1] = marks[n_jobs + row]
            marks[n_jobs + row] = kill
            marks[2 * n_jobs + row] = kill
    dates_s[0] = -np.inf
    for place in range(len(ends)):
        row = ends[place]
        date_s = end_s[row]
        if n_kills > 0 and marks[n_jobs + row] > 0:
            kill = marks[n_jobs + row] - 1
            marks[n_jobs + row] = marks[4 * n_jobs + kill]
            date_s = ran.kill_end_s[kill]
        else:
            if marks[row] != 0:
                return AGAIN, row, date_s
            marks[row] = 1
        if not date_s >= dates_s[place]:
            return LATE, row, date_s
        dates_s[place + 1] = date_s
    gone, last_s, most, change = 0, -np.inf, len(ends), 0
    for place in range(len(ran.starts)):
        row = ran.starts[place]
        date_s, width, before = start_s[row], procs[row], ran.ended[place]
        if n_kills > 0:
            passed = marks[3 * n_jobs + row] - 1
            kill = marks[2 * n_jobs + row] - 1
            if kill >= 0:
                marks[2 * n_jobs + row] = marks[4 * n_jobs + kill]
                marks[3 * n_jobs + row] = kill + 1
                date_s = ran.kill_start_s[kill]
                marks[row] -= 2
            if passed >= 0 and date_s < ran.kill_end_s[passed]:
                return RESTARTS, row, date_s
        if marks[row] >= 2 or width > size:
            return RESTARTS, row, date_s
        marks[row] += 2
        if not date_s >= submit_s[row]:
            return EARLY, row, date_s
        if date_s < last_s or not gone <= before <= most or dates_s[before] > date_s:
            return UNORDERED, row, date_s
        while gone < before:
            used[ran.owner[ends[gone]] if len(ran.owner) > 0 else 0] -= procs[ends[gone]]
            gone += 1
        owner = ran.owner[row] if len(ran.owner) > 0 else 0
        used[owner] += width
        while change + 1 < len(ran.available_s) and ran.available_s[change + 1] <= date_s:
            change += 1
        if width > 0 and used[owner] > ran.available[change]:  # of another pool a job may take nothing
            return CROWDED, row, date_s
        last_s = date_s
    for row in range(n_jobs):
        unended = marks[row] == 1 or until_s == np.inf or end_s[row] <= until_s
        unended = unended and not (marks[row] == 0 and len(ran.cancel_s) > 0 and ran.cancel_s[row] <= until_s)
        if unended and marks[row] != 3 and (marks[row] == 1 or procs[row] <= size):
            return UNENDED, row, start_s[row]
    return SOUND, 0, 0.0


def marks_for(n_jobs: int, n_kills: int, n_ends: int) -> Marks:
    n_marks = 4 * n_jobs + n_kills if n_kills else n_jobs
    marks, used = np.zeros(n_marks, np.int32), np.zeros(n_jobs + 1, np.int64)
    return Marks(marks, used, np.empty(n_ends + 1), np.empty(n_jobs))
