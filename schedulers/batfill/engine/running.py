"""The running jobs by expected end, the head's reservation, and the correction of estimates that jobs outlive."""

from __future__ import annotations

import numpy as np

from batfill.engine.jit import kernel, outlined
from batfill.engine.records import AWAY, NEVER_S

# Added to an expected run time when a job outlives it for the first, second, ... time; the last repeats.
# Source: Tsafrir, Etsion and Feitelson, TPDS 2007, Section 4.
CORRECTION_STEPS_S = np.array([60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000], np.float64)


@kernel
def start(now_s, queue, row):
    """Start a job that has left the queue: it takes its processors and is expected to end after its estimate."""
    job = queue.jobs[row]
    job.start_s = now_s
    job.section = AWAY
    occupy(queue, row, job.procs)


@kernel
def occupy(queue, row, procs):
    """Enter a job that has started among the running ones; `procs` is what it takes, and will release."""
    running, state = queue.running, queue.state[0]
    end_s = queue.jobs[row].start_s + queue.jobs[row].estimate_s
    i = state.running
    while i > 0 and running[i - 1].end_s > end_s:
        running[i] = running[i - 1]
        i -= 1
    running[i].end_s = end_s
    running[i].procs = procs
    running[i].row = row
    state.running += 1
    state.free -= procs


@kernel
def finish(queue, row):
    """End a running job and free its processors; returns their number."""
    running, state = queue.running, queue.state[0]
    end_s = queue.jobs[row].start_s + queue.jobs[row].estimate_s
    low, high = 0, state.running
    while low < high:
        middle = (low + high) // 2
        if running[middle].end_s < end_s:
            low = middle + 1
        else:
            high = middle
    while running[low].row != row:
        low += 1
    state.settled = 0
    procs = running[low].procs
    state.free += procs
    state.running -= 1
    for i in range(low, state.running):
        running[i] = running[i + 1]
    return procs


@kernel
def reservation(need, queue):
    """When `need` processors are expected to be free, and how many are spare then: (shadow_s, extra).

    All releases at exactly the shadow time count. If `need` is never met (machines are unavailable), the head holds
    back no job with a walltime: (NEVER_S, 0).
    """
    running, state = queue.running, queue.state[0]
    free = state.free
    k = 0
    while free < need:
        if k == state.running:
            return NEVER_S, np.int64(0)
        free += running[k].procs
        k += 1
    shadow_s = running[k - 1].end_s
    while k < state.running and running[k].end_s == shadow_s:
        free += running[k].procs
        k += 1
    return min(shadow_s, NEVER_S), free - need


@kernel
def corrected(now_s, start_s, estimate_s, corrections, request_s, limit_s):
    """The estimate at `now_s` of a job that has run since `start_s`, and how often it has been corrected by then.

    An estimate goes to `request_s` first, if it is shorter, and never beyond `limit_s`. The result depends on the try's
    first estimate and on `now_s`, not on the instants of earlier corrections.
    """
    while start_s + estimate_s <= now_s and estimate_s < limit_s:
        step_s = CORRECTION_STEPS_S[min(corrections, len(CORRECTION_STEPS_S) - 1)]
        estimate_s = min(estimate_s + step_s, request_s if estimate_s < request_s else limit_s)
        corrections += 1
    return estimate_s, corrections


@kernel
def outlast(now_s, queue, row, procs):
    """Enter a try that has reached its divider again, expected to run for its whole estimate from now on.

    `finish` has taken it out, and returned `procs`.
    """
    job, tried = queue.jobs[row], queue.tries[row]
    job.estimate_s, tried.corrections = corrected(
        now_s, job.start_s, tried.whole_estimate_s, 0, tried.request_s, tried.limit_s
    )
    occupy(queue, row, procs)


@outlined
def correct(now_s, queue):
    """Raise the estimate of every running job that was expected to have ended by `now_s`, as `corrected` does."""
    running, state = queue.running, queue.state[0]
    n = state.running
    late = 0
    while late < n and running[late].end_s <= now_s:
        late += 1
    for i in range(late):
        place = late - 1 - i
        row, procs = running[place].row, running[place].procs
        tried, start_s = queue.tries[row], queue.jobs[row].start_s
        estimate_s, tried.corrections = corrected(
            now_s, start_s, queue.jobs[row].estimate_s, tried.corrections, tried.request_s, tried.limit_s
        )
        if estimate_s == queue.jobs[row].estimate_s:
            continue
        queue.jobs[row].estimate_s = estimate_s
        end_s = start_s + estimate_s
        state.settled = 0  # the reservation may have changed
        while place + 1 < n and running[place + 1].end_s < end_s:
            running[place] = running[place + 1]
            place += 1
        running[place].end_s = end_s
        running[place].procs = procs
        running[place].row = row
