"""The running jobs by expected end, the head's reservation, and the rule of backfilling.

Also the correction of expected run times that running jobs outlive.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import entry, kernel, outlined
from batfill.engine.blocks import NONE, class_of, user_of
from batfill.engine.ends import ONE, block_of, enter, last_block, leave, released, slot_of
from batfill.engine.records import (
    AWAY,
    EVERY_JOB,
    LAST_S,
    LEAST_LOST,
    NEVER_S,
    NOBODY,
    OVERDUE,
    URGENT,
    QueueArrays,
)

# Added to an expected run time when a job outlives it for the first, second, ... time; the last repeats.
# Source: Tsafrir, Etsion and Feitelson, TPDS 2007, Section 4.
CORRECTION_STEPS_S = np.array([60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000], np.float64)


@entry(float, QueueArrays, int, brief=True)
@kernel
def start(now_s, queue, row):
    """Start a job that has left the queue: it takes its processors and is expected to end after `expected_s`."""
    job = queue.jobs[row]
    if job.late:
        queue.state[0].late -= 1
        queue.state[0].late_first -= job.section == OVERDUE
    job.start_s = now_s
    job.section = AWAY
    job.late = 0
    occupy(queue, row, job.procs)


@kernel
def occupy(queue, row, procs):
    """Enter a job that has started among the running ones; `procs` is what it takes, and will release."""
    enter(queue.running, queue.jobs[row].start_s + queue.jobs[row].expected_s, procs, row)
    queue.state[0].free -= procs
    if len(queue.wants) > 0:
        take(queue, row, -1)


@entry(QueueArrays, brief=True)
@kernel
def unsettle(queue):
    """Drop what the last pass has left for the next, the plan included: something has changed that it relies on."""
    state = queue.state[0]
    state.settled = state.steps = state.falls = state.reserved = 0


@entry(QueueArrays, int, gives=int, brief=True)
@kernel
def finish(queue, row):
    """End a running job and free its processors; returns their number."""
    procs = leave(queue.running, queue.jobs[row].start_s + queue.jobs[row].expected_s, row)
    unsettle(queue)
    queue.state[0].free += procs
    if len(queue.wants) > 0:
        take(queue, row, 1)
    return procs


@outlined
def take(queue, row, sign):
    """Take a job's amounts of all pools but processors, or with sign 1 give them back."""
    state = queue.state[0]
    for pool in range(np.uint64(len(queue.most))):
        queue.left[owner(queue, pool, user_of(queue, row)), pool] += sign * queue.wants[row, pool]
    if skips_some(queue) and (sign > 0 or is_held(queue, state.head)):
        state.head_until_s = -np.inf  # another job may be the first that is not skipped


@kernel
def owner(queue, pool, user):
    """Whose pool it is that a job of a user takes from, as a row of `queue.left`."""
    return user if pool >= queue.rules[0].shared else np.uint32(0)


@entry(QueueArrays, brief=True)
@kernel
def free_all(queue):
    """Let nothing be taken of any pool but processors; of those of users there is any amount for unknown ones."""
    for pool in range(np.uint64(len(queue.most))):
        queue.left[:, pool] = queue.most[pool]
        if pool >= queue.rules[0].shared:
            queue.left[0, pool] = EVERY_JOB


@entry(float, QueueArrays, brief=True)
@kernel
def pay(now_s, queue):
    """Add to the balance of a budget what became available until `now_s`, less what was drawn."""
    state, rules = queue.state[0], queue.rules[0]
    drawn = queue.most[rules.energy - ONE] - queue.left[0, rules.energy - ONE]
    lasted_s = min(now_s, rules.until_s) - max(state.paid_s, rules.from_s)
    state.balance += (rules.gain_w - drawn) * max(lasted_s, 0.0)
    state.paid_s = now_s


@kernel
def skips_some(queue):
    """Whether there are pools that skip."""
    return queue.rules[0].reserving < np.uint64(len(queue.most))


@entry(QueueArrays, int, gives=int, brief=True)
@kernel
def is_held(queue, row):
    """Whether a job is skipped, as it lacks now something of a pool that skips; NOBODY is not."""
    return (
        skips_some(queue)
        and row != NOBODY
        and lacks_from(queue, queue.wants, row, user_of(queue, row), queue.rules[0].reserving)
    )


@kernel
def lacks_now(queue, row):
    """Whether a job lacks now something of a pool but processors."""
    return len(queue.wants) > 0 and lacks_from(queue, queue.wants, row, user_of(queue, row), np.uint64(0))


@kernel
def all_lack(queue, block, first):
    """Whether all jobs of a block lack now something of a pool, from this column on, by the block's minima."""
    node = queue.blocks.nodes[block]
    return node.state != NONE and lacks_from(queue, queue.blocks.least, block, node.user, first)


@outlined
def shortest_to_start(queue, block, width):
    """A lower bound on `expected_s` of those jobs of a block, up to this width, that lack nothing now of a pool."""
    shortest_s, user = queue.blocks.shortest_s[block, 0, width], queue.blocks.nodes[block].user
    for pool in range(np.uint64(len(queue.most)) if queue.rules[0].energy == 0 else np.uint64(0)):
        wanted = class_of(queue, pool, queue.left[owner(queue, pool, user), pool])
        shortest_s = max(shortest_s, queue.blocks.shortest_s[block, pool + ONE, wanted])
    return shortest_s


@outlined
def lacks_from(queue, wants, row, user, first):
    """Whether less is free now of a pool, from this column on, than a user's job wants by its row of `wants`."""
    for pool in range(first, np.uint64(len(queue.most))):
        if wants[row, pool] > 0 and queue.left[owner(queue, pool, user), pool] < wants[row, pool]:
            return True
    return False


@kernel
def kept_s(queue, ran_s):
    """What a job keeps that is stopped after so long: its time until its last checkpoint."""
    each_s = queue.rules[0].checkpoint_s
    return np.floor(ran_s / each_s) * each_s if each_s < np.inf else 0.0


@kernel
def keep(queue, row, ran_s):
    """Leave of a job that is stopped after so long what its last checkpoint leaves; returns what is kept."""
    tried, kept = queue.tries[row], kept_s(queue, ran_s)
    expected_s, _ = corrected(kept, 0.0, tried.whole_expected_s, 0, tried.unpredicted_s, tried.walltime_s)
    tried.whole_expected_s = expected_s - kept
    tried.unpredicted_s -= kept
    tried.walltime_s -= kept
    return kept


@outlined
def next_to_stop(now_s, queue, order, fails):
    """The running job that is stopped first, in this order, NOBODY if none may be; and when another may be, or inf.

    `fails`: whether for a failure, which stops any job; otherwise it is for an urgent job.
    """
    running, jobs, exempt_s = queue.running, queue.jobs, queue.rules[0].preempt_exempt_s
    found, least, later_s = NOBODY, np.inf, np.inf
    for place in range(np.int64(running.used[0].blocks)):
        block = running.directory[np.uint64(place)]
        for slot in range(block.first, block.first + block.count):
            row = running.slots[slot].row
            job = jobs[row]
            if not fails and (job.home == URGENT or job.start_s + exempt_s > now_s):
                later_s = later_s if job.home == URGENT else min(later_s, job.start_s + exempt_s)
                continue
            ran_s = now_s - job.start_s
            cost = (ran_s - kept_s(queue, ran_s)) * job.procs if order == LEAST_LOST else -job.start_s
            if found == NOBODY or cost < least or (cost == least and job.seq > jobs[found].seq):
                found, least = row, cost
    return found, later_s


@entry(QueueArrays, int, int, brief=True)
@kernel
def change_release(queue, row, by):
    """Change the number of processors that a running job will release."""
    running, end_s = queue.running, queue.jobs[row].start_s + queue.jobs[row].expected_s
    place = block_of(running, end_s, row)
    running.slots[slot_of(running, place, row)].procs += by
    running.directory[place].procs += by
    unsettle(queue)


@kernel
def reservation(need, queue):
    """When `need` processors are expected to be free, and how many are spare then: (shadow_s, extra).

    All releases at exactly the shadow time count. If `need` is never met (machines are unavailable), the head holds
    back no job with a walltime: (NEVER_S, 0).
    """
    shadow_s, free = released(queue.running, need, queue.state[0].free)
    return min(shadow_s, NEVER_S), max(free - need, np.int64(0))


@kernel
def reserve(now_s, queue):
    """Make the reservation of the head, unless it keeps one."""
    state = queue.state[0]
    if len(queue.wants) > 0:
        reserve_all(now_s, queue, state.head)
        return
    if not queue.rules[0].keeps:
        state.shadow_s, state.extra = reservation(queue.jobs[state.head].procs, queue)
        return
    if state.kept_for != state.head + ONE or state.kept_s == NEVER_S:  # which says that machines are unavailable
        state.kept_s, _ = reservation(queue.jobs[state.head].procs, queue)
        state.kept_for = state.head + ONE
    state.shadow_s, state.extra = state.kept_s, 0


@outlined
def reserve_all(now_s, queue, row):
    """As `reservation`, if there are further pools: `queue.more[0]` receives what is spare of those that reserve.

    It is that of a plan: what should have ended ends now, and at LAST_S, or if the job never fits, all is back.
    """
    state, running, spare, need = queue.state[0], queue.running, queue.more[0], np.int64(queue.jobs[row].procs)
    shadow_s, free, place, found = now_s, state.free, np.uint64(running.used[0].blocks), False
    for pool in range(queue.rules[0].reserving):
        spare[pool] = queue.left[0, pool]
    while place > 0 and not found:
        place -= ONE
        slot = running.directory[place].first + running.directory[place].count
        while slot > running.directory[place].first and not found:
            slot -= ONE
            end, end_s = running.slots[slot], min(max(running.slots[slot].end_s, now_s), LAST_S)
            found = end_s > shadow_s and free >= need and not lacks(queue, np.uint64(0), queue.wants, row)
            if not found:
                shadow_s = end_s
                free += end.procs
                for pool in range(queue.rules[0].reserving):
                    spare[pool] += queue.wants[end.row, pool]
    whole = shadow_s == LAST_S or free < need or lacks(queue, np.uint64(0), queue.wants, row)
    state.shadow_s, state.extra = (LAST_S, queue.rules[0].procs - need) if whole else (shadow_s, free - need)
    for pool in range(queue.rules[0].reserving):
        spare[pool] = (queue.most[pool] if whole else spare[pool]) - queue.wants[row, pool]


@kernel
def lacks(queue, step, wants, row):
    """Whether less is free in a step, a row of `queue.more`, of a pool that reserves than a job wants by `wants`."""
    for pool in range(queue.rules[0].reserving):
        if wants[row, pool] > 0 and queue.more[step, pool] < wants[row, pool]:
            return True
    return False


@kernel
def may_start_behind(now_s, queue, row, procs, expected_s, free, shadow_s, extra):
    """As `may_backfill`, of a job with all that it wants; `free` and `extra` are of processors."""
    if not may_backfill(now_s, procs, expected_s, free, shadow_s, extra) or lacks_now(queue, row):
        return False
    return now_s + expected_s <= shadow_s or not lacks(queue, np.uint64(0), queue.wants, row)


@kernel
def charge(now_s, queue, row, procs, expected_s, shadow_s, extra):
    """What is spare at the shadow time once a backfilled job has started, which may outlast it: of processors.

    What is spare of other pools is changed in place.
    """
    if now_s + expected_s <= shadow_s:
        return extra
    for pool in range(queue.rules[0].reserving):
        queue.more[0, pool] -= queue.wants[row, pool]
    return extra - procs


@kernel
def may_backfill(now_s, procs, expected_s, free, shadow_s, extra):
    """Whether a job fits now and either ends by the shadow time or needs only processors that are spare then.

    Given a block's smallest q and the smallest `expected_s` of its jobs that fit: whether any may be backfilled.
    """
    return procs <= free and (now_s + expected_s <= shadow_s or procs <= extra)


@entry(float, float, float, int, float, float, gives=(float, int), brief=True)
@kernel
def corrected(now_s, start_s, expected_s, corrections, unpredicted_s, walltime_s):
    """What is expected at `now_s` of a job that has run since `start_s`, and how often it has been corrected by then.

    `expected_s` goes to `unpredicted_s` first, if it is shorter, and never beyond `walltime_s`. The result depends on
    what was first expected of the try and on `now_s`, not on the instants of earlier corrections.
    """
    while start_s + expected_s <= now_s and expected_s < walltime_s:
        step_s = CORRECTION_STEPS_S[min(corrections, len(CORRECTION_STEPS_S) - 1)]
        expected_s = min(expected_s + step_s, unpredicted_s if expected_s < unpredicted_s else walltime_s)
        corrections += 1
    return expected_s, corrections


@kernel
def outlast(now_s, queue, row, procs):
    """Enter a try that has reached its divider again, expected to run for `whole_expected_s` from now on.

    `finish` has taken it out, and returned `procs`.
    """
    job, tried = queue.jobs[row], queue.tries[row]
    job.expected_s, tried.corrections = corrected(
        now_s, job.start_s, tried.whole_expected_s, 0, tried.unpredicted_s, tried.walltime_s
    )
    occupy(queue, row, procs)


@entry(float, QueueArrays, brief=True)
@outlined
def correct(now_s, queue):
    """Raise the expected run time of each running job that was expected to end by `now_s`, as `corrected` does."""
    # Those at their limits stay where they are: so the late ones are listed first, in the scratch space of a pass.
    late, n = queue.candidates, 0
    running = queue.running
    for place in range(last_block(running), -1, -1):
        block = running.directory[place]
        slot = block.first + block.count
        while slot > block.first and running.slots[slot - ONE].end_s <= now_s:
            slot -= ONE
            late[n].row = running.slots[slot].row
            n += 1
        if slot > block.first:
            break
    for i in range(n):
        row = late[i].row
        job, tried = queue.jobs[row], queue.tries[row]
        if job.expected_s < 0:  # without a walltime, see `waiting.planned_s`
            continue
        most_s = tried.walltime_s
        if job.killable and queue.rules[0].bound_s < np.inf:
            most_s = min(most_s, tried.kill_after_s)
        unpredicted_s = min(tried.unpredicted_s, most_s)
        expected_s, tried.corrections = corrected(
            now_s, job.start_s, job.expected_s, tried.corrections, unpredicted_s, most_s
        )
        if expected_s != job.expected_s:  # the reservation may change
            procs = finish(queue, row)
            job.expected_s = expected_s
            occupy(queue, row, procs)
