"""The compiled replay: one workload under one policy, with no messages and no object per job.

>>> from pathlib import Path
>>> from batfill.model.policy import policy_named
>>> from batfill.workloads import read_workload
>>> workload = read_workload(Path("workloads/sample.json"))
>>> replay(workload.jobs, workload.procs, policy_named("saf")).summary().jobs
800
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from multiprocessing import parent_process
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from batfill import engine
from batfill.base.errors import BatfillError
from batfill.engine.violations import scratch_for
from batfill.model.invariants import require_sound
from batfill.model.jobs import SMALL, JobTable, checked_size
from batfill.model.policy import require_order
from batfill.model.schedule import Schedule
from batfill.replays.queue import Queue, copied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.model.policy import Policy

SAMPLE = 256  # jobs of which the arrays show a replay's bytes a job
AT_ONCE = 100_000  # jobs replayed between two states of a progress bar


@cache
def announce_compilation() -> None:
    """Print on standard error that the engine compiles first, if it has yet to; not in each of several workers."""
    if parent_process() is None:
        engine.announce_compilation(engine.advance)


class EngineReplay:
    """A replay that can stop at any instant, and be inspected, changed, copied and saved there.

    `queue` holds what the scheduler knows and decides; `events` has the clock, the true ends and the past events.
    """

    def __init__(
        self,
        jobs: JobTable,
        size: int,
        policy: Policy,
        *,
        backfill: Policy | None = None,
        threshold_s: float = np.inf,
        divider_s: float = np.inf,
        expected_s: NDArray[np.float64] | None = None,
        learns: bool = False,
        outlived: bool = False,
        tries_first: bool = False,
        spares: bool = False,
        bound: bool = False,
        kills: bool = True,
        small: NDArray[np.bool_] | None = None,
    ) -> None:
        """Set up a replay on an empty machine.

        Args:
            jobs: the workload.
            size: the machine's processors; wider jobs are rejected at submission.
            policy: the queue's order.
            backfill: the order of backfill candidates; None for the queue's own.
            threshold_s: Theta: jobs that have waited longer come first, oldest first.
            divider_s: a small job still running after this time is killed and requeued as large; inf for never.
            expected_s: expected run time of each job, shape (n_jobs,); by default `jobs.request_s`.
            learns: whether `classify` sets the jobs' classes during the replay, instead of the workload.
            outlived: whether expected run times that a running job outlives are raised at each instant; with
                `jobs.outlives` they always are, also beyond the request.
            tries_first: whether small jobs go before overdue ones.
            spares: whether a try at its divider is killed only if its processors are needed.
            bound: whether a job that may be killed is expected to end at the divider at the latest.
            kills: whether small jobs are killed at the divider; otherwise they only go first.
            small: whether each job goes before the others, with a divider, shape (n_jobs,); by default class SMALL.

        Raises:
            BatfillError: the job table is out of order or has an invalid value (see `JobTable.check`), a policy returns
                an unsortable key, or another argument is invalid.
        """
        jobs.check()
        checked_size("size", size)
        n_jobs = len(jobs)
        expected_s = np.asarray(jobs.request_s if expected_s is None else expected_s, np.float64)
        if expected_s.shape != (n_jobs,) or not (expected_s >= 0).all():
            raise BatfillError(f"expected_s: not {n_jobs} numbers of seconds >= 0, one per job; mend it")
        if not divider_s > 0:
            raise BatfillError(f"divider_s: {divider_s!r} is not a number of seconds > 0")
        self.table, self.size, self.learns = jobs, size, learns
        at_once = min(n_jobs, size)
        # Without a divider, classes have no effect.
        small = (jobs.job_class == SMALL if small is None else small) & (not learns) & (divider_s < np.inf)
        n_small = n_jobs if learns else int(small.sum())
        outlived = outlived or jobs.outlives
        self.queue = Queue(
            size,
            policy,
            backfill=backfill,
            threshold_s=threshold_s,
            divider_s=divider_s,
            capacity=n_jobs,
            tries=n_small > 0 or outlived,
            outlived=outlived,
            tries_first=tries_first,
            spares=spares,
            bound=bound,
        )
        self.queue.know(jobs.submit_s, jobs.request_s, jobs.procs, outlives=jobs.outlives)
        self.events = engine.Events(
            duration_s=np.minimum(jobs.runtime_s, jobs.walltime_s),
            ends=engine.new_ends(at_once),
            due=np.zeros(at_once if n_small else 0, np.uint32),
            starts=engine.new_records(n_jobs + n_small, engine.STARTED),
            kills=engine.new_records(n_small, engine.KILL),
            ended=np.zeros(n_jobs + n_small, np.uint32),
            over=np.zeros(n_jobs + n_small, np.uint32),
            clock=engine.new_records(1, engine.CLOCK),
        )
        self.given = engine.Given(
            expected_s=expected_s,
            small=small.astype(np.uint8),
            killable=((small if jobs.killable is None else small & jobs.killable) & kills).astype(np.uint8),
            submit_s=np.require(jobs.submit_s, np.float64, ["C", "W"]),
            procs=np.require(jobs.procs, np.int64, ["C", "W"]),
        )
        announce_compilation()
        self.restart(policy, backfill=backfill, threshold_s=threshold_s)

    def restart(self, policy: Policy, *, backfill: Policy | None = None, threshold_s: float = np.inf) -> None:
        """Reset to an empty machine, under these rules, without allocating memory."""
        self.queue.reset(self.given, self.events)
        self.queue.adopt(policy, backfill, threshold_s)

    # Going on

    @property
    def now_s(self) -> float:
        """The last instant processed; 0 before the first."""
        return float(self.events.clock["now_s"][0])

    @property
    def submitted(self) -> int:
        """The number of jobs submitted so far."""
        return self.queue.submitted

    @property
    def next_s(self) -> float:
        """The next instant with an event; inf if there is none."""
        end_s = engine.next_end_s(self.events.ends)
        coming = self.table.submit_s[self.submitted : self.submitted + 1]
        return float(min(end_s, coming.min(initial=np.inf)))

    def advance(self, until_s: float = np.inf) -> bool:
        """Process every instant up to and including `until_s`; returns whether the workload is done."""
        return self.queue.advance(until_s, self.events)

    def starts_under(
        self, policies: Sequence[Policy], *, backfill: Policy | None = None, threshold_s: float = np.inf
    ) -> NDArray[np.float64]:
        """Start times of all jobs under each policy, shape (n_policies, n_jobs), replaying the whole workload.

        nan for a rejected job. The replay ends up at its end under the last policy.

        Raises:
            PolicyError: a network picks under one of them, which takes a replay of its own.
        """
        for policy in policies:
            require_order(policy, "only orders are replayed many at a time")
        self.restart(policies[-1], backfill=backfill, threshold_s=threshold_s)
        known = self.table.submit_s, self.given.expected_s, self.table.procs
        mixed = all(policy.weights is not None for policy in policies)
        lines = engine.as_records(np.empty((0 if mixed else len(policies), len(self.table)), engine.LINE))
        for line, policy in zip(lines, policies, strict=False):
            line["key"], line["rise"] = policy.lines(*known)
        moves = np.array([policy.motion for policy in policies], np.uint8)
        weights = np.array([policy.weights or (0.0,) * 6 for policy in policies])
        start_s = np.empty((len(policies), len(self.table)))
        n_jobs = len(self.table)
        scratch = *scratch_for(n_jobs, len(self.events.kills), len(self.events.over)), np.empty(n_jobs)
        if not self.queue.advance_each(moves, weights, lines, start_s, self.given, self.events, scratch):
            self.check(self.start_s)
        return start_s

    def step(self) -> bool:
        """Process the next instant, with its one decision; returns whether the workload is done."""
        return self.advance(self.next_s)

    # Changing course

    def change_rules(self, policy: Policy, *, backfill: Policy | None = None, threshold_s: float = np.inf) -> None:
        """Use these rules for order and backfilling from the next decision on."""
        self.queue.change_rules(policy, backfill, threshold_s)

    def change_expected(self, expected_s: NDArray[np.float64]) -> None:
        """Use these expected run times, shape (n_jobs,), from the next decision on, also for running jobs."""
        self.queue.change_expected(expected_s)

    def classify(
        self, row: int, small: bool, *, killable: bool, expected_s: float, key_request_s: float | None = None
    ) -> None:
        """Set the class and expected run time of a job not yet submitted.

        Args:
            row: the job.
            small: whether it goes before large jobs.
            killable: whether it may be killed at the divider.
            expected_s: the expected run time.
            key_request_s: p~ of the keys, which must not move; by default the expected run time.
        """
        self.queue.classify(row, small, killable=killable, expected_s=expected_s, key_request_s=key_request_s)

    def change_divider(self, divider_s: float, *, bound: bool) -> None:
        """Kill small jobs that start from now on at this divider; see `Queue.change_divider`."""
        self.queue.change_divider(divider_s, bound=bound)

    def begin_at(self, now_s: float, start_s: NDArray[np.float64]) -> None:
        """Set the state at `now_s`: jobs run since `start_s`, shape (n_jobs,), or wait if that is nan.

        The replay must be at its beginning. Jobs submitted after `now_s` are still to come.
        """
        clock = self.events.clock
        clock["now_s"] = now_s
        submitted = int((self.table.submit_s <= now_s).sum())
        running = np.flatnonzero(start_s <= now_s)
        for row in running.tolist():
            self.queue.start(row, float(start_s[row]))
            engine.enter(self.events.ends, start_s[row] + self.events.duration_s[row], 0, row)
        waiting = np.ones(submitted, bool)
        waiting[running] = False
        self.queue.enqueue_all(np.flatnonzero(waiting), submitted)

    def fork(self) -> EngineReplay:
        """A copy that continues independently from here."""
        other = copy.copy(self)
        other.queue = self.queue.fork()
        other.events = copied(self.events)
        return other

    # What there is to see

    @property
    def start_s(self) -> NDArray[np.float64]:
        """The start of each job's last try, shape (n_jobs,); nan before the first, and after a kill."""
        return self.queue.start_s

    @property
    def tries(self) -> NDArray[np.void]:
        """Every try so far, engine STARTED (n_tries,), in order of start."""
        starts: NDArray[np.void] = self.events.starts
        return starts[: self.events.clock["starts"][0]]

    @property
    def kills(self) -> NDArray[np.void]:
        """Every try killed so far, engine KILL (n_kills,), in order of time."""
        kills: NDArray[np.void] = self.events.kills
        return kills[: self.events.clock["kills"][0]]

    def reaches_divider(self, row: int) -> bool:
        """Whether a job's last try reaches its divider, or has gone on there."""
        return bool(self.queue.kill_after_s(row) < self.events.duration_s[row])

    def check(self, start_s: NDArray[np.float64]) -> None:
        """Check the invariants of the run so far, not after `begin_at`, which omits the past; `start_s` is its own.

        Raises:
            InternalError: one is violated.
        """
        kills, tries, over = self.kills, self.tries, int(self.events.clock["over"][0])
        found = engine.first_violation(
            self.size,
            np.inf if self.next_s == np.inf else self.now_s,
            self.given.submit_s,
            self.given.procs,
            start_s,
            start_s + self.events.duration_s,
            tries["row"],
            self.events.ended[: len(tries)],
            self.events.over[:over],
            kills["row"],
            kills["start_s"],
            kills["ran_s"],
            *scratch_for(len(self.table), len(kills), over),
        )
        require_sound(found, lambda row: self.table.ids[row])

    def schedule(self) -> Schedule:
        """The schedule so far.

        Raises:
            InternalError: it violates an invariant.
        """
        start_s = self.start_s
        self.check(start_s)
        backfilled = np.zeros(len(self.table), bool)
        backfilled[self.tries["row"]] = self.tries["backfilled"]  # for a job started twice the last one counts
        return Schedule(
            jobs=self.table,
            size=self.size,
            start_s=start_s,
            backfilled=backfilled,
            kills=self.kills.copy(),
            order=self.tries["row"].astype(np.int64),
            until_s=np.inf if self.next_s == np.inf else self.now_s,
        )


def replay(
    jobs: JobTable,
    size: int,
    policy: Policy,
    *,
    backfill: Policy | None = None,
    threshold_s: float = np.inf,
    divider_s: float = np.inf,
    tries_first: bool = False,
    spares: bool = False,
    bound: bool = False,
    kills: bool = True,
    small: NDArray[np.bool_] | None = None,
    advance: Callable[[int], None] | None = None,
) -> Schedule:
    """Replay the whole workload; `advance` is called with the jobs submitted, the rest is as for `EngineReplay`."""
    run = EngineReplay(
        jobs,
        size,
        policy,
        backfill=backfill,
        threshold_s=threshold_s,
        divider_s=divider_s,
        tries_first=tries_first,
        spares=spares,
        bound=bound,
        kills=kills,
        small=small,
    )
    done = 0
    while advance is not None and done + AT_ONCE < len(jobs):
        run.advance(jobs.submit_s[done + AT_ONCE - 1])
        advance(AT_ONCE)
        done += AT_ONCE
    run.advance()
    if advance is not None:
        advance(len(jobs) - done)
    return run.schedule()


def bytes_a_job(
    jobs: JobTable, policy: Policy, *, backfill: Policy | None = None, divider_s: float = np.inf, learns: bool = False
) -> tuple[int, int]:
    """The memory of a replay and its schedule, in bytes a job: of the job table, and of all else.

    The latter does not count the tree of waiting jobs, which grows with the queue, nor what a learner keeps. The
    arguments are those of `EngineReplay`; jobs that may be small count as if they were.
    """
    some = [engine_bytes(jobs.select(slice(n)), policy, backfill, divider_s, learns) for n in (SAMPLE // 2, SAMPLE)]
    return round(jobs.nbytes / max(len(jobs), 1)), -(-(some[1] - some[0]) // (SAMPLE - SAMPLE // 2))


def engine_bytes(jobs: JobTable, policy: Policy, backfill: Policy | None, divider_s: float, learns: bool) -> int:
    """The bytes of all arrays of a replay of these jobs, the tree excepted, and of its schedule at its end."""
    small = replace(jobs, job_class=np.full(len(jobs), SMALL, np.int8)) if (jobs.job_class == SMALL).any() else jobs
    run = EngineReplay(small, 1, policy, backfill=backfill, divider_s=divider_s, learns=learns)
    made = run.schedule()
    arrays = [*run.events, *run.given, made.start_s, made.backfilled]
    in_table = {id(getattr(small, f.name)) for f in fields(small)}
    tries = len(run.events.starts) * made.order.itemsize + run.events.kills.nbytes  # if every try takes place
    others = (a.nbytes for a in arrays if isinstance(a, np.ndarray) and id(a) not in in_table)
    return int(tries) + run.queue.nbytes + sum(others)
