"""The compiled replay: one workload under one policy, with no messages and no object per job.

>>> from batfill.policies import policy_named
>>> from batfill.workloads import read_workload
>>> workload = read_workload("workloads/sample.json")
>>> replay(workload.jobs, workload.procs, policy_named("saf")).summary().jobs
800
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from batfill.easy import AWAY, JOB, STARTED, Rules, running_room, scratch_room
from batfill.engine import DONE, END, FATE, FIRST_TRY, NEEDS_ROOM, STATE, Machine, advance
from batfill.jobs import SMALL, JobTable
from batfill.metrics import TAU_S, Summary, summarize
from batfill.waiting import enlarged, waiting_room

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.policies import Policy


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """When and how every job of a workload ran; columns of shape (n_jobs,) in the job table's order."""

    jobs: JobTable
    size: int  # m
    start_s: NDArray[np.float64]  # of the final try; nan for a rejected job
    backfilled: NDArray[np.bool_]  # whether that try was started by backfilling
    first_try_s: NDArray[np.float64]  # start of a try killed at the divider; nan where there was none
    divider_s: NDArray[np.float64]  # how long that try ran
    order: NDArray[np.int64]  # (n_tries,)  rows in the order of their starts

    @property
    def rejected(self) -> NDArray[np.bool_]:
        """The jobs wider than the machine."""
        return self.jobs.procs > self.size

    @property
    def runtime_s(self) -> NDArray[np.float64]:
        """The time the final try ran: min(p, p~)."""
        return np.minimum(self.jobs.runtime_s, self.jobs.walltime_s)

    @property
    def end_s(self) -> NDArray[np.float64]:
        """End of the final try; nan for a rejected job."""
        return self.start_s + self.runtime_s

    @property
    def killed(self) -> NDArray[np.bool_]:
        """The jobs ended at their walltime, as Batsim sees it: p >= p~, unless the log's own end is kept."""
        cut = self.jobs.runtime_s > self.jobs.walltime_s
        if not self.jobs.own_end:
            cut |= self.jobs.runtime_s == self.jobs.walltime_s
        return cut & ~self.rejected

    @property
    def requeued(self) -> NDArray[np.bool_]:
        """The jobs whose first try was killed at the divider."""
        return ~np.isnan(self.first_try_s)

    def summary(self, tau_s: float = TAU_S) -> Summary:
        """The figures of the run."""
        ran = ~self.rejected
        again = self.requeued
        return summarize(
            size=self.size,
            submit_s=self.jobs.submit_s[ran],
            start_s=self.start_s[ran],
            runtime_s=self.runtime_s[ran],
            procs=self.jobs.procs[ran],
            tau_s=tau_s,
            rejected=int(self.rejected.sum()),
            killed=int(self.killed.sum()),
            backfilled=int(self.backfilled.sum()),
            requeued=int(again.sum()),
            wasted_proc_s=float((self.divider_s[again] * self.jobs.procs[again]).sum()),
        )


class Replay:
    """A replay that can be stopped at any instant."""

    def __init__(
        self,
        jobs: JobTable,
        size: int,
        policy: Policy,
        *,
        backfill: Policy | None = None,
        threshold_s: float = np.inf,
        divider_s: float = np.inf,
    ) -> None:
        """Prepare a replay from an empty machine.

        Args:
            jobs: the workload. Its jobs of class SMALL go before the others.
            size: the machine's processors; wider jobs are rejected at submission.
            policy: the queue's order.
            backfill: the order in which jobs are tried for backfilling; None for the queue's own.
            threshold_s: Theta: jobs that have waited longer come first, oldest first.
            divider_s: a small job still running after this time is killed and requeued as large; inf for never.
        """
        n_jobs = len(jobs)
        other = policy if backfill is None else backfill
        self.table = jobs
        self.size = size
        self.divider_s = divider_s
        self.jobs = np.zeros(n_jobs, JOB)
        self.jobs["submit_s"] = jobs.submit_s
        self.jobs["estimate_s"] = jobs.walltime_s
        self.jobs["procs"] = jobs.procs
        self.jobs["key"] = policy.fixed_key(jobs.submit_s, jobs.walltime_s, jobs.procs)
        self.jobs["backfill_key"] = other.fixed_key(jobs.submit_s, jobs.walltime_s, jobs.procs)
        self.jobs["seq"] = np.arange(n_jobs)
        self.jobs["small"] = jobs.job_class == SMALL
        self.jobs["section"] = AWAY
        self.rules = Rules(policy.kind, policy.weight, backfill is None, other.kind, other.weight, threshold_s)

        fates = np.zeros(n_jobs, FATE)
        fates["duration_s"] = np.minimum(jobs.runtime_s, jobs.walltime_s)
        fates["start_s"] = np.nan
        n_small = int(self.jobs["small"].sum())
        first_tries = np.full(n_jobs if n_small else 0, np.nan, FIRST_TRY)
        tries = n_jobs if divider_s == np.inf else n_jobs + n_small
        at_once = min(n_jobs, size)
        self.machine = Machine(fates, first_tries, np.zeros(at_once, END), np.zeros(tries, STARTED), np.zeros(1, STATE))
        self.running = running_room(at_once, size)
        self.waiting = waiting_room(size)
        self.scratch = scratch_room(n_jobs)

    def advance(self, until_s: float = np.inf) -> bool:
        """Handle every instant up to `until_s`, itself included; returns whether the workload is done."""
        while True:
            why = advance(
                until_s,
                self.divider_s,
                self.size,
                self.jobs,
                self.rules,
                self.waiting,
                self.running,
                self.scratch,
                self.machine,
            )
            if why != NEEDS_ROOM:
                return bool(why == DONE)
            self.waiting = enlarged(self.waiting)

    def schedule(self) -> Schedule:
        """What has happened so far."""
        fates, state = self.machine.fates, self.machine.state[0]
        tries = self.machine.first_tries
        if len(tries) == 0:
            tries = np.full(len(self.table), np.nan, FIRST_TRY)
        log = self.machine.log[: state["starts"]]
        backfilled = np.zeros(len(self.table), bool)
        backfilled[log["row"]] = log["backfilled"]  # of a job started twice the last one counts
        return Schedule(
            jobs=self.table,
            size=self.size,
            start_s=fates["start_s"].copy(),
            backfilled=backfilled,
            first_try_s=tries["start_s"].copy(),
            divider_s=tries["divider_s"].copy(),
            order=log["row"].astype(np.int64),
        )


def replay(
    jobs: JobTable,
    size: int,
    policy: Policy,
    *,
    backfill: Policy | None = None,
    threshold_s: float = np.inf,
    divider_s: float = np.inf,
) -> Schedule:
    """Replay the whole workload; the arguments are those of `Replay`."""
    run = Replay(jobs, size, policy, backfill=backfill, threshold_s=threshold_s, divider_s=divider_s)
    run.advance()
    return run.schedule()
