"""Running jobs sorted by when they end: by the true ends in a replay, by the expected ones for the reservation.

A sorted array in blocks of at most BLOCK jobs, the latest end first, so that the next job to end is the last of the
last block. While the jobs fit in one block it is one short array: moving ends is then cheaper than a heap's
unpredictable branches. A directory in the same order names each block's slots, its number of jobs and the processors
they will release, so that a job is found by two binary searches, and the reservation skips whole blocks.

Two neighbouring blocks always hold more than half a block together, or they are merged. Kernels change `ends`,
records.Ends, in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.kernels import entry, kernel, outlined
from batfill.engine.records import END, ENTRY, USED, Ends, new_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 128
HALF = BLOCK // 2
# Slots are counted without signs, in steps of this: numba then omits the test for negative indices, which took a fifth
# of the time.
ONE = np.uint32(1)


def new_ends(capacity: int) -> Ends:
    """No running job; `capacity` can be entered."""
    blocks = capacity // (BLOCK // 4) + 2
    ends = Ends(new_records(blocks * BLOCK, END), new_records(blocks, ENTRY), new_records(1, USED))
    ends.directory["first"] = np.arange(blocks) * BLOCK
    ends.used["blocks"] = 1
    return ends


def enlarged_ends(ends: Ends, capacity: int) -> Ends:
    """The same jobs in the same slots, with another capacity, which is not smaller."""
    larger = new_ends(capacity)
    for new, old in zip(larger, ends, strict=True):
        new[: len(old)] = old
    return larger


def listed(ends: Ends) -> NDArray[Any]:
    """The running jobs as END (n,), the next to end first: a copy."""
    used = ends.directory[: ends.used["blocks"][0]]
    blocks = zip(used["first"].tolist(), used["count"].tolist(), strict=True)
    jobs: NDArray[Any] = np.concatenate([ends.slots[first : first + count] for first, count in blocks])[::-1]
    return jobs


@entry(Ends, brief=True)
@kernel
def clear_ends(ends):
    """Take all jobs out."""
    ends.used[0].blocks = 1
    ends.directory[0].count = 0
    ends.directory[0].procs = 0


@kernel
def ends_later(end_s, row, other_end_s, other_row):
    """The sort rule: the latest end first, of equal ones the highest row."""
    if end_s != other_end_s:
        return end_s > other_end_s
    return row > other_row


@outlined
def find_block(ends, end_s, row):
    """The place in the directory of the block that holds (end_s, row), or to which it belongs."""
    directory = ends.directory
    low, high = np.uint64(0), np.uint64(ends.used[0].blocks) - ONE
    while low < high:
        middle = (low + high + ONE) >> ONE
        if ends_later(end_s, row, directory[middle].end_s, directory[middle].row):
            high = middle - ONE
        else:
            low = middle
    return low


@kernel
def block_of(ends, end_s, row):
    """As `find_block`, without a call while there is one block."""
    return np.uint64(0) if ends.used[0].blocks == 1 else find_block(ends, end_s, row)


@outlined
def split_block(ends, place):
    """Move the earlier half of a full block's jobs to a new block after it."""
    directory, slots = ends.directory, ends.slots
    used = ends.used[0].blocks
    first = directory[used].first
    for i in range(used, place + ONE, -1):
        directory[i] = directory[i - 1]
    full, new = directory[place], directory[place + ONE]
    procs = np.int64(0)
    for i in range(HALF):
        slots[first + i] = slots[full.first + HALF + i]
        procs += slots[first + i].procs
    new.end_s, new.row = slots[first].end_s, slots[first].row
    new.first, new.count, new.procs = first, HALF, procs
    full.count = HALF
    full.procs -= procs
    ends.used[0].blocks += 1


@entry(Ends, float, int, int, brief=True)
@kernel
def enter(ends, end_s, procs, row):
    """Enter a job that starts, or whose end changes."""
    slots = ends.slots
    place = block_of(ends, end_s, row)
    while ends.directory[place].count == BLOCK:
        split_block(ends, place)
        place = find_block(ends, end_s, row)
    block = ends.directory[place]
    first = block.first
    i = first + block.count
    while i > first and slots[i - ONE].end_s < end_s:
        slots[i] = slots[i - ONE]
        i -= ONE
    while i > first and slots[i - ONE].end_s == end_s and slots[i - ONE].row < row:
        slots[i] = slots[i - ONE]
        i -= ONE
    slots[i].end_s = end_s
    slots[i].procs = procs
    slots[i].row = row
    block.count += 1
    block.procs += procs


@kernel
def slot_in(ends, place, end_s, row):
    """The slot of (end_s, row) in the block at `place` of the directory, which holds it."""
    slots, block = ends.slots, ends.directory[place]
    low, high = np.uint64(block.first), block.first + block.count - ONE
    last = high
    while low < high:
        middle = (low + high) >> ONE
        if slots[middle].end_s > end_s:
            low = middle + ONE
        else:
            high = middle
    if slots[low].row != row:  # others end at the same instant
        high = last
        while low < high:
            middle = (low + high) >> ONE
            if ends_later(slots[middle].end_s, slots[middle].row, end_s, row):
                low = middle + ONE
            else:
                high = middle
    return low


@kernel
def leave(ends, end_s, row):
    """Take out the job at (end_s, row); returns the processors it releases."""
    slots = ends.slots
    place = block_of(ends, end_s, row)
    block = ends.directory[place]
    last = block.first + block.count - ONE
    slot = last
    while slots[slot].row != row:
        slot -= ONE
    procs = slots[slot].procs
    while slot < last:
        slots[slot] = slots[slot + ONE]
        slot += ONE
    shrink(ends, place, procs)
    return procs


@kernel
def last_block(ends):
    """The place in the directory of the block whose jobs end first."""
    return ends.used[0].blocks - np.uint64(1)


@kernel
def next_end(ends):
    """The slot of the job that ends next; there must be one."""
    block = ends.directory[last_block(ends)]
    return block.first + block.count - ONE


@entry(Ends, gives=float, brief=True)
@kernel
def next_end_s(ends):
    """When the next job ends; inf if none runs."""
    return ends.slots[next_end(ends)].end_s if ends.directory[last_block(ends)].count > 0 else np.inf


@kernel
def leave_next(ends):
    """Take out the job that ends next."""
    shrink(ends, last_block(ends), ends.slots[next_end(ends)].procs)


@kernel
def shrink(ends, place, procs):
    """Count one job with `procs` processors less in a block, and merge it with a neighbour if both are small."""
    block = ends.directory[place]
    block.count -= 1
    block.procs -= procs
    if block.count <= HALF and ends.used[0].blocks > 1:
        merge_small(ends, place)


@outlined
def merge_small(ends, place):
    """Merge a block with a neighbour if they hold at most half a block together; drop an empty one."""
    directory = ends.directory
    count = directory[place].count
    if count == 0:
        drop_block(ends, place)
    elif place > 0 and directory[place - ONE].count + count <= HALF:
        merge_into_former(ends, place)
    elif place < last_block(ends) and count + directory[place + ONE].count <= HALF:
        merge_into_former(ends, place + ONE)


@outlined
def merge_into_former(ends, place):
    """Move all jobs of a block to the end of the block before it."""
    former, block = ends.directory[place - ONE], ends.directory[place]
    for i in range(block.count):
        ends.slots[former.first + former.count + i] = ends.slots[block.first + i]
    former.count += block.count
    former.procs += block.procs
    drop_block(ends, place)


@kernel
def drop_block(ends, place):
    """Remove a block whose jobs are gone from the directory."""
    directory, last = ends.directory, last_block(ends)
    first = directory[place].first
    while place < last:
        directory[place] = directory[place + ONE]
        place += ONE
    directory[last].first = first
    ends.used[0].blocks = last


@kernel
def released(ends, need, free):
    """When `need` processors, > `free`, are free: (end_s, how many are free then); (inf, fewer) if they never are.

    All releases at exactly that instant count.
    """
    directory, slots = ends.directory, ends.slots
    after = np.uint64(ends.used[0].blocks)  # the place of the block after
    while after > 0 and free + directory[after - ONE].procs < need:
        after -= ONE
        free += directory[after].procs
    if after == 0:
        return np.inf, free
    block = directory[after - ONE]
    slot = block.first + block.count
    while free < need:
        slot -= ONE
        free += slots[slot].procs
    end_s = slots[slot].end_s
    while True:
        while slot > block.first and slots[slot - ONE].end_s == end_s:
            slot -= ONE
            free += slots[slot].procs
        after -= ONE
        if slot > block.first or after == 0:
            return end_s, free
        block = directory[after - ONE]
        slot = block.first + block.count
        if slots[block.first].end_s == end_s:  # the whole block
            slot = np.uint64(block.first)
            free += block.procs
