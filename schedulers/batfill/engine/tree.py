"""The waiting jobs in a sorted three-level tree, so that a pass skips every group of jobs that cannot start.

Sections follow each other in the queue's order: overdue, small and large jobs. A
section is a sorted list of groups, a group a sorted list of at most FAN leaves, and a leaf an array of at most LEAF
jobs. An empty section keeps one group with one leaf. A node (a leaf or a group) stores the smallest q in it and, for
every width (`width_of`), the smallest `expected_s` among its jobs up to that width; a pass skips nodes by these. A
section of at most LEAF jobs is one sorted array without these minima.

Within a section jobs are ordered by (key, seq). `seq` is a job's place by (submission time, id), so the sort rule
(key, r, seq) needs no r.

Kernels change the tree in place. Sections, places, leaves and slots are integers; of `jobs`, records.JOB (n_jobs,),
the tree reads `seq` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.base.kernels import entry, kernel, outlined
from batfill.engine.records import NODE, SECTION, SECTIONS, SLOT, SPARE, Tree, new_records

if TYPE_CHECKING:
    pass

LEAF = 64
FAN = 64
ONE = np.uint32(1)  # slots are counted without signs; see `ends.ONE`

# State of a node's minima: exact; a lower bound, as jobs have left since; not computed.
EXACT, STALE, NONE = range(3)


def new_tree(size: int, capacity: int) -> Tree:
    """An empty tree for so many jobs on a machine of `size` processors: no insertion of one of them ever fails."""
    widths = int(width_of(size)) + 1
    # Twice the nodes of packed jobs, so that `pack` is rarely needed, and those of an insertion into each section.
    leaves = 2 * (capacity // LEAF) + 4 * SECTIONS
    nodes = leaves + leaves // FAN + 4 * SECTIONS
    tree = Tree(
        slots=new_records(nodes * LEAF, SLOT),
        nodes=new_records(nodes, NODE),
        shortest_s=np.zeros((nodes, widths)),
        children=np.zeros((nodes, FAN), np.uint32),
        groups=np.zeros((SECTIONS, nodes), np.uint32),
        sections=new_records(SECTIONS, SECTION),
        spare=new_records(1, SPARE),
    )
    clear(tree)
    return tree


def clear(tree: Tree) -> None:
    """Empty the queue."""
    tree.nodes["count"] = np.arange(1, len(tree.nodes) + 1)
    tree.spare[0] = (0, len(tree.nodes))
    tree.sections[:] = 0
    for section in range(len(tree.sections)):
        open_section(tree, section)


@entry(int, gives=int, brief=True)
@kernel
def width_of(procs):
    """The width class of `procs` processors: 2 k for 2^k, 2 k + 1 up to the next power of two.

    Powers of two have separate classes, because many jobs request one and must not count if slightly fewer are free.
    """
    k = 0
    while (2 << k) <= procs:
        k += 1
    return 2 * k + (procs > (1 << k))


@kernel
def precedes(key, row, other_key, other_row, jobs):
    """The sort rule inside a section: lowest key first, then lowest seq, the order of (r, id)."""
    if key != other_key:
        return key < other_key
    return jobs[row].seq < jobs[other_row].seq


# Nodes and lists


@kernel
def insert_at(items, size, place, item):
    """Insert into the first `size` of `items`, (> size,), at `place`, moving later items up."""
    for i in range(size, place, -1):
        items[i] = items[i - 1]
    items[place] = item


@kernel
def new_node(tree):
    """Take an unused node, empty; there must be one left."""
    spare = tree.spare[0]
    index = spare.first
    node = tree.nodes[index]
    spare.first = node.count
    spare.left -= 1
    node.count, node.state, node.lowest = 0, NONE, -np.inf
    return index


@kernel
def give_back(tree, index):
    """Count a node as unused."""
    tree.nodes[index].count = tree.spare[0].first
    tree.spare[0].first = index
    tree.spare[0].left += 1


@kernel
def drop_node(tree, siblings, size, place):
    """Remove the node at `place` from the first `size` of `siblings`, a row of `tree.children` or `tree.groups`."""
    index = siblings[place]
    give_back(tree, index)
    for i in range(place, size - 1):
        siblings[i] = siblings[i + 1]


@kernel
def new_group(tree, section, place):
    """Insert an empty group into the section at `place`; returns its node."""
    group = new_node(tree)
    insert_at(tree.groups[section], tree.sections[section].groups, place, group)
    tree.sections[section].groups += 1
    return group


@entry(Tree, int, brief=True)
@outlined
def open_section(tree, section):
    """Create the one group and leaf of an empty section."""
    group = new_group(tree, section, 0)
    tree.children[group, 0] = new_node(tree)
    tree.nodes[group].count = 1


# Insertion


@kernel
def slot_precedes(tree, slot, key, row, jobs):
    """Whether the job in `slot` comes before (key, row) or equals it."""
    return not precedes(key, row, tree.slots[slot].key, tree.slots[slot].row, jobs)


@kernel
def find(tree, section, key, row, jobs):
    """Where (key, row) is or belongs: its group's place, its leaf's place, and the number of jobs up to it there."""
    low, high = 0, tree.sections[section].groups - 1
    while low < high:  # the last group whose first job is not after it
        middle = (low + high + 1) // 2
        if slot_precedes(tree, tree.children[tree.groups[section, middle], 0] * LEAF, key, row, jobs):
            low = middle
        else:
            high = middle - 1
    group_place, group = low, tree.groups[section, low]

    low, high = 0, tree.nodes[group].count - 1
    while low < high:  # the last such leaf
        middle = (low + high + 1) // 2
        if slot_precedes(tree, tree.children[group, middle] * LEAF, key, row, jobs):
            low = middle
        else:
            high = middle - 1
    leaf_place, leaf = low, tree.children[group, low]

    first = np.uint64(leaf * LEAF)
    low_slot, high_slot = first, first + tree.nodes[leaf].count
    while low_slot < high_slot:  # the slot behind the jobs not after it
        middle_slot = (low_slot + high_slot) >> ONE
        if slot_precedes(tree, middle_slot, key, row, jobs):
            low_slot = middle_slot + ONE
        else:
            high_slot = middle_slot
    return group_place, leaf_place, np.int64(low_slot - first)


@kernel
def move_jobs(tree, source, target, n):
    """Copy n jobs from slots `source`, ... to `target`, ...; in different leaves, or target < source."""
    source, target = np.uint64(source), np.uint64(target)
    end = source + np.uint64(n)
    while source < end:
        tree.slots[target] = tree.slots[source]
        source += ONE
        target += ONE


@kernel
def split_group(tree, section, group_place):
    """Move the upper half of a full group's leaves to a new group after it; of the last group, only the last leaf."""
    group = tree.groups[section, group_place]
    keep = FAN - 1 if group_place == tree.sections[section].groups - 1 else FAN // 2
    right = new_group(tree, section, group_place + 1)
    for i in range(keep, FAN):
        tree.children[right, i - keep] = tree.children[group, i]
    tree.nodes[right].count = FAN - keep
    tree.nodes[group].count = keep
    tree.nodes[group].state = max(tree.nodes[group].state, STALE)


@kernel
def split_leaf(tree, section, group_place, leaf_place):
    """Move the upper half of a full leaf's jobs to a new leaf after it; of the last leaf, only the last job.

    The exception keeps leaves full if the queue grows at its end, as under fcfs. The group must not be full.
    """
    group = tree.groups[section, group_place]
    leaf = tree.children[group, leaf_place]
    at_end = group_place == tree.sections[section].groups - 1 and leaf_place == tree.nodes[group].count - 1
    keep = LEAF - 1 if at_end else LEAF // 2
    right = new_node(tree)
    insert_at(tree.children[group], tree.nodes[group].count, leaf_place + 1, right)
    tree.nodes[group].count += 1
    move_jobs(tree, leaf * LEAF + keep, right * LEAF, LEAF - keep)
    tree.nodes[right].count = LEAF - keep
    tree.nodes[leaf].count = keep
    tree.nodes[leaf].state = max(tree.nodes[leaf].state, STALE)


@outlined
def split(tree, section, group_place, leaf_place):
    """Split a full leaf, or its group first if that is also full."""
    if tree.nodes[tree.groups[section, group_place]].count == FAN:
        split_group(tree, section, group_place)
    else:
        split_leaf(tree, section, group_place, leaf_place)


@kernel
def insert(tree, section, key, row, expected_s, procs, jobs):
    """Insert a job into the section by (key, seq). The tree must have been made for one more job."""
    if tree.spare[0].left < 2:  # it takes at most one new leaf and one new group
        pack(tree)
    tree.sections[section].jobs += 1
    while True:
        group_place, leaf_place, before = find(tree, section, key, row, jobs)
        group = tree.groups[section, group_place]
        leaf = tree.children[group, leaf_place]
        if tree.nodes[leaf].count < LEAF:
            break
        split(tree, section, group_place, leaf_place)

    slot = np.uint64(leaf * LEAF + before)
    last = np.uint64(leaf * LEAF + tree.nodes[leaf].count)
    while last > slot:
        tree.slots[last] = tree.slots[last - ONE]
        last -= ONE
    tree.slots[slot].key = key
    tree.slots[slot].expected_s = expected_s
    tree.slots[slot].procs = procs
    tree.slots[slot].row = row
    tree.nodes[leaf].count += 1
    tree.nodes[leaf].lowest = -np.inf

    count_in(tree, leaf, expected_s, procs)
    count_in(tree, group, expected_s, procs)


@outlined
def pack(tree):
    """Fill each section's groups with leaves, and its leaves with jobs, all but the last, and drop the empty nodes."""
    for section in range(len(tree.sections)):
        leaves = pack_groups(tree, section)
        full, n = np.int64(0), np.int64(0)  # leaves that are full, and the jobs in the next one
        for place in range(leaves):
            leaf = leaf_at(tree, section, place)
            jobs, moved = np.int64(tree.nodes[leaf].count), np.int64(0)
            while moved < jobs:
                target, some = leaf_at(tree, section, full), min(jobs - moved, LEAF - n)
                if target != leaf or moved != n:
                    move_jobs(tree, leaf * LEAF + moved, target * LEAF + n, some)
                moved, n = moved + some, n + some
                node = tree.nodes[target]
                node.count, node.state, node.lowest = n, NONE, -np.inf
                if n == LEAF:
                    full, n = full + 1, np.int64(0)
        keep_leaves(tree, section, max(full + (n > 0), 1), leaves)


@kernel
def leaf_at(tree, section, place):
    """The leaf at this place of all of a section whose groups are full but for the last."""
    return np.int64(tree.children[tree.groups[section, place // FAN], place % FAN])


@kernel
def pack_groups(tree, section):
    """Move a section's leaves to its first groups, for `leaf_at`; returns how many there are."""
    leaves = np.int64(0)
    for place in range(np.int64(tree.sections[section].groups)):
        group = tree.groups[section, place]
        for i in range(np.int64(tree.nodes[group].count)):
            tree.children[tree.groups[section, leaves // FAN], leaves % FAN] = tree.children[group, i]
            leaves += 1
    return leaves


@kernel
def keep_leaves(tree, section, n, leaves):
    """Drop the leaves behind the first n of a section, and the groups that are empty then."""
    for place in range(n, leaves):
        give_back(tree, leaf_at(tree, section, place))
    groups = (n + FAN - 1) // FAN
    for place in range(np.int64(tree.sections[section].groups)):
        group = tree.groups[section, place]
        if place < groups:
            tree.nodes[group].count, tree.nodes[group].state = min(n - place * FAN, FAN), NONE
        else:
            give_back(tree, group)
    tree.sections[section].groups = groups


# The smallest q and expected run times


@kernel
def count_in(tree, node, expected_s, procs):
    """Include one more job in the node's smallest q and expected run times, if they are computed."""
    if tree.nodes[node].state != NONE:
        tree.nodes[node].procs = min(tree.nodes[node].procs, procs)
        shortest_s = tree.shortest_s[node]
        for width in range(width_of(procs), len(shortest_s)):
            shortest_s[width] = min(shortest_s[width], expected_s)


@outlined
def summarize_leaf(tree, leaf):
    """Make the leaf's smallest q and expected run times exact."""
    shortest_s = tree.shortest_s[leaf]
    shortest_s[:] = np.inf
    fewest = tree.slots[leaf * LEAF].procs
    for slot in range(leaf * LEAF, leaf * LEAF + tree.nodes[leaf].count):
        procs = tree.slots[slot].procs
        fewest = min(fewest, procs)
        width = width_of(procs)
        shortest_s[width] = min(shortest_s[width], tree.slots[slot].expected_s)
    for width in range(1, len(shortest_s)):
        shortest_s[width] = min(shortest_s[width], shortest_s[width - 1])
    tree.nodes[leaf].procs = fewest
    tree.nodes[leaf].state = EXACT


@outlined
def summarize_group(tree, group):
    """Make the smallest q and expected run times of the group and its leaves exact."""
    shortest_s = tree.shortest_s[group]
    shortest_s[:] = np.inf
    fewest = np.int64(2**62)
    for i in range(tree.nodes[group].count):
        leaf = tree.children[group, i]
        if tree.nodes[leaf].state != EXACT:
            summarize_leaf(tree, leaf)
        fewest = min(fewest, tree.nodes[leaf].procs)
        for width in range(len(shortest_s)):
            shortest_s[width] = min(shortest_s[width], tree.shortest_s[leaf, width])
    tree.nodes[group].procs = fewest
    tree.nodes[group].state = EXACT


# Removal


@kernel
def settle_leaf(tree, section, group_place, leaf_place, taken):
    """Tidy a leaf that `taken` jobs have left: drop it if empty, merge it into the leaf before if both are small.

    Returns whether the leaf is gone, so that the next one now has its place.
    """
    group = tree.groups[section, group_place]
    leaf = tree.children[group, leaf_place]
    size = tree.nodes[leaf].count
    tree.sections[section].jobs -= taken
    tree.nodes[group].state = max(tree.nodes[group].state, STALE)
    if size == 0:
        if tree.sections[section].jobs == 0:  # an empty section keeps one leaf
            tree.nodes[leaf].state = NONE
            tree.nodes[group].state = NONE
            return False
        drop_node(tree, tree.children[group], tree.nodes[group].count, leaf_place)
        tree.nodes[group].count -= 1
        return True
    if leaf_place > 0:
        before = tree.children[group, leaf_place - 1]
        if tree.nodes[before].count + size <= LEAF // 2:
            move_jobs(tree, leaf * LEAF, before * LEAF + tree.nodes[before].count, size)
            tree.nodes[before].count += size
            tree.nodes[before].state = NONE
            tree.nodes[before].lowest = -np.inf
            drop_node(tree, tree.children[group], tree.nodes[group].count, leaf_place)
            tree.nodes[group].count -= 1
            return True
    tree.nodes[leaf].state = max(tree.nodes[leaf].state, STALE)
    return False


@kernel
def settle_group(tree, section, group_place):
    """Tidy a group that leaves have left: drop it if empty, merge it into the group before if both are small.

    Returns whether the group is gone, so that the next one now has its place.
    """
    group = tree.groups[section, group_place]
    size = tree.nodes[group].count
    if size == 0:
        drop_node(tree, tree.groups[section], tree.sections[section].groups, group_place)
        tree.sections[section].groups -= 1
        return True
    if group_place > 0:
        before = tree.groups[section, group_place - 1]
        if tree.nodes[before].count + size <= FAN // 2:
            for i in range(size):
                tree.children[before, tree.nodes[before].count + i] = tree.children[group, i]
            tree.nodes[before].count += size
            tree.nodes[before].state = NONE
            drop_node(tree, tree.groups[section], tree.sections[section].groups, group_place)
            tree.sections[section].groups -= 1
            return True
    return False


@kernel
def remove(tree, section, key, row, jobs):
    """Remove the job at (key, row) from the section, which holds it."""
    group_place, leaf_place, after = find(tree, section, key, row, jobs)
    leaf = tree.children[tree.groups[section, group_place], leaf_place]
    slot = leaf * LEAF + after - 1
    tree.nodes[leaf].count -= 1
    move_jobs(tree, slot + 1, slot, tree.nodes[leaf].count + 1 - after)
    settle_leaf(tree, section, group_place, leaf_place, np.int64(1))
    settle_group(tree, section, group_place)


# Reading


@kernel
def has_several_leaves(tree, section):
    """Whether the section has leaves to skip."""
    return tree.sections[section].groups > 1 or tree.nodes[tree.groups[section, 0]].count > 1


@kernel
def first_slot(tree, section):
    """The slot of the section's first job."""
    return tree.children[tree.groups[section, 0], 0] * LEAF


@kernel
def last_slot(tree, section):
    """The slot of the section's last job."""
    group = tree.groups[section, tree.sections[section].groups - 1]
    leaf = tree.children[group, tree.nodes[group].count - 1]
    return leaf * LEAF + tree.nodes[leaf].count - 1
