"""When and how every job of a workload ran."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batfill.base.tables import AsDict, ReadOnly, same_values
from batfill.base.words import duration, percent, things
from batfill.engine.records import BY_FAILURE, PREEMPTED
from batfill.model.invariants import require_at_most, require_once
from batfill.model.jobs import Jobs
from batfill.model.limits.calendar import NO_WINDOWS, Calendar
from batfill.model.limits.dates import unreached
from batfill.model.limits.energy import Budget
from batfill.model.limits.gate import Gate
from batfill.model.limits.pools import Pool, rejected, rounded_text
from batfill.model.metrics import TAU_S, Summary, summarize
from batfill.model.values import GATE

HOUR_S = 3600
CLOSE_S = 1e-3
LATER_TRY = re.compile(r"(.+)#([0-9]{1,9})")  # a name made by `try_name`


@dataclass(frozen=True, slots=True)
class Away(AsDict):
    """What a calendar has taken in a run."""

    away_proc_s: float  # processor-seconds of the windows
    overrun_proc_s: float  # of these, those in which jobs still ran there, past what was expected of them
    failed: int  # tries killed by failures
    lost_proc_s: float  # the processor-seconds that these had run

    @property
    def free_proc_s(self) -> float:
        return self.away_proc_s - self.overrun_proc_s

    def as_text(self) -> str:
        away_h, overrun_h, lost_h = (
            value / HOUR_S for value in (self.away_proc_s, self.overrun_proc_s, self.lost_proc_s)
        )
        return (
            f"{away_h:,.1f} processor-hours unavailable, jobs still ran in {overrun_h:,.1f} of them; "
            f"failures killed {self.failed:,} tries ({lost_h:,.1f} processor-hours of work)"
        )


@dataclass(frozen=True, slots=True)
class Use(AsDict):
    """How much of a pool was in use in a run."""

    name: str
    capacity: int  # in whole base units, without windows
    unit: str  # the base unit; empty for pieces
    share: float | None  # in use, of what there was; None for a pool of users, of which each has the capacity
    most: int  # the most in use at once, by one user if it is one of users
    above_s: float  # how long more was in use than there was, after a window had begun
    refused: int  # jobs that want more than the capacity, which are rejected,
    first_refused: str  # and the id of the first; empty if there is none

    def as_text(self) -> str:
        capacity, most = (rounded_text(n, self.unit, beside=self.capacity) for n in (self.capacity, self.most))
        want = f"want{'s' * (self.refused == 1)} more"
        too_much = f"; {things(self.refused, 'job')} {want} (first: {self.first_refused})" if self.refused else ""
        above = f"; {duration(self.above_s)} above what there was" if self.above_s else ""
        if self.share is None:
            return f"{self.name}: at most {most} of {capacity} in use by one user{too_much}"
        return f"{self.name}: {self.share:.2%} of {capacity} in use, at most {most}{above}{too_much}"


@dataclass(frozen=True, slots=True)
class Drawn(AsDict):
    """What a run drew of an energy budget."""

    budget_j: int
    drawn_j: float  # in the period, that of idle machines included
    above_s: float  # how long more was drawn than had become available

    def as_dict(self) -> dict[str, Any]:
        return {**AsDict.as_dict(self), "share": self.drawn_j / self.budget_j}

    def as_text(self) -> str:
        above = f"; {duration(self.above_s)} more than had become available" if self.above_s else ""
        return f"{rounded_text(self.drawn_j, 'J')}, {self.drawn_j / self.budget_j:.2%} of the budget{above}"


@dataclass(frozen=True, slots=True)
class Rushed(AsDict):
    """How urgent jobs fared in a run, and what the others gave for it."""

    jobs: int  # urgent ones that have ended
    at_once: float  # the share of them that started when they came,
    within_minute: float  # within 60 s,
    within_10_minutes: float  # and within 600 s
    mean_wait_s: float
    p99_wait_s: float
    max_wait_s: float
    others: int  # other jobs that have ended
    others_mean_wait_s: float
    others_max_wait_s: float
    preemptions: int  # how often a running job was stopped for an urgent one,
    stopped: int  # how many jobs were,
    most_of_job: int  # how often one job at most,
    most_of_user: int  # and the jobs of one user
    lost_proc_s: float  # the work that had to be done again,
    lost: float  # and its share of the work of the jobs that have ended

    def as_text(self) -> str:
        said = f"{percent(self.at_once)} of {things(self.jobs, 'urgent job')} start at once"
        said += f", {percent(self.within_minute)} in a minute; 99 % of them wait at most {duration(self.p99_wait_s)}"
        said += f", other jobs {duration(self.others_mean_wait_s)} on average" if self.others else ""
        if not self.preemptions:
            return said
        stops = f"{things(self.preemptions, 'stop')} of {things(self.stopped, 'job')}, at most {self.most_of_job} each"
        return f"{said}; {stops}; {self.lost_proc_s / 3600:,.0f} processor-hours done again ({percent(self.lost)})"


@dataclass(frozen=True, slots=True)
class Withdrawn(AsDict):
    """The jobs that were cancelled while they waited at the site; no other figure counts them."""

    jobs: int
    ran: int  # of them, those that had started here
    used_proc_s: float  # and what they used

    def as_text(self) -> str:
        used = f"{self.ran:,} had started, and used {self.used_proc_s / HOUR_S:,.0f} processor-hours"
        return f"{things(self.jobs, 'job')} cancelled while waiting; {used}"


@dataclass(frozen=True, slots=True)
class Open(AsDict):
    """How long a gate let jobs be backfilled in a run."""

    open_s: float
    span_s: float  # from the first submission to the last end

    def as_text(self) -> str:
        return f"open for {self.open_s / self.span_s if self.span_s else 0:.2%} of {duration(self.span_s)}"


@dataclass(frozen=True, slots=True, eq=False)
class Schedule(ReadOnly):
    """When and how every job of a workload ran; columns of shape (n_jobs,) in the job table's order, read-only."""

    jobs: Jobs
    size: int  # m
    start_s: NDArray[np.float64]  # of the final try; nan for a rejected job, or before that start
    backfilled: NDArray[np.bool_]  # whether that try was started by backfilling
    kills: NDArray[np.void]  # engine KILL (n_kills,)  every try killed by the scheduler or a failure, in order of time
    order: NDArray[np.int64]  # (n_tries,)  rows in order of their starts
    until_s: float = np.inf  # the last instant processed, if the replay has not ended
    calendar: Calendar | None = None  # in seconds; None if all processors are always available
    pools: tuple[Pool, ...] = ()  # what jobs take beside processors,
    wants: NDArray[np.int64] | None = None  # (n_jobs, n_pools)  and how much; None without pools
    budget: Budget | None = None  # of energy, in seconds
    gate: Gate | None = None  # on backfilling, in seconds
    checkpoint_s: float = np.inf  # how long jobs run from checkpoint to checkpoint

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return all(same_values(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    def __hash__(self) -> int:
        return hash((self.jobs, self.size, self.until_s))

    def of(self, rows: NDArray[np.bool_]) -> Schedule:
        """When and how these jobs ran beside the others."""
        if rows.all():
            return self
        number, kills = np.cumsum(rows) - 1, self.kills[rows[self.kills["row"]]]
        kills["row"] = number[kills["row"]]
        return replace(
            self,
            jobs=self.jobs.select(rows),
            start_s=self.start_s[rows],
            backfilled=self.backfilled[rows],
            kills=kills,
            order=number[self.order[rows[self.order]]],
            wants=None if self.wants is None else self.wants[rows],
        )

    @property
    def submit_s(self) -> NDArray[np.float64]:
        return self.jobs.submit_s

    @property
    def wait_s(self) -> NDArray[np.float64]:
        """From submission to the start of the final try, less what was kept of others; nan before, and if cancelled."""
        return np.where(self.jobs.is_cancelled, np.nan, self.start_s - self.submit_s - self.done_s)

    def kept_of(self, kills: NDArray[np.void]) -> NDArray[np.float64]:
        """What tries that were stopped had done at their last checkpoints, (n_kills,)."""
        ran_s: NDArray[np.float64] = kills["ran_s"]
        return np.floor(ran_s / self.checkpoint_s) * self.checkpoint_s if self.checkpoint_s < np.inf else 0 * ran_s

    @property
    def done_s(self) -> NDArray[np.float64]:
        """What each job had done at its last checkpoint before its final try."""
        return np.bincount(self.kills["row"], self.kept_of(self.kills), len(self.jobs)).astype(np.float64)

    def lost_proc_s(self, why: int | None = None) -> float:
        """The work of tries that were stopped for this reason, or for any, which has to be done again."""
        of = self.kills["why"] == (self.kills["why"] if why is None else why)
        return float(((self.kills["ran_s"] - self.kept_of(self.kills)) * self.jobs.procs[self.kills["row"]])[of].sum())

    def limits(self) -> list[tuple[str, Any]]:
        """What came of each rule beside the order in this run, behind its name; each has `as_dict` and `as_text`."""
        found = [
            ("cancelled", self.withdrawn() if self.left.any() else None),
            ("urgent", self.rushed()),
            ("calendar", None if self.calendar is None else self.away()),
            *(("pool", use) for use in self.uses()),
            ("energy", self.drawn()),
            ("gate", self.opened()),
        ]
        return [(name, one) for name, one in found if one is not None]

    def rushed(self) -> Rushed | None:
        """How urgent jobs and others fared, of those that have ended; None without an urgent one."""
        urgent, ended = self.jobs.urgent, self.ended
        if urgent is None or not (urgent & ended).any():
            return None
        wait_s, others_s = self.wait_s[urgent & ended], self.wait_s[~urgent & ended]
        stopped = self.kills["row"][self.kills["why"] == PREEMPTED]
        per_job, users = np.bincount(stopped, minlength=len(self.jobs)), self.jobs.user[stopped]
        work_proc_s = float((self.runtime_s * self.jobs.procs)[ended].sum())
        return Rushed(
            len(wait_s),
            float((wait_s <= 0).mean()),
            float((wait_s <= 60).mean()),
            float((wait_s <= 600).mean()),
            float(wait_s.mean()),
            float(np.quantile(wait_s, 0.99)),
            float(wait_s.max()),
            len(others_s),
            float(others_s.mean()) if len(others_s) else 0.0,
            float(others_s.max(initial=0)),
            len(stopped),
            int((per_job > 0).sum()),
            int(per_job.max(initial=0)),
            int(np.bincount(users[users >= 0]).max(initial=0)),
            self.lost_proc_s(PREEMPTED),
            self.lost_proc_s(PREEMPTED) / work_proc_s if work_proc_s else 0.0,
        )

    def withdrawn(self) -> Withdrawn:
        ran = self.left & self.over
        return Withdrawn(int(self.left.sum()), int(ran.sum()), float((self.runtime_s * self.jobs.procs)[ran].sum()))

    def unreached(self) -> list[str]:
        dated = {"calendar": self.calendar, "backfill-while": self.gate, "energy-budget": self.budget}
        return unreached(dated, self.span()[1])

    def missed(self) -> list[str]:
        """A line about the jobs that fit no gap between windows, as `Calendar.missed`; none without any."""
        if self.calendar is None:
            return []
        found = self.calendar.missed(self.jobs, self.size, self.pools, self.submit_s, self.start_s)
        if not found:
            return []
        first, longest = self.jobs.ids[found[0]], duration(float(self.wait_s[found].max()))
        return [
            f"calendar: {things(len(found), 'job')} (first: {first}) waited until its windows were over, up to "
            f"{longest}: they leave less than such a job wants, and the gaps between them are shorter than its request"
        ]

    def opened(self) -> Open | None:
        """How long the gate was open; None without one."""
        if self.gate is None:
            return None
        from_s, until_s = self.span()
        return Open(abs(self.gate.away_proc_s(from_s, until_s, GATE)), until_s - from_s)

    def span(self) -> tuple[float, float]:
        """The first submission and the last end of the jobs that have ended; zeros without any."""
        ran = self.over
        return (float(self.submit_s[ran].min()), float(self.end_s[ran].max())) if ran.any() else (0.0, 0.0)

    @property
    def over(self) -> NDArray[np.bool_]:
        """The jobs whose final try has ended."""
        return self.end_s <= self.until_s

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Of these, those that figures count: all but those that their users cancel."""
        return self.over & ~self.jobs.is_cancelled

    @property
    def left(self) -> NDArray[np.bool_]:
        """The jobs that their users cancel, once that is over."""
        return self.jobs.is_cancelled & ~self.rejected & ((self.jobs.cancel_s <= self.until_s) | self.over)

    @property
    def rejected(self) -> NDArray[np.bool_]:
        """The jobs wider than the machine, and those that want more of a pool than there is."""
        if self.wants is None:
            return self.jobs.procs > self.size
        return rejected(self.jobs, self.size, self.pools, self.wants)

    @property
    def runtime_s(self) -> NDArray[np.float64]:
        """The run time: min(p, p~), or until the job is cancelled."""
        runtime_s = np.minimum(self.jobs.runtime_s, self.jobs.walltime_s)
        if self.jobs.cancel_after_s is None:
            return runtime_s
        return np.fmin(runtime_s, self.jobs.cancel_s - self.start_s + self.done_s)

    @property
    def end_s(self) -> NDArray[np.float64]:
        """End of the final try; nan for a job without one."""
        return np.minimum(self.start_s + self.runtime_s - self.done_s, self.jobs.cancel_s)

    @property
    def killed(self) -> NDArray[np.bool_]:
        """The jobs killed at their walltime, as Batsim sees it: p >= p~.

        With p = p~ a job that ends computing ends by itself, and all do if the log's own end is kept.
        """
        cut = self.jobs.runtime_s > self.jobs.walltime_s
        if not self.jobs.own_end:
            at_it = self.jobs.runtime_s == self.jobs.walltime_s
            cut |= at_it if self.jobs.computing is None else at_it & ~self.jobs.computing
        return cut & ~self.rejected & ~self.jobs.is_cancelled

    @property
    def failed(self) -> NDArray[np.bool_]:
        """The jobs that end by themselves with another return code than 0."""
        if self.jobs.fails is None:
            return np.zeros(len(self.jobs), bool)
        return self.jobs.fails & ~self.killed & ~self.rejected

    def close_ends(self) -> list[str]:
        """A line on ends of computing jobs so close to each other that Batsim may report them apart, or none."""
        if self.jobs.computing is None:
            return []
        ends_s = np.sort(self.end_s[self.ended & self.jobs.computing & ~self.killed])
        close = np.diff(ends_s, prepend=-np.inf, append=np.inf) <= CLOSE_S
        if not (n := int((close[1:] | close[:-1]).sum())):
            return []
        return [
            f"{n:,} ends of computing jobs fell within a millisecond of another: Batsim may report those of one second "
            "in several messages, which may change starts"
        ]

    @property
    def requeued(self) -> NDArray[np.bool_]:
        again = np.zeros(len(self.jobs), bool)
        again[self.kills["row"]] = True
        return again

    def summary(self, tau_s: float = TAU_S) -> Summary:
        """The figures over the jobs that have ended, and the rejected and killed jobs so far."""
        ran, used = self.ended, self.over
        submitted = self.submit_s <= self.until_s
        figures = summarize(
            size=self.size,
            submit_s=self.submit_s[used],
            start_s=(self.submit_s + (self.start_s - self.submit_s - self.done_s))[used],
            runtime_s=self.runtime_s[used],
            procs=self.jobs.procs[used],
            counted=ran[used],
            tau_s=tau_s,
            rejected=int((self.rejected & submitted).sum()),
            killed=int((self.killed & ran).sum()),
            backfilled=int((self.backfilled & ran).sum()),
            requeued=len(self.kills),
            wasted_proc_s=self.lost_proc_s(),
            away_proc_s=0.0 if self.calendar is None else self.away().free_proc_s,
        )
        if self.until_s == np.inf:
            require_once(figures.jobs + int(self.left.sum()), len(self.jobs))
            require_at_most(
                "the utilisation", figures.utilisation, 1.0, lambda: self.runtime_s * self.jobs.procs, self.jobs.ids
            )
        return figures

    def away(self) -> Away:
        """What the calendar has taken, from the first submission to the last end of the jobs that have ended."""
        assert self.calendar is not None
        failed = self.kills[self.kills["why"] == BY_FAILURE]
        if not self.over.any():
            return Away(0.0, 0.0, len(failed), 0.0)
        from_s, until_s = self.span()
        away_proc_s = self.calendar.away_proc_s(from_s, until_s)
        dates, available = self.available()
        lasts_s = np.diff(np.clip(dates, from_s, until_s), append=until_s)
        free_proc_s = float(((self.size - available) * lasts_s).sum())
        return Away(
            away_proc_s,
            away_proc_s - free_proc_s,
            len(failed),
            self.lost_proc_s(BY_FAILURE),
        )

    def available(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Dates, ascending, and how many processors are available from each on: also those of windows with jobs."""
        dates, used, taken = self.over_time("", self.jobs.procs)
        return dates, np.maximum(self.size - taken, used)

    def over_time(
        self, pool: str, amounts: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """Dates, ascending, and from each on what jobs that have ended use of a pool, and what windows take of it.

        `pool`: empty for processors; `amounts`: what the jobs want of it.
        """
        ran = self.over
        at_s, away = (self.calendar or NO_WINDOWS).away(pool)
        at_s = at_s.clip(max=self.end_s[ran].max(initial=0.0))  # later ones are of no account
        dates, steps = self.steps(ran, amounts)
        dates, idle = np.concatenate([at_s, dates]), np.zeros(len(at_s), np.int64)
        in_order = np.argsort(dates, kind="stable")
        used = np.cumsum(np.concatenate([idle, steps])[in_order])
        taken = np.cumsum(np.concatenate([np.diff(away), 0 * steps])[in_order])
        return dates[in_order], used, taken

    def amounts_stated(self) -> dict[str, NDArray[np.float64]]:
        """What jobs state in the fields that pools and the budget read, by field, (n_jobs,); nan for nothing."""
        read = [*self.pools, *([self.budget.pool] if self.budget and self.budget.pool else [])]
        by_field = {pool.reads: pool.stated(self.jobs) for pool in read if pool.reads}
        return {name: values for name, values in sorted(by_field.items()) if np.ndim(values)}

    def steps(self, of: NDArray[np.bool_], amounts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """When tries of these jobs start and end, and by how much each date changes what they use, in no order."""
        whole, killed, kills = amounts[of], amounts[self.kills["row"]], self.kills
        dates = np.concatenate([self.start_s[of], self.end_s[of], kills["start_s"], kills["end_s"]])
        return dates, np.concatenate([whole, -whole, killed, -killed])

    def drawn(self) -> Drawn | None:
        """What was drawn of the energy budget until its end, or the last instant processed; None without one."""
        if self.budget is None:
            return None
        assert self.budget.pool is not None
        budget, watts = self.budget, self.budget.pool.amounts(self.jobs)
        dates, steps = self.steps(~np.isnan(self.start_s), watts)
        until_s = max(min(budget.end, self.until_s), budget.begin)
        dates = np.concatenate([[budget.begin, until_s], dates]).clip(budget.begin, until_s)
        in_order = np.argsort(dates, kind="stable")
        drawn_w = budget.idle_w + np.cumsum(np.concatenate([[0, 0], steps])[in_order])
        lasts_s = np.diff(dates[in_order], append=until_s)
        gains = (budget.rate_w - drawn_w) * lasts_s
        after = np.cumsum(gains)
        least, most = np.minimum(after - gains, after), np.maximum(after - gains, after)
        below = np.where(
            most <= 0,
            least < 0,
            np.divide(-least, most - least, out=np.zeros(len(after)), where=(least < 0) & (most > 0)),
        )
        return Drawn(budget.joules, float((drawn_w * lasts_s).sum()), float((below * lasts_s).sum()))

    def uses(self) -> list[Use]:
        """How pools were used, from the first submission to the last end of jobs that have ended."""
        found: list[Use] = []
        (from_s, until_s), wants = self.span(), () if self.wants is None else self.wants.T
        for pool, amounts in zip(self.pools, wants, strict=True):
            amounts = np.where(pool.of_user & (self.jobs.user < 0), 0, amounts)
            dates, used, taken = self.over_time(pool.name, amounts)
            lasts_s = np.diff(np.clip(dates, from_s, until_s), append=until_s)
            away = (self.calendar or NO_WINDOWS).away_proc_s(from_s, until_s, pool.name)
            there = pool.capacity * (until_s - from_s) - away
            over_s = float(lasts_s[used > pool.capacity - taken].sum())
            share: float | None = float((used * lasts_s).sum()) / there if there > 0 else 0.0
            most = int(used[lasts_s > 0].max(initial=0))
            refused = np.flatnonzero((amounts > pool.capacity) & (self.submit_s <= self.until_s))
            first = str(self.jobs.ids[refused[0]]) if len(refused) else ""
            if pool.of_user:
                share, most, over_s = None, self.most_of_one(amounts), 0.0
            found.append(Use(pool.name, pool.capacity, pool.base, share, most, over_s, len(refused), first))
        return found

    def most_of_one(self, amounts: NDArray[np.int64]) -> int:
        """The most of these amounts that the jobs of one user that have ended held at once."""
        rows = np.concatenate([np.flatnonzero(self.over)] * 2 + [self.kills["row"]] * 2)
        (dates, steps), users = self.steps(self.over, amounts), self.jobs.user[rows]
        in_order = np.lexsort((dates, users))
        last = (np.diff(users[in_order], append=-2) != 0) | (np.diff(dates[in_order], append=-1) != 0)
        return int(np.cumsum(steps[in_order])[last].max(initial=0))
