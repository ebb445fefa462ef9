"""Many short replays side by side, each of which stops where an agent has to decide.

A copy replays consecutive jobs of a log, its episode. `step` applies one action to each of a range of copies and
replays on to the next decision that matters; everything between is EASY in the base order. The copies' arrays are those
of single replays with one more axis in front, so that threads can step different copies at once.

Kernels change `queue`, records.QueueArrays, and `events`, loop.Events, of one copy in place, or all of `copies`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.base.kernels import F4, F8, I1, I8, U1, Array, ManyOf, entry, kernel, outlined, record
from batfill.engine.easy import backfill_behind_head, easy_pass
from batfill.engine.keys import section_of, set_aged_key, set_mixed_key
from batfill.engine.loop import REACHED, TO_DECIDE, Events, Given, advance, record_start, reset
from batfill.engine.motion import BY_EXPECTED, BY_SECOND, FIXED
from batfill.engine.records import AWAY, JOB, QueueArrays
from batfill.engine.running import charge, may_backfill, reserve
from batfill.engine.waiting import dequeue, enqueue_at, start_heads, start_waiting
from batfill_lab.env.seeing import Sight, first_waiting, note_logs, see_all

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.base.kernels import Many

# What an action is.
PICK, BACKFILL, PRIORITIES, MIXED_WEIGHTS, AGED_WEIGHTS = range(5)
ACTS, BEGINS, RESTS = range(3)  # what a copy does in a step

SETTING = np.dtype(
    [
        ("action", "i8"),  # PICK, ...
        ("procs", "i8"),  # m
        ("warm", "i8"),  # jobs before the scored ones: while only they have been submitted, no agent decides
        ("every", "i8"),  # weights hold until this many more jobs have been submitted
        ("moves", "i8"),  # RULES.moves of the base order
        ("weighs", "u1"),  # 1 if actions are weights
    ]
)
COPY = np.dtype(
    [
        ("first", "i8"),  # the row in the log of its first job
        ("seen", "i8"),  # the jobs in the last observation
        ("reported", "i8"),  # tries in `Fresh` so far
        ("counted", "i8"),  # tries so far that `unscheduled` counts
        ("unscheduled", "i8"),  # scored jobs that have not started
        ("decisions", "i8"),
        ("invalid", "i8"),  # actions that named no job that could be chosen
    ]
)


@record(
    *(ManyOf(QueueArrays), ManyOf(Events), ManyOf(Sight)),
    *(Array(COPY, 2), SETTING, Array(JOB, read=True), Array(F8, read=True)),
)
class Copies(NamedTuple):
    """All copies."""

    queue: Many
    events: Many
    sight: Many
    state: NDArray[np.void]  # COPY (copies, 1)
    setting: NDArray[np.void]  # SETTING (1,)
    jobs: NDArray[np.void]  # JOB (n_jobs,)  the log's, with their keys in the base order
    duration_s: NDArray[np.float64]  # (n_jobs,)  and their run times


@record(Array(F4, 3), Array(F4, 2), Array(I1, 2), U1)
class Seen(NamedTuple):
    """What the agents see, (copies, ...)."""

    jobs: NDArray[np.float32]  # (visible, OF_JOB), zeros beyond the visible jobs
    cluster: NDArray[np.float32]  # (OF_CLUSTER,)
    mask: NDArray[np.int8]  # (visible,), with one more for BACKFILL: the last action is to backfill no more
    done: NDArray[np.uint8]  # whether the episode is over


@record(I8, F8, F8, I8, I8)
class Fresh(NamedTuple):
    """The scored jobs started by a step, of all copies."""

    copy: NDArray[np.int64]  # (capacity,)
    wait_s: NDArray[np.float64]  # (capacity,)
    runtime_s: NDArray[np.float64]  # (capacity,)
    procs: NDArray[np.int64]  # (capacity,)
    used: NDArray[np.int64]  # (1,)


@outlined
def begin(queue, events, sight, copy, copies, first):
    """Reset a copy to the beginning of the episode of the log's jobs from row `first` on."""
    setting, jobs = copies.setting[0], queue.jobs
    copy.first, copy.reported, copy.counted, copy.unscheduled = first, 0, 0, len(jobs) - setting.warm
    copy.decisions, copy.invalid = 0, 0
    for row in range(len(jobs)):
        if jobs[row].section != AWAY:  # jobs before the scored ones may still wait
            dequeue(queue, row)
    for row in range(len(jobs)):
        jobs[row] = copies.jobs[first + row]
        jobs[row].seq = row
        events.duration_s[row] = copies.duration_s[first + row]
    queue.rules[0].moves = setting.moves
    queue.rules[0].agent = not setting.weighs
    reset(setting.procs, Given(jobs.expected_s, jobs.small, jobs.killable, jobs.submit_s, jobs.procs), queue, events)
    note_logs(queue, sight.logs)


@kernel
def record_pass(n, ahead, queue, events):
    """Record the first n tries after the known ones in `events.starts`; those from `ahead` on were backfilled."""
    first = np.int64(events.clock[0].starts)
    for place in range(n):
        record_start(events.starts[first + place].row, place >= ahead, queue, events)


@outlined
def decide_rest(queue, events):
    """Decide the rest of the instant in the base order."""
    clock = events.clock[0]
    n, ahead = easy_pass(clock.now_s, queue, events.starts[clock.starts :])
    record_pass(n, ahead, queue, events)


@kernel
def start_one(queue, events, row, backfilled):
    """Start a waiting job."""
    clock = events.clock[0]
    start_waiting(clock.now_s, queue, row)
    events.starts[clock.starts].row = row
    record_start(row, backfilled, queue, events)


@outlined
def backfill_behind(queue, events, row):
    """Reserve for a job that does not fit, and backfill in the base order."""
    clock = events.clock[0]
    queue.state[0].head = row
    n = backfill_behind_head(clock.now_s, queue, events.starts[clock.starts :], np.int64(0))
    record_pass(n, 0, queue, events)


@outlined
def open_backfilling(queue, events):
    """Start the jobs before the head, and reserve for it."""
    state, clock = queue.state[0], events.clock[0]
    n = start_heads(clock.now_s, queue, events.starts[clock.starts :])
    record_pass(n, n, queue, events)
    if state.waiting > 0 and state.free > 0:
        state.ahead = 0
        reserve(clock.now_s, queue)


@kernel
def choices(now_s, queue, rows, action, mask):
    """What the agent may choose: writes the jobs that it sees to `rows`, and `mask`, int8 (n_actions,).

    Returns how many jobs it sees, 0 for no decision. It matters which job is picked if one fits, and not all of them do
    together; and of which jobs are backfilled behind the head, if any may be.
    """
    state = queue.state[0]
    if state.waiting < 2 or state.free == 0:
        return 0
    seen = first_waiting(queue, rows)
    fewest, total, may = np.int64(state.free) + 1, np.int64(0), False
    for place in range(seen):
        procs, expected_s = np.int64(queue.jobs[rows[place]].procs), queue.jobs[rows[place]].expected_s
        fewest, total = min(fewest, procs), total + procs
        mask[place] = 1
        if action == BACKFILL:
            mask[place] = place > 0 and may_backfill(now_s, procs, expected_s, state.free, state.shadow_s, state.extra)
            may = may or mask[place] != 0
    if action == BACKFILL:
        return seen if may else 0
    if seen < state.waiting:  # more jobs than the agent sees
        return seen if seen > 1 and min(fewest, state.fewest) <= state.free else 0
    return seen if fewest <= state.free and state.free < total else 0


@kernel
def show(now_s, queue, sight, copy, kind, seen, i, out):
    """Write the observation of the first `seen` of `sight.rows` as that of copy i; without any the episode is over."""
    of_jobs, of_cluster, mask = out.jobs[i], out.cluster[i], out.mask[i]
    of_jobs[seen : copy.seen] = 0  # of the observation before
    copy.seen = seen
    out.done[i] = seen == 0
    mask[seen:] = 0  # `choices` also writes it where it offers nothing
    if seen == 0:
        mask[0] = 1
        of_cluster[:] = 0
        return
    copy.decisions += 1
    if kind == BACKFILL:
        mask[len(mask) - 1] = 1
    see_all(now_s, queue, sight, seen, of_jobs, of_cluster)


@kernel
def next_by_priority(order, seen, priorities):
    """The place of the next job by priority, float64 (>= seen,): highest first, of equals the first.

    `order`, CANDIDATE (>= seen,), has the rank 0 for those that are left; the place gets 1.
    """
    best = -1
    for place in range(seen):
        if order[place].rank == 0 and (best < 0 or priorities[place] > priorities[best]):
            best = place
    order[best].rank = 1
    return best


@kernel
def set_key(action, weights, job):
    """Set a job's key by these weights, float64 (>= 3,), 6 of a mixed order."""
    if action == MIXED_WEIGHTS:
        set_mixed_key(weights, job)
    else:
        set_aged_key(weights, job)


@outlined
def take_weights(queue, events, action, weights):
    """Order the waiting jobs by these weights: the six of a mixed order, or c, alpha, beta of an aged one."""
    state, waiting = queue.state[0], queue.candidates
    n = np.int64(0)
    for row in range(np.int64(state.submitted)):
        if queue.jobs[row].section != AWAY:
            dequeue(queue, row)
            waiting[n].row = row
            n += 1
    queue.rules[0].moves = BY_SECOND if action == AGED_WEIGHTS else BY_EXPECTED if weights[4] != 0 else FIXED
    for place in range(n):
        row = waiting[place].row
        set_key(action, weights, queue.jobs[row])
        enqueue_at(events.clock[0].now_s, queue, section_of(queue.jobs[row].small), row)


@outlined
def rows_until(queue, action, weights, own, more):
    """The row after the next `more` jobs to be submitted, with those submitted with the last of them.

    Sets their keys by the weights if `own`, which says whether the agent's weights are in force.
    """
    jobs = queue.jobs
    known = np.int64(queue.state[0].submitted)
    last = min(known + more, len(jobs))
    while known < last < len(jobs) and jobs[last].submit_s == jobs[last - 1].submit_s:
        last += 1
    if own:
        for row in range(known, last):
            set_key(action, weights, jobs[row])
    return last


@kernel
def scored_left(copy, warm, events):
    """Update how many scored jobs have not started; returns whether any is left."""
    clock = events.clock[0]
    for place in range(copy.counted, np.int64(clock.starts)):
        copy.unscheduled -= np.int64(events.starts[place].row) >= warm
    copy.counted = clock.starts
    return copy.unscheduled > 0


@kernel
def report(copy, i, warm, queue, events, fresh):
    """Add the copy's scored jobs that have started since the last report to `fresh`."""
    n = fresh.used[0]
    for place in range(copy.reported, np.int64(events.clock[0].starts)):
        row = np.int64(events.starts[place].row)
        if row < warm:
            continue
        job = queue.jobs[row]
        fresh.copy[n] = i
        fresh.wait_s[n] = job.start_s - job.submit_s
        fresh.runtime_s[n] = events.duration_s[row]
        fresh.procs[n] = job.procs
        n += 1
    fresh.used[0] = n
    copy.reported = events.clock[0].starts


# Where a step has got to within an instant.
ADVANCES, OPENS, ASKS, LEAVES_REST = range(4)


@kernel
def carry_out(queue, events, rows, copy, kind, action, values, mask):
    """Carry out an action of PICK, BACKFILL or PRIORITIES; returns where the step has got to."""
    state, order = queue.state[0], queue.candidates
    now_s, left = events.clock[0].now_s, copy.seen
    if kind == PRIORITIES:
        for place in range(left):
            order[place].rank = 0
    elif not 0 <= action < len(mask) or mask[action] == 0:
        copy.invalid += 1
        action = 0 if kind == PICK else len(mask) - 1
    if kind == BACKFILL and action == len(mask) - 1:
        return ADVANCES
    while True:
        row = rows[next_by_priority(order, copy.seen, values) if kind == PRIORITIES else action]
        if queue.jobs[row].procs > state.free:
            backfill_behind(queue, events, row)
            return ADVANCES
        if kind == BACKFILL:
            job = queue.jobs[row]
            state.extra = charge(now_s, queue, row, job.procs, job.expected_s, state.shadow_s, state.extra)
        start_one(queue, events, row, kind == BACKFILL)
        left -= 1
        if kind != PRIORITIES:
            return ASKS
        if left == 0:
            return LEAVES_REST


@kernel
def until_choice(queue, events, rows, copy, setting, at, mask):
    """Replay on from `at` until the agent may choose; returns how many jobs it sees, 0 at the episode's end."""
    state, clock, kind = queue.state[0], events.clock[0], setting.action
    while True:
        if at == ADVANCES:
            over = not scored_left(copy, setting.warm, events)
            if over or advance(np.inf, setting.procs, queue, events) != TO_DECIDE:
                return 0
            at = OPENS
        warm = state.submitted <= setting.warm
        if not warm and at == OPENS and kind == BACKFILL:
            open_backfilling(queue, events)
        if not warm and at != LEAVES_REST:
            seen = choices(clock.now_s, queue, rows, kind, mask)
            if seen > 0:
                return seen
        if state.waiting > 0 and state.free > 0:
            if warm or kind != BACKFILL:
                decide_rest(queue, events)
            else:  # jobs that the agent does not see
                backfill_behind(queue, events, state.head)
        at = ADVANCES


@kernel
def until_weighing(queue, events, rows, copy, setting, weights, own, mask):
    """Replay on, `own` as for `rows_until`, until the agent may weigh again; returns as `until_choice`."""
    state, jobs = queue.state[0], queue.jobs
    more = setting.every if own else setting.warm + 1
    while scored_left(copy, setting.warm, events):
        last = rows_until(queue, setting.action, weights, own, more)
        until_s = jobs[last - 1].submit_s if state.submitted < len(jobs) else np.inf
        if advance(until_s, setting.procs, queue, events) != REACHED:
            return 0
        if state.waiting > 0:
            seen = first_waiting(queue, rows)
            mask[:seen] = 1
            return seen
        more = np.int64(1)
    return 0


@entry(
    Copies,
    int,
    int,
    Array(I8, read=True),
    Array(F8, 2, read=True),
    Array(U1, read=True),
    Array(I8, read=True),
    Seen,
    Fresh,
)
@outlined
def step(copies, low, high, actions, values, tasks, firsts, out, fresh):
    """Apply an action to each copy from `low` to below `high`, or begin an episode, and go on to the next decision.

    Args:
        copies: Copies.
        low: the first copy.
        high: the one after the last.
        actions: int64 (copies,), of PICK and BACKFILL.
        values: float64 (copies, n), of the others.
        tasks: uint8 (copies,): BEGINS where an episode begins instead, RESTS where nothing happens, else ACTS.
        firsts: int64 (copies,), the rows in the log where those episodes begin.
        out: Seen, receives the observations.
        fresh: Fresh, receives the scored jobs that start.
    """
    setting = copies.setting[0]
    kind = setting.action
    fresh.used[0] = 0
    for i in range(low, high):
        if tasks[i] == RESTS:
            continue
        queue, events, sight = copies.queue[i], copies.events[i], copies.sight[i]
        copy, mask, acts = copies.state[i, 0], out.mask[i], tasks[i] != BEGINS
        if not acts:
            begin(queue, events, sight, copy, copies, firsts[i])
        if setting.weighs:
            if acts:
                take_weights(queue, events, kind, values[i])
            seen = until_weighing(queue, events, sight.rows, copy, setting, values[i], acts, mask)
        else:
            at = carry_out(queue, events, sight.rows, copy, kind, actions[i], values[i], mask) if acts else ADVANCES
            seen = until_choice(queue, events, sight.rows, copy, setting, at, mask)
        show(events.clock[0].now_s, queue, sight, copy, kind, seen, i, out)
        report(copy, i, setting.warm, queue, events, fresh)
