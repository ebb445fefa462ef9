"""The pass by a plan of all pools: with any number of reservations but one, with dates, or with some pools that skip.

Six things keep it short, and change no start:

- A pass ends with the last job that could still start, which the bounds of blocks find from behind. `falls`, the dates
  at which the least number of processors free from now on falls, say who can start now.
- The head's reservation is made first, as in `easy.py`; if no job could start behind it, there is no plan.
- While nothing ends and no job joins before `reached`, the plan is kept, and goes on with the jobs behind that place.
- A reservation from `horizon_s` on, when all who could start now would have ended, is noted only, and entered before
  another job that may run into it.
- A job at least as wide and as long as one before it begins no earlier, if processors are all that it takes.
- Of a calendar it holds what a job that starts now could reach, and more only once a reservation needs it.

Whatever else changes a waiting or running job, or the machine, calls `running.unsettle`, which drops the plan: its
steps, its falls and its reservations, whose numbers are fields of the queue's state.

The plan is a list of steps in order of time, records.STEP: from a step's date on, until the next one's, so many
processors are free. The first step is the present: its processors are the idle ones, whatever is expected of the
running jobs, and those that are expected to end now, or before, release theirs in a second step at the same date. A job
that is expected to run for no time holds its processors for such a step of no length, so that it is never overlooked.
Processors are the first pool; `queue.more` has what is free of the others in each step. The falls are of processors.

Kernels change `queue`, records.QueueArrays, in place.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import kernel, outlined
from batfill.engine.blocks import BLOCK, EXACT, GROUP, NONE, enters_group, find, group_at, renew, summarize, width_of
from batfill.engine.candidates import sift, swap
from batfill.engine.ends import ONE, next_end_s
from batfill.engine.keys import backfill_key, moved_key, place_key
from batfill.engine.records import AWAY, BACKFILLS, GOES_ON, LAST_S, NO_HEAD, NOBODY, OVERDUE, UNDECIDED, WAITS
from batfill.engine.running import (
    all_lack,
    finish,
    is_held,
    lacks,
    lacks_now,
    outlast,
    reservation,
    shortest_to_start,
    skips_some,
    start,
    unsettle,
)
from batfill.engine.waiting import NONE_WAITS, goes_before, start_heads, take_out

# A running job without a walltime is planned to release its processors at this date, later than any other; one that
# waits, or has started behind a reservation, takes them for the second. A walltime is 10^12 s at most.
FOREVER_S = 2.0**51
ZERO = np.uint64(0)  # steps and falls are counted without signs; see `ends.ONE`
SOON_S = 2.0**-20  # less than dates differ by
FEW = 16  # reservations: so few are all entered at once


@outlined
def plan_pass(now_s, queue, started):
    """Start what fits the plan, and make the reservations; arguments and results as of `easy.easy_pass`."""
    state = queue.state[0]
    if state.free < state.fewest:
        state.settled = 1
        return 0, 0
    if state.steps > 0 and next_end_s(queue.running) >= now_s:
        waiting, more = line_up(now_s, queue)
        queue.plan[0].at_s = now_s
        if waiting == 0 or last_end(now_s, queue, np.int64(0), waiting - 1) <= state.horizon_s:
            return plan_jobs(now_s, queue, started, np.int64(0), np.int64(0), waiting, more)
    unsettle(queue)
    limited = is_limited(queue)
    n = np.int64(0) if limited else start_heads(now_s, queue, started)
    if state.waiting == 0 or state.free <= 0:
        return n, n
    if not limited:
        reserve_for_head(now_s, queue)
    waiting, more = line_up(now_s, queue)
    if waiting == 0 and queue.rules[0].moves and state.reserved > 0:
        unsettle(queue)  # another job may be the head before any ends
        return n, n
    if waiting == 0:
        state.settled = 1
        return n, n
    unsettle(queue)
    dated = len(queue.changes) > 0 and queue.rules[0].energy == 0
    plan_running(now_s, queue, last_end(now_s, queue, np.int64(0), waiting - 1) if dated else np.inf)
    state.reached = state.head
    state.noted, state.noted_s, state.horizon_s = 0, np.inf, np.inf
    for width in range(len(queue.far)):
        queue.far[width].span_s = np.inf
    if limited:  # the falls are those of the whole plan
        note_hold(queue, ZERO, np.int64(-1))
    return plan_jobs(now_s, queue, started, n, NO_HEAD if limited else n, waiting, more)


@outlined
def plan_jobs(now_s, queue, started, n, ahead, waiting, more):
    """Start or enter the jobs that are lined up, and those behind them if there are `more`; `n` jobs are in `started`.

    `ahead`: how many of them start ahead of the first that waits; NO_HEAD if that is not known yet. Returns how many
    start, and how many of them ahead.
    """
    lined, state, rules = queue.lined, queue.state[0], queue.rules[0]
    if state.reserved == rules.depth and not rules.backfill_same:
        waiting = line_up_again(now_s, queue, np.int64(0), waiting)
    place, last, settled, changed = np.int64(0), waiting - 1, not rules.moves and rules.energy == 0, True
    section = np.int64(0)  # of the last job that has started
    former_procs, former_s, former_step, waits = NONE_WAITS[0], np.inf, ZERO, state.reserved
    while True:
        if changed:
            # Within a pass fewer and fewer processors are free at each date: who cannot start now never can.
            while last >= place and not may_start(
                now_s, queue, lined[last].row, lined[last].procs, lined[last].expected_s
            ):
                last -= 1
            if rules.depth > FEW and rules.reserving == 0 and last >= place:
                state.horizon_s = min(state.horizon_s, last_end(now_s, queue, place, last))
            changed = False
        if last < place and more and place >= waiting:
            left = max(rules.depth - state.reserved, np.int64(ahead == NO_HEAD))  # see `line_up`
            behind = lined[place - 1].row
            if queue.jobs[behind].section != AWAY:
                section = np.int64(queue.jobs[behind].section)
            waiting, more = line_up_to(now_s, queue, np.int64(-1), left, behind, section, True)
            place, last, changed = np.int64(0), waiting - 1, True
            continue
        # A budget's head needs its date.
        if last < place and not more and (rules.energy == 0 or ahead != NO_HEAD or place >= waiting):
            break
        row, procs, span_s = lined[place].row, np.int64(lined[place].procs), planned_span(lined[place].expected_s)
        if is_held(queue, row):
            place += 1
            continue
        if may_start(now_s, queue, row, procs, span_s):
            section = np.int64(queue.jobs[row].section)
            take_out(queue, row)
            start(now_s, queue, row)
            end_s = now_s + span_s if ahead != NO_HEAD else min(now_s + span_s, LAST_S)
            note_start(queue, state.free, procs, end_s)
            if state.reserved < rules.depth or rules.reserving > 0:
                hold_from_now(queue, row, procs, end_s)
            # Behind a reservation one without a walltime takes more in this pass than it will in the next.
            settled = settled and (ahead == NO_HEAD or span_s < FOREVER_S)
            # Before it, a job may have got a reservation that the next pass will not make, as it will be skipped.
            settled = settled and not skips_some(queue)
            started[n].row = row
            n += 1
            changed = True
            more = more and state.free >= state.fewest
            place += 1
            continue
        if ahead == NO_HEAD:
            ahead = n
        waits += 1
        if state.reserved < rules.depth:
            width = width_of(procs)
            if queue.far[width].span_s <= span_s and queue.far[width].at_s >= state.horizon_s:
                note_far(queue, row, queue.far[width].at_s)
            else:
                # No job begins earlier than one that is neither wider nor longer and goes before it.
                later = procs >= former_procs and span_s >= former_s and rules.reserving == 0
                step = former_step if later else ZERO
                former_step, changed = reserve_from(queue, step, row, procs, span_s)
                former_procs, former_s = procs, span_s
            state.reserved += 1
            state.reached = row
            if state.reserved == rules.depth and not rules.backfill_same:
                waiting = line_up_again(now_s, queue, place + 1, waiting)
                last = waiting - 1
        if waits == most_tested(queue):
            break
        place += 1
    if not settled or is_limited(queue) or (counts(queue) and rules.depth < most_tested(queue)):
        unsettle(queue)
    state.settled = settled
    return n, n if ahead == NO_HEAD else ahead


@kernel
def reserve_from(queue, step, row, procs, span_s):
    """Enter a job that cannot begin before this step of the plan, or note it if it is far.

    Returns the step from which it has its processors, and whether it may keep others from starting now.
    """
    plan, state = queue.plan, queue.state[0]
    step, end = earliest_paid(queue, step, row, procs, span_s)
    if state.reserved == 0:
        state.wake_s = plan[step].at_s
    if plan[step].at_s >= state.horizon_s:
        note_far(queue, row, plan[step].at_s)
        note_span(queue, width_of(procs), procs, span_s, plan[step].at_s)
        return step, False
    if plan[step].at_s + span_s > state.noted_s:
        enter_noted(queue)
        step, end = earliest(queue, step, row, procs, span_s, -np.inf)
    fewest = hold_reserved(queue, step, end, row, procs, plan[step].at_s + span_s)
    return step, note_hold(queue, step, fewest) or queue.rules[0].reserving > 0


@kernel
def most_tested(queue):
    """How many jobs a pass finds that must wait before it ends: one while the gate is shut."""
    return np.int64(1) if queue.rules[0].gated and queue.state[0].open == 0 else queue.rules[0].tested


@kernel
def counts(queue):
    """Whether a pass counts the jobs that it finds must wait."""
    return most_tested(queue) < len(queue.jobs)


@kernel
def is_limited(queue):
    """Whether changes or further pools limit a pass: then the plan is made at once, and is not kept."""
    return len(queue.changes) > 0 or len(queue.wants) > 0


@kernel
def is_whole(queue):
    """Whether all waiting jobs are lined up at once.

    Otherwise, in a fixed order, first those up to the last that surely gets a reservation, and then those that can
    start beside all reservations; or no more than may be tested.
    """
    rules = queue.rules[0]
    if rules.moves or not rules.backfill_same or len(queue.changes) > 0 or rules.energy > 0:
        return True
    return skips_some(queue) if counts(queue) else rules.depth > FEW


@kernel
def reserve_for_head(now_s, queue):
    """Note the fall at the reservation of the head, which does not fit, before there is a plan."""
    state, falls = queue.state[0], queue.falls
    shadow_s, extra = reservation(queue.jobs[state.head].procs, queue)
    if queue.rules[0].depth > 0 and now_s < shadow_s < LAST_S:
        falls[0].at_s, falls[0].free = shadow_s, extra
        state.falls, state.reserved, state.reached = 1, 1, state.head


@kernel
def judge_behind(now_s, queue, section, row):
    """`arrivals.judge` by what the last pass has left: its plan, or, without one, the fall at the head's reservation.

    Either holds, but for jobs behind `reached`, until a running job is expected to end.
    """
    state, rules, job = queue.state[0], queue.rules[0], queue.jobs[row]
    span_s = planned_span(job.expected_s)
    holds = state.settled and (state.steps > 0 or state.reserved > 0) and next_end_s(queue.running) >= now_s
    if not holds or goes_before(queue, section, row, state.reached):
        return UNDECIDED
    if state.reserved >= most_tested(queue) or not fits_now(now_s, queue, job.procs, span_s):
        return WAITS
    enters = state.steps > 0 and state.reserved < rules.depth
    more = (enters or state.steps == 0) and state.waiting > state.reserved  # who may get a reservation before it
    if more or (state.steps > 0 and now_s + span_s > state.horizon_s):
        return UNDECIDED
    if enters:
        queue.plan[0].at_s = now_s
        hold_from_now(queue, row, job.procs, now_s + span_s)
    note_start(queue, state.free - job.procs, job.procs, now_s + span_s)
    if span_s == FOREVER_S:  # see `plan_pass`
        unsettle(queue)
    return BACKFILLS


# Far jobs: a job that cannot begin before all who could start now would have ended concerns none of them. It is only
# noted with a date before which it cannot begin. The noted jobs are entered when another job may run into one.


@kernel
def last_end(now_s, queue, first, last):
    """When the last of the jobs lined up from `first` to `last` would end that can start now."""
    longest_s = 0.0
    for place in range(first, last + 1):
        job = queue.lined[place]
        if job.expected_s > longest_s and fits_now(now_s, queue, job.procs, job.expected_s):
            longest_s = job.expected_s
    return now_s + planned_span(longest_s)


@kernel
def note_far(queue, row, at_s):
    """Note a job that begins at `at_s` or later instead of entering it."""
    state = queue.state[0]
    queue.noted[state.noted].row, queue.noted[state.noted].key = row, at_s
    state.noted += 1
    state.noted_s = min(state.noted_s, at_s)


@kernel
def note_span(queue, width, procs, span_s, at_s):
    """Note that no later job at least so wide, of width class `width`, and at least so long begins before `at_s`.

    Of a class it is noted for the shortest job.
    """
    far = queue.far
    for wide in range(width + (procs & (procs - 1) != 0), len(far)):
        if far[wide].span_s < span_s:
            break
        if far[wide].span_s > span_s or far[wide].at_s < at_s:
            far[wide].span_s, far[wide].at_s = span_s, at_s


@outlined
def enter_noted(queue):
    """Enter the noted jobs, in their order."""
    plan, state = queue.plan, queue.state[0]
    for place in range(state.noted):
        row, at_s = queue.noted[place].row, queue.noted[place].key
        procs, span_s = np.int64(queue.jobs[row].procs), planned_span(queue.jobs[row].expected_s)
        width = width_of(procs)
        if queue.far[width].span_s <= span_s:
            at_s = max(at_s, queue.far[width].at_s)
        low, high = ZERO, np.uint64(state.steps)
        while low < high:  # the first step from this date on
            middle = (low + high) >> ONE
            if plan[middle].at_s < at_s:
                low = middle + ONE
            else:
                high = middle
        step, end = earliest(queue, low, row, procs, span_s, -np.inf)
        hold(queue, step, end, row, procs, plan[step].at_s + span_s)
        note_span(queue, width, procs, span_s, plan[step].at_s)
    state.noted, state.noted_s = 0, np.inf


@kernel
def may_start(now_s, queue, row, procs, expected_s):
    """Whether a job could start now: all that it wants of any pool stays free for it."""
    if not fits_now(now_s, queue, procs, expected_s):
        return False
    if queue.rules[0].reserving == 0:
        return True
    step, steps, end_s = ZERO, np.uint64(queue.state[0].steps), now_s + planned_span(expected_s)
    while not lacks(queue, step, queue.wants, row):
        step += ONE
        if step == steps or queue.plan[step].at_s >= end_s:
            watts = drawn_by(queue, row)
            return watts == 0 or affordable_s(queue, now_s, planned_span(expected_s), watts) == now_s
    return False


@kernel
def none_may_start(now_s, queue, block):
    """Whether none of a block's jobs could start now, by its minima, if it has any."""
    node, free, falls = queue.blocks.nodes[block], queue.state[0].free, queue.falls
    if node.state == NONE:
        return False
    if len(queue.wants) > 0 and queue.rules[0].energy == 0 and all_lack(queue, block, ZERO):
        return True
    for fall in range(np.uint64(queue.state[0].falls)):
        if node.procs > free:
            return True
        if now_s + planned_span(shortest_to_start(queue, block, width_of(free))) <= falls[fall].at_s:
            return False
        free = min(free, falls[fall].free)
    return node.procs > free


@kernel
def fits_now(now_s, queue, procs, expected_s):
    """Whether so many processors stay free from now on for a job."""
    if procs > queue.state[0].free:
        return False
    end_s, fall, falls = now_s + planned_span(expected_s), ZERO, np.uint64(queue.state[0].falls)
    while fall < falls and queue.falls[fall].at_s < end_s:
        if queue.falls[fall].free < procs:
            return False
        fall += ONE
    return True


@kernel
def note_start(queue, free, procs, end_s):
    """Update the falls for the start of a job that is planned to end at `end_s`.

    It takes `procs` processors; `free` are then idle.
    """
    least, n, fall, falls = free, ZERO, ZERO, np.uint64(queue.state[0].falls)
    while fall < falls:
        at_s, free = queue.falls[fall].at_s, queue.falls[fall].free
        if at_s < end_s:
            free -= procs
        if free < least:
            queue.falls[n].at_s, queue.falls[n].free = at_s, free
            least = free
            n += ONE
        fall += ONE
    queue.state[0].falls = n


@kernel
def note_hold(queue, first, fewest):
    """Update the falls, the dates at which the least number of processors free from now on falls.

    Processors are held from step `first` on, where at least `fewest` are still free. Returns whether any fall is new.
    """
    plan, falls, state = queue.plan, queue.falls, queue.state[0]
    least, n, known, steps = state.free, ZERO, np.uint64(state.falls), np.uint64(state.steps)
    while n < known and falls[n].at_s <= plan[first].at_s:
        least = falls[n].free
        n += ONE
    if fewest >= least:
        return False
    while first < steps:
        if plan[first].free < least:
            least = plan[first].free
            falls[n].at_s, falls[n].free = plan[first].at_s, least
            n += ONE
        first += ONE
    state.falls = n
    return True


@outlined
def ended_if_planned(now_s, queue, row):
    """As `easy.ended_if_needed`: with or without the try, does a job start, or is a reservation earlier without it?"""
    plan, lined, noted, rules = queue.plan, queue.lined, queue.noted, queue.rules[0]
    procs = finish(queue, row)  # which drops the plan, and with it the far jobs that are noted
    plan_running(now_s, queue, np.inf)
    waiting, _ = line_up_to(now_s, queue, np.int64(-1), rules.depth, NOBODY, np.int64(0), False)
    tested = min(waiting, most_tested(queue))
    depth = min(tested, rules.depth)
    for place in range(tested):
        job = lined[place]
        span_s = planned_span(job.expected_s)
        step, end = earliest_paid(queue, ZERO, job.row, job.procs, span_s)
        if step == 0:
            unsettle(queue)
            return procs
        if place < depth:
            noted[place].key, noted[place].rank = plan[step].at_s, tied_before(plan, step)
            hold_reserved(queue, step, end, job.row, job.procs, plan[step].at_s + span_s)
            if tested < waiting and place + 1 == rules.depth and not rules.backfill_same:
                line_up_again(now_s, queue, place + 1, waiting)  # which says who else is tested
    outlast(now_s, queue, row, procs)
    plan_running(now_s, queue, np.inf)
    delays, same, end_s = False, np.int64(0), queue.jobs[row].start_s + queue.jobs[row].expected_s
    for early in range(np.int64(queue.state[0].steps)):  # it may be in the way of a window
        short = plan[early].free < 0
        for pool in range(rules.reserving):
            short = short or (queue.wants[row, pool] > 0 and queue.more[early, pool] < 0)
        delays = delays or (short and plan[early].at_s < end_s)
    delays = delays or (drawn_by(queue, row) > 0 and affordable_s(queue, now_s, FOREVER_S, np.int64(0)) > now_s)
    while same < depth and not delays:
        job = lined[same]
        span_s = planned_span(job.expected_s)
        step, end = earliest_paid(queue, ZERO, job.row, job.procs, span_s)
        # The first date that differs is a later one: until then the same is held, and the try's processors besides.
        delays = noted[same].key != plan[step].at_s or noted[same].rank != tied_before(plan, step)
        hold_reserved(queue, step, end, job.row, job.procs, plan[step].at_s + span_s)
        same += 1
    unsettle(queue)
    return finish(queue, row) if delays else GOES_ON


@outlined
def starts_by_plan(now_s, queue, row):
    """Whether a job that goes before all others would start now."""
    plan_running(now_s, queue, np.inf)
    job = queue.jobs[row]
    step, _ = earliest_paid(queue, ZERO, row, np.int64(job.procs), planned_span(job.expected_s))
    unsettle(queue)
    return step == ZERO


# The plan


@kernel
def planned_span(expected_s):
    """How long a job that waits takes its processors in the plan."""
    return min(expected_s, FOREVER_S)


@outlined
def plan_running(now_s, queue, until_s):
    """Write the plan of the running jobs, and of the windows known of that begin or end until a date."""
    plan, state, ends, changes = queue.plan, queue.state[0], queue.running, queue.changes
    plan[0].at_s, plan[0].free = now_s, state.free
    for pool in range(queue.rules[0].reserving):
        queue.more[0, pool] = queue.left[0, pool]
    state.steps, state.entered = 1, state.changed
    for place in range(np.int64(ends.used[0].blocks) - 1, -1, -1):
        block = ends.directory[np.uint64(place)]
        slot = block.first + block.count
        while slot > block.first:
            slot -= ONE
            at_s = min(max(ends.slots[slot].end_s, now_s), LAST_S)
            while state.entered < len(changes) and changes[state.entered].at_s < at_s:
                plan_change(queue, changes[state.entered])
                state.entered += 1
            free_from(queue, at_s, ends.slots[slot].procs)
            for pool in range(queue.rules[0].reserving):
                queue.more[state.steps - ONE, pool] += queue.wants[ends.slots[slot].row, pool]
    go_on(queue, until_s, ZERO)


@outlined
def go_on(queue, until_s, steps):
    """Extend the plan up to a date and to so many steps: by the calendar's dates, and at LAST_S by all that is away."""
    plan, state, n_changes = queue.plan, queue.state[0], len(queue.changes)
    while state.entered <= n_changes:
        last_s = plan[state.steps - ONE].at_s
        next_s = queue.changes[state.entered].at_s if state.entered < n_changes else LAST_S
        if next_s > max(until_s, last_s) and state.steps >= steps:
            return
        if state.entered < n_changes:
            plan_change(queue, queue.changes[state.entered])
        else:
            free_from(queue, LAST_S, queue.rules[0].procs - plan[state.steps - ONE].free)
            for pool in range(queue.rules[0].reserving):
                queue.more[state.steps - ONE, pool] = queue.most[pool]
        state.entered += 1


@kernel
def has_step(queue, step):
    """Whether the plan has such a step, once it is written as far."""
    if step >= queue.state[0].steps:
        go_on(queue, -np.inf, step + ONE)
    return step < queue.state[0].steps


@kernel
def plan_change(queue, change):
    """Enter a date of the calendar behind the last step, if it is known of, and of a pool that is reserved."""
    if change.announced_s <= queue.plan[0].at_s and change.amount != 0 and change.pool <= queue.rules[0].reserving:
        free_from(queue, change.at_s, change.amount if change.pool == 0 else np.int64(0))
        if change.pool > 0:
            queue.more[queue.state[0].steps - ONE, change.pool - ONE] += change.amount


@kernel
def free_from(queue, at_s, procs):
    """Enter that so many processors become free behind, or at, the last step, which is then of this date."""
    plan, steps = queue.plan, np.uint64(queue.state[0].steps)
    if steps == ONE or plan[steps - ONE].at_s < at_s:
        copy_step(queue, steps - ONE, steps)
        plan[steps].at_s = at_s
        steps += ONE
        queue.state[0].steps = steps
    plan[steps - ONE].free += procs


@kernel
def copy_step(queue, step, to):
    """Let there be in a step what is in another, the date included."""
    queue.plan[to].at_s, queue.plan[to].free = queue.plan[step].at_s, queue.plan[step].free
    for pool in range(queue.rules[0].reserving):
        queue.more[to, pool] = queue.more[step, pool]


@kernel
def has(queue, step, row, procs):
    """Whether as much is free in a step as a job wants."""
    return queue.plan[step].free >= procs and not lacks(queue, step, queue.wants, row)


@kernel
def earliest(queue, step, row, procs, span_s, from_s):
    """The first step, `step` or later, from which what a job wants stays free for so long; in the last, all is.

    In `step` itself it begins at `from_s`, if that is later. Also returns the first step behind it that is not before
    the end of that time; the number of steps if none is.
    """
    plan = queue.plan
    while True:
        while not (has_step(queue, step) and has(queue, step, row, procs)):
            step += ONE
        end, end_s = step + ONE, max(plan[step].at_s, from_s) + span_s
        while has_step(queue, end) and plan[end].at_s < end_s and has(queue, end, row, procs):
            end += ONE
        if end == queue.state[0].steps or plan[end].at_s >= end_s:
            return step, end
        step = end


@kernel
def drawn_by(queue, row):
    """The watts that a job draws of a budget."""
    return queue.wants[row, queue.rules[0].energy - ONE] if queue.rules[0].energy > 0 else np.int64(0)


@kernel
def earliest_paid(queue, step, row, procs, span_s):
    """As `earliest`; of a job that draws of a budget, the first step at all from which the joules suffice, too.

    It may be a new one, from a whole second inside another.
    """
    watts, from_s = drawn_by(queue, row), -np.inf
    if watts == 0:
        return earliest(queue, step, row, procs, span_s, from_s)
    plan, step = queue.plan, ZERO
    while True:
        step, end = earliest(queue, step, row, procs, span_s, from_s)
        at_s = max(plan[step].at_s, from_s)
        bound_s = affordable_s(queue, at_s, span_s, watts)
        if bound_s <= at_s:
            break
        while has_step(queue, step + ONE) and plan[step + ONE].at_s < bound_s:
            step += ONE
        from_s = np.ceil(bound_s)
        if has_step(queue, step + ONE) and plan[step + ONE].at_s <= from_s:
            step, from_s = step + ONE, -np.inf
    if at_s > plan[step].at_s:
        step, end = step + ONE, end + ONE
        split(queue, step, at_s)
    return step, end


@outlined
def affordable_s(queue, start_s, span_s, watts):
    """`start_s` if the balance stays at 0 or above with a job from then on; else a later date, and none before does.

    With 0 watts: if the plan itself keeps it there.
    """
    plan, rules, steps = queue.plan, queue.rules[0], np.uint64(queue.state[0].steps)
    energy = rules.energy - ONE
    end_s, until_s = start_s + span_s, rules.until_s
    if start_s >= until_s or end_s <= rules.from_s:
        return start_s
    first_s, at_s = max(start_s, rules.from_s), max(plan[0].at_s, rules.from_s)
    balance, bound_s, step = queue.state[0].balance, start_s, ZERO
    while True:
        while step + ONE < steps and plan[step + ONE].at_s <= at_s:
            step += ONE
        gain = rules.gain_w - (queue.most[energy] - queue.more[step, energy])
        then_s = until_s if step + ONE == steps else min(plan[step + ONE].at_s, until_s)
        if at_s < end_s:
            then_s = min(then_s, first_s if at_s < first_s else end_s)
        lacking = watts * (min(at_s, end_s) - first_s) - balance
        if at_s >= first_s and lacking > 0:
            enough_s = min(then_s, at_s - balance / gain) if gain > 0 else then_s  # where the balance is 0
            bound_s = max(bound_s, enough_s if balance < 0 else at_s - balance / watts, start_s + SOON_S)
            if at_s == end_s and start_s >= rules.from_s:  # the end moves with the start, and the balance grows
                enough_s = min(then_s, at_s + lacking / gain) if gain > 0 else then_s
                bound_s = max(bound_s, enough_s - span_s)
            bound_s = min(bound_s, until_s)
        if at_s >= until_s:
            return bound_s
        balance += gain * (then_s - at_s)
        at_s = then_s


@kernel
def split(queue, end, at_s):
    """Let the step before `end` last until a date inside it, where another begins."""
    later = np.uint64(queue.state[0].steps)
    while later >= end:
        copy_step(queue, later - ONE, later)
        later -= ONE
    queue.plan[end].at_s = at_s
    queue.state[0].steps += 1


@kernel
def hold(queue, step, end, row, procs, end_s):
    """Take what a job wants from a step on until `end_s`, and in any case in this step.

    `end`: the first step behind it that is not before `end_s`. Returns the fewest processors then free in those that
    are held.
    """
    plan, fewest = queue.plan, queue.plan[step].free
    if end == queue.state[0].steps or plan[end].at_s > end_s:
        split(queue, end, end_s)
    while step < end:
        fewest = min(fewest, plan[step].free)
        plan[step].free -= procs
        for pool in range(queue.rules[0].reserving):
            queue.more[step, pool] -= queue.wants[row, pool]
        step += ONE
    return fewest - procs


@kernel
def hold_reserved(queue, step, end, row, procs, end_s):
    """As `hold`, for a reservation: its joules stay free unless reservations hold them."""
    fewest, rules = hold(queue, step, end, row, procs, end_s), queue.rules[0]
    if rules.energy > 0 and not rules.holds:
        for held in range(step, end):
            queue.more[held, rules.energy - ONE] += queue.wants[row, rules.energy - ONE]
    return fewest


@kernel
def hold_from_now(queue, row, procs, end_s):
    """Take what a job wants from the first step on until `end_s`."""
    end, steps = ZERO + ONE, np.uint64(queue.state[0].steps)
    while end < steps and queue.plan[end].at_s < end_s:
        end += ONE
    hold(queue, ZERO, end, row, procs, end_s)


@kernel
def tied_before(plan, step):
    """How many steps before this one have its date."""
    first = step
    while first > 0 and plan[first - ONE].at_s == plan[step].at_s:
        first -= ONE
    return np.int64(step - first)


# The waiting jobs in order


@outlined
def line_up(now_s, queue):
    """Write the waiting jobs that matter to the pass to `queue.lined`, in the queue's order.

    Those before the place that a kept plan has reached do not, nor do those behind the last job that can start now, nor
    those that are held. Returns how many, and whether there may be more behind them.
    """
    state, rules = queue.state[0], queue.rules[0]
    last = last_to_fit(now_s, queue)
    if last < 0 or state.reserved >= most_tested(queue):
        return np.int64(0), False
    # The first that waits is lined up without reservations, too: it says who is backfilled.
    kept = state.steps > 0
    left, behind = (rules.depth - state.reserved, state.reached) if kept else (max(rules.depth, np.int64(1)), NOBODY)
    if rules.moves or is_limited(queue) or (counts(queue) and not rules.backfill_same):
        last = np.int64(-1)
    section = np.int64(0) if behind == NOBODY else np.int64(queue.jobs[behind].section)
    n, more = line_up_to(now_s, queue, last, left, behind, section, True)
    while n > 0 and last >= 0 and counts(queue):  # it may be behind those that may be tested
        job = queue.lined[n - 1]
        if fits_now(now_s, queue, job.procs, job.expected_s):
            break
        n -= 1
    return n, more


@outlined
def last_to_fit(now_s, queue):
    """The slot of the last job of a queue of fixed order that could start now; if there is none, -1."""
    blocks, state = queue.blocks, queue.state[0]
    fewest, further = NONE_WAITS[0], len(queue.wants) > 0 and queue.rules[0].energy == 0
    for section in range(len(blocks.sections) - 1, -1, -1):
        size = np.int64(blocks.sections[section].blocks)
        place = size
        while place > 0:
            place -= 1
            n_skipped, block = skipped(now_s, queue, section, place, True)
            node = blocks.nodes[block]
            if n_skipped > 0:
                fewest = min(fewest, node.procs)
                place -= n_skipped - 1
                continue
            for slot in range(block * BLOCK + node.count - 1, block * BLOCK - 1, -1):
                procs = np.int64(blocks.slots[slot].procs)
                if fits_now(now_s, queue, procs, blocks.slots[slot].expected_s) and not (
                    further and lacks_now(queue, blocks.slots[slot].row)
                ):
                    return slot
                fewest = min(fewest, procs)
            if size > 1 and node.state != EXACT:
                summarize(queue, block)
    state.fewest = fewest
    return np.int64(-1)


@kernel
def skipped(now_s, queue, section, place, back):
    """As `easy.skipped`, where none may start now; in a walk `back`, from this place down."""
    if enters_group(queue.blocks, section, place, back):
        group = group_at(queue, section, place)
        if none_may_start(now_s, queue, group):
            return place % GROUP + 1 if back else np.int64(GROUP), group
        renew(queue.blocks, group)
    block = np.int64(queue.blocks.order[section, place])
    return np.int64(none_may_start(now_s, queue, block)), block


@outlined
def line_up_to(now_s, queue, last, left, behind, section, pauses):
    """As `line_up`, of the jobs behind this one of a section, or all, up to slot `last`, or all.

    `left` reservations are left; once they are made, jobs that cannot start now are left out. `pauses`: whether to stop
    then, and at each that can, unless `is_whole`.
    """
    blocks, state, free, moves, n = queue.blocks, queue.state[0], queue.state[0].free, queue.rules[0].moves, ZERO
    whole, counted, further = is_whole(queue), counts(queue), len(queue.wants) > 0
    every = moves or counted or (whole and is_limited(queue))
    most = most_tested(queue) - state.reserved + free if counted and not whole else NONE_WAITS[0]
    place, before = np.int64(0), np.int64(0)
    if behind != NOBODY:
        place, before = find(blocks, section, place_key(queue, section, behind), behind, queue.jobs)
    while section < len(blocks.sections):
        several = blocks.sections[section].blocks > 1
        while place < blocks.sections[section].blocks and blocks.sections[section].jobs > 0:
            block, chosen = np.int64(blocks.order[section, place]), left <= 0 and not (every or whole)
            if chosen and several:
                if blocks.nodes[block].state != EXACT:
                    summarize(queue, block)
                n_skipped, block = skipped(now_s, queue, section, place, False)
                if n_skipped > 0:
                    place, before = place + n_skipped, np.int64(0)
                    continue
            slot, end = np.uint64(block * BLOCK + before), np.uint64(block * BLOCK + blocks.nodes[block].count)
            while slot < end:
                row, procs = blocks.slots[slot].row, blocks.slots[slot].procs
                waits, held = procs > free, False
                if not (every or left > 0):
                    if not may_start(now_s, queue, row, procs, blocks.slots[slot].expected_s) or lacks_now(queue, row):
                        slot += ONE  # as most do not
                        continue
                elif further:
                    waits, held = waits or lacks_now(queue, row), is_held(queue, row)
                if not held:
                    queue.lined[n] = blocks.slots[slot]
                    n += ONE
                    left -= waits
                    if pauses and left <= 0 and not (every or whole):
                        return np.int64(n), slot != last
                if slot == last or n == most:
                    return np.int64(n), False
                slot += ONE
            place, before = place + 1, np.int64(0)
        section, place = section + 1, np.int64(0)
    if moves:
        for i in range(np.int64(n)):
            candidate, row = queue.candidates[i], queue.lined[i].row
            candidate.row, candidate.rank, candidate.key = row, queue.jobs[row].section, queue.lined[i].key
            if candidate.rank != OVERDUE:
                candidate.key = moved_key(now_s, queue, row)
        sort(queue, np.int64(0), np.int64(n))
    return np.int64(n), False


@outlined
def line_up_again(now_s, queue, first, waiting):
    """Sort the jobs lined up from `first` on by the separate backfill order, without those that cannot start now.

    Returns how many are then lined up, those before `first` included.
    """
    n = np.int64(0)
    for place in range(first, waiting):
        job = queue.lined[place]
        if counts(queue) or is_limited(queue) or fits_now(now_s, queue, job.procs, job.expected_s):
            candidate = queue.candidates[n]
            candidate.row, candidate.rank, candidate.key = job.row, 0, backfill_key(now_s, queue, job.row)
            n += 1
    sort(queue, first, n)
    return first + n


@kernel
def sort(queue, first, n):
    """Line up the first n candidates from place `first` on."""
    candidates = queue.candidates
    for place in range(n // 2 - 1, -1, -1):
        sift(candidates, queue.jobs, place, n)
    for place in range(first, first + n):
        row = candidates[0].row
        job, lined = queue.jobs[row], queue.lined[place]
        lined.row, lined.procs, lined.expected_s = row, job.procs, job.expected_s
        n -= 1
        swap(candidates, np.int64(0), n)
        sift(candidates, queue.jobs, np.int64(0), n)
