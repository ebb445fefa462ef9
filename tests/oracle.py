"""EASY backfilling as docs/semantics.md defines it, in the slowest honest way: what every host is held against.

Nothing here is shared with the engine. The queue is sorted anew at each pass by the literal sort rule, the shadow time
is found by trying instants, and a job is backfilled when the head, asked again, still fits at its shadow time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from batfill.jobs import SMALL, JobTable

# A job without walltime that runs already ends some day; one that is started behind the head ends later than that.
SOME_DAY = float(np.finfo(np.float64).max)
UNLIMITED = 1e12


def log10(x):
    return float(np.log10(float(x)))  # numpy's last bit differs from the C library's on some processors


def log2(x):
    return float(np.log2(float(x)))


# name -> key(t, r, p~, q), lowest first
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
    "sexp": lambda t, r, p, q: (t - r + p) / p,
    "lexp": lambda t, r, p, q: -(t - r + p) / p,
    "wfp3": lambda t, r, p, q: -((t - r) / p * ((t - r) / p) * ((t - r) / p)) * q,
    "unicef": lambda t, r, p, q: -(t - r) / (log2(max(q, 2)) * p),
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
        return a * q + b * p + c * -r + d * (p / q) + f * (p * q) + e * ((t - r + p) / p)

    return key


@cache
def key_named(policy):
    name, colon, weights = policy.partition(":")
    return mixed_key([float(weight) for weight in weights.split(",")]) if colon else KEYS[name]


@dataclass(eq=False)
class Job:
    seq: int
    r: float
    p: float
    walltime: float
    estimate: float  # what the scheduler knows of the run time
    q: int
    small: bool
    exempt: bool = False  # small, and yet not to be killed
    start: float = math.nan
    backfilled: bool = False
    first_try: float = math.nan  # start of the try that was killed

    @property
    def duration(self):
        return min(self.p, self.walltime)


@dataclass
class Oracle:
    """A whole simulation: `run()` it, then read the jobs."""

    table: JobTable
    size: int
    policy: str
    backfill: str | None = None
    threshold_s: float = math.inf
    divider_s: float = math.inf
    estimate_s: object = None  # what the scheduler expects the jobs to run, in the table's order; else the walltimes
    waiting: list = field(default_factory=list)
    running: list = field(default_factory=list)
    order: list = field(default_factory=list)  # seq of each try, as they started

    def __post_init__(self):
        t = self.table
        self.free = self.size
        ids = sorted(range(len(t)), key=lambda i: (t.submit_s[i], t.ids[i]))
        estimates = t.walltime_s if self.estimate_s is None else self.estimate_s
        self.jobs = [
            Job(
                seq,
                float(t.submit_s[i]),
                float(t.runtime_s[i]),
                float(t.walltime_s[i]),
                float(estimates[i]),
                int(t.procs[i]),
                bool(t.job_class[i] == SMALL),
            )
            for seq, i in enumerate(ids)
        ]
        self.coming = list(self.jobs)

    def run(self, until=math.inf):
        """Every instant up to `until`, itself included."""
        while True:
            t = min([self.end(job) for job in self.running] + [job.r for job in self.coming[:1]], default=math.inf)
            if t > until or t == math.inf:
                return self
            for job in [job for job in self.running if self.end(job) == t]:
                self.running.remove(job)
                self.free += job.q
                if self.killed_at_divider(job):
                    job.first_try, job.start, job.small = job.start, math.nan, False
                    self.waiting.append(job)
            while self.coming and self.coming[0].r == t:
                job = self.coming.pop(0)
                if job.q <= self.size:
                    self.waiting.append(job)
            self.easy_pass(t)  # also where the only event was a rejection: a job may have become overdue

    def killed_at_divider(self, job):
        return job.small and not job.exempt and self.divider_s < job.duration

    def end(self, job):
        return job.start + (self.divider_s if self.killed_at_divider(job) else job.duration)

    # The queue's order

    def key_at(self, policy, t, job):
        return key_named(policy)(t, job.r, min(job.estimate, UNLIMITED), job.q)

    def sort_rule(self, t):
        def rule(job):
            if t - job.r > self.threshold_s:
                return (0, 0, 0, job.r, job.seq)
            return (1, 0 if job.small else 1, self.key_at(self.policy, t, job), job.r, job.seq)

        return rule

    def backfill_rule(self, t):
        if self.backfill is None:
            return self.sort_rule(t)
        return lambda job: (self.key_at(self.backfill, t, job), job.r, job.seq)

    # The pass

    def easy_pass(self, t):
        for job in sorted(self.waiting, key=self.sort_rule(t)):
            if job.q > self.free:
                head = job
                break
            self.begin(t, job)
        else:
            return
        promised = [min(job.start + job.estimate, SOME_DAY) for job in self.running]
        held = list(zip(promised, [job.q for job in self.running], strict=True))
        shadow = next(at for at in sorted(promised) if free_at(at, self.size, held) >= head.q)
        for job in sorted(self.waiting, key=self.backfill_rule(t)):
            if job is head or job.q > self.free:
                continue
            held.append((t + job.estimate, job.q))
            if free_at(shadow, self.size, held) >= head.q:
                self.begin(t, job, backfilled=True)
            else:
                held.pop()

    def begin(self, t, job, backfilled=False):
        job.start, job.backfilled = t, backfilled
        self.waiting.remove(job)
        self.running.append(job)
        self.free -= job.q
        self.order.append(job.seq)


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
    assert np.array_equal(schedule.first_try_s, [job.first_try for job in jobs], equal_nan=True)
    assert schedule.backfilled.tolist() == [job.backfilled for job in jobs]
    assert schedule.order.tolist() == expected.order
