"""The compiled replay: one workload under one policy, with no messages and no object per job.

>>> from pathlib import Path
>>> from batfill.policies import policy_named
>>> from batfill.workloads import read_workload
>>> workload = read_workload(Path("workloads/sample.json"))
>>> replay(workload.jobs, workload.procs, policy_named("saf")).summary().jobs
800
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from batfill.easy import (
    AWAY,
    JOB,
    STARTED,
    Rules,
    Running,
    dividers_of,
    enqueue_rows,
    place_in_level,
    running_room,
    scratch_room,
)
from batfill.engine import (
    DONE,
    END,
    FATE,
    KILL,
    NEEDS_ROOM,
    STATE,
    TRY,
    Given,
    Machine,
    advance,
    advance_each,
    reset,
)
from batfill.errors import BatfillError
from batfill.jobs import SMALL, JobTable
from batfill.metrics import TAU_S, Summary, bounded_slowdown, summarize
from batfill.waiting import Waiting, clear, enlarged, waiting_room

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from batfill.policies import Policy

Arrays = TypeVar("Arrays", Waiting, Running, Machine)
Measure = Callable[[NDArray[np.float64]], NDArray[np.float64]]

BLOCK = 1 << 15  # `replay_many` replays so many jobs at once: their keys and starts stay in the processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """When and how every job of a workload ran; columns of shape (n_jobs,) in the job table's order."""

    jobs: JobTable
    size: int  # m
    start_s: NDArray[np.float64]  # of the final try; nan for a rejected job, or where that has not begun
    backfilled: NDArray[np.bool_]  # whether that try was started by backfilling
    kills: NDArray[np.void]  # engine.KILL (n_kills,)  every try killed at a divider, in the order of time
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
        """The jobs of which a try was killed at a divider."""
        again = np.zeros(len(self.jobs), bool)
        again[self.kills["row"]] = True
        return again

    def summary(self, tau_s: float = TAU_S) -> Summary:
        """The figures of the run."""
        ran = ~self.rejected
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
            requeued=len(self.kills),
            wasted_proc_s=float((self.kills["ran_s"] * self.jobs.procs[self.kills["row"]]).sum()),
        )


class Replay:
    """A replay that stops wherever it is told to, and can be inspected, changed, copied and saved there.

    The whole state is in the arrays `jobs` (what a scheduler knows of each job), `waiting`, `running` and `machine`
    (clock, counters, true ends, what has happened), and in `rules` and `dividers`.
    """

    def __init__(
        self,
        jobs: JobTable,
        size: int,
        policy: Policy,
        *,
        backfill: Policy | None = None,
        threshold_s: float = np.inf,
        divider_s: float | Sequence[float] = np.inf,
        estimate_s: NDArray[np.float64] | None = None,
        learns: bool = False,
    ) -> None:
        """Prepare a replay from an empty machine.

        Args:
            jobs: the workload. Its jobs of class SMALL go before the others.
            size: the machine's processors; wider jobs are rejected at submission.
            policy: the queue's order.
            backfill: the order in which jobs are tried for backfilling; None for the queue's own.
            threshold_s: Theta: jobs that have waited longer come first, oldest first.
            divider_s: a small job still running after this time is killed and requeued as large; inf for never. Of
                several, in ascending order, each is that of a level: jobs of class SMALL begin at the first, and go on
                at the next before they are large.
            estimate_s: what the scheduler expects each job to run, shape (n_jobs,); by default its walltime.
            learns: whether `classify` will be told jobs' classes while it runs, instead of the workload's.

        Raises:
            BatfillError: the job table is not in order or holds an impossible value (see `JobTable.check`), a policy
                gives a key that nothing sorts by, or another argument is not what it must be.
        """
        jobs.check()
        if size < 1:
            raise BatfillError(f"size: a machine of {size} processors; give 1 or more")
        n_jobs = len(jobs)
        expected_s = np.asarray(jobs.walltime_s if estimate_s is None else estimate_s, np.float64)
        if expected_s.shape != (n_jobs,) or not (expected_s >= 0).all():
            raise BatfillError(f"estimate_s: not {n_jobs} numbers of seconds >= 0, one per job; mend it")
        limits_s = np.atleast_1d(np.asarray(divider_s, np.float64))
        if not len(limits_s) or not (limits_s > 0).all() or not (limits_s[1:] >= limits_s[:-1]).all():
            raise BatfillError(f"divider_s: {divider_s!r} is not a number of seconds > 0, or several, ascending")
        self.table = jobs
        self.size = size
        self.dividers = dividers_of(divider_s)
        self.learns = learns
        at_once = min(n_jobs, size)
        self.jobs = np.zeros(n_jobs, JOB)
        self.jobs["submit_s"] = jobs.submit_s
        self.jobs["procs"] = jobs.procs
        self.jobs["seq"] = np.arange(n_jobs)
        fates = np.zeros(n_jobs, FATE)
        fates["duration_s"] = np.minimum(jobs.runtime_s, jobs.walltime_s)
        n_small = n_jobs if learns else int((jobs.job_class == SMALL).sum())
        most_kills = n_small * len(self.dividers)
        self.machine = Machine(
            fates=fates,
            tries=np.zeros(n_jobs if n_small else 0, TRY),
            kills=np.zeros(most_kills, KILL),
            ends=np.zeros(at_once, END),
            log=np.zeros(n_jobs + most_kills, STARTED),
            state=np.zeros(1, STATE),
        )
        self.running = running_room(at_once, size)
        self.waiting = waiting_room(size, len(self.dividers))
        self.scratch = scratch_room(n_jobs)
        small = (jobs.job_class == SMALL) & (not learns)
        self.given = Given(
            estimate_s=expected_s,
            level=np.where(small, 1, self.large).astype(np.int8),
            killable=(small if jobs.killable is None else small & jobs.killable).astype(np.uint8),
        )
        self.restart(policy, backfill=backfill, threshold_s=threshold_s)

    def restart(self, policy: Policy, *, backfill: Policy | None = None, threshold_s: float = np.inf) -> None:
        """Go back to the empty machine, under these rules, with no memory allocated anew."""
        reset(self.size, self.given, self.jobs, self.running, self.machine)
        if self.waiting.sections["jobs"].any():  # a replay that has come to its end leaves nobody waiting
            clear(self.waiting)
        self.adopt(policy, backfill, threshold_s)

    def adopt(self, policy: Policy, backfill: Policy | None, threshold_s: float) -> None:
        """Take these rules and compute the jobs' keys by them."""
        if not threshold_s >= 0:
            raise BatfillError(f"threshold_s: {threshold_s!r} is not a number of seconds >= 0; inf is for none")
        other = policy if backfill is None else backfill
        policy.check()
        other.check()
        self.policy, self.backfill = policy, backfill
        self.rules = Rules(policy.kind, policy.weight, backfill is None, other.kind, other.weight, threshold_s)
        known = self.table.submit_s, self.jobs["estimate_s"], self.table.procs
        self.jobs["key"] = policy.fixed_key(*known)
        self.jobs["backfill_key"] = self.jobs["key"] if backfill is None else backfill.fixed_key(*known)

    # Going on

    @property
    def now_s(self) -> float:
        """The last instant handled; 0 before the first."""
        return float(self.machine.state["now_s"][0])

    @property
    def next_s(self) -> float:
        """The next instant at which something happens; inf where nothing will."""
        state = self.machine.state[0]
        end_s = self.machine.ends["end_s"][state["ends"] - 1] if state["ends"] else np.inf
        submitted = int(state["submitted"])
        return float(min(end_s, self.jobs["submit_s"][submitted] if submitted < len(self.jobs) else np.inf))

    @property
    def machinery(self) -> tuple[Any, ...]:
        """What every call of the compiled loop is given: the rules and the whole state."""
        state = self.jobs, self.rules, self.waiting, self.running, self.scratch, self.machine
        return (self.dividers, self.size, *state)

    def advance(self, until_s: float = np.inf) -> bool:
        """Handle every instant up to `until_s`, itself included; returns whether the workload is done."""
        while True:
            why = advance(until_s, *self.machinery)
            if why != NEEDS_ROOM:
                return bool(why == DONE)
            self.waiting = enlarged(self.waiting)

    def starts_under(
        self, policies: Sequence[Policy], *, backfill: Policy | None = None, threshold_s: float = np.inf
    ) -> NDArray[np.float64]:
        """When each job starts under each policy, the whole workload replayed: shape (n_policies, n_jobs).

        nan for a rejected job. The replay is left at its end under the last policy.
        """
        for policy in policies:
            policy.check()
        self.restart(policies[-1], backfill=backfill, threshold_s=threshold_s)
        known = self.table.submit_s, self.given.estimate_s, self.table.procs
        keys = np.empty((0, len(self.table)))
        if any(policy.weights is None for policy in policies):
            keys = np.array([policy.fixed_key(*known) for policy in policies])
        kinds = np.array([policy.kind for policy in policies])
        weights = np.array([policy.weights or (0, 0, 0, 0, policy.weight, 0) for policy in policies], np.float64)
        start_s = np.empty((len(policies), len(self.table)))
        done, anew = 0, True
        while True:
            done = advance_each(done, anew, kinds, weights, keys, start_s, self.given, *self.machinery)
            if done == len(policies):
                return start_s
            anew = False
            self.waiting = enlarged(self.waiting)

    def step(self) -> bool:
        """Handle the next instant alone, with its one decision; returns whether the workload is done."""
        return self.advance(self.next_s)

    # Changing course

    def change_rules(self, policy: Policy, *, backfill: Policy | None = None, threshold_s: float = np.inf) -> None:
        """Order and backfill by these rules from the next decision on."""
        self.adopt(policy, backfill, threshold_s)
        self.order_anew()

    def change_estimates(self, estimate_s: NDArray[np.float64]) -> None:
        """Expect these run times, shape (n_jobs,), from the next decision on, of the running jobs too."""
        self.jobs["estimate_s"] = estimate_s
        if len(self.machine.tries):
            self.machine.tries["expected_s"] = estimate_s
        running = self.running.jobs[: self.running.state["jobs"][0]]
        running["end_s"] = self.machine.fates["start_s"][running["row"]] + estimate_s[running["row"]]
        running[:] = running[np.argsort(running["end_s"], kind="stable")]
        self.adopt(self.policy, self.backfill, self.rules.threshold_s)
        self.order_anew()

    def classify(self, row: int, level: int, *, killable: bool, expected_s: float) -> None:
        """Let a job that has not been submitted yet be small, of this level, and expected to run so long; see `large`.

        `killable` says whether it is killed at the level's divider.
        """
        self.machine.tries["expected_s"][row] = expected_s
        place_in_level(self.jobs, row, self.dividers, level, int(killable), expected_s)

    def change_dividers(self, divider_s: Sequence[float], *, bound: bool) -> None:
        """Kill the small jobs that start from now on at these dividers, as many as there were.

        With `bound` those that wait are expected to end there at the latest, as they are killed then; so are those that
        are classified from now on.
        """
        self.dividers = dividers_of(divider_s, bound=bound)
        rows = self.waiting_rows
        rows = rows[self.jobs["killable"][rows] != 0]
        if bound and len(rows):
            bound_s = self.dividers["bound_s"][self.jobs["level"][rows] - 1]
            self.jobs["estimate_s"][rows] = np.minimum(self.machine.tries["expected_s"][rows], bound_s)
            self.order_anew()

    def order_anew(self) -> None:
        """Let the waiting jobs wait by the rules in force; who is overdue is found at the next instant."""
        clear(self.waiting)
        self.machine.state["looked_at"] = 0
        rows = np.flatnonzero(self.jobs["section"] != AWAY).astype(np.uint32)
        self.jobs["section"][rows] = self.jobs["level"][rows]
        done = 0
        while done < len(rows):
            done = enqueue_rows(self.now_s, self.waiting, self.running, self.jobs, self.rules, rows, done)
            if done < len(rows):
                self.waiting = enlarged(self.waiting)

    def fork(self) -> Replay:
        """A copy that goes its own way from here."""
        other = copy.copy(self)
        other.jobs = self.jobs.copy()
        other.dividers = self.dividers.copy()
        other.waiting = copied(self.waiting)
        other.running = copied(self.running)
        other.machine = copied(self.machine)
        other.scratch = scratch_room(len(self.table))
        return other

    # What there is to see

    @property
    def large(self) -> int:
        """The level of large jobs: one more than the small ones have."""
        return len(self.dividers) + 1

    @property
    def waiting_rows(self) -> NDArray[np.intp]:
        """The waiting jobs, oldest first."""
        return np.flatnonzero(self.jobs["section"] != AWAY)

    @property
    def running_rows(self) -> NDArray[np.intp]:
        """The running jobs, by expected end."""
        return self.running.jobs["row"][: self.running.state["jobs"][0]].astype(np.intp)

    @property
    def free(self) -> int:
        """The idle processors."""
        return int(self.running.state["free"][0])

    def schedule(self) -> Schedule:
        """What has happened so far."""
        log = self.machine.log[: self.machine.state["starts"][0]]
        backfilled = np.zeros(len(self.table), bool)
        backfilled[log["row"]] = log["backfilled"]  # of a job started twice the last one counts
        return Schedule(
            jobs=self.table,
            size=self.size,
            start_s=self.machine.fates["start_s"].copy(),
            backfilled=backfilled,
            kills=self.machine.kills[: self.machine.state["kills"][0]].copy(),
            order=log["row"].astype(np.int64),
        )


def copied(arrays: Arrays) -> Arrays:
    """The same named tuple of copies."""
    return type(arrays)._make(array.copy() for array in arrays)


def replay(
    jobs: JobTable,
    size: int,
    policy: Policy,
    *,
    backfill: Policy | None = None,
    threshold_s: float = np.inf,
    divider_s: float | Sequence[float] = np.inf,
) -> Schedule:
    """Replay the whole workload; the arguments are those of `Replay`."""
    run = Replay(jobs, size, policy, backfill=backfill, threshold_s=threshold_s, divider_s=divider_s)
    run.advance()
    return run.schedule()


def mean_bsld(jobs: JobTable, size: int, tau_s: float = TAU_S) -> Measure:
    """A measure for `replay_many`: the mean bounded slowdown of the jobs that ran; 0 where none did."""
    ran = jobs.procs <= size
    submit_s, runtime_s = jobs.submit_s[ran], np.minimum(jobs.runtime_s, jobs.walltime_s)[ran]

    def measure(start_s: NDArray[np.float64]) -> NDArray[np.float64]:
        if not ran.any():
            return np.zeros(len(start_s))
        start_s = start_s if ran.all() else start_s[:, ran]
        # Row by row in memory, as the order of a sum is in its last bit: a policy's mean must not depend on the others.
        bsld = np.ascontiguousarray(bounded_slowdown(start_s - submit_s, runtime_s, tau_s))
        return np.asarray(bsld.mean(axis=1))

    return measure


@contextmanager
def thread_pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """So many threads for the block; when it fails or is interrupted, what they are at is not waited for."""
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def replay_many(
    jobs: JobTable,
    size: int,
    policies: Sequence[Policy],
    *,
    backfill: Policy | None = None,
    threshold_s: float = np.inf,
    measure: Measure | None = None,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """What each policy makes of the workload, shape (n_policies,): by default the mean bounded slowdown, tau 10 s.

    Args:
        jobs: the workload.
        size: the machine's processors.
        policies: the queue orders.
        backfill: the order in which jobs are tried for backfilling; None for the queue's own.
        threshold_s: Theta.
        measure: gives one figure per row of start times, (n_policies, n_jobs), nan for a rejected job.
        threads: by default one per processor. The result does not depend on how many there are.

    Every thread has one replay, which runs its policies in blocks, compiled and without Python's global lock.
    """
    measure = measure or mean_bsld(jobs, size)
    threads = max(1, min(threads or len(os.sched_getaffinity(0)), len(policies)))
    at_once = max(1, min(BLOCK // max(len(jobs), 1), -(-len(policies) // threads)))
    blocks = [slice(first, first + at_once) for first in range(0, len(policies), at_once)]
    results = np.zeros(len(policies))

    left = iter(blocks)  # who is done with one takes the next

    def work() -> None:
        run = Replay(jobs, size, policies[0])
        for block in left:
            start_s = run.starts_under(policies[block], backfill=backfill, threshold_s=threshold_s)
            results[block] = measure(start_s)

    with thread_pool(threads) as pool:
        working = [pool.submit(work) for _ in range(threads if policies else 0)]
        try:
            for finished in working:
                finished.result()
        finally:  # a failure or an interrupt leaves none to take
            for _ in left:
                pass
    return results
