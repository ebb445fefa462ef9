"""Picks: a network, or an agent outside the engine, chooses the next job instead of the queue's order.

A decision by picks goes as follows. While processors are idle, one of the visible jobs is picked: the first jobs of the
queue's first section that is not empty, or only the very first if these are overdue. If the picked job fits, it starts,
and the next is picked. If it does not fit, it is the head: it gets the reservation, and the others are backfilled as
ever (`easy.py`), which ends the decision. So the rule of EASY stays; only the order is chosen.

A pick may depend on what `features.py` lists. A network scores every visible job by its own features and those of the
cluster; the highest score is picked, of equal ones the first in the queue's order.
"""

from __future__ import annotations

import numpy as np

from batfill.engine.ends import released_by
from batfill.engine.features import FEATURES, OF_CLUSTER, OF_JOB
from batfill.engine.jit import expression, kernel, outlined
from batfill.engine.motion import UNLIMITED_S
from batfill.engine.running import may_backfill, reservation
from batfill.engine.tree import LEAF, first_slot

HOUR_S = 3600.0


@kernel
def first_waiting(queue, rows):
    """Write the visible jobs to `rows`, uint32 (most visible,), in the queue's order; returns their number.

    The queue must not be empty, and its order fixed.
    """
    tree = queue.tree
    section = 0
    while tree.sections[section].jobs == 0:
        section += 1
    if section == queue.rules[0].overdue:
        rows[0] = tree.slots[first_slot(tree, section)].row
        return 1
    n = 0
    for group_place in range(tree.sections[section].groups):
        group = tree.groups[section, group_place]
        for leaf_place in range(tree.nodes[group].count):
            leaf = tree.children[group, leaf_place]
            for slot in range(leaf * LEAF, leaf * LEAF + tree.nodes[leaf].count):
                if n == len(rows):
                    return n
                rows[n] = tree.slots[slot].row
                n += 1
    return n


@kernel
def note_logs(queue):
    """Write the logarithms of all jobs, whose expected run times must not change from now on."""
    for row in range(len(queue.picks.logs)):
        job = queue.jobs[row]
        queue.picks.logs[row, 0] = bits(within_limits(job.expected_s))
        queue.picks.logs[row, 1] = bits(job.procs)


@expression
def bits(number):
    """The binary logarithm, float32, of a number >= 1."""
    return np.log2(np.float32(number))


@expression
def within_limits(expected_s):
    """The p~ of the features."""
    return min(max(expected_s, 1.0), UNLIMITED_S)


@kernel
def see_job(now_s, submit_s, expected_s, procs, size, free, safe, seen):
    """Write a visible job's features, FEATURES_OF_JOB, to `seen`, float32 (>= OF_JOB,).

    The arguments are what the features name; `size` is m, and `free` the idle processors.
    """
    see_known(now_s, submit_s, expected_s, procs, bits(within_limits(expected_s)), bits(procs), size, free, safe, seen)


@kernel
def see_known(now_s, submit_s, expected_s, procs, log_expected, log_procs, size, free, safe, seen):
    """As `see_job`, with the binary logarithms of the features' p~ and of q, float32."""
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
def see_all(now_s, queue, rows, n, of_jobs, of_cluster):
    """Write the features of the cluster and of the visible jobs, the first n of `rows`.

    `of_jobs`, float32 (>= n, OF_JOB), and `of_cluster`, float32 (OF_CLUSTER,), are outputs.
    """
    shadow_s, extra = see_queue(now_s, queue, rows, n, of_cluster)
    for i in range(n):
        see_row(now_s, queue, rows[i], i == 0, shadow_s, extra, of_jobs[i])


@kernel
def see_row(now_s, queue, row, is_first, shadow_s, extra, seen):
    """Write the features of a visible job; `shadow_s` and `extra` are those of the queue's first job."""
    job, free = queue.jobs[row], queue.state[0].free
    safe = job.procs <= free if is_first else may_backfill(now_s, job.procs, job.expected_s, free, shadow_s, extra)
    size, logs = queue.picks.sight[0].procs, queue.picks.logs
    if len(logs):
        see_known(now_s, job.submit_s, job.expected_s, job.procs, logs[row, 0], logs[row, 1], size, free, safe, seen)
    else:
        see_job(now_s, job.submit_s, job.expected_s, job.procs, size, free, safe, seen)


@kernel
def see_queue(now_s, queue, rows, n, seen):
    """Write the cluster's features to `seen`; returns the reservation of the first job, (shadow_s, extra)."""
    state, sight = queue.state[0], queue.picks.sight[0]
    shadow_s, extra = first_reserves(now_s, queue, rows[0])
    work_proc_s = 0.0
    for i in range(n):
        job = queue.jobs[rows[i]]
        work_proc_s += within_limits(job.expected_s) * job.procs
    free_1h = state.free + released_by(queue.running, now_s + HOUR_S)
    free_8h = state.free + released_by(queue.running, now_s + 8 * HOUR_S)
    see_cluster(
        now_s,
        sight.procs,
        state.free,
        free_1h,
        free_8h,
        state.waiting,
        sight.visible,
        work_proc_s,
        shadow_s,
        extra,
        seen,
    )
    return shadow_s, extra


# The network: one hidden layer or more of rectified linear units, or none; the last layer has one unit, the score.


@kernel
def add_rows(inputs, n, weights, outputs):
    """Add `inputs`, float32 (n,), times their rows of weights, float32 (n * len(outputs),), to `outputs`."""
    width = len(outputs)
    for i in range(n):
        row, value = weights[i * width : (i + 1) * width], inputs[i]
        for j in range(width):
            outputs[j] += value * row[j]


@kernel
def score(picks, of_job):
    """The network's score of a job with these features; `picks.values[0]` holds the cluster's share (`picked`)."""
    layers, weights, values = picks.layers, picks.weights, picks.values
    width = layers[1]
    target = 1
    for j in range(width):
        values[1, j] = values[0, j]
    add_rows(of_job, OF_JOB, weights, values[1, :width])
    at = (layers[0] + 1) * width
    for layer in range(1, len(layers) - 1):
        inputs, width = layers[layer], layers[layer + 1]
        source, target = target, 3 - target
        for j in range(inputs):
            values[source, j] = max(values[source, j], np.float32(0))
        biases = weights[at + inputs * width :]
        for j in range(width):
            values[target, j] = biases[j]
        add_rows(values[source], inputs, weights[at:], values[target, :width])
        at += (inputs + 1) * width
    return values[target, 0]


@outlined
def picked(now_s, queue):
    """The row of the visible job that the network picks; the queue must not be empty.

    Overdue jobs must already be in their section.
    """
    rows = queue.picks.rows
    n = first_waiting(queue, rows)
    if n == 1:
        return rows[0]
    picks, width = queue.picks, queue.picks.layers[1]
    seen, first = picks.features, picks.values[0]
    shadow_s, extra = see_queue(now_s, queue, rows, n, seen)
    biases = picks.weights[FEATURES * width :]
    for j in range(width):
        first[j] = biases[j]
    add_rows(seen, OF_CLUSTER, picks.weights[OF_JOB * width :], first[:width])
    best, highest = 0, np.float32(-np.inf)
    for i in range(n):
        see_row(now_s, queue, rows[i], i == 0, shadow_s, extra, seen)
        value = score(picks, seen)
        if value > highest:
            best, highest = i, value
    return rows[best]
