"""Reads `sacct -P` output one record at a time: slow and obvious, to compare `batfill_site.accounting.slurm` with."""

from __future__ import annotations

import math
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from batfill.base.errors import WorkloadError
from batfill.workloads.swf_log import CANCELLED, COMPLETED, FAILED
from batfill_site.accounting.cluster_log import NAMES, TYPES, ClusterJob, Jobs
from batfill_site.accounting.record_text import lines_of, zone_of

if TYPE_CHECKING:
    from datetime import tzinfo
    from pathlib import Path

NEEDED = ("JobID", "Submit", "Start", "End", "State", "AllocCPUS")
MEANINGS = {
    "COMPLETED CD": COMPLETED,
    "CANCELLED CA": CANCELLED,
    "FAILED F TIMEOUT TO NODE_FAIL NF OUT_OF_MEMORY OOM BOOT_FAIL BF DEADLINE DL PREEMPTED PR REQUEUED RQ": FAILED,
    "PENDING PD RUNNING R RESIZING RS SUSPENDED S": "jobs that have not ended, left out",
    "REVOKED RV": "jobs revoked because another cluster of the federation ran them, left out",
}
STATES = {name: meaning for names, meaning in MEANINGS.items() for name in names.split()}
LAST_S = 2**32 - 1
MOST = 2**31 - 1
JOB_ID = re.compile(r"^(\d+(?:_\d+|_\[[^\]]*\])?)(\+\d+)?$")


@dataclass
class Reading:
    jobs: list[ClusterJob] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)


def read_slurm(paths: list[Path], *, zone: str = "UTC") -> Reading:
    """The finished jobs of `sacct` output; its rules are those of `batfill_site.accounting.slurm.read_slurm`."""
    reading = Reading()
    tries: dict[tuple[str, str, str], list[ClusterJob]] = {}
    components: dict[tuple[str, str], dict[tuple[str, str], list[ClusterJob]]] = {}
    clock = zone_of(zone)
    for path in paths:
        columns: list[str] = []
        barred = False
        for number, line in lines_of(path):
            if not line.strip():
                continue
            if not columns:
                columns, barred = line.rstrip("|").split("|"), line.endswith("|")
                if missing := [name for name in NEEDED if name not in columns]:
                    raise WorkloadError(f"{path}:{number}: no column {missing[0]}")
                continue
            fields = _fields(line, columns, barred=barred)
            if isinstance(fields, str):
                reading.notes[fields] += 1
                continue
            if "|" in fields["JobName"]:
                reading.notes["with a bar (|) in JobName, read by the form of the other columns"] += 1
            match = JOB_ID.match(fields["JobID"])
            if not match:
                reading.notes[_odd(fields["JobID"])] += 1
                continue
            job = _job(fields, clock, zone, reading.notes)
            if isinstance(job, str):
                reading.notes[job] += 1
                continue
            component = match[2]
            name = str(match[1]), job.user, job.executable  # ids repeat after Slurm's counter wraps around
            if component:
                components.setdefault(name[:2], {}).setdefault((component, job.executable), []).append(job)
            else:
                tries.setdefault(name, []).append(job)
    for (job_id, user), parts in components.items():
        whole = [job for attempts in parts.values() for job in _last_tries(attempts, reading)]
        reading.notes["components of heterogeneous jobs, joined"] += len(whole)
        whole.sort(key=lambda job: job.submit_s)
        at = 0
        for k in range(1, len(whole) + 1):
            if k == len(whole) or whole[k].submit_s > whole[k - 1].submit_s + 3600:
                name = job_id, user, whole[at].executable
                tries.setdefault(name, []).append(_joined(whole[at:k]))
                at = k
    reading.jobs += [job for attempts in tries.values() for job in _last_tries(attempts, reading)]
    return reading


def _fields(line: str, columns: list[str], *, barred: bool) -> dict[str, str] | str:
    """The fields of a record by column, or why there are none: of these columns only a job's name may hold a bar."""
    values = line.split("|")
    if not values[-1] and barred and len(values) > len(columns):  # `-p` ends each line with a bar, `-P` does not
        values.pop()
    extra = len(values) - len(columns)
    if not extra:
        return dict(zip(columns, values, strict=True))
    for one in [values[:-1], values] if not values[-1] else [values]:
        at, extra = columns.index("JobName"), len(one) - len(columns)
        fields = dict(
            zip(columns, [*one[:at], "|".join(one[at : at + extra + 1]), *one[at + extra + 1 :]], strict=True)
        )
        if _fits(fields):
            return fields
    return "with more fields than columns: cannot be told apart, left out"


def _fits(fields: dict[str, str]) -> bool:
    limit = next(fields[name] for name in ("TimelimitRaw", "Timelimit") if name in fields)
    return (
        re.fullmatch(r"[0-9][\w.+%\[\],-]*", fields["JobID"]) is not None
        and all(_is_time(fields[name].strip()) for name in ("Submit", "Start", "End"))
        and all(
            re.fullmatch(r"|[0-9]{1,12}|[0-9]{1,12}(\.[0-9]+)?[KMGTP]", fields[n]) for n in ("AllocCPUS", "ReqCPUS")
        )
        and (limit == "INVALID" or "not understood" not in _limit(fields)[1])
        and _state(fields["State"]) is not None
    )


def _is_time(text: str) -> bool:
    if text in ("", "Unknown", "None", "N/A") or re.fullmatch(r"[0-9]{1,18}(\.[0-9]*)?", text):
        return True
    with suppress(ValueError):
        at = datetime.fromisoformat(text)
        return text.isascii() and (at.tzinfo is None or 1 <= at.timestamp() < LAST_S + 1)
    return False


def _state(text: str) -> int | str | None:
    word = text.strip().split(" ")[0].upper()
    full = [name for name in STATES if len(name) > 3 and word.endswith("+") and name.startswith(word[:-1])]
    return STATES.get(word.rstrip("+"), STATES[full[0]] if len(full) == 1 else None)


def _odd(job_id: str) -> str:
    return "steps, left out" if "." in job_id else "records whose JobID is not understood, left out"


def _job(fields: dict[str, str], clock: tzinfo, zone: str, notes: Counter[str]) -> ClusterJob | str:
    """The job of a record, or why the record is not a job; what is changed or guessed of a job is counted."""
    state = _state(fields["State"])
    if state is None:
        return "records whose state is not understood, left out"
    if isinstance(state, str):
        return state
    times = []
    for name in ("Submit", "Start", "End"):
        try:
            times.append(_readings(fields[name], clock))
        except ValueError:
            return f"jobs whose {name} is no time that is understood, left out"
    if not times[0]:
        return "jobs without a submission time, left out"
    if not times[2]:
        return "jobs without an end, left out"
    chosen, last = [], 0
    for readings in times:
        fits = [at_s for at_s in readings if at_s >= last]
        chosen.append(min(fits, default=readings[0] if readings else None))
        last = max(last, chosen[-1] or 0)
    submit_s, start_s, end_s = chosen
    alloc, req = (int(text) if text.isascii() and text.isdigit() else -1 for text in _counts(fields))
    if state == COMPLETED and start_s is None:
        return "COMPLETED jobs without a start, left out"
    if state != CANCELLED and start_s is not None and start_s > end_s:
        return "jobs that end before they start, left out"
    if state == COMPLETED and alloc == 0:
        return "COMPLETED jobs with AllocCPUS 0, left out"
    remarks = []
    if start_s is not None and start_s > end_s:
        remarks.append("jobs cancelled before the start that they state: run time 0")
        start_s = None
    if alloc == 0:
        start_s = None
    if start_s is None:
        remarks.append("jobs that never started: run time 0")
        if submit_s > end_s:
            remarks.append("jobs submitted after their end: submitted at their end")
            submit_s = end_s
    else:
        if not 0 < alloc <= MOST:
            if not 0 < req <= MOST:
                return "jobs that ran on an unknown number of processors, left out"
            remarks.append("jobs whose AllocCPUS is unknown: the processors that they requested count")
            alloc = req
        if submit_s > start_s:
            remarks.append("jobs submitted after their start: submitted at their start")
            submit_s = start_s
    if any(len(readings) == 2 for readings in times):
        remarks.append(f"jobs with a time in an hour that the clock repeats ({zone}): the first that fits is taken")
    if any(_skipped(fields[name], clock) for name in ("Submit", "Start", "End")):
        remarks.append(f"jobs with a time that the clock skips ({zone}; is it their time zone?)")
    if zone == "UTC" and any(_local(fields[name].strip()) for name in ("Submit", "Start", "End")):
        remarks.append("jobs with dates without a time zone, read in UTC; --timezone names the cluster's")
    if any(re.search(r"[.,]0*[1-9]", fields[name]) for name in ("Submit", "Start", "End")):
        remarks.append("jobs with fractions of a second, cut off")
    if not 0 <= req <= MOST:
        remarks.append("jobs whose ReqCPUS is not understood: no requested processors")
    limit_s, remark = _limit(fields)
    notes.update([*remarks, remark] if remark else remarks)
    return ClusterJob(
        submit_s=submit_s,
        start_s=start_s,
        end_s=end_s,
        procs=alloc if 0 < alloc <= MOST else None,
        requested_procs=req if 0 < req <= MOST else None,
        requested_s=limit_s,
        status=state,
        user=fields.get("User", ""),
        group=fields.get("Group", "") or fields.get("Account", ""),
        executable=fields.get("JobName", ""),
        queue=fields.get("QOS", ""),
        partition=fields.get("Partition", ""),
    )


def _counts(fields: dict[str, str]) -> tuple[str, ...]:
    """AllocCPUS and ReqCPUS, with `4K` in digits."""
    texts = (fields.get(name, "")[:13] for name in ("AllocCPUS", "ReqCPUS"))
    units = {"K": 1024, "M": 1024**2}
    return tuple(
        str(int(text[:-1]) * units[text[-1:]]) if text[:-1].isdigit() and text[-1:] in units else text for text in texts
    )


def _local(text: str) -> datetime | None:
    with suppress(ValueError):
        at = datetime.fromisoformat(text)
        return at if at.tzinfo is None and text.isascii() and not text.isdigit() else None
    return None


def _skipped(text: str, clock: tzinfo) -> bool:
    at = _local(text.strip())
    return at is not None and at.replace(tzinfo=clock).astimezone(UTC).astimezone(clock).replace(tzinfo=None) != at


def _readings(text: str, clock: tzinfo) -> list[int]:
    """Seconds since 1970: none, one, or two in an hour that the clock repeats.

    Raises:
        ValueError: the text is no time.
    """
    text = text.strip()
    if text in ("", "Unknown", "None", "N/A"):
        return []
    if re.fullmatch(r"[0-9]{1,18}(\.[0-9]*)?", text):
        found = [int(text.split(".")[0])]
        if found == [0]:
            return []
    else:
        if not text.isascii():
            raise ValueError(text)
        at = datetime.fromisoformat(text).replace(microsecond=0)
        both = [at] if at.tzinfo else [at.replace(tzinfo=clock, fold=fold) for fold in (0, 1)]
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        found = [(date - epoch) // timedelta(seconds=1) for date in both]
        if not at.tzinfo and (found[0] >= found[1]):
            found = found[:1]
    if not all(1 <= at_s <= LAST_S for at_s in found):
        raise ValueError(text)
    return found


def _limit(fields: dict[str, str]) -> tuple[float | None, str]:
    """The requested time, and what to say if there is none."""
    name = next((name for name in ("TimelimitRaw", "Timelimit") if name in fields), None)
    title, text = name or "TimelimitRaw or Timelimit", fields.get(name or "", "").strip().lower()
    if text in ("unlimited", "infinite"):
        return None, f"jobs with {title} UNLIMITED: no requested time"
    if text == "partition_limit":
        return None, "jobs with their partition's limit: no requested time; state it with --partition-limit"
    part = r"([0-9]{1,11})"
    seconds = 0.0 if not text else math.nan
    if found := re.fullmatch(rf"{part}(\.[0-9]{{1,11}})?", text):
        seconds = float(text) * 60
    elif found := re.fullmatch(rf"{part}-{part}(?::{part})?(?::{part})?(\.[0-9]{{1,11}})?", text):
        days, hours, minutes, rest = (int(part or 0) for part in found.groups()[:4])
        seconds = days * 86400 + hours * 3600 + minutes * 60 + rest
    elif found := re.fullmatch(rf"{part}(?::{part})+(\.[0-9]{{1,11}})?", text):
        seconds = 0
        for number in text.split(".")[0].split(":"):
            seconds = seconds * 60 + int(number)
    if math.isnan(seconds):
        return None, f"jobs whose {title} is not understood: no requested time"
    if int(seconds) == 0:
        return None, f"jobs whose {title} is empty or 0: no requested time"
    if int(seconds) > LAST_S:
        return None, f"jobs whose {title} is beyond 2^32 s: no requested time"
    return int(seconds), ""


def _last_tries(attempts: list[ClusterJob], reading: Reading) -> list[ClusterJob]:
    """The last try of each job with an id, since another job may have got the id; equal records count once."""
    different = list(dict.fromkeys(attempts))
    if len(different) < len(attempts):
        reading.notes["there twice, as in exports that overlap, left out"] += len(attempts) - len(different)
    found: list[ClusterJob] = []
    before: ClusterJob | None = None
    for job in sorted(different, key=lambda job: (job.end_s or 0, job.submit_s)):
        if before is not None and (
            job.submit_s == before.submit_s
            or (before.status != COMPLETED and job.submit_s <= (before.end_s or 0) + 3600)
        ):
            reading.notes["earlier tries of requeued jobs, left out"] += 1
            found[-1] = replace(job, submit_s=min(found[-1].submit_s, job.submit_s))
        else:
            found.append(job)
        before = job
    return found


def _joined(parts: list[ClusterJob]) -> ClusterJob:
    starts = [job.start_s for job in parts if job.start_s is not None]
    limits = [job.requested_s for job in parts if job.requested_s is not None]
    return replace(
        parts[0],
        submit_s=min(job.submit_s for job in parts),
        start_s=min(starts, default=None),
        end_s=max((job.end_s for job in parts if job.end_s is not None), default=None),
        procs=min(sum(job.procs or 0 for job in parts), MOST) or None,
        requested_procs=min(sum(job.requested_procs or 0 for job in parts), MOST) or None,
        requested_s=max(limits) if len(limits) == len(parts) else None,
        status=next((job.status for job in parts if job.status != COMPLETED), COMPLETED),
    )


def as_objects(jobs: Jobs) -> list[ClusterJob]:
    """The jobs of a reader's columns, one by one."""
    return [_object(jobs, row) for row in range(len(jobs))]


def _object(jobs: Jobs, row: int) -> ClusterJob:
    value = {name: int(jobs[name][row]) for name in TYPES}
    names = {kind: jobs.names[kind].text(value[kind]) for kind in NAMES}
    unknown = {"submit_s": -1, "procs": -1, "requested_procs": -1, "status": None}
    known = {name: None if value[name] == unknown.get(name, 0) else value[name] for name in TYPES}
    return ClusterJob(**{**known, **names})
