"""The event loop of the replay: all ends, dates of the calendar and submissions of an instant, then one pass.

Kernels change `queue`, records.QueueArrays, and `events`, Events, in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.base.kernels import F8, I1, I8, U1, U4, Array, entry, kernel, outlined, record
from batfill.engine.arrivals import arrives
from batfill.engine.easy import choose_stopped, easy_pass, ended_if_needed, settle
from batfill.engine.ends import ONE, clear_ends, enter, leave, leave_next, next_end, next_end_s
from batfill.engine.keys import set_mixed_key
from batfill.engine.records import (
    AT_DIVIDER,
    AWAY,
    BACKFILLS,
    BY_FAILURE,
    GATE,
    GOES_ON,
    LINE,
    PREEMPTED,
    QUEUE,
    STARTED,
    STARTS,
    STEP,
    TICK_S,
    UNDECIDED,
    URGENT,
    YOUNGEST,
    Ends,
    QueueArrays,
)
from batfill.engine.running import correct, finish, free_all, keep, next_to_stop, pay, unsettle
from batfill.engine.violations import Marks, Ran, first_violation
from batfill.engine.waiting import bring_forward, demote, planned_s, requeue, spare, take_back, withdraw

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Why `advance` returned.
DONE, REACHED, TO_DECIDE, LACKS_ROOM = range(4)
# What an instant still lacks: nothing, so that the next one begins; its submissions; its passes and kills.
OVER, SUBMITS, DECIDES = range(3)

# A try that was stopped: killed at its divider, or by a failure of the calendar, or preempted.
KILL = np.dtype([("row", "u4"), ("start_s", "f8"), ("ran_s", "f8"), ("why", "u1"), ("end_s", "f8")])
CLOCK = np.dtype(
    [
        ("now_s", "f8"),  # the last instant handled
        ("starts", "u4"),  # tries: entries of `starts` in use
        ("due", "u4"),  # tries that have reached their dividers: entries of `due` in use
        ("over", "u4"),  # tries that have ended: entries of `over` in use
        ("rejected", "u4"),  # jobs wider than the machine
        ("kills", "i8"),  # tries killed: entries of `kills` in use
        ("stage", "u1"),  # what the instant `now_s` still lacks: OVER, SUBMITS or DECIDES
        ("lacks_pass", "u1"),  # 1 while it needs a pass
    ]
)


@record(F8, F8, Ends, U4, STARTED, KILL, U4, U4, STEP, CLOCK)
class Events(NamedTuple):
    """Future and past events; no scheduler may read them."""

    duration_s: NDArray[np.float64]  # (n_jobs,)  min(p, p~): how long a job runs if it is not killed at a divider
    cancel_s: NDArray[np.float64]  # (n_jobs,)  when its user cancels each job, inf for never; (0,) if none does
    ends: Ends  # of the running jobs; a divider is an end until it is reached. The processors are 0. If some jobs are
    # cancelled, also when one of these leaves that waits
    due: NDArray[np.uint32]  # (capacity,)  rows of tries at their dividers, to be decided on after this instant's pass
    starts: NDArray[np.void]  # records.STARTED (capacity,)  every try, in start order
    kills: NDArray[np.void]  # KILL (capacity,)  every kill, in time order
    ended: NDArray[np.uint32]  # (capacity,)  how many tries had ended before each entry of `starts`
    over: NDArray[np.uint32]  # (capacity,)  rows of the tries that have ended, in time order
    available: NDArray[np.void]  # STEP (n_changes + 1,)  from a date on, the first being -inf, so many processors are
    clock: NDArray[np.void]  # CLOCK (1,)


@record(*(Array(column, read=True) for column in (F8, I1, U1, F8, I8)))
class Given(NamedTuple):
    """The input that all replays of a workload share; columns of shape (n_jobs,)."""

    expected_s: NDArray[np.float64]  # p~, or what is expected instead, of the whole job
    home: NDArray[np.int8]  # as JOB.home
    killable: NDArray[np.uint8]
    submit_s: NDArray[np.float64]  # as in the job table, for the check of the invariants,
    procs: NDArray[np.int64]  # as the next


AT_START = np.zeros(1, QUEUE)
AT_START["paid_s"] = -np.inf
BEFORE_START = np.zeros(1, CLOCK)


@entry(int, Given, QueueArrays, Events)
@kernel
def reset(size, given, queue, events):
    """Reset to an empty machine of `size` processors; the queue must be empty."""
    jobs, tries = queue.jobs, queue.tries
    for row in range(len(jobs)):
        jobs[row].home = given.home[row]
        jobs[row].killable = given.killable[row]
        jobs[row].expected_s = planned_s(queue, jobs[row].killable, given.expected_s[row])
        jobs[row].section = AWAY
        jobs[row].late = 0
        jobs[row].start_s = np.nan
    for row in range(len(tries)):
        tries[row].kill_after_s = np.inf
        tries[row].whole_expected_s = given.expected_s[row]
        tries[row].corrections = 0
        tries[row].key_expected_s = given.expected_s[row]
    queue.state[0] = AT_START[0]
    queue.state[0].free = size
    events.clock[0] = BEFORE_START[0]
    free_all(queue)
    clear_ends(queue.running)
    clear_ends(events.ends)


@kernel
def whole_end_s(row, queue, events):
    """When a running job ends if it is not stopped: by itself, or cancelled."""
    end_s = queue.jobs[row].start_s + events.duration_s[row]
    return min(end_s, events.cancel_s[row]) if len(events.cancel_s) > 0 else end_s


@kernel
def is_cancelled(now_s, row, events):
    """Whether a job that has not ended by itself is over, as its user cancels it."""
    return len(events.cancel_s) > 0 and events.cancel_s[row] <= now_s


@kernel
def may_leave(row, events):
    """Enter the date at which a job leaves if it still waits then."""
    if len(events.cancel_s) > 0 and events.cancel_s[row] < np.inf:
        enter(events.ends, events.cancel_s[row], 0, row)


@kernel
def record_start(row, backfilled, queue, events):
    """Record the start of a job as the last of `events.starts`, and its end."""
    clock, job = events.clock[0], queue.jobs[row]
    if len(events.cancel_s) > 0 and events.cancel_s[row] < np.inf:
        leave(events.ends, events.cancel_s[row], row)
    events.starts[clock.starts].backfilled = backfilled
    events.ended[clock.starts] = clock.over
    end_s = whole_end_s(row, queue, events)
    if job.killable:
        queue.tries[row].kill_after_s = queue.rules[0].divider_s
        end_s = min(end_s, job.start_s + queue.rules[0].divider_s)
    enter(events.ends, end_s, 0, row)
    clock.starts += 1


@kernel
def record_end(row, events):
    """Record the end of a try."""
    clock = events.clock[0]
    events.over[clock.over] = row
    clock.over += 1


@outlined
def kill(now_s, row, ran_s, why, queue, events):
    """Record that a try that has ended was stopped, and queue the job again."""
    clock, record = events.clock[0], events.kills[events.clock[0].kills]
    record.row = row
    record.start_s = queue.jobs[row].start_s
    record.ran_s = ran_s
    record.end_s = now_s
    record.why = why
    clock.kills += 1
    if queue.rules[0].checkpoint_s < np.inf:
        events.duration_s[row] -= keep(queue, row, ran_s)
    if why == AT_DIVIDER:
        demote(queue, row)
    else:
        take_back(queue, row)
    if why == PREEMPTED and queue.rules[0].requeue_delay_s > 0:
        again_s = now_s + queue.rules[0].requeue_delay_s
        enter(events.ends, min(again_s, events.cancel_s[row]) if len(events.cancel_s) > 0 else again_s, 0, row)
    else:
        may_leave(row, events)
        requeue(now_s, queue, row)


@outlined
def stop(now_s, row, why, queue, events):
    """Stop a running job before its end, and queue it again; returns its processors."""
    job, due, clock = queue.jobs[row], events.due, events.clock[0]
    end_s = whole_end_s(row, queue, events)
    if job.killable:
        end_s = min(end_s, job.start_s + queue.tries[row].kill_after_s)
    waits = False  # whether it is at its divider
    for place in range(np.int64(clock.due)):
        if due[place] == row:
            due[place], waits = due[clock.due - np.uint64(1)], True
    if waits:
        clock.due -= 1
    else:
        leave(events.ends, end_s, row)
    procs = finish(queue, row)
    record_end(row, events)
    kill(now_s, row, now_s - job.start_s, why, queue, events)
    return procs


@outlined
def preempt(queue, events):
    """Stop the jobs that the first of the queue needs, if it is urgent, so that another pass starts it."""
    clock = events.clock[0]
    n = choose_stopped(clock.now_s, queue)
    for place in range(n):
        stop(clock.now_s, queue.candidates[place].row, PREEMPTED, queue, events)
    clock.lacks_pass = n > 0


@outlined
def run_pass(now_s, queue, events):
    """Run one pass and record the starts."""
    clock = events.clock[0]
    clock.lacks_pass = 0
    started = events.starts[clock.starts :]
    n, ahead = easy_pass(now_s, queue, started)
    for i in range(n):
        record_start(started[i].row, i >= ahead, queue, events)


@outlined
def decide_due(queue, events):
    """Kill the try at its divider that loses least, so that a pass is needed, or let it go on."""
    jobs, due, clock = queue.jobs, events.due, events.clock[0]
    cheapest, lost = 0, np.inf
    for place in range(np.int64(clock.due)):  # signed, as `cheapest` is
        job = jobs[due[place]]
        cost = job.procs * queue.tries[due[place]].kill_after_s
        if cost < lost or (cost == lost and job.seq < jobs[due[cheapest]].seq):
            cheapest, lost = place, cost
    row = due[cheapest]
    clock.due -= 1
    due[cheapest] = due[clock.due]
    if ended_if_needed(clock.now_s, queue, row) != GOES_ON:
        record_end(row, events)
        kill(clock.now_s, row, queue.tries[row].kill_after_s, AT_DIVIDER, queue, events)
        clock.lacks_pass = 1
    else:  # without a pass: no job waits, or none would start even without the try, and the head keeps its reservation
        spare(queue, row)
        queue.state[0].ahead = 0
        settle(queue)
        enter(events.ends, whole_end_s(row, queue, events), 0, row)
        if len(queue.wants) > 0:  # with the try the head may be skipped, so that another job is the head
            clock.lacks_pass = 1


@entry(float, QueueArrays, gives=float, brief=True)
@outlined
def next_change_s(end_s, queue):
    """The next date of calendar, gate or budget, or `end_s`, the next other event, if earlier or no job is left."""
    state, rules = queue.state[0], queue.rules[0]
    if state.changed < len(queue.changes) and (end_s < np.inf or state.waiting > 0):
        end_s = min(end_s, queue.changes[state.changed].at_s)
    if rules.energy > 0 and state.waiting > 0:
        if state.wake_s > state.paid_s:
            end_s = min(end_s, state.wake_s)
        if rules.from_s <= state.paid_s < rules.until_s:
            end_s = min(end_s, rules.from_s + (np.floor((state.paid_s - rules.from_s) / TICK_S) + 1) * TICK_S)
    return end_s


@outlined
def pass_changes(now_s, queue, events):
    """Handle the calendar's dates up to `now_s`."""
    state = queue.state[0]
    while state.changed < len(queue.changes) and queue.changes[state.changed].at_s <= now_s:
        change = queue.changes[state.changed]
        if change.fails:
            short = -change.amount - max(state.free, np.int64(0))
            while short > 0:
                row, _ = next_to_stop(now_s, queue, YOUNGEST, True)
                short -= stop(now_s, row, BY_FAILURE, queue, events)
        if change.pool == 0:
            state.free += change.amount
        elif change.pool == GATE:
            state.open += change.amount
        else:
            queue.left[0, change.pool - ONE] += change.amount
            state.head_until_s = -np.inf  # as in `running.take`
        unsettle(queue)
        state.changed += 1


@entry(QueueArrays, Events, gives=float, brief=True)
@kernel
def next_instant_s(queue, events):
    """When something happens next; inf if nothing does."""
    now_s = next_end_s(events.ends)
    if queue.state[0].submitted < len(queue.jobs):
        now_s = min(now_s, queue.jobs[np.uint32(queue.state[0].submitted)].submit_s)
    if len(queue.changes) > 0:
        now_s = next_change_s(now_s, queue)
    if queue.rules[0].preempts and queue.rules[0].preempt_exempt_s > 0 and queue.blocks.sections[URGENT].jobs > 0:
        _, later_s = next_to_stop(events.clock[0].now_s, queue, YOUNGEST, False)
        now_s = min(now_s, later_s)
    return now_s


@outlined
def come_or_leave(now_s, row, queue, events):
    """Queue the next of `ends` again, which does not run, or let it leave if it waits."""
    leave_next(events.ends)
    if queue.jobs[row].section != AWAY:
        withdraw(queue, row)
    elif not is_cancelled(now_s, row, events):
        may_leave(row, events)
        requeue(now_s, queue, row)


@kernel
def begin_instant(now_s, queue, events):
    """Handle what happens at an instant before jobs are submitted: ends, cancellations, and dates of the calendar."""
    ends, clock = events.ends, events.clock[0]
    if queue.rules[0].energy > 0:
        pay(now_s, queue)
    while next_end_s(ends) == now_s:
        row = ends.slots[next_end(ends)].row
        if np.isnan(queue.jobs[row].start_s):
            come_or_leave(now_s, row, queue, events)
            continue
        killed = queue.jobs[row].killable and queue.tries[row].kill_after_s < events.duration_s[row]
        killed = killed and not is_cancelled(now_s, row, events)
        leave_next(ends)
        if killed and queue.rules[0].spares:
            events.due[clock.due] = row
            clock.due += 1
            continue
        finish(queue, row)
        record_end(row, events)
        if killed:
            kill(now_s, row, queue.tries[row].kill_after_s, AT_DIVIDER, queue, events)
    # Before jobs arrive: one that is decided alone relies on a reservation that this may change.
    if queue.rules[0].outlived:
        correct(now_s, queue)
    if len(queue.changes) > 0:
        pass_changes(now_s, queue, events)
    bring_forward(now_s, queue)


@kernel
def submit_all(size, queue, events):
    """Submit the jobs of the instant; `clock.lacks_pass` says whether a pass is needed."""
    jobs, state, clock = queue.jobs, queue.state[0], events.clock[0]
    n_jobs, now_s, decided = len(jobs), clock.now_s, False
    while state.submitted < n_jobs:
        row = np.uint32(state.submitted)
        if jobs[row].submit_s > now_s:
            break
        state.submitted += 1
        if jobs[row].procs > size:
            clock.rejected += 1
            continue
        may_leave(row, events)
        alone = state.submitted == n_jobs or jobs[np.uint32(state.submitted)].submit_s > now_s
        what = arrives(now_s, queue, row, alone)
        decided = what != UNDECIDED
        if what in (STARTS, BACKFILLS):
            events.starts[clock.starts].row = row
            record_start(row, what == BACKFILLS, queue, events)
    # Where only dividers are reached, a settled queue with the same head needs no pass; see `arrivals.py`.
    same = not queue.rules[0].moves or now_s < state.head_until_s
    same = same and not (queue.rules[0].preempts and queue.blocks.sections[URGENT].jobs > 0)
    clock.lacks_pass = not (decided or (clock.due > 0 and state.settled and same))


@outlined
def lacks_room(size, queue, events):
    """Whether the next step, which stops each running job once at most, could fill `events.kills`."""
    return len(events.kills) - events.clock[0].kills < min(np.int64(size), np.int64(len(queue.jobs)))


@entry(float, int, QueueArrays, Events, gives=int)
@outlined
def advance(until_s, size, queue, events):
    """Handle every instant up to and including `until_s` on a machine of `size` processors.

    Returns DONE or REACHED (the next instant is later than until_s) between two instants. Within one it returns, if
    RULES.agent, TO_DECIDE (the instant lacks its pass: make it and call again); `clock.stage` says where it goes on.
    It returns LACKS_ROOM where jobs are preempted and `events.kills` has to grow.
    """
    clock = events.clock[0]
    while True:
        if clock.stage == OVER:
            if queue.rules[0].preempts and lacks_room(size, queue, events):
                return LACKS_ROOM
            now_s = next_instant_s(queue, events)
            if now_s == np.inf:
                return DONE
            if now_s > until_s:
                return REACHED
            clock.now_s = now_s
            begin_instant(now_s, queue, events)
            clock.stage = SUBMITS
        if clock.stage == SUBMITS:
            submit_all(size, queue, events)
            clock.stage = DECIDES
            if queue.rules[0].agent and clock.lacks_pass:
                clock.lacks_pass = 0
                return TO_DECIDE
        while clock.lacks_pass or clock.due > 0:
            if queue.rules[0].preempts and lacks_room(size, queue, events):
                return LACKS_ROOM
            bring_forward(clock.now_s, queue)
            if clock.lacks_pass:
                run_pass(clock.now_s, queue, events)
                if queue.rules[0].preempts:
                    preempt(queue, events)
            else:
                decide_due(queue, events)
        clock.stage = OVER


@entry(float, int, Given, Array(U4, read=True), Array(F8, read=True), Events, Marks, gives=(int, int, float))
@outlined
def violation(until_s, size, given, owner, start_s, events, scratch):
    """A violation of an invariant by a replay, as `violations.first_violation` returns it.

    `until_s`: the last instant handled; inf if the replay is over. `owner`: as in `violations.Ran`. `start_s`: float64
    (n_jobs,), the starts of the jobs' last tries. `events` are read only, `scratch` is changed.
    """
    clock, end_s = events.clock[0], scratch.end_s
    for row in range(len(start_s)):
        end_s[row] = start_s[row] + events.duration_s[row]
    for row in range(len(events.cancel_s)):
        if events.cancel_s[row] < end_s[row]:
            end_s[row] = events.cancel_s[row]
    scratch.marks[:], scratch.used[:] = 0, 0
    kills, started = events.kills[: clock.kills], events.starts.row[: clock.starts]
    ran = Ran(
        *(given.submit_s, given.procs, owner, start_s, end_s),
        *(started, events.ended[: clock.starts], events.over[: clock.over]),
        *(events.available.at_s, events.available.free),
        *(kills.row, kills.start_s, kills.end_s, events.cancel_s),
    )
    return first_violation(size, until_s, ran, scratch)


@entry(U1, Array(F8, 2), Array(LINE, 2), Array(F8, 2), Given, int, QueueArrays, Events, Marks, gives=int)
@kernel
def advance_each(moves, weights, lines, start_s, given, size, queue, events, scratch):
    """Replay the whole workload under each policy; returns whether every replay is sound.

    A replay that violates an invariant is the last, and is left as it is then. `moves`: uint8 (n_policies,), as
    RULES.moves. `weights`: float64 (n_policies, 6), of mixed policies. `lines`: records.LINE (n_policies, n_jobs), the
    keys; (0, n_jobs) if all are mixed policies. `start_s`: float64 (n_policies, n_jobs), receives the starts; nan for
    rejected jobs. `queue` (`rules[0].moves` is set for each policy), `events` and `scratch` are changed in place.
    """
    jobs = queue.jobs
    for i in range(len(moves)):
        reset(size, given, queue, events)
        for row in range(len(jobs)):
            if len(lines):
                jobs[row].key = lines[i, row].key
                jobs[row].rise = lines[i, row].rise
            else:
                set_mixed_key(weights[i], jobs[row])
        queue.rules[0].moves = moves[i]
        advance(np.inf, size, queue, events)
        for row in range(len(jobs)):
            start_s[i, row] = jobs[row].start_s
        wrong, _, _ = violation(np.inf, size, given, queue.users[:0], start_s[i], events, scratch)
        if wrong:
            return False
    return True
