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
    return key & ROWS


@kernel
def end_of(key):
    return key >> ROW_BITS


@kernel
def insert(keys, begin, end, key, sign):
    """Insert a key into keys[begin:end], which are sorted, or take it out if `sign` is -1; returns its place."""
    place = begin if sign < 0 else end
    while sign < 0 and keys[place] != key:
        place += 1
    while sign > 0 and place > begin and keys[place - 1] > key:
        place -= 1
    shift(keys, place, end, key, sign)
    return place


@kernel
def shift(values, place, end, value, sign):
    """Insert a value at a place of values[:end], or take the one there out if `sign` is -1."""
    if sign < 0:
        np.copyto(values[place : end - 1], values[place + 1 : end])
    else:
        np.copyto(values[place + 1 : end + 1], values[place:end])
        values[place] = value


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


@kernel
def rank(keys, order, low, high, key, i):
    """The place of a node with a key in order[low:high]."""
    while low < high:
        middle = (low + high) >> 1
        if precedes(keys, order[middle], key, i):
            low = middle + 1
        else:
            high = middle
    return low


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
            keys[i] = node_key(slurm, job, i)
            shift(order, rank(keys, order, 0, i, keys[i], i), i, i, 1)
        shapes.heads[slot] = ZERO
        for place in range(n):
            for head in range(place >> slurm.options[0].head_bits, n >> slurm.options[0].head_bits):
                put(shapes.heads[slot, head], order[place])
    else:
        for place in range(shapes.synced[slot], state.logged):
            i = shapes.log[place % n]
            change(slurm, slot, i, node_key(slurm, job, i))
    shapes.synced[slot] = state.logged
    return slot


@kernel
def change(slurm, slot, i, key):
    """Give node i another key in a slot, and its place in the order.

    A slot's k-th head is the set of the first k << head_bits nodes in the order.
    """
    shapes, bits = slurm.shapes, slurm.options[0].head_bits
    keys, order, n = shapes.keys[slot], shapes.order[slot], shapes.keys.shape[1]
    if keys[i] == key:
        return
    before, later = rank(keys, order, 0, n, keys[i], i), key > keys[i]
    keys[i] = key
    if later:
        place = rank(keys, order, before + 1, n, key, i) - 1
        shift(order, before, place + 1, i, -1)
        order[place] = i
    else:
        place = rank(keys, order, 0, before, key, i)
        shift(order, place, before, i, 1)
    for head in range(min(place, before) >> bits, max(place, before) >> bits):
        last = (head + 1) << bits
        flip(shapes.heads[slot, head], i)
        flip(shapes.heads[slot, head], order[last] if place < before else order[last - 1])


@kernel
def heads_below(keys, order, bits, bound):
    """The number of heads all of whose nodes have keys below a bound."""
    low, high = 0, len(order) >> bits
    while low < high:
        middle = (low + high) >> 1
        if keys[order[((middle + 1) << bits) - 1]] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def reach(slurm, job, words, bound):
    """Set a set to the nodes with keys below a bound."""
    slot, bits = slot_of(slurm, job), slurm.options[0].head_bits
    keys, order = slurm.shapes.keys[slot], slurm.shapes.order[slot]
    heads = heads_below(keys, order, bits, bound)
    for x in range(len(words)):
        words[x] = slurm.shapes.heads[slot, heads - 1, x] if heads > 0 else ZERO
    for i in order[heads << bits :]:
        if keys[i] >= bound:
            break
        put(words, i)


@kernel
def key_when(slurm, job, asked, bound):
    """The first key after which enough of the nodes asked count; NEVER if none below a bound is."""
    slot, bits, low, n = slot_of(slurm, job), slurm.options[0].head_bits, 0, 0
    keys, order, heads = slurm.shapes.keys[slot], slurm.shapes.order[slot], slurm.shapes.heads[slot]
    high = heads_below(keys, order, bits, bound)
    if high < len(order) >> bits and common(asked, heads[high]) < job.nodes:
        return NEVER
    while low < high:
        middle = (low + high) >> 1
        some = common(asked, heads[middle])
        if some < job.nodes:
            low, n = middle + 1, some
        else:
            high = middle
    for i in order[low << bits :]:
        n += has(asked, i)
        if n == job.nodes:
            return keys[i] if keys[i] < bound else NEVER
    return NEVER


ZERO, ONE, SIX, LOW = np.uint64(0), np.uint64(1), np.uint64(6), np.uint64(63)


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
    return (words[np.uint64(i) >> SIX] >> (np.uint64(i) & LOW)) & ONE != ZERO  # numba tests others for negative indices


@kernel
def put(words, i):
    words[np.uint64(i) >> SIX] |= ONE << (np.uint64(i) & LOW)


@kernel
def flip(words, i):
    """Put node i into a set, or take it out if it is there."""
    words[np.uint64(i) >> SIX] ^= ONE << (np.uint64(i) & LOW)


@kernel
def members(nodes, words):
    """Set `nodes.listed` to the nodes in a set, in order; returns their number."""
    n = 0
    for x in range(len(words)):
        word = words[x]
        while word != ZERO:
            nodes.listed[n] = 64 * x + place_of(word)
            word &= word - ONE
            n += 1
    return n


@kernel
def common(words, within):
    """How many nodes two sets share."""
    n = 0
    for x in range(len(words)):
        n += count(words[x] & within[x])
    return n


@kernel
def has_enough(slurm, job, words):
    """Whether a set has as many nodes as the job takes at least, and those that it requires."""
    for x in range(len(words) * (job.required >= 0)):
        if slurm.nodes.required[job.required, x] & ~words[x] != ZERO:
            return False
    return common(words, words) >= job.nodes


@kernel
def fits(slurm, job, asked, until):
    """Whether the job fits on nodes asked with keys up to `until`; quicker than `choose` in an even layout."""
    if job.even == 0 or job.required >= 0:
        return choose(slurm, job, asked, until, False)
    return key_when(slurm, job, asked, until + 1) < NEVER


@outlined
def choose(slurm, job, asked, until, uncapped):
    """Whether the job fits on nodes asked with keys up to `until`; if so, `nodes.picked` are those that it takes.

    Unless `uncapped`, each counts on as many CPUs as it gives in an even layout under the old rules (P1).
    """
    nodes, counted, options = slurm.nodes, slurm.nodes.counted, slurm.options[0]
    capped = job.even != 0 and not (uncapped or options.new_rules)
    reach(slurm, job, counted, until + 1)
    for x in range(len(asked)):
        counted[x] &= asked[x]
    last_node = options.serial_at_end and job.needs == 1
    leaves = 0, len(nodes.leaves)
    alike = len(nodes.weights) == 1 or not options.new_rules
    if leaves[1] > 0 and alike and job.even and job.required < 0 and not (options.least_loaded or last_node):
        leaves = narrow(nodes, job)
        if capped:
            return pick_alike(nodes, job, leaves)
    n = members(nodes, counted)
    for i in nodes.listed[:n]:
        node = nodes.nodes[i]
        node.count = job.cpus if capped else counts_on(job, node, *free_after(slurm, i, until))
    while n >= job.nodes and n > 0:
        if by_weight(slurm, job, until, leaves):
            return True
        if job.even or job.most >= NEVER:
            break
        n = drop_least(nodes)
    return False


@outlined
def narrow(nodes, job):
    """Leave one leaf of `nodes.counted` if it suffices for an even layout (P4), that with the fewest nodes.

    Returns the first of the leaves that are left, and the last one plus one.
    """
    counted, tested, groups, n_leaves = nodes.counted, nodes.tested, nodes.groups, len(nodes.leaves)
    tested[:] = ZERO
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
        best, most = best_leaf(groups, (0, n_leaves), job.nodes)
        if most >= job.nodes:
            for x in range(len(tested)):
                counted[x] = tested[x] & nodes.leaves[best, x]
            return best, best + 1
        if common(tested, tested) >= job.nodes:
            return 0, n_leaves
    return 0, 0  # they are too few


@kernel
def pick_alike(nodes, job, leaves):
    """As `by_weight` after `narrow`, if all nodes count on as many CPUs as the job takes: the first of a leaf are best.

    What a job needs then runs out with the nodes, so a leaf suffices by its number of nodes.
    """
    left = job.nodes
    nodes.picked[:] = ZERO
    while left > 0:
        best, most = best_leaf(nodes.groups, leaves, left)
        if best < 0:
            return False
        left -= most
        nodes.groups[best].members = 0
        for x in range(len(nodes.tested)):
            word = nodes.tested[x] & nodes.leaves[best, x]
            while word != ZERO and most + min(left, 0) > 0:
                take(nodes, job, 64 * x + place_of(word), (1, job.cpus, 1))
                word &= word - ONE
                most -= 1
    return True


@kernel
def best_leaf(groups, leaves, left):
    """The smallest leaf with at least `left` nodes, or else the largest one; and how many nodes it has."""
    best, most = -1, 0
    for leaf in range(*leaves):
        n = groups[leaf].members
        if n == left:
            return leaf, n
        if left <= n < most if most >= left else n > most:
            best, most = leaf, n
    return best, most


@kernel
def drop_least(nodes):
    """Leave out the nodes that count on the fewest CPUs (P5); returns how many are left."""
    n, fewest = 0, NEVER
    for i in nodes.listed[: members(nodes, nodes.counted)]:
        fewest = min(fewest, nodes.nodes[i].count)
    for i in nodes.listed[: members(nodes, nodes.counted)]:
        if nodes.nodes[i].count == fewest:
            flip(nodes.counted, i)
        else:
            n += 1
    return n


@outlined
def by_weight(slurm, job, until, leaves):
    """Whether the job fits on `nodes.counted` (P3), in these leaves; if so, `nodes.picked` are those that it takes."""
    nodes, options, counted, needs = slurm.nodes, slurm.options[0], slurm.nodes.counted, needs_of(job)
    near = len(nodes.leaves) > 0 and options.new_rules
    old_tree = len(nodes.leaves) > 0 and not near
    for x in range(len(counted)):
        nodes.picked[x] = nodes.tested[x] = ZERO
    for k in range(len(nodes.leaves) * near):
        nodes.groups[k].drawn = nodes.groups[k].far = 0
    if job.required >= 0:
        for i in nodes.listed[: members(nodes, nodes.required[job.required])]:
            if not has(counted, i):
                return False
            needs = take(nodes, job, i, needs)
            if near:
                draw(nodes, nodes.nodes[i].group)
    if satisfied(needs):
        return True
    first = needs
    for weight in range(len(nodes.weights)):
        n = 0
        for x in range(len(counted)):
            if not old_tree:
                nodes.tested[x] = ZERO
            elif job.required >= 0:
                nodes.picked[x] = nodes.required[job.required, x]
            else:
                nodes.picked[x] = ZERO
            nodes.tested[x] |= counted[x] & nodes.weights[weight, x] & ~nodes.picked[x]
            n += nodes.tested[x] != ZERO
        if n == 0:
            continue
        if old_tree:
            needs = first
        last = options.serial_at_end and job.needs == 1 and job.required < 0
        if last or options.least_loaded:
            needs = pick_free(slurm, job, until, last, needs)
        else:
            needs = pick_groups(nodes, job, leaves[0], group(nodes, leaves, needs, old_tree), near, needs)
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
def pick_free(slurm, job, until, last, needs):
    """The last node that counts, or those with the most free CPUs (P6)."""
    nodes = slurm.nodes
    while not satisfied(needs) and needs[2] > 0:
        best, most = -1, 0
        for i in nodes.listed[: members(nodes, nodes.tested)]:
            free = i if last else free_after(slurm, i, until)[0]
            enough = needs[2] > 1 or nodes.nodes[i].count >= needs[1]
            if (best < 0 or free > most) and enough and not has(nodes.picked, i):
                best, most = i, free
        if best < 0:
            break
        needs = take(nodes, job, best, needs)
    return needs


@kernel
def group(nodes, leaves, needs, old_tree):
    """Sets `nodes.groups` to those of `nodes.tested` (P4), and gives each its `group`; returns the last one plus one.

    Without a tree they are the runs of neighbours. In an `old_tree`, until 20.02, only the leaf with the fewest nodes
    is left, of those that suffice alone.
    """
    groups, n, last = nodes.groups, leaves[1], -2
    for k in range(*leaves):
        groups[k].members = groups[k].cpus = groups[k].used = 0
    for i in nodes.listed[: members(nodes, nodes.tested)]:
        node = nodes.nodes[i]
        if leaves[1] == 0:
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
    for k in range(leaves[0], leaves[1] * old_tree):
        fewer = only < 0 or groups[k].members < groups[only].members
        if fewer and suffices(groups[k], needs):
            only = k
    if only >= 0:
        for k in range(*leaves):
            groups[k].used = k != only
    return n


@kernel
def suffices(one, needs):
    """Whether a group has as many nodes and CPUs as are needed."""
    return one.members >= needs[0] and one.cpus >= needs[1]


@kernel
def draw(nodes, leaf):
    """Note that the job takes nodes of a leaf, and how far others are from all such."""
    if not nodes.groups[leaf].drawn:
        nodes.groups[leaf].drawn = 1
        for k in range(len(nodes.leaves)):
            nodes.groups[k].far += nodes.hops[leaf, k]


@kernel
def nearer(one, other, n):
    """Whether a leaf goes before another one if n nodes are needed (P5a)."""
    if one.drawn or other.drawn:
        return one.drawn > other.drawn
    enough, fits = one.members >= n, other.members >= n
    if enough != fits:
        return enough and one.far <= other.far
    more = one.members - other.members if enough else other.members - one.members
    return one.far <= other.far and more <= 0 and (one.far < other.far or more < 0)


@kernel
def pick_groups(nodes, job, first, end, near, needs):
    """Best fit in groups (P5), or nodes of the leaves that are `near` (P5a)."""
    groups, tree = nodes.groups, len(nodes.leaves) > 0 and not near
    while not satisfied(needs) and needs[2] > 0:
        best, fits = -1, False
        for k in range(first, end):
            one = groups[k]
            if one.used or one.members == 0:
                continue
            enough = suffices(one, needs)
            if near:
                if best < 0 or nearer(one, groups[best], needs[0]):
                    best = k
            elif (
                best < 0
                or (enough and not fits)
                or (enough == fits and (one.cpus < groups[best].cpus if fits else one.cpus > groups[best].cpus))
            ):
                best, fits = k, enough
        if best < 0:
            break
        groups[best].used = 1
        single, left = needs[0] <= 1 and not near, groups[best].members
        while left > 0 and not satisfied(needs) and needs[2] > 0:
            i = best_node(nodes, best, left, needs, single, tree)
            if i < 0:
                break
            needs, single = take(nodes, job, i, needs), False
            if near:
                draw(nodes, best)
            left -= 1
    return needs


@kernel
def best_node(nodes, k, left, needs, single, tree):
    """The next node to take of group k, which has `left`; -1 if only one more may be taken, and none is enough."""
    best, fits, x, word, most = -1, False, (nodes.groups[k].first >> 6) - 1, ZERO, 0
    while left > 0 and (best < 0 or tree or single):
        while word == ZERO:
            x += 1
            word = nodes.tested[x] & ~nodes.picked[x]
        i = 64 * x + place_of(word)
        word &= word - ONE
        if nodes.nodes[i].group != k:
            continue
        left -= 1
        count = nodes.nodes[i].count
        enough = count >= needs[1]
        better = enough == fits and (tree or (single and fits)) and (count < most if fits else count > most)
        if (better or best < 0 or (enough and not fits)) and (enough or needs[2] > 1):
            best, fits, most = i, enough, count
    return best
