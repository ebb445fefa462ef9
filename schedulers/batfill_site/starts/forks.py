"""Forks of one state with drawn run times and drawn arrivals, each replayed on until the jobs asked for have started.

Kernels change `queue`, records.QueueArrays, and `events`, loop.Events, in place; `forks` is Forks. The queue has a row
for each job that waits or runs at the instant, by age, then one for each job that may still come, then unused ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.base.kernels import F8, U1, U4, Array, entry, kernel, outlined, record
from batfill.engine.ends import clear_ends, enter, next_end_s
from batfill.engine.loop import AT_START, BEFORE_START, Events, advance, next_change_s
from batfill.engine.records import AWAY, JOB, LINE, TRY, QueueArrays
from batfill.engine.running import free_all, take
from batfill.engine.waiting import dequeue, enqueue_at, section_again

if TYPE_CHECKING:
    from numpy.typing import NDArray


@record(
    *(JOB, TRY, LINE, U4, U1, Array(F8, 2)),
    *(Array(JOB, 2), Array(LINE, 2), Array(U4, 2), Array(F8, 2), Array(F8, 2), U1),
)
class Forks(NamedTuple):
    """The state at an instant, what each fork draws, and what it finds."""

    jobs: NDArray[np.void]  # JOB (known,)  those that wait or run, by age; those that run have `section` AWAY
    tries: NDArray[np.void]  # TRY (known,), or (0,) if the queue has none
    lines: NDArray[np.void]  # LINE (known,), or (0,) if the queue has none
    users: NDArray[np.uint32]  # (known,)  as QueueArrays.users, or (0,) if the queue has none
    asked: NDArray[np.uint8]  # (known,)  whether a fork goes on until this job has started
    duration_s: NDArray[np.float64]  # (forks, known)  whole run times
    coming: NDArray[np.void]  # JOB (forks, coming)  jobs submitted later, by age
    coming_lines: NDArray[np.void]  # LINE (forks, coming), or (forks, 0)
    coming_users: NDArray[np.uint32]  # (forks, coming), or (forks, 0)
    coming_s: NDArray[np.float64]  # (forks, coming)  and their run times
    start_s: NDArray[np.float64]  # (forks, known)  receives the first starts of the jobs asked for; nan for none
    short: NDArray[np.uint8]  # (forks,)  receives whether all that may come had come before the last of them started


@outlined
def begin_fork(now_s, free, changed, fork, forks, queue, events):
    """Reset queue and events to the state at `now_s`, with what this fork draws."""
    jobs, known, coming = queue.jobs, len(forks.jobs), forks.coming.shape[1]
    for row in range(len(jobs)):
        if jobs[row].section != AWAY:
            dequeue(queue, row)
    free_all(queue)
    clear_ends(queue.running)
    clear_ends(events.ends)
    queue.state[0] = AT_START[0]
    queue.state[0].free = free
    queue.state[0].changed = changed
    queue.state[0].submitted = known
    events.clock[0] = BEFORE_START[0]
    events.clock[0].now_s = now_s
    for row in range(known, len(jobs)):
        place = row - known
        if place >= coming:
            jobs[row].submit_s = np.inf
            continue
        jobs[row] = forks.coming[fork, place]
        events.duration_s[row] = forks.coming_s[fork, place]
        if len(queue.tries) > 0:
            tried, expected_s = queue.tries[row], jobs[row].expected_s
            tried.kill_after_s, tried.corrections, tried.whole_expected_s = np.inf, 0, expected_s
            tried.unpredicted_s, tried.walltime_s = expected_s, np.inf if queue.rules[0].outlived else expected_s
            if jobs[row].killable:
                jobs[row].expected_s = min(expected_s, queue.rules[0].bound_s)
        if len(queue.backfill_lines) > 0:
            queue.backfill_lines[row] = forks.coming_lines[fork, place]
        if len(queue.users) > 0:
            queue.users[row] = forks.coming_users[fork, place]
    for row in range(known):
        jobs[row] = forks.jobs[row]
        jobs[row].section = AWAY
        jobs[row].late = 0
        events.duration_s[row] = forks.duration_s[fork, row]
        if len(queue.tries) > 0:
            queue.tries[row] = forks.tries[row]
        if len(queue.backfill_lines) > 0:
            queue.backfill_lines[row] = forks.lines[row]
        if len(queue.users) > 0:
            queue.users[row] = forks.users[row]
    for row in range(known):
        job = jobs[row]
        if forks.jobs[row].section != AWAY:
            job.section = forks.jobs[row].section
            enqueue_at(now_s, queue, section_again(queue, row), row)
            continue
        enter(queue.running, job.start_s + job.expected_s, job.procs, row)
        if len(queue.wants) > 0:
            take(queue, row, -1)
        run_s = events.duration_s[row]
        if job.killable:
            run_s = min(run_s, queue.tries[row].kill_after_s)
        enter(events.ends, job.start_s + run_s, 0, row)


@kernel
def run_fork(size, stops, fork, forks, queue, events):
    """Replay on until the jobs asked for have started; returns how many have not, and why it ended.

    It ends early when all jobs have come, if `stops`.
    """
    known, start_s, clock, state = len(forks.jobs), forks.start_s[fork], events.clock[0], queue.state[0]
    left = seen = np.int64(0)
    for row in range(known):
        start_s[row] = np.nan
        left += np.int64(forks.asked[row])
    last = known + forks.coming.shape[1]
    while left > 0:
        if stops and state.submitted >= last:
            return True
        next_s = next_end_s(events.ends)
        if state.submitted < len(queue.jobs):
            next_s = min(next_s, queue.jobs[state.submitted].submit_s)
        if len(queue.changes) > 0:
            next_s = next_change_s(next_s, queue)
        if next_s == np.inf:
            return False
        advance(next_s, size, queue, events)
        while seen < clock.starts:
            started = np.int64(events.starts[seen].row)
            seen += 1
            if started < known and forks.asked[started] and np.isnan(start_s[started]):
                start_s[started] = queue.jobs[started].start_s
                left -= 1
    return False


@entry(float, int, int, int, int, Forks, QueueArrays, Events)
@outlined
def run_forks(now_s, size, free, changed, stops, forks, queue, events):
    """Run every fork on a machine of `size` processors, QUEUE.free and QUEUE.changed at `now_s` as given.

    A job's first start counts, also if it is killed at a divider.
    """
    for fork in range(len(forks.duration_s)):
        begin_fork(now_s, free, changed, fork, forks, queue, events)
        forks.short[fork] = run_fork(size, stops, fork, forks, queue, events)
