"""Copies of the engine's replay for environments: EASY as everywhere else, with decisions taken from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.kernels import Many
from batfill.engine.records import new_records
from batfill.model.rules import Rules
from batfill.queue import copy_of, repeated
from batfill.replays.engine_replay import EngineReplay
from batfill_lab.env import copies as stepping
from batfill_lab.env import seeing
from batfill_lab.env.threads import Started, Threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.model.jobs import Workload
    from batfill.model.policy import Policy

# What an agent decides; see `SchedulingEnv`.
ACTIONS = {
    "pick": stepping.PICK,
    "backfill": stepping.BACKFILL,
    "priorities": stepping.PRIORITIES,
    "mixed": stepping.MIXED_WEIGHTS,
    "aged": stepping.AGED_WEIGHTS,
}
WEIGHTS = {"mixed": 6, "aged": 3}


class EasyCopies:
    """Many episodes side by side. The arrays of `seen` are overwritten by each step."""

    def __init__(
        self,
        workload: Workload,
        *,
        copies: int,
        action: str,
        visible: int,
        base: Policy,
        jobs: int,
        warm: int,
        every: int,
        threads: int,
    ) -> None:
        """Set up the copies; begin an episode in each first.

        Args:
            workload: the log. Jobs wider than the machine are left out.
            copies: how many.
            action: one of ACTIONS.
            visible: the most jobs that an agent sees.
            base: the order in which it sees them, and of backfilling.
            jobs: the scored jobs of an episode.
            warm: the jobs before them.
            every: how many submissions the weights of "mixed" and "aged" hold.
            threads: how many step copies at once.

        Raises:
            BatfillError: the log has fewer jobs than an episode, or the base order moves.
        """
        assert workload.procs is not None, "`Episodes` has checked it"
        table, fits = workload.jobs, workload.jobs.procs <= workload.procs
        table = table if fits.all() else table.select(fits)
        if len(table) < warm + jobs:
            raise BatfillError(
                f"{workload.name}: {len(table)} jobs fit the machine, and an episode takes {warm + jobs}; "
                "give fewer jobs"
            )
        if base.moves:
            raise BatfillError(
                f"base: the order {base.name} changes while jobs wait; give one that is fixed, as fcfs or saf"
            )
        self.size, self.warm, self.length = workload.procs, warm, warm + jobs
        self.firsts = len(table) - self.length + 1
        log = EngineReplay(table, self.size, Rules(base))
        self.submit_s, self.runtime_s = table.submit_s, log.events.duration_s
        self.procs = table.procs
        self.ids = table.ids
        one = EngineReplay(table.select(slice(self.length)), self.size, Rules(base))
        sight = seeing.Sight(np.zeros(visible, np.uint32), np.zeros((self.length, 2), np.float32))
        setting = new_records(1, stepping.SETTING)
        setting["action"], setting["procs"], setting["warm"] = ACTIONS[action], self.size, warm
        setting["every"], setting["moves"] = every, base.motion
        setting["weighs"] = action in WEIGHTS
        self.copies = stepping.Copies(
            queue=Many(one.queue.repeated(copies)),
            events=Many(repeated(one.events, copies)),
            sight=Many(repeated(sight, copies)),
            state=new_records(copies, stepping.COPY).reshape(copies, 1),
            setting=setting,
            jobs=copy_of(log.queue.jobs),
            duration_s=log.events.duration_s,
        )
        self.seen = stepping.Seen(
            jobs=np.zeros((copies, visible, seeing.OF_JOB), np.float32),
            cluster=np.zeros((copies, seeing.OF_CLUSTER), np.float32),
            mask=np.zeros((copies, visible + (action == "backfill")), np.int8),
            done=np.zeros(copies, np.uint8),
        )
        self.threads = Threads(copies, self.length, threads)

    def step(
        self,
        actions: NDArray[np.int64],
        values: NDArray[np.float64],
        tasks: NDArray[np.uint8],
        firsts: NDArray[np.int64],
    ) -> Started:
        """Apply an action to each copy, or begin an episode, and go on to the next decisions.

        Args:
            actions: (copies,) places of visible jobs, for "pick" and "backfill".
            values: (copies, n) of the other actions.
            tasks: (copies,) stepping.ACTS, BEGINS where an episode begins instead, or RESTS where nothing happens.
            firsts: (copies,) the row in the log of its first job.

        Returns:
            The scored jobs that have started.
        """
        return self.threads.run(
            lambda low, high, fresh: stepping.step(
                self.copies, low, high, actions, values, tasks, firsts, self.seen, fresh
            )
        )

    def starts(self, copy: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.float64]:
        """When these jobs started, (n,)."""
        start_s: NDArray[np.float64] = self.copies.queue.all.jobs["start_s"][copy, row]
        return start_s

    def counts(self, copies: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The decisions of these copies' episodes so far, and those whose action named nothing that could be chosen."""
        state = self.copies.state[copies, 0]
        return state["decisions"], state["invalid"]

    def close(self) -> None:
        """End the threads."""
        self.threads.close()
