"""Who pays for a choice, or for a limit: how many wait longer, who loses and who gains most, and killed jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.words import in_a_row
from batfill.engine.records import AT_DIVIDER
from batfill.model.jobs import DAY_S, Jobs
from batfill.model.limits.calendar import NO_WINDOWS
from batfill.model.limits.pools import Pool, amount_text
from batfill.model.metrics import RUNTIME_BINS, width_bins
from batfill_pages.comparison import CHANGED_S, FEWEST_JOBS
from batfill_pages.stats import CONFIDENCE, FEWEST_BLOCKS, Paired
from batfill_pages.words import id_in_log
from batfill_site.accounting.outages import most_held

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from batfill.model.schedule import Rushed, Schedule

    Pairing = Callable[[list[NDArray[np.float64]]], list[Paired]]


# Shared options without which fcfs is replayed, too, and those of them that stop jobs.
STOPPING = ("preempt", "preempt-exempt", "requeue-delay", "checkpoint")
LIMITING = ("pool", "energy-budget", "backfill-while", "urgent", *STOPPING)


class Changed(NamedTuple):
    """How many wait less, about as long, and longer."""

    less: int
    same: int
    longer: int

    @classmethod
    def of(cls, longer_s: NDArray[np.float64], by_s: float = CHANGED_S) -> Changed:
        less, longer = int((longer_s < -by_s).sum()), int((longer_s > by_s).sum())
        return cls(less, len(longer_s) - less - longer, longer)

    @property
    def share(self) -> float:
        return self.longer / max(sum(self), 1)


def added(longer_s: NDArray[np.float64], by_s: float = CHANGED_S) -> dict[str, float]:
    """The median and the 95 % quantile of how much longer those wait that do by so much; {} without any."""
    later_s = longer_s[longer_s > by_s]
    return {"median_s": float(np.median(later_s)), "p95_s": float(np.quantile(later_s, 0.95))} if len(later_s) else {}


class OneJob(NamedTuple):
    """A job under a choice and under fcfs. Times in seconds."""

    job: str  # its number in the log
    user: int  # -1 if unknown
    before_s: float  # its wait under fcfs
    after_s: float  # and under the choice


# What jobs are grouped by, and the words of a group.
KINDS = {"user": "user {}", "group": "group {}", "processors": "width {}", "ran for": "runs of {}"}


class Kind(NamedTuple):
    """What jobs are grouped by."""

    of: NDArray[np.int64]  # (n_jobs,)  the group of each; -1 if unknown
    names: Sequence[str] | None = None  # of the groups; None for their numbers

    def name(self, group: int) -> str:
        return str(group) if self.names is None else self.names[group]


def kinds_of(jobs: Jobs, size: int, group: NDArray[np.int64]) -> dict[str, Kind]:
    """By user, group or account, width and run time; `group` is each job's, -1 if unknown."""
    found = {"user": Kind(jobs.user), "group": Kind(group)}
    of = ("processors", width_bins(size), jobs.procs), ("ran for", RUNTIME_BINS, jobs.runtime_s)
    for by, bins, values in of:
        found[by] = Kind(np.searchsorted([one.high for one in bins], values), [one.name for one in bins])
    return found


class OneGroup(NamedTuple):
    """The group of its kind, of at least `FEWEST_JOBS` jobs, whose mean wait changes most. Times in seconds."""

    by: str  # user, group, processors, or "ran for"
    name: str
    words: str
    jobs: int
    before_s: float  # the mean wait under fcfs
    after_s: float  # and under the choice
    chance: bool  # whether the change may be chance, as the largest of its kind

    @property
    def longer_s(self) -> float:
        return self.after_s - self.before_s


def most_changed(groups: Sequence[OneGroup], sign: int) -> dict[str, OneGroup]:
    """Of each kind the group that waits longer (sign 1), or shorter (-1), beyond chance, by the most."""
    sure = sorted((one for one in groups if not one.chance), key=lambda one: sign * one.longer_s)
    most = {one.by: one for one in sure if sign * one.longer_s > 0}
    return {by: most[by] for by in dict.fromkeys(one.by for one in groups) if by in most}


class Kills(NamedTuple):
    """The jobs of which a try was killed."""

    jobs: int
    share: float  # of all jobs
    longer: float  # the share of them that waits longer by `CHANGED_S`


class Payers(NamedTuple):
    """Who pays for a choice, against fcfs, or for a change of Slurm's, beyond its noise."""

    jobs: Changed
    users: Changed | None  # their mean waits, of those with `FEWEST_JOBS`; None without any
    added: dict[str, float]  # see `added`
    job: OneJob | None  # that loses most; None if none waits longer
    losers: list[OneGroup]  # whose mean wait grows most: one of each kind of which one's does
    gainers: list[OneGroup]  # the same of those whose mean wait shrinks most
    killed: Kills | None = None  # None if no try was killed
    by_s: float = CHANGED_S  # longer, and less, by more than this

    @classmethod
    def of(cls, schedule: Schedule, first: Schedule, kinds: Mapping[str, Kind], paired: Pairing) -> Payers:
        """Those of a choice's schedule, all of whose jobs fit the machine; `first` is that of fcfs.

        The change of a group that was chosen as the largest is beyond chance if it is so among all of its kind.
        """
        jobs, longer_s, waits = schedule.jobs, schedule.wait_s - first.wait_s, (first.wait_s, schedule.wait_s)
        most, users, ends = int(np.argmax(longer_s)), None, {1: list[OneGroup](), -1: list[OneGroup]()}
        for by, kind in kinds.items():
            groups, where, each = np.unique(kind.of, return_inverse=True, return_counts=True)
            counted, mean_s = (each >= FEWEST_JOBS) & (groups >= 0), np.bincount(where, weights=longer_s) / each
            if by == "user" and counted.any():
                users = Changed.of(mean_s[counted])
            for sign, found in ends.items():
                changed_s = np.where(counted, sign * mean_s, 0)
                if counted.sum() > 1 and changed_s.max() > 0:
                    rows = where == (k := int(np.argmax(changed_s)))
                    before_s, after_s = (float(wait_s[rows].mean()) for wait_s in waits)
                    name = kind.name(int(groups[k]))
                    (one,) = paired([np.where(rows, longer_s, 0)])
                    chance = one.periods < FEWEST_BLOCKS or one.p * int(counted.sum()) > 1 - CONFIDENCE
                    about = (by, name, KINDS[by].format(name), int(each[k]))
                    found.append(OneGroup(*about, before_s, after_s, chance))
        whose = id_in_log(jobs.ids[most], jobs.name), int(jobs.user[most])
        job = OneJob(*whose, *(float(one[most]) for one in waits)) if longer_s[most] > 0 else None
        return cls(Changed.of(longer_s), users, added(longer_s), job, ends[1], ends[-1], killed(schedule, longer_s))


class Cost(NamedTuple):
    """What limits cost fcfs: the jobs that they allow, under them and without them. Times in seconds."""

    limits: dict[str, str]  # the options and their values
    mean_wait_s: float  # without them,
    max_wait_s: float
    mean_bsld: float
    longer: Paired  # the mean wait under them minus that without
    payers: Payers  # under them, against without
    processors: list[str]  # for how many at once there is enough of each pool or budget that says what one takes
    left_out: int  # jobs that want more than there is,
    left_work: float  # and their share of the processor time
    undone: list[float]  # the share of it that is not run when the last job arrives, under them and without
    used: dict[str, str]  # of each pool the most that the log's own starts used at once, and what there is; {}: unknown
    load: float  # the most that its jobs want of a pool or a budget, as a share of what is in service as they arrive
    rushed: Rushed | None  # how urgent jobs fared, if there are any,
    alone: tuple[float, float, float] | None  # and the first three, and no job is stopped for them; None if none is

    @property
    def label(self) -> str:
        return "Cap" if self.rushed is None else "Urgent"

    @property
    def name(self) -> str:
        names = {"pool": "the cap", "energy-budget": "the budget", "backfill-while": "the gate"}
        return "urgent jobs" if self.rushed is not None else names.get("".join(self.limits), "the limits")

    @property
    def text(self) -> str:
        return in_a_row([value if name == "pool" else f"{name} {value}" for name, value in self.limits.items()])


def used_in_log(schedule: Schedule, jobs: Jobs) -> dict[str, str]:
    """Of each pool of a schedule's machine the most that jobs used at once in the log; {} if a wait is unknown."""
    if jobs.waited_s is None or np.isnan(jobs.waited_s).any():
        return {}
    start_s = jobs.submit_s + jobs.waited_s
    found = {}
    for pool in (pool for pool in schedule.pools if not pool.of_user):
        most = most_held(start_s, start_s + jobs.runtime_s, pool.amounts(jobs))
        amounts = (amount_text(amount, pool.base) for amount in (most, pool.capacity))
        what = "processors" if pool.share is not None and not pool.base else pool.name
        found[pool.name] = f"{' of '.join(amounts)} {what}"
    return found


def load_of(schedule: Schedule) -> tuple[float, list[str]]:
    """The largest share of a pool, or of a budget, that the jobs want while it is there and they arrive.

    And for how many processors there is enough of each, on average of a budget, if it says what one takes.
    """
    jobs, size, budget, calendar = schedule.jobs, schedule.size, schedule.budget, schedule.calendar or NO_WINDOWS
    span_s, pools = np.ptp(jobs.submit_s), [pool for pool in schedule.pools if not pool.of_user]
    taken: list[Any] = [(one, one.capacity, span_s, slice(None), in_service(one, schedule)) for one in pools]
    if budget is not None and budget.pool is not None:
        there, mean_w = (budget.begin <= jobs.submit_s) & (jobs.submit_s < budget.end), budget.joules / budget.span_s
        mean_w -= budget.idle_w
        taken.append((budget.pool, mean_w, budget.span_s, there, mean_w * budget.span_s))
    shares, enough = [0.0], []
    for pool, amount, span_s, rows, product in taken:
        if pool.each and amount >= pool.each * size and not len(calendar.away(pool.name)[0]):
            enough.append(f"enough for all {size:,} processors, so it tests nothing")
            continue
        if span_s >= DAY_S and product > 0:
            shares.append(float((pool.amounts(jobs) * schedule.runtime_s)[rows].sum()) / product)
        if pool.each:
            mean = "mean " * (pool.capacity != amount)
            enough.append(f"{mean}{int(amount / pool.each + 1e-9):,} of {size:,} processors")
    return max(shares), enough


def in_service(pool: Pool, schedule: Schedule) -> float:
    """What there is of a pool while jobs arrive, times the seconds, less what is away, or what idle processors miss."""
    calendar, (from_s, until_s) = schedule.calendar or NO_WINDOWS, schedule.submit_s[[0, -1]]
    (own_s, own), (away_s, away) = calendar.away(pool.name), calendar.away()
    dates_s = np.unique(np.clip([from_s, *own_s, *away_s], from_s, until_s))
    procs = schedule.size - away[np.searchsorted(away_s, dates_s, "right")]
    usable = pool.each * procs if pool.each else np.where(procs > 0, pool.capacity, 0)
    there = np.minimum(pool.capacity - own[np.searchsorted(own_s, dates_s, "right")], usable).clip(0)
    return float(there @ np.diff(dates_s, append=until_s))


def work_of(jobs: Jobs, from_s: NDArray[np.float64] | float = 0.0) -> float:
    """The processor seconds of jobs, without what they run before `from_s` after their starts."""
    ran_s = np.minimum(jobs.runtime_s, jobs.walltime_s)
    return float(np.clip(ran_s - from_s, 0, ran_s) @ jobs.procs)


def killed(schedule: Schedule, longer_s: NDArray[np.float64]) -> Kills | None:
    rows = np.unique(schedule.kills["row"][schedule.kills["why"] == AT_DIVIDER]).astype(np.int64)
    share = len(rows) / len(longer_s)
    return Kills(len(rows), share, float((longer_s[rows] > CHANGED_S).mean())) if len(rows) else None
