"""The waiting jobs in sorted blocks, so that a pass skips every block of jobs that cannot start.

Sections follow each other in the queue's order: overdue, small and large jobs. A section is a sorted list of blocks,
and a block a sorted array of at most BLOCK jobs; an empty section keeps one. A block stores the smallest q in it, for
every width (`width_of`) the smallest `expected_s` among its jobs up to that width, and of each other pool the least
that they want, and for every class (`class_of`) the smallest `expected_s` up to it; a pass skips blocks by these. A
section of one block is one sorted array without these minima.

In a section of more than GROUP blocks, those at GROUP consecutive places have minima of their own, in the same arrays
behind those of blocks (`group_at`): a pass skips all of them at once. A job that joins lowers them; they are dropped
where blocks change places, and where a pass finds that they rule nothing out while jobs have left since, and are made
when next needed.

Within a section jobs are ordered by (key, seq). `seq` is a job's place by (submission time, id), so the sort rule
(key, r, seq) needs no r.

Kernels change `blocks`, records.Blocks, in place, that of `queue` where they take a whole queue. Sections, places,
blocks and slots are integers; of `jobs`, records.JOB (n_jobs,), `seq` alone is read otherwise.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import entry, kernel, outlined
from batfill.engine.records import LIST, NODE, SECTIONS, SLOT, SPARE, Blocks, new_records

BLOCK = 64
GROUP = 16  # blocks
ONE = np.uint32(1)  # slots are counted without signs; see `ends.ONE`

# State of a block's minima: exact; a lower bound, as jobs have left since; not computed.
EXACT, STALE, NONE = range(3)


def new_blocks(size: int, capacity: int, pools: int) -> Blocks:
    """Empty blocks for `capacity` jobs on a machine of `size` processors and more pools: inserting one never fails."""
    n = 2 * (capacity // BLOCK) + 4 * SECTIONS  # twice those of packed jobs, so that `pack` is rarely needed
    both = n + SECTIONS * (n // GROUP + 1)
    blocks = Blocks(
        slots=new_records(n * BLOCK, SLOT),
        nodes=new_records(both, NODE),
        shortest_s=np.zeros((both, 1 + pools, int(width_of(size)) + 1)),
        least=np.zeros((both, pools), np.int64),
        order=np.zeros((SECTIONS, n), np.uint32),
        sections=new_records(SECTIONS, LIST),
        spare=new_records(1, SPARE),
    )
    clear(blocks)
    return blocks


def clear(blocks: Blocks) -> None:
    """Empty the queue."""
    n = blocks.order.shape[1]
    blocks.nodes["count"] = np.arange(1, len(blocks.nodes) + 1)
    blocks.nodes["count"][:SECTIONS] = 0
    blocks.nodes["state"], blocks.nodes["lowest"] = NONE, -np.inf
    blocks.order[:, 0] = np.arange(SECTIONS)
    blocks.sections["blocks"], blocks.sections["jobs"] = 1, 0
    blocks.spare[0] = (SECTIONS, n - SECTIONS)


@entry(int, gives=int, brief=True)
@kernel
def width_of(procs):
    """The width class of `procs` processors: 2 k for 2^k, 2 k + 1 up to the next power of two.

    Powers of two have separate classes, because many jobs request one and must not count if slightly fewer are free.
    """
    procs = max(np.int64(procs), np.int64(1))
    ones = procs | procs >> 1  # without a loop: the highest bit, and all below it
    ones |= ones >> 2
    ones |= ones >> 4
    ones |= ones >> 8
    ones |= ones >> 16
    return 2 * np.int64(np.bitwise_count(np.uint64(ones))) - 2 + (procs & (procs - 1) != 0)


@kernel
def precedes(key, row, other_key, other_row, jobs):
    """The sort rule inside a section: lowest key first, then lowest seq, the order of (r, id)."""
    if key != other_key:
        return key < other_key
    return jobs[row].seq < jobs[other_row].seq


# Blocks come and go


@kernel
def give_back(blocks, index):
    """Count a block as unused."""
    blocks.nodes[index].count = blocks.spare[0].first
    blocks.spare[0].first = index
    blocks.spare[0].left += 1


@kernel
def drop_block(blocks, section, place):
    """Remove the block at this place of a section, whose jobs are gone."""
    order, size = blocks.order[section], np.int64(blocks.sections[section].blocks)
    give_back(blocks, order[place])
    for i in range(place, size - 1):
        order[i] = order[i + 1]
    blocks.sections[section].blocks -= 1
    drop_groups(blocks, section, place)


@outlined
def split(blocks, section, place):
    """Move the upper half of a full block's jobs to a new block after it; of the last block, only the last job.

    The exception keeps blocks full if the queue grows at its end, as under fcfs.
    """
    nodes, order, size = blocks.nodes, blocks.order[section], np.int64(blocks.sections[section].blocks)
    full, new = order[place], blocks.spare[0].first
    blocks.spare[0].first = nodes[new].count
    blocks.spare[0].left -= 1
    for i in range(size, place + 1, -1):
        order[i] = order[i - 1]
    order[place + 1] = new
    blocks.sections[section].blocks += 1
    drop_groups(blocks, section, place)
    keep = BLOCK - 1 if place == size - 1 else BLOCK // 2
    move_jobs(blocks, full * BLOCK + keep, new * BLOCK, BLOCK - keep)
    nodes[new].count, nodes[new].state, nodes[new].lowest = BLOCK - keep, NONE, -np.inf
    nodes[full].count = keep
    nodes[full].state = max(nodes[full].state, STALE)


@outlined
def pack(blocks):
    """Fill each section's blocks with jobs, all but the last, and drop the empty ones."""
    for section in range(len(blocks.sections)):
        order, size = blocks.order[section], np.int64(blocks.sections[section].blocks)
        full, n = np.int64(0), np.int64(0)  # blocks that are full, and the jobs in the next one
        for place in range(size):
            block = np.int64(order[place])
            jobs, moved = np.int64(blocks.nodes[block].count), np.int64(0)
            while moved < jobs:
                target, some = np.int64(order[full]), min(jobs - moved, BLOCK - n)
                if target != block or moved != n:
                    move_jobs(blocks, block * BLOCK + moved, target * BLOCK + n, some)
                moved, n = moved + some, n + some
                node = blocks.nodes[target]
                node.count, node.state, node.lowest = n, NONE, -np.inf
                if n == BLOCK:
                    full, n = full + 1, np.int64(0)
        keep = full + 1 if n > 0 or full == 0 else full
        for place in range(keep, size):
            give_back(blocks, order[place])
        blocks.sections[section].blocks = keep
        drop_groups(blocks, section, np.int64(0))


# Insertion


@kernel
def slot_precedes(blocks, slot, key, row, jobs):
    """Whether the job in `slot` comes before (key, row) or equals it."""
    return not precedes(key, row, blocks.slots[slot].key, blocks.slots[slot].row, jobs)


@kernel
def find(blocks, section, key, row, jobs):
    """Where (key, row) is or belongs: its block's place, and the number of jobs up to it there."""
    low, high = np.int64(0), np.int64(blocks.sections[section].blocks) - 1
    while low < high:  # the last block whose first job is not after it
        middle = (low + high + 1) // 2
        if slot_precedes(blocks, blocks.order[section, middle] * BLOCK, key, row, jobs):
            low = middle
        else:
            high = middle - 1
    block = blocks.order[section, low]
    first = np.uint64(block * BLOCK)
    low_slot, high_slot = first, first + blocks.nodes[block].count
    while low_slot < high_slot:  # the slot behind the jobs not after it
        middle_slot = (low_slot + high_slot) >> ONE
        if slot_precedes(blocks, middle_slot, key, row, jobs):
            low_slot = middle_slot + ONE
        else:
            high_slot = middle_slot
    return low, np.int64(low_slot - first)


@kernel
def move_jobs(blocks, source, target, n):
    """Copy n jobs from slots `source`, ... to `target`, ...; in different blocks, or target < source."""
    source, target = np.uint64(source), np.uint64(target)
    end = source + np.uint64(n)
    while source < end:
        blocks.slots[target] = blocks.slots[source]
        source += ONE
        target += ONE


@kernel
def insert(queue, section, key, row):
    """Insert a job into the section by (key, seq). The blocks must have been made for one more job."""
    blocks, jobs, expected_s, procs = queue.blocks, queue.jobs, queue.jobs[row].expected_s, queue.jobs[row].procs
    if blocks.spare[0].left == 0:
        pack(blocks)
    place, before = find(blocks, section, key, row, jobs)
    if blocks.nodes[blocks.order[section, place]].count == BLOCK:
        split(blocks, section, place)
        place, before = find(blocks, section, key, row, jobs)
    block = blocks.order[section, place]
    node, slot = blocks.nodes[block], np.uint64(block * BLOCK + before)
    last = np.uint64(block * BLOCK + node.count)
    while last > slot:
        blocks.slots[last] = blocks.slots[last - ONE]
        last -= ONE
    blocks.slots[slot].key = key
    blocks.slots[slot].expected_s = expected_s
    blocks.slots[slot].procs = procs
    blocks.slots[slot].row = row
    blocks.sections[section].jobs += 1
    node.count += 1
    node.lowest = -np.inf
    if node.state != NONE:
        note_job(queue, np.int64(block), row)
    if blocks.sections[section].blocks > GROUP:
        group = group_of(blocks, section, place)
        if blocks.nodes[group].state != NONE:
            note_job(queue, group, row)


@outlined
def note_job(queue, index, row):
    """Lower the minima of a block or group to those of a job that joins it."""
    node, shortest_s, job = queue.blocks.nodes[index], queue.blocks.shortest_s[index], queue.jobs[row]
    node.procs = min(node.procs, job.procs)
    lower(shortest_s[0], width_of(job.procs), job.expected_s)
    for pool in range(np.uint64(len(queue.most))):
        wanted = queue.wants[row, pool]
        queue.blocks.least[index, pool] = min(queue.blocks.least[index, pool], wanted)
        lower(shortest_s[pool + ONE], class_of(queue, pool, wanted), job.expected_s)
    if node.user != user_of(queue, row):
        node.user = 0


@kernel
def lower(shortest_s, width, expected_s):
    """Lower the smallest `expected_s` of all widths, or classes, from this one on to that of a job."""
    wide = np.uint64(width)
    while wide < np.uint64(len(shortest_s)) and shortest_s[wide] > expected_s:  # those behind are not larger
        shortest_s[wide] = expected_s
        wide += ONE


@kernel
def spread(shortest_s):
    """Lower the smallest `expected_s` of each width, or class, to those of the ones before it."""
    least_s = np.inf
    for width in range(np.uint64(len(shortest_s))):
        least_s = shortest_s[width] = min(shortest_s[width], least_s)


@kernel
def class_of(queue, pool, amount):
    """The class of an amount of a pool, of as many processors as are the same part of all.

    It is 2 k from 2^k processors on, and 2 k + 1 from half as many more.
    """
    most = max(queue.most[pool], np.int64(1))
    procs = np.int64(min(amount, most) / most * queue.rules[0].procs)  # the product of both may be beyond int64
    k = width_of(procs) // 2
    return 2 * k + (2 * procs >= 3 << k)


@kernel
def user_of(queue, row):
    """The user of a job by number, if users have pools; else 0."""
    return queue.users[row] if len(queue.users) > 0 else np.uint32(0)


@outlined
def summarize(queue, block):
    """Make the block's minima exact."""
    blocks, node, first = queue.blocks, queue.blocks.nodes[block], np.uint64(block * BLOCK)
    slots, shortest_s, end = blocks.slots, blocks.shortest_s[block, 0], first + node.count
    shortest_s[:] = np.inf
    fewest = slots[first].procs
    for slot in range(first, end):
        procs = slots[slot].procs
        fewest = min(fewest, procs)
        width = np.uint64(width_of(procs))
        shortest_s[width] = min(shortest_s[width], slots[slot].expected_s)
    spread(shortest_s)
    node.procs, node.state = fewest, EXACT
    if len(queue.users) > 0:
        node.user = queue.users[slots[first].row]
        for slot in range(first, end):
            if queue.users[slots[slot].row] != node.user:
                node.user = 0
    for pool in range(np.uint64(len(queue.most))):
        shortest_s, least = blocks.shortest_s[block, pool + ONE], queue.most[pool]
        shortest_s[:] = np.inf
        known, own = np.int64(-1), np.uint64(0)
        for slot in range(first, end):
            wanted = queue.wants[slots[slot].row, pool]
            if wanted != known:  # by the job before it
                known, own = wanted, np.uint64(class_of(queue, pool, wanted))
                least = min(least, wanted)
            shortest_s[own] = min(shortest_s[own], slots[slot].expected_s)
        spread(shortest_s)
        blocks.least[block, pool] = least


# Groups


@kernel
def group_of(blocks, section, place):
    """The index of the minima of the group that has this place of a section."""
    n = blocks.order.shape[1]
    return n + section * (n // GROUP + 1) + place // GROUP


@kernel
def drop_groups(blocks, section, place):
    """Drop the minima of the group that has this place, and of those behind it."""
    last = group_of(blocks, section, np.int64(blocks.sections[section].blocks))
    for group in range(group_of(blocks, section, place), last + 1):
        blocks.nodes[group].state = NONE


@kernel
def renew(blocks, group):
    """Let the minima of a group, which rule nothing out, be made again unless they are exact."""
    if blocks.nodes[group].state != EXACT:
        blocks.nodes[group].state = NONE


@kernel
def loosen(blocks, section, place):
    """Note of the group that has this place that its minima may be too low, as those of its blocks were, or are."""
    if blocks.sections[section].blocks > GROUP:
        group = blocks.nodes[group_of(blocks, section, place)]
        group.state = max(group.state, STALE)


@kernel
def enters_group(blocks, section, place, back):
    """Whether this place is the first of a group, or the last in a walk `back`, and there is more than one."""
    size = np.int64(blocks.sections[section].blocks)
    return size > GROUP and (place % GROUP == GROUP - 1 or place == size - 1 if back else place % GROUP == 0)


@outlined
def group_at(queue, section, place):
    """The index of the minima of the group that has this place, which are made if they were dropped."""
    first, group = place - place % GROUP, group_of(queue.blocks, section, place)
    blocks, whole = queue.blocks, queue.blocks.nodes[group]
    if whole.state != NONE:
        return group
    shortest_s, least = blocks.shortest_s[group], blocks.least[group]
    shortest_s[:, :] = np.inf
    whole.state = EXACT
    for place in range(first, min(first + GROUP, np.int64(blocks.sections[section].blocks))):
        block = np.int64(blocks.order[section, place])
        node = blocks.nodes[block]
        if node.state == NONE:
            summarize(queue, block)
        joins = place > first
        whole.procs = min(whole.procs, node.procs) if joins else node.procs
        whole.user = node.user if not joins or whole.user == node.user else 0
        for pool in range(np.uint64(len(shortest_s))):
            low_s, others_s = shortest_s[pool], blocks.shortest_s[block, pool]
            for width in range(np.uint64(len(low_s))):
                low_s[width] = min(low_s[width], others_s[width])
        for pool in range(len(least)):
            least[pool] = min(least[pool], blocks.least[block, pool]) if joins else blocks.least[block, pool]
    return group


# Removal


@kernel
def settle_block(blocks, section, place, taken):
    """Tidy a block that `taken` jobs have left: drop it if empty, merge it into the one before if both are small.

    Returns whether the block is gone, so that the next one now has its place.
    """
    nodes, order = blocks.nodes, blocks.order[section]
    node = nodes[order[place]]
    size = node.count
    blocks.sections[section].jobs -= taken
    if size == 0:
        if blocks.sections[section].blocks == 1:  # an empty section keeps one
            node.state = NONE
            return False
        drop_block(blocks, section, place)
        return True
    if place > 0:
        before = nodes[order[place - 1]]
        if before.count + size <= BLOCK // 2:
            move_jobs(blocks, order[place] * BLOCK, order[place - 1] * BLOCK + before.count, size)
            before.count += size
            before.state, before.lowest = NONE, -np.inf
            drop_block(blocks, section, place)
            drop_groups(blocks, section, place - 1)
            return True
    node.state = max(node.state, STALE)
    loosen(blocks, section, place)
    return False


@kernel
def remove(blocks, section, key, row, jobs):
    """Remove the job at (key, row) from the section, which holds it."""
    place, after = find(blocks, section, key, row, jobs)
    block = blocks.order[section, place]
    slot = block * BLOCK + after - 1
    blocks.nodes[block].count -= 1
    move_jobs(blocks, slot + 1, slot, blocks.nodes[block].count + 1 - after)
    settle_block(blocks, section, place, np.int64(1))


# Reading


@kernel
def first_slot(blocks, section):
    """The slot of the section's first job."""
    return blocks.order[section, 0] * BLOCK


@kernel
def last_slot(blocks, section):
    """The slot of the section's last job."""
    block = blocks.order[section, blocks.sections[section].blocks - 1]
    return block * BLOCK + blocks.nodes[block].count - 1
