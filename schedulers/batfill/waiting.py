"""The waiting jobs, kept in the queue's order so that a pass can skip every group of jobs that cannot start.

Sections follow each other: OVERDUE, one for each level of small jobs, and the large ones. Each is a sorted list of
groups, a group is a sorted list of at most FAN leaves, and a leaf holds at most LEAF jobs side by side. A section
without jobs has one group with one leaf. A leaf and a group know the smallest q in them and, for every width
(`width_of`), the smallest p~ among their jobs up to it; from these `easy` sees that no job in there can start. With at
most LEAF jobs waiting all of it is one sorted array, and nothing is kept beside it.

Within a section jobs are ordered by (key, seq). `seq` is a job's place by (submission time, id), so the sort rule
(key, r, seq) needs no r.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.compiled import kernel, seldom

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The section of the jobs of level k is k, that of the large ones comes last. It has numpy's type, as have some numbers
# in kernels: numba would compile all that is told a plain 0 once more for it.
OVERDUE = np.int64(0)
LEAF = 64
FAN = 64

# What a leaf's or group's smallest values are worth: exact; a bound (jobs have left since); not computed.
EXACT, BOUND, NONE = range(3)


SLOT = np.dtype([("key", "f8"), ("walltime_s", "f8"), ("procs", "i4"), ("row", "u4")])
# A leaf counts jobs in `size`, a group leaves; `procs` is the smallest q. An unused one has the next unused in `size`.
NODE = np.dtype([("size", "u4"), ("state", "u4"), ("procs", "i8")])
# Of keys that move with time: no job of the leaf had at when_s a key below `lowest`, and none falls faster than `slope`
# (`easy.trend` says in which units). `lowest` is -inf where nothing is known.
TREND = np.dtype([("when_s", "f8"), ("lowest", "f8"), ("slope", "f8")])
SECTION = np.dtype([("size", "u4"), ("jobs", "u4")])
SPARE = np.dtype([("leaf", "u4"), ("leaves", "u4"), ("group", "u4"), ("groups", "u4"), ("jobs", "u4")])


class Waiting(NamedTuple):
    """Sections, groups and leaves as flat arrays. Leaf l's jobs are at l * LEAF ... l * LEAF + leaves[l].size - 1."""

    slots: NDArray[np.void]  # SLOT (leaves * LEAF,)  walltime_s is p~, or the expected run time in force
    leaves: NDArray[np.void]  # NODE (leaves,)
    leaf_shortest_s: NDArray[np.float64]  # (leaves, widths)  smallest p~ of the jobs up to this width
    leaf_trend: NDArray[np.void]  # TREND (leaves,)
    groups: NDArray[np.void]  # NODE (groups,)
    group_shortest_s: NDArray[np.float64]  # (groups, widths)
    group_leaf: NDArray[np.uint32]  # (groups, FAN)  the group's leaves in order
    section_group: NDArray[np.uint32]  # (sections, groups)  the section's groups in order
    sections: NDArray[np.void]  # SECTION (sections,)  how many groups and jobs it has
    spare: NDArray[np.void]  # SPARE (1,)  the first unused leaf and group, how many there are, and how many jobs wait


def waiting_room(size: int, levels: int = 1, leaves: int = 32) -> Waiting:
    """An empty structure for the jobs of a machine of `size` processors; `enlarged` makes room when it runs out.

    `levels` is how many levels of small jobs there are.
    """
    widths = width_of(size) + 1
    sections = levels + 2
    leaves = max(leaves, 2 * sections)
    groups = max(leaves // 4, 2 * sections)
    waiting = Waiting(
        slots=np.zeros(leaves * LEAF, SLOT),
        leaves=np.zeros(leaves, NODE),
        leaf_shortest_s=np.zeros((leaves, widths)),
        leaf_trend=np.zeros(leaves, TREND),
        groups=np.zeros(groups, NODE),
        group_shortest_s=np.zeros((groups, widths)),
        group_leaf=np.zeros((groups, FAN), np.uint32),
        section_group=np.zeros((sections, groups), np.uint32),
        sections=np.zeros(sections, SECTION),
        spare=np.zeros(1, SPARE),
    )
    clear(waiting)
    return waiting


def clear(waiting: Waiting) -> None:
    """Let nobody wait."""
    waiting.leaves[:] = chain(len(waiting.leaves), 0)
    waiting.groups[:] = chain(len(waiting.groups), 0)
    waiting.spare[:] = (0, len(waiting.leaves), 0, len(waiting.groups), 0)
    waiting.sections[:] = 0
    for section in range(len(waiting.sections)):
        open_section(waiting, section)


def chain(n: int, first: int) -> NDArray[np.void]:
    """`n` unused nodes with the numbers from `first` on, each of which names the next."""
    nodes = np.zeros(n, NODE)
    nodes["size"] = np.arange(first + 1, first + n + 1)
    return nodes


def enlarged(waiting: Waiting) -> Waiting:
    """The same jobs in the same places, with twice the room."""
    leaves, groups = len(waiting.leaves), len(waiting.groups)
    spare = waiting.spare.copy()
    new_leaves, new_groups = chain(leaves, leaves), chain(groups, groups)
    new_leaves["size"][-1], new_groups["size"][-1] = spare["leaf"][0], spare["group"][0]
    spare["leaf"], spare["group"] = leaves, groups
    spare["leaves"] += leaves
    spare["groups"] += groups

    def doubled(array: NDArray[Any], axis: int = 0) -> NDArray[Any]:
        return np.concatenate([array, np.zeros_like(array)], axis=axis)

    return Waiting(
        slots=doubled(waiting.slots),
        leaves=np.concatenate([waiting.leaves, new_leaves]),
        leaf_shortest_s=doubled(waiting.leaf_shortest_s),
        leaf_trend=doubled(waiting.leaf_trend),
        groups=np.concatenate([waiting.groups, new_groups]),
        group_shortest_s=doubled(waiting.group_shortest_s),
        group_leaf=doubled(waiting.group_leaf),
        section_group=doubled(waiting.section_group, axis=1),
        sections=waiting.sections.copy(),
        spare=spare,
    )


@kernel
def width_of(procs):
    """The width a job of `procs` processors counts under: 2 k for 2^k, and 2 k + 1 up to the next power of two.

    Powers of two have widths of their own, as many jobs ask for one: they must not count where a few less are free.
    """
    k = 0
    while (2 << k) <= procs:
        k += 1
    return 2 * k + (procs > (1 << k))


@kernel
def has_room(waiting):
    """Whether one more job can be inserted, wherever it belongs: that takes at most one new leaf and one new group."""
    return waiting.spare[0].leaves >= 1 and waiting.spare[0].groups >= 1


@kernel
def new_leaf(waiting):
    """An unused leaf, empty."""
    leaf = waiting.spare[0].leaf
    waiting.spare[0].leaf = waiting.leaves[leaf].size
    waiting.spare[0].leaves -= 1
    waiting.leaves[leaf].size = 0
    waiting.leaves[leaf].state = NONE
    waiting.leaf_trend[leaf].lowest = -np.inf
    return leaf


@kernel
def new_group(waiting, section, place):
    """An unused group, empty, put into the section's list at `place`."""
    group = waiting.spare[0].group
    waiting.spare[0].group = waiting.groups[group].size
    waiting.spare[0].groups -= 1
    waiting.groups[group].size = 0
    waiting.groups[group].state = NONE
    for i in range(waiting.sections[section].size, place, -1):
        waiting.section_group[section, i] = waiting.section_group[section, i - 1]
    waiting.section_group[section, place] = group
    waiting.sections[section].size += 1
    return group


@kernel
def open_section(waiting, section):
    """Give an empty section the one group and leaf that it always has."""
    group = new_group(waiting, section, 0)
    waiting.group_leaf[group, 0] = new_leaf(waiting)
    waiting.groups[group].size = 1


@kernel
def drop_leaf(waiting, group, place):
    """Take the leaf at `place` out of the group."""
    leaf = waiting.group_leaf[group, place]
    waiting.leaves[leaf].size = waiting.spare[0].leaf
    waiting.spare[0].leaf = leaf
    waiting.spare[0].leaves += 1
    for i in range(place, waiting.groups[group].size - 1):
        waiting.group_leaf[group, i] = waiting.group_leaf[group, i + 1]
    waiting.groups[group].size -= 1


@kernel
def drop_group(waiting, section, place):
    """Take the group at `place` out of the section."""
    group = waiting.section_group[section, place]
    waiting.groups[group].size = waiting.spare[0].group
    waiting.spare[0].group = group
    waiting.spare[0].groups += 1
    for i in range(place, waiting.sections[section].size - 1):
        waiting.section_group[section, i] = waiting.section_group[section, i + 1]
    waiting.sections[section].size -= 1


@kernel
def not_after(waiting, slot, key, seq, jobs):
    """Whether the job in `slot` comes before (key, seq), or is it."""
    if waiting.slots[slot].key != key:
        return waiting.slots[slot].key < key
    return jobs[waiting.slots[slot].row].seq <= seq


@kernel
def find(waiting, section, key, seq, jobs):
    """Where (key, seq) is or belongs: group's place, leaf's place, and in the leaf behind the last job not after it."""
    low, high = 0, waiting.sections[section].size - 1
    while low < high:  # the last group whose first job is not after it
        middle = (low + high + 1) // 2
        leaf = waiting.group_leaf[waiting.section_group[section, middle], 0]
        if not_after(waiting, leaf * LEAF, key, seq, jobs):
            low = middle
        else:
            high = middle - 1
    group_place = low
    group = waiting.section_group[section, group_place]

    low, high = 0, waiting.groups[group].size - 1
    while low < high:  # likewise the leaf
        middle = (low + high + 1) // 2
        if not_after(waiting, waiting.group_leaf[group, middle] * LEAF, key, seq, jobs):
            low = middle
        else:
            high = middle - 1
    leaf_place = low
    base = waiting.group_leaf[group, leaf_place] * LEAF

    low, high = 0, waiting.leaves[waiting.group_leaf[group, leaf_place]].size
    while low < high:  # the number of jobs not after it
        middle = (low + high) // 2
        if not_after(waiting, base + middle, key, seq, jobs):
            low = middle + 1
        else:
            high = middle
    return group_place, leaf_place, low


@kernel
def move_jobs(waiting, source, target, n):
    """Copy n jobs from slot `source` on to slot `target` on, which lie in different leaves or target < source."""
    for i in range(n):
        waiting.slots[target + i] = waiting.slots[source + i]


@kernel
def split_group(waiting, section, group_place):
    """Move the upper half of a full group's leaves to a new group behind it; of the last group only the last leaf."""
    group = waiting.section_group[section, group_place]
    keep = FAN - 1 if group_place == waiting.sections[section].size - 1 else FAN // 2
    right = new_group(waiting, section, group_place + 1)
    for i in range(keep, FAN):
        waiting.group_leaf[right, i - keep] = waiting.group_leaf[group, i]
    waiting.groups[right].size = FAN - keep
    waiting.groups[group].size = keep
    waiting.groups[group].state = max(waiting.groups[group].state, BOUND)


@kernel
def split_leaf(waiting, section, group_place, leaf_place):
    """Move the upper half of a full leaf's jobs to a new leaf behind it; of the last leaf only the last job.

    The exception fills the leaves of a queue that grows at its end, as under fcfs. The group must not be full.
    """
    group = waiting.section_group[section, group_place]
    leaf = waiting.group_leaf[group, leaf_place]
    at_end = group_place == waiting.sections[section].size - 1 and leaf_place == waiting.groups[group].size - 1
    keep = LEAF - 1 if at_end else LEAF // 2
    right = new_leaf(waiting)
    for i in range(waiting.groups[group].size, leaf_place + 1, -1):
        waiting.group_leaf[group, i] = waiting.group_leaf[group, i - 1]
    waiting.group_leaf[group, leaf_place + 1] = right
    waiting.groups[group].size += 1
    move_jobs(waiting, leaf * LEAF + keep, right * LEAF, LEAF - keep)
    waiting.leaves[right].size = LEAF - keep
    waiting.leaves[leaf].size = keep
    waiting.leaves[leaf].state = max(waiting.leaves[leaf].state, BOUND)


@seldom
def split(waiting, section, group_place, leaf_place):
    """Make room in a full leaf, or first in its group where that is full as well."""
    if waiting.groups[waiting.section_group[section, group_place]].size == FAN:
        split_group(waiting, section, group_place)
    else:
        split_leaf(waiting, section, group_place, leaf_place)


@kernel
def insert(waiting, section, key, row, walltime_s, procs, jobs):
    """Put the job into its place in the section. The caller has made sure of `has_room`."""
    waiting.sections[section].jobs += 1
    waiting.spare[0].jobs += 1
    while True:
        group_place, leaf_place, slot = find(waiting, section, key, jobs[row].seq, jobs)
        group = waiting.section_group[section, group_place]
        leaf = waiting.group_leaf[group, leaf_place]
        if waiting.leaves[leaf].size < LEAF:
            break
        split(waiting, section, group_place, leaf_place)

    base = leaf * LEAF
    for i in range(base + waiting.leaves[leaf].size, base + slot, -1):
        waiting.slots[i] = waiting.slots[i - 1]
    waiting.slots[base + slot].key = key
    waiting.slots[base + slot].walltime_s = walltime_s
    waiting.slots[base + slot].procs = procs
    waiting.slots[base + slot].row = row
    waiting.leaves[leaf].size += 1
    waiting.leaf_trend[leaf].lowest = -np.inf

    if waiting.leaves[leaf].state != NONE:
        waiting.leaves[leaf].procs = min(waiting.leaves[leaf].procs, procs)
        lower(waiting.leaf_shortest_s[leaf], walltime_s, procs)
    if waiting.groups[group].state != NONE:
        waiting.groups[group].procs = min(waiting.groups[group].procs, procs)
        lower(waiting.group_shortest_s[group], walltime_s, procs)


@kernel
def lower(shortest_s, walltime_s, procs):
    """Let a job of this size count in the smallest p~ per width: `shortest_s`, shape (widths,), is changed."""
    for width in range(width_of(procs), len(shortest_s)):
        shortest_s[width] = min(shortest_s[width], walltime_s)


@seldom
def summarize_leaf(waiting, leaf):
    """Make the leaf's smallest q and p~ exact."""
    shortest_s = waiting.leaf_shortest_s[leaf]
    shortest_s[:] = np.inf
    fewest = waiting.slots[leaf * LEAF].procs
    for slot in range(leaf * LEAF, leaf * LEAF + waiting.leaves[leaf].size):
        procs = waiting.slots[slot].procs
        fewest = min(fewest, procs)
        width = width_of(procs)
        shortest_s[width] = min(shortest_s[width], waiting.slots[slot].walltime_s)
    for width in range(1, len(shortest_s)):
        shortest_s[width] = min(shortest_s[width], shortest_s[width - 1])
    waiting.leaves[leaf].procs = fewest
    waiting.leaves[leaf].state = EXACT


@seldom
def summarize_group(waiting, group):
    """Make the group's smallest q and p~ exact, and its leaves'."""
    shortest_s = waiting.group_shortest_s[group]
    shortest_s[:] = np.inf
    fewest = np.int64(2**62)
    for i in range(waiting.groups[group].size):
        leaf = waiting.group_leaf[group, i]
        if waiting.leaves[leaf].state != EXACT:
            summarize_leaf(waiting, leaf)
        fewest = min(fewest, waiting.leaves[leaf].procs)
        for width in range(len(shortest_s)):
            shortest_s[width] = min(shortest_s[width], waiting.leaf_shortest_s[leaf, width])
    waiting.groups[group].procs = fewest
    waiting.groups[group].state = EXACT


@kernel
def settle_leaf(waiting, section, group_place, leaf_place, taken):
    """After `taken` jobs have left a leaf: drop it if it is empty, merge it into the leaf before if both are small.

    Returns whether the leaf is gone, so that the next one now has its place.
    """
    group = waiting.section_group[section, group_place]
    leaf = waiting.group_leaf[group, leaf_place]
    size = waiting.leaves[leaf].size
    waiting.sections[section].jobs -= taken
    waiting.spare[0].jobs -= taken
    waiting.groups[group].state = max(waiting.groups[group].state, BOUND)
    if size == 0:
        if waiting.sections[section].jobs == 0:  # the one leaf that an empty section keeps
            waiting.leaves[leaf].state = NONE
            waiting.groups[group].state = NONE
            return False
        drop_leaf(waiting, group, leaf_place)
        return True
    if leaf_place > 0:
        before = waiting.group_leaf[group, leaf_place - 1]
        if waiting.leaves[before].size + size <= LEAF // 2:
            move_jobs(waiting, leaf * LEAF, before * LEAF + waiting.leaves[before].size, size)
            waiting.leaves[before].size += size
            waiting.leaves[before].state = NONE
            waiting.leaf_trend[before].lowest = -np.inf
            drop_leaf(waiting, group, leaf_place)
            return True
    waiting.leaves[leaf].state = max(waiting.leaves[leaf].state, BOUND)
    return False


@kernel
def settle_group(waiting, section, group_place):
    """After leaves have left a group: drop it if it is empty, merge it into the group before if both are small.

    Returns whether the group is gone, so that the next one now has its place.
    """
    group = waiting.section_group[section, group_place]
    size = waiting.groups[group].size
    if size == 0:
        drop_group(waiting, section, group_place)
        return True
    if group_place > 0:
        before = waiting.section_group[section, group_place - 1]
        if waiting.groups[before].size + size <= FAN // 2:
            for i in range(size):
                waiting.group_leaf[before, waiting.groups[before].size + i] = waiting.group_leaf[group, i]
            waiting.groups[before].size += size
            waiting.groups[before].state = NONE
            drop_group(waiting, section, group_place)
            return True
    return False


@kernel
def remove(waiting, section, key, seq, jobs):
    """Take the job at (key, seq) out of the section, where it is."""
    group_place, leaf_place, after = find(waiting, section, key, seq, jobs)
    leaf = waiting.group_leaf[waiting.section_group[section, group_place], leaf_place]
    slot = leaf * LEAF + after - 1
    waiting.leaves[leaf].size -= 1
    move_jobs(waiting, slot + 1, slot, waiting.leaves[leaf].size - after + 1)
    settle_leaf(waiting, section, group_place, leaf_place, np.int64(1))
    settle_group(waiting, section, group_place)
