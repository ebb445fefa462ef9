"""When each waiting job is expected to start, in a replay, at a site with one pool, or under a site's Slurm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import BatfillError
from batfill.base.files import place_of
from batfill.base.tables import JobRows
from batfill.base.words import things
from batfill.model.jobs import LARGE, SMALL, UNKNOWN, Clock, Jobs, refuse_cancelled
from batfill.model.options import REQUEST, Options
from batfill.model.policy import Policy
from batfill.model.rules import Rules
from batfill.model.values import seed_of
from batfill.replays.engine_replay import EngineReplay
from batfill.replays.replay import options_of
from batfill.replays.result import until_of
from batfill.replays.session import Replay
from batfill.workloads.formats import part_of, source_of
from batfill_pages.words import id_in_log
from batfill_site.fidelity import machine_in
from batfill_site.machine import HEADER, LOG, calendar_of, machine_or_stated
from batfill_site.starts.estimates import Estimates
from batfill_site.starts.forecast import FORKS, MARGIN_S, Fork, calibrated, estimated
from batfill_site.starts.past import Past
from batfill_site.starts.site_state import count_of, is_site_state, read_state
from batfill_site.starts.submit import AT_ONCE, Asked, Check, of_form, questions, said_of, time_of
from batfill_site.starts.why_not import Instants, reasons

STARTS = (  # of a job that a site's own system let wait
    "nothing here: by these rules it starts now; its batch system has not looked since, or has a limit that they lack"
)
A_DATE = "2024-05-02T10:00 or 2024-05-02T10:00+02:00"
MOST_FORKS = 1001
OF_SLURM = ("past", "accounts", "sshare", "windows", "slurm_version")  # options


def when(
    state: Replay | str | Path | Mapping[str, Any] | Iterable[Mapping[str, Any]],
    job: str | None = None,
    *,
    submit: Asked | Iterable[Asked] | None = None,
    policy: Policy | str | None = None,
    at: Any = None,
    machine: str | int | None = None,
    procs: int | None = None,
    forks: int = FORKS,
    seed: int = 0,
    slurm_conf: str | Path | None = None,
    **options: Any,
) -> Estimates:
    """When the waiting jobs of a cluster are expected to start, and why they do not start now.

    The estimates are medians over runs of the model from this state, the forks, with run times drawn from what each
    user's last jobs ran of their requests, and arrivals from the last days. No run time of a job that has not ended is
    read. Intervals are calibrated on jobs that have started.

    Args:
        state: a stopped `Replay`, or a file that holds one, whose options hold; a log, which is replayed until `at`; or
            a site's state, in a file or in Python, as `workloads.site_state.read_state` takes it.
        job: the id of one waiting job; None for all.
        submit: a job that could be submitted at the instant, or several, each asked about alone, as a text or a
            mapping: `"procs=64,time=2h,user=ann"`; with `slurm_conf` `"nodes=4,time=2h,partition=gpu,gpus=2"`. Then the
            result has a row for each instead; inf is never.
        policy: of a log or a site's state, as are the next; by default fcfs.
        at: the instant: seconds, or a date; of a site's state by default its own, or the last date in it.
        machine: of a log: log, the machine that its jobs ran on, of which the part with the most waiting time; header;
            or so many processors. By default log, but header with `procs` or a calendar.
        procs: the machine's processors; by default those that the log or the state names.
        forks: how many; an odd number has a median that is a fork's.
        seed: of what is drawn.
        slurm_conf: the site's. Then its Slurm is modelled, and `state` is a file of what `scontrol show job` prints,
            or `sacct -P`.
        **options: as of `replay`, of which those that predict, learn, or kill tries are refused. With `slurm_conf` as
            of `slurm`: accounts, sshare, windows, slurm_version and timezone, and past: output of `sacct -P` with ended
            jobs.

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
    if job is not None and submit is not None:
        raise BatfillError("option submit: it asks about jobs that are not queued yet; leave the job out")
    if slurm_conf is not None:
        from batfill_site.slurm.when import when_under_slurm

        if not isinstance(state, str | Path):
            raise BatfillError(f"state: with slurm_conf it is a file of what Slurm prints, not {state!r:.60}")
        of_pool = {"policy": policy, "machine": machine, "procs": procs}
        if other := [name for name, value in of_pool.items() if value is not None]:
            raise BatfillError(f"option {other[0]}: it belongs to one pool, not to a site's Slurm; leave it out")
        return when_under_slurm(state, job, slurm_conf, submit=submit, at=at, forks=forks, seed=seed, **options)
    if of_slurm := [name for name in OF_SLURM if options.get(name)]:
        raise BatfillError(f"option {of_slurm[0]}: it belongs to a site's Slurm; give its slurm_conf, too")
    if isinstance(state, str | Path) and Path(state).suffix == ".npz":
        state = Replay.load(state)
    if isinstance(state, Replay):
        given = {"policy": policy, "at": at, "machine": machine, "procs": procs, **options}
        if other := [name for name, value in given.items() if value is not None]:
            raise BatfillError(f"option {other[0].replace('_', '-')}: a stopped replay has its own; leave it out")
        return when_in_replay(state, job, submit, forks, seed, state.now_s)
    if isinstance(state, str | Path) and not is_site_state(Path(state)):
        if not Path(state).exists():
            raise BatfillError(f"{state}: no such file; give a state of the cluster, or a log")
        if at is None:
            source_of(Path(state), procs=procs)  # which refuses a file that holds no job
            raise BatfillError(f"option at: {state} is a log: give the instant, seconds or a date such as {A_DATE}")
        if options.get("unrequested") == "runtime":
            raise BatfillError(
                "option unrequested: runtime tells what jobs will run; give none, a limit, queue or user-max"
            )
        log, procs, options, assumed = on_machine(Path(state), machine, procs, options)
        run = Replay(log, policy, procs=procs, **options)
        found = when_in_replay(run, job, submit, forks, seed, run_until(run, at))
        return replace(found, assumed="; ".join(filter(None, (assumed, found.assumed))))
    if machine is not None:
        raise BatfillError("option machine: a site's state says what there is now; leave it out, or give procs")
    if options.pop("unrequested", None) is not None:
        raise BatfillError("option unrequested: a job of a site's state without a request has no limit; leave it out")
    chosen = options_of(policy, options)
    require_known(chosen)
    if chosen.calendar is not None:
        raise BatfillError("option calendar: its dates count from a log's begin, and a site's state has none")
    site = read_state(state, at=at, procs=procs)
    chosen.require_classes(site.jobs, site.name)
    chosen.require_taken(site.jobs, site.name)
    if job is not None and (why := site.left_out.get(str(job))):
        raise BatfillError(f"{site.name}: job {job} is left out, as no idle processor would start it: {why}")
    pool = Pool(site.jobs, site.size, chosen)
    past = pool.past(site.start_s, site.end_s, site.now_s)
    asked = asked_of(submit, site.users)
    return pool.estimates(site.name, past, job, asked, site.names, site.clock, forks, seed, left_out=site.left_out)


def on_machine(
    log: Path, machine: str | int | None, procs: int | None, options: dict[str, Any]
) -> tuple[Jobs | Path, int | None, dict[str, Any], str]:
    """A log, or those of its jobs that run on the part of its machine with most of the waiting time, and what is given.

    Of the machine's steps only those are known that begin within a week. Also returns what to say of it.
    """
    given = machine_or_stated(machine, procs, options.get("calendar"))
    reading = {name: options[name] for name in ("overrun", "unrequested") if name in options}
    if given == HEADER or (source := source_of(log, procs=procs, **reading)).size is None:
        return log, procs, options, ""
    found = machine_in(source, given)
    part, jobs = found.parts[0], part_of(source, source.log)
    if found.as_stated:
        return log, procs, options, ""
    steps = calendar_of(part, (), float(jobs.submit_s[-1]))
    others = {name: value for name, value in options.items() if name not in reading}
    whose, wide = "that the log shows" if given == LOG else "given", int((part.rows & found.wide).sum())
    said = f"the machine {whose}, {found.text()}; --machine header takes the other"
    said += f"; without {things(wide, 'wider job')}" * (wide > 0) + f"; {part.name} alone" * (len(found.parts) > 1)
    on_part = jobs.select(found.rows(part)).stating(size=part.size)
    return on_part, None, others if steps is None else {**others, "calendar": steps}, said


def when_in_replay(run: Replay, job: str | None, submit: Any, forks: int, seed: int, now_s: float) -> Estimates:
    require_known(run.options)
    pool, past = replayed(run, now_s)
    name, clock = run.workload.name, run.workload.clock
    names = np.array([id_in_log(one, name) for one in run.workload.ids], object)
    return pool.estimates(name, past, job, asked_of(submit), names, clock, forks, seed)


def asked_of(submit: Any, users: Mapping[str, int] | None = None) -> list[tuple[str, Any]]:
    """The jobs asked about of a pool; a log's users are numbers."""

    def user_of(where: str, text: str) -> int:
        return int(of_form("[0-9]{1,9}", "its number")(where, text)) if users is None else users.get(text, len(users))

    classes, of_class = {"small": SMALL, "large": LARGE}, of_form("small|large", "small or large")
    known: dict[str, Check] = {"procs": count_of, "time": time_of, "user": user_of}
    known["class"] = lambda where, text: classes[of_class(where, text)]
    return [] if submit is None else questions(submit, known, "procs", "time")


def replayed(run: Replay, now_s: float) -> tuple[Pool, Past]:
    """The pool of a stopped replay, and what is known at `now_s`."""
    engine = run.engine
    refuse_cancelled(run.workload.jobs, run.workload.name, "a forecast of starts")
    ended = np.isfinite(engine.start_s)
    ended[engine.queue.running_rows] = False
    end_s = np.where(ended, engine.start_s + engine.events.duration_s, np.nan)
    pool = Pool(run.workload.jobs, engine.size, run.options, engine.queue.rules)
    return pool, pool.past(engine.start_s, end_s, now_s)


class Pool:
    """A pool of processors, its jobs and its rules: a model that goes on from any instant."""

    def __init__(self, jobs: Jobs, size: int, options: Options, rules: Rules | None = None) -> None:
        self.jobs, self.size, self.options, self.rules = jobs, size, options, rules or options.rules
        self.small = options.calls_small(jobs.job_class, jobs.procs, size)

    def past(self, start_s: NDArray[np.float64], end_s: NDArray[np.float64], now_s: float) -> Past:
        jobs, able = self.jobs, self.jobs.procs <= self.size
        return Past(math.inf, jobs.submit_s, jobs.expected_s, jobs.procs, jobs.user, able, start_s, end_s).at(now_s)

    def at(self, past: Past, rows: NDArray[np.intp], submit_s: Any, run_s: Any, known: int) -> EngineReplay:
        """The engine at an instant, with these jobs of the past, submitted and running so; the first ones are known."""
        jobs, n, now_s = self.jobs, len(rows), past.now_s
        request_s, start_s = past.request_s[rows], past.start_s[rows].copy()
        start_s[known:] = np.nan
        table = Jobs(
            ids=np.array([f"{k:06}" for k in range(n)], object),
            submit_s=submit_s,
            runtime_s=run_s,
            walltime_s=np.maximum(request_s, run_s),  # what a job has run may be beyond its request
            request_s=request_s,
            asked=np.isfinite(request_s),
            procs=past.procs[rows],
            user=past.user[rows],
            job_class=jobs.job_class[rows],
            own_end=jobs.own_end,
            outlives=jobs.outlives,
        )
        rules = self.rules
        if (calendar := rules.calendar) is not None:  # of which only windows count that are known by now
            since_s = [min(change.announced_s for change in window.changes) for window in calendar.windows]
            kept = tuple(w for w, at_s in zip(calendar.windows, since_s, strict=True) if at_s <= now_s)
            rules = replace(rules, calendar=replace(calendar, windows=kept, digest=""))
        run = EngineReplay(table, self.size, rules, expected_s=request_s, small=self.small[rows])
        run.begin_at(now_s, start_s)
        if rules.calendar is not None:
            run.queue.change_free(-run.queue.pass_changes(now_s))
        return run

    def forks(self, past: Past, _forks: int, _random: np.random.Generator) -> Fork:
        def fork(_: int, rows: Any, submit_s: Any, run_s: Any, known: int) -> NDArray[np.float64]:
            run = self.at(past, rows, submit_s, run_s, known)
            run.advance()
            return run.start_s

        return fork

    def with_job(self, past: Past, time: float, **values: Any) -> tuple[Pool, Past]:
        """The same with a job more, submitted at the instant."""
        own: dict[str, Any] = {"submit_s": past.now_s, "runtime_s": 0.0, "walltime_s": time, "request_s": time}
        own |= {"user": -1, "asked": time < math.inf, "job_class": values.pop("class", UNKNOWN), **values}
        n, columns = len(past.user), dict[str, Any](own_end=self.jobs.own_end, outlives=self.jobs.outlives)
        columns |= {name: np.append(getattr(self.jobs, name)[:n], value) for name, value in own.items()}
        jobs = Jobs(ids=np.array([f"{k:06}" for k in range(n + 1)], object), **columns)
        pool = Pool(jobs, self.size, self.options, self.rules)
        return pool, pool.past(np.append(past.start_s, np.nan), np.append(past.end_s, np.nan), past.now_s)

    def expected(
        self, past: Past, asked: Any, ids: Any, instants: Instants, widened: Any, forks: int, seed: int, starts: str
    ) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """The dates of these of the jobs alive, (3, n), and why they wait.

        `starts` says why one that is not to wait does; "" where the decision that is due has been made.
        """
        rows, on = past.alive, past
        queue = self.at(past, rows, past.submit_s[rows], np.zeros(len(rows)), len(rows)).queue
        if starts:
            queue.decide(past.now_s)
            on = past._replace(start_s=past.start_s.copy())
            on.start_s[rows[queue.running_rows]] = queue.start_s[queue.running_rows]
        waits_on = np.isnan(on.start_s[rows])
        dates_s = np.full((3, len(rows)), past.now_s)
        dates_s[2] += math.exp(widened[1]) * MARGIN_S
        dates_s[:, waits_on] = estimated(on, self.forks, forks, seed, widened)[1:]
        why = np.full(len(rows), starts, object)
        numbers = np.flatnonzero(asked & waits_on)
        why[numbers] = reasons(queue, past.now_s, numbers.tolist(), dict(enumerate(ids.tolist())), instants)
        return dates_s[:, asked], why[asked]

    def estimates(
        self,
        name: str,
        past: Past,
        job: str | None,
        submit: list[tuple[str, Any]],
        names: NDArray[Any],
        clock: Clock | None,
        forks: int,
        seed: int,
        left_out: Mapping[str, str] | None = None,
    ) -> Estimates:
        """The estimates for one waiting job, or all, or for those asked about, with why they do not start now.

        `left_out`, of a site's state, says which jobs are not in it, and why: there the decision that is due is made.
        """
        rows, instants = past.alive, Instants(past.now_s, clock)
        waits, ids = np.isnan(past.start_s[rows]), names[rows]
        asked = waits & chosen_by(job, ids)
        if job is not None and not asked.any():
            at = instants.full(past.now_s)
            raise BatfillError(f"{name}: no job {job} waits at {at} in the replay; {int(waits.sum()):,} others do")
        widened, calibrated_on = calibrated(past, self.forks, forks, seed)
        found: list[tuple[Any, ...]] = []
        if submit:
            lone = [text for text, values in submit if values.get("user", -1) not in past.user]
            for text, values in submit:
                dates_s, why = np.full((3, 1), math.inf), np.array([f"never: the machine has {self.size:,} processors"])
                if values["procs"] <= self.size:
                    pool, then = self.with_job(past, **values)
                    every, last = np.append(ids.astype(object), text), np.arange(len(rows) + 1) == len(rows)
                    dates_s, why = pool.expected(then, last, every, instants, widened, forks, seed, AT_ONCE)
                time_s = values["time"] if values["time"] < math.inf else math.nan
                found.append((text, values["procs"], time_s, past.now_s, *dates_s[:, 0], why[0]))
        else:
            chosen, lone, starts = rows[asked], [], STARTS * (left_out is not None)
            dates_s, why = self.expected(past, asked, ids, instants, widened, forks, seed, starts)
            columns = ids[asked], past.procs[chosen], self.jobs.asked_s[chosen], past.submit_s[chosen]
            found = list(zip(*columns, *dates_s, why, strict=True))
        return Estimates.of(
            past,
            found,
            name=Path(name).name,
            asked=bool(submit),
            size=self.size,
            forks=forks,
            seed=seed,
            calibrated_on=calibrated_on,
            clock=clock,
            model=self.options.as_text(),
            lacks="outages and limits" if left_out is None else "partitions, GPUs, priorities, limits and outages",
            more={"options": self.options.as_dict()},
            left_out=left_out or {},
            assumed=said_of(lone),
        )


def chosen_by(job: str | None, ids: NDArray[Any]) -> Any:
    """Which jobs have this id; a Batsim workload has numbers such as 02124, of which the zeros may be left out."""
    if job is None:
        return True
    same = np.array([str(name) == str(job) for name in ids], bool)
    return same if same.any() else np.array([str(name).lstrip("0") == str(job).lstrip("0") for name in ids], bool)


def require_known(options: Options) -> None:
    alone, tried = "an expected start is of processors alone", options.learns or options.kills
    unsaid = "a state does not say which jobs are in their first tries, or what was predicted"
    for name, given, why in (
        ("predict" if options.predict != REQUEST else "small", tried, unsaid),
        ("reservation", options.keeps, "a forecast makes the head's at each decision"),
        ("urgent", options.urgent is not None, "a state does not say which jobs are urgent"),
        ("pool", options.pool is not None, alone),
        ("energy-budget", options.energy_budget is not None, alone),
        ("backfill-while", options.backfill_while is not None, "an expected start knows no gate"),
    ):
        if given:
            raise BatfillError(f"option {name}: {why}; leave it out")


def run_until(run: Replay, at: Any) -> float:
    clock, name = run.workload.clock, run.workload.name
    try:
        date = datetime.fromisoformat(at.strip()) if isinstance(at, str) and "-" in at.strip()[1:] else at
        instant_s, wrong = until_of("at", date, clock), "is outside the log"
    except (BatfillError, ValueError):
        instant_s, wrong = -1.0, f"is no {'' if clock is None else 'date, and no '}number of seconds"
    if instant_s >= 0 and not (run.run(until_s=instant_s).ended and instant_s > run.now_s):
        return instant_s
    last_s, form = run.run().now_s, "seconds from its begin"
    first, middle, last = (
        f"{s:.0f} s" if clock is None else f"{clock.date(s):%Y-%m-%dT%H:%M}" for s in (0, last_s / 2, last_s)
    )
    form = form if clock is None else f"a date such as {middle}, or {form}"
    raise BatfillError(f"option at: {at} {wrong}; {name} goes from {first} to {last}: give {form}")
