"""Keys that move with time, and the search for the waiting job with the lowest.

Every key is linear in the wait: key + rise (w / u), where u is the expected run time or one second. It is rounded in
this form, here and in docs/background/semantics.md. Two lines cross at most once, so the first job stays first until a
known instant (`overtaken`), and a lower bound on a block's lowest key also holds later (`lower_bound`).

Slopes are per second. Kernels change the blocks' bounds and the head in `queue.state`, nothing else.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import kernel, outlined
from batfill.engine.blocks import BLOCK, first_slot, precedes
from batfill.engine.motion import BY_SECOND, UNLIMITED_S, mixed_key
from batfill.engine.records import NOBODY, OVERDUE, SECTIONS
from batfill.engine.running import all_lack, is_held, skips_some


@kernel
def finite_s(expected_s):
    """The p~ of a job's key: without a walltime a job is expected to run for inf, or -1 s (`waiting.planned_s`)."""
    return UNLIMITED_S if expected_s < 0 else min(expected_s, UNLIMITED_S)


@kernel
def set_mixed_key(weights, job):
    """Set a job's key and rise under the mixed policy with these weights, float64 (6,); see `policy.mixed`."""
    expected_s = finite_s(job.expected_s)
    job.rise = weights[4]
    job.key = weights[4] + mixed_key(
        weights[0], weights[1], weights[2], weights[3], weights[5], job.submit_s, expected_s, job.procs
    )


@kernel
def unit_of(moves, expected_s):
    """The unit of the wait, in seconds, in which keys rise that move in this way (RULES.moves)."""
    return 1.0 if moves == BY_SECOND else finite_s(expected_s)


@kernel
def key_at(now_s, key, rise, submit_s, unit_s):
    """The key at `now_s`, float64; `key` is its value at submission, `rise` its gain per unit of the wait."""
    return key + rise * ((now_s - submit_s) / unit_s)


@kernel
def request_in_key(queue, row):
    """The p~ of a waiting job's key, float64: that of the whole job, even if its try is expected to end earlier."""
    job = queue.jobs[row]
    if queue.rules[0].checkpoint_s < np.inf:
        return queue.tries[row].key_expected_s
    return queue.tries[row].whole_expected_s if job.killable else job.expected_s


@kernel
def moved_key(now_s, queue, row):
    """The key of a waiting job at `now_s`."""
    job = queue.jobs[row]
    if queue.rules[0].moves == BY_SECOND:  # without a division, or a look at `tries`
        return key_at(now_s, job.key, job.rise, job.submit_s, 1.0)
    return key_at(now_s, job.key, job.rise, job.submit_s, unit_of(queue.rules[0].moves, request_in_key(queue, row)))


@kernel
def backfill_key(now_s, queue, row):
    """The key of a waiting job at `now_s` in a separate backfill order."""
    line = queue.backfill_lines[row]
    if line.rise == 0.0:
        return line.key
    unit_s = unit_of(queue.rules[0].backfill_moves, request_in_key(queue, row))
    return key_at(now_s, line.key, line.rise, queue.jobs[row].submit_s, unit_s)


@kernel
def slope_of(queue, row):
    """The slope of a job's key, per second."""
    if queue.rules[0].moves == BY_SECOND:
        return queue.jobs[row].rise
    return queue.jobs[row].rise / unit_of(queue.rules[0].moves, request_in_key(queue, row))


@kernel
def place_key(queue, section, row):
    """The sort key of a job inside its section: its policy key, or its seq if the order is by age or moves."""
    if section == OVERDUE or queue.rules[0].moves:
        return float(queue.jobs[row].seq)
    return queue.jobs[row].key


@kernel
def line_at(now_s, job, slope):
    """A job's key at `now_s`, up to rounding, and the magnitude of its terms, which may cancel."""
    moved = slope * (now_s - job.submit_s)
    return job.key + moved, abs(job.key) + abs(moved)


@kernel
def overtaken(now_s, lowest, slope, other, other_slope, size):
    """The instant until which a key stays below others that are all >= `other` now with slopes >= `other_slope`.

    The rounding margin is generous; `size` is the magnitude of the two keys' terms.
    """
    lead = other - lowest - 1e-12 * size
    if not lead > 0:
        return -np.inf
    closing = max(slope - other_slope, 0.0) + 1e-12 * (abs(slope) + abs(other_slope))
    return (now_s + lead / closing) * (1 - 1e-15)


@kernel
def lower_bound(now_s, blocks, block):
    """A lower bound on the block's keys at `now_s`, rounding included."""
    known = blocks.nodes[block]
    change = known.slope * (now_s - known.when_s)
    return known.lowest + change - 1e-9 * (abs(known.lowest) + abs(change))


@outlined
def lowest_in_block(now_s, queue, block, skips):
    """Search a block at `now_s`: (slot of the lowest key, that key, second-lowest key, bound, least slope, scale).

    Jobs that are skipped count only in the bound on all keys, the slope and the scale, which is the largest magnitude
    of a key at submission. The slot is -1 if all are skipped.
    """
    blocks, best = queue.blocks, np.int64(-1 if skips else block * BLOCK)
    lowest, second, bound, slope, scale = np.inf, np.inf, np.inf, np.inf, 0.0
    for slot in range(block * BLOCK, block * BLOCK + blocks.nodes[block].count):
        row = blocks.slots[slot].row
        job = queue.jobs[row]
        key = moved_key(now_s, queue, row)
        slope = min(slope, slope_of(queue, row))
        scale = max(scale, abs(job.key))
        if skips:
            bound = min(bound, key)
            if is_held(queue, row):
                continue
        second = min(second, max(key, lowest))
        if key < lowest or (skips and best < 0):  # the first of equal keys wins: the block is sorted by seq here
            best, lowest = np.int64(slot), key
    return best, lowest, second, bound if skips else lowest, slope, scale


@kernel
def searched(now_s, queue, block):
    """What `lowest_in_block` finds; without pools that skip it is compiled apart, as it is most of the time spent."""
    if skips_some(queue):
        return lowest_in_block(now_s, queue, block, True)
    return lowest_in_block(now_s, queue, block, False)


@outlined
def bound_block(now_s, queue, block):
    """Update the block's bound; returns the slot of its lowest key at `now_s`, and that key."""
    best, lowest, _, bound, slope, scale = searched(now_s, queue, block)
    node = queue.blocks.nodes[block]
    node.when_s = now_s
    node.lowest = bound - 1e-12 * scale  # when terms cancel, the rounding error scales with them, not with the key
    node.slope = slope
    return best, lowest


@kernel
def lowest_in_section(now_s, queue, section):
    """Find the section's first job at `now_s` that is not skipped.

    Returns its slot, -1 if there is none, the instant until which it stays the first, and its key's slope.
    """
    blocks = queue.blocks
    if blocks.sections[section].blocks > 1:
        return lowest_of_blocks(now_s, queue, section)
    best, lowest, second, _, least, scale = searched(now_s, queue, blocks.order[section, 0])
    if best < 0:
        return best, np.inf, 0.0
    slope = slope_of(queue, blocks.slots[best].row)
    return best, stays_lowest(now_s, lowest, slope, second, least, scale), slope


@kernel
def stays_lowest(now_s, lowest, slope, second, least, scale):
    """The instant until which a block's lowest key stays lowest, given the results of `searched`."""
    if second == np.inf:
        return np.inf
    # The magnitudes of a key and of its value at submission bound that of its moving term.
    size = 2 * (abs(lowest) + abs(second)) + 4 * scale
    return overtaken(now_s, lowest, slope, second, least, size)


@outlined
def lowest_of_blocks(now_s, queue, section):
    """Find the first job of a section of several blocks; returns as `lowest_in_section`.

    Searches the most promising block first, then only blocks whose bound does not exceed the best key so far.
    """
    blocks, jobs, order, skips = queue.blocks, queue.jobs, queue.blocks.order[section], skips_some(queue)
    size = np.int64(blocks.sections[section].blocks)
    first, bound = order[0], np.inf
    for place in range(size):
        low = lower_bound(now_s, blocks, order[place])
        if low < bound:
            first, bound = order[place], low
    best, lowest = bound_block(now_s, queue, first)
    for place in range(size):
        block = order[place]
        if block == first or lower_bound(now_s, blocks, block) > lowest or (skips and all_held(queue, block)):
            continue
        slot, key = bound_block(now_s, queue, block)
        if slot >= 0 and (best < 0 or precedes(key, blocks.slots[slot].row, lowest, blocks.slots[best].row, jobs)):
            best, lowest = slot, key

    if best < 0:
        return best, np.inf, 0.0
    home = np.uint32(best // BLOCK)
    slope = slope_of(queue, blocks.slots[best].row)
    _, _, second, _, least, scale = searched(now_s, queue, home)
    until_s = stays_lowest(now_s, lowest, slope, second, least, scale)
    for place in range(size):
        block = order[place]
        if block != home and not (skips and all_held(queue, block)):
            bound = lower_bound(now_s, blocks, block)
            size_of_terms = abs(lowest) + abs(bound)
            until_s = min(until_s, overtaken(now_s, lowest, slope, bound, blocks.nodes[block].slope, size_of_terms))
    return best, until_s, slope


@kernel
def all_held(queue, block):
    """Whether all jobs of a block are skipped, by its minima, where there are pools that skip."""
    return all_lack(queue, block, queue.rules[0].reserving)


@outlined
def first_not_held(queue, section):
    """The slot of the section's first job that is not skipped, if its order does not move; -1 if there is none."""
    blocks = queue.blocks
    for place in range(blocks.sections[section].blocks):
        block = np.int64(blocks.order[section, place])
        if not all_held(queue, block):
            for slot in range(block * BLOCK, block * BLOCK + blocks.nodes[block].count):
                if not is_held(queue, blocks.slots[slot].row):
                    return slot
    return np.int64(-1)


@outlined
def find_head(now_s, queue):
    """Record the first job of the queue that is not skipped, or NOBODY, and until when it is known to be first."""
    state, slot, until_s, slope = queue.state[0], np.int64(-1), np.inf, 0.0
    for section in range(SECTIONS):
        if queue.blocks.sections[section].jobs > 0:
            if section != OVERDUE and queue.rules[0].moves:
                slot, until_s, slope = lowest_in_section(now_s, queue, section)
            elif skips_some(queue):
                slot = first_not_held(queue, section)
            else:
                slot = np.int64(first_slot(queue.blocks, section))
            if slot >= 0:
                break
    state.head = queue.blocks.slots[np.uint64(slot)].row if slot >= 0 else NOBODY
    state.head_until_s, state.head_slope = until_s, slope


@kernel
def head_with(now_s, queue, section, row):
    """Whether this job becomes the head by waiting in `section`, and the instant until which that answer holds.

    The instant is -inf if the head is unknown. With fixed keys the answer is not needed: (False, inf).
    """
    if not queue.rules[0].moves:
        return False, np.inf
    state = queue.state[0]
    if state.waiting == 0:
        return True, -np.inf if is_held(queue, row) else np.inf
    if state.head_until_s <= now_s:
        return False, -np.inf
    if is_held(queue, row):
        return False, state.head_until_s
    if state.head == NOBODY:
        return True, np.inf
    head, job = queue.jobs[state.head], queue.jobs[row]
    if section != head.section:
        leads = section < head.section  # which means that the section is empty
        return leads, np.inf if leads else state.head_until_s
    if section == OVERDUE:
        return job.seq < head.seq, np.inf
    slope = slope_of(queue, row)
    first, size = line_at(now_s, head, state.head_slope)
    mine, my_size = line_at(now_s, job, slope)
    leads = mine < first
    if leads:
        until_s = overtaken(now_s, mine, slope, first, state.head_slope, size + my_size)
    else:
        until_s = overtaken(now_s, first, state.head_slope, mine, slope, size + my_size)
    return leads, min(state.head_until_s, until_s)
