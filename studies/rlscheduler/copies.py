"""Copies of RLScheduler's simulator for environments, with the interface of `easy.EasyCopies`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.base.kernels import I8, U1, Array, entry, kernel, record
from batfill_lab.env import copies as stepping
from batfill_lab.env import seeing
from batfill_lab.env.threads import Started, Threads
from studies.rlscheduler.features import see_gym
from studies.rlscheduler.schedgym import (
    GymLog,
    Jobs,
    Machine,
    State,
    begin,
    check_sequence,
    new_state,
    pick,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

COUNTS = np.dtype(
    [
        ("reported", "i8"),  # tries in `Fresh` so far
        ("seen", "i8"),  # the jobs in the last observation
        ("decisions", "i8"),
        ("invalid", "i8"),  # actions that named no job that could be picked
    ]
)

BEGINS, RESTS = stepping.BEGINS, stepping.RESTS


@record(Jobs, Machine, State, COUNTS, stepping.Seen)
class Game(NamedTuple):
    """All that a step reads and changes."""

    jobs: Jobs
    machine: Machine
    state: State
    counts: NDArray[np.void]  # COUNTS (copies,)
    seen: stepping.Seen


class GymCopies:
    """Many sequences side by side, in which an agent picks. The arrays of `seen` are overwritten by each step."""

    def __init__(self, log: GymLog, *, copies: int, visible: int, jobs: int, backfill: bool, threads: int) -> None:
        """Set up the copies; begin an episode in each first.

        Args:
            log: the jobs and the machine.
            copies: how many.
            visible: the most jobs that an agent sees, by submission.
            jobs: the jobs of an episode.
            backfill: whether jobs are backfilled while the picked one waits.
            threads: how many step copies at once.

        Raises:
            WorkloadError: the log has fewer jobs than an episode, or a job that cannot run on the machine.
        """
        for first in range(0, max(len(log.number) - jobs, 0) + 1, jobs):
            check_sequence(log, first, jobs)
        check_sequence(log, max(len(log.number) - jobs, 0), jobs)
        self.size = round(log.machine.nodes * log.machine.procs_per_node)
        self.length, self.backfill = jobs, backfill
        self.firsts = len(log.number) - jobs + 1
        self.submit_s, self.runtime_s = (
            column.astype(np.float64) for column in (log.jobs.submit_s, log.jobs.runtime_s)
        )
        self.procs = log.jobs.procs
        self.seen = stepping.Seen(
            jobs=np.zeros((copies, visible, seeing.OF_JOB), np.float32),
            cluster=np.zeros((copies, seeing.OF_CLUSTER), np.float32),
            mask=np.zeros((copies, visible), np.int8),
            done=np.zeros(copies, np.uint8),
        )
        self.game = Game(log.jobs, log.machine, new_state(copies, jobs), np.zeros(copies, COUNTS), self.seen)
        self.threads = Threads(copies, jobs, threads)

    def step(
        self,
        actions: NDArray[np.int64],
        values: NDArray[np.float64],
        tasks: NDArray[np.uint8],
        firsts: NDArray[np.int64],
    ) -> Started:
        """As `EasyCopies.step`; `values` are not used."""
        return self.threads.run(
            lambda low, high, fresh: step_gym(self.game, low, high, actions, tasks, firsts, self.backfill, fresh)
        )

    def starts(self, copy: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.float64]:
        """When these jobs started, (n,)."""
        return self.game.state.start_s[copy, row].astype(np.float64)

    def counts(self, copies: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The decisions of these copies' episodes so far, and those whose action named nothing that could be picked."""
        counts = self.game.counts[copies]
        return counts["decisions"], counts["invalid"]

    def close(self) -> None:
        """End the threads."""
        self.threads.close()


@kernel
def observe(game, i):  # type: ignore[no-untyped-def]
    """Write what copy i's agent sees: the waiting jobs, or nothing if there are none."""
    at, count, seen = game.state.at[i], game.counts[i], game.seen
    shown = min(at["waiting"], seen.mask.shape[1])
    for place in range(shown, count["seen"]):
        seen.mask[i, place] = 0
        seen.jobs[i, place, :] = 0
    seen.mask[i, :shown] = 1
    seen.done[i] = shown == 0
    count["seen"] = shown
    if shown > 0:
        see_gym(game.jobs, game.machine, game.state, i, shown, seen.jobs[i], seen.cluster[i])
        count["decisions"] += 1
    else:
        seen.cluster[i, :] = 0
        seen.mask[i, 0] = 1


@entry(Game, int, int, Array(I8, read=True), Array(U1, read=True), Array(I8, read=True), int, stepping.Fresh)
@kernel
def step_gym(game, low, high, actions, tasks, firsts, backfill, fresh):  # type: ignore[no-untyped-def]
    """As `batfill_lab.env.copies.step`, for picks in RLScheduler's simulator. A job that waits alone is picked here."""
    n = 0
    for i in range(low, high):
        if tasks[i] == RESTS:
            continue
        at, count = game.state.at[i], game.counts[i]
        if tasks[i] == BEGINS:
            begin(game.jobs, game.machine, game.state, i, firsts[i])
            count["reported"] = count["decisions"] = count["invalid"] = 0
        else:
            place = actions[i]
            if not 0 <= place < count["seen"]:
                count["invalid"] += 1
                place = 0
            pick(game.jobs, game.machine, game.state, i, place, backfill)
        while at["waiting"] == 1:
            pick(game.jobs, game.machine, game.state, i, 0, backfill)
        observe(game, i)
        for place in range(count["reported"], at["started"]):
            row = game.state.order[i, place]
            in_log = firsts[i] + row
            fresh.copy[n] = i
            fresh.wait_s[n] = game.state.start_s[i, row] - game.jobs.submit_s[in_log]
            fresh.runtime_s[n] = game.jobs.runtime_s[in_log]
            fresh.procs[n] = game.jobs.procs[in_log]
            n += 1
        count["reported"] = at["started"]
    fresh.used[0] = n
