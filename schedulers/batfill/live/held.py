"""The machines by the jobs that hold them, and the pass in which the queue's head reserves machines, not processors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.base.kernels import I8, U1, entry, kernel, record
from batfill.engine.candidates import sift, swap
from batfill.engine.easy import EVERY, FIRST, begin_decision, gather_candidates
from batfill.engine.ends import released
from batfill.engine.records import NEVER_S, Decided, QueueArrays
from batfill.engine.running import may_backfill
from batfill.engine.waiting import start_heads, start_waiting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from batfill.batsim_files.machines import Intervals
    from batfill.queue import Queue

IDLE, AWAY = np.int64(-1), np.int64(-2)  # what holds a machine that no job does; AWAY also where one still runs


@record(I8, U1, I8, I8, I8)
class Held(NamedTuple):
    """What holds each machine, and the machines that the last pass gave to the jobs it started, as intervals of ids."""

    by: NDArray[np.int64]  # (ids,)  the row of a job, IDLE or AWAY
    reserved: NDArray[np.uint8]  # (ids,)  1 if the head of this pass reserves it
    offset: NDArray[np.int64]  # (machines + 1,)  offset[i]:offset[i + 1] are the intervals of its i-th job
    first: NDArray[np.int64]  # (machines,)
    last: NDArray[np.int64]  # (machines,)


class HeldMachines:
    """The machines of a cluster whose passes reserve machines; used as `IdleMachines`."""

    def __init__(self, ids: list[int]) -> None:
        by = np.full(max(ids, default=-1) + 1, AWAY)
        by[ids] = IDLE
        offset, first, last = (np.zeros(len(ids) + more, np.int64) for more in (1, 0, 0))
        self.held = Held(by, np.zeros(len(by), np.uint8), offset, first, last)

    def __len__(self) -> int:
        return int(np.count_nonzero(self.held.by == IDLE))

    def give(self, intervals: Intervals) -> None:
        for first, last in intervals:
            self.held.by[first : last + 1] = IDLE

    def withdraw(self, machine: int) -> bool:
        was_idle = bool(self.held.by[machine] == IDLE)
        self.held.by[machine] = AWAY
        return was_idle

    def hold(self, machine: int, row: int) -> None:
        """Use this machine again, on which a job still runs."""
        self.held.by[machine] = row

    def decide(self, queue: Queue, now_s: float) -> Iterable[tuple[int, Intervals]]:
        rows = queue.decide_with(decide, now_s, self.held).tolist()
        if not rows:
            return ()
        _, _, offset, first, last = self.held
        bounds = offset[: len(rows) + 1].tolist()
        intervals = list(zip(first[: bounds[-1]].tolist(), last[: bounds[-1]].tolist(), strict=True))
        return [(row, intervals[bounds[i] : bounds[i + 1]]) for i, row in enumerate(rows)]


@entry(float, QueueArrays, Decided, Held, gives=int, brief=True)
@kernel
def decide(now_s, queue, decided, held):
    """As `easy.decide`, where the head reserves machines and other jobs are backfilled beside these.

    A job that is expected to end by the shadow time may use any idle machine, another none of the reserved ones. Each
    gets those with the lowest ids, which are written to `held`.
    """
    begin_decision(now_s, queue)
    state, started = queue.state[0], decided.tries
    n = start_heads(now_s, queue, started)
    for i in range(n):
        take(queue, held, i, started[i].row, False)
    if state.waiting == 0 or state.free == 0:
        return n
    reserve(now_s, queue, held)
    candidates = queue.candidates
    if queue.rules[0].moves and queue.rules[0].backfill_same:
        while state.free > 0 and gather_candidates(now_s, queue, FIRST)[0] > 0:
            n = backfill(now_s, queue, started, held, candidates[0].row, n)
        return n
    size = gather_candidates(now_s, queue, EVERY)[0]
    for i in range(size // 2 - 1, -1, -1):
        sift(candidates, queue.jobs, i, size)
    while size > 0 and state.free > 0:
        row = candidates[0].row
        size -= 1
        swap(candidates, np.int64(0), size)
        sift(candidates, queue.jobs, np.int64(0), size)
        job = queue.jobs[row]
        if may_backfill(now_s, job.procs, job.expected_s, state.free, state.shadow_s, state.extra):
            n = backfill(now_s, queue, started, held, row, n)
    return n


@kernel
def reserve(now_s, queue, held):
    """Reserve machines for the head, which does not fit: those with the lowest ids of all that are free at its shadow.

    `state.extra` is then how many idle ones are not reserved. If it can never start (machines are unavailable), it
    holds back no job with a walltime, and all others.
    """
    state, jobs = queue.state[0], queue.jobs
    need = np.int64(jobs[state.head].procs)
    end_s, free = released(queue.running, need, 0)
    if end_s >= now_s:  # else the head waits for jobs that should have ended, and for no idle machine
        end_s, free = released(queue.running, need, state.free)
        end_s = max(end_s, now_s)
    state.shadow_s, state.extra = min(end_s, NEVER_S), 0
    never = free < need
    for machine in range(len(held.by)):
        by = held.by[machine]
        free_s = np.inf
        if by == IDLE:
            free_s = now_s
        elif by != AWAY:
            free_s = min(jobs[by].start_s + jobs[by].expected_s, NEVER_S)
        held.reserved[machine] = never or (need > 0 and free_s <= state.shadow_s)
        if held.reserved[machine]:
            need -= 1
        elif by == IDLE:
            state.extra += 1


@kernel
def backfill(now_s, queue, started, held, row, n):
    """Start a job beside the reserved machines as the n-th of the pass, from 0; returns how many have started."""
    state = queue.state[0]
    lasts = now_s + queue.jobs[row].expected_s > state.shadow_s
    start_waiting(now_s, queue, row)
    started[n].row = row
    state.extra -= take(queue, held, n, row, lasts)
    return n + 1


@kernel
def take(queue, held, i, row, lasts):
    """Give the i-th job of a pass its machines, none that is reserved if it `lasts`; returns how many were not."""
    machine, end, left, others = np.int64(0), held.offset[i], queue.jobs[row].procs, np.int64(0)
    while left > 0:
        if held.by[machine] == IDLE and not (lasts and held.reserved[machine]):
            held.by[machine] = row
            if end == held.offset[i] or held.last[end - 1] < machine - 1:
                held.first[end] = machine
                end += 1
            held.last[end - 1] = machine
            others += 1 - held.reserved[machine]
            left -= 1
        machine += 1
    held.offset[i + 1] = end
    return others
