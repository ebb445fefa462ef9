"""A cluster scheduled live: jobs arrive and end one at a time, and `decide` returns which jobs start where.

Events arrive one by one instead of in advance. The queue is that of the compiled replay, and so is the pass, unless the
head reserves machines (`held`) or the plan is kept (`kept`). It speaks no protocol: `agent` and the conversations, or
`scheduler`, adapt it to Batsim.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.batsim_files.machines import IdleMachines, Intervals, intervals_of
from batfill.engine.records import URGENT
from batfill.live.held import HeldMachines
from batfill.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from batfill.learn import Judgement
    from batfill.live.kept import KeptPlan
    from batfill.live.request import Request
    from batfill.model.options import Options
    from batfill.model.policy import Policy


class Start(NamedTuple):
    """A job to start now."""

    job: str
    machines: Intervals
    kill_at_s: float  # when to kill and requeue it if it still runs; inf for never


@dataclass(slots=True)
class Placed:
    """What the queue does not know of a job that waits or runs, and the processors, which are read often."""

    name: str
    procs: int
    walltime_s: float  # at which the simulator ends it
    machines: Intervals = field(default_factory=list)  # while it runs


class Cluster:
    """The waiting and the running jobs of one cluster, under one set of options."""

    def __init__(
        self, machines: Iterable[int], options: Options, *, by_machines: bool = False, plan: KeptPlan | None = None
    ) -> None:
        """An empty cluster.

        Args:
            machines: their ids.
            options: of the queue.
            by_machines: whether the head reserves machines or processors.
            plan: which is kept, of the same machines; None to plan from scratch.
        """
        ids = sorted(machines)
        self.plan = plan
        self.ids = frozenset(ids)
        self.size = len(ids)
        self.kills, self.urgent = options.kills, options.urgent
        self.queue = Queue(self.size, options.rules)  # a divider that is learned is not there yet
        self.pools, self.dated = options.rules.all_pools, bool(options.rules.dated)
        self.widest_try = options.widest_try(self.size)
        self.idle = HeldMachines(ids) if by_machines else IdleMachines(intervals_of(ids))
        self.away: set[int] = set()  # unavailable machines
        self.rows: dict[str, int] = {}  # of the jobs that wait or run
        self.placed: dict[int, Placed] = {}  # the same jobs by row
        self.killable: set[int] = set()  # rows of those that may still be killed and requeued
        self.rushed: set[int] = set()  # rows of the urgent jobs that wait
        self.held = 0  # processors of open windows of the calendar, beside the unavailable machines
        self.changed = False  # whether jobs or machines have come or gone since the last decision, or a job is rejected

    def fork(self) -> Cluster:
        """A copy that shares nothing; of a cluster without a kept plan."""
        other = copy.copy(self)
        other.queue, other.idle = self.queue.fork(), copy.deepcopy(self.idle)
        other.rows, other.placed = dict(self.rows), {row: replace(placed) for row, placed in self.placed.items()}
        other.away, other.killable, other.rushed = set(self.away), set(self.killable), set(self.rushed)
        return other

    def wait_s(self, request: Request, judgement: Judgement, now_s: float) -> float:
        """The seconds until this job would start if it were submitted after the decision at `now_s`; inf for never.

        Nothing changes. A kept plan says where it would place the job. Else a copy, on which no job may be killed, goes
        on without further submissions. Each job runs for as long as is expected; one that has outlived this ends.
        """
        if self.plan is not None:
            return self.plan.wait_s(request, now_s)
        ahead, date_s = self.fork(), now_s
        job = f"{request.name}?"  # the name may be in use
        ahead.submit(request._replace(name=job), judgement)
        while date_s < math.inf:
            if any(start.job == job for start in ahead.decide(date_s)):
                return date_s - now_s
            running = ahead.queue.running
            end_s = max(float(running["end_s"][0]), date_s) if len(running) else math.inf
            date_s = ahead.queue.next_change_s(end_s)
            ahead.queue.pay(date_s)
            for row in running["row"][running["end_s"] <= date_s].tolist():
                ahead.end(ahead.placed[row].name)
        return math.inf

    def submit(self, request: Request, judgement: Judgement) -> bool:
        """Queue a job that fits the machine, as it is judged; returns whether it is urgent.

        A small one goes first only if it is narrow enough for a try.
        """
        urgent = self.urgent is not None and self.urgent.holds(request.name, request.user, request.amounts)
        small = judgement.small and request.procs <= self.widest_try and not urgent
        killable = small and self.kills and request.killable
        row = self.queue.submit(
            request.name,
            request.submit_s,
            request.expected_s,
            request.procs,
            user=request.user,
            small=small,
            urgent=urgent,
            killable=killable,
            expected_s=judgement.expected_s,
            key_expected_s=judgement.key_expected_s,
            outlives=request.expected_s < request.walltime_s,
            wants=[pool.amount(request.amounts, request.procs) for pool in self.pools] if self.pools else None,
        )
        self.rows[request.name] = row
        self.placed[row] = Placed(request.name, request.procs, request.walltime_s)
        self.changed = True
        if killable:
            self.killable.add(row)
        if urgent:
            self.rushed.add(row)
        if self.plan is not None:
            self.plan.submit(row, request, float(self.queue.jobs["key"][row]))
        return urgent

    def requeue(self, job: str, now_s: float) -> None:
        """Queue the next try of a killed job, with its first submission time."""
        self.changed = True
        self.queue.requeue(self.rows[job], now_s)

    def end(self, job: str, next_try: str | None = None, *, stopped: bool = False) -> None:
        """Release the machines of a job that has ended.

        `next_try`: if it was killed, the name under which it goes on once it is requeued; as a large job, unless it was
        `stopped` for an urgent one.
        """
        row = self.rows.pop(job)
        placed = self.placed.pop(row)
        self.changed = True
        self.queue.finish(row)
        self.idle.give(without(placed.machines, self.away))
        self.killable.discard(row)
        if self.plan is not None:
            self.plan.end(row)
        if next_try is not None:
            (self.queue.take_back if stopped else self.queue.demote)(row)
            self.rows[next_try], self.placed[row] = row, Placed(next_try, placed.procs, placed.walltime_s)
            if self.queue.jobs["killable"][row]:
                self.killable.add(row)

    def kill_pays(self, job: str, now_s: float) -> bool:
        """Whether to kill a job at its divider, after the decision at `now_s`; if not, it goes on as a large one."""
        row = self.rows[job]
        if self.queue.kill_pays(row, now_s):
            return True
        self.queue.spare(row)
        self.killable.remove(row)
        return False

    def to_stop(self, now_s: float) -> set[str]:
        """The running jobs to stop for an urgent one, after the decision at `now_s`."""
        return {self.placed[row].name for row in self.queue.choose_stopped(now_s)}

    def next_stop_s(self, now_s: float) -> float:
        """The first date after `now_s` from which another running job may be stopped for a waiting urgent one."""
        exempt_s = self.queue.rules.preempt_exempt_s
        if not (self.rushed and self.queue.rules.preempts and exempt_s):
            return math.inf
        jobs = self.queue.jobs[self.queue.running_rows]
        from_s = jobs["start_s"][jobs["home"] != URGENT] + exempt_s
        return float(np.min(from_s[from_s > now_s], initial=math.inf))

    def lost_work(self, job: str) -> tuple[float, int]:
        """Sorts jobs at their dividers: by the processor-seconds that a kill would waste, then by age."""
        row = self.rows[job]
        return self.queue.kill_after_s(row) * self.placed[row].procs, int(self.queue.jobs["seq"][row])

    def change_policy(self, policy: Policy) -> None:
        """Order the queue by this policy from the next decision on; a separate backfill order stays."""
        self.queue.change_rules(replace(self.queue.rules, policy=policy))

    def decide(self, now_s: float) -> list[Start]:
        """Run one pass; if machines are not planned, each started job gets the idle ones with the lowest ids."""
        self.changed = False
        idle, placed, starts = self.idle, self.placed, []
        if isinstance(idle, HeldMachines):
            chosen = idle.decide(self.queue, now_s)
        elif self.plan is not None:
            chosen = self.plan.decide(now_s)
            for row, machines in chosen:
                idle.remove(machines)
                self.queue.start_waiting(row, now_s)
        elif self.rows:
            if self.dated:
                self.queue.pay(now_s)
                self.hold_windows(now_s)
            chosen = [(row, idle.take(placed[row].procs)) for row in self.queue.decide(now_s).tolist()]
        else:
            return []
        for row, machines in chosen:
            job, kill_at_s = placed[row], math.inf
            job.machines = machines
            self.rushed.discard(row)
            if row in self.killable and not self.queue.jobs["killable"][row]:  # it is due: tries stand back for it
                self.killable.remove(row)
            elif row in self.killable:
                kill_after_s = self.queue.note_kill_after(row)
                # A job whose walltime ends it by then needs no kill call.
                kill_at_s = now_s + kill_after_s if kill_after_s < job.walltime_s else math.inf
            starts.append(Start(job.name, machines, kill_at_s))
        return starts

    def hold_windows(self, now_s: float) -> None:
        """Leave the processors of the windows open at `now_s` idle; machines that are unavailable count as theirs."""
        held = max(self.queue.pass_changes(now_s) - len(self.away), 0)
        self.queue.change_free(self.held - held)
        self.held = held

    def withdraw(self, machines: Iterable[int]) -> None:
        """Stop using these machines; a job on one of them keeps running and does not release it.

        Machines of other kinds, such as storage, change nothing.
        """
        for machine in (self.ids - self.away).intersection(machines):
            self.changed = True
            self.away.add(machine)
            if self.plan is not None:
                self.plan.withdraw(machine)
            if self.idle.withdraw(machine):
                self.queue.change_free(-1)
            else:
                self.change_release(machine, -1)

    def restore(self, machines: Iterable[int]) -> None:
        """Use these machines again."""
        for machine in set(machines) & self.away:
            self.changed = True
            self.away.remove(machine)
            if self.plan is not None:
                self.plan.restore(machine)
            if not self.change_release(machine, 1):
                self.idle.give([(machine, machine)])
                self.queue.change_free(1)

    def change_release(self, machine: int, by: int) -> bool:
        """Change by one the processors that the job on this machine will release; returns whether a job runs there."""
        for row, placed in self.placed.items():
            if any(first <= machine <= last for first, last in placed.machines):
                self.queue.change_release(row, by)
                if by > 0 and isinstance(self.idle, HeldMachines):
                    self.idle.hold(machine, row)
                return True
        return False


def without(intervals: Intervals, away: set[int]) -> Intervals:
    if not away:
        return intervals
    return intervals_of([m for first, last in intervals for m in range(first, last + 1) if m not in away])
