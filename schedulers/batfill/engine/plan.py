"""The pass by a plan of all processors, made anew at each pass: with any number of reservations but one.

The plan is a list of steps in order of time, records.STEP: from a step's date on, until the next one's, so many
processors are free. The first step is the present: its processors are the idle ones, whatever is expected of the
running jobs, and those that are expected to end now, or before, release theirs in a second step at the same date. A job
that is expected to run for no time holds its processors for such a step of no length, so that it is never overlooked.

Kernels change `queue`, records.QueueArrays, in place.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import kernel, outlined
from batfill.engine.candidates import sift, swap
from batfill.engine.ends import ONE
from batfill.engine.keys import backfill_key, moved_key
from batfill.engine.records import GOES_ON, NO_HEAD
from batfill.engine.running import finish, outlast, start
from batfill.engine.tree import LEAF
from batfill.engine.waiting import NONE_WAITS, dequeue

# A running job without a walltime is planned to release its processors at this date, later than any other; one that
# waits, or has started behind a reservation, takes them for the second. A walltime is 10^12 s at most.
LAST_S = 2.0**50
FOREVER_S = 2.0**51


@outlined
def plan_pass(now_s, queue, started):
    """Start what fits the plan, and make the reservations; arguments and results as of `easy.easy_pass`."""
    plan, jobs, state, rules = queue.plan, queue.jobs, queue.state[0], queue.rules[0]
    state.settled = 1
    if state.free < state.fewest:
        return 0, 0
    waiting, last, longest_s = line_up(now_s, queue)  # no job behind the last can start
    until_s = now_s + longest_s  # and none would still run then
    if last < 0:
        return 0, 0
    steps = plan_running(now_s, queue)
    n, ahead, reserved, passed, falls = np.int64(0), NO_HEAD, np.int64(0), np.int64(0), np.int64(0)
    if len(queue.changes) > 0:  # fewer processors are free in a window
        falls = note_falls(queue, steps, falls, np.int64(0), until_s)
    state.settled = not rules.moves
    for place in range(waiting):
        # Within a pass fewer and fewer processors are free at each date: who cannot start now never can.
        while last >= place and not fits_now(now_s, queue, falls, last):
            last -= 1
        if last < place:
            break
        row = queue.candidates[place].row
        procs, span_s = jobs[row].procs, planned_span(jobs[row].expected_s)
        if reserved < rules.depth:
            step = earliest(plan, steps, procs, span_s)
        else:
            step = np.int64(0) if fits_now(now_s, queue, falls, place) else steps
        if step == 0:
            end_s = now_s + span_s
            steps = hold(plan, steps, step, procs, min(end_s, LAST_S) if ahead == NO_HEAD else end_s)
            started[n].row = row
            n += 1
            settled = state.settled and (ahead == NO_HEAD or span_s < FOREVER_S)
            dequeue(queue, row)
            start(now_s, queue, row)
            # Behind a reservation one without a walltime takes more in this pass than it will in the next.
            state.settled = settled
            falls = note_falls(queue, steps, falls, step, until_s)
            continue
        if ahead == NO_HEAD:
            ahead = n
        passed += 1
        if passed == rules.tested:
            break
        if reserved < rules.depth:
            steps = hold(plan, steps, step, procs, plan[step].at_s + span_s)
            reserved += 1
            if plan[step].at_s < until_s:
                falls = note_falls(queue, steps, falls, step, until_s)
            if reserved == rules.depth and not rules.backfill_same:
                line_up_again(now_s, queue, place + 1, waiting)
                last = waiting - 1
    state.ahead = ahead
    return n, n if ahead == NO_HEAD else ahead


@kernel
def fits_now(now_s, queue, falls, place):
    """Whether a candidate could start now."""
    job = queue.jobs[queue.candidates[place].row]
    if job.procs > queue.state[0].free:
        return False
    end_s = now_s + planned_span(job.expected_s)
    for fall in range(falls):
        if queue.falls[fall].at_s >= end_s:
            return True
        if queue.falls[fall].free < job.procs:
            return False
    return True


@kernel
def note_falls(queue, steps, falls, first, until_s):
    """Write the dates before `until_s` at which the least number of processors free from now on falls.

    Returns how many there are.

    The plan has changed from step `first` on only; before it the first `falls` entries hold.
    """
    plan, least = queue.plan, queue.state[0].free
    while first > 0 and plan[first - 1].at_s == plan[first].at_s:
        first -= 1
    if first == 0:
        falls = np.int64(0)
    while falls > 0 and queue.falls[falls - 1].at_s >= plan[first].at_s:
        falls -= 1
    if falls > 0:
        least = queue.falls[falls - 1].free
    for step in range(first, steps):
        if plan[step].at_s >= until_s:
            break
        if plan[step].free < least:
            least = plan[step].free
            queue.falls[falls].at_s, queue.falls[falls].free = plan[step].at_s, least
            falls += 1
    return falls


@outlined
def ended_if_planned(now_s, queue, row):
    """As `easy.ended_if_needed`: with or without the try, does a job start, or is a reservation earlier without it?"""
    plan, jobs, candidates = queue.plan, queue.jobs, queue.candidates
    procs = finish(queue, row)
    steps = plan_running(now_s, queue)
    waiting, _, _ = line_up(now_s, queue)
    tested = min(waiting, queue.rules[0].tested)
    depth = min(tested, queue.rules[0].depth)
    for place in range(tested):
        job = jobs[candidates[place].row]
        span_s = planned_span(job.expected_s)
        if stays_free(plan, steps, 0, job.procs, span_s) == steps:
            return procs
        if place < depth:
            step = earliest(plan, steps, job.procs, span_s)
            candidates[place].key, candidates[place].rank = plan[step].at_s, tied_before(plan, step)
            steps = hold(plan, steps, step, job.procs, plan[step].at_s + span_s)
            if tested < waiting and place + 1 == queue.rules[0].depth and not queue.rules[0].backfill_same:
                line_up_again(now_s, queue, place + 1, waiting)  # which says who else is tested
    outlast(now_s, queue, row, procs)
    steps = plan_running(now_s, queue)
    for step in range(steps):
        if plan[step].at_s >= jobs[row].start_s + jobs[row].expected_s:
            break
        if plan[step].free < 0:  # it would be in the way of a window
            return finish(queue, row)
    for place in range(depth):
        job = jobs[candidates[place].row]
        span_s = planned_span(job.expected_s)
        step = earliest(plan, steps, job.procs, span_s)
        # The first date that differs is a later one: until then the same is held, and the try's processors besides.
        if candidates[place].key != plan[step].at_s or candidates[place].rank != tied_before(plan, step):
            return finish(queue, row)
        steps = hold(plan, steps, step, job.procs, plan[step].at_s + span_s)
    return GOES_ON


# The plan


@kernel
def planned_span(expected_s):
    """How long a job that waits takes its processors in the plan."""
    return FOREVER_S if expected_s == np.inf else expected_s


@outlined
def plan_running(now_s, queue):
    """Write the plan of the running jobs and the windows known of; returns its number of steps."""
    plan, state, directory, slots = queue.plan, queue.state[0], queue.running.directory, queue.running.slots
    changes, change = queue.changes, np.int64(state.changed)
    plan[0].at_s, plan[0].free = now_s, state.free
    steps = np.int64(1)
    for place in range(np.int64(queue.running.used[0].blocks) - 1, -1, -1):
        block = directory[np.uint64(place)]
        slot = block.first + block.count
        while slot > block.first:
            slot -= ONE
            at_s = min(max(slots[slot].end_s, now_s), LAST_S)
            while change < len(changes) and changes[change].at_s < at_s:
                steps = plan_change(now_s, plan, steps, changes[change])
                change += 1
            steps = free_from(plan, steps, at_s, slots[slot].procs)
    for later in range(change, len(changes)):
        steps = plan_change(now_s, plan, steps, changes[later])
    size = queue.picks.sight[0].procs
    if plan[steps - 1].free < size:  # unavailable machines are back some day
        steps = free_from(plan, steps, LAST_S, size - plan[steps - 1].free)
    return steps


@kernel
def plan_change(now_s, plan, steps, change):
    """Enter a date of the calendar behind the last step, if it is known of; returns the number of steps."""
    if change.announced_s > now_s or change.procs == 0:
        return steps
    return free_from(plan, steps, change.at_s, change.procs)


@kernel
def free_from(plan, steps, at_s, procs):
    """Enter that so many processors become free behind, or at, the last step; returns the number of steps."""
    free = plan[steps - 1].free + procs
    if steps == 1 or plan[steps - 1].at_s < at_s:
        plan[steps].at_s = at_s
        steps += 1
    plan[steps - 1].free = free
    return steps


@kernel
def stays_free(plan, steps, step, procs, span_s):
    """The step before the end of `span_s` at which fewer processors are free, from `step` on; `steps` if none is."""
    if plan[step].free < procs:
        return step
    end_s = plan[step].at_s + span_s
    later = step + 1
    while later < steps and plan[later].at_s < end_s:
        if plan[later].free < procs:
            return later
        later += 1
    return steps


@kernel
def earliest(plan, steps, procs, span_s):
    """The first step from which so many processors stay free for so long; in the last, all are."""
    step = np.int64(0)
    while True:
        short = stays_free(plan, steps, step, procs, span_s)
        if short == steps:
            return step
        step = short + 1


@kernel
def hold(plan, steps, step, procs, end_s):
    """Take processors from a step on until `end_s`, and in any case in this step; returns the number of steps."""
    end = step + 1
    while end < steps and plan[end].at_s < end_s:
        end += 1
    if end == steps or plan[end].at_s > end_s:
        for later in range(steps, end, -1):
            plan[later].at_s, plan[later].free = plan[later - 1].at_s, plan[later - 1].free
        plan[end].at_s, plan[end].free = end_s, plan[end - 1].free
        steps += 1
    for held in range(step, end):
        plan[held].free -= procs
    return steps


@kernel
def tied_before(plan, step):
    """How many steps before this one have its date."""
    n = np.int64(0)
    while n < step and plan[step - n - 1].at_s == plan[step].at_s:
        n += 1
    return n


# The waiting jobs in order


@outlined
def line_up(now_s, queue):
    """Write all waiting jobs to `queue.candidates`, in the queue's order.

    Returns their number; the last place at which idle processors suffice, or -1, and any place behind it if the order
    moves; and the longest that a job is expected to run for which they do.
    """
    tree, candidates, moves = queue.tree, queue.candidates, queue.rules[0].moves
    free, fewest = queue.state[0].free, NONE_WAITS[0]
    n, last, longest_s = np.int64(0), np.int64(-1), 0.0
    for section in range(len(tree.sections)):
        if tree.sections[section].jobs == 0:
            continue
        first = n
        for group_place in range(tree.sections[section].groups):
            group = tree.groups[section, group_place]
            for leaf_place in range(tree.nodes[group].count):
                leaf = tree.children[group, leaf_place]
                for slot in range(leaf * LEAF, leaf * LEAF + tree.nodes[leaf].count):
                    row = tree.slots[slot].row
                    candidates[n].row, candidates[n].rank, candidates[n].key = row, 0, tree.slots[slot].key
                    if moves and section != queue.rules[0].overdue:
                        candidates[n].key = moved_key(now_s, queue, row)
                    procs = np.int64(tree.slots[slot].procs)
                    fewest = min(fewest, procs)
                    if procs <= free:
                        last = n
                        longest_s = max(longest_s, tree.slots[slot].expected_s)
                    n += 1
        if moves and section != queue.rules[0].overdue:
            sort(candidates[first:], queue.jobs, n - first)
            if last >= first:
                last = n - 1
    queue.state[0].fewest = fewest
    return n, last, longest_s


@outlined
def line_up_again(now_s, queue, first, waiting):
    """Sort the candidates from `first` on by the separate backfill order."""
    rest = queue.candidates[first:]
    for place in range(waiting - first):
        rest[place].key = backfill_key(now_s, queue, rest[place].row)
    sort(rest, queue.jobs, waiting - first)


@kernel
def sort(candidates, jobs, n):
    """Sort the first n candidates."""
    for place in range(n // 2 - 1, -1, -1):
        sift(candidates, jobs, place, n)
    for size in range(n - 1, 0, -1):  # the last goes first
        swap(candidates, np.int64(0), size)
        sift(candidates, jobs, np.int64(0), size)
    for place in range(n // 2):
        swap(candidates, place, n - 1 - place)
