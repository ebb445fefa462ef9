"""The compiled event loop of the replay: submissions and ends of jobs, and one pass after all events of an instant."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.compiled import kernel, seldom
from batfill.easy import (
    AWAY,
    BACKFILLS,
    MACHINE,
    STARTS,
    UNDECIDED,
    Rules,
    arrives,
    demote,
    easy_pass,
    finish,
    move_to,
    overdue,
)
from batfill.policies import UNLIMITED_S, mixed_key
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
        ("ends", "u4"),  # jobs running, or places of `ends` that count
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
    ends: NDArray[np.void]  # END (room,)  by end_s, the earliest last
    log: NDArray[np.void]  # easy.STARTED (room,)  every try in the order of their starts
    state: NDArray[np.void]  # STATE (1,)


NOTHING_YET = np.zeros(1, STATE)
NOTHING_RUNS = np.zeros(1, MACHINE)


class Given(NamedTuple):
    """What every replay of a workload begins with, by job; every column has shape (n_jobs,)."""

    estimate_s: NDArray[np.float64]  # p~, or the expected run time
    level: NDArray[np.int8]
    killable: NDArray[np.uint8]


@kernel
def reset(size, given, jobs, running, machine):
    """Go back to the empty machine of `size` processors; nobody waits."""
    for row in range(len(jobs)):
        jobs[row].estimate_s = given.estimate_s[row]
        jobs[row].level = given.level[row]
        jobs[row].killable = given.killable[row]
        jobs[row].section = AWAY
        machine.fates[row].start_s = np.nan
    for row in range(len(machine.tries)):
        machine.tries[row].divider_s = np.inf
        machine.tries[row].expected_s = given.estimate_s[row]
    machine.state[0] = NOTHING_YET[0]
    running.state[0] = NOTHING_RUNS[0]
    running.state[0].free = size


@kernel
def push(ends, n, end_s, row):
    """Add an end to n ends, which are sorted, the earliest last.

    Few jobs run at once, so that moving their ends is cheaper than a heap's branches, which cannot be foreseen.
    """
    i = n
    while i > 0 and ends[i - 1].end_s < end_s:
        ends[i] = ends[i - 1]
        i -= 1
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
            now_s = ends[state.ends - 1].end_s
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
                move_to(now_s, OVERDUE, waiting, running, jobs, rules, row)
            state.looked_at += 1

        while state.ends > 0 and ends[state.ends - 1].end_s == now_s:
            row = ends[state.ends - 1].row
            killed = jobs[row].killable and tries[row].divider_s < fates[row].duration_s
            if killed and not has_room(waiting):
                return NEEDS_ROOM
            state.ends -= 1
            finish(running, row, fates[row].start_s + jobs[row].estimate_s)
            if killed:
                record_kill(row, dividers, jobs, machine)
                late = overdue(now_s, jobs[row].submit_s, rules.threshold_s)
                move_to(now_s, OVERDUE if late else jobs[row].level, waiting, running, jobs, rules, row)

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


compiled_mixed_key = kernel(mixed_key)


@kernel
def mixed_key_of(weights, job):
    """The fixed part of a mixed policy's key of a job."""
    walltime_s = min(job.estimate_s, UNLIMITED_S)
    return compiled_mixed_key(
        weights[0], weights[1], weights[2], weights[3], weights[5], job.submit_s, walltime_s, job.procs
    )


@kernel
def advance_each(
    first, anew, kinds, weights, keys, start_s, given, dividers, size, jobs, rules, waiting, running, scratch, machine
):
    """Replay the whole workload under each policy from number `first` on; returns how many are done.

    Fewer than there are: `waiting` must be enlarged; the replay of the next is taken up where it was left if it is not
    to begin `anew`. Of `rules` all counts but the policy, which is kinds[i], weights[i], (n_policies, 6), of which the
    fifth is EXPANSION's, and keys[i], (n_policies, n_jobs); of mixed policies alone `keys` may be empty, (0, n_jobs).
    `start_s`, (n_policies, n_jobs), receives the starts.
    """
    for i in range(first, len(kinds)):
        if anew:
            reset(size, given, jobs, running, machine)
            for row in range(len(jobs)):
                jobs[row].key = keys[i, row] if len(keys) else mixed_key_of(weights[i], jobs[row])
        anew = True
        backfill = rules.backfill_same, rules.backfill_kind, rules.backfill_weight
        own = Rules(kinds[i], weights[i, 4], backfill[0], backfill[1], backfill[2], rules.threshold_s)
        if advance(np.inf, dividers, size, jobs, own, waiting, running, scratch, machine) == NEEDS_ROOM:
            return i
        for row in range(len(jobs)):
            start_s[i, row] = machine.fates[row].start_s
    return len(kinds)
