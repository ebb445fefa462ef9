"""Decides which waiting jobs start now: EASY backfilling for every host, as defined in docs/background/semantics.md.

`running.may_backfill` is the rule. `easy_pass` applies it in one of two ways: `pass_in_order` walks once through a
queue whose order is fixed and also the backfill order; `pass_by_key` starts heads while they fit, then takes backfill
candidates from a heap, or, in a queue whose keys move, searches for each by bounds. Both skip the blocks in which no
job can start.

Kernels change `queue`, records.QueueArrays, in place. A decision depends on the waiting and running jobs, never on the
previous pass; the state kept between passes only saves work (`arrivals.py`). Pools other than processors are a test
more of a job that has enough of those. `plan.py` makes the pass with more or fewer reservations than one, a number of
jobs to test, or dates of a calendar, and `pass_by_key` that beside a kept reservation, which depends on the decision in
which the job became the head.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import entry, kernel, outlined
from batfill.engine.blocks import (
    BLOCK,
    EXACT,
    GROUP,
    NONE,
    enters_group,
    group_at,
    loosen,
    move_jobs,
    precedes,
    renew,
    settle_block,
    summarize,
    width_of,
)
from batfill.engine.candidates import sift, swap
from batfill.engine.ends import ONE
from batfill.engine.keys import all_held, backfill_key, find_head, lower_bound, moved_key
from batfill.engine.plan import ended_if_planned, plan_pass, starts_by_plan
from batfill.engine.records import (
    GOES_ON,
    LAST_S,
    NEVER_S,
    NO_HEAD,
    NOBODY,
    OVERDUE,
    UNRESERVED,
    URGENT,
    Decided,
    QueueArrays,
)
from batfill.engine.running import (
    all_lack,
    charge,
    correct,
    finish,
    is_held,
    lacks,
    lacks_now,
    may_backfill,
    may_start_behind,
    next_to_stop,
    occupy,
    outlast,
    reserve,
    shortest_to_start,
    skips_some,
    start,
)
from batfill.engine.waiting import (
    NONE_WAITS,
    bring_forward,
    hold_head,
    is_walk,
    stands_back,
    start_heads,
    start_waiting,
)

EVERY, ANY, FIRST = range(3)  # jobs that `gather_candidates` looks for


@kernel
def easy_pass(now_s, queue, started):
    """Run one EASY pass at `now_s`; returns how many jobs start, and how many of them ahead of the reservation.

    `started`, records.STARTED (>= free processors,), receives the rows in start order; those from the second returned
    number on were backfilled. Jobs that go first must already be in their section (`bring_forward`).
    """
    state, n, ahead = queue.state[0], np.int64(0), np.int64(0)
    state.wake_s = np.inf
    if queue.rules[0].keeps and not is_walk(queue):
        n, ahead = pass_by_key(now_s, queue, started)
    elif state.free > 0 and state.waiting > 0:
        if queue.rules[0].planned:
            n, ahead = plan_pass(now_s, queue, started)
        elif state.free < state.fewest and not skips_some(queue):
            settle_without_starts(now_s, queue)
        elif is_walk(queue):
            n, ahead = pass_in_order(now_s, queue, started)
        else:
            n, ahead = pass_by_key(now_s, queue, started)
    if queue.rules[0].keeps and state.waiting == 0:
        state.kept_for = 0
    elif queue.rules[0].keeps and is_walk(queue):  # the head has its reservation also if the pass needed none
        find_head(now_s, queue)
        reserve(now_s, queue)
    if stands_back(queue):
        hold_head(now_s, queue)
    return n, ahead


@kernel
def begin_decision(now_s, queue):
    """Let the jobs go first that do from now on, and raise what running jobs outlive."""
    bring_forward(now_s, queue)
    if queue.rules[0].outlived:
        correct(now_s, queue)


@entry(float, QueueArrays, Decided, gives=int, brief=True)
@kernel
def decide(now_s, queue, decided):
    """Begin a decision, then run `easy_pass`; returns how many jobs start."""
    begin_decision(now_s, queue)
    n, _ = easy_pass(now_s, queue, decided.tries)
    return np.int64(n)


@kernel
def settle(queue):
    """Record at the end of a pass whether no waiting job can start before a job ends, for `arrivals.py`."""
    state = queue.state[0]
    if queue.rules[0].planned:  # `plan.py` has done so
        return
    if queue.rules[0].agent:  # the next pass may reserve for another job
        state.settled = state.free < state.fewest
        return
    # If the head waits for jobs without walltime, a backfilled one counts in the next reservation too, which then finds
    # more spare processors than this pass has left.
    state.settled = state.ahead != NO_HEAD and (state.extra == UNRESERVED or state.shadow_s < LAST_S)
    if skips_some(queue):  # without a head, all are skipped; one that is skipped from now on has no reservation
        if state.ahead == NO_HEAD:
            state.head = NOBODY
        state.settled = state.ahead == NO_HEAD or (state.settled and not is_held(queue, state.head))


@kernel
def settle_without_starts(now_s, queue):
    """Record that no waiting job fits: the head's reservation is made when a job arrives that does."""
    state = queue.state[0]
    if not queue.rules[0].moves:
        find_head(now_s, queue)
    state.ahead, state.extra = 0, UNRESERVED
    settle(queue)


@kernel
def is_closed(now_s, queue, block, width, exact):
    """Whether the bounds of a block rule out backfilling any of its jobs; `width` is that of the idle processors.

    `exact`: whether bounds that jobs have left are computed again, too.
    """
    state, blocks = queue.state[0], queue.blocks
    if blocks.nodes[block].state == NONE or (exact and blocks.nodes[block].state != EXACT):
        summarize(queue, block)
    # What a job may hold past the shadow time; without a reservation q <= free is the only test.
    extra = state.free if state.extra == UNRESERVED else state.extra
    shortest_s = blocks.shortest_s[block, 0, width]
    if not may_backfill(now_s, blocks.nodes[block].procs, shortest_s, state.free, state.shadow_s, extra):
        return True
    if len(queue.wants) == 0 or all_lack(queue, block, np.uint64(0)):
        return len(queue.wants) > 0
    if blocks.nodes[block].procs <= extra and not lacks(queue, np.uint64(0), blocks.least, block):
        return False
    return state.extra != UNRESERVED and now_s + shortest_to_start(queue, block, width) > state.shadow_s


@kernel
def skipped(now_s, queue, section, place, width, exact):
    """How many blocks from this place on `is_closed` rules out, and the index of the bounds by which it does.

    As many as a group has, which begins there; or one; or none.
    """
    if enters_group(queue.blocks, section, place, False):
        group = group_at(queue, section, place)
        if is_closed(now_s, queue, group, width, False):
            return np.int64(GROUP), group
        renew(queue.blocks, group)
    block = np.int64(queue.blocks.order[section, place])
    return np.int64(is_closed(now_s, queue, block, width, exact)), block


@kernel
def pass_in_order(now_s, queue, started):
    """Run the pass as one walk from the head, if queue and backfill share one fixed order."""
    blocks, state = queue.blocks, queue.state[0]
    state.ahead, state.extra, state.shadow_s = NO_HEAD, UNRESERVED, NEVER_S
    n, width = np.int64(0), 0
    fewest, skips = NONE_WAITS[0], skips_some(queue)
    for section in range(len(blocks.sections)):
        if blocks.sections[section].jobs == 0:
            continue
        several = blocks.sections[section].blocks > 1
        if several:
            width = width_of(state.free)
        place = np.int64(0)
        while place < blocks.sections[section].blocks:
            bounded, n_skipped, block = several and state.ahead != NO_HEAD, np.int64(0), np.int64(0)
            if bounded:
                n_skipped, block = skipped(now_s, queue, section, place, width, False)
            else:
                block = np.int64(blocks.order[section, place])
                n_skipped = np.int64(skips and several and all_held(queue, block))
            if n_skipped > 0:
                fewest = min(fewest, blocks.nodes[block].procs)
                place += n_skipped
                continue
            before = n
            n, fewest = pass_through_block(now_s, queue, block, started, n, fewest)
            gone = False
            if n > before:
                gone = settle_block(blocks, section, place, n - before)
                if state.free < state.fewest and (state.ahead != NO_HEAD or not skips):
                    settle(queue)
                    return n, n if state.ahead == NO_HEAD else state.ahead
                if several:
                    width = width_of(state.free)
            elif bounded and blocks.nodes[block].state != EXACT:
                summarize(queue, block)
                loosen(blocks, section, place)
            if not gone:
                place += 1
    if state.free >= state.fewest:  # else it has stopped early
        state.fewest = fewest
    settle(queue)
    return n, n if state.ahead == NO_HEAD else state.ahead


@kernel
def pass_through_block(now_s, queue, block, started, n, fewest):
    """Start jobs of one block for `pass_in_order` and close the gaps.

    Returns how many the pass has started so far, and the smallest q of the jobs that still wait, `fewest` included; the
    latter is not computed where fewer processors are left than any job needs.
    """
    blocks, state = queue.blocks, queue.state[0]
    # Local copies, written back below: reading the record at every slot makes whole replays 2 to 5 % slower.
    free, ahead, shadow_s, extra = state.free, state.ahead, state.shadow_s, state.extra
    idle, known, further = free, n, len(queue.wants) > 0
    first = slot = np.uint64(block * BLOCK)
    end = slot + blocks.nodes[block].count
    while not further and ahead == NO_HEAD and slot < end and free > 0:
        row, procs = blocks.slots[slot].row, blocks.slots[slot].procs
        if procs > free:
            ahead, state.head = n, row
        else:
            start(now_s, queue, row)
            free -= procs
            started[n].row = row
            n += 1
            slot += ONE
    kept, seen = first, slot  # the jobs before slot `kept` stay where they are; those from `seen` on move down to it
    while free >= state.fewest or (ahead == NO_HEAD and free > 0):
        if ahead != NO_HEAD:
            spare = free if extra == UNRESERVED else extra
            slot, fewest = next_to_fit(now_s, blocks, slot, end, free, shadow_s, spare, fewest)
        if slot == end:
            break
        row, procs, expected_s = blocks.slots[slot].row, blocks.slots[slot].procs, blocks.slots[slot].expected_s
        starts = not (further and is_held(queue, row))
        if starts and ahead == NO_HEAD:
            if procs > free or lacks_now(queue, row):
                ahead, state.head, starts = n, row, False
        elif starts:
            if extra == UNRESERVED:
                reserve(now_s, queue)
                shadow_s, extra = state.shadow_s, state.extra
            starts = may_start_behind(now_s, queue, row, procs, expected_s, free, shadow_s, extra)
            if starts:
                extra = charge(now_s, queue, row, procs, expected_s, shadow_s, extra)
        if starts:
            start(now_s, queue, row)
            free -= procs
            started[n].row = row
            n += 1
            if kept < seen:
                move_jobs(blocks, seen, kept, slot - seen)
            kept += slot - seen
            seen = slot + ONE
        else:
            fewest = min(fewest, procs)
        slot += ONE
    state.ahead, state.extra = ahead, extra
    if n > known:
        move_jobs(blocks, seen, kept, end - seen)
        blocks.nodes[block].count -= n - known
        state.waiting -= n - known
        state.wanted -= idle - free
    return n, fewest


@kernel
def next_to_fit(now_s, blocks, slot, end, free, shadow_s, extra, fewest):
    """The first slot from `slot` on, before `end`, whose job `may_backfill`; `end` if there is none.

    Also returns the smaller of `fewest` and the smallest q of the jobs before it.
    """
    while slot < end:
        procs = np.int64(blocks.slots[slot].procs)
        if may_backfill(now_s, procs, blocks.slots[slot].expected_s, free, shadow_s, extra):
            break
        fewest = min(fewest, procs)
        slot += ONE
    return slot, fewest


@outlined
def pass_by_key(now_s, queue, started):
    """Run the pass if keys move with time, the backfill order is a separate one, or the head keeps its reservation.

    It gets the latter as soon as it is the head, also if nothing is idle: what must end by then is backfilled, and
    nothing on extra processors.
    """
    state, keeps = queue.state[0], queue.rules[0].keeps
    ahead = start_heads(now_s, queue, started)
    if state.waiting == 0 or (state.free <= 0 and not keeps):
        return ahead, ahead
    if state.free <= 0:
        find_head(now_s, queue)
    if state.head == NOBODY:
        state.ahead = NO_HEAD
        settle(queue)
        return ahead, ahead
    return backfill_behind_head(now_s, queue, started, ahead), ahead


@kernel
def backfill_behind_head(now_s, queue, started, ahead):
    """Make the reservation of the head, which does not fit, and backfill; `ahead` jobs are in `started` already.

    Returns how many the pass has started.
    """
    state, jobs = queue.state[0], queue.jobs
    n = ahead
    state.ahead = ahead
    reserve(now_s, queue)
    if not may_backfill(now_s, state.fewest, state.shortest_s, state.free, state.shadow_s, state.extra):
        settle(queue)
        return n
    if queue.rules[0].moves and queue.rules[0].backfill_same:
        n = backfill_by_bounds(now_s, queue, started, n)
        settle(queue)
        return n
    size, least, least_s, fewest, shortest_s = gather_candidates(now_s, queue, EVERY)
    candidates = queue.candidates
    for i in range(size // 2 - 1, -1, -1):
        sift(candidates, jobs, i, size)
    while size > 0 and may_backfill(now_s, least, least_s, state.free, state.shadow_s, state.extra):
        row = candidates[0].row
        size -= 1
        swap(candidates, np.int64(0), size)
        sift(candidates, jobs, np.int64(0), size)
        procs, expected_s = jobs[row].procs, jobs[row].expected_s
        if not may_start_behind(now_s, queue, row, procs, expected_s, state.free, state.shadow_s, state.extra):
            fewest, shortest_s = min(fewest, procs), min(shortest_s, expected_s)
            continue
        state.extra = charge(now_s, queue, row, procs, expected_s, state.shadow_s, state.extra)
        start_waiting(now_s, queue, row)
        started[n].row = row
        n += 1
    for i in range(size):
        row = candidates[i].row
        fewest, shortest_s = min(fewest, jobs[row].procs), min(shortest_s, jobs[row].expected_s)
    state.fewest, state.shortest_s = fewest, shortest_s
    settle(queue)
    return n


@outlined
def backfill_by_bounds(now_s, queue, started, n):
    """Backfill in the queue's own order, which moves; returns how many the pass has started, `n` before.

    Each start only makes `may_backfill` stricter, so the first job in the order that may be backfilled is always next.
    """
    state = queue.state[0]
    while may_backfill(now_s, state.fewest, state.shortest_s, state.free, state.shadow_s, state.extra):
        found, _, _, fewest, shortest_s = gather_candidates(now_s, queue, FIRST)
        if found == 0:
            state.fewest, state.shortest_s = fewest, shortest_s
            break
        row = queue.candidates[0].row
        job = queue.jobs[row]
        state.extra = charge(now_s, queue, row, job.procs, job.expected_s, state.shadow_s, state.extra)
        start_waiting(now_s, queue, row)
        started[n].row = row
        n += 1
    return n


@outlined
def gather_candidates(now_s, queue, which):
    """Write jobs that could be backfilled if tried first to `queue.candidates`.

    `which`: EVERY one; ANY one, whichever is found first; or the FIRST in the queue's order, which moves. For that the
    blocks are skipped whose keys are all above the lowest found so far, as in `keys.lowest_of_blocks`.

    Returns their number, the smallest q and expected run time of EVERY or ANY, and lower bounds on those of the other
    jobs.
    """
    blocks, state = queue.blocks, queue.state[0]
    free, shadow_s, extra = state.free, state.shadow_s, state.extra
    n, lowest = 0, np.inf
    least, least_s = NONE_WAITS
    fewest, shortest_s = NONE_WAITS
    width = 0
    for section in range(len(blocks.sections)):
        if blocks.sections[section].jobs == 0:
            continue
        by_age, several = section == OVERDUE, blocks.sections[section].blocks > 1
        if several:
            width = width_of(free)
        place = np.int64(-1)
        while place + 1 < blocks.sections[section].blocks:
            place += 1
            block = np.int64(blocks.order[section, place])
            if which == FIRST and n > 0 and (by_age or lower_bound(now_s, blocks, block) > lowest):
                continue
            if several:
                n_skipped, block = skipped(now_s, queue, section, place, width, True)
                if n_skipped > 0:
                    fewest = min(fewest, blocks.nodes[block].procs)
                    shortest_s = min(shortest_s, blocks.shortest_s[block, 0, -1])
                    place += n_skipped - 1
                    continue
            for slot in range(block * BLOCK, block * BLOCK + blocks.nodes[block].count):
                row, procs, expected_s = blocks.slots[slot].row, blocks.slots[slot].procs, blocks.slots[slot].expected_s
                if not may_start_behind(now_s, queue, row, procs, expected_s, free, shadow_s, extra):
                    fewest, shortest_s = min(fewest, procs), min(shortest_s, expected_s)
                elif which == FIRST:
                    key = blocks.slots[slot].key if by_age else moved_key(now_s, queue, row)
                    if n == 0 or precedes(key, row, lowest, queue.candidates[0].row, queue.jobs):
                        queue.candidates[0].row, lowest, n = row, key, 1
                else:
                    add_candidate(now_s, queue, n, section, slot)
                    n += 1
                    least, least_s = min(least, procs), min(least_s, expected_s)
                    if which == ANY:
                        return n, least, least_s, fewest, shortest_s
        if which == FIRST and n > 0:
            break
    return n, least, least_s, fewest, shortest_s


@entry(float, QueueArrays, int, gives=int, brief=True)
@kernel
def kill_pays(now_s, queue, row):
    """Whether to kill a running try that has reached its divider, if RULES.spares; see `ended_if_needed`."""
    procs = ended_if_needed(now_s, queue, row)
    if procs == GOES_ON:
        return False
    occupy(queue, row, procs)
    return True


@outlined
def ended_if_needed(now_s, queue, row):
    """End a running try that has reached its divider if its processors are needed; returns their number or GOES_ON.

    The pass of this instant must have been made, and after it the choice of those that go first (`bring_forward`). The
    processors are needed if another pass without the try would start a waiting job, or if the head's reservation would
    come later if the try went on. If it goes on, `spare` must follow: its new expected end is entered here.
    """
    state = queue.state[0]
    if state.waiting == 0 and len(queue.changes) == 0:
        outlast(now_s, queue, row, finish(queue, row))
        return GOES_ON
    if queue.rules[0].planned:
        return ended_if_planned(now_s, queue, row)
    procs = finish(queue, row)
    if not queue.rules[0].moves or now_s >= state.head_until_s:
        find_head(now_s, queue)
    if state.head == NOBODY:
        outlast(now_s, queue, row, procs)
        return GOES_ON
    if queue.jobs[state.head].procs <= state.free and not lacks_now(queue, state.head):
        return procs
    reserve(now_s, queue)
    bounded = not is_walk(queue)  # whether the bounds on all waiting jobs are kept
    if not bounded or may_backfill(now_s, state.fewest, state.shortest_s, state.free, state.shadow_s, state.extra):
        n, _, _, _, _ = gather_candidates(now_s, queue, ANY)
        if n > 0:
            return procs
    outlast(now_s, queue, row, procs)
    job = queue.jobs[row]
    # Like a backfilled job, the try delays the head unless it ends by then, or takes only what is spare then; a head
    # that waits for machines or for jobs without walltime is not delayed.
    late = job.start_s + job.expected_s > state.shadow_s
    if late and (procs > state.extra or lacks(queue, np.uint64(0), queue.wants, row)) and state.shadow_s < LAST_S:
        return finish(queue, row)
    state.extra = charge(job.start_s, queue, row, procs, job.expected_s, state.shadow_s, state.extra)
    return GOES_ON


@kernel
def starts_now(now_s, queue, row):
    """Whether a job would start in a pass now, as the first of the queue that is not skipped."""
    if skips_some(queue):
        find_head(now_s, queue)
        if queue.state[0].head != row:
            return False
    if queue.rules[0].planned:
        return starts_by_plan(now_s, queue, row)
    return queue.jobs[row].procs <= queue.state[0].free and not lacks_now(queue, row)


@entry(float, QueueArrays, gives=int, brief=True)
@outlined
def choose_stopped(now_s, queue):
    """Choose the jobs to stop so that the first of the queue starts, if it is urgent and the pass has left it waiting.

    Returns how many, 0 if that is not possible; they are the first of `queue.candidates`, and still run.
    """
    chosen, n = queue.candidates, np.int64(0)
    if queue.blocks.sections[URGENT].jobs == 0:
        return n
    find_head(now_s, queue)
    row = queue.state[0].head
    if row == NOBODY or queue.jobs[row].home != URGENT:
        return n
    while not starts_now(now_s, queue, row):
        stopped, _ = next_to_stop(now_s, queue, queue.rules[0].preempts, False)
        if stopped == NOBODY:
            break
        chosen[n].row, chosen[n].rank = stopped, finish(queue, stopped)
        n += 1
    enough, needed = starts_now(now_s, queue, row), np.int64(0)
    for place in range(n - 1, -1, -1):  # those that are not needed go on, the last first
        occupy(queue, chosen[place].row, chosen[place].rank)
        if enough and not starts_now(now_s, queue, row):
            finish(queue, chosen[place].row)
        else:
            chosen[place].rank = 0
    for place in range(n):
        if chosen[place].rank > 0:
            occupy(queue, chosen[place].row, chosen[place].rank)
            chosen[needed].row = chosen[place].row
            needed += 1
    return needed


@kernel
def add_candidate(now_s, queue, place, section, slot):
    """Record a candidate and its place in the backfill order: (rank, key, seq); the rank may be the section."""
    row, candidate = queue.blocks.slots[slot].row, queue.candidates[place]
    candidate.row = row
    if queue.rules[0].backfill_same:  # and fixed: where it moves, `backfill_by_bounds` orders
        candidate.rank = section
        candidate.key = queue.blocks.slots[slot].key
        return
    candidate.rank = 0
    candidate.key = backfill_key(now_s, queue, row)
