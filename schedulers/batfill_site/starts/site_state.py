"""Reads the state of a site: its running and waiting jobs at an instant, and perhaps jobs that have ended.

A state is a CSV or JSON file of jobs, what Slurm prints, or the same in Python: see `read_state`.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import WorkloadError
from batfill.base.files import any_length, loaded_json
from batfill.model.jobs import Clock, Jobs, checked_size, job_table
from batfill.model.values import number_or_text, seconds_of
from batfill_site.accounting.record_text import clock_seconds
from batfill_site.slurm.hosts import by_name

# The names of a job's values, the first ours.
NAMES = {
    "id": ("id", "job_id", "ids"),
    "submit": ("submit", "submit_s"),
    "processors": ("processors", "procs"),
    "request": ("request", "requested_s", "walltime_s", "request_s"),
    "user": ("user",),
    "start": ("start", "start_s"),
    "end": ("end", "end_s"),
    "class": ("class",),
    "left_out": ("left_out",),
}
NEEDED = ("id", "submit", "processors")
LATEST_S = 2.5e11  # a later date has no year of four digits
BEGIN = 2**16  # characters that tell a state from a log
UNIX_S = 1e8  # a number from here on is a Unix time
LONGEST_S = 3e9  # a longer request is none
UNKNOWN = ("", "N/A", "Unknown", "None", "nan")
TOO_WIDE = "too wide for the machine"


@dataclass(frozen=True, slots=True)
class SiteState:
    """The jobs of a site up to an instant."""

    name: str
    jobs: Jobs  # in order of submission, then of their names; a job that has not ended runs for its request, or 0
    names: NDArray[Any]  # (n_jobs,), the ids as the site writes them; those of `jobs` are ranks
    start_s: NDArray[np.float64]  # (n_jobs,), nan for those that wait
    end_s: NDArray[np.float64]  # nan for those that wait or run
    now_s: float
    size: int
    clock: Clock | None  # if the state has dates
    left_out: Mapping[str, str]  # jobs that do not wait for processors alone, and why
    users: Mapping[str, int]  # their numbers


def read_state(
    source: str | Path | Mapping[str, Any] | Iterable[Mapping[str, Any]], *, at: Any = None, procs: int | None = None
) -> SiteState:
    """The state of a site: a path, or in Python the list of jobs, a mapping with `jobs`, `procs` and `at`, or a frame.

    A file is CSV with a line of names; JSON, a list or such an object; or what Slurm prints (USE_SQUEUE, USE_SACCT, or
    `scontrol show job`). A job has an id, `submit` and `processors`, and where they are known `request`, `user` and
    `class`; a running one has a `start`, one that has ended a `start` and an `end`, and one that is pending for
    something else than processors a `left_out`: for what. Dates are seconds, or ISO 8601. The instant is by default
    the state's `at`, or the last date of its jobs, with how long they have run by then where scontrol says it.
    """
    about: Mapping[str, Any] = {}
    name = "the state"
    if isinstance(source, str | Path):
        name, jobs, about = str(source), *records_in(Path(source))
    elif hasattr(source, "to_dict") and hasattr(source, "columns"):
        frame: Any = source
        columns = {str(column): frame[column].tolist() for column in frame.columns}
        jobs = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    elif isinstance(source, Mapping):
        jobs, about = source.get("jobs"), source
    else:
        jobs = list(source)
    if not isinstance(jobs, list) or not all(isinstance(job, Mapping) for job in jobs):
        raise WorkloadError(f"{name}: no list of jobs; give each its {', '.join(NEEDED)}")
    at = about.get("at") if at is None else at
    procs = about.get("procs", about.get("processors")) if procs is None else procs
    if procs is None:
        raise WorkloadError(f"{name}: it does not say how many processors the machine has; give them (procs)")
    size = checked_size(name, int(procs) if isinstance(procs, str) and procs.isdigit() else procs)
    return state_of(name, jobs, at, size)


def is_site_state(path: Path) -> bool:
    """Whether a file holds a site's state, and not a log: by what it says, or as it ends in .csv or .txt."""
    if path.suffix in (".csv", ".txt") or not path.is_file():  # a pipe could not be read again
        return path.suffix in (".csv", ".txt")
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            begin = file.read(BEGIN).lstrip()
        if path.suffix != ".json" and not begin.startswith(("[", "{")):
            first = begin.partition("\n")[0].strip()
            is_slurm = first == NO_JOBS or re.match(r"JOBID\b|JobId=\S+ (ArrayJobId|HetJobId|JobName)=", first)
            return bool(is_slurm) or set(first.split("|")) == set(SACCT.values())  # a log of sacct has others
        found = loaded_json(path.read_bytes())
    except OSError:
        return False  # readers of logs say what is wrong
    except ValueError:
        return path.suffix == ".json" or begin.startswith("[")
    return isinstance(found, list) or (isinstance(found, dict) and not {"profiles", "nb_res"} & found.keys())


def records_in(path: Path) -> tuple[Any, Mapping[str, Any]]:
    """The jobs in a file, a mapping each, and what it says besides."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or 'not text'})") from None
    if text.lstrip()[:1] in ("[", "{"):
        try:
            found = loaded_json(text)
        except ValueError as error:
            raise WorkloadError(f"{path}: is not JSON ({error}); give a list of jobs") from None
        return (found.get("jobs"), found) if isinstance(found, dict) else (found, {})
    if re.search(r"^\s*JobId=\S+", text, re.MULTILINE):
        read = ({ours: one.get(theirs, "") for ours, theirs in SCONTROL.items()} for one in slurm_fields(text))
        return whole_jobs(path, read), {}
    if text.strip() == NO_JOBS:
        return [], {}
    first = text.partition("\n")[0]
    bars = "|" in first
    with any_length():
        table = csv.DictReader(io.StringIO(text), delimiter="|" if bars else ",")
        names = list(table.fieldnames or ())
        rows: list[dict[str, Any]] = list(table)
    known = {name for names in NAMES.values() for name in names}
    if not bars and re.match(r"\s*JOBID\s", first):
        raise WorkloadError(f"{path}: not all columns are here, or nothing divides them; {USE_SQUEUE}")
    theirs, remedy = (SACCT, USE_SACCT) if SACCT["id"] in names else (SQUEUE, USE_SQUEUE)
    slurm = bars or theirs["id"] in names
    if not known.union(theirs.values()).intersection(names):
        what = f"begins with {first.strip()!r:.60}" if text.strip() else "is empty"
        raise WorkloadError(f"{path}: {what}, and not with the names of columns; give a job's {', '.join(NEEDED)}")
    if missing := [name for name in theirs.values() if slurm and name not in names]:
        raise WorkloadError(f"{path}: no column {missing[0]}; {remedy}")
    if other := [name for name in names if not slurm and name not in known]:
        raise WorkloadError(f"{path}: column {other[0]!r:.60} is unknown; a job's are {', '.join(NAMES)}")
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise WorkloadError(f"{path}:{number}: not as many values as the first line has names; is it truncated?")
    if slurm:
        return whole_jobs(path, ({ours: row[name].strip() for ours, name in theirs.items()} for row in rows)), {}
    return rows, {}


def state_of(name: str, given: list[Mapping[str, Any]], at: Any, size: int) -> SiteState:
    known: dict[str, dict[str, Any]] = {}
    left_out: dict[str, str] = {}
    latest_s, latest, seen_s = 0.0, "", 0.0
    first_s = math.inf
    absolute: set[bool] = set()
    for number, job in enumerate(given, 1):
        values: dict[str, Any] = {
            ours: next((job[n] for n in names if job.get(n) is not None), None) for ours, names in NAMES.items()
        }
        values = {ours: None if known_text(value) in UNKNOWN else value for ours, value in values.items()}
        where = f"{name}: job {number if values['id'] is None else known_text(values['id'])}"
        if missing := [ours for ours in NEEDED if values[ours] is None]:
            raise WorkloadError(f"{where} has no {missing[0]}; its values are {', '.join(map(str, job)) or 'none'}")
        values["id"] = known_text(values["id"])
        if values["id"] in known or values["id"] in left_out:
            raise WorkloadError(f"{where} occurs more than once; ids must be unique")
        for date in ("submit", "start", "end"):
            values[date] = math.nan if values[date] is None else second_of(where, date, values[date], absolute)
        dates = [values[date] for date in ("submit", "start", "end") if not math.isnan(values[date])]
        first_s = min(first_s, *dates)
        latest_s, latest = max((latest_s, latest), (max(dates), values["id"]))
        if math.isnan(values["end"]):
            has_run_until_s = values["start"] + (clock_seconds(str(job.get("run_time", "")), bare=1) or 0.0)
            seen_s = has_run_until_s if seen_s < has_run_until_s <= LATEST_S else seen_s
        if values["left_out"] is not None:
            left_out[values["id"]] = str(values["left_out"])
            continue
        values["processors"] = count_of(where, values["processors"])
        values["request"] = request_of(where, values["request"])
        if not values["submit"] <= values["start"] and not math.isnan(values["start"]):
            raise WorkloadError(f"{where} starts before it was submitted")
        if not math.isnan(values["end"]) and not values["start"] <= values["end"]:
            raise WorkloadError(f"{where} has an end, and no start before it")
        known[values["id"]] = values
    now_s = max(latest_s, seen_s) if at is None else second_of(f"{name}: the state", "instant", at, absolute)
    if len(absolute) > 1:
        raise WorkloadError(
            f"{name}: some of its dates say their offset from UTC, or are Unix times, and others do not; "
            "give all dates, and the instant (at), in one way"
        )
    if not now_s >= latest_s:
        raise WorkloadError(f"{name}: job {latest} has a date after the instant of the state; give a later one (at)")
    left_out |= {key: TOO_WIDE for key, job in known.items() if job["processors"] > size and math.isnan(job["start"])}
    jobs = [job for key, job in known.items() if key not in left_out]
    running = sum(job["processors"] for job in jobs if not math.isnan(job["start"]) and math.isnan(job["end"]))
    if running > size:
        raise WorkloadError(
            f"{name}: its running jobs have {running:,} processors, and the machine {size:,}; give its size (procs)"
        )
    jobs.sort(key=lambda job: (job["submit"], by_name(job["id"]), job["id"]))
    begin_s = math.floor(min(first_s, now_s)) if now_s >= UNIX_S else 0
    named = dict.fromkeys(known_text(job["user"]) for job in jobs if job["user"] is not None)
    users = {user: number for number, user in enumerate(named)}

    def column(key: str) -> NDArray[np.float64]:
        return np.array([job[key] for job in jobs], np.float64)

    start_s, end_s = column("start") - begin_s, column("end") - begin_s
    request_s = column("request")
    ran_s = end_s - start_s
    table = job_table(
        name,
        submit_s=column("submit") - begin_s,
        runtime_s=np.where(np.isnan(ran_s), np.where(np.isinf(request_s), 0, request_s), ran_s),
        walltime_s=np.where(ran_s > request_s, ran_s, request_s),
        procs=np.array([job["processors"] for job in jobs], np.int64),
        ids=np.array([f"{rank:0{len(str(len(jobs)))}}" for rank in range(len(jobs))], object),
        user=np.array([users.get(known_text(job["user"]), -1) for job in jobs], np.int64),
        job_class=np.array([job["class"] for job in jobs], object) if any(job["class"] for job in jobs) else None,
    )
    clock = Clock(begin_s, UTC) if begin_s else None
    names = np.array([job["id"] for job in jobs], object)
    return SiteState(name, table, names, start_s, end_s, now_s - begin_s, size, clock, left_out, users)


def known_text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def count_of(where: str, value: Any) -> int:
    number = number_or_text(value)
    if isinstance(number, bool) or not isinstance(number, int | float) or not 1 <= number <= 2**31 - 1 or number % 1:
        raise WorkloadError(f"{where} has {value!r} processors; give a whole number >= 1")
    return int(number)


def request_of(where: str, value: Any) -> float:
    """A request: seconds, a duration such as 2h, or one as Slurm writes it; inf if there is none."""
    if value is None or (isinstance(value, str) and value.strip().upper() in (*NO_LIMIT, *map(str.upper, UNKNOWN))):
        return math.inf
    clock = isinstance(value, str) and {":", "-"} & {*value} and value.count(":") <= 2  # more: in no known unit
    if clock and (limit_s := clock_seconds(value.strip(), bare=1)):
        return limit_s
    try:
        request_s = seconds_of("request", number_or_text(value), least=1e-9)
        return request_s if request_s <= LONGEST_S else math.inf
    except Exception:
        raise WorkloadError(f"{where} requests {value!r}; give one > 0: seconds, 30min, 2h, or 1-00:30:00") from None


def second_of(where: str, what: str, value: Any, absolute: set[bool]) -> float:
    """A date in seconds or Unix time, local ones as UTC; adds to `absolute` whether it is the same in each zone."""
    number = number_or_text(value)
    if isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= LATEST_S:
        absolute |= {True} if number >= UNIX_S else set()
        return float(number)
    try:
        date = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
        second = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        if not 0 <= second <= LATEST_S:
            raise ValueError
    except ValueError:
        raise WorkloadError(
            f"{where} has the {what} {value!r}; give seconds >= 0, or a date such as 2026-01-31T14:05, or with its "
            "offset from UTC 2026-01-31T14:05+01:00"
        ) from None
    absolute.add(date.tzinfo is not None)
    return second


# What Slurm prints: `scontrol show job`, `squeue` or `sacct` as USE_SQUEUE and USE_SACCT. Source: their manuals.

NO_LIMIT = ("UNLIMITED", "PARTITION_LIMIT", "NOT_SET", "INVALID")  # the partition's, which is not printed
RUNNING = ("RUNNING", "CONFIGURING", "STOPPED", "STAGE_OUT", "SIGNALING", "RESIZING")  # SUSPENDED has no processors
OVER = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL",
        "OUT_OF_MEMORY", "PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT")  # fmt: skip
READY = ("Resources", "Priority", "None", "(null)", "")  # the reasons of jobs that wait for processors
FIELD = re.compile(r"(?:^|\s)(\w+)=(\S*)")
NO_JOBS = "No jobs in the system"
NUMBERS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?(?::([0-9]{1,9}))?")  # 5, 1-9 or 1-9:2
CPUS = re.compile(r"([0-9]{1,9})([KM]?)(?:-[0-9]{1,9}[KM]?)?")  # 4, 2-4 while it waits, or 4K for 4096
MOST_TASKS = 1_000_000
CUT = "not each task of the array is named (scontrol: set SLURM_BITSTR_LEN=0; squeue: -r)"
USE_SQUEUE = 'use squeue -r -o "%i|%u|%T|%C|%l|%V|%S|%r"'
USE_SACCT = "use sacct -aXP -S DATE -o JobID,User,State,ReqCPUS,Timelimit,Submit,Start,End,Reason"
FREE_TEXT = ("Command=", "WorkDir=", "Std", "Comment=", "AdminComment=")  # how lines with a user's own words begin
SQUEUE = {"id": "JOBID", "user": "USER", "state": "STATE", "processors": "CPUS", "request": "TIME_LIMIT",
          "submit": "SUBMIT_TIME", "start": "START_TIME", "reason": "REASON"}  # fmt: skip
SACCT = {"id": "JobID", "user": "User", "state": "State", "processors": "ReqCPUS", "request": "Timelimit",
         "submit": "Submit", "start": "Start", "end": "End", "reason": "Reason"}  # fmt: skip
SCONTROL = {"id": "JobId", "user": "UserId", "state": "JobState", "processors": "NumCPUs", "request": "TimeLimit",
            "submit": "SubmitTime", "start": "StartTime", "end": "EndTime", "reason": "Reason",
            "run_time": "RunTime"}  # fmt: skip


def slurm_fields(text: str) -> list[dict[str, str]]:
    """The fields of the jobs of `scontrol show job`: blocks, of which the first field is JobId."""
    jobs = []
    for block in filter(None, re.split(r"^\s*(?=JobId=)", text, flags=re.MULTILINE)):
        first, *lines = block.splitlines()
        begin, _, rest = first.partition(" JobName=")
        if " UserId=" in rest:  # scontrol -o: the name, which is a user's own, goes up to there
            lines = [rest[rest.index(" UserId=") :].partition(" Command=")[0]]
        found = dict(FIELD.findall(begin))
        for line in lines:
            if not line.lstrip().startswith(FREE_TEXT):
                found |= FIELD.findall(line)
        if "ArrayTaskId" in found:
            found["JobId"] = f"{found.get('ArrayJobId', '')}_[{found['ArrayTaskId']}]"
        if "HetJobOffset" in found:
            found["JobId"] = f"{found.get('HetJobId', '')}+{found['HetJobOffset']}"
        jobs.append(found)
    return jobs


def of_slurm(job: dict[str, Any]) -> list[dict[str, Any]]:
    """A job of Slurm as a state has it, or the tasks of an array; none if it is over and did not run."""
    state, ids = str(job["state"]).partition(" ")[0].partition("+")[0], tasks_of(job["id"])
    if cpus := CPUS.fullmatch(job["processors"]):
        job["processors"] = int(cpus[1]) * {"": 1, "K": 1024, "M": 1024**2}[cpus[2]]  # of a range the least
    if state in OVER:
        known = job.get("end", "") not in UNKNOWN and job["start"] not in UNKNOWN
        ran = known and job["submit"] <= job["start"] <= job["end"]  # dates of one form; a clock may have been set
        return [{**job, "id": name} for name in ids] if ran else []
    if state in RUNNING:
        return [{**job, "id": name, "end": ""} for name in ids]
    if not ids:
        return [{**job, "start": "", "end": "", "left_out": CUT}]
    reason = job["reason"].strip("()").partition(",")[0].replace("_", " ") if state == "PENDING" else state
    left_out = "" if reason in READY and state == "PENDING" else reason or "no state"
    return [{**job, "id": name, "start": "", "end": "", "left_out": left_out} for name in ids]


def whole_jobs(path: Path, read: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The jobs of Slurm; the waiting parts of a heterogeneous one, 7+0 and 7+1, are one job: they start together."""
    found: dict[str, dict[str, Any]] = {}
    for job in (job for one in read for job in of_slurm(one)):
        whole, parts, _ = job["id"].partition("+")
        if not parts or "left_out" not in job:
            found[job["id"]] = job
        elif whole not in found:
            found[whole] = {**job, "id": whole}
        else:
            same, where = found[whole], f"{path}: job {job['id']}"
            same["processors"] = count_of(where, same["processors"]) + count_of(where, job["processors"])
            same["request"] = max(same["request"], job["request"], key=partial(request_of, where))
            same["left_out"] = same["left_out"] or job["left_out"]
    return list(found.values())


def tasks_of(name: str) -> list[str]:
    """The jobs of an id of Slurm, four for 7_[1-3,5%2] of an array; none if not all tasks are named."""
    array, among, tasks = name.partition("_[")
    if not among:
        return [name]
    found: list[int] = []
    for part in tasks.partition("]")[0].partition("%")[0].split(","):
        numbers = NUMBERS.fullmatch(part)
        first, last, step = numbers.groups() if numbers else ("1", "0", None)
        each = range(int(first), int(last or first) + 1, int(step or 1) or 1)
        if not each or len(found) + len(each) > MOST_TASKS:
            return []
        found += each
    return [f"{array}_{task}" for task in found]
