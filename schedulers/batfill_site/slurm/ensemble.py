"""Runs of the model that differ as real ones do, by chance, and what their means say.

Schedules of Slurm are chaotic: a backfill cycle that begins a second later may change the starts of a day, so one run
says little. A figure here is a mean over runs with its interval, and `Difference` says whether two configurations
differ by more than two runs of the same one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from batfill.base.errors import LARGEST
from batfill.base.words import things
from batfill.model.jobs import Clock as ClockOfLog
from batfill.model.metrics import RUNTIME_BINS, width_bins
from batfill.replays.many import in_threads
from batfill_pages.comparison import FEWEST_JOBS
from batfill_pages.words import count
from batfill_site.answer import NB, dates_text
from batfill_site.slurm.model import Model
from batfill_site.slurm.preempt import CHECK_S
from batfill_site.slurm.site import KILLED, REQUEUED, SUSPENDED, Bools, Clock, Floats, Ints, Site, SlurmJobs

RUNS, FEWEST_RUNS = 20, 5
JITTER_S = 1.0  # a cycle is late by up to so much: what a controller's other work costs it


class Difference(NamedTuple):
    """How much more one configuration has than another, a mean over runs; numbers, or arrays of equal shape."""

    value: Any
    margin: Any  # half of its 95 % interval
    noise: Any  # how much two runs of the same configuration differ by, on average

    @classmethod
    def of(cls, base: Floats, other: Floats) -> Difference:
        """Of a value per run, (runs, ...); the same run of both configurations has the same dates of cycles."""
        more = other - base
        return cls(more.mean(axis=0), margin(more), np.maximum(gap(base), gap(other)))

    @property
    def beyond(self) -> Any:
        """Whether it is beyond Slurm's own noise: not 0 within its interval, and at least what two runs differ by."""
        size = np.abs(self.value)
        return (size > self.margin) & (size >= self.noise)

    @property
    def sure(self) -> Any:
        return np.where(self.beyond, self.value, 0.0)

    def as_dict(self) -> dict[str, Any]:
        more, margin, noise = map(float, self)
        ends = {"more_low": more - margin, "more_high": more + margin}
        return {"more": more, **ends, "noise": noise, "beyond_noise": bool(self.beyond)}


class Figure(NamedTuple):
    """A mean over runs."""

    mean: float
    margin: float  # half of its 95 % interval
    more: Difference | None = None  # than as configured; None for that itself

    @classmethod
    def of(cls, values: Floats, base: Floats | None = None) -> Figure:
        more = None if base is None else Difference.of(base, values)
        return cls(float(values.mean()), float(margin(values)), more)


def margin(values: Floats) -> Floats:
    """Half of the 95 % interval of the mean over the first axis, by Student's t."""
    n = len(values)
    half: Floats = t_quantile(n - 1) * values.std(axis=0, ddof=1) / math.sqrt(n)
    return half


def gap(values: Floats) -> Floats:
    """The mean difference, without its sign, of all pairs along the first axis."""
    n = len(values)
    ranked: Floats = np.tensordot(2.0 * np.arange(n) - (n - 1), np.sort(values, axis=0), 1)
    return np.maximum(ranked, 0.0) * (2 / (n * (n - 1)))  # rounding may leave less than 0 of equal values


def t_quantile(freedom: int) -> float:
    """Student's t at 97.5 %, to 0.6 % from 4 degrees of freedom on, and to a ten-thousandth from 9 on.

    Source: Gaver and Kafadar, A retrievable recipe for inverse t, The American Statistician 38, 1984.
    """
    return math.sqrt(freedom * math.expm1(1.959963984540054**2 * (freedom - 1.5) / (freedom - 1) ** 2))


def clocks(site: Site, jobs: SlurmJobs, runs: int, seed: int, begin_s: float = -math.inf) -> list[Clock]:
    """A clock per run: the phase of the controller's loop, the first cycle, the first tick and the jitter are drawn.

    The runs begin with the first job, or at `begin_s` if that is later.
    """
    first_s, settings = max(float(jobs.submit_s[0]), begin_s), site.settings
    rng = np.random.default_rng(seed)
    drawn, seeds, checks = rng.random((runs, 3)), rng.integers(LARGEST, size=runs), rng.random(runs)
    return [
        Clock(
            phase_s=phase,
            first_cycle_s=first_s + cycle * settings.bf_interval_s,
            first_decay_s=first_s - tick * settings.calc_period_s,  # the controller has run for long
            first_check_s=first_s + check * CHECK_S,
            jitter_s=JITTER_S,
            seed=own,
        )
        for (phase, cycle, tick), own, check in zip(drawn.tolist(), seeds.tolist(), checks.tolist(), strict=True)
    ]


class Ran(NamedTuple):
    """Jobs in the run of each clock, (runs, jobs)."""

    wait_s: Floats  # from its eligibility to its last start; nan for one that never starts
    stops: Floats  # how often it was preempted,
    killed: Floats  # whether for good,
    lost_h: Floats  # and the processor-hours that it had then run for nothing

    def of(self, jobs: Bools) -> Ran:
        return Ran(*(each[:, jobs] for each in self))


def ran(
    site: Site, jobs: SlurmJobs, dates: list[Clock], advance: Callable[[int], None] = lambda _: None, **begun: Any
) -> Ran:
    """The runs of the clocks.

    A thread per processor makes them, since kernels run without Python's lock; the result does not depend on it.
    `begun` is as for `Model`.
    """
    model, n = Model(site, jobs, **begun), len(jobs)

    def run(clock: Clock) -> tuple[Floats, ...]:
        found = model.run(clock)
        what = found.preempted[np.isin(found.preempted["how"], (REQUEUED, KILLED, SUSPENDED))]
        killed, ended = what["how"] == KILLED, what["how"] != SUSPENDED
        lost_h = ended * what["cpus"] * (what["at_s"] - what["start_s"]) / 3600
        times = (np.bincount(what["job"], each, n) for each in (what["how"] >= 0, killed, lost_h))
        return found.start_s, *(each.astype(np.float64) for each in times)

    starts_s, *others = map(np.array, zip(*in_threads(run, dates, advance), strict=True))
    return Ran(starts_s - jobs.eligible_s, *others)


def about(site: Site, jobs: SlurmJobs, runs: int) -> str:
    size = f"{count(len(jobs))} jobs on {things(len(site.nodes), 'node')} ({count(site.cpus)} CPUs)"
    dates = dates_text(jobs.submit_s, ClockOfLog(0, UTC))
    return f"{size}, {dates}; means of {runs} runs (±{NB}95{NB}%: Slurm's cycles alone)"


USER, OTHERS = "user", "(others)"


def kinds(jobs: SlurmJobs, cpus: int) -> Iterator[tuple[str, list[str], Ints]]:
    """What jobs are grouped by, the groups' names, and the group of each job, (jobs,)."""
    yield "", ["all"], np.zeros(len(jobs), np.int64)
    gpus = ["with GPUs" if number else "without GPUs" for number in jobs.gpus_per_node.tolist()]
    for by, texts in (("partition", jobs.partition), ("QOS", jobs.qos), ("account", jobs.account), ("jobs", gpus)):
        names, group, _ = by_size(texts)
        if len(names) > 1:
            yield by, [name or "not known" for name in names], group
    for by, bins, values in (("CPUs", width_bins(cpus), jobs.cpus), ("ran for", RUNTIME_BINS, jobs.run_s)):
        held = [(one.name, rows) for one in bins if (rows := one.holds(values)).any()]
        if len(held) > 1:
            yield by, [name for name, _ in held], np.argmax([rows for _, rows in held], axis=0)


def by_size(texts: Sequence[str]) -> tuple[list[str], Ints, Ints]:
    """The different texts, the most frequent first, which of them each is, and how many are equal to each."""
    found, group, count = np.unique(np.array(texts, object), return_inverse=True, return_counts=True)
    order = np.argsort(-count, kind="stable")
    return list(map(str, found[order])), np.argsort(order)[group], count[order]


def by_group(values: Floats, group: Ints, function: np.ufunc) -> Floats:
    """The mean, or the most, of each group in each run, (runs, groups), of values (runs, jobs)."""
    order, jobs = np.argsort(group, kind="stable"), np.bincount(group)
    found: Floats = function.reduceat(values[:, order], np.cumsum(jobs) - jobs, axis=1)
    return found / jobs if function is np.add else found


def users(jobs: SlurmJobs) -> Iterator[tuple[str, list[str], Ints]]:
    """Those with `FEWEST_JOBS` jobs, as one of the `kinds`, the jobs of others in a last group; nothing without any."""
    names, user, count = by_size(jobs.user)
    counted = (count >= FEWEST_JOBS) & np.array([name != "" for name in names])
    group = np.where(counted, np.cumsum(counted) - 1, counted.sum())
    if counted.any():
        yield USER, [*compress(names, counted), *([] if counted.all() else [OTHERS])], group[user]
