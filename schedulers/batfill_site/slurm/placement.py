"""From when on nodes count for jobs, and which a job takes: rules P1 to P6 of docs/background/slurm.md.

A shape is what a job asks of each of its nodes. A running job's place in the order of B5, of its limit's end and then
of its id, is one integer, its key. A node's key for a shape is that of the job after whose end it counts (rule P1), if
running jobs end at their limits and no other starts: 0 if it counts now, NEVER if it does not even alone. Some shapes
have a slot with the keys of all nodes and the nodes in the order of their keys; a log of the nodes where a job has
started or ended keeps slots up to date.

A job of n nodes fits if n nodes count. The rest of P5 only says which: every node that counts has what the job takes
there, so the CPUs that the job needs run out no later than the nodes. Capped or not, it fits at the same dates.
Kernels change the scratch space of `slurm.nodes`.
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
def insert(keys, begin, end, key, sign):
    """Insert a key into keys[begin:end], which are sorted, or take it out if `sign` is -1."""
    place = end
    if sign < 0:
        place = begin
        while keys[place] != key:
            place += 1
        for i in range(place, end - 1):
            keys[i] = keys[i + 1]
        return
    while place > begin and keys[place - 1] > key:
        keys[place] = keys[place - 1]
        place -= 1
    keys[place] = key


@kernel
def node_key(slurm, job, i):
    """A node's key for a job's shape."""
    node = slurm.nodes.nodes[i]
    if job.gpus > 0 and job.gpu_type >= 0 and job.gpu_type != node.gpu_type:
        return NEVER
    cpus, memory, gpus, left, key = node.free, node.memory, node.gpus, node.jobs, NOW
    for place in range(node.first, node.first + node.jobs + 1):
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


ZERO, ONE, LOW = np.uint64(0), np.uint64(1), np.uint64(63)
BITS, PRIME = np.uint64(64), np.uint64(67)


@kernel
def place_of(places, word):
    """The number of the lowest bit of a word that is not 0."""
    return np.int64(places[(word & (~word + ONE)) % PRIME])


@kernel
def has(words, i):
    """Whether node i is in a set."""
    return (words[i >> 6] >> (np.uint64(i) & LOW)) & ONE != ZERO


@kernel
def put(words, i):
    """Put node i into a set."""
    words[i >> 6] |= ONE << (np.uint64(i) & LOW)


@kernel
def size_of(words):
    """How many nodes are in a set."""
    n = 0
    for x in range(len(words)):
        word = words[x]
        while word != ZERO:
            word &= word - ONE
            n += 1
    return n


@outlined
def choose(slurm, job, slot, asked, until, capped):
    """Whether the job fits on nodes asked with keys up to `until`; if so, `nodes.picked` are those that it takes."""
    nodes, options, counted = slurm.nodes, slurm.options[0], slurm.nodes.counted
    keys, order, n = slurm.shapes.keys[slot], slurm.shapes.order[slot], 0
    for x in range(len(asked)):
        counted[x] = nodes.picked[x] = ZERO
    for place in range(len(order)):
        i = order[place]
        if keys[i] > until:
            break
        if has(asked, i):
            put(counted, i)
            n += 1
            nodes.nodes[i].count = job.cpus if capped else uncapped(job, nodes.nodes[i])
    if n < job.nodes:
        return False
    if len(nodes.weights) > 1:
        lightest(nodes, job)
    if options.serial_at_end and job.nodes * job.cpus == 1:
        pick_last(nodes)
    elif options.least_loaded:
        pick_free(slurm, job, until)
    else:
        pick_groups(nodes, job, group(nodes, job, options.leaves), options.leaves > 0)
    return True


@kernel
def uncapped(job, node):
    """The free CPUs of a node that counts now, if the free memory serves them (P1)."""
    return min(node.free, node.memory // job.memory_per_cpu) if job.memory_per_cpu > 0 else node.free


@kernel
def lightest(nodes, job):
    """Leave only the nodes of the lowest weights that suffice among those that count (P3)."""
    for weight in range(len(nodes.weights)):
        for x in range(len(nodes.counted)):
            nodes.tested[x] = nodes.counted[x] & nodes.weights[weight, x]
        if size_of(nodes.tested) >= job.nodes:
            for x in range(len(nodes.counted)):
                nodes.counted[x] = nodes.tested[x]
            return


@kernel
def pick_last(nodes):
    """The last node that counts (P6)."""
    i = 64 * len(nodes.counted) - 1
    while not has(nodes.counted, i):
        i -= 1
    put(nodes.picked, i)


@kernel
def cpus_after(slurm, i, until):
    """The free CPUs of a node after the ends of all jobs with keys up to `until`."""
    node = slurm.nodes.nodes[i]
    cpus = node.free
    for place in range(node.first, node.first + node.jobs):
        if slurm.shapes.on_nodes[place] <= until:
            other = slurm.jobs[row_of(slurm.shapes.on_nodes[place])]
            cpus += node.cpus if other.exclusive else other.cpus
    return cpus


@kernel
def pick_free(slurm, job, until):
    """The nodes with the most free CPUs (P6)."""
    nodes = slurm.nodes
    for _ in range(job.nodes):
        best, most = -1, 0
        for x in range(len(nodes.counted)):
            word = nodes.counted[x] & ~nodes.picked[x]
            while word != ZERO:
                i = 64 * x + place_of(nodes.places, word)
                word &= word - ONE
                cpus = cpus_after(slurm, i, until)
                if best < 0 or cpus > most:
                    best, most = i, cpus
        put(nodes.picked, best)


@kernel
def group(nodes, job, n_leaves):
    """Sets `nodes.groups` to those of the nodes that count (P4), and gives each its `group`; returns their number.

    Without a tree they are the runs of neighbours. With one, if single leaves suffice, only the one with the fewest
    nodes is left.
    """
    groups, n, last = nodes.groups, n_leaves, -2
    for k in range(n_leaves):
        groups[k].members = groups[k].cpus = groups[k].used = 0
    for x in range(len(nodes.counted)):
        word = nodes.counted[x]
        while word != ZERO:
            i = 64 * x + place_of(nodes.places, word)
            word &= word - ONE
            node = nodes.nodes[i]
            if n_leaves == 0:
                if i != last + 1:
                    groups[n].members = groups[n].cpus = groups[n].used = 0
                    n += 1
                node.group, last = n - 1, i
            one = groups[node.group]
            if one.members == 0:
                one.first = i
            one.members += 1
            one.cpus += node.count
    only = -1
    for k in range(n_leaves):
        fewer = only < 0 or groups[k].members < groups[only].members
        if fewer and suffices(groups[k], job.nodes, job.nodes * job.cpus):
            only = k
    if only >= 0:
        for k in range(n_leaves):
            groups[k].used = k != only
    return n


@kernel
def suffices(one, n, cpus):
    """Whether a group has n nodes that count, and so many CPUs."""
    return one.members >= n and one.cpus >= cpus


@kernel
def pick_groups(nodes, job, n_groups, tree):
    """Best fit in groups (P5)."""
    groups, n, cpus = nodes.groups, job.nodes, job.nodes * job.cpus
    while n > 0:
        best, fits = -1, False
        for k in range(n_groups):
            one = groups[k]
            if one.used or one.members == 0:
                continue
            enough = suffices(one, n, cpus)
            if (
                best < 0
                or (enough and not fits)
                or (enough == fits and (one.cpus < groups[best].cpus if fits else one.cpus > groups[best].cpus))
            ):
                best, fits = k, enough
        groups[best].used = 1
        single = n == 1
        for _ in range(min(n, groups[best].members)):
            i = best_node(nodes, best, cpus, single, tree)
            put(nodes.picked, i)
            cpus -= min(nodes.nodes[i].count, max(cpus - n + 1, job.cpus))
            n -= 1


@kernel
def best_node(nodes, k, cpus, single, tree):
    """The node of group k that is taken next."""
    best, fits, i, left = -1, False, nodes.groups[k].first, nodes.groups[k].members
    while left > 0 and (best < 0 or tree or single):
        if has(nodes.counted, i) and nodes.nodes[i].group == k:
            left -= 1
            enough = nodes.nodes[i].count >= cpus
            if has(nodes.picked, i):
                pass
            elif best < 0 or (enough and not fits):
                best, fits = i, enough
            elif enough == fits and (tree or (single and fits)):
                more = nodes.nodes[i].count - nodes.nodes[best].count
                if more < 0 if fits else more > 0:
                    best = i
        i += 1
    return best
