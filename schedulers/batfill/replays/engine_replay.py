"""The compiled replay: one workload under one policy, with no messages and no object per job.

>>> from pathlib import Path
>>> from batfill.model.options import Options
>>> from batfill.workloads import read_workload
>>> workload = read_workload(Path("workloads/sample.json"))
>>> replay_jobs(workload.jobs, workload.size, Options.of({"policy": "saf"}).rules).summary().jobs
800
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import BatfillError
from batfill.engine import ends, loop
from batfill.engine.loop import CLOCK, DONE, KILL, LACKS_ROOM, Events, Given
from batfill.engine.records import LARGE, LINE, STARTED, STEP, TRIES, URGENT, as_records, new_records
from batfill.engine.violations import Marks, marks_for
from batfill.model.invariants import require_sound
from batfill.model.jobs import SMALL, Jobs, checked_size
from batfill.model.limits.calendar import NO_WINDOWS, never_runs
from batfill.model.limits.pools import RUNNING, may_run_short, rejected, wanted
from batfill.model.rules import Rules
from batfill.model.schedule import Schedule
from batfill.queue import Queue, copied, users_by_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.model.limits.calendar import Calendar
    from batfill.model.policy import Policy

SAMPLE = 256  # jobs of which the arrays show a replay's bytes a job
AT_ONCE = 100_000  # jobs replayed between two states of a progress bar


class EngineReplay:
    """A replay that can stop at any instant, and be inspected, changed, copied and saved there.

    `queue` holds what the scheduler knows and decides; `events` has the clock, the true ends and the past events.
    """

    def __init__(
        self,
        jobs: Jobs,
        size: int,
        rules: Rules,
        *,
        expected_s: NDArray[np.float64] | None = None,
        learns: bool = False,
        small: NDArray[np.bool_] | None = None,
    ) -> None:
        """Set up a replay on an empty machine.

        Args:
            jobs: the workload; where jobs may outlive their requests, what is expected of them is always raised.
            size: the machine's processors; wider jobs are rejected at submission.
            rules: those of the queue.
            expected_s: expected run time of each job, shape (n_jobs,); by default `jobs.expected_s`.
            learns: whether `Queue.classify` sets the jobs' classes during the replay, instead of the workload.
            small: whether each job goes before the others, with a divider, shape (n_jobs,); by default class SMALL.
        """
        checked_size("size", size + bool(rules.pools))  # one more for jobs that want more of a pool than there is
        n_jobs = len(jobs)
        expected_s = np.asarray(jobs.expected_s if expected_s is None else expected_s, np.float64)
        if expected_s.shape != (n_jobs,) or not (expected_s >= 0).all():
            raise BatfillError(f"expected_s: not {n_jobs} numbers of seconds >= 0, one per job; correct it")
        self.table, self.size, self.learns = jobs, size, learns
        at_once = min(n_jobs, size)
        # Without a divider, classes have no effect.
        small = (jobs.job_class == SMALL if small is None else small) & (not learns) & (rules.divider_s < np.inf)
        urgent = np.zeros(n_jobs, bool) if jobs.urgent is None else jobs.urgent
        small = small & ~urgent
        n_small = n_jobs if learns else int(small.sum())
        n_kills = n_small + (rules.calendar.most_kills(n_jobs) if rules.calendar else 0)
        n_kills += at_once if rules.preempts else 0  # which grow
        # Pools that can never run short are left out, as they change no start.
        self.pools, windowed = rules.pools, {w.pool for w in rules.calendar.windows} if rules.calendar else set()
        self.wants = wanted(self.pools, jobs)
        self.rejected = rejected(jobs, size, self.pools, self.wants)
        fits = ~self.rejected
        scarce = tuple(
            pool
            for pool, amounts in zip(self.pools, self.wants.T, strict=True)
            if pool.name in windowed or may_run_short(pool, amounts[fits], jobs.procs[fits], size)
        )
        rules = replace(rules, outlived=rules.outlived or jobs.outlives, pools=scarce)
        tries = n_small > 0 or rules.outlived or rules.preempts > 0 or rules.checkpoint_s < np.inf
        self.queue = Queue(size, rules, capacity=n_jobs, tries=tries)
        procs = np.where(self.rejected, size + 1, jobs.procs)
        wants = wanted(rules.all_pools, jobs) if rules.all_pools else None
        self.queue.know(jobs.submit_s, jobs.expected_s, procs, jobs.user, outlives=jobs.outlives, wants=wants)
        self.events = Events(
            duration_s=np.minimum(jobs.runtime_s, jobs.walltime_s),
            cancel_s=np.zeros(0) if jobs.cancel_after_s is None else jobs.cancel_s,
            # With those to be queued again, or that may leave.
            ends=ends.new_ends(n_jobs if rules.requeue_delay_s > 0 or jobs.cancel_after_s is not None else at_once),
            due=np.zeros(at_once if n_small else 0, np.uint32),
            starts=new_records(n_jobs + n_kills, STARTED),
            kills=new_records(n_kills, KILL),
            ended=np.zeros(n_jobs + n_kills, np.uint32),
            over=np.zeros(n_jobs + n_kills, np.uint32),
            available=available(size, rules.calendar or NO_WINDOWS),
            clock=new_records(1, CLOCK),
        )
        self.given = Given(
            expected_s=expected_s,
            home=np.select([urgent, small], [URGENT, TRIES], LARGE).astype(np.int8),
            killable=((small if jobs.killable is None else small & jobs.killable) & rules.kills).astype(np.uint8),
            submit_s=np.ascontiguousarray(jobs.submit_s, np.float64),
            procs=np.ascontiguousarray(procs, np.int64),
        )
        self.restart(rules)

    def restart(self, rules: Rules) -> None:
        """Reset to an empty machine, with this order, backfill order and threshold, without allocating memory.

        Not after a run with checkpoints, which shorten what is left of jobs.
        """
        self.past: tuple[tuple[float, Rules], ...] = ()  # the rules until these dates, if they were changed
        self.until_s = -np.inf  # all instants up to here are processed; nan if the machine was not empty at first
        self.queue.reset(self.given, self.events)
        self.queue.adopt(rules)

    # Going on

    @property
    def now_s(self) -> float:
        """The last instant processed; 0 before the first."""
        return float(self.events.clock["now_s"][0])

    @property
    def next_s(self) -> float:
        """The next instant with an event; inf if there is none."""
        return self.queue.next_instant_s(self.events)

    def advance(self, until_s: float = np.inf) -> bool:
        """Process every instant up to and including `until_s`; returns whether the workload is done."""
        self.until_s = max(self.until_s, until_s)
        while (why := self.queue.advance(until_s, self.events)) == LACKS_ROOM:
            self.make_room()
        return why == DONE

    def make_room(self) -> None:
        """Double the number of tries that may be stopped."""
        more = len(self.events.kills)

        def longer(array: NDArray[Any]) -> NDArray[Any]:
            both: NDArray[Any] = as_records(np.concatenate([array, np.zeros(more, array.dtype)]))
            return both

        grown: dict[str, Any] = {
            name: longer(getattr(self.events, name)) for name in ("starts", "kills", "ended", "over")
        }
        self.events = self.events._replace(**grown)

    def starts_under(
        self, policies: Sequence[Policy], *, backfill: Policy | None = None, threshold_s: float = np.inf
    ) -> NDArray[np.float64]:
        """Start times of all jobs under each policy, shape (n_policies, n_jobs), replaying the whole workload.

        nan for a rejected job. The replay ends up at its end under the last policy.
        """
        self.restart(replace(self.queue.rules, policy=policies[-1], backfill=backfill, threshold_s=threshold_s))
        known = self.table.submit_s, self.given.expected_s, self.table.procs
        mixed = all(policy.weights is not None for policy in policies)
        lines = as_records(np.empty((0 if mixed else len(policies), len(self.table)), LINE))
        for line, policy in zip(lines, policies, strict=False):
            line["key"], line["rise"] = policy.lines(*known)
        moves = np.array([policy.motion for policy in policies], np.uint8)
        weights = np.array([policy.weights or (0.0,) * 6 for policy in policies])
        start_s = np.empty((len(policies), len(self.table)))
        self.until_s = np.inf
        if not self.queue.advance_each(moves, weights, lines, start_s, self.given, self.events, self.scratch()):
            self.check(self.start_s)
        return start_s

    def step(self) -> bool:
        """Process the next instant, with its one decision; returns whether the workload is done."""
        return self.advance(self.next_s)

    def change_rules(self, rules: Rules) -> None:
        """Order and backfill by these rules from the next decision on."""
        self.past = (*self.past, (self.until_s, self.queue.rules))
        self.queue.change_rules(rules)

    def begin_at(self, now_s: float, start_s: NDArray[np.float64]) -> None:
        """Set the state at `now_s`: jobs run since `start_s`, shape (n_jobs,), or wait if that is nan.

        The replay must be at its beginning. Jobs submitted after `now_s` are still to come.
        """
        clock, self.until_s = self.events.clock, np.nan
        clock["now_s"] = now_s
        submitted = int((self.table.submit_s <= now_s).sum())
        running = np.flatnonzero(start_s <= now_s)
        for row in running.tolist():
            self.queue.start(row, float(start_s[row]))
            ends.enter(self.events.ends, start_s[row] + self.events.duration_s[row], 0, row)
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
        """Every try killed so far, by the scheduler or a failure, engine KILL (n_kills,), in order of time."""
        kills: NDArray[np.void] = self.events.kills
        return kills[: self.events.clock["kills"][0]]

    def check(self, start_s: NDArray[np.float64]) -> None:
        """Check the invariants of the run so far, not after `begin_at`, which omits the past; `start_s` is its own.

        Raises:
            BatfillError: a calendar has kept a job from running for ever.
            InternalError: one is violated.
        """
        until_s = np.inf if self.next_s == np.inf else self.now_s
        if until_s == np.inf and (stuck := self.queue.waiting_rows.tolist()) and self.queue.rules.calendar:
            raise BatfillError(never_runs("the replay", self.queue.rules.calendar.name, self.table, stuck))
        given = self.given
        owner, users = np.zeros(0, np.uint32), users_by_number(self.table.user)
        found = loop.violation(until_s, self.size, given, owner, start_s, self.events, self.scratch())
        require_sound(found, lambda row: self.table.ids[row])
        limits = [pool for pool in self.queue.rules.all_pools if pool.name == RUNNING]
        for pool in (*self.pools, *limits):  # as on a machine, or on one of each user, that has so much of this pool
            amounts = np.where(pool.of_user & (users == 0), 0, pool.amounts(self.table))
            amounts[self.rejected] = pool.capacity + 1
            there = available(pool.capacity, self.queue.rules.calendar or NO_WINDOWS, pool.name)
            given, events = given._replace(procs=amounts), self.events._replace(available=there)
            owners = users if pool.of_user else owner
            found = loop.violation(until_s, pool.capacity, given, owners, start_s, events, self.scratch())
            require_sound(found, lambda row: self.table.ids[row])

    def scratch(self) -> Marks:
        return marks_for(len(self.table), len(self.events.kills), len(self.events.over))

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
            calendar=self.queue.rules.calendar,
            pools=self.pools,
            wants=self.wants if self.pools else None,
            budget=self.queue.rules.energy_budget,
            gate=self.queue.rules.backfill_while,
            checkpoint_s=self.queue.rules.checkpoint_s,
        )


def replay_jobs(
    jobs: Jobs,
    size: int,
    rules: Rules,
    *,
    small: NDArray[np.bool_] | None = None,
    advance: Callable[[int], None] | None = None,
) -> Schedule:
    """Replay the whole workload; `advance` is called with the jobs submitted, the rest is as for `EngineReplay`."""
    run = EngineReplay(jobs, size, rules, small=small)
    done = 0
    while advance is not None and done + AT_ONCE < len(jobs):
        run.advance(jobs.submit_s[done + AT_ONCE - 1])
        advance(AT_ONCE)
        done += AT_ONCE
    run.advance()
    if advance is not None:
        advance(len(jobs) - done)
    return run.schedule()


def bytes_a_job(jobs: Jobs, rules: Rules, *, learns: bool = False) -> tuple[int, int]:
    """The memory of a replay and its schedule, in bytes a job: of the job table, and of all else.

    The latter does not count the blocks of waiting jobs, whose memory is used as the queue grows, nor what a learner
    keeps. The arguments are those of `EngineReplay`; jobs that may be small count as if they were.
    """
    some = [engine_bytes(jobs.select(slice(n)), rules, learns) for n in (SAMPLE // 2, SAMPLE)]
    return round(jobs.nbytes / max(len(jobs), 1)), -(-(some[1] - some[0]) // (SAMPLE - SAMPLE // 2))


def available(size: int, calendar: Calendar, pool: str = "") -> NDArray[np.void]:
    """The processors, or what there is of a pool, from each date on, engine STEP (n_changes + 1,)."""
    at_s, away = calendar.away(pool)
    steps: NDArray[np.void] = new_records(len(away), STEP)
    steps["at_s"], steps["free"] = np.append(-np.inf, at_s), size - away
    return steps


def engine_bytes(jobs: Jobs, rules: Rules, learns: bool) -> int:
    """The bytes of all arrays of a replay of these jobs but its blocks, and of its schedule at its end."""
    small = replace(jobs, job_class=np.full(len(jobs), SMALL, np.int8)) if (jobs.job_class == SMALL).any() else jobs
    run = EngineReplay(small, 1, replace(rules, calendar=None, backfill_while=None, energy_budget=None), learns=learns)
    made = run.schedule()
    arrays = [*run.events, *run.given, made.start_s, made.backfilled]
    in_table = {id(getattr(small, f.name)) for f in fields(small)}
    tries = len(run.events.starts) * made.order.itemsize + run.events.kills.nbytes  # if every try takes place
    others = (a.nbytes for a in arrays if isinstance(a, np.ndarray) and id(a) not in in_table)
    return int(tries) + run.queue.nbytes + sum(others)
