"""From when on nodes count for jobs, and which a job takes: rules P1 to P6 of docs/background/slurm.md.

A shape is what a job asks of each of its nodes. A running job's place in the order of B5, of its limit's end and then
of its id, is one integer, its key. A node's key for a shape is that of the job after whose end it counts (rule P1), if
running jobs end at their limits and no other starts: 0 if it counts now, NEVER if it does not even alone. Some shapes
have a slot with the keys of all nodes and the nodes in the order of their keys; a log of the nodes where a job has
started or ended keeps slots up to date.

A job of an even layout on n nodes fits if n nodes count. The rest of P5 only says which: every node that counts has
what the job takes there, so the CPUs that it needs run out no later than the nodes. Capped or not, it fits at the same
dates. Another job is placed to see whether it fits.
Kernels change the scratch space of `slurm.nodes`.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import kernel, outlined

NOW, NEVER = np.int64(0), np.int64(2**62)
ROW_BITS = 26  # of a key; the rest is a date
ROWS = np.int64(2**ROW_BITS - 1)


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
    """Insert a key into keys[begin:end], which are sorted, or take it out if `sign` is -1; returns its place."""
    place = end
    if sign < 0:
        place = begin
        while keys[place] != key:
            place += 1
        take_out(keys, place, end)
        return place
    while place > begin and keys[place - 1] > key:
        place -= 1
    insert_at(keys, place, end, key)
    return place


@kernel
def insert_at(values, place, end, value):
    """Insert a value at a place of values[:end]."""
    for i in range(end, place, -1):
        values[i] = values[i - 1]
    values[place] = value


@kernel
def take_out(values, place, end):
    """Take the value at a place out of values[:end], and return it."""
    value = values[place]
    for i in range(place, end - 1):
        values[i] = values[i + 1]
    return value


@kernel
def memory_on(job, node, cpus):
    """The memory that a job takes on a node with so many CPUs (P7)."""
    if job.memory_per_cpu > 0:
        return job.memory_per_cpu * cpus
    return job.memory if job.memory >= 0 else node.whole


@kernel
def gpus_on(job, node):
    """The GPUs that a job takes on a node (P7)."""
    return node.all_gpus if job.exclusive else job.gpus


@kernel
def counts_on(job, node, cpus, memory):
    """On how many CPUs a node counts for a job, if so many CPUs and so much memory are free (P1)."""
    if job.memory_per_cpu > 0:
        cpus = min(cpus, memory // job.memory_per_cpu)
    if node.threads > 1:
        cpus -= cpus % node.threads
    return cpus - cpus % job.task if job.task > 1 else cpus


@kernel
def node_key(slurm, job, i):
    """A node's key for a job's shape."""
    node = slurm.nodes.nodes[i]
    if job.gpus > 0 and job.gpu_type >= 0 and job.gpu_type != node.gpu_type:
        return NEVER
    cpus, memory, gpus, left, key = node.free, node.memory, node.gpus, node.jobs, NOW
    needs, simple = memory_on(job, node, job.cpus), node.threads == 1 and job.task <= 1
    for place in range(node.first, node.first + node.jobs + 1):
        enough = cpus >= job.cpus and memory >= needs and gpus >= job.gpus and not (job.exclusive and left > 0)
        if enough and (simple or counts_on(job, node, cpus, memory) >= job.cpus):
            return key
        if left > 0:
            key = slurm.shapes.on_nodes[place]
            cpus += slurm.shapes.on_cpus[place]
            memory += slurm.shapes.on_memory[place]
            gpus += gpus_on(slurm.jobs[row_of(key)], node)
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
        shapes.heads[slot] = ZERO
        for place in range(n):
            for head in range(place // step_of(shapes), n // step_of(shapes)):
                put(shapes.heads[slot, head], order[place])
    else:
        for place in range(shapes.synced[slot], state.logged):
            i = shapes.log[place % n]
            change(shapes, slot, i, node_key(slurm, job, i))
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
def step_of(shapes):
    """By how many nodes the next head has more."""
    return (shapes.keys.shape[1] + shapes.heads.shape[1] - 1) // shapes.heads.shape[1]


@kernel
def change(shapes, slot, i, key):
    """Give node i another key in a slot, and its place in the order.

    A slot's k-th head is the set of the first k * step_of(shapes) nodes in the order.
    """
    keys, order, n = shapes.keys[slot], shapes.order[slot], shapes.keys.shape[1]
    if keys[i] == key:
        return
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if precedes(keys, order[middle], keys[i], i):
            low = middle + 1
        else:
            high = middle
    keys[i], before = key, low
    while low > 0 and precedes(keys, i, keys[order[low - 1]], order[low - 1]):
        order[low] = order[low - 1]
        low -= 1
    while low < n - 1 and precedes(keys, order[low + 1], key, i):
        order[low] = order[low + 1]
        low += 1
    order[low] = i
    step = step_of(shapes)
    for head in range(min(low, before) // step, max(low, before) // step):
        words, last = shapes.heads[slot, head], step * (head + 1)
        other = order[last] if low < before else order[last - 1]
        words[i >> 6] ^= ONE << (np.uint64(i) & LOW)
        words[other >> 6] ^= ONE << (np.uint64(other) & LOW)


@kernel
def reach(slurm, slot, words, n, bound):
    """Add the nodes with keys below a bound to a set, which has the first n of the order; returns how many it has."""
    keys, order, total = slurm.shapes.keys[slot], slurm.shapes.order[slot], slurm.shapes.keys.shape[1]
    step = step_of(slurm.shapes)
    heads = n // step
    while (heads + 1) * step <= total and keys[order[(heads + 1) * step - 1]] < bound:
        heads += 1
    if heads * step > n:
        n = heads * step
        for x in range(len(words)):
            words[x] = slurm.shapes.heads[slot, heads - 1, x]
    while n < total and keys[order[n]] < bound:
        put(words, order[n])
        n += 1
    return n


@kernel
def key_when(slurm, job, slot, asked):
    """The first key after which enough of the nodes asked count; NEVER if there is none."""
    order, step, low, n = slurm.shapes.order[slot], step_of(slurm.shapes), 0, 0
    high = len(order) // step + 1
    while high - low > 1:
        middle = (low + high) >> 1
        some = common(asked, slurm.shapes.heads[slot, middle - 1])
        if some < job.nodes:
            low, n = middle, some
        else:
            high = middle
    for place in range(low * step, len(order)):
        n += has(asked, order[place])
        if n == job.nodes:
            return slurm.shapes.keys[slot, order[place]]
    return NEVER


ZERO, ONE, LOW = np.uint64(0), np.uint64(1), np.uint64(63)


@kernel
def count(word):
    """The number of bits of a word that are 1."""
    return np.int64(np.bitwise_count(word))


@kernel
def place_of(word):
    """The number of the lowest bit of a word that is not 0."""
    return count(~word & (word - ONE))


@kernel
def has(words, i):
    """Whether node i is in a set."""
    return (words[i >> 6] >> (np.uint64(i) & LOW)) & ONE != ZERO


@kernel
def put(words, i):
    """Put node i into a set."""
    words[i >> 6] |= ONE << (np.uint64(i) & LOW)


@kernel
def common(words, within):
    """How many nodes two sets share."""
    n = 0
    for x in range(len(words)):
        n += count(words[x] & within[x])
    return n


@kernel
def has_enough(slurm, job, words, within):
    """Whether two sets share as many nodes as the job takes at least, and those that it requires."""
    for x in range(len(words) * (job.required >= 0)):
        if slurm.nodes.required[job.required, x] & ~(words[x] & within[x]) != ZERO:
            return False
    return common(words, within) >= job.nodes


@kernel
def fits(slurm, job, slot, asked, until):
    """Whether the job fits on nodes asked with keys up to `until`."""
    if job.even == 0 or job.required >= 0:
        return choose(slurm, job, slot, asked, until, False)
    return key_when(slurm, job, slot, asked) <= until


@outlined
def choose(slurm, job, slot, asked, until, capped):
    """Whether the job fits on nodes asked with keys up to `until`; if so, `nodes.picked` are those that it takes.

    With `capped` each counts on as many CPUs as it gives in an even layout (P1).
    """
    nodes, counted, options = slurm.nodes, slurm.nodes.counted, slurm.options[0]
    for x in range(len(asked)):
        counted[x] = ZERO
    reach(slurm, slot, counted, 0, until + 1)
    for x in range(len(asked)):
        counted[x] &= asked[x]
    last_node = options.serial_at_end and job.needs == 1
    if options.leaves > 0 and job.even and job.required < 0 and not (options.least_loaded or last_node):
        narrow(nodes, job, options.leaves)
    n = common(counted, counted)
    for x in range(len(counted)):
        word = counted[x]
        while word != ZERO:
            i = 64 * x + place_of(word)
            node = nodes.nodes[i]
            node.count = job.cpus
            if not capped:
                node.count = counts_on(job, node, *free_after(slurm, i, until))
            word &= word - ONE
    while n >= job.nodes and n > 0:
        if by_weight(slurm, job, until):
            return True
        if job.even or job.most >= NEVER:
            break
        n = drop_least(nodes)
    return False


@outlined
def narrow(nodes, job, n_leaves):
    """Leave only one leaf of `nodes.counted` if it suffices for an even layout (P4), that with the fewest nodes."""
    counted, tested, groups = nodes.counted, nodes.tested, nodes.groups
    for x in range(len(tested)):
        tested[x] = ZERO
    for weight in range(len(nodes.weights)):
        for leaf in range(n_leaves):
            groups[leaf].members = 0
        for x in range(len(tested)):
            tested[x] |= counted[x] & nodes.weights[weight, x]
            word = tested[x]
            while word != ZERO:
                leaf = nodes.nodes[64 * x + place_of(word)].group
                groups[leaf].members += count(word & nodes.leaves[leaf, x])
                word &= ~nodes.leaves[leaf, x]
        best, n = -1, 0
        for leaf in range(n_leaves):
            n += groups[leaf].members
            if groups[leaf].members >= job.nodes and (best < 0 or groups[leaf].members < groups[best].members):
                best = leaf
        for x in range(len(tested) * (best >= 0)):
            counted[x] = tested[x] & nodes.leaves[best, x]
        if n >= job.nodes:
            return


@kernel
def drop_least(nodes):
    """Leave out the nodes that count on the fewest CPUs (P5); returns how many are left."""
    n, fewest = 0, NEVER
    for drop in range(2):
        for x in range(len(nodes.counted)):
            word = nodes.counted[x]
            while word != ZERO:
                i = 64 * x + place_of(word)
                count = nodes.nodes[i].count
                if drop and count == fewest:
                    nodes.counted[x] &= ~(word & (~word + ONE))
                n += drop and count > fewest
                fewest = min(fewest, count)
                word &= word - ONE
    return n


@outlined
def by_weight(slurm, job, until):
    """Whether the job fits on `nodes.counted` (P3); if so, `nodes.picked` are those that it takes."""
    nodes, options, counted, needs = slurm.nodes, slurm.options[0], slurm.nodes.counted, needs_of(job)
    for x in range(len(counted)):
        nodes.picked[x] = nodes.tested[x] = ZERO
    if job.required >= 0:
        for x in range(len(counted)):
            word = nodes.required[job.required, x]
            if word & ~counted[x] != ZERO:
                return False
            while word != ZERO:
                i = 64 * x + place_of(word)
                word &= word - ONE
                needs = take(nodes, job, i, needs)
    if satisfied(needs):
        return True
    tree, first = options.leaves > 0, needs
    for weight in range(len(nodes.weights)):
        n = 0
        for x in range(len(counted)):
            if tree and job.required >= 0:
                nodes.picked[x] = nodes.required[job.required, x]
            elif tree:
                nodes.picked[x] = ZERO
            if not tree:
                nodes.tested[x] = ZERO
            nodes.tested[x] |= counted[x] & nodes.weights[weight, x] & ~nodes.picked[x]
            n += nodes.tested[x] != ZERO
        if n == 0:
            continue
        if tree:
            needs = first
        if options.serial_at_end and job.needs == 1 and job.required < 0:
            needs = pick_last(nodes, job, needs)
        elif options.least_loaded:
            needs = pick_free(slurm, job, until, needs)
        else:
            needs = pick_groups(nodes, job, group(nodes, options.leaves, needs), tree, needs)
        if satisfied(needs):
            return True
    return False


@kernel
def needs_of(job):
    """How many nodes and CPUs a job needs, and how many nodes it may take (P5)."""
    return job.nodes, (job.nodes * job.cpus if job.even else job.needs), job.most


@kernel
def satisfied(needs):
    """Whether a job needs no more nodes and CPUs, and has not too many (P5)."""
    return needs[0] <= 0 and needs[1] <= 0 and needs[2] >= 0


@kernel
def take(nodes, job, i, needs):
    """The job takes a node; returns how many nodes and CPUs it still needs, and how many nodes it may still take."""
    n, cpus, most = needs
    node = nodes.nodes[i]
    core = node.threads
    taken = min(node.count, max(cpus - max(n - 1, 0) * max(job.task, core), job.cpus))
    held = job.cpus if job.even else max(taken - taken % job.task, job.cpus)
    node.taken = node.cpus if job.exclusive else held + -held % core
    put(nodes.picked, i)
    return n - 1, cpus - taken - -taken % core, most - 1


@kernel
def free_after(slurm, i, until):
    """The free CPUs and memory of a node after the ends of all jobs with keys up to `until`."""
    node, shapes = slurm.nodes.nodes[i], slurm.shapes
    cpus, memory, place = node.free, node.memory, node.first
    while place < node.first + node.jobs and shapes.on_nodes[place] <= until:
        cpus += shapes.on_cpus[place]
        memory += shapes.on_memory[place]
        place += 1
    return cpus, memory


@kernel
def pick_last(nodes, job, needs):
    """The last node that counts (P6)."""
    i = 64 * len(nodes.tested) - 1
    while not has(nodes.tested, i):
        i -= 1
    return take(nodes, job, i, needs)


@kernel
def pick_free(slurm, job, until, needs):
    """The nodes with the most free CPUs (P6)."""
    nodes = slurm.nodes
    while not satisfied(needs) and needs[2] > 0:
        best, most = -1, 0
        for x in range(len(nodes.tested)):
            word = nodes.tested[x] & ~nodes.picked[x]
            while word != ZERO:
                i = 64 * x + place_of(word)
                word &= word - ONE
                cpus, _ = free_after(slurm, i, until)
                if (best < 0 or cpus > most) and (needs[2] > 1 or nodes.nodes[i].count >= needs[1]):
                    best, most = i, cpus
        if best < 0:
            break
        needs = take(nodes, job, best, needs)
    return needs


@kernel
def group(nodes, n_leaves, needs):
    """Sets `nodes.groups` to those of `nodes.tested` (P4), and gives each its `group`; returns their number.

    Without a tree they are the runs of neighbours. With one, if single leaves suffice, only the one with the fewest
    nodes is left.
    """
    groups, n, last = nodes.groups, n_leaves, -2
    for k in range(n_leaves):
        groups[k].members = groups[k].cpus = groups[k].used = 0
    for x in range(len(nodes.tested)):
        word = nodes.tested[x]
        while word != ZERO:
            i = 64 * x + place_of(word)
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
        if fewer and suffices(groups[k], needs):
            only = k
    if only >= 0:
        for k in range(n_leaves):
            groups[k].used = k != only
    return n


@kernel
def suffices(one, needs):
    """Whether a group has as many nodes and CPUs as are needed."""
    return one.members >= needs[0] and one.cpus >= needs[1]


@kernel
def pick_groups(nodes, job, n_groups, tree, needs):
    """Best fit in groups (P5)."""
    groups = nodes.groups
    while not satisfied(needs) and needs[2] > 0:
        best, fits = -1, False
        for k in range(n_groups):
            one = groups[k]
            if one.used or one.members == 0:
                continue
            enough = suffices(one, needs)
            if (
                best < 0
                or (enough and not fits)
                or (enough == fits and (one.cpus < groups[best].cpus if fits else one.cpus > groups[best].cpus))
            ):
                best, fits = k, enough
        if best < 0:
            break
        groups[best].used = 1
        single, left = needs[0] <= 1, groups[best].members
        while left > 0 and not satisfied(needs) and needs[2] > 0:
            i = best_node(nodes, best, needs, single, tree)
            if i < 0:
                break
            needs, single = take(nodes, job, i, needs), False
            left -= 1
    return needs


@kernel
def best_node(nodes, k, needs, single, tree):
    """The node of group k that is taken next; -1 if none may be, as only one more may."""
    best, fits, i, left = -1, False, nodes.groups[k].first, nodes.groups[k].members
    while left > 0 and (best < 0 or tree or single):
        if has(nodes.tested, i) and nodes.nodes[i].group == k:
            left -= 1
            enough = nodes.nodes[i].count >= needs[1]
            if has(nodes.picked, i) or (needs[2] == 1 and not enough):
                pass
            elif best < 0 or (enough and not fits):
                best, fits = i, enough
            elif enough == fits and (tree or (single and fits)):
                more = nodes.nodes[i].count - nodes.nodes[best].count
                if more < 0 if fits else more > 0:
                    best = i
        i += 1
    return best
