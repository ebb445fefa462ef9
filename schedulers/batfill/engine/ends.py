"""Running jobs sorted by when they end: by the true ends in a replay, by the expected ones for the reservation.

A sorted array in blocks of at most BLOCK jobs, the latest end first, so that the next job to end is the last of the
last block. While the jobs fit in one block it is one short array: moving ends is then cheaper than a heap's
unpredictable branches. A directory in the same order names each block's slots, its number of jobs and the processors
they will release, so that a job's block is found by a binary search, and the reservation skips whole blocks.

Two neighbouring blocks hold more than half a block together, or they are merged. Kernels change `ends`,
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
def split_block(ends, place):
    """Move the earlier half of a full block's jobs to a new block after it."""
    directory, slots, used = ends.directory, ends.slots, ends.used[0].blocks
    first = directory[used].first
    for i in range(used, place + ONE, -1):
        directory[i] = directory[i - 1]
    full, new, procs = directory[place], directory[place + ONE], np.int64(0)
    for i in range(HALF):
        slots[first + i] = slots[full.first + HALF + i]
        procs += slots[first + i].procs
    new.first, new.count, new.procs = first, HALF, procs
    full.count = HALF
    full.procs -= procs
    ends.used[0].blocks += 1


@outlined
def merge_small(ends, place):
    """Merge a block with a neighbour if one of them is empty, or both hold at most half a block together."""
    directory, slots, last = ends.directory, ends.slots, last_block(ends)
    for later in range(max(place, ONE), min(place + ONE, last) + ONE):
        former, block = directory[np.uint64(later) - ONE], directory[np.uint64(later)]
        if former.count == 0 or block.count == 0 or former.count + block.count <= HALF:
            first = block.first
            for i in range(block.count):
                slots[former.first + former.count + i] = slots[first + i]
            former.count += block.count
            former.procs += block.procs
            for i in range(later, last):
                directory[i] = directory[i + 1]
            directory[last].first = first
            ends.used[0].blocks = last
            return


@outlined
def search_blocks(ends, end_s, row):
    """The place in the directory of the last block whose first job does not end earlier than (end_s, row)."""
    low, high = np.uint64(0), last_block(ends)
    while low < high:
        middle = (low + high + ONE) >> ONE
        first = ends.slots[ends.directory[middle].first]
        if ends_later(end_s, row, first.end_s, first.row):
            high = middle - ONE
        else:
            low = middle
    return low


@kernel
def block_of(ends, end_s, row):
    """As `search_blocks`: the block that holds a job, or to which it belongs; no call while there is one block."""
    return np.uint64(0) if ends.used[0].blocks == 1 else search_blocks(ends, end_s, row)


@kernel
def slot_of(ends, place, row):
    """The slot of a job in the block at `place` of the directory, which holds it."""
    slot = ends.directory[place].first + ends.directory[place].count - ONE
    while ends.slots[slot].row != row:
        slot -= ONE
    return slot


@entry(Ends, float, int, int, brief=True)
@kernel
def enter(ends, end_s, procs, row):
    """Enter a job that starts, or whose end changes."""
    slots = ends.slots
    place = block_of(ends, end_s, row)
    if ends.directory[place].count == BLOCK:
        split_block(ends, place)
        place = block_of(ends, end_s, row)
    block = ends.directory[place]
    slot = block.first + block.count
    while slot > block.first and slots[slot - ONE].end_s < end_s:
        slots[slot] = slots[slot - ONE]
        slot -= ONE
    while slot > block.first and slots[slot - ONE].end_s == end_s and slots[slot - ONE].row < row:
        slots[slot] = slots[slot - ONE]
        slot -= ONE
    slots[slot].end_s = end_s
    slots[slot].procs = procs
    slots[slot].row = row
    block.count += 1
    block.procs += procs


@kernel
def leave(ends, end_s, row):
    """Take out the job at (end_s, row); returns the processors it releases."""
    place = block_of(ends, end_s, row)
    slot, last = slot_of(ends, place, row), ends.directory[place].first + ends.directory[place].count - ONE
    procs = ends.slots[slot].procs
    while slot < last:
        ends.slots[slot] = ends.slots[slot + ONE]
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
    """Count one job with `procs` processors less in a block."""
    block = ends.directory[place]
    block.count -= 1
    block.procs -= procs
    if block.count <= HALF and ends.used[0].blocks > 1:
        merge_small(ends, place)


@kernel
def released(ends, need, free):
    """When `need` processors, > `free`, are free: (end_s, how many are free then); (inf, fewer) if they never are.

    All releases at exactly that instant count.
    """
    shadow_s, place = np.inf, np.uint64(ends.used[0].blocks)
    while place > 0:
        place -= ONE
        block = ends.directory[place]
        if free + block.procs < need:
            free += block.procs
            continue
        slot = block.first + block.count
        while slot > block.first and free < need:
            slot -= ONE
            free += ends.slots[slot].procs
            shadow_s = ends.slots[slot].end_s
        while slot > block.first and ends.slots[slot - ONE].end_s == shadow_s:
            slot -= ONE
            free += ends.slots[slot].procs
        if slot > block.first:
            break
    return shadow_s, free
