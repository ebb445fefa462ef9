"""Fidelity: how far the waits of a replay are from those in the log, and what a site does that explains it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.errors import BatfillError, WorkloadError
from batfill.base.progress import patient_progress
from batfill.base.tables import shown
from batfill.base.words import duration, in_a_row, things
from batfill.model.jobs import DAY_S, HOUR_S, WEEK_S
from batfill.model.limits.calendar import Calendar
from batfill.model.metrics import width_class
from batfill.model.options import ALL, SHARED_BY_CHOICES, Options
from batfill.replays.found import document
from batfill.replays.replay import nothing, simulate
from batfill.workloads.formats import part_of, replayable
from batfill.workloads.swf import job_rows
from batfill_pages.words import count, log_name
from batfill_site.accounting.cluster_log import NO_ELIGIBILITY, NOT_MODELLED
from batfill_site.accounting.outages import most_held, outages
from batfill_site.answer import Answer, Bars, Detail, FoundAnswer, Screen, Table, dates_text, table_of
from batfill_site.score import LEAST_GAIN, LEAST_SHARE, Score, errors_of, percent, ratio_text, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from batfill.model.jobs import Cancelled, Clock, Jobs, Overrun, Unrequested
    from batfill.workloads.swf_log import SwfLog


UNKNOWN_WAIT = -1
LENGTHS = {600: "10 min or less", HOUR_S: "1 h or less", 6 * HOUR_S: "6 h or less", math.inf: "longer"}  # run times
HOURS = 3  # of a group by hour of submission

# What is tried of each factor. A factor stays if it lowers the error by `LEAST_GAIN` of it on the jobs that it is
# fitted to, and on both halves of these.
NOTICES_S = (WEEK_S, DAY_S, 4 * HOUR_S)
CAPACITIES = (0.97, 0.95, 0.9, 0.85, 0.8)  # but not below what was in use at once
DEPTHS = (ALL,)
WORSE = 2.0  # times the plain error, from which on the outages found are doubted
LONGEST_BLOCKED_S = 3 * WEEK_S  # by known outages that follow each other, for any request
# The log shows a limit of running jobs per user if so many users reach it, and it is at least so high.
FEWEST_USERS, LEAST_LIMIT = 3, 10


class Logged(NamedTuple):
    """A log with waits, and what of it the job table does not have; columns in the table's order."""

    where: Path | str
    log: SwfLog
    workload: Jobs
    wait_s: NDArray[np.float64]  # nan for unknown
    queue: NDArray[np.int64]  # -1 for unknown

    @property
    def size(self) -> int:
        assert self.workload.size is not None
        return self.workload.size

    @property
    def counted(self) -> NDArray[np.bool_]:
        """The jobs that are compared: with a wait, and not wider than the machine."""
        counted: NDArray[np.bool_] = ~np.isnan(self.wait_s) & (self.workload.jobs.procs <= self.size)
        return counted

    @property
    def first_half(self) -> NDArray[np.bool_]:
        """The first half of the jobs; the second begins with a submission."""
        submit_s = self.workload.jobs.submit_s
        first: NDArray[np.bool_] = submit_s < submit_s[len(submit_s) // 2]
        return first

    @property
    def has_halves(self) -> bool:
        return all((self.counted & rows).any() for rows in (self.first_half, ~self.first_half))

    def score(self, wait_s: NDArray[np.float64], rows: NDArray[np.bool_] | None = None) -> Score:
        rows = self.counted if rows is None else self.counted & rows
        return score(self.workload.jobs.submit_s[rows], self.wait_s[rows], wait_s[rows])

    def error(self, wait_s: NDArray[np.float64], rows: NDArray[np.bool_]) -> float | None:
        rows = self.counted & rows
        return errors_of(self.workload.jobs.submit_s[rows], self.wait_s[rows], wait_s[rows])[0]

    def outages(self) -> Calendar:
        return outages(self.where, self.log, self.size)

    @property
    def most_in_use(self) -> int:
        """The most processors that jobs with a wait had at once; those that end at an instant have none."""
        jobs, counted = self.workload.jobs, self.counted
        start_s = (jobs.submit_s + self.wait_s)[counted]
        return most_held(start_s, start_s + jobs.runtime_s[counted], jobs.procs[counted])

    def limit(self) -> int | None:
        """The limit of running jobs per user that the log shows; None if it shows none.

        No user ran more jobs at once, and at least `FEWEST_USERS` ran so many while another job of theirs waited.
        """
        jobs = self.workload.jobs
        rows = np.flatnonzero(~np.isnan(self.wait_s) & (jobs.user >= 0) & (jobs.runtime_s > 0))
        start_s = jobs.submit_s[rows] + self.wait_s[rows]
        at_s = np.concatenate([start_s + jobs.runtime_s[rows], jobs.submit_s[rows], start_s])
        user, kind = np.tile(jobs.user[rows], 3), np.repeat(np.arange(3), len(rows))
        order = np.lexsort((kind, at_s, user))  # in each second ends come first, then submissions
        user, running, waiting = user[order], *(np.cumsum(np.array(by)[kind[order]]) for by in ((-1, 0, 1), (0, 1, -1)))
        most = int(running.max(initial=0))
        held = np.unique(user[(running == most) & (waiting > 0)])
        return most if most >= LEAST_LIMIT and len(held) >= FEWEST_USERS else None

    def until_half(self) -> Logged:
        """What the log has of the first half of its jobs, and nothing of the others."""
        rows, half = job_rows(Path(self.where), self.log).row, self.first_half
        submit_s = self.workload.jobs.submit_s[len(half) // 2] + self.log["submit_s"][rows[0]]
        return Logged(
            self.where,
            self.log.select(self.log["submit_s"] < submit_s),
            self.workload.select(half),
            self.wait_s[half],
            self.queue[half],
        )


def logged_of(workload: Jobs, log: SwfLog, where: Path | str) -> Logged:
    """The log of a workload with its waits; WorkloadError if they are not a site's, or one is negative."""
    ran = job_rows(Path(where), log)
    kept = ran.row
    wait_s, jobs = log["wait_s"][kept], f"{len(kept):,} jobs that ran"
    below = (wait_s < 0) & (wait_s != UNKNOWN_WAIT)
    if below.any():
        row = int(np.argmax(below))
        raise WorkloadError(
            f"{where}: {int(below.sum()):,} of {jobs} have a negative wait (first: job {ran.number[row]}, "
            f"{wait_s[row]:g} s); correct or drop them, or write -1 for unknown"
        )
    waited = wait_s > 0
    why = log.unlogged
    if why is None and (not waited.any() or (workload.jobs.procs[waited] > (workload.size or 0)).all()):
        why = f"none of the log's {jobs} has a wait above 0"
    if why is not None:
        raise WorkloadError(f"{where}: {why}, so how near simulated waits are to the site's cannot be known")
    unknown = (wait_s == UNKNOWN_WAIT) | log.left[kept]
    return Logged(where, log, workload, np.where(unknown, np.nan, wait_s), log["queue"][kept].astype(np.int64))


# What a site does


class Factors(NamedTuple):
    """What a site does beside EASY backfilling in order of submission; the defaults are the plain replay."""

    notice_s: float | None = None  # how long before they begin outages are announced; None: outages are left out
    capacity: float = 1.0  # the share of the processors in use
    depth: int | str = 1  # how many jobs have a reservation
    max_running: int | None = None  # how many jobs of a user run at once; None for any number

    @property
    def names(self) -> list[str]:
        notice = self.notice_s
        known = "" if notice is None else f" announced {duration(notice)} before"
        return [
            *([f"its outages{known}"] if notice is not None else []),
            *([f"{100 * self.capacity:g} % of the processors"] if self.capacity < 1 else []),
            *(["a reservation for every job"] if self.depth == ALL else []),
            *([f"at most {self.max_running} running jobs a user"] if self.max_running is not None else []),
        ]

    def __str__(self) -> str:
        return ", ".join(self.names) or "plain"

    def size(self, procs: int) -> int:
        return max(round(self.capacity * procs), 1)

    def waits(self, workload: Jobs, found: Calendar) -> NDArray[np.float64]:
        assert workload.size is not None
        notice_s = self.notice_s
        jobs, size = workload.jobs, self.size(workload.size)
        given: dict[str, Any] = {"policy": "fcfs", "depth": self.depth, "max-running": self.max_running}
        if self.notice_s is not None and found.windows:
            sudden = sudden_windows(found, longest_request_s(workload))
            windows = (
                window._replace(
                    processors=size,
                    announced=window.begin - (0.0 if late else notice_s),
                )
                for window, late in zip(found.windows, sudden, strict=True)
            )
            given["calendar"] = Calendar(tuple(windows))
        schedule, _ = simulate(jobs, workload.stating(size=size), Options.of(given))
        return schedule.start_s - jobs.submit_s


def longest_request_s(workload: Jobs) -> float:
    jobs = workload.jobs
    return float(jobs.walltime_s[jobs.procs <= (workload.size or 0)].max(initial=0.0))


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


PLAIN, WITH_OUTAGES = Factors(), Factors(notice_s=WEEK_S)
VALUES: dict[str, Sequence[Any]] = {"notice_s": NOTICES_S, "capacity": CAPACITIES, "depth": DEPTHS}
MOST_REPLAYS = 2 + sum(map(len, VALUES.values())) * len(VALUES)


class Step(NamedTuple):
    """Factors that hold, the last of which was found last."""

    factors: Factors
    error: float | None  # on the jobs that they were fitted to; None if these are too few for one


def fitted(past: Logged, advance: Callable[[float], None]) -> list[Step]:
    """The simplest factors that hold: the plain replay, and then one factor more in each step.

    The first is the limit of running jobs per user that the log shows, if there is one, unless it raises the error. In
    each later step the factor and the value are taken that lower the error most. No machine is tried that is smaller
    than what was in use at once. `advance` is called with 1 after each replay.
    """
    found, first, most = past.outages(), past.first_half, past.most_in_use

    def errors(factors: Factors) -> list[float | None]:
        wait_s = factors.waits(past.workload, found)
        advance(1)
        return [past.error(wait_s, rows) for rows in (first | True, first, ~first)]

    best, names = errors(PLAIN), list(VALUES)
    steps = [Step(PLAIN, best[0])]
    limited = PLAIN._replace(max_running=past.limit())
    if limited != PLAIN and no_worse(each := errors(limited), best):
        best = each
        steps.append(Step(limited, best[0]))
    while names and best[0]:
        tried = {
            factors: errors(factors)
            for factors in next_factors(steps[-1].factors, names)
            if factors.capacity == 1 or factors.size(past.size) >= most
        }
        able = {
            factors: each
            for factors, each in tried.items()
            if (each[0] or 0.0) <= (1 - LEAST_GAIN) * best[0] and no_worse(each, best)
        }
        if not able:
            break
        factors = min(able, key=lambda one: able[one][0] or 0.0)
        names = [name for name in names if getattr(factors, name) == getattr(PLAIN, name)]
        best = able[factors]
        steps.append(Step(factors, best[0]))
    return steps


def no_worse(errors: Sequence[float | None], others: Sequence[float | None]) -> bool:
    return all((mine or 0.0) <= (other or 0.0) for mine, other in zip(errors, others, strict=True))


def next_factors(factors: Factors, names: Sequence[str]) -> Iterator[Factors]:
    for name in names:
        for value in VALUES[name]:
            yield factors._replace(**{name: value})


# The command


def fidelity(
    log: Jobs | Path | str,
    *,
    fit: bool = True,
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
        procs: the machine's size; by default the log's.
        overrun: see `read_workload`; for a file only.
        unrequested: see `read_workload`; for a file only.
        cancelled: see `read_workload`; for a file only.
        slurm_conf: the site's. Then its Slurm is modelled, beside the replay on one pool.
        **site: with it, as for `slurm`: accounts, sshare, windows, slurm_version, timezone, runs and seed.

    Returns:
        `scores`: of the plain replay, and of one with the log's outages as announced windows. `groups`: the same by
        width, run time, hour of submission and queue. `fitted`: the factors that hold, a step each. With `slurm_conf`
        `causes` are what the files do not say that may explain the rest.

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
        if other := [name for name, value in {"fit": None if fit else False, **how}.items() if value is not None]:
            raise BatfillError(f"option {other[0]}: it belongs to one pool, not to a site's Slurm; leave it out")
        return slurm_fidelity(log, slurm_conf, **site)
    for name in site:
        if name.replace("_", "-") in SHARED_BY_CHOICES:
            raise BatfillError(f"option {name}: the log is compared with fcfs on processors alone; leave it out")
        raise BatfillError(f"option {name}: it belongs to a site's Slurm; give its slurm_conf, too")
    source = replayable(log, **how)
    workload = part_of(source, source.log)
    if workload.size is None:
        raise WorkloadError(f"{source.where}: does not say how many processors the machine has; give --procs N")
    logged = logged_of(workload, source.log, source.where)
    fit &= logged.has_halves
    with patient_progress("replays", 2 + MOST_REPLAYS * fit) as advance:
        steps = fitted(logged.until_half(), advance) if fit else []
        found = logged.outages()
        waits = {one: one.waits(workload, found) for one in (PLAIN, WITH_OUTAGES, *(step.factors for step in steps))}
        advance(2)
    scores = {name: logged.score(waits[one]) for name, one in SHOWN.items()}
    results: dict[str, Any] = {
        "scores": {name: each._asdict() for name, each in scores.items()},
        "outages": {
            "number": len(found.windows),
            "days": sum(w.end - w.begin for w in found.windows) / DAY_S,
            "sudden": sum(sudden_windows(found, longest_request_s(workload))),
        },
        "unmodelled": unmodelled(source.log),
        "most_in_use": logged.most_in_use,
        "without_wait": int(np.isnan(logged.wait_s).sum()),
        "groups": list(groups(logged, {name: waits[one] for name, one in SHOWN.items()})),
        "fitted": [
            {
                "factors": str(step.factors),
                **step.factors._asdict(),
                "error": step.error,
                "later": logged.score(waits[step.factors], ~logged.first_half)._asdict(),
            }
            for step in steps
        ],
        "grade": grade_text(*scores.values()),
    }
    content = document(
        "fidelity",
        seed=None,
        given={"fit": fit, **workload.choices},
        source={
            "source": workload.name,
            "source_sha256": workload.digest,
            "procs": logged.size,
            "jobs": len(workload.jobs),
            "warnings": [*workload.warnings, *eligibility_warnings(source.log)],
        },
        results=results,
    )
    rows = [{"replay": name, **each.cells()} for name, each in scores.items()]
    cautions = [*workload.size_warnings, *eligibility_warnings(source.log), *filter(None, [scores["plain"].unlike()])]
    dates = dates_text(workload.jobs.submit_s, workload.clock)
    return FoundAnswer(content, rows, answer_of(content, rows, dates, cautions))


SHOWN = {"plain": PLAIN, "outages": WITH_OUTAGES}


def groups(logged: Logged, waits: Mapping[str, NDArray[np.float64]]) -> Iterator[dict[str, Any]]:
    jobs = logged.workload.jobs
    width, length = width_class(jobs.procs), np.searchsorted(list(LENGTHS), jobs.runtime_s)
    kinds = {
        "processors": (width, [f"{2 ** (w - 1) + 1} to {2**w}" if w > 1 else str(2**w) for w in range(64)]),
        "run time": (length, list(LENGTHS.values())),
        "queue": (logged.queue, None),
    }
    if logged.workload.clock is not None:
        hour = local_hour(jobs.submit_s, logged.workload.clock)
        kinds["submitted"] = (hour // HOURS, [f"{h} to {h + HOURS} h" for h in range(0, 24, HOURS)])
    for by, (group_of, names) in kinds.items():
        there = np.unique(group_of[logged.counted]).tolist()
        for group in there if len(there) > 1 else []:
            rows = group_of == group
            yield {
                "by": by,
                "group": str(group) if names is None else names[group],
                **{name: logged.score(wait_s, rows)._asdict() for name, wait_s in waits.items()},
            }


def unmodelled(log: SwfLog) -> list[str]:
    """What a replay knows nothing of, such as "3 partitions": places count that have `LEAST_SHARE` of the jobs."""
    found = []
    for name in PLACES:
        several = number_of(log, name)
        found += [things(several, name)] * (several > 1)
    return found + [text.partition(NOT_MODELLED)[0] for text in notes_of(log) if NOT_MODELLED in text]


PLACES = ("partition", "queue")


def number_of(log: SwfLog, place: str) -> int:
    """How many partitions or queues have `LEAST_SHARE` of the jobs; 0 if those of the jobs are unknown."""
    number, jobs = np.unique(log[place], return_counts=True)
    return int(((jobs >= LEAST_SHARE * len(log)) & (number >= 0)).sum())


def notes_of(log: SwfLog) -> list[str]:
    return [text.removeprefix("; Note: ") for text in log.header if text.startswith("; Note: ")]


def eligibility_warnings(log: SwfLog) -> list[str]:
    """A caution if the log was imported from records without the date from which a job could start."""
    if not any(NO_ELIGIBILITY in text for text in notes_of(log)):
        return []
    return [
        f"{NO_ELIGIBILITY}, so waits for users count as the scheduler's; add Eligible to the columns of sacct "
        "(sacct -o ...,Submit,Eligible,Start,...) and import again"
    ]


def local_hour(submit_s: NDArray[np.float64], clock: Clock) -> NDArray[np.int64]:
    quarter_s, start_s = HOUR_S // 4, clock.unix_start_s  # a zone's offset is in whole quarters of an hour
    quarters, of_job = np.unique((submit_s + start_s) // quarter_s, return_inverse=True)
    hours = np.array([clock.date(quarter * quarter_s - start_s).hour for quarter in quarters.tolist()])
    return hours[of_job]


# The answer

ERRORS = (
    "Mean and median error: over the hours of the log, of how far the mean simulated wait of the two weeks around is "
    "from the logged one, at the ends of the log of one week. Hours with fewer than 50 jobs around, or a logged mean "
    "of a minute or less, are left out, and - stands where no hour is left (for sim/log: no job waited in the log; for "
    "correlation: all waits are equal)."
)
FIT = (
    "Mean errors of what was fitted on the first half of the jobs. Outages are found in each half by a fixed rule; "
    "whether they are used, and how long they are known before, is fitted. No machine is tried that is smaller than "
    "what was in use at once in the first half; in the whole log up to {:,} were."
)
NEAR = (
    "Mean logged wait, and simulated waits over the logged ones, of the plain replay and with outages; then near: the "
    "shares of jobs within 10 min of their logged waits."
)
FITTED = ("", "first half", "second half", "its median", "sim/log")
SIMULATED = ("simulated_mean_s", "simulated_longest_s", "sim/log", "mean error")
NAMES = {"plain": "plain replay", "outages": "with its outages"}


def answer_of(found: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], dates: str, cautions: list[str]) -> Answer:
    given, steps, alike, beside = found["input"], found["fitted"], found["unmodelled"], found["without_wait"]
    logged = ["in the log", *(shown(name, rows[0][name]) for name in ("logged_mean_s", "logged_longest_s")), "", ""]
    replays = [[NAMES[row["replay"]], *(shown(name, row[name]) for name in SIMULATED)] for row in rows]
    tried = [
        [
            step["factors"],
            *map(percent, (step["error"], later["error"], later["median_error"])),
            ratio_text(later["ratio"]),
        ]
        for step in steps
        if (later := step["later"])
    ]
    groups = [
        [
            *(f"{row['by']} {row['group']}", count(row["plain"]["jobs"]), duration(row["plain"]["logged_mean_s"])),
            *(ratio_text(row[name]["ratio"]) for name in SHOWN),
            *(percent(row[name]["near"]) for name in SHOWN),
        ]
        for row in found["groups"]
    ]
    means = [
        (row["by"], row["group"], *(row["plain"][f"{whose}_mean_s"] for whose in ("simulated", "logged")))
        for row in found["groups"]
    ]
    return Answer(
        title=f"{log_name(given['source'])}: how far simulated waits are from the logged ones",
        about=f"{count(given['jobs'])} jobs on {count(given['procs'])} processors, {dates}; fcfs with EASY backfilling",
        screen=Screen(
            f"Simulated waits are **{rows[0]['sim/log']}** of the logged ones",
            Table(("", "mean wait", "longest", *SIMULATED[2:]), [logged, *replays]),
            {
                "Not explained": not_explained(steps),
                "Outages": outages_text(found),
                "Not modelled": f"{'; '.join(alike)} (one queue for one machine of equal processors)." if alike else "",
                "Not compared": f"{things(beside, 'job')} without a wait in the log." if beside else "",
                "Advice": "differences between policies are for the machine as simulated.",
            },
        ),
        picture=Bars.of_waits(means),
        details=[
            Detail(
                "Groups of jobs",
                [NEAR],
                Table(("", "jobs", "in the log", *("sim/log", "outages", "near", "outages")), groups),
            ),
            Detail(
                "All figures", [ERRORS], table_of([{k: v for k, v in row.items() if k[-2:] != "_s"} for row in rows])
            ),
            Detail("What a site does", [FIT.format(found["most_in_use"])], Table(FITTED, tried)),
            Detail("Notes on the log", [f"{text}." for text in given["warnings"]]),
        ],
        data=found,
        cautions=cautions,
        guide="tutorials/fidelity",
        more="Groups of jobs, all figures and notes",
    )


def not_explained(steps: Sequence[Mapping[str, Any]]) -> str:
    """What the fitted factors leave, and whether fewer of them, or none, leave less; "" without a fit."""
    if not steps:
        return ""
    first, last, known = steps[0], steps[-1], [step for step in steps if step["later"]["error"] is not None]
    least = min(known, key=lambda step: step["later"]["error"], default=last)  # of equals the simplest
    before, left, lowest = (percent(step["later"]["error"]) for step in (first, last, least))
    said = f"a mean error of {left} on the second half of the jobs"
    said += f" with {last['factors']}, {before} without" if last is not first else ": no factor that is tried holds"
    held = (
        "the factors do not hold there" if least is first else f"the lowest there is {lowest}, with {least['factors']}"
    )
    return f"{said}{f'; {held}' if lowest != left else ''}."


def outages_text(found: Mapping[str, Any]) -> str:
    given, (plainly, other) = found["outages"], (found["scores"][name] for name in SHOWN)
    if not given["number"]:
        return "none found in the log."
    said = [f"{given['number']:,} found in the log, {duration(given['days'] * DAY_S)} in all"]
    said.append(f"the replay knows {given['number'] - given['sudden']:,} of them a week before")
    if given["sudden"]:
        said.append(
            "it learns of the others when they begin, since the longest request would find no time to start for weeks"
        )
    if None not in (plainly["error"], other["error"]) and other["error"] > WORSE * plainly["error"]:
        said.append("they make the error much larger, so these are hardly the site's outages: do not use them")
    return f"{'; '.join(said)}."


# The grade beside every advice


class Fidelity(NamedTuple):
    """How near simulated waits are to those in the log; its text is one sentence."""

    plain: Score | None  # None if it cannot be known
    with_outages: Score | None
    unknown: str = ""  # why not
    explained: str | None = None  # the factors that bring them nearest on the later half of the jobs; None: none do
    explained_ratio: float | None = None  # of the mean simulated wait with them to the logged one

    def __str__(self) -> str:
        if self.plain is None or self.with_outages is None:
            return self.unknown
        return grade_text(self.plain, self.with_outages)


def fidelity_of(source: Jobs) -> Fidelity:
    workload = part_of(source, source.log)
    try:
        logged = logged_of(workload, source.log, source.where)
    except WorkloadError as error:
        return Fidelity(None, None, str(error).removeprefix(f"{source.where}: "))
    found = logged.outages()
    waits = [one.waits(workload, found) for one in SHOWN.values()]
    plain, with_outages = (logged.score(wait_s) for wait_s in waits)
    grade = Fidelity(plain, with_outages)
    if not logged.has_halves:
        return grade
    best = fitted(logged.until_half(), nothing)[-1].factors
    near_s = best.waits(workload, found)
    before, after = (logged.error(wait_s, ~logged.first_half) for wait_s in (waits[0], near_s))
    too_small = best.capacity < 1 and best.size(logged.size) < logged.most_in_use  # what was in use at once later
    if too_small or before is None or after is None or after >= before:
        return grade
    return grade._replace(explained=in_a_row(best.names), explained_ratio=logged.score(near_s).ratio)


def grade_text(plain: Score, with_outages: Score) -> str:
    ratio = "no wait is logged" if plain.ratio is None else f"simulated waits are {plain.ratio:.2f} of the logged ones"
    explained = with_outages.error is not None and plain.error is not None and with_outages.error < plain.error
    others = "the outages that it suggests explain none of it"
    if explained:
        others = f"with its outages {percent(with_outages.error)} and {percent(with_outages.median_error)}"
    elif plain == with_outages:
        others = "outages change nothing"
    return (
        f"on this log {ratio} (mean error {percent(plain.error)}, median {percent(plain.median_error)}; {others}); "
        "differences between policies are for the machine as simulated"
    )
