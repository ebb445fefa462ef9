"""What an agent outside the engine sees where it decides: features of the first waiting jobs and of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.base.kernels import F4, I1, U4, Array, kernel, record
from batfill.engine.blocks import BLOCK
from batfill.engine.ends import ONE
from batfill.engine.motion import UNLIMITED_S
from batfill.engine.running import may_backfill, reservation

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOUR_S = 3600.0

# Of a visible job, in this order. w: its wait, p~: its expected run time, at least a second; q: its processors; m: the
# machine's. The logarithms are binary.
FEATURES_OF_JOB = {
    "wait": "log(1 + w / 1 min) / 16",
    "long_wait": "log(1 + w / 10 h) / 8",
    "expansion": "w / (w + p~)",
    "request": "log(p~) / 20",
    "procs": "log(q) / log(m), 0 on a machine of one processor",
    "share": "q / m",
    "request_x_share": "log(p~) / 20 x q / m",
    "fits": "1 if q processors are idle",
    "safe": "1 if its start would not delay the first job of the queue",
}
# Of the cluster. The first job is that of the queue's order: s its shadow time, or now if it fits.
FEATURES_OF_CLUSTER = {
    "free": "idle processors / m",
    "free_1h": "processors expected to be idle within 1 h / m, if nothing starts",
    "free_8h": "the same within 8 h",
    "waiting": "n / (n + the most visible jobs), for n waiting jobs",
    "work": "A / (A + m x 24 h), where A is the sum of p~ q over the visible jobs",
    "shadow": "(s - now) / (s - now + 1 h)",
    "extra": "processors spare at s, besides the first job / m",
}
OF_JOB, OF_CLUSTER = len(FEATURES_OF_JOB), len(FEATURES_OF_CLUSTER)


@record(U4, Array(F4, 2), Array(F4, 2), F4, I1)
class Sight(NamedTuple):
    """What an agent sees of a queue; kernels change it in place."""

    rows: NDArray[np.uint32]  # (visible,)  the jobs, of which the last observation has the first
    logs: NDArray[np.float32]  # (n_jobs, 2)  the binary logarithms of p~ and q of each job
    jobs: NDArray[np.float32]  # (visible, OF_JOB)  zeros beyond the visible jobs
    cluster: NDArray[np.float32]  # (OF_CLUSTER,)
    mask: NDArray[np.int8]  # (visible,), with one more for "backfill": the last action is to backfill no more


@kernel
def first_waiting(queue, rows):
    """Write the visible jobs to `rows`, uint32 (most visible,), in the queue's order; returns their number.

    The queue must not be empty, its order fixed, and no job overdue.
    """
    blocks = queue.blocks
    section = 0
    while blocks.sections[section].jobs == 0:
        section += 1
    n = 0
    for place in range(blocks.sections[section].blocks):
        block = blocks.order[section, place]
        for slot in range(block * BLOCK, block * BLOCK + blocks.nodes[block].count):
            if n == len(rows):
                return n
            rows[n] = blocks.slots[slot].row
            n += 1
    return n


@kernel
def note_logs(queue, logs):
    """Write the logarithms of all jobs to `Sight.logs`; expected run times must not change from now on."""
    for row in range(len(logs)):
        job = queue.jobs[row]
        logs[row, 0] = bits(within_limits(job.expected_s))
        logs[row, 1] = bits(job.procs)


@kernel
def bits(number):
    """The binary logarithm, float32, of a number >= 1."""
    return np.log2(np.float32(number))


@kernel
def within_limits(expected_s):
    """The p~ of the features."""
    return min(max(expected_s, 1.0), UNLIMITED_S)


@kernel
def released_by(ends, until_s):
    """How many processors are released up to and including `until_s`."""
    directory, slots = ends.directory, ends.slots
    procs = np.int64(0)
    for place in range(np.int64(ends.used[0].blocks) - 1, -1, -1):
        block = directory[np.uint64(place)]
        if block.count > 0 and slots[block.first].end_s <= until_s:
            procs += block.procs
            continue
        slot = block.first + block.count
        while slot > block.first and slots[slot - ONE].end_s <= until_s:
            slot -= ONE
            procs += slots[slot].procs
        break
    return procs


@kernel
def see_all(now_s, queue, sight, n):
    """Write FEATURES_OF_CLUSTER, and FEATURES_OF_JOB of the visible jobs, the first n of `sight.rows`, to `sight`."""
    state, rows, seen = queue.state[0], sight.rows, sight.cluster
    free, size, work_proc_s = state.free, queue.rules[0].procs, 0.0
    need = queue.jobs[rows[0]].procs  # the reservation of the first job: now, and what it leaves idle, if it fits
    shadow_s, extra = (now_s, free - need) if need <= free else reservation(need, queue)
    for i in range(n):
        work_proc_s += within_limits(queue.jobs[rows[i]].expected_s) * queue.jobs[rows[i]].procs
    ahead_s = shadow_s - now_s
    seen[0] = free / size
    seen[1] = (free + released_by(queue.running, now_s + HOUR_S)) / size
    seen[2] = (free + released_by(queue.running, now_s + 8 * HOUR_S)) / size
    seen[3] = state.waiting / (state.waiting + len(rows))
    seen[4] = work_proc_s / (work_proc_s + size * 24 * HOUR_S)
    seen[5] = ahead_s / (ahead_s + HOUR_S)
    seen[6] = extra / size
    for i in range(n):
        job, of_job = queue.jobs[rows[i]], sight.jobs[i]
        wait_s, expected_s = now_s - job.submit_s, within_limits(job.expected_s)
        share, request = np.float32(job.procs / size), sight.logs[rows[i], 0] / np.float32(20)
        safe = job.procs <= free
        if i > 0:
            safe = may_backfill(now_s, job.procs, job.expected_s, free, shadow_s, extra)
        of_job[0] = bits(1 + wait_s / 60) / np.float32(16)
        of_job[1] = bits(1 + wait_s / (10 * HOUR_S)) / np.float32(8)
        of_job[2] = wait_s / (wait_s + expected_s)
        of_job[3] = request
        of_job[4] = sight.logs[rows[i], 1] / bits(size) if size > 1 else 0
        of_job[5] = share
        of_job[6] = request * share
        of_job[7] = job.procs <= free
        of_job[8] = safe
