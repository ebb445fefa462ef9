"""What an agent outside the engine sees where it decides: features of the first waiting jobs and of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.base.kernels import F4, U4, Array, kernel, record
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


@record(U4, Array(F4, 2))
class Sight(NamedTuple):
    """The jobs that an agent sees of one queue; kernels change it in place."""

    rows: NDArray[np.uint32]  # (visible,)  of which the last observation has the first
    logs: NDArray[np.float32]  # (n_jobs, 2)  the binary logarithms of p~ and q of each job


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
def see_job(now_s, submit_s, expected_s, procs, log_expected, log_procs, size, free, safe, seen):
    """Write a visible job's features, FEATURES_OF_JOB, to `seen`, float32 (>= OF_JOB,).

    The arguments are what the features name, and `bits` of p~ within its limits and of q; `size` is m, and `free` the
    idle processors.
    """
    wait_s, expected_s = now_s - submit_s, within_limits(expected_s)
    share, request = np.float32(procs / size), log_expected / np.float32(20)
    seen[0] = bits(1 + wait_s / 60) / np.float32(16)
    seen[1] = bits(1 + wait_s / (10 * HOUR_S)) / np.float32(8)
    seen[2] = wait_s / (wait_s + expected_s)
    seen[3] = request
    seen[4] = log_procs / bits(size) if size > 1 else 0
    seen[5] = share
    seen[6] = request * share
    seen[7] = procs <= free
    seen[8] = safe


@kernel
def see_cluster(now_s, size, free, free_1h, free_8h, waiting, visible, work_proc_s, shadow_s, extra, seen):
    """Write the cluster's features, FEATURES_OF_CLUSTER, to `seen`, float32 (>= OF_CLUSTER,).

    The arguments are what the features name; `visible` is the most visible jobs.
    """
    seen[0] = free / size
    seen[1] = free_1h / size
    seen[2] = free_8h / size
    seen[3] = waiting / (waiting + visible)
    seen[4] = work_proc_s / (work_proc_s + size * 24 * HOUR_S)
    ahead_s = shadow_s - now_s
    seen[5] = ahead_s / (ahead_s + HOUR_S)
    seen[6] = extra / size


@kernel
def first_reserves(now_s, queue, row):
    """The reservation of the queue's first job, `row`: (shadow_s, extra); now and what it leaves idle if it fits."""
    need, free = queue.jobs[row].procs, queue.state[0].free
    if need <= free:
        return now_s, free - need
    return reservation(need, queue)


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
def see_all(now_s, queue, sight, n, of_jobs, of_cluster):
    """Write the features of the cluster and of the visible jobs, the first n of `sight.rows`.

    `of_jobs`, float32 (>= n, OF_JOB), and `of_cluster`, float32 (OF_CLUSTER,), are outputs.
    """
    rows, logs = sight.rows, sight.logs
    free, size = queue.state[0].free, queue.rules[0].procs
    shadow_s, extra = see_queue(now_s, queue, rows, n, of_cluster)
    for i in range(n):
        row, job = rows[i], queue.jobs[rows[i]]
        safe = job.procs <= free
        if i > 0:
            safe = may_backfill(now_s, job.procs, job.expected_s, free, shadow_s, extra)
        log_p, log_q = logs[row, 0], logs[row, 1]
        see_job(now_s, job.submit_s, job.expected_s, job.procs, log_p, log_q, size, free, safe, of_jobs[i])


@kernel
def see_queue(now_s, queue, rows, n, seen):
    """Write the cluster's features to `seen`; returns the reservation of the first job, (shadow_s, extra)."""
    state, size = queue.state[0], queue.rules[0].procs
    shadow_s, extra = first_reserves(now_s, queue, rows[0])
    work_proc_s = 0.0
    for i in range(n):
        job = queue.jobs[rows[i]]
        work_proc_s += within_limits(job.expected_s) * job.procs
    free_1h = state.free + released_by(queue.running, now_s + HOUR_S)
    free_8h = state.free + released_by(queue.running, now_s + 8 * HOUR_S)
    see_cluster(now_s, size, state.free, free_1h, free_8h, state.waiting, len(rows), work_proc_s, shadow_s, extra, seen)
    return shadow_s, extra
