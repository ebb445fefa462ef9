"""When each waiting job of a site's Slurm is expected to start: forks of the model from its state.

As for one pool (`starts.when`), each fork draws run times from the users' last jobs, and for each day to come the
arrivals of one of the last days; here it also draws when the controller makes its passes. Jobs that run hold their
nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import BatfillError
from batfill.model.jobs import DAY_S, Clock, job_table
from batfill.model.options import Options
from batfill.replays.many import in_threads
from batfill_site.accounting.record_text import zone_of
from batfill_site.slurm.arrays import with_usage_at
from batfill_site.slurm.conf import read_site
from batfill_site.slurm.ensemble import clocks
from batfill_site.slurm.model import Model
from batfill_site.slurm.now import read_now
from batfill_site.slurm.site import Bools, Floats, Site, SlurmJobs
from batfill_site.starts.ensemble import DAYS, DAYS_AHEAD, FORKS, Ensemble
from batfill_site.starts.forecast import FEWEST_STARTS, OUTSIDE, WIDENED, Estimates, Forecast, Found, State
from batfill_site.starts.past import JOB_SO_FAR, Past

INSTANTS, HINDCAST_FORKS = 24, 11  # in the past, on which intervals are calibrated, and the forks of each
LEAST = 0.05  # an interval is not narrower than so much of the forks'
WHY = {
    "Resources": "it is the first of its partition, and what it needs is not free (Resources)",
    "Priority": "jobs of higher priority wait for the same nodes (Priority)",
}
NO_REASON = "Slurm has not looked at it yet"
MORE = 4  # times more days of arrivals if they do not suffice


class Moment(NamedTuple):
    """The jobs that wait or run at an instant, in order of submission."""

    now_s: float
    rows: NDArray[np.intp]  # (known,)
    waits: Bools  # (known,)
    jobs: dict[str, Floats]  # their "start_s", nan for those that wait
    queue: None = None  # of one pool

    @property
    def past_rows(self) -> NDArray[np.intp]:
        """Their rows in the past, which are the same."""
        return self.rows


class Forks(Ensemble):
    """Forks of a site's Slurm."""

    def __init__(self, site: Site, jobs: SlurmJobs, now_s: float, forks: int, seed: int) -> None:
        """Of all jobs that are known at `now_s`, the date of the site's usage; its rows are those of the past."""
        super().__init__(forks, seed)
        self.site, self.all, self.at_s = site, jobs, now_s

    def site_at(self, now_s: float) -> Site:
        """The site with the usage of this date: its own, or else what earlier jobs left."""
        if now_s == self.at_s and any(each.usage for each in self.site.associations):
            return self.site
        return with_usage_at(self.site, self.all, now_s)

    def starts(self, moment: Any, past: Past, asked: Bools) -> Floats:
        """When the jobs asked for, bool (known,), start in each fork, shape (forks, n)."""
        random = np.random.default_rng([self.seed, int(moment.now_s * 1000)])
        drawn_s = self.durations(moment, past, random)
        age_s = moment.now_s - float(self.all.submit_s[0])
        span_s, most = min(DAY_S, age_s), int(min(max(1, age_s // DAY_S), DAYS))  # a day, fewer if the past is shorter
        days = random.integers(1, most + 1, (self.forks, DAYS_AHEAD))
        site = self.site_at(moment.now_s)
        dates = clocks(site, self.all, self.forks, int(random.integers(2**31)), moment.now_s)
        found, left, ahead = np.full(drawn_s.shape, np.nan), np.arange(self.forks), 1

        def fork(k: int) -> Floats:
            """The starts of the known jobs in one fork, (known,)."""
            coming = days[k, : ahead if span_s else 0].tolist()
            jobs = self.jobs(moment, past, coming, span_s, drawn_s[k])
            running, wanted = np.zeros((2, len(jobs)), bool)
            running[: len(asked)], wanted[: len(asked)] = ~moment.waits, asked
            return Model(site, jobs, running, moment.now_s).run(dates[k], asked=wanted).start_s[: len(asked)]

        while len(left):
            found[left] = in_threads(fork, left.tolist())
            sure_s = moment.now_s + ahead * DAY_S  # later starts lack arrivals; a shorter past comes again but once
            late = ~(found[left][:, asked] <= sure_s).all(axis=1)
            left, ahead = left[late] if ahead < DAYS_AHEAD else left[:0], min(MORE * ahead, DAYS_AHEAD)
        return found[:, asked]

    def jobs(self, moment: Any, past: Past, days: list[int], span_s: float, drawn_s: Floats) -> SlurmJobs:
        """The jobs of a fork: those known, and again the arrivals of so many `days` ago on the days to come."""
        rows, later_s = [moment.rows], [np.zeros(len(moment.rows))]
        for ahead, ago in enumerate(days):
            edges = moment.now_s - ago * span_s, moment.now_s - (ago - 1) * span_s
            rows.append(np.arange(*np.searchsorted(self.all.submit_s, edges, side="right")))
            later_s.append(np.full(len(rows[-1]), (ago + ahead) * span_s))
        row, by_s = np.concatenate(rows), np.concatenate(later_s)
        jobs, run_s = self.all.select(row), past.jobs["runtime_s"][row]
        run_s[: len(drawn_s)] = drawn_s
        run_s = np.where(np.isnan(run_s), jobs.limit_s, run_s)
        return replace(jobs, submit_s=jobs.submit_s + by_s, eligible_s=jobs.eligible_s + by_s, run_s=run_s)


def moment_at(jobs: SlurmJobs, end_s: Floats, now_s: float) -> Any:
    """The state at an instant; what has been submitted and is not eligible yet waits, too."""
    rows = np.flatnonzero((jobs.submit_s <= now_s) & ~(end_s <= now_s) & ~(jobs.held & ~(jobs.started_s <= now_s)))
    waits = ~(jobs.started_s[rows] <= now_s)
    return Moment(now_s, rows, waits, {"start_s": np.where(waits, np.nan, jobs.started_s[rows])})


def past_of(jobs: SlurmJobs) -> Past:
    """The jobs as a past in which none has ended."""
    past = np.zeros(len(jobs), JOB_SO_FAR)
    past["submit_s"], past["request_s"], past["procs"] = jobs.submit_s, jobs.limit_s, jobs.cpus
    users = np.array(jobs.user, object)
    past["user"], past["known_user"], past["runtime_s"] = np.unique(users, return_inverse=True)[1], users != "", np.nan
    return Past(past, len(jobs))


def forecast_at(site: Site, jobs: SlurmJobs, end_s: Floats, now_s: float, forks: int, seed: int) -> Forecast:
    """A forecast at `now_s` that knows what has ended by then.

    The intervals are calibrated on past instants. Each is `middle` - x to `middle` + y in the forks; of the jobs that
    waited at these instants, a tenth started before `middle` - a x, and a tenth after `middle` + b y. These a and b
    stretch the intervals.

    Args:
        site: with the usage at `now_s`; without any, what the jobs that have run left of it.
        jobs: those submitted by then.
        end_s: when each ended, (n_jobs,); nan if it has not.
        now_s: a Unix time.
        forks: how many.
        seed: of what they draw.
    """
    forecast = Forecast(past_of(jobs), Forks(site, jobs, now_s, min(forks, HINDCAST_FORKS), seed))
    forecast.widened = np.zeros(2)
    by_end = np.argsort(end_s, kind="stable")[: int(np.isfinite(end_s).sum())]
    # Before all jobs are known, the machine looks emptier than it was.
    since = np.flatnonzero(jobs.submit_s >= (end_s[by_end[0]] if len(by_end) else np.inf))
    instants = jobs.submit_s[since[np.linspace(0, len(since) - 1, min(INSTANTS, len(since))).astype(int)]].tolist()
    ended, seen, away = 0, set(), [np.zeros((3, 0))]
    for at_s in [*instants, now_s]:
        more = int(np.searchsorted(end_s[by_end], at_s, side="right"))
        forecast.past.ended(by_end[ended:more].tolist(), jobs.run_s[by_end[ended:more]].tolist())
        ended, moment = more, moment_at(jobs, end_s, at_s)
        if at_s < now_s and moment.waits.any():
            rows, middle_s, from_s, to_s = forecast.estimate(moment, moment.waits)
            sides_s = np.minimum(from_s - middle_s, -1), np.maximum(to_s - middle_s, 1)
            begun = jobs.started_s[rows] <= now_s
            start_s = np.where(begun, jobs.started_s[rows], now_s)  # or later
            away.append(np.array([*((start_s - middle_s) / sides_s), begun]))
            seen.update(rows[begun].tolist())
    early, late, begun = np.concatenate(away, axis=1)
    if len(seen) >= FEWEST_STARTS:
        told = early[(begun > 0) | (early <= 0)]  # what may still start early is left out
        sides = quantile_of(told, told < np.inf), quantile_of(late, begun > 0)
        forecast.widened = np.log(np.maximum(sides, LEAST))
        forecast.calibrated_on = len(seen)
    else:
        forecast.widened = np.full(2, WIDENED)
    forecast.ensemble.forks = forks
    return forecast


def quantile_of(values: Floats, known: Bools) -> float:
    """The value that all but `OUTSIDE` do not exceed; those that are not known are larger (Kaplan and Meier 1958)."""
    order = np.lexsort((~known, values))
    left = np.cumprod(1 - known[order] / np.arange(len(values), 0, -1))
    few = left <= OUTSIDE + 1e-9
    return float(values[order][np.argmax(few) if few.any() else -1])


@dataclass(frozen=True, eq=False, repr=False)
class SlurmEstimates(Estimates):
    """Estimates by the model of a site's Slurm."""

    warnings: tuple[str, ...] = ()  # what was assumed

    @property
    def how(self) -> str:
        """How the estimates were made, in a line."""
        on = f"calibrated on {self.calibrated_on:,} starts"
        if not self.is_calibrated:
            on = "not calibrated (too few past starts), so how many starts they hold is unknown; give --past"
        return f"the site's Slurm as configured; {self.forks} simulated futures; intervals {on}."

    def about(self) -> dict[str, Any]:
        """As for one pool, without the options of its scheduler."""
        about = super().about() | {"warnings": list(self.warnings)}
        del about["options"]
        return about


def when_under_slurm(
    state: str | Path,
    job: str | None,
    slurm_conf: str | Path,
    *,
    past: str | Path | Sequence[str | Path] = (),
    at: Any = None,
    forks: int = FORKS,
    seed: int = 0,
    timezone: str | None = None,
    **files: Any,
) -> SlurmEstimates:
    """The estimates for a site's state; see `starts.when.when`."""
    site = read_site(slurm_conf, **files)
    before = [Path(past)] if isinstance(past, str | Path) else list(map(Path, past))
    now = read_now(Path(state), before, site, timezone=timezone, at=at)
    jobs, first_s = now.jobs, math.floor(float(now.jobs.submit_s.min()))
    moment = moment_at(jobs, now.end_s, now.now_s)
    ids = np.array(jobs.ids, object)
    asked = moment.waits if job is None else moment.waits & (ids[moment.past_rows] == str(job))
    if job is not None and not asked.any():
        why = now.left_out.get(str(job))
        raise BatfillError(f"{state}: job {job} {f'is left out: {why}' if why else 'does not wait in it'}")
    forecast = forecast_at(site, jobs, now.end_s, now.now_s, forks, seed)
    nothing = np.zeros(0)
    found = forecast.estimate(moment, asked) if asked.any() else Found(nothing.astype(int), nothing, nothing, nothing)
    shifted = Found(found.rows, *(column - first_s for column in found[1:]))
    table = job_table(
        submit_s=jobs.submit_s - first_s,
        runtime_s=np.maximum(jobs.run_s, 0),
        walltime_s=np.maximum(jobs.limit_s, jobs.run_s),
        request_s=jobs.limit_s,
        procs=jobs.cpus,
        ids=[f"{row:010}" for row in range(len(jobs))],
    )
    zone = zone_of(timezone or "UTC")
    about = State(Path(state).name, table, ids, Clock(first_s, zone), Options.of({}), now.left_out)
    said = (now.reasons[row] for row in found.rows)
    reasons = tuple(WHY.get(each, f"Slurm's reason is {each}" if each else NO_REASON) for each in said)
    how = (site.cpus, int(moment.waits.sum()), forks, seed, forecast.calibrated_on)
    return SlurmEstimates(shifted, reasons, about, now.now_s - first_s, *how, (*site.notes, *jobs.warnings))
