"""Jobs drawn from the Lublin-Feitelson model of rigid jobs: sizes, run times, and arrivals with a daily cycle.

Source: U. Lublin, D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid
jobs", Journal of Parallel and Distributed Computing 63(11), 2003, with the parameters its authors published.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from batfill.errors import WorkloadError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["all", "both", "batch", "interactive"]

BUCKET_S = 1800  # arrivals are counted by half hours
BUCKETS = 48
DAY_STARTS = 11  # the daily cycle runs from this half hour to the same one on the next day
LONGEST_LOG_RUNTIME = 12.0  # no run time beyond exp(12) s, about two days
LONGEST_LOG_GAP = 13.0  # no gap beyond exp(13) s, about five days


@dataclass(frozen=True, slots=True)
class JobKind:
    """The model's parameters for one kind of jobs, by the names of the paper.

    Sizes: a job is serial with probability `serial`, else its log2 size is two-stage uniform on (low, med, high), the
    first stage with probability `first_stage`, and rounded to a power of two with probability `pow2`.
    Run times: their logarithm is gamma(a1, b1) with probability pa q + pb, else gamma(a2, b2).
    Arrivals: the logarithm of a gap in rush hours is gamma(a_gap, b_gap), a_gap scaled by `rush_to_all`; the share of
    a half hour in a day's arrivals is that of gamma(a_day, b_day).
    """

    serial: float
    pow2: float
    low: float
    med: float
    high: float
    first_stage: float
    a1: float
    b1: float
    a2: float
    b2: float
    pa: float
    pb: float
    a_gap: float
    b_gap: float
    rush_to_all: float
    a_day: float
    b_day: float

    def for_machine(self, procs: int) -> JobKind:
        """The same jobs on another machine: the largest size moves with it, and the middle one keeps its distance."""
        shift = math.log2(procs) - PUBLISHED_LOG2_PROCS
        high = max(self.high + shift, self.low)
        return replace(self, high=high, med=max(self.med + shift, self.low))


PUBLISHED_LOG2_PROCS = 7  # the published sizes are for 128 processors
BATCH = JobKind(
    serial=0.2927, pow2=0.6686, low=1.2, med=5, high=7, first_stage=0.875,
    a1=6.57, b1=0.823, a2=639.1, b2=0.0156, pa=-0.003, pb=0.6986,
    a_gap=6.0415, b_gap=0.8531, rush_to_all=1.0519, a_day=6.1271, b_day=5.2740,
)  # fmt: skip
INTERACTIVE = JobKind(
    serial=0.1541, pow2=0.625, low=1, med=3, high=5.5, first_stage=0.705,
    a1=3.8351, b1=0.6605, a2=7.073, b2=0.6856, pa=-0.0118, pb=0.9156,
    a_gap=6.5510, b_gap=0.6621, rush_to_all=0.9797, a_day=8.9186, b_day=3.6680,
)  # fmt: skip
ALL = JobKind(
    serial=0.244, pow2=0.576, low=0.8, med=4.5, high=7, first_stage=0.86,
    a1=4.2, b1=0.94, a2=312, b2=0.03, pa=-0.0054, pb=0.78,
    a_gap=10.2303, b_gap=0.4871, rush_to_all=1.0225, a_day=8.1737, b_day=3.9631,
)  # fmt: skip
KINDS: dict[Kind, tuple[JobKind, ...]] = {
    "all": (ALL,),
    "both": (INTERACTIVE, BATCH),
    "batch": (BATCH,),
    "interactive": (INTERACTIVE,),
}


@dataclass(frozen=True, slots=True, eq=False)
class ModelJobs:
    """Generated jobs by arrival; every column has shape (n_jobs,)."""

    submit_s: NDArray[np.float64]  # whole seconds from midnight
    runtime_s: NDArray[np.float64]  # whole seconds, >= 1
    procs: NDArray[np.int64]
    kind: NDArray[np.int64]  # the place in KINDS[kind] of the parameters a job was drawn from


def generate(n_jobs: int, procs: int, rng: np.random.Generator, *, kind: Kind = "all") -> ModelJobs:
    """`n_jobs` jobs of the model for a machine of `procs` processors.

    Args:
        n_jobs: how many, >= 1.
        procs: the machine's size, >= 2.
        rng: where the randomness comes from.
        kind: "all" draws from the parameters fitted to all jobs alike, "both" merges batch and interactive jobs.

    Raises:
        WorkloadError: the machine or the number of jobs is too small.
    """
    if procs < 2 or n_jobs < 1:
        raise WorkloadError(f"the model needs 2 processors and 1 job at least, not {procs} and {n_jobs}")
    parts = []
    for place, parameters in enumerate(KINDS[kind]):
        fitted = parameters.for_machine(procs)
        size = sizes(fitted, n_jobs, procs, rng)
        columns = (arrivals(fitted, n_jobs, rng), runtimes(fitted, size, rng), size, np.full(n_jobs, place))
        parts.append(columns)
    submit_s, runtime_s, size, kinds = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(submit_s, kind="stable")[:n_jobs]
    return ModelJobs(submit_s[order], runtime_s[order], size[order], kinds[order])


def sizes(kind: JobKind, n_jobs: int, procs: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Processors per job: serial, a power of two, or any; never more than the machine has."""
    u = rng.random(n_jobs)
    first = rng.random(n_jobs) <= kind.first_stage
    low, high = np.where(first, kind.low, kind.med), np.where(first, kind.med, kind.high)
    log2 = low + rng.random(n_jobs) * (high - low)
    power_of_two = u <= kind.serial + kind.pow2
    log2[power_of_two] = np.minimum(np.floor(log2[power_of_two] + 0.5), math.floor(math.log2(procs)))
    log2[u <= kind.serial] = 0
    size: NDArray[np.int64] = np.minimum(np.floor(2.0**log2 + 0.5), procs).astype(np.int64)
    return size


def runtimes(kind: JobKind, procs: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Whole seconds per job; wider jobs more often come from the second, longer gamma distribution."""
    log: NDArray[np.float64] = np.full(len(procs), np.inf)
    from_first = np.clip(kind.pa * procs + kind.pb, 0, 1)
    while len(again := np.flatnonzero(log > LONGEST_LOG_RUNTIME)):
        first = rng.random(len(again)) <= from_first[again]
        log[again] = rng.gamma(np.where(first, kind.a1, kind.a2), np.where(first, kind.b1, kind.b2))
    return np.floor(np.exp(log))


def arrivals(kind: JobKind, n_jobs: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Whole seconds from midnight, rising: gaps as in rush hours, stretched where the day is quieter."""
    log: NDArray[np.float64] = np.full(n_jobs, np.inf)
    while len(again := np.flatnonzero(log > LONGEST_LOG_GAP)):
        log[again] = rng.gamma(kind.a_gap * kind.rush_to_all, kind.b_gap, len(again))
    passed = np.cumsum(np.exp(log)) / BUCKET_S  # in half hours of mean activity
    activity = np.concatenate([[0.0], np.cumsum(daily_cycle(kind))])
    days, within = np.divmod(passed, activity[-1])
    return np.floor((days * BUCKETS + np.interp(within, activity, np.arange(BUCKETS + 1))) * BUCKET_S)


def daily_cycle(kind: JobKind) -> NDArray[np.float64]:
    """The activity of each half hour from midnight, shape (48,), mean 1."""
    from scipy.special import gammainc

    place = np.arange(DAY_STARTS, DAY_STARTS + BUCKETS)
    share = gammainc(kind.a_day, (place + 0.5) / kind.b_day) - gammainc(kind.a_day, (place - 0.5) / kind.b_day)
    cycle = np.empty(BUCKETS, np.float64)
    cycle[(place - 1) % BUCKETS] = share
    cycle /= cycle.mean()
    return cycle
