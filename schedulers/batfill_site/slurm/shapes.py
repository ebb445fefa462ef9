"""When each node counts for jobs of a shape, if running jobs end at their limits and no other starts.

A shape is what a job asks of each of its nodes. A running job's place in the order of B5, of its limit's end and then
of its id, is one integer, its key. A node's key for a shape is that of the job after whose end it counts (rule P1): 0
if it counts now, NEVER if it does not even alone. Some shapes have a slot with the keys of all nodes and the nodes in
the order of their keys; a log of the nodes where a job has started or ended keeps slots up to date.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import kernel, outlined

NOW, NEVER = np.int64(0), np.int64(2**62)
ROW_BITS = 26  # of a key; the rest is a date
ROWS = np.int64(2**ROW_BITS - 1)


@kernel
def key_of(job, row):
    """A running job's key."""
    return (job.ends << ROW_BITS) | row


@kernel
def row_of(key):
    """The row of a key's job."""
    return key & ROWS


@kernel
def end_of(key):
    """When the limit of a key's job ends."""
    return key >> ROW_BITS


@kernel
def first_from(keys, n, key):
    """The first place among the first n keys, which are sorted, that has this key or a later one."""
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def insert(keys, begin, end, key):
    """Insert a key into keys[begin:end], which are sorted."""
    place = end
    while place > begin and keys[place - 1] > key:
        keys[place] = keys[place - 1]
        place -= 1
    keys[place] = key


@kernel
def remove(keys, begin, end, key):
    """Take a key out of keys[begin:end]."""
    place = begin
    while keys[place] != key:
        place += 1
    for i in range(place, end - 1):
        keys[i] = keys[i + 1]


@kernel
def node_key(slurm, job, i):
    """A node's key for a job's shape."""
    node, free = slurm.nodes.nodes[i], slurm.nodes.free[i]
    if job.gpus > 0 and job.gpu_type >= 0 and job.gpu_type != node.gpu_type:
        return NEVER
    cpus, memory, gpus, left, key = free.cpus, free.memory, free.gpus, free.jobs, NOW
    for place in range(node.first, node.first + free.jobs + 1):
        if cpus >= job.cpus and memory >= job.memory and gpus >= job.gpus and not (job.exclusive and left > 0):
            return key
        if left > 0:
            key = slurm.shapes.on_nodes[place]
            other = slurm.jobs[row_of(key)]
            cpus += node.cpus if other.exclusive else other.cpus
            memory += other.memory
            gpus += other.gpus
            left -= 1
    return NEVER


@kernel
def precedes(keys, i, key, j):
    """Whether node i goes before node j with this key in a slot's order."""
    return keys[i] < key or (keys[i] == key and i < j)


@outlined
def slot_of(slurm, job):
    """A slot with the present keys of a job's shape."""
    shapes, state = slurm.shapes, slurm.state[0]
    slot = shapes.slot_of[job.form]
    if slot < 0:
        slot = state.next_slot
        state.next_slot = (slot + 1) % len(shapes.keys)
        if shapes.shape_of[slot] >= 0:
            shapes.slot_of[shapes.shape_of[slot]] = -1
        shapes.shape_of[slot], shapes.slot_of[job.form] = job.form, slot
        shapes.synced[slot] = -1
    keys, order, n = shapes.keys[slot], shapes.order[slot], shapes.keys.shape[1]
    if shapes.synced[slot] < 0 or state.logged - shapes.synced[slot] > n:
        for i in range(n):
            keys[i], order[i] = node_key(slurm, job, i), i
        sort(keys, order, n)
    else:
        for place in range(shapes.synced[slot], state.logged):
            change(keys, order, n, shapes.log[place], node_key(slurm, job, shapes.log[place]))
    shapes.synced[slot] = state.logged
    return slot


@kernel
def sort(keys, order, n):
    """Sort nodes by their keys."""
    gap = 1
    while gap < n:
        gap = 3 * gap + 1
    while gap > 1:
        gap //= 3
        for i in range(gap, n):
            node, place = order[i], i
            while place >= gap and precedes(keys, node, keys[order[place - gap]], order[place - gap]):
                order[place] = order[place - gap]
                place -= gap
            order[place] = node


@kernel
def change(keys, order, n, i, key):
    """Give node i another key, and its place in the order."""
    if keys[i] == key:
        return
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if precedes(keys, order[middle], keys[i], i):
            low = middle + 1
        else:
            high = middle
    keys[i] = key
    while low > 0 and precedes(keys, i, keys[order[low - 1]], order[low - 1]):
        order[low] = order[low - 1]
        low -= 1
    while low < n - 1 and precedes(keys, order[low + 1], key, i):
        order[low] = order[low + 1]
        low += 1
    order[low] = i
