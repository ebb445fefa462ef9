"""Generates a synthetic log: jobs of the Lublin-Feitelson model, users, and requests of Tsafrir's model.

Sources: U. Lublin, D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid
jobs", Journal of Parallel and Distributed Computing 63(11), 2003, with the parameters its authors published (sizes, run
times, and arrivals with a daily cycle); D. Tsafrir, Y. Etsion, D. G. Feitelson, "Modeling user runtime estimates",
JSSPP 2005, with the parameters of its authors' program (users request few, round values: twenty cover 89 % of the jobs,
and the longest is the most popular).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from batfill.base.errors import WorkloadError
from batfill.base.version import __version__
from batfill.model.jobs import HOUR_S
from batfill.workloads.swf_log import COMPLETED, SwfLog, new_log
from batfill.workloads.times import at_load, stretch

if TYPE_CHECKING:
    from numpy.typing import NDArray

SESSION = 0.5  # probability that the next job comes from the previous job's user
Requests = Literal["tsafrir", "exact", "none"]
Kind = Literal["all", "both", "batch", "interactive"]


def generate_log(
    n_jobs: int,
    procs: int,
    seed: int,
    *,
    kind: Kind = "all",
    users: int = 64,
    requests: Requests = "tsafrir",
    longest_request_s: float | None = None,
    interarrival: float = 1.0,
    load: float | None = None,
) -> SwfLog:
    """A log of `n_jobs` jobs for a machine of `procs` processors; equal arguments give equal logs.

    Jobs, users and requests draw from separate random streams, so that changing one option keeps the others' draws.
    The arguments are those of `generate_workload`; batch jobs get queue 1, interactive ones queue 0.
    """
    if users < 1:
        raise WorkloadError(f"{users} users; there must be at least one")
    of_jobs, of_users, of_requests = np.random.default_rng(seed).spawn(3)
    jobs = lublin_jobs(n_jobs, procs, of_jobs, kind=kind)
    columns: dict[str, NDArray[np.float64]] = {
        "job": np.arange(1.0, n_jobs + 1),
        "submit_s": jobs.submit_s,
        "runtime_s": jobs.runtime_s,
        "procs": jobs.procs.astype(np.float64),
        "requested_procs": jobs.procs.astype(np.float64),
        "status": np.full(n_jobs, float(COMPLETED)),
        "user": synthetic_users(n_jobs, users, of_users),
    }
    if kind != "all":
        columns["queue"] = np.full(n_jobs, 1.0) if kind == "batch" else jobs.kind.astype(np.float64)
    note = ""
    if requests == "exact":
        columns["requested_s"] = jobs.runtime_s
        note = "Note: requested times are the run times"
    elif requests == "tsafrir":
        columns["requested_s"], raised = requested_times(jobs.runtime_s, of_requests, longest_s=longest_request_s)
        note = f"Note: requested times by Tsafrir's model (2005), {raised} of them raised to the longest to fit"
    log = new_log((), columns)
    factor = interarrival
    if load is not None:
        log, factor = at_load(log, procs, load)
    elif interarrival != 1:
        log = stretch(log, interarrival)
    header = [
        "Version: 2.2",
        f"Computer: synthetic, {procs} processors",
        "Information: Lublin-Feitelson model of rigid jobs (2003)",
        f"MaxJobs: {n_jobs}",
        f"MaxRecords: {n_jobs}",
        f"MaxNodes: {procs}",
        f"MaxProcs: {procs}",
        f"Note: made by batfill {__version__} workload generate, seed {seed}, kind {kind}, {users} users",
        f"Note: times between submissions multiplied by {factor:.6g}",
        *([note] if note else []),
    ]
    return new_log(header, {name: log[name] for name in columns})


def synthetic_users(n_jobs: int, users: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """A user for each job: user k has weight 1 / k, half of the jobs have the previous one's; not a published model."""
    weight = 1 / np.arange(1, users + 1)
    drawn = (1 + rng.choice(users, size=n_jobs, p=weight / weight.sum())).astype(np.float64)
    stays = rng.random(n_jobs) < SESSION
    stays[0] = False
    return drawn[np.maximum.accumulate(np.where(stays, 0, np.arange(n_jobs)))]


# Jobs: the Lublin-Feitelson model

BUCKET_S = 1800  # arrivals are counted per half hour
BUCKETS = 48
DAY_STARTS = 11  # the daily cycle runs from this half hour to the same one on the next day
LONGEST_LOG_RUNTIME = 12.0  # no run time beyond exp(12) s, about two days
LONGEST_LOG_GAP = 13.0  # no gap beyond exp(13) s, about five days


@dataclass(frozen=True, slots=True)
class JobKind:
    """The model's parameters for one kind of job, named as in the paper.

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
        """The parameters for another machine: the largest size follows it, and the middle one keeps its distance."""
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
SINGLE_MODEL = JobKind(
    serial=0.244, pow2=0.576, low=0.8, med=4.5, high=7, first_stage=0.86,
    a1=4.2, b1=0.94, a2=312, b2=0.03, pa=-0.0054, pb=0.78,
    a_gap=10.2303, b_gap=0.4871, rush_to_all=1.0225, a_day=8.1737, b_day=3.9631,
)  # fmt: skip
KINDS: dict[Kind, tuple[JobKind, ...]] = {
    "all": (SINGLE_MODEL,),
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
    kind: NDArray[np.int64]  # index into KINDS[kind] of the parameters a job was drawn from


def lublin_jobs(n_jobs: int, procs: int, rng: np.random.Generator, *, kind: Kind = "all") -> ModelJobs:
    """`n_jobs` jobs of the model for a machine of `procs` processors; "both" merges batch and interactive jobs."""
    if procs < 2 or n_jobs < 1:
        raise WorkloadError(f"the model needs at least 2 processors and 1 job, not {procs} and {n_jobs}")
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
    """Whole seconds per job; wider jobs more often draw from the second, longer gamma distribution."""
    log: NDArray[np.float64] = np.full(len(procs), np.inf)
    from_first = np.clip(kind.pa * procs + kind.pb, 0, 1)
    while len(again := np.flatnonzero(log > LONGEST_LOG_RUNTIME)):
        first = rng.random(len(again)) <= from_first[again]
        log[again] = rng.gamma(np.where(first, kind.a1, kind.a2), np.where(first, kind.b1, kind.b2))
    return np.floor(np.exp(log))


def arrivals(kind: JobKind, n_jobs: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Arrivals in whole seconds from midnight, ascending: rush-hour gaps, stretched in quieter hours."""
    log: NDArray[np.float64] = np.full(n_jobs, np.inf)
    while len(again := np.flatnonzero(log > LONGEST_LOG_GAP)):
        log[again] = rng.gamma(kind.a_gap * kind.rush_to_all, kind.b_gap, len(again))
    passed = np.cumsum(np.exp(log)) / BUCKET_S  # in half hours of mean activity
    activity = np.concatenate([[0.0], np.cumsum(daily_cycle(kind))])
    days, within = np.divmod(passed, activity[-1])
    return np.floor((days * BUCKETS + np.interp(within, activity, np.arange(BUCKETS + 1))) * BUCKET_S)


def daily_cycle(kind: JobKind) -> NDArray[np.float64]:
    """The activity of each half hour from midnight, shape (48,), mean 1."""
    place = np.arange(DAY_STARTS, DAY_STARTS + BUCKETS, dtype=np.float64)
    share = gamma_below(kind.a_day, (place + 0.5) / kind.b_day) - gamma_below(kind.a_day, (place - 0.5) / kind.b_day)
    cycle = np.empty(BUCKETS, np.float64)
    cycle[(place.astype(np.int64) - 1) % BUCKETS] = share
    cycle /= cycle.mean()
    return cycle


def gamma_below(shape: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability that a gamma variable of this shape and scale 1 is below each of x > 0, by its power series.

    All terms are positive, so nothing cancels: accurate to about 1e-15 for x below 30. Source: Abramowitz and Stegun,
    6.5.29.
    """
    term: NDArray[np.float64] = np.exp(shape * np.log(x) - x - math.lgamma(shape + 1))
    total = term
    divisor = shape
    while (term > total * 1e-17).any():
        divisor += 1
        term = term * x / divisor
        total = total + term
    return total


# Requested times: Tsafrir's model

MINUTE_S = 60
POPULAR = 20  # popular values
HEAD_SHARE = 0.89  # share of the jobs that use one of them
# Popular in all four logs examined, in addition to the longest.
COMMON_S = tuple(m * MINUTE_S for m in (5, 10, 15, 20, 30)) + tuple(
    h * HOUR_S for h in (1, 2, 3, 4, 5, 6, 8, 10, 12, 18)
)
# Multiples of these, from the longest down, complete the popular values to twenty.
ROUND_S = tuple(h * HOUR_S for h in (200, 100, 50, 10, 5, 2, 1)) + tuple(m * MINUTE_S for m in (20, 10, 5))
# Number of distinct values by number of jobs: (jobs, values), linear between.
VALUES_BY_JOBS = ((0, 0), (20, 10), (200, 20), (1_000, 35), (10_000, 90), (70_000, 340), (250_000, 565))
# Popularity rank of each popular value (the longest, then the others ascending) on SDSC-SP2, CTC, KTH and SDSC-BLUE.
RANKS = (
    (3, 1, 4, 17, 13, 7, 8, 18, 2, 6, 16, 10, 5, 15, 14, 19, 11, 12, 9, 20),
    (1, 3, 4, 2, 12, 9, 8, 18, 6, 7, 11, 20, 16, 5, 14, 13, 10, 15, 17, 19),
    (1, 4, 10, 14, 20, 2, 3, 7, 12, 6, 19, 5, 18, 16, 9, 17, 15, 13, 8, 11),
    (1, 6, 5, 3, 7, 2, 18, 19, 4, 11, 20, 9, 10, 14, 13, 16, 15, 17, 8, 12),
)


class Requested(NamedTuple):
    """A request per job, shape (n_jobs,), and the number raised to the longest for lack of long enough ones."""

    requested_s: NDArray[np.float64]
    raised: int


def requested_times(
    runtime_s: NDArray[np.float64], rng: np.random.Generator, *, longest_s: float | None = None
) -> Requested:
    """Requests for these run times, none below its run time.

    The longest is by default the longest run time rounded up to hours.
    """
    most = float(runtime_s.max())
    if longest_s is None:
        longest_s = max(HOUR_S * np.ceil(most / HOUR_S), HOUR_S)
    if longest_s < HOUR_S or longest_s < most:
        raise WorkloadError(
            f"a longest request of {longest_s:g} s; it must reach an hour and the longest run ({most:g} s)"
        )
    values, shares = request_distribution(len(runtime_s), int(longest_s), rng)
    counts = _shares_to_counts(shares, len(runtime_s))
    requests = np.sort(np.repeat(values, counts).astype(np.float64))[::-1]
    longest_first = np.argsort(-runtime_s, kind="stable")
    sorted_runtime_s = runtime_s[longest_first]
    short = requests < sorted_runtime_s
    requests = np.sort(np.where(short, longest_s, requests))[::-1]
    requested_s = np.empty(len(runtime_s))
    requested_s[longest_first] = _deal(requests, sorted_runtime_s, rng)
    return Requested(requested_s, int(short.sum()))


def request_distribution(
    n_jobs: int, longest_s: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The values that `n_jobs` jobs request, in seconds, and the share of the jobs for each (summing to 1)."""
    head = popular_values(longest_s)
    jobs, values = zip(*VALUES_BY_JOBS, strict=True)
    n_tail = max(round(float(np.interp(n_jobs, jobs, values))) - len(head), 0)
    tail = _rare_values(head, n_tail, longest_s)
    rank = np.arange(2, len(head) + 1)
    others = (14.0491 * np.exp(-0.177531 * rank) + 0.462513) / 100
    by_rank = np.sort(np.concatenate([[HEAD_SHARE - others.sum()], others]))[::-1]
    rare = rng.permutation(np.arange(POPULAR + 1, POPULAR + 1 + len(tail), dtype=np.float64) ** -2.267)
    rare *= (1 - HEAD_SHARE) / rare.sum() if len(tail) else 0
    shares = np.concatenate([by_rank[_popularity(len(head), rng) - 1], rare])
    return np.concatenate([head, tail]), shares / shares.sum()


def popular_values(longest_s: int) -> NDArray[np.int64]:
    """Up to twenty popular values: the longest, then the others ascending."""
    chosen = {longest_s: None} | {value: None for value in COMMON_S if value < longest_s}
    candidates = (
        multiple for step in ROUND_S for multiple in range(longest_s // step * step, 0, -step) if multiple not in chosen
    )
    for value in candidates:
        if len(chosen) >= POPULAR:
            break
        chosen[value] = None
    return np.array([longest_s, *sorted(set(chosen) - {longest_s})])


def _popularity(n_values: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A rank for each popular value, drawn from the ranks at its place in the four logs; the longest comes first."""
    last_place = {rank: max(log.index(rank) for log in RANKS) for rank in range(1, POPULAR + 1)}
    free = set(range(2, POPULAR + 1))
    ranks = [1]
    pool = [log[0] for log in RANKS]
    for place in range(1, POPULAR):
        pool = [rank for rank in (*pool, *(log[place] for log in RANKS)) if rank in free]
        due = [rank for rank in sorted(free) if last_place[rank] <= place]
        # the more popular of two draws wins: short values are the popular ones
        rank = due[0] if due else min(pool[i] for i in rng.integers(len(pool), size=2))
        ranks.append(rank)
        free.remove(rank)
    kept = np.array(ranks[:n_values])
    return kept.argsort().argsort() + 1  # fewer than twenty values take the first ranks


def _rare_values(head: NDArray[np.int64], n_tail: int, longest_s: int) -> NDArray[np.int64]:
    """Unpopular values on whole minutes (or 10, 20, 30 s off if a minute is taken), denser among short ones."""
    taken = set(head.tolist())
    bend = 1 + 12.1039 * float(n_tail + len(head)) ** -0.6026
    tail = []
    for place in range(1, n_tail + 1):
        x = place / n_tail
        minute = round((bend - 1) * x / (bend - x) * longest_s / MINUTE_S) * MINUTE_S
        for off in (0, 30, -30, 20, -20, 10, -10):
            value = minute + off
            if 0 < value < longest_s and value not in taken:
                taken.add(value)
                tail.append(value)
                break
    return np.array(tail, np.int64)


def _shares_to_counts(shares: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Whole numbers near shares x total that sum to total: the largest remainders are rounded up."""
    exact = shares * total
    counts = np.floor(exact).astype(np.int64)
    up = np.argsort(counts - exact, kind="stable")[: total - int(counts.sum())]
    counts[up] += 1
    return counts


def _deal(
    requests: NDArray[np.float64], runtime_s: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """A random request for each job among those that cover it; both are longest first, and request i covers run i."""
    left = requests.tolist()
    covers = np.searchsorted(-requests, -runtime_s, side="right").tolist()  # requests[:covers[j]] >= runtime_s[j]
    for job, draw in enumerate(rng.random(len(left)).tolist()):
        other = job + int(draw * (covers[job] - job))
        left[job], left[other] = left[other], left[job]
    return np.array(left)
