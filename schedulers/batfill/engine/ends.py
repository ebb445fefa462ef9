"""Running jobs sorted by when they end: by the true ends in a replay, by the expected ones for the reservation.

A sorted array in blocks of at most BLOCK jobs, the latest end first, so that the next job to end is the last of the last
block. While the jobs fit in one block it is one short array: moving ends is then cheaper than a heap's unpredictable
branches. A directory in the same order names each block's slots, its number of jobs and the processors they will
release, so that a job is found by two binary searches, and the reservation skips whole blocks.

Two neighbouring blocks always hold more than half a block together, or they are merged. Kernels change `ends`,
records.Ends, in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.engine.jit import expression, kernel, outlined
from batfill.engine.records import Ends, new_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 128
HALF = BLOCK // 2

# A running job: when it ends, or is expected to, and the processors it will then release.
END = np.dtype([("end_s", "f8"), ("procs", "i4"), ("row", "u4")])
# A block's entry in the directory. Entries beyond those in use name the unused blocks in `first`.
ENTRY = np.dtype(
    [
        ("end_s", "f8"),  # the block's jobs end at (end_s, row) or earlier, those of the block before later
        ("procs", "i8"),  # what its jobs will release together
        ("row", "u4"),
        ("first", "u4"),  # its first slot
        ("count", "u4"),  # its jobs
        ("unused", "u4"),
    ]
)
TOTAL = np.dtype([("jobs", "u4"), ("blocks", "u4")])  # blocks in use, at least one


def new_ends(capacity: int) -> Ends:
    """No running job; `capacity` can be entered."""
    blocks = capacity // (BLOCK // 4) + 2
    ends = Ends(new_records(blocks * BLOCK, END), new_records(blocks, ENTRY), new_records(1, TOTAL))
    ends.directory["first"] = np.arange(blocks) * BLOCK
    ends.total["blocks"] = 1
    return ends


def enlarged_ends(ends: Ends, capacity: int) -> Ends:
    """The same jobs in the same slots, with another capacity, which is not smaller."""
    larger = new_ends(capacity)
    for new, old in zip(larger, ends, strict=True):
        new[: len(old)] = old
    return larger


def listed(ends: Ends) -> NDArray[Any]:
    """The running jobs as END (n,), the next to end first: a copy."""
    used = ends.directory[: ends.total["blocks"][0]]
    blocks = zip(used["first"].tolist(), used["count"].tolist(), strict=True)
    jobs: NDArray[Any] = np.concatenate([ends.slots[first : first + count] for first, count in blocks])[::-1]
    return jobs


@kernel
def clear_ends(ends):
    """Take all jobs out."""
    ends.total[0].jobs = 0
    ends.total[0].blocks = 1
    ends.directory[0].count = 0
    ends.directory[0].procs = 0


@expression
def ends_later(end_s, row, other_end_s, other_row):
    """The sort rule: the latest end first, of equal ones the highest row."""
    if end_s != other_end_s:
        return end_s > other_end_s
    return row > other_row


@outlined
def find_block(ends, end_s, row):
    """The place in the directory of the block that holds (end_s, row), or to which it belongs."""
    directory = ends.directory
    low, high = np.int64(0), np.int64(ends.total[0].blocks) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if ends_later(end_s, row, directory[middle].end_s, directory[middle].row):
            high = middle - 1
        else:
            low = middle
    return low


@expression
def block_of(ends, end_s, row):
    """As `find_block`, without a call while there is one block."""
    return np.int64(0) if ends.total[0].blocks == 1 else find_block(ends, end_s, row)


@outlined
def split_block(ends, place):
    """Move the earlier half of a full block's jobs to a new block after it."""
    directory, slots = ends.directory, ends.slots
    used = np.int64(ends.total[0].blocks)
    first = directory[used].first
    for i in range(used, place + 1, -1):
        directory[i] = directory[i - 1]
    full, new = directory[place], directory[place + 1]
    procs = np.int64(0)
    for i in range(HALF):
        slots[first + i] = slots[full.first + HALF + i]
        procs += slots[first + i].procs
    new.end_s, new.row = slots[first].end_s, slots[first].row
    new.first, new.count, new.procs = first, HALF, procs
    full.count = HALF
    full.procs -= procs
    ends.total[0].blocks += 1


@kernel
def enter(ends, end_s, procs, row):
    """Enter a job that starts, or whose end changes."""
    slots = ends.slots
    place = block_of(ends, end_s, row)
    while ends.directory[place].count == BLOCK:
        split_block(ends, place)
        place = find_block(ends, end_s, row)
    block = ends.directory[place]
    first = np.int64(block.first)
    i = first + block.count
    while i > first and ends_later(end_s, row, slots[i - 1].end_s, slots[i - 1].row):
        slots[i] = slots[i - 1]
        i -= 1
    slots[i].end_s = end_s
    slots[i].procs = procs
    slots[i].row = row
    block.count += 1
    block.procs += procs
    ends.total[0].jobs += 1


@expression
def slot_in(ends, place, end_s, row):
    """The slot of (end_s, row) in the block at `place` of the directory, which holds it."""
    slots, block = ends.slots, ends.directory[place]
    low, high = np.int64(block.first), np.int64(block.first) + block.count - 1
    while low < high:
        middle = (low + high) // 2
        if ends_later(slots[middle].end_s, slots[middle].row, end_s, row):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def leave(ends, end_s, row):
    """Take out the job at (end_s, row); returns the processors it releases."""
    slots = ends.slots
    place = block_of(ends, end_s, row)
    block = ends.directory[place]
    slot = slot_in(ends, place, end_s, row)
    procs = slots[slot].procs
    for i in range(slot, np.int64(block.first) + block.count - 1):
        slots[i] = slots[i + 1]
    shrink(ends, place, procs)
    return procs


@expression
def next_end(ends):
    """The slot of the job that ends next; there must be one."""
    block = ends.directory[np.int64(ends.total[0].blocks) - 1]
    return np.int64(block.first) + block.count - 1


@kernel
def next_end_s(ends):
    """When the next job ends; inf if none runs."""
    return ends.slots[next_end(ends)].end_s if ends.total[0].jobs > 0 else np.inf


@expression
def leave_next(ends):
    """Take out the job that ends next."""
    shrink(ends, np.int64(ends.total[0].blocks) - 1, ends.slots[next_end(ends)].procs)


@kernel
def shrink(ends, place, procs):
    """Count one job with `procs` processors less in a block, and merge it with a neighbour if both are small."""
    block, total = ends.directory[place], ends.total[0]
    block.count -= 1
    block.procs -= procs
    total.jobs -= 1
    if block.count <= HALF and total.blocks > 1:
        merge_small(ends, place)


@outlined
def merge_small(ends, place):
    """Merge a block with the one before or after it if they hold at most half a block together, or if it is empty."""
    directory, used = ends.directory, np.int64(ends.total[0].blocks)
    count = directory[place].count
    if count == 0:
        drop_block(ends, place)
    elif place > 0 and directory[place - 1].count + count <= HALF:
        merge_into_former(ends, place)
    elif place + 1 < used and count + directory[place + 1].count <= HALF:
        merge_into_former(ends, place + 1)


@outlined
def merge_into_former(ends, place):
    """Move all jobs of a block to the end of the block before it."""
    former, block = ends.directory[place - 1], ends.directory[place]
    for i in range(np.int64(block.count)):
        ends.slots[former.first + former.count + i] = ends.slots[block.first + i]
    former.count += block.count
    former.procs += block.procs
    drop_block(ends, place)


@kernel
def drop_block(ends, place):
    """Remove a block whose jobs are gone from the directory."""
    directory, last = ends.directory, np.int64(ends.total[0].blocks) - 1
    first = directory[place].first
    for i in range(place, last):
        directory[i] = directory[i + 1]
    directory[last].first = first
    ends.total[0].blocks = last


@kernel
def released(ends, need, free):
    """When `need` processors, > `free`, are free: (end_s, how many are free then); (inf, fewer) if they never are.

    All releases at exactly that instant count.
    """
    directory, slots = ends.directory, ends.slots
    place = np.int64(ends.total[0].blocks) - 1
    while place >= 0 and free + directory[place].procs < need:
        free += directory[place].procs
        place -= 1
    if place < 0:
        return np.inf, free
    first = np.int64(directory[place].first)
    slot = first + directory[place].count
    while free < need:
        slot -= 1
        free += slots[slot].procs
    end_s = slots[slot].end_s
    while True:
        while slot > first and slots[slot - 1].end_s == end_s:
            slot -= 1
            free += slots[slot].procs
        if slot > first or place == 0:
            return end_s, free
        place -= 1
        first = np.int64(directory[place].first)
        slot = first + directory[place].count
        if slots[first].end_s == end_s:  # the whole block
            slot = first
            free += directory[place].procs
