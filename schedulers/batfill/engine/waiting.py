"""Changes to the queue: jobs join and leave it, become overdue, and return after a kill.

Kernels change `queue`, records.QueueArrays, in place; `row` is a job's row in `queue.jobs`.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import U4, entry, kernel, outlined
from batfill.engine.blocks import first_slot, insert, last_slot, precedes, remove
from batfill.engine.keys import find_head, head_with, place_key, slope_of
from batfill.engine.motion import to_go_first
from batfill.engine.records import AWAY, LARGE, NOBODY, OVERDUE, SECTIONS, TRIES, URGENT, QueueArrays
from batfill.engine.running import lacks_now, start, unsettle

NONE_WAITS = np.int64(2**62), np.inf  # smallest q and `expected_s` of an empty queue
GAP = np.int64(1 << 20)  # between neighbours in `seq`, so that a job submitted late fits between two others


@kernel
def is_walk(queue):
    """Whether a pass is one walk through the queue: its order is fixed and also the backfill order."""
    rules = queue.rules[0]
    return rules.backfill_same and not rules.moves and not (rules.agent or rules.planned)


@kernel
def goes_before(queue, section, row, other):
    """Whether a job that would wait in `section` goes before another that waits; the order must be fixed."""
    if section != queue.jobs[other].section:
        return section < queue.jobs[other].section
    key, other_key = place_key(queue, section, row), place_key(queue, section, other)
    return precedes(key, row, other_key, other, queue.jobs)


@kernel
def late(now_s, queue, row):
    """Whether a job has waited longer than the threshold, strictly."""
    return now_s - queue.jobs[row].submit_s > queue.rules[0].threshold_s


@kernel
def stands_back(queue):
    """Whether tries stand back for jobs that are due."""
    return queue.rules[0].stand_back < np.inf


@kernel
def in_backlog(queue, wanted):
    """Whether tries stand back because waiting jobs request `wanted` processors together."""
    return wanted > queue.rules[0].stand_back * queue.rules[0].procs


@kernel
def section_again(queue, row):
    """The section of a job that is queued again where it stood: that of its class, unless it is due."""
    if stands_back(queue) and queue.jobs[row].section == OVERDUE:
        return OVERDUE
    return np.int64(queue.jobs[row].home)


@kernel
def enqueue(queue, section, row, leads, until_s):
    """Insert a job into a section; `leads` and `until_s` come from `head_with`."""
    job, state = queue.jobs[row], queue.state[0]
    fewest, shortest_s = NONE_WAITS if state.waiting == 0 else (state.fewest, state.shortest_s)
    state.fewest = min(fewest, job.procs)
    state.shortest_s = min(shortest_s, job.expected_s)
    if (state.steps > 0 or state.reserved > 0) and goes_before(queue, section, row, state.reached):
        unsettle(queue)
    state.settled = 0
    state.waiting += 1
    state.wanted += job.procs
    if job.late and section == OVERDUE:
        state.late_first += 1
    if queue.rules[0].moves:
        state.head_until_s = until_s
        if leads:
            state.head = row
            state.head_slope = slope_of(queue, row)
    job.section = section
    insert(queue, section, place_key(queue, section, row), row)


@kernel
def enqueue_at(now_s, queue, section, row):
    """Insert a job into a section.

    `now_s` may be in the past if no job of the section was submitted after it: keys are linear, so the result of
    `head_with` holds until the instant it returns.
    """
    leads, until_s = head_with(now_s, queue, section, row)
    enqueue(queue, section, row, leads, until_s)


@kernel
def dequeue(queue, row):
    """Remove a waiting job from the queue."""
    unsettle(queue)
    take_out(queue, row)


@kernel
def take_out(queue, row):
    """As `dequeue`, in a pass that goes on with its plan."""
    state = queue.state[0]
    state.waiting -= 1
    state.wanted -= queue.jobs[row].procs
    if row == state.head:
        state.head_until_s = -np.inf
    section = np.int64(queue.jobs[row].section)
    if queue.jobs[row].late and section == OVERDUE:
        state.late_first -= 1
    remove(queue.blocks, section, place_key(queue, section, row), row, queue.jobs)
    queue.jobs[row].section = AWAY


@kernel
def withdraw(queue, row):
    """Let a waiting job leave for good."""
    dequeue(queue, row)
    queue.state[0].late -= queue.jobs[row].late
    queue.jobs[row].late = 0


@entry(float, QueueArrays, int, brief=True)
@kernel
def start_waiting(now_s, queue, row):
    """Start a waiting job, wherever it stands in the queue."""
    dequeue(queue, row)
    start(now_s, queue, row)


@kernel
def start_heads(now_s, queue, started):
    """Start the first jobs of the queue while they fit; returns their number. `state.head` is then the next."""
    state, jobs = queue.state[0], queue.jobs
    n = np.int64(0)
    while state.waiting > 0 and state.free > 0:
        if not queue.rules[0].moves or now_s >= state.head_until_s:
            find_head(now_s, queue)
        if state.head == NOBODY or jobs[state.head].procs > state.free or lacks_now(queue, state.head):
            break
        started[n].row = state.head
        n += 1
        start_waiting(now_s, queue, state.head)
    return n


@outlined
def move_to(now_s, queue, section, row):
    """Move a job into a section, whether or not it already waits."""
    if queue.jobs[row].section != AWAY:
        dequeue(queue, row)
    enqueue_at(now_s, queue, section, row)


@kernel
def planned_s(queue, killable, expected_s):
    """For how long a job is planned that is expected to run so long as a whole.

    Where the head keeps its reservation, a job without a walltime counts as one of -1 s, which is how Batsim writes it.
    """
    if killable:
        expected_s = min(expected_s, queue.rules[0].bound_s)
    return -1.0 if queue.rules[0].keeps and expected_s == np.inf else expected_s


@entry(QueueArrays, int, int, int, float, brief=True)
@kernel
def set_class(queue, row, home, killable, expected_s):
    """Set the class, as JOB.home, and the expected run time of a job that is not queued.

    `killable`, 0 or 1: whether it is killed at the divider if it is small; `expected_s`: its run time if it is not.
    """
    job = queue.jobs[row]
    job.home = home
    job.killable = killable if home == TRIES else 0
    job.expected_s = planned_s(queue, job.killable, expected_s)


@entry(QueueArrays, int, int, float, float, float, int, int, int, float, float, float, gives=int, brief=True)
@kernel
def submit(queue, row, place, submit_s, unpredicted_s, walltime_s, procs, home, killable, expected_s, key, rise):
    """Add a newly submitted job as the last row of `jobs`, at `place` of `ages`, and queue it; needs `tries`.

    Returns False if no `seq` is left between those of its neighbours: then the job is not queued, and all have to be
    numbered and sorted again. The arguments from `submit_s` on are fields of the job and its TRY, those from `home` to
    `expected_s` as in `set_class`.
    """
    jobs, ages, state = queue.jobs, queue.ages, queue.state[0]
    job, tried = jobs[row], queue.tries[row]
    job.submit_s = submit_s
    job.procs = procs
    job.start_s = np.nan
    job.section = AWAY
    job.late = 0
    job.key = key
    job.rise = rise
    tried.unpredicted_s = unpredicted_s
    tried.walltime_s = walltime_s
    tried.whole_expected_s = expected_s
    tried.kill_after_s = np.inf
    tried.corrections = 0
    tried.key_expected_s = expected_s
    set_class(queue, row, home, killable, expected_s)
    below = jobs[ages[place - 1]].seq if place > 0 else 0
    above = jobs[ages[place]].seq if place < row else below + 2 * GAP
    for i in range(row, place, -1):
        ages[i] = ages[i - 1]
    ages[place] = row
    job.seq = (above + below) // 2
    state.submitted = row + 1
    state.looked_at = min(state.looked_at, place)  # the sweep has passed its place: step back,
    state.first_to = min(state.first_to, place)  # and so has the choice of those that go first
    if above - below < 2:
        return False
    enqueue_at(submit_s, queue, home, row)
    return True


@entry(float, QueueArrays, U4)
@kernel
def enqueue_rows(now_s, queue, rows):
    """Insert rows, uint32 (n,), into the sections of their classes, none of them queued.

    Jobs that are due stay in theirs.
    """
    for row in rows:
        enqueue_at(now_s, queue, section_again(queue, row), row)


@outlined
def place_of(queue, row):
    """The place of a submitted job in `ages`."""
    low, high = np.int64(0), np.int64(queue.state[0].submitted)
    while low < high:
        middle = (low + high) // 2
        if queue.jobs[queue.ages[middle]].seq < queue.jobs[row].seq:
            low = middle + 1
        else:
            high = middle
    return low


# Who goes first


@entry(float, QueueArrays, brief=True)
@kernel
def bring_forward(now_s, queue):
    """At the beginning of a decision, let those jobs go first that do from now on."""
    state, rules = queue.state[0], queue.rules[0]
    while state.looked_at < state.submitted and late(now_s, queue, queue.ages[state.looked_at]):
        row = queue.ages[state.looked_at]
        if queue.jobs[row].section != AWAY:
            count_late(queue, row, state.looked_at)
        state.looked_at += 1
    changing = rules.half and state.late > 0 and not stands_back(queue)  # which jobs are the older half
    if changing or state.late_first < to_go(queue) or in_backlog(queue, state.wanted):
        choose_first(now_s, queue)


@kernel
def to_go(queue):
    """How many of the overdue jobs go first."""
    late = np.int64(queue.state[0].late)
    return min(to_go_first(late), late) if queue.rules[0].half else late


@kernel
def count_late(queue, row, place):
    """Count a waiting job at `place` of `ages` as overdue, for `choose_first`."""
    state, job = queue.state[0], queue.jobs[row]
    if not job.late and job.home != URGENT:
        job.late = 1
        state.late += 1
        state.late_first += job.section == OVERDUE
        state.first_to = min(state.first_to, np.uint32(place))


@outlined
def choose_first(now_s, queue):
    """Let the overdue jobs go first, or the older half, or move the youngest back; in a backlog, all jobs are due.

    The overdue jobs that do not go first are all at QUEUE.first_to of `ages` or behind it, and before `looked_at`.
    """
    blocks, jobs, ages, state, rules = queue.blocks, queue.jobs, queue.ages, queue.state[0], queue.rules[0]
    first = OVERDUE
    while state.late > 0:
        number = to_go(queue)
        lacking = state.late_first < number
        if not lacking and (stands_back(queue) or not rules.half):
            break
        while state.first_to < state.looked_at:
            row = ages[state.first_to]
            if jobs[row].late and jobs[row].section != first:
                break
            state.first_to += 1
        if lacking:
            bring(now_s, queue, ages[state.first_to])
            continue
        youngest = blocks.slots[last_slot(blocks, first)].row
        if state.first_to < state.looked_at and jobs[ages[state.first_to]].seq < jobs[youngest].seq:  # requeued
            bring(now_s, queue, ages[state.first_to])
        elif state.late_first > number:
            move_to(now_s, queue, np.int64(jobs[youngest].home), youngest)
            state.first_to = min(state.first_to, np.uint32(place_of(queue, youngest)))
        else:
            break
    if in_backlog(queue, state.wanted):
        for section in range(TRIES, SECTIONS):
            while blocks.sections[section].jobs > 0:
                bring(now_s, queue, blocks.slots[first_slot(blocks, section)].row)


@outlined
def bring(now_s, queue, row):
    """Move a waiting job to those that go first; where tries stand back it is large from then on."""
    if stands_back(queue) and queue.jobs[row].home == TRIES:
        dequeue(queue, row)
        set_class(queue, row, LARGE, 0, queue.tries[row].whole_expected_s)
    move_to(now_s, queue, OVERDUE, row)


@outlined
def hold_head(now_s, queue):
    """Where tries stand back, make the head due, if it is large, once a decision has left processors idle."""
    state = queue.state[0]
    if state.waiting == 0 or state.free <= 0:
        return
    if not queue.rules[0].moves or now_s >= state.head_until_s:
        find_head(now_s, queue)
    row, settled = state.head, state.settled
    if row == NOBODY or queue.jobs[row].section != LARGE:
        return
    move_to(now_s, queue, OVERDUE, row)
    # The pass holds as it is: the same job has the same reservation.
    state.head, state.head_until_s, state.head_slope = row, np.inf, 0.0
    state.settled = settled and not queue.rules[0].planned


@entry(QueueArrays, int, brief=True)
@outlined
def demote(queue, row):
    """Move a job killed at the divider to the large jobs."""
    queue.jobs[row].home = LARGE
    take_back(queue, row)


@entry(QueueArrays, int, brief=True)
@kernel
def take_back(queue, row):
    """Expect of a job that was stopped what was expected before its try; it keeps its class."""
    job = queue.jobs[row]
    job.start_s = np.nan
    if len(queue.tries) > 0:
        queue.tries[row].kill_after_s = np.inf
        queue.tries[row].corrections = 0
        set_class(queue, row, job.home, job.killable, queue.tries[row].whole_expected_s)


@entry(QueueArrays, int, brief=True)
@kernel
def spare(queue, row):
    """Let a running try go on as a large job; `easy.ended_if_needed` has entered its new expected end."""
    queue.jobs[row].home = LARGE
    queue.jobs[row].killable = 0


@entry(float, QueueArrays, int, brief=True)
@outlined
def requeue(now_s, queue, row):
    """Requeue a killed and demoted job; `bring_forward` must follow."""
    move_to(now_s, queue, np.int64(queue.jobs[row].home), row)
    if late(now_s, queue, row):
        count_late(queue, row, place_of(queue, row))
