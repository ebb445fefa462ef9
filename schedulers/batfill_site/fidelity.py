"""Fidelity: how far the waits of a replay are from those in the log, and what a site does that explains it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.errors import BatfillError, WorkloadError
from batfill.base.progress import patient_progress
from batfill.base.words import things
from batfill.model.jobs import DAY_S, HOUR_S, WEEK_S, Cancelled, Jobs, Overrun, Unrequested
from batfill.model.limits.calendar import Calendar, Window
from batfill.model.options import ALL, Options
from batfill.replays.found import document
from batfill.replays.replay import nothing, simulate
from batfill.workloads.formats import part_of, replayable
from batfill.workloads.swf import NO_RUN_TIME, REASONS, job_rows
from batfill.workloads.swf_log import CANCELLED, SwfLog
from batfill_pages.words import count, log_name
from batfill_site.accounting.cluster_log import HAD_GPUS, NO_ELIGIBILITY, NOT_MODELLED
from batfill_site.accounting.outages import outages
from batfill_site.advice.payers import kinds_of
from batfill_site.answer import Answer, Bars, Detail, FoundAnswer, Screen, Table, dates_text, duration, stored
from batfill_site.machine import HEADER, LOG, calendar_of, holding, machine_of, machine_or_stated, one_machine
from batfill_site.score import LEAST_GAIN, LEAST_SHARE, LOW_RANK, Logged, Score, logged_of, percent, ratio_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from batfill_site.machine import Held, Machine, Part


# What is tried: how long before they begin outages are announced, and how many jobs have a reservation.
NOTICES_S, DEPTHS = (None, WEEK_S, DAY_S, 4 * HOUR_S), (1, ALL)
USUAL = (None, 1)
MOST_REPLAYS = 3 + len(NOTICES_S) * len(DEPTHS)
LONGEST_BLOCKED_S = 3 * WEEK_S  # by known outages that follow each other, for any request
# A log shows a limit of running jobs per user if so many users reach it, it is at least so high, and users wait so many
# times longer at it or a little below than a little above. They wait at it for so much of their time and beyond it for
# so little, and few jobs start beyond it.
FEWEST_USERS, LEAST_LIMIT, CLIFF, BELOW, ABOVE = 3, 4, 10.0, 0.9, 1.1
LEAST_AT, MOST_BEYOND, MOST_STARTS = 0.005, 0.004, 0.01
# Shares of the waiting time in which nothing known holds a job: above, nothing can be said, or confidence is low.
MOST_IDLE, LOW_IDLE = 0.5, 0.3
OF_RECORDS = re.compile(r"[\d,]+ records?: .+")  # an import's note on what it left out or changed


class Factors(NamedTuple):
    """What a site does beside EASY backfilling in order of submission; the defaults are the plain replay."""

    notice_s: float | None = None  # how long before they begin outages are announced; None: outages are left out
    depth: int | str = 1  # how many jobs have a reservation
    max_running: int | None = None  # how many jobs of a user run at once; None for any number

    def __str__(self) -> str:
        notice_s, most = self.notice_s, self.max_running
        said = [f"its outages announced {duration(notice_s)} before"] if notice_s is not None else []
        said += ["a reservation for every job"] * (self.depth == ALL)
        said += [f"at most {most} running jobs a user"] if most is not None else []
        return ", ".join(said) or "plain"


PLAIN = Factors()


class Site(NamedTuple):
    """A log, and what fixed rules find in it: the machine that its jobs ran on, its outages, and a limit."""

    logged: Logged
    machine: Machine
    found: Calendar
    limit: int | None  # of the running jobs of a user, on the part with the most waiting time

    @classmethod
    def of(cls, logged: Logged, machine: str | int = LOG) -> Site:
        its = machine_of(logged, machine)
        site = cls(logged, its, outages(logged.where, logged.log, logged.size), limit_of(logged, its.parts[0].rows))
        if not site.counted.any():
            raise WorkloadError(f"{logged.where}: no job with a wait fits {site.machine.text()}; give a larger machine")
        return site

    @property
    def counted(self) -> NDArray[np.bool_]:
        """The jobs that are compared: with a wait, not wider than the machine, and not of a part that never waits."""
        left_out = [part.rows & part.never for part in self.machine.parts]
        left_out += [self.machine.wide, np.isnan(self.logged.wait_s)]
        counted: NDArray[np.bool_] = np.logical_not(np.any(left_out, axis=0))
        return counted

    def until_half(self) -> Site:
        first, submit_s = self.logged.first_half, self.logged.workload.submit_s
        past = tuple(window for window in self.found.windows if window.end <= submit_s[len(submit_s) // 2])
        found = replace(self.found, windows=past, digest="")
        return self._replace(logged=self.logged.select(first), machine=self.machine.select(first), found=found)

    def jobs(self, part: Part) -> Jobs:
        return self.logged.workload.select(self.machine.rows(part)).stating(size=part.size)

    def sudden(self, part: Part) -> list[bool]:
        walltime_s = self.logged.workload.walltime_s[self.machine.rows(part)]
        return sudden_windows(self.found, float(walltime_s.max(initial=0.0)))

    def outages(self, part: Part, factors: Factors) -> list[Window]:
        if factors.notice_s is None or not self.found.windows:
            return []
        return [
            window._replace(announced=window.begin - (0.0 if late else factors.notice_s))
            for window, late in zip(self.found.windows, self.sudden(part), strict=True)
        ]

    def options(self, part: Part, factors: Factors) -> dict[str, Any]:
        """The options of a scheduler that replay a part as the site did, where they are not the defaults."""
        calendar = calendar_of(part, self.outages(part, factors), float(self.logged.workload.submit_s[-1]))
        given = {"calendar": calendar, "depth": None if factors.depth == 1 else factors.depth}
        if part is self.machine.parts[0]:
            given["max-running"] = factors.max_running
        return {name: value for name, value in given.items() if value is not None}

    def waits(self, factors: Factors) -> NDArray[np.float64]:
        """The simulated waits; nan for jobs that no part replays."""
        wait_s = np.full(len(self.logged.wait_s), np.nan)
        for part in self.machine.parts:
            jobs = self.jobs(part)
            if not part.never and len(jobs):
                schedule, _ = simulate(jobs, jobs, Options.of({"policy": "fcfs", **self.options(part, factors)}))
                wait_s[self.machine.rows(part)] = schedule.start_s - jobs.submit_s
        return wait_s

    def held(self, factors: Factors) -> Held | None:
        known = factors if factors.notice_s is not None else factors._replace(notice_s=0.0)  # known or not, they hold
        return holding(self.logged, self.machine, self.outages(self.machine.parts[0], known), factors.max_running)


def limit_of(logged: Logged, its: NDArray[np.bool_]) -> int | None:
    jobs = logged.workload.jobs
    rows = np.flatnonzero(its & ~np.isnan(logged.wait_s) & (jobs.user >= 0) & (jobs.runtime_s > 0))
    start_s = jobs.submit_s[rows] + logged.wait_s[rows]
    at_s = np.concatenate([start_s + jobs.runtime_s[rows], jobs.submit_s[rows], start_s])
    user, kind = np.tile(jobs.user[rows], 3), np.repeat(np.arange(3), len(rows))
    order = np.lexsort((kind, at_s, user))  # in each second ends come first, then submissions
    user, kind, at_s = user[order], kind[order], at_s[order]
    running, waiting = (np.cumsum(np.array(by)[kind]) for by in ((-1, 0, 1), (0, 1, -1)))
    lasts_s = np.where(np.diff(user, append=-1) == 0, np.diff(at_s, append=0), 0)
    waited_s = np.bincount(running, waiting * lasts_s, 1)  # by all users, while each runs so many
    started = np.bincount(running[kind == 2], minlength=len(waited_s))
    until = np.append(0, np.cumsum(waited_s))
    best, at_best = None, LEAST_AT * until[-1]
    falls = waited_s[:-1] >= CLIFF * waited_s[1:]
    for limit in (LEAST_LIMIT + np.flatnonzero(np.append(falls, True)[LEAST_LIMIT:])).tolist():
        lowest, highest = math.floor(BELOW * limit) + 1, min(math.floor(ABOVE * limit) + 1, len(waited_s) - 1)
        at, above = until[limit + 1] - until[lowest], until[highest + 1] - until[limit + 1]
        if at <= at_best or at < CLIFF * above or until[-1] - until[limit + 1] > MOST_BEYOND * until[-1]:
            continue
        reach = np.unique(user[(running >= lowest) & (running <= limit) & (waiting > 0) & (lasts_s > 0)])
        if len(reach) >= FEWEST_USERS and started[limit + 1 :].sum() <= MOST_STARTS * len(rows):
            best, at_best = limit, at
    return best


def sudden_windows(found: Calendar, longest_s: float) -> list[bool]:
    """Which outages the replay learns of only when they begin, so that the longest request can start within a month.

    A job cannot start if an outage that is known begins before its request is over; outages are announced at most a
    week before. Between frequent outages a long request might find no time for years. Where the longest would find none
    for `LONGEST_BLOCKED_S`, the outages that begin before the end of a request from the gap on are sudden.
    """
    # For the longest request to start, no outage begins so soon; one that begins in just a week is known already.
    clear_s = min(longest_s, WEEK_S + 1)
    begins, ends = (np.array([getattr(window, edge) for window in found.windows]) for edge in ("begin", "end"))
    free_from = np.append(0.0, ends)[:-1]
    sudden, chance_s = np.zeros(len(begins), bool), 0.0  # the last date at which that request could start
    for i in np.arange(len(begins)):
        if begins[i] - free_from[i] >= clear_s:
            chance_s = begins[i] - clear_s
        elif not sudden[i] and ends[i] - chance_s > LONGEST_BLOCKED_S:
            chance_s = free_from[i]
            sudden[i:] |= begins[i:] < chance_s + clear_s
    return sudden.tolist()


class Step(NamedTuple):
    """Factors that hold, and how well they do on the jobs that they were fitted to."""

    factors: Factors
    checks: Sequence[float | None] = ()  # the errors of these and of either half, and how far the ratio is from 1

    def no_worse(self, other: Step) -> bool:
        return all((mine or 0.0) <= (its or 0.0) for mine, its in zip(self.checks, other.checks, strict=True))


def fitted(past: Site, advance: Callable[[float], None]) -> list[Step]:
    """The factors that hold: the plain replay, with the limit of running jobs unless it raises the error, and the best.

    That has the lowest error of all combinations of the others, at least `LEAST_GAIN` of it lower than without, and
    no higher one on either half of the jobs, and a ratio no farther from 1. `advance` is called with 1 after each
    replay.
    """
    logged, first = past.logged, past.logged.first_half

    def step(factors: Factors) -> Step:
        wait_s = past.waits(factors)
        advance(1)
        sides = [logged.compared(wait_s, rows) for rows in (True, first, ~first)]
        scores = [logged.score(wait_s, rows) if rows.any() else None for rows in sides]
        far = abs(math.log(scores[0].ratio)) if scores[0] and scores[0].ratio else 0.0
        return Step(factors, (*(one and one.error for one in scores), far))

    steps = [step(PLAIN)]
    if past.limit is not None and (limited := step(Factors(max_running=past.limit))).no_worse(steps[0]):
        steps.append(limited)
    begun = steps[-1]
    if most := (1 - LEAST_GAIN) * (begun.checks[0] or 0.0):
        tried = [
            step(begun.factors._replace(notice_s=s, depth=d)) for s in NOTICES_S for d in DEPTHS if (s, d) != USUAL
        ]
        able = [(one.checks[0] or 0.0, one) for one in tried if one.no_worse(begun)]
        steps += [one for error, one in sorted(able, key=itemgetter(0)) if error <= most][:1]
    return steps


def fidelity(
    log: Jobs | Path | str,
    *,
    fit: bool = True,
    machine: str | int | None = None,
    procs: int | None = None,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    cancelled: Cancelled | None = None,
    slurm_conf: Path | str | None = None,
    **site: Any,
) -> FoundAnswer:
    """How far the waits of a replay under FCFS with EASY backfilling are from those in the log, and what explains it.

    Args:
        log: a workload that was read from a log with waits, or the log's file; with `slurm_conf` sacct's output.
        fit: whether to fit what the site does on the first half of the jobs, and to score it on the second.
        machine: that of the replays: the "log"'s, as its use while jobs wait shows, the "header"'s, or a number of
            processors. By default the log's, but the header's with `procs`, which states it.
        procs: the header's size; by default the log's.
        overrun: see `read_workload`; for a file only.
        unrequested: see `read_workload`; for a file only.
        cancelled: see `read_workload`; for a file only.
        slurm_conf: the site's. Then its Slurm is modelled, beside the replay on one pool.
        **site: with it, as for `slurm`: accounts, sshare, windows, slurm_version, timezone, runs and seed.

    Returns:
        `scores`: of replays on the header's machine, on the one that ran, and there with what else the site does.
        `machine`: its parts. `held`: the shares of the waiting time, by what holds a job. `groups`: scores by width,
        run time and queue. `fitted`: the factors that hold, a step each. `calendar`: the machine
        as a replay takes it. With `slurm_conf` `causes` are what the files do not say that may explain the rest.

    Raises:
        BatfillError: the log is unusable, or has no waits of a site.

    Examples:
        >>> fidelity("workloads/sample.json")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        batfill.base.errors.WorkloadError: workloads/sample.json: none of the log's 800 jobs that ran has a wait ...
    """
    how: dict[str, Any] = {"procs": procs, "overrun": overrun, "unrequested": unrequested, "cancelled": cancelled}
    if slurm_conf is not None:
        from batfill_site.slurm.fidelity import slurm_fidelity

        if not isinstance(log, Path | str):
            raise BatfillError(f"log: with slurm_conf it is the file that sacct printed, not {log!r:.60}")
        given = {"fit": None if fit else False, "machine": machine, **how}
        if other := [name for name, value in given.items() if value is not None]:
            raise BatfillError(f"option {other[0]}: it belongs to one pool, not to a site's Slurm; leave it out")
        return slurm_fidelity(log, slurm_conf, **site)
    if site:
        raise BatfillError(f"option {next(iter(site))}: only with slurm_conf, if at all; leave it out on one pool")
    machine = machine_or_stated(machine, procs, None)
    source = replayable(log, **how)
    workload = part_of(source, source.log)
    if workload.size is None:
        raise WorkloadError(f"{source.where}: does not say how many processors the machine has; give --procs N")
    logged = logged_of(workload, source.log, source.where)
    with patient_progress("replays", MOST_REPLAYS if fit else 2) as advance:
        found = Fidelity.on(logged, machine, fit=fit, advance=advance)
    study, part, scores = found.site, found.part, found.scores
    assert study is not None
    widest = min(max(one.size for one in found.machine.parts if not one.never), logged.size)
    options = {"procs": part.size, **found.options}
    windows = options.pop("calendar", Calendar(())).rows
    results: dict[str, Any] = {
        "scores": scores,
        "machine": {
            "text": found.machine.text(),
            "doubt": found.machine.doubt,
            "wide": int(found.machine.wide.sum()),
            "parts": [{**one._asdict(), "rows": int(one.rows.sum())} for one in found.machine.parts],
        },
        "held": found.held,
        "held_on_header": found.held_header,
        "calendar": {"part": part.name, "options": options, "windows": windows},
        "outages": {
            "number": len(study.found.windows),
            "days": sum(w.end - w.begin for w in study.found.windows) / DAY_S,
            "sudden": sum(study.sudden(part)),
        },
        "unmodelled": unmodelled(source.log),
        "without_wait": int(np.isnan(logged.wait_s).sum()),
        "groups": list(groups(logged, widest, {"header": found.header_s, "near": found.waits[found.factors]})),
        "fitted": [
            {
                "factors": str(step.factors),
                **step.factors._asdict(),
                "error": next(iter(step.checks), None),
                "later": logged.score(found.waits[step.factors], ~logged.first_half),
            }
            for step in found.steps
        ],
        "grade": str(found),
    }
    content = document(
        "fidelity",
        seed=None,
        given={"fit": fit, "machine": machine, **workload.choices},
        source={
            "source": workload.name,
            "source_sha256": workload.digest,
            "procs": logged.size,
            "jobs": len(workload.jobs),
            "warnings": [*workload.warnings, *eligibility_warnings(source.log)],
        },
        results=stored(results),
    )
    rows = [{"replay": name, **each._asdict()} for name, each in scores.items()]
    sized = workload if study.machine.as_stated else study.jobs(part)
    cautions = [*sized.size_warnings, *eligibility_warnings(source.log)]
    dates = dates_text(workload.jobs.submit_s, workload.clock)
    return FoundAnswer(content, rows, answer_of(content, dates, cautions, found))


def groups(logged: Logged, size: int, waits: Mapping[str, NDArray[np.float64]]) -> Iterator[dict[str, Any]]:
    compared = np.all([logged.compared(wait_s) for wait_s in waits.values()], axis=0)
    kinds = kinds_of(logged.workload.jobs, size, logged.queue)
    for by, kind in {"processors": kinds["processors"], "ran for": kinds["ran for"], "queue": kinds["group"]}.items():
        there = np.unique(kind.of[compared]).tolist()
        for group in there if len(there) > 1 else []:
            scores = {name: logged.score(wait_s, compared & (kind.of == group)) for name, wait_s in waits.items()}
            yield {"by": by, "group": kind.name(group), **scores}


def unmodelled(log: SwfLog) -> list[str]:
    return [text.partition(NOT_MODELLED)[0] for text in notes_of(log) if NOT_MODELLED in text]


def notes_of(log: SwfLog) -> list[str]:
    return [text.removeprefix("; Note: ") for text in log.header if text.startswith("; Note: ")]


class SiteLog(NamedTuple):
    """What a log says of its site."""

    rows: int
    jobs: int  # those that ran
    left_out: dict[str, int]  # rows that are no job, by reason
    cancelled: int  # of those without a run time, the cancelled ones
    wide: int  # jobs that do not fit the machine
    imported: list[str]  # what the import left out or changed, a phrase each
    unmodelled: list[str]  # what its jobs have and a replay knows nothing of, a phrase each
    slurm: bool  # whether Slurm is known to be its batch system

    @classmethod
    def of(cls, source: Jobs, jobs: int, wide: int, fields: Collection[str]) -> SiteLog:
        """What the log's source says; `jobs` and `wide` are numbers, and pools read the `fields`."""
        log, rows = source.log, job_rows(Path(source.where), source.log)
        idle = rows.dropped.get(REASONS[NO_RUN_TIME], 0)
        cancelled = (~(log["runtime_s"] > 0) & (log["status"] == CANCELLED) & ~log.left).sum() if idle else 0
        head = " ".join(text for text in log.header if not text.lower().startswith(("; queue", "; user", "; group")))
        slurm = re.search(r"\bslurm\b", head, re.IGNORECASE) if source.system is None else source.system == "slurm"
        number, each = np.unique(log["group"], return_counts=True)
        groups = int(((each >= LEAST_SHARE * len(log)) & (number >= 0)).sum())
        of_gpus = any(field.startswith("gpu") for field in fields)
        without = [what for what in unmodelled(log) if not (of_gpus and what.endswith(HAD_GPUS))]
        return cls(
            len(log),
            jobs,
            rows.dropped,
            int(cancelled),
            wide,
            [note for note in notes_of(log) if OF_RECORDS.fullmatch(note)],
            [*without, *([f"{groups:,} groups or accounts"] if groups > 1 else [])],
            bool(slurm),
        )


def eligibility_warnings(log: SwfLog) -> list[str]:
    """A caution if the log was imported from records without the date from which a job could start."""
    said = f"{NO_ELIGIBILITY}, so waits for users count as the scheduler's; add Eligible to the columns of sacct "
    said += "(sacct -o ...,Submit,Eligible,Start,...) and import again"
    return [said] * any(NO_ELIGIBILITY in text for text in notes_of(log))


NEAR = (
    "Mean logged wait, and simulated waits over the logged ones, on the header's machine, and on the one that ran with "
    "the site's rules; then how far a job's wait is from its logged one."
)
HOLDS = {
    "full": "machine full",
    "held": "outage or first reservation",
    "order": "other reservations",
    "limit": "user's limit",
}


def answer_of(found: Mapping[str, Any], dates: str, cautions: list[str], grade: Fidelity) -> Answer:
    given, steps, alike = found["input"], found["fitted"], found["unmodelled"]
    assert grade.site is not None
    assert grade.near is not None
    wider = int(grade.site.counted.sum()) - grade.near.jobs
    left_out = {"without a wait in the log": found["without_wait"], "wider than the header's machine": wider}
    unlike = [f"{things(n, 'job')} {why}" for why, n in left_out.items() if n]
    beside = "; ".join(filter(None, [*unlike, grade.site.logged.longest(grade.near.logged_longest_s)]))
    names = {"header": "header's machine", "machine": "machine that ran", "near": "with its rules"}
    near, replays = "Simulated waits are **{}** {}".format(*grade.near.near.split(" ", 1)), []
    for name, one in grade.scores.items():
        waits = duration(one.simulated_mean_s), duration(one.simulated_longest_s)
        replays.append((names[name], *waits, ratio_text(one.ratio), duration(one.off_s)))
    logged = ("in the log", duration(grade.near.logged_mean_s), duration(grade.near.logged_longest_s), "", "")
    groups = [
        [
            *(f"{row['by']} {row['group']}", count(row["header"]["jobs"]), duration(row["header"]["logged_mean_s"])),
            *(ratio_text(row[name]["ratio"]) for name in ("header", "near")),
            *(duration(row[name]["off_s"]) for name in ("header", "near")),
        ]
        for row in found["groups"]
    ]
    down, jobs = found["outages"], things(given["jobs"], "job")
    jobs = jobs if grade.near.jobs == given["jobs"] else f"{count(grade.near.jobs)} of {jobs}"
    size = sum(part.size for part in grade.machine.parts if not part.never)
    return Answer(
        title=f"{log_name(given['source'])}: how far simulated waits are from the logged ones",
        about=f"{jobs} on {things(size, 'processor')}, {dates}; fcfs with EASY backfilling",
        screen=Screen(
            f"Cannot tell: {grade.doubt}" if grade.doubt else near,
            Table(("", "mean wait", "longest", "sim/log", "a job off by"), [logged, *replays]),
            {
                "Machine": f"{machine_text(grade)}.",
                "By width": f"{by_width}." if (by_width := grade.near.by_width) else "",
                "What held jobs": f"{held}." if (held := holds_text(grade)) else "",
                "Rules": rules(steps),
                "Outages": f"{down['number']:,} found in the log, {duration(down['days'] * DAY_S)} in all.",
                "Not modelled": f"{'; '.join(alike)}." if alike else "",
                "Not compared": f"{beside}." if beside else "",
            },
        ),
        picture=Bars.of_waits(
            (row["by"], row["group"], row["near"]["simulated_mean_s"], row["near"]["logged_mean_s"])
            for row in found["groups"]
        ),
        details=[
            Detail("Groups of jobs", [NEAR], Table(("", "jobs", "in the log", *("header", "rules") * 2), groups)),
            Detail("Notes on the log", [f"{text}." for text in given["warnings"]]),
        ],
        data=found,
        cautions=cautions,
        guide="tutorials/fidelity",
        more="Groups of jobs, all figures and notes",
    )


def machine_text(grade: Fidelity) -> str:
    wide = int(grade.machine.wide.sum())
    left_out = f"; {things(wide, 'wider job')} {'is' if wide == 1 else 'are'} left out" * (wide > 0)
    other = "; `batfill replay` takes the header's unless --procs is given" * (not grade.machine.as_stated)
    return f"{grade.machine.text()}{other}{left_out}"


def holds_text(grade: Fidelity) -> str:
    """For how much of the waiting time in the log what holds the job, and nothing known, there and by the header."""
    held, before = grade.held, grade.held_header
    if held is None or before is None:
        return ""
    said = [f"{words} {percent(share)}" for name, words in HOLDS.items() if (share := getattr(held, name))]
    on_header = f" ({percent(before.idle)} on the header's machine)" * (held != before)
    return f"{', '.join([*said, f'nothing known {percent(held.idle)}'])}{on_header} of the real waiting time"


def rules(steps: Sequence[Mapping[str, Any]]) -> str:
    if not steps:
        return ""
    errors = [step["later"]["error"] or 0.0 for step in steps]
    without, left = (percent(step["later"]["error"]) for step in (steps[0], steps[-1]))
    of_means = "two-week mean waits are off by"
    if len(steps) == 1:
        return f"no rule that is tried holds; {of_means} {without} in the second half of the jobs."
    worse = "; what is fitted on the first half does worse there" * (errors[-1] > min(errors))
    return f"{steps[-1]['factors']}: {of_means} {left} in the second half of the jobs, {without} without{worse}."


# The grade beside every advice


class Fidelity(NamedTuple):
    """How near simulated waits are to those in the log, and on which machine; its text is one sentence."""

    machine: Machine
    unknown: str = ""  # why it cannot be known; else the following are
    site: Site | None = None
    factors: Factors = PLAIN  # those that hold
    steps: Sequence[Step] = ()
    waits: Mapping[Factors, NDArray[np.float64]] = {}  # of each step
    header_s: NDArray[np.float64] = np.zeros(0)  # and on the header's machine, plain
    header: Score | None = None  # on the header's machine, plain, of the jobs that both replay,
    plain: Score | None = None  # of the plain replay on this machine,
    near: Score | None = None  # and with the factors
    held: Held | None = None  # what holds waiting jobs on this machine, with the factors
    held_header: Held | None = None  # and on the header's, without

    @classmethod
    def on(cls, logged: Logged, machine: str | int, *, fit: bool, advance: Callable[[float], None]) -> Fidelity:
        site = Site.of(logged, machine)
        header = site._replace(machine=machine_of(logged, HEADER))
        fit &= all((site.counted & rows).any() for rows in (logged.first_half, ~logged.first_half))
        steps = fitted(site.until_half(), advance) if fit else [Step(PLAIN)]
        waits = {step.factors: site.waits(step.factors) for step in steps}
        header_s = waits[PLAIN] if site.machine.as_stated else header.waits(PLAIN)
        advance(2)
        factors = steps[-1].factors
        both = site.counted & header.counted
        if not both.any():
            raise WorkloadError(
                f"{logged.where}: no job with a wait fits both the header's machine and the one that ran, "
                f"{site.machine.text()}; say with --procs what the header should"
            )
        header_score, plain, near = (logged.score(wait_s, both) for wait_s in (header_s, waits[PLAIN], waits[factors]))
        return cls(
            site.machine,
            site=site,
            factors=factors,
            steps=steps if fit else (),
            waits=waits,
            header_s=header_s,
            header=header_score,
            plain=plain,
            near=near,
            held=site.held(factors),
            held_header=holding(logged, header.machine),
        )

    @property
    def part(self) -> Part:
        """The part of the machine with the most waiting time: the one that advice is for."""
        return self.machine.parts[0]

    @property
    def options(self) -> dict[str, Any]:
        """The options of a scheduler that replay it as the site did, where they are not the defaults."""
        return {} if self.site is None else self.site.options(self.part, self.factors)

    def without(self, options: Collection[str]) -> Fidelity:
        """The same without what the site does that these options say otherwise."""
        fields = {"calendar": "notice_s", "depth": "depth", "max-running": "max_running"}
        usual = {field: getattr(PLAIN, field) for name, field in fields.items() if name in options}
        found = self._replace(factors=self.factors._replace(**usual))
        return found._replace(held=None, held_header=None) if "calendar" in options else found  # it holds jobs, too

    @property
    def scores(self) -> dict[str, Score]:
        found = {"header": self.header, "machine": self.plain, "near": self.near}
        same = {"machine": self.machine.as_stated, "near": self.factors == PLAIN}
        return {name: one for name, one in found.items() if one is not None and not same.get(name)}

    @property
    def doubt(self) -> str | None:
        """Why it cannot be known what another scheduler would do; None if it may be."""
        if self.held is not None and self.held.idle > MOST_IDLE:
            share = percent(self.held.idle)
            return f"nothing in the log explains most of the waiting: in {share} of it nothing holds the job that waits"
        return self.near.unlike() if self.near is not None else None

    @property
    def low(self) -> list[str]:
        """Why confidence in advice is low."""
        idle, unlike = self.held.idle if self.held else 0.0, (self.near and self.near.unlike(least=LOW_RANK)) or ""
        found = [f"nothing known holds jobs for {percent(idle)} of their waiting time"] * (idle > LOW_IDLE)
        return [*found, *filter(None, [unlike.partition(": ")[2]])]

    def __str__(self) -> str:
        if self.near is None or self.header is None:
            return self.unknown
        return f"simulated waits are {self.near}; {ratio_text(self.header.ratio)} on the header's machine alone"


def machine_in(source: Jobs, machine: str | int = LOG) -> Machine:
    workload = part_of(source, source.log)
    try:
        return machine_of(logged_of(workload, source.log, source.where), machine)
    except WorkloadError:
        assert workload.size is not None
        return one_machine(workload, machine if isinstance(machine, int) else workload.size)


def fidelity_of(source: Jobs, machine: str | int = LOG) -> Fidelity:
    workload = part_of(source, source.log)
    try:
        logged = logged_of(workload, source.log, source.where)
    except WorkloadError as error:
        return Fidelity(machine_in(source, machine), str(error).removeprefix(f"{source.where}: "))
    return Fidelity.on(logged, machine, fit=True, advance=nothing)
