"""Decides which waiting jobs start now: EASY backfilling for every host, as defined in docs/background/semantics.md.

`running.may_backfill` is the rule. `easy_pass` applies it in one of two ways: `pass_in_order` walks once through a
queue whose order is fixed and also the backfill order; `pass_by_key` starts heads while they fit, then takes backfill
candidates from a heap, or, in a queue whose keys move, searches for each by bounds. Both skip the leaves and groups of
the tree in which no job can start.

Kernels change `queue`, records.QueueArrays, in place. A decision depends on the waiting and running jobs, never on the
previous pass; the state kept between passes only saves work (`arrivals.py`). With a calendar, with a limit of running
jobs per user, and with more or fewer reservations than one, `plan.py` makes the pass.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import entry, kernel, outlined
from batfill.engine.candidates import sift, swap
from batfill.engine.ends import ONE
from batfill.engine.keys import backfill_key, find_head, lower_bound, moved_key
from batfill.engine.plan import ended_if_planned, plan_pass
from batfill.engine.records import (
    GOES_ON,
    NEVER_S,
    NO_HEAD,
    UNRESERVED,
    Decided,
    QueueArrays,
)
from batfill.engine.running import charged, correct, finish, may_backfill, occupy, outlast, reservation, start
from batfill.engine.tree import (
    EXACT,
    LEAF,
    NONE,
    STALE,
    has_several_leaves,
    move_jobs,
    precedes,
    settle_group,
    settle_leaf,
    summarize_group,
    summarize_leaf,
    width_of,
)
from batfill.engine.waiting import (
    NONE_WAITS,
    bring_forward,
    hold_head,
    is_walk,
    stands_back,
    start_heads,
    start_waiting,
    sweep_overdue,
)

EVERY, ANY, FIRST = range(3)  # jobs that `gather_candidates` looks for


@kernel
def easy_pass(now_s, queue, started):
    """Run one EASY pass at `now_s`; returns how many jobs start, and how many of them ahead of the reservation.

    `started`, records.STARTED (>= free processors,), receives the rows in start order; those from the second returned
    number on were backfilled. Jobs that go first must already be in their section (`bring_forward`).
    """
    n, ahead = any_pass(now_s, queue, started)
    if stands_back(queue):
        hold_head(now_s, queue)
    return n, ahead


@kernel
def any_pass(now_s, queue, started):
    """As `easy_pass`, in the way that the rules allow."""
    state = queue.state[0]
    if state.free <= 0 or state.waiting == 0:
        return 0, 0
    if queue.rules[0].planned:
        return plan_pass(now_s, queue, started)
    if state.free < state.fewest:
        settle_without_starts(now_s, queue)
        return 0, 0
    if is_walk(queue):
        return pass_in_order(now_s, queue, started)
    return pass_by_key(now_s, queue, started)


@kernel
def begin_decision(now_s, queue):
    """Let the jobs go first that do from now on, and raise what running jobs outlive."""
    sweep_overdue(now_s, queue)
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
def reserve(queue):
    """Make the reservation of the head."""
    state = queue.state[0]
    state.shadow_s, state.extra = reservation(queue.jobs[state.head].procs, queue)


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
    state.settled = state.ahead != NO_HEAD and (state.extra == UNRESERVED or state.shadow_s < NEVER_S)


@kernel
def settle_without_starts(now_s, queue):
    """Record that no waiting job fits: the head's reservation is made when a job arrives that does."""
    state = queue.state[0]
    if not queue.rules[0].moves:
        find_head(now_s, queue)
    state.ahead, state.extra = 0, UNRESERVED
    settle(queue)


@kernel
def is_closed(now_s, tree, node, is_group, free, width, shadow_s, extra):
    """Whether the bounds of a leaf or group rule out backfilling any of its jobs; `width` is that of `free`."""
    if is_group:
        if tree.nodes[node].state == NONE:
            summarize_group(tree, node)
    elif tree.nodes[node].state != EXACT:
        summarize_leaf(tree, node)
    return not may_backfill(now_s, tree.nodes[node].procs, tree.shortest_s[node, width], free, shadow_s, extra)


@kernel
def is_passed(now_s, queue, node, width):
    """Whether `pass_in_order` may pass over a leaf or group: the head is known, and by its bounds no job may start."""
    state, tree = queue.state[0], queue.tree
    if state.ahead == NO_HEAD:
        return False
    # What a job may hold past the shadow time; without a reservation q <= free is the only test.
    extra = state.free if state.extra == UNRESERVED else state.extra
    return not may_backfill(
        now_s, tree.nodes[node].procs, tree.shortest_s[node, width], state.free, state.shadow_s, extra
    )


@kernel
def is_group_passed(now_s, queue, group, width):
    """The same of a group, whose bounds are computed if they are not."""
    if queue.state[0].ahead != NO_HEAD and queue.tree.nodes[group].state == NONE:
        summarize_group(queue.tree, group)
    return is_passed(now_s, queue, group, width)


@kernel
def pass_in_order(now_s, queue, started):
    """Run the pass as one walk from the head, if queue and backfill share one fixed order."""
    tree, state = queue.tree, queue.state[0]
    state.ahead, state.extra, state.shadow_s = NO_HEAD, UNRESERVED, NEVER_S
    n, width = np.int64(0), 0
    fewest = NONE_WAITS[0]
    for section in range(len(tree.sections)):
        if tree.sections[section].jobs == 0:
            continue
        several = has_several_leaves(tree, section)
        if several:
            width = width_of(state.free)
        group_place = np.int64(0)
        while group_place < tree.sections[section].groups:
            group = tree.groups[section, group_place]
            if tree.sections[section].groups > 1 and is_group_passed(now_s, queue, group, width):
                fewest = min(fewest, tree.nodes[group].procs)
                group_place += 1
                continue
            before, leaf_place = n, np.int64(0)
            while leaf_place < tree.nodes[group].count:
                leaf = tree.children[group, leaf_place]
                bounded = tree.nodes[group].count > 1 and state.ahead != NO_HEAD
                if bounded and tree.nodes[leaf].state == NONE:
                    summarize_leaf(tree, leaf)
                if bounded and is_passed(now_s, queue, leaf, width):
                    fewest = min(fewest, tree.nodes[leaf].procs)
                    leaf_place += 1
                    continue
                known = n
                n, fewest = pass_through_leaf(now_s, queue, leaf, started, n, fewest)
                gone = False
                if n > known:
                    gone = settle_leaf(tree, section, group_place, leaf_place, n - known)
                    if state.free < state.fewest:
                        settle_group(tree, section, group_place)
                        settle(queue)
                        return n, n if state.ahead == NO_HEAD else state.ahead
                    if several:
                        width = width_of(state.free)
                elif bounded and tree.nodes[leaf].state != EXACT:
                    summarize_leaf(tree, leaf)
                if not gone:
                    leaf_place += 1
            if n > before:
                if not settle_group(tree, section, group_place):
                    group_place += 1
                continue
            # No job started, and the bounds are stale because jobs have left: make them exact.
            if tree.sections[section].groups > 1 and tree.nodes[group].state == STALE:
                summarize_group(tree, group)
            group_place += 1
    state.fewest = fewest
    settle(queue)
    return n, n if state.ahead == NO_HEAD else state.ahead


@kernel
def pass_through_leaf(now_s, queue, leaf, started, n, fewest):
    """Start jobs of one leaf for `pass_in_order` and close the gaps.

    Returns how many the pass has started so far, and the smallest q of the jobs that still wait, `fewest` included; the
    latter is not computed where fewer processors are left than any job needs.
    """
    tree, state = queue.tree, queue.state[0]
    # Local copies, written back below: reading the record at every slot makes whole replays 2 to 5 % slower.
    free, ahead, shadow_s, extra = state.free, state.ahead, state.shadow_s, state.extra
    idle = free
    first = slot = np.uint64(leaf * LEAF)
    end = slot + tree.nodes[leaf].count
    known = n
    while ahead == NO_HEAD and slot < end and free > 0:
        row, procs = tree.slots[slot].row, tree.slots[slot].procs
        if procs > free:
            ahead, state.head = n, row
        else:
            start(now_s, queue, row)
            free -= procs
            started[n].row = row
            n += 1
            slot += ONE
    kept, seen = first, slot  # the jobs before slot `kept` stay where they are; those from `seen` on move down to it
    while free >= state.fewest:
        slot, fewest = next_narrow(tree, slot, end, free, fewest)
        if slot == end:
            break
        if extra == UNRESERVED:
            reserve(queue)
            shadow_s, extra = state.shadow_s, state.extra
        row, procs, expected_s = tree.slots[slot].row, tree.slots[slot].procs, tree.slots[slot].expected_s
        if may_backfill(now_s, procs, expected_s, free, shadow_s, extra):
            extra = charged(now_s, procs, expected_s, shadow_s, extra)
            start(now_s, queue, row)
            free -= procs
            started[n].row = row
            n += 1
            if kept < seen:
                move_jobs(tree, seen, kept, slot - seen)
            kept += slot - seen
            seen = slot + ONE
        else:
            fewest = min(fewest, procs)
        slot += ONE
    state.ahead, state.extra = ahead, extra
    if n > known:
        move_jobs(tree, seen, kept, end - seen)
        tree.nodes[leaf].count -= n - known
        state.waiting -= n - known
        state.wanted -= idle - free
    return n, fewest


@kernel
def next_narrow(tree, slot, end, free, fewest):
    """The first slot from `slot` on, before `end`, whose job needs at most `free` processors; `end` if there is none.

    Also returns the smaller of `fewest` and the smallest q of the jobs before it.
    """
    while slot < end and tree.slots[slot].procs > free:
        fewest = min(fewest, np.int64(tree.slots[slot].procs))
        slot += ONE
    return slot, fewest


@outlined
def pass_by_key(now_s, queue, started):
    """Run the pass if keys move with time, or the backfill order is a separate one."""
    state = queue.state[0]
    ahead = start_heads(now_s, queue, started)
    if state.waiting == 0 or state.free == 0:
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
    reserve(queue)
    if state.fewest > state.extra and now_s + state.shortest_s > state.shadow_s:
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
        if not may_backfill(now_s, procs, expected_s, state.free, state.shadow_s, state.extra):
            fewest, shortest_s = min(fewest, procs), min(shortest_s, expected_s)
            continue
        state.extra = charged(now_s, procs, expected_s, state.shadow_s, state.extra)
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
        state.extra = charged(now_s, job.procs, job.expected_s, state.shadow_s, state.extra)
        start_waiting(now_s, queue, row)
        started[n].row = row
        n += 1
    return n


@outlined
def gather_candidates(now_s, queue, which):
    """Write jobs that could be backfilled if tried first to `queue.candidates`.

    `which`: EVERY one; ANY one, whichever is found first; or the FIRST in the queue's order, which moves. For that the
    leaves are skipped whose keys are all above the lowest found so far, as in `keys.lowest_of_leaves`.

    Returns their number, the smallest q and expected run time of EVERY or ANY, and lower bounds on those of the other
    jobs.
    """
    tree, state = queue.tree, queue.state[0]
    free, shadow_s, extra = state.free, state.shadow_s, state.extra
    n, lowest = 0, np.inf
    least, least_s = NONE_WAITS
    fewest, shortest_s = NONE_WAITS
    width = 0
    for section in range(len(tree.sections)):
        if tree.sections[section].jobs == 0:
            continue
        by_age = section == queue.rules[0].overdue
        if has_several_leaves(tree, section):
            width = width_of(free)
        for group_place in range(tree.sections[section].groups):
            group = tree.groups[section, group_place]
            several = tree.sections[section].groups > 1
            if several and is_closed(now_s, tree, group, True, free, width, shadow_s, extra):
                fewest = min(fewest, tree.nodes[group].procs)
                shortest_s = min(shortest_s, tree.shortest_s[group, -1])
                continue
            for leaf_place in range(tree.nodes[group].count):
                leaf = tree.children[group, leaf_place]
                several = tree.nodes[group].count > 1
                if which == FIRST and n > 0 and (by_age or lower_bound(now_s, tree, leaf) > lowest):
                    continue
                if several and is_closed(now_s, tree, leaf, False, free, width, shadow_s, extra):
                    fewest = min(fewest, tree.nodes[leaf].procs)
                    shortest_s = min(shortest_s, tree.shortest_s[leaf, -1])
                    continue
                for slot in range(leaf * LEAF, leaf * LEAF + tree.nodes[leaf].count):
                    row, procs, expected_s = tree.slots[slot].row, tree.slots[slot].procs, tree.slots[slot].expected_s
                    if not may_backfill(now_s, procs, expected_s, free, shadow_s, extra):
                        fewest, shortest_s = min(fewest, procs), min(shortest_s, expected_s)
                    elif which == FIRST:
                        key = tree.slots[slot].key if by_age else moved_key(now_s, queue, row)
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
    if queue.jobs[state.head].procs <= state.free:
        return procs
    reserve(queue)
    bounded = not is_walk(queue)  # whether the bounds on all waiting jobs are kept
    if not bounded or may_backfill(now_s, state.fewest, state.shortest_s, state.free, state.shadow_s, state.extra):
        n, _, _, _, _ = gather_candidates(now_s, queue, ANY)
        if n > 0:
            return procs
    outlast(now_s, queue, row, procs)
    job = queue.jobs[row]
    # Like a backfilled job, the try delays the head unless it ends by then, or takes only what is spare then; a head
    # that waits for machines or for jobs without walltime is not delayed.
    delays = not may_backfill(job.start_s, procs, job.expected_s, procs, state.shadow_s, state.extra)
    if delays and state.shadow_s < NEVER_S:
        return finish(queue, row)
    state.extra = charged(job.start_s, procs, job.expected_s, state.shadow_s, state.extra)
    return GOES_ON


@kernel
def add_candidate(now_s, queue, place, section, slot):
    """Record a candidate and its place in the backfill order: (rank, key, seq); the rank may be the section."""
    row, candidate = queue.tree.slots[slot].row, queue.candidates[place]
    candidate.row = row
    if queue.rules[0].backfill_same:  # and fixed: where it moves, `backfill_by_bounds` orders
        candidate.rank = section
        candidate.key = queue.tree.slots[slot].key
        return
    candidate.rank = 0
    candidate.key = backfill_key(now_s, queue, row)
