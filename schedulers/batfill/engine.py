"""The compiled event loop of the replay: submissions and ends of jobs, and one pass after all events of an instant."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.compiled import kernel, seldom
from batfill.easy import AWAY, BACKFILLS, STARTS, UNDECIDED, arrives, demote, easy_pass, finish, move_to, overdue
from batfill.waiting import OVERDUE, has_room

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Why `advance` came back.
DONE, REACHED, NEEDS_ROOM = range(3)


# What becomes of a job, and what no scheduler may read of it.
FATE = np.dtype(
    [
        ("duration_s", "f8"),  # min(p, p~): how long it runs if it is not killed at a divider
        ("start_s", "f8"),  # of the last try; nan before the first, and after a kill before the next
    ]
)
# Of a job that is or was small.
TRY = np.dtype(
    [
        ("divider_s", "f8"),  # the divider of its level when its last killable try started
        ("expected_s", "f8"),  # its expected run time where nobody kills it
    ]
)
KILL = np.dtype([("row", "u4"), ("level", "u4"), ("start_s", "f8"), ("ran_s", "f8")])  # a try killed at a divider
END = np.dtype([("end_s", "f8"), ("row", "u4"), ("unused", "u4")])  # 16 bytes: one move
STATE = np.dtype(
    [
        ("now_s", "f8"),  # the last instant handled
        ("submitted", "u4"),  # how many jobs have been, in row order
        ("looked_at", "u4"),  # how many of them have been looked at for being overdue
        ("ends", "u4"),  # jobs running, or places of the heap that count
        ("starts", "u4"),  # tries, or places of the log that count
        ("rejected", "i8"),  # jobs wider than the machine
        ("kills", "i8"),  # tries killed at a divider, or places of their log that count
        ("passes", "i8"),
    ]
)


class Machine(NamedTuple):
    """The true state of the machine and of every job."""

    fates: NDArray[np.void]  # FATE (n_jobs,)
    tries: NDArray[np.void]  # TRY (n_jobs,), or (0,) where no job is small
    kills: NDArray[np.void]  # KILL (room,)  every kill in the order of time
    ends: NDArray[np.void]  # END (room,)  heap by end_s
    log: NDArray[np.void]  # easy.STARTED (room,)  every try in the order of their starts
    state: NDArray[np.void]  # STATE (1,)


@kernel
def push(ends, n, end_s, row):
    """Add an end to the heap of n ends."""
    i = n
    while i > 0:
        parent = (i - 1) >> 1
        if ends[parent].end_s <= end_s:
            break
        ends[i] = ends[parent]
        i = parent
    ends[i].end_s = end_s
    ends[i].row = row


@kernel
def pop(ends, n):
    """Take the earliest end off the heap of n ends."""
    n -= 1
    end_s = ends[n].end_s
    row = ends[n].row
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and ends[child + 1].end_s < ends[child].end_s:
            child += 1
        if ends[child].end_s >= end_s:
            break
        ends[i] = ends[child]
        i = child
    ends[i].end_s = end_s
    ends[i].row = row


@kernel
def record_start(now_s, dividers, row, backfilled, jobs, machine):
    """Write down that a job, last in the log, starts, and when it will end."""
    state = machine.state[0]
    machine.fates[row].start_s = now_s
    machine.log[state.starts].backfilled = backfilled
    end_s = now_s + machine.fates[row].duration_s
    if jobs[row].killable:
        divider_s = dividers[jobs[row].level - 1].divider_s
        machine.tries[row].divider_s = divider_s
        end_s = min(end_s, now_s + divider_s)
    push(machine.ends, state.ends, end_s, row)
    state.ends += 1
    state.starts += 1


@seldom
def record_kill(row, dividers, jobs, machine):
    """Write down that a job's try is killed at its divider, and let it go on in another level or as a large one."""
    state, kill = machine.state[0], machine.kills[machine.state[0].kills]
    kill.row = row
    kill.level = jobs[row].level
    kill.start_s = machine.fates[row].start_s
    kill.ran_s = machine.tries[row].divider_s
    state.kills += 1
    machine.fates[row].start_s = np.nan
    demote(jobs, row, dividers, kill.ran_s, machine.tries[row].expected_s)


@kernel
def advance(until_s, dividers, size, jobs, rules, waiting, running, scratch, machine):
    """Handle every instant up to `until_s`, itself included; `dividers` are the levels', easy.DIVIDER (levels,).

    Returns DONE, REACHED (the next instant is later than until_s) or NEEDS_ROOM (enlarge `waiting` and call again: the
    instant is taken up where it was left).
    """
    fates, tries, ends, state = machine.fates, machine.tries, machine.ends, machine.state[0]
    n_jobs = len(jobs)
    while True:
        now_s = np.inf
        if state.ends > 0:
            now_s = ends[0].end_s
        if state.submitted < n_jobs:
            now_s = min(now_s, jobs[state.submitted].submit_s)
        if now_s == np.inf:
            return DONE
        if now_s > until_s:
            return REACHED
        state.now_s = now_s

        while state.looked_at < state.submitted:
            row = state.looked_at
            if not overdue(now_s, jobs[row].submit_s, rules.threshold_s):
                break
            if jobs[row].section != AWAY:
                if not has_room(waiting):
                    return NEEDS_ROOM
                move_to(OVERDUE, waiting, running, jobs, rules, row)
            state.looked_at += 1

        while state.ends > 0 and ends[0].end_s == now_s:
            row = ends[0].row
            killed = jobs[row].killable and tries[row].divider_s < fates[row].duration_s
            if killed and not has_room(waiting):
                return NEEDS_ROOM
            pop(ends, state.ends)
            state.ends -= 1
            finish(running, row, fates[row].start_s + jobs[row].estimate_s)
            if killed:
                record_kill(row, dividers, jobs, machine)
                late = overdue(now_s, jobs[row].submit_s, rules.threshold_s)
                move_to(OVERDUE if late else jobs[row].level, waiting, running, jobs, rules, row)

        decided = False
        while state.submitted < n_jobs and jobs[state.submitted].submit_s == now_s:
            row = state.submitted
            if jobs[row].procs > size:
                state.rejected += 1
            else:
                if not has_room(waiting):
                    return NEEDS_ROOM
                alone = row + 1 == n_jobs or jobs[row + 1].submit_s > now_s
                what = arrives(now_s, waiting, running, jobs, rules, row, alone)
                decided = what != UNDECIDED
                if what in (STARTS, BACKFILLS):
                    machine.log[state.starts].row = row
                    record_start(now_s, dividers, row, what == BACKFILLS, jobs, machine)
            state.submitted += 1
        if decided:
            continue

        state.passes += 1
        started = machine.log[state.starts :]
        n, ahead = easy_pass(now_s, waiting, running, jobs, rules, scratch, started)
        for i in range(n):
            record_start(now_s, dividers, started[i].row, i >= ahead, jobs, machine)
