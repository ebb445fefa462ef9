"""When each waiting job is expected to start: estimates from an ensemble, and intervals that past starts calibrate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.files import decompressed, place_of
from batfill.base.tables import JobRows
from batfill.model.options import REQUEST
from batfill.model.values import seed_of
from batfill.replays.engine_replay import EngineReplay
from batfill.replays.replay import options_of
from batfill.replays.result import until_of
from batfill.replays.session import Replay
from batfill_site.starts.ensemble import FORKS, Ensemble, Moment, moment_of
from batfill_site.starts.forecast import MARGIN_S, Estimates, Forecast, Found, State
from batfill_site.starts.past import JOB_SO_FAR, Past
from batfill_site.starts.site_state import SiteState, is_site_state, read_state
from batfill_site.starts.why_not import Instants, reasons

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from batfill.model.jobs import Jobs
    from batfill.model.options import Options
    from batfill.model.policy import Policy
    from batfill.model.rules import Rules

STARTS = (  # of a job that a site's own system let wait
    "nothing here: by these rules it starts now; its batch system has not looked since, or has a limit that they lack"
)
A_DATE = "2024-05-02T10:00 or 2024-05-02T10:00+02:00"
MOST_FORKS = 1001
OF_SLURM = ("past", "accounts", "sshare", "windows", "slurm_version")  # options
HINDCASTS = 200  # past jobs that calibrate the estimates of a single instant


class ForecastOfReplay(Forecast):
    """Estimates for a replay that continues: call `when` each time that the replay has stopped."""

    def __init__(self, run: Replay, *, forks: int = FORKS, seed: int = 0) -> None:
        """Follow a replay from where it has stopped, with all that has ended so far as the past."""
        refuse_kept(run.options)
        refuse_pools(run.options)
        self.run, given = run, run.engine.given
        past = Past(so_far(run.workload.jobs, given.small, given.killable))
        super().__init__(past, Ensemble(forks, seed))
        self.tries, self.over = len(run.engine.tries), 0

    def follow(self) -> None:
        """Take note of what has started and ended since."""
        events, start_s = self.run.engine.events, self.run.engine.queue.jobs["start_s"]
        for row in self.run.engine.tries["row"][self.tries :].tolist():
            if not math.isnan(start_s[row]):
                self.started(row, float(start_s[row]))
        self.tries = len(self.run.engine.tries)
        over = int(events.clock["over"][0])
        rows = events.over[self.over : over]
        rows = rows[start_s[rows] + events.duration_s[rows] <= self.run.now_s]  # the others were killed at a divider
        self.past.ended(rows.tolist(), events.duration_s[rows].tolist())
        self.past.submitted, self.over = self.run.engine.queue.submitted, over

    def when(self, job: str | None = None, now_s: float | None = None) -> Estimates:
        """Estimates for one waiting job, or for all, at `now_s`: by default the last instant processed."""
        self.follow()
        run = self.run
        moment = moment_of(run.engine.queue, run.now_s if now_s is None else now_s)
        jobs, clock = run.workload.jobs, run.workload.clock
        state = State(run.workload.name, jobs, jobs.ids, clock, run.options)
        return estimates_of(self, moment, state, job, moment.waits)


def so_far(jobs: Jobs, small: Any, killable: Any) -> NDArray[np.void]:
    """The jobs of a table as a past in which none has ended."""
    past = np.zeros(len(jobs), JOB_SO_FAR)
    past["submit_s"], past["request_s"], past["procs"] = jobs.submit_s, jobs.expected_s, jobs.procs
    past["user"], past["runtime_s"] = np.unique(jobs.user, return_inverse=True)[1], np.nan
    past["known_user"] = jobs.user >= 0
    past["small"], past["killable"] = small, killable
    return past


def estimates_of(
    forecast: Forecast, moment: Moment, state: State, job: str | None, waits: NDArray[np.bool_]
) -> Estimates:
    """The estimates for one waiting job, or all, with the reasons why they do not start now; those that run start now.

    `waits`, bool (known,), says which jobs waited before the decision that is due.
    """
    instants, asked, ids = Instants(moment.now_s, state.clock), waits, state.names[moment.past_rows]
    if job is not None:
        asked = waits & (ids == str(job))
        if not asked.any():  # a Batsim workload has numbers such as 02124
            asked = waits & np.array([str(name).lstrip("0") == str(job).lstrip("0") for name in ids], bool)
        if not asked.any():
            at = instants.full(moment.now_s)
            raise BatfillError(f"{state.name}: no job {job} waits at {at}; {int(waits.sum()):,} others do")
    start, waits_on = np.flatnonzero(asked & ~moment.waits), asked & moment.waits
    now_s = np.full(len(start), moment.now_s)
    found = Found(moment.past_rows[start], now_s, now_s, now_s + math.exp(forecast.widened[1]) * MARGIN_S)
    why: tuple[str, ...] = (STARTS,) * len(start)
    if waits_on.any():
        both = zip(found, forecast.estimate(moment, waits_on), strict=True)
        found = Found._make(np.concatenate(columns) for columns in both)
        order = np.argsort(found.rows)
        found = Found._make(column[order] for column in found)
        names = dict(zip(moment.rows.tolist(), ids.tolist(), strict=True))
        why += reasons(moment, moment.rows[waits_on].tolist(), names, instants)
        why = tuple(why[place] for place in order)
    size, made = moment.queue.size, forecast.ensemble
    waiting = int(waits.sum())
    return Estimates(found, why, state, moment.now_s, size, waiting, made.forks, made.seed, forecast.calibrated_on)


def when(
    state: Replay | str | Path | Mapping[str, Any] | Iterable[Mapping[str, Any]],
    job: str | None = None,
    *,
    policy: Policy | str | None = None,
    at: Any = None,
    procs: int | None = None,
    forks: int = FORKS,
    seed: int = 0,
    slurm_conf: str | Path | None = None,
    **options: Any,
) -> Estimates:
    """When the waiting jobs of a cluster are expected to start, and why they do not start now.

    The estimates are medians over forks of the state that the engine replays on, with run times drawn from what each
    user's last jobs ran of their requests, and arrivals from the last days. No run time of a job that has not ended is
    read. Intervals are calibrated on the last jobs that have started.

    Args:
        state: a stopped `Replay`, or a file that holds one, whose options hold; a log, which is replayed until `at`; or
            a site's state, in a file or in Python, as `workloads.site_state.read_state` takes it.
        job: the id of one waiting job; None for all.
        policy: of a log or a site's state, as are the next; by default fcfs.
        at: the instant: seconds, or a date; of a site's state by default its own, or the last date in it.
        procs: the machine's processors; by default those that the log or the state names.
        forks: how many; an odd number has a median that is a fork's.
        seed: of what is drawn.
        slurm_conf: the site's. Then its Slurm is modelled, and `state` is a file of what `scontrol show job` prints,
            or `sacct -P`.
        **options: as of `replay`, of which those that predict or learn are refused. With `slurm_conf` as of `slurm`:
            accounts, sshare, windows, slurm_version and timezone, and past: output of `sacct -P` with ended jobs.

    Raises:
        BatfillError: the state cannot be, or an argument does not fit.
    """
    seed = seed_of("seed", seed)
    if isinstance(state, str | Path):
        place_of("state", state)
    elif isinstance(state, JobRows | bytes) != isinstance(state, Replay) or not isinstance(state, Iterable):
        raise BatfillError(f"state: {state!r:.60} is no stopped Replay, file, or list of jobs; give one")
    if isinstance(forks, bool) or not isinstance(forks, int) or not 1 <= forks <= MOST_FORKS:
        raise BatfillError(f"option forks: {forks!r} is not a whole number from 1 to {MOST_FORKS}")
    if slurm_conf is not None:
        from batfill_site.slurm.when import when_under_slurm

        if not isinstance(state, str | Path):
            raise BatfillError(f"state: with slurm_conf it is a file of what Slurm prints, not {state!r:.60}")
        if other := [name for name, value in {"policy": policy, "procs": procs}.items() if value is not None]:
            raise BatfillError(f"option {other[0]}: it belongs to one pool, not to a site's Slurm; leave it out")
        return when_under_slurm(state, job, slurm_conf, at=at, forks=forks, seed=seed, **options)
    if of_slurm := [name for name in OF_SLURM if options.get(name)]:
        raise BatfillError(f"option {of_slurm[0]}: it belongs to a site's Slurm; give its slurm_conf, too")
    if isinstance(state, str | Path) and Path(state).suffix == ".npz":
        state = Replay.load(state)
    if isinstance(state, Replay):
        given = {"policy": policy, "at": at, "procs": procs, **options}
        if other := [name for name, value in given.items() if value is not None]:
            raise BatfillError(f"option {other[0].replace('_', '-')}: a stopped replay has its own; leave it out")
        return when_in_replay(state, job, forks, seed, state.now_s)
    if isinstance(state, str | Path) and not is_site_state(Path(state)):
        if not Path(state).exists():
            raise BatfillError(f"{state}: no such file; give a state of the cluster, or a log")
        if at is None:
            refuse_jobless(Path(state))
            raise BatfillError(f"option at: {state} is a log: give the instant, seconds or a date such as {A_DATE}")
        if options.get("unrequested") == "runtime":
            raise BatfillError(
                "option unrequested: runtime tells what jobs will run; give none, a limit, queue or user-max"
            )
        run = Replay(state, policy, procs=procs, **options)
        return when_in_replay(run, job, forks, seed, run_until(run, at))
    if options.pop("unrequested", None) is not None:
        raise BatfillError("option unrequested: a job of a site's state without a request has no limit; leave it out")
    chosen = options_of(policy, options)
    if chosen.learns or chosen.kills:
        name = "predict" if chosen.predict != REQUEST else "small"
        raise BatfillError(
            f"option {name}: a site's state does not say which jobs are in their first tries, or what was predicted; "
            "leave it out, or replay a log"
        )
    refuse_kept(chosen)
    refuse_pools(chosen)
    if chosen.calendar is not None:
        raise BatfillError("option calendar: its dates count from a log's begin, and a site's state has none")
    site = read_state(state, at=at, procs=procs)
    chosen.require_classes(site.jobs, site.name)
    chosen.require_taken(site.jobs, site.name)
    return when_at_site(site, job, chosen, forks, seed)


def refuse_pools(options: Options) -> None:
    """Refuse pools, as no state says what jobs take, and gates, which are not forecast."""
    if options.pool is not None:
        raise BatfillError(
            "option pool: an expected start is of processors, as no state says what else jobs take; leave it out"
        )
    if options.energy_budget is not None:
        raise BatfillError("option energy-budget: an expected start knows no budget; leave it out")
    if options.backfill_while is not None:
        raise BatfillError("option backfill-while: an expected start knows no gate; leave it out")


def refuse_kept(options: Options) -> None:
    """Refuse a reservation that is kept: a forecast, and the reasons why a job waits, make it anew."""
    if options.keeps:
        raise BatfillError("option reservation: a forecast makes the head's reservation anew; leave kept out")


def refuse_jobless(path: Path) -> None:
    """Refuse what can hold no log: a file of blank lines, comments, or a header alone."""
    with decompressed(path) as content:
        said = (line.strip() for line in content)
        first = next((line for line in said if line and line[:1] not in b";#"), None)
        if first is None:
            what = "holds comments at most, and no job" if content.tell() else "is empty"
        elif b"State" in first.split(b"|") and not any(said):
            what = "holds the names of columns, and no job"
        else:
            return
    raise BatfillError(f"{path}: {what}; give a state of the cluster, or a log")


def run_until(run: Replay, at: Any) -> float:
    """Replay a log up to an instant, seconds or a date in any form, and return its second."""
    clock = run.workload.clock
    try:
        date = datetime.fromisoformat(at.strip()) if isinstance(at, str) and "-" in at.strip()[1:] else at
        instant_s = until_of("at", date, clock)
    except (BatfillError, ValueError):
        form = "seconds, as it has no dates" if clock is None else f"seconds, or a date such as {A_DATE}"
        raise BatfillError(f"option at: {at!r} is no instant of {run.workload.name}; give {form}") from None
    if instant_s < 0 or (run.run(until_s=instant_s).ended and instant_s > run.now_s):
        instants = Instants(0.0, clock)
        first, last = (f"{instants.full(s)} ({s:.0f} s)" for s in (0.0, run.run().now_s))
        raise BatfillError(f"option at: {at} is beyond {run.workload.name}, which goes from {first} to {last}")
    return instant_s


class Course(NamedTuple):
    """How a machine's jobs went; columns of shape (n_jobs,)."""

    jobs: Jobs
    start_s: NDArray[np.float64]  # nan or later than now for those that have not started
    end_s: NDArray[np.float64]  # not finite or later than now for those that have not ended
    small: NDArray[np.bool_]  # whether each goes before the others
    size: int
    rules: Rules
    known_from_s: float  # from when on all jobs are known that ran


def when_in_replay(run: Replay, job: str | None, forks: int, seed: int, now_s: float) -> Estimates:
    """The estimates at `now_s`, before a stopped replay's next event, calibrated on its past."""
    forecast, engine, jobs = ForecastOfReplay(run, forks=forks, seed=seed), run.engine, run.workload.jobs
    if not run.options.kills:  # else the starts of earlier tries are not known
        ended = np.isfinite(engine.start_s)
        ended[engine.queue.running_rows] = False
        end_s = engine.start_s + np.where(ended, engine.events.duration_s, np.inf)
        small = run.options.calls_small(jobs.job_class, jobs.procs, engine.size)
        course = Course(jobs, engine.start_s, end_s, small, engine.size, engine.queue.rules, -math.inf)
        forecast.widened, forecast.calibrated_on = hindcast(course, now_s, forks, seed)
    return forecast.when(job, now_s)


def when_at_site(site: SiteState, job: str | None, options: Options, forks: int, seed: int) -> Estimates:
    """The estimates for a site's state, after the decision that is due."""
    jobs = site.jobs
    small = options.calls_small(jobs.job_class, jobs.procs, site.size)
    # What ended before the first end in the state is not in it.
    known_from_s = float(np.nanmin(site.end_s)) if np.isfinite(site.end_s).any() else math.inf
    course = Course(jobs, site.start_s, site.end_s, small, site.size, options.rules, known_from_s)
    past = Past(so_far(jobs, small, False), len(jobs))
    ended = np.flatnonzero(np.isfinite(site.end_s))
    ended = ended[np.argsort(site.end_s[ended], kind="stable")]
    past.ended(ended.tolist(), (site.end_s - site.start_s)[ended].tolist())
    forecast = Forecast(past, Ensemble(forks, seed))
    forecast.widened, forecast.calibrated_on = hindcast(course, site.now_s, forks, seed)
    moment = moment_at(course, site.now_s)
    waits = moment.waits
    moment.queue.decide(site.now_s)
    if job is not None and (why := site.left_out.get(str(job))):
        raise BatfillError(f"{site.name}: job {job} is left out, as no idle processor would start it: {why}")
    state = State(site.name, jobs, site.names, site.clock, options, site.left_out)
    return estimates_of(forecast, moment, state, job, waits)


def moment_at(course: Course, now_s: float) -> Moment:
    """The state at an instant, after its decision."""
    jobs = course.jobs
    rows = np.flatnonzero((jobs.submit_s <= now_s) & ~(course.end_s <= now_s) & (jobs.procs <= course.size))
    run = EngineReplay(jobs.select(rows), course.size, course.rules, small=course.small[rows])
    run.begin_at(now_s, course.start_s[rows])
    if course.rules.calendar is not None:
        run.queue.change_free(-run.queue.pass_changes(now_s))
    return Moment(now_s, run.queue, np.arange(len(rows)), rows)


def hindcast(course: Course, now_s: float, forks: int, seed: int) -> tuple[NDArray[np.float64], int]:
    """How far intervals must be widened for the last jobs that have waited, and how many these are.

    Args:
        course: the jobs.
        now_s: nothing later is read.
        forks: as for `when`.
        seed: as for `when`.
    """
    jobs, start_s, end_s = course.jobs, course.start_s, np.where(course.end_s <= now_s, course.end_s, np.inf)
    past = Past(so_far(jobs, course.small, False))
    forecast = Forecast(past, Ensemble(forks, seed))
    # Before all jobs are known, the machine looks emptier than it was.
    waited = np.flatnonzero((start_s > jobs.submit_s) & (start_s <= now_s) & (jobs.submit_s >= course.known_from_s))
    begun = waited[np.argsort(start_s[waited], kind="stable")][-HINDCASTS:]
    by_end = np.argsort(end_s, kind="stable")[: int(np.isfinite(end_s).sum())]
    ended = started = 0
    for row in np.sort(begun).tolist():
        at_s = float(jobs.submit_s[row])
        past.submitted = int(np.searchsorted(jobs.submit_s, at_s, side="right"))
        more = int(np.searchsorted(end_s[by_end], at_s, side="right"))
        past.ended(by_end[ended:more].tolist(), (end_s - start_s)[by_end[ended:more]].tolist())
        ended = more
        while started < len(begun) and start_s[begun[started]] <= at_s:
            forecast.started(int(begun[started]), float(start_s[begun[started]]))
            started += 1
        moment = moment_at(course, at_s)
        forecast.estimate(moment, moment.past_rows == row)
    for row in begun[started:].tolist():
        forecast.started(row, float(start_s[row]))
    return forecast.widened, forecast.calibrated_on
