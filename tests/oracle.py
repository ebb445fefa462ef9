"""EASY backfilling in the slowest honest way, from docs/background/semantics.md: what every host is held against.

Nothing here is shared with the engine. The queue is sorted anew at each pass by the literal sort rule, the shadow time
is found by trying instants, and a job is backfilled when the head, asked again, still fits at its shadow time.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, repeat

import numpy as np

from batfill.model.jobs import SMALL, Jobs

# A job without walltime that runs already ends some day; one that is started behind the head ends later than that.
SOME_DAY = float(np.finfo(np.float64).max)
# In a plan the first is given up on this date, and the second, as a reservation without walltime, lasts so long.
LAST, FOREVER = 2.0**50, 2.0**51
UNLIMITED = 1e12
URGENT, OVERDUE = 0, 1  # sections of the queue, before the others
AT_DIVIDER, BY_FAILURE, PREEMPTED = 0, 1, 2  # why a try was stopped
MINUTE, HOUR = 60, 3600
# By how much a job is expected to run longer when it has outlived what was expected, time after time.
STEPS = [*(n * MINUTE for n in (1, 5, 15, 30)), *(n * HOUR for n in (1, 2, 5, 10, 20, 50, 100))]


@cache
def log10(x):
    return float(np.log10(float(x)))  # numpy's last bit differs from the C library's on some processors


@cache
def log2(x):
    return float(np.log2(float(x)))


@cache
def cbrt(x):
    return float(np.cbrt(float(x)))


# name -> key(t, r, p~, q), lowest first; those that move with t as a + b (w / p~), see semantics.md
KEYS = {
    "fcfs": lambda t, r, p, q: r,
    "lcfs": lambda t, r, p, q: -r,
    "spf": lambda t, r, p, q: p,
    "lpf": lambda t, r, p, q: -p,
    "sqf": lambda t, r, p, q: q,
    "lqf": lambda t, r, p, q: -q,
    "saf": lambda t, r, p, q: p * q,
    "laf": lambda t, r, p, q: -p * q,
    "srf": lambda t, r, p, q: p / q,
    "lrf": lambda t, r, p, q: -p / q,
    "sexp": lambda t, r, p, q: 1 + (t - r) / p,
    "lexp": lambda t, r, p, q: -1 - (t - r) / p,
    "wfp3": lambda t, r, p, q: -cbrt(q) * ((t - r) / p),  # the cube root of WFP: the same order
    "unicef": lambda t, r, p, q: -1 / log2(max(q, 2)) * ((t - r) / p),
    "f1": lambda t, r, p, q: log10(p) * q + 870 * log10(max(r, 1)),
    "f2": lambda t, r, p, q: math.sqrt(p) * q + 25_600 * log10(max(r, 1)),
    "f3": lambda t, r, p, q: p * q + 6_860_000 * log10(max(r, 1)),
    "f4": lambda t, r, p, q: p * math.sqrt(q) + 530_000 * log10(max(r, 1)),
}


def mixed_key(weights):
    """The scaled sum of weighted features; -r stands for w where nothing else moves, as all waits grow alike."""
    norm = sum(abs(weight) for weight in weights)
    a, b, c, d, e, f = (weight / norm for weight in weights)

    def key(t, r, p, q):
        return (e + (a * q + b * p + c * -r + d * (p / q) + f * (p * q))) + e * ((t - r) / p)

    return key


def aged_key(c, alpha, beta):
    """-(c + w) / (p^alpha q^beta), as a line in w."""

    def power(x, y):
        return float(np.power(float(x), y))  # numpy's last bit differs from the C library's on some processors

    def key(t, r, p, q):
        size = power(max(p, 1.0), alpha) * power(q, beta)
        return r if alpha == beta == 0 else -c / size + (-1 / size) * (t - r)

    return key


@cache
def key_named(policy):
    name, colon, weights = policy.partition(":")
    if name == "aged" and colon:
        return aged_key(*(float(number) for number in weights.split(",")))
    return mixed_key([float(weight) for weight in weights.split(",")]) if colon else KEYS[name]


@dataclass(eq=False)
class Job:
    seq: int
    r: float
    p: float
    walltime: float
    request: float
    whole_expected: float  # how long it is expected to run if it is not killed
    q: int
    small: bool
    exempt: bool = False  # small, and yet not to be killed
    start: float = math.nan
    backfilled: bool = False
    user: int = -1  # below 0: unknown
    due: bool = False  # whether it goes first and gets no try, where tries stand back
    divider: float = math.inf  # at which it is killed, since its start
    turn: int = 0  # its place among the jobs as they are submitted
    wants: tuple = ()  # how much of each further pool
    watts: int = 0  # what it is charged for each second that it runs, if energy is budgeted
    bound: float = math.inf  # after which it is expected to be killed, since its start
    urgent: bool = False
    cancel: float = math.inf  # when its user cancels it
    key_expected: float = 0.0  # what was expected of it at first; its other times are of what is left

    @property
    def duration(self):
        return min(self.p, self.walltime)


@dataclass
class Pool:
    """A further pool, of which a job takes its amount while it runs."""

    capacity: int
    skips: bool = False  # whether a job that lacks it now is skipped; otherwise it waits for it as for processors
    of_user: bool = False  # whether each user has one; such a pool skips
    falls: list = field(default_factory=list)  # (begin, end, amount, known since) of windows in which it has less


@dataclass
class Budget:
    """Energy of which so many watts become available from one date until another; whole watts and seconds."""

    begin: float
    end: float
    rate: int
    idle: int = 0  # what the machine draws without jobs
    holds: bool = False  # whether reservations hold joules, too
    tick: int = 600  # a decision is made so often in the period


@dataclass
class Oracle:
    """A whole simulation: `run()` it, then read the jobs."""

    table: Jobs
    size: int
    policy: str
    backfill: str | None = None
    threshold_s: float = math.inf
    depth: float | None = None  # by a plan with so many reservations, inf for any number; None for the head's alone
    tested: float = math.inf  # how many jobs of the plan must wait before it ends
    max_running: float = math.inf  # how many jobs of a user may run at once; a plan decides
    uncounted: int | None = None  # seq of a running job that does not count among those of its user
    keeps: bool = False  # whether the head keeps the reservation that it got when it became the head
    kept: tuple = (None, None)  # (seq of that head, its shadow time)
    half: bool = False  # whether only the older half of the overdue jobs goes first, at least 4
    stand_back: float = math.inf  # tries stand back while waiting jobs request more machines than this; inf: never
    divider_s: float = math.inf
    spares: bool = False  # whether a try is killed at its divider only if its processors are needed
    widest_try: int | None = None  # wider jobs are large
    bound: bool = False  # whether jobs are expected to end at their divider at the latest
    expected_s: object = None  # what the scheduler expects the jobs to run, in the table's order; else the requests
    outlived: bool = False  # whether what was expected is corrected; always if jobs may outlive their requests
    windows: list = field(default_factory=list)  # (begin, end, procs, known since, whether jobs fail); a plan decides
    gate: list | None = None  # (begin, end) of the periods in which jobs are backfilled; a plan decides
    pools: list = field(default_factory=list)  # further ones; a plan decides
    budget: Budget | None = None  # a plan decides
    watts: object = None  # of each job with a budget, (n_jobs,) in the table's order
    balance: float = 0  # joules at `now`
    wake: float = -math.inf  # when the first reservation of the last decision begins
    wants: object = None  # how much of each a job takes, (n_jobs, n_pools) in the table's order
    preempt: str | None = None  # the order in which running jobs are stopped for urgent ones: least-lost, youngest
    exempt: float = 0.0  # how long a job runs before it may be stopped for them
    delay: float = 0.0  # how long after that it is queued again
    checkpoint: float = math.inf  # a stopped job goes on where it was after so long, or a multiple
    returning: list = field(default_factory=list)  # (date, job) of those to be queued again
    now: float = -math.inf
    waiting: list = field(default_factory=list)
    running: list = field(default_factory=list)
    order: list = field(default_factory=list)  # seq of each try, as they started
    kills: list = field(default_factory=list)  # (seq, start, run time, why) of each try that was stopped

    def __post_init__(self):
        t = self.table
        self.free = self.size
        ids = sorted(range(len(t)), key=lambda i: (t.submit_s[i], t.ids[i]))
        requests = t.walltime_s
        if t.outlives:
            requests = [limit if math.isnan(asked) else asked for asked, limit in zip(t.asked_s, requests, strict=True)]
            self.outlived = True
        expected_s = requests if self.expected_s is None else self.expected_s
        self.jobs = [
            Job(
                seq,
                float(t.submit_s[i]),
                float(t.runtime_s[i]),
                float(t.walltime_s[i]),
                float(requests[i]),
                float(expected_s[i]),
                int(t.procs[i]),
                bool(t.job_class[i] == SMALL and self.may_try(t.procs[i])),
            )
            for seq, i in enumerate(ids)
        ]
        for job, i in zip(self.jobs, ids, strict=True):
            job.key_expected = job.whole_expected
            job.turn, job.user = job.seq, int(t.user[i])
            job.wants = tuple(int(amount) for amount in self.wants[i]) if self.pools else ()
            job.watts = int(self.watts[i]) if self.budget else 0
            job.cancel = math.inf if t.cancel_after_s is None else job.r + float(t.cancel_after_s[i])
        self.coming = list(self.jobs)
        self.turns = 0
        planned = self.windows or self.max_running < math.inf or self.pools or self.gate is not None or self.budget
        if planned and self.depth is None:
            self.depth = 1

    def may_try(self, q):
        """Whether a job of q processors may be small."""
        return self.divider_s < math.inf and (self.widest_try is None or q <= self.widest_try)

    def run(self, until=math.inf):
        """Every instant up to `until`, itself included."""
        while True:
            t = min([self.end(job) for job in self.running] + [job.r for job in self.coming[:1]], default=math.inf)
            t = min([t, *(min(date, job.cancel) for date, job in self.returning)])
            t = min([t, *(job.cancel for job in self.waiting)])
            if t < math.inf or self.waiting:
                dates = [date for begin, end, _, known, _ in self.windows for date in (begin, end, known)]
                dates += [
                    date for pool in self.pools for begin, end, _, known in pool.falls for date in (begin, end, known)
                ]
                dates += [date for period in self.gate or [] for date in period if date < math.inf]
                if self.budget:
                    dates += [self.budget.begin, self.budget.end]
                    ticks = int((self.budget.end - self.budget.begin) / self.budget.tick) + 1
                    dates += [self.budget.begin + n * self.budget.tick for n in range(ticks)] if self.waiting else []
                    dates += [self.wake] if self.waiting else []
                if self.preempt and any(job.urgent for job in self.waiting):
                    dates += [job.start + self.exempt for job in self.running if not job.urgent]
                t = min([t, *(date for date in dates if date > self.now)])
            if t > until or t == math.inf:
                return self
            self.pay(t)
            self.now = t
            due = []
            for job in [job for job in self.running if self.end(job) == t]:
                killed = job.divider < job.duration and t < job.cancel
                if killed and self.spares:
                    due.append(job)
                    continue
                if killed:
                    self.stop(t, job, AT_DIVIDER)
                else:
                    self.finish(job)
            self.waiting += [job for date, job in self.returning if date == t]
            self.returning = [(date, job) for date, job in self.returning if date > t and job.cancel > t]
            self.waiting = [job for job in self.waiting if job.cancel > t]
            self.fail(t)
            due = [job for job in due if job in self.running]
            while self.coming and self.coming[0].r == t:
                job = self.coming.pop(0)
                job.turn, self.turns = self.turns, self.turns + 1
                if self.is_possible(job):
                    self.waiting.append(job)
            self.decide(t)  # also where the only event was a rejection: a job may have become overdue
            for job in sorted(due, key=lambda job: (job.q * job.divider, job.r, job.turn)):
                if job not in self.running or job.start + job.divider != t:  # stopped for an urgent job
                    continue
                if self.kill_pays(t, job):
                    self.stop(t, job, AT_DIVIDER)
                else:
                    self.spare(job)
                self.decide(t)

    def decide(self, t):
        """A pass, and another as long as running jobs are stopped for the first of the queue."""
        self.easy_pass(t)
        while self.stop_for_urgent(t):
            self.easy_pass(t)

    def stop_for_urgent(self, t):
        """Stop the running jobs without which the first of the queue starts, if it is urgent; returns whether any."""
        if not self.preempt or not any(job.urgent for job in self.waiting):
            return False
        order = [job for job in sorted(self.waiting, key=self.sort_rule(t)) if not self.is_held(job)]
        if not order or not order[0].urgent:
            return False
        free_to_stop = [job for job in self.running if not job.urgent and job.start + self.exempt <= t]
        for n in range(len(free_to_stop) + 1):
            chosen = sorted(free_to_stop, key=lambda job: self.cost(t, job))[:n]
            if self.would_start(t, order[0], chosen):
                break
        else:
            return False
        for job in reversed(list(chosen)):
            others = [other for other in chosen if other is not job]
            if self.would_start(t, order[0], others):
                chosen = others
        for job in chosen:
            self.stop(t, job, PREEMPTED)
        return bool(chosen)

    def cost(self, t, job):
        """What is stopped first: the least work lost, or the youngest; of equals the last submitted."""
        if self.preempt == "youngest":
            return -job.start, -job.turn
        ran = t - job.start
        return (ran - self.kept_of(ran)) * job.q, -job.turn

    def would_start(self, t, job, stopped):
        """Whether a job that goes before all others would start in a pass without these running ones."""
        without = self.copied()
        for other in stopped:
            without.finish(without.jobs[other.seq])
        order = [one for one in sorted(without.waiting, key=without.sort_rule(t)) if not without.is_held(one)]
        if order[0].seq != job.seq:
            return False
        before = len(without.order)
        without.waiting = order[:1]
        without.planned_pass(t) if without.depth is not None else without.reserving_pass(t)
        return len(without.order) > before

    def kept_of(self, ran):
        return math.floor(ran / self.checkpoint) * self.checkpoint if self.checkpoint < math.inf else 0.0

    def stop(self, t, job, why):
        """Stop a running job, which is queued again."""
        ran = job.divider if why == AT_DIVIDER else t - job.start
        self.finish(job)
        self.kills.append((job.seq, job.start, ran, why))
        if kept := self.kept_of(ran):  # what is left is as a job of its own, but for its key
            job.whole_expected = self.raised(job, 0, kept) - kept
            job.p, job.request, job.walltime = job.p - kept, job.request - kept, job.walltime - kept
        job.start, job.small = math.nan, job.small and why != AT_DIVIDER
        if why == PREEMPTED and self.delay > 0:
            self.returning.append((t + self.delay, job))
        else:
            self.waiting.append(job)

    def pay(self, t):
        """Add to the balance what has become available since the last instant, less what was drawn."""
        if self.budget:
            lasted = min(t, self.budget.end) - max(self.now, self.budget.begin)
            drawn = self.budget.idle + sum(job.watts for job in self.running)
            self.balance += (self.budget.rate - drawn) * max(lasted, 0)

    def is_possible(self, job):
        """Whether a job asks for no more than there is of anything."""
        wants = job.wants if job.user >= 0 else self.of_machine(job.wants)
        return job.q <= self.size and all(n <= pool.capacity for n, pool in zip(wants, self.pools, strict=True))

    def of_machine(self, wants):
        """The same amounts, without the pools that users have."""
        return [0 if pool.of_user else n for n, pool in zip(wants, self.pools, strict=True)]

    def finish(self, job):
        self.running.remove(job)
        self.free += job.q

    def fail(self, t):
        """Each failure that begins takes processors that neither jobs nor windows have, then those of the last jobs."""
        taken = sum(q for begin, end, q, _, fails in self.windows if begin <= t < end and not (fails and begin == t))
        for begin, _, q, _, fails in self.windows:
            if fails and begin == t:
                found = max(self.size - taken - sum(job.q for job in self.running), 0)
                while found < q:
                    job = max(self.running, key=lambda job: (job.start, job.turn))
                    found += job.q
                    self.stop(t, job, BY_FAILURE)
                taken += q

    def is_late(self, t, job):
        return t - job.r > self.threshold_s and not job.urgent

    def become_due(self, t):
        """At the beginning of a decision: the overdue jobs, or the older of them, and all that wait in a backlog."""
        if self.stand_back == math.inf:
            return
        late = sorted((job for job in self.waiting if self.is_late(t, job)), key=lambda job: (job.r, job.turn))
        wanted = max(4, math.ceil(len(late) / 2)) if self.half else len(late)
        for job in late:
            if sum(one.due for one in late) < wanted:
                job.due = True
        if sum(job.q for job in self.waiting) > self.stand_back * self.size:
            for job in self.waiting:
                job.due = not job.urgent
        for job in self.waiting:
            job.small = job.small and not job.due

    def hold_head(self, t):
        """At the end of a decision: the first job of the queue, if it is large, and processors are idle."""
        if self.stand_back == math.inf:
            return
        order = [job for job in sorted(self.waiting, key=self.sort_rule(t)) if not self.is_held(job)]
        idle = self.free - sum(q for begin, end, q, _, _ in self.windows if begin <= t < end)
        if order and idle > 0 and not (order[0].small or order[0].urgent):
            order[0].due = True

    def spare(self, job):
        job.small, job.divider, job.bound = False, math.inf, math.inf

    def kill_pays(self, t, job):
        """Tried out: what a pass without the job would start, and when the head could start with it and without it."""
        if not self.waiting and not self.windows and not any(pool.falls for pool in self.pools) and not self.budget:
            return False
        self.become_due(t)
        without, beside = self.copied(), self.copied()
        without.finish(without.jobs[job.seq])
        beside.spare(beside.jobs[job.seq])
        beside.uncounted = job.seq
        if self.windows or any(pool.falls for pool in self.pools):
            job, plan = beside.jobs[job.seq], beside.plan(t)
            tried = {(t, 0)} | {place for begin, end, _ in plan for place in (begin, end)}
            end = (beside.expected_end(t, job), 0)
            if any(not self.leaves(plan, at, self.planned(job), zeros=True) for at in tried if at < end):
                return True  # it would be in the way of a window
        if self.budget and job.watts > 0 and not beside.affords(t, beside.plan(t), t, math.inf, 0):
            return True  # the joules would not last
        if self.depth is not None:
            dates, others = without.planned_pass(t), beside.planned_pass(t)
            sooner = any(date < others.get(seq, (t, 0)) for seq, date in dates.items())
            return sooner or len(without.order) > len(self.order)
        head = without.jobs[min(self.waiting, key=self.sort_rule(t)).seq]
        without.reserving_pass(t)
        if len(without.order) > len(self.order):
            return True
        return beside.shadow(t, head) > without.shadow(t, head)

    def copied(self):
        """The same in lists and in jobs, by number, of its own that wait or run; what does not change is shared."""
        twin = copy.copy(self)
        twin.jobs = {job.seq: copy.copy(job) for job in self.waiting + self.running}
        for name in ("waiting", "running"):
            setattr(twin, name, [twin.jobs[job.seq] for job in getattr(self, name)])
        twin.order, twin.kills = self.order.copy(), self.kills.copy()
        return twin

    def end(self, job):
        return min(job.start + min(job.divider, job.duration), job.cancel)

    def divider(self, job):
        """At which a job is killed that starts now."""
        return self.divider_s if job.small and not job.exempt else math.inf

    def expected(self, job):
        """How long a job is expected to run that starts now."""
        return min(job.whole_expected, self.divider(job)) if self.bound else job.whole_expected

    def raised(self, job, start, t):
        """For how long a job is expected to run at t that has run, or would have, since `start`."""
        span = job.whole_expected
        for step in chain(STEPS, repeat(STEPS[-1])):
            if not self.outlived or start + span > t or (span >= job.request and not self.table.outlives):
                break
            span = min(span + step, job.request if span < job.request else math.inf)
        return span

    def expected_end(self, t, job):
        """Of a running job, as it is expected at t; of a try that its divider bounds, at the latest there."""
        return job.start + min(self.raised(job, job.start, t), job.bound)

    # The queue's order

    def by_policy(self, policy, t):
        """A function from a job to its place in the order of a policy."""
        key = key_named(policy)
        return lambda job: (key(t, job.r, min(job.key_expected, UNLIMITED), job.q), job.r, job.turn)

    def sort_rule(self, t):
        """The first two numbers name a section of the queue."""
        late = [job for job in self.waiting if self.is_late(t, job)]
        late.sort(key=lambda job: (job.r, job.turn))
        if self.half:
            late = late[: max(4, math.ceil(len(late) / 2))]
        if self.stand_back < math.inf:
            late = [job for job in self.waiting if job.due]
        first = {job.seq for job in late}
        plain = self.by_policy(self.policy, t)

        def rule(job):
            if job.urgent:
                return (URGENT, 0, *plain(job))
            if job.seq in first:
                return (OVERDUE, 0, 0, job.r, job.turn)
            return (2, not job.small, *plain(job))

        return rule

    def backfill_rule(self, t):
        return self.by_policy(self.backfill, t)

    # The pass

    def easy_pass(self, t):
        self.become_due(t)
        if self.depth is not None:
            self.planned_pass(t)
        else:
            self.reserving_pass(t)
        self.hold_head(t)

    def reserving_pass(self, t):
        order = sorted(self.waiting, key=self.sort_rule(t))
        while order and order[0].q <= self.free:
            self.begin(t, order.pop(0))
        if self.keeps:
            self.backfill_beside_kept(t, order)
            return
        if not order:
            return
        head = order[0]
        shadow, held = self.shadow(t, head), self.held(t)
        for job in order if self.backfill is None else sorted(order, key=self.backfill_rule(t)):
            if job is head or job.q > self.free:
                continue
            held.append((t + self.expected(job), job.q))
            if free_at(shadow, self.size, held) >= head.q:
                self.begin(t, job, backfilled=True)
            else:
                held.pop()

    def backfill_beside_kept(self, t, order):
        """The rest of the pass if the head keeps its reservation; without a walltime a job counts as one of -1 s."""
        if not order:
            self.kept = (None, None)
            return
        head = order[0]
        if self.kept[0] != head.seq:
            held = [(self.counted_end(t, job), job.q) for job in self.running]
            ends = sorted(end for end, _ in held)
            self.kept = head.seq, next(at for at in ends if free_at(at, self.size, held) >= head.q)
        for job in order if self.backfill is None else sorted(order, key=self.backfill_rule(t)):
            length = -1 if self.expected(job) == math.inf else self.expected(job)
            if job is not head and job.q <= self.free and t + length <= self.kept[1]:
                self.begin(t, job, backfilled=True)

    def counted_end(self, t, job):
        """When a running job is expected to end."""
        end = self.expected_end(t, job)
        return job.start - 1 if end == math.inf else end

    def planned_pass(self, t):
        """The pass by a plan, a list of (begin, end, amounts) in places of time; returns when reservations begin."""
        plan = self.plan(t)
        is_shut = self.gate is not None and not any(begin <= t < end for begin, end in self.gate)
        self.wake = -math.inf
        idle = self.free - sum(q for begin, end, q, _, _ in self.windows if begin <= t < end)
        some_fit = any(job.q <= idle for job in self.waiting)
        dates, passed = {}, 0  # passed: how many jobs were passed over, behind which others are backfilled
        order = sorted(self.waiting, key=self.sort_rule(t))
        while order:
            job = order.pop(0)
            if self.is_held(job):
                continue
            length = min(self.expected(job), FOREVER)
            begin = self.earliest(t, plan, length, self.planned(job))
            if begin == (t, 0):
                end = place_after(begin, length)
                plan.append((begin, end if passed else min(end, (LAST, 0)), self.planned(job)))
                self.begin(t, job, backfilled=passed > 0)
                continue
            passed += 1
            if len(dates) < self.depth:
                self.wake = begin[0] if some_fit and not dates else self.wake
                dates[job.seq] = begin
                holds = not self.budget or self.budget.holds
                plan.append((begin, place_after(begin, length), self.planned(job, joules=holds)))
                if len(dates) == self.depth and self.backfill is not None:
                    order.sort(key=self.backfill_rule(t))
            if passed == self.tested or is_shut:
                break
        return dates

    def is_held(self, job):
        """Whether as many jobs of its user run as may, or a pool that skips has too little for it now."""
        if not self.pools and self.max_running == math.inf:
            return False
        counted = [one for one in self.running if one.seq != self.uncounted]
        if job.user >= 0 and sum(one.user == job.user for one in counted) >= self.max_running:
            return True
        for r, pool in enumerate(self.pools):
            wanted = 0 if pool.of_user and job.user < 0 else job.wants[r]
            others = [one.wants[r] for one in counted if not pool.of_user or one.user == job.user]
            away = sum(n for begin, end, n, _ in pool.falls if begin <= self.now < end)
            if (pool.skips or pool.of_user) and wanted > 0 and sum(others) + away + wanted > pool.capacity:
                return True
        return False

    def planned(self, job, joules=True):
        """What the plan holds for a job: processors, its amounts of the pools that it waits for, and its watts."""
        reserved = zip(job.wants, self.pools, strict=True)
        return (job.q, *(0 if pool.skips or pool.of_user else n for n, pool in reserved), job.watts * joules)

    def plan(self, t):
        """What the running jobs hold, and the windows that are known of."""
        ends = [(job, min(self.expected_end(t, job), LAST)) for job in self.running]
        jobs = [((t, 0), max((end, 0), (t, 1)), self.planned(job)) for job, end in ends]
        falls = [(begin, end, 0, n, known) for begin, end, n, known, _ in self.windows]
        for r, pool in enumerate(self.pools, 1):
            falls += [(begin, end, r, n, known) for begin, end, n, known in pool.falls]
        for begin, end, r, n, known in falls:
            if known <= t < end:
                amounts = tuple(n * (place == r) for place in range(len(self.pools) + 2))
                jobs.append(((max(begin, t), 0), (min(end, LAST), 0), amounts))
        return jobs

    def leaves(self, plan, at, amounts, zeros=False):
        """Whether the plan leaves these amounts at a place of time; `zeros`: at least nothing of what they are of."""
        held = [held for begin, end, held in plan if begin <= at < end]
        for r, wanted in enumerate(amounts[:-1]):
            capacity = self.size if r == 0 else self.pools[r - 1].capacity
            if wanted > 0 and sum(one[r] for one in held) + (0 if zeros else wanted) > capacity:
                return False
        return True

    def earliest(self, t, plan, length, amounts):
        """The first place of time at which these amounts are free for so long, all of its dates tried."""
        places = sorted({(t, 0)} | {place for begin, end, _ in plan for place in (begin, end) if place > (t, 0)})
        for begin, later in zip(places, [*places[1:], (math.inf, 0)], strict=True):
            end = place_after(begin, length)
            tried = [begin] + [other for other, _, _ in plan if begin < other < end]
            while begin < later and all(self.leaves(plan, at, amounts) for at in tried):
                if self.affords(t, plan, begin[0], length, amounts[-1]):
                    return begin
                begin = (math.floor(begin[0]) + 1, 0)  # where only joules lack, each second
                end = place_after(begin, length)
                tried = [begin] + [other for other, _, _ in plan if begin < other < end]
        raise AssertionError("some day all is free")

    def affords(self, t, plan, start, length, watts):
        """Whether the balance is at least 0 at each planned date if a job starts then; with 0 watts, if none does."""
        b = self.budget
        if not b or start >= b.end or start + length <= b.begin or (watts == 0 and length < math.inf):
            return True
        begin, end = max(start, b.begin), start + length
        dates = {begin, min(end, b.end), b.end}
        dates |= {date for held in plan for date, _ in held[:2] if begin <= date <= b.end}
        return all(self.balance_at(t, plan, date) >= watts * (min(date, end) - begin if watts else 0) for date in dates)

    def balance_at(self, t, plan, date):
        """The joules at a date, if all goes by the plan."""
        first, last = max(t, self.budget.begin), min(date, self.budget.end)
        if last <= first:
            return self.balance
        spent = sum(held[-1] * max(min(end, last) - max(begin, first), 0) for (begin, _), (end, _), held in plan)
        return self.balance + (self.budget.rate - self.budget.idle) * (last - first) - spent

    def held(self, t):
        """What the running jobs hold, and until when, as is expected at t."""
        return [(min(self.expected_end(t, job), SOME_DAY), job.q) for job in self.running]

    def shadow(self, t, head):
        """When the head is expected to start, if it cannot now."""
        held = self.held(t)
        return next(at for at, _ in sorted(held) if free_at(at, self.size, held) >= head.q)

    def begin(self, t, job, backfilled=False):
        job.start, job.backfilled, job.divider, job.due = t, backfilled, self.divider(job), False
        job.bound = job.divider if self.bound else math.inf
        self.waiting.remove(job)
        self.running.append(job)
        self.free -= job.q
        self.order.append(job.seq)


def place_after(begin, length):
    """The end of what begins at a place of time (date, turn); what takes no time has a turn of its own at its date."""
    date, turn = begin
    return max((date + length, 0), (date, turn + 1))


def free_at(t, size, held):
    """Processors free at t, when each (end, procs) of `held` is given back at its end, ends at t itself included."""
    return size - sum(q for end, q in held if end > t)


def oracle(table, size, policy, **options):
    """The whole run."""
    return Oracle(table, size, policy, **options).run()


def assert_same(schedule, expected):
    """A `Schedule` has the oracle's tries: the same jobs, in the same order, at the same dates, for the same reason."""
    jobs = expected.jobs
    assert np.array_equal(schedule.start_s, [job.start for job in jobs], equal_nan=True)
    assert np.array_equal(schedule.submit_s, [job.r for job in jobs])
    assert sorted(schedule.kills[["row", "start_s", "ran_s", "why"]].tolist()) == sorted(expected.kills)
    assert schedule.backfilled.tolist() == [job.backfilled for job in jobs]
    assert schedule.order.tolist() == expected.order
