"""Reads `sacct -P` output one record at a time: slow and obvious, to compare `batfill.workloads.slurm` with."""

from __future__ import annotations

import math
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from batfill.base.errors import WorkloadError
from batfill.workloads.cluster_log import ClusterJob
from batfill.workloads.record_text import lines_of, zone_of
from batfill.workloads.swf_log import CANCELLED, COMPLETED, FAILED

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
    """The finished jobs of `sacct` output; its rules are those of `batfill.workloads.slurm.read_slurm`."""
    reading = Reading()
    tries: dict[tuple[str, str, str], list[ClusterJob]] = {}
    components: dict[tuple[str, str, str], dict[str, list[ClusterJob]]] = {}
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
            fields = _fields(path, number, line, columns, barred=barred)
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
                components.setdefault(name, {}).setdefault(component, []).append(job)
            else:
                tries.setdefault(name, []).append(job)
    for name, parts in components.items():
        whole = [_last_try(attempts, reading) for attempts in parts.values()]
        reading.notes["components of heterogeneous jobs, joined"] += len(whole)
        tries.setdefault(name, []).append(_joined(whole))
    reading.jobs += [_last_try(attempts, reading) for attempts in tries.values()]
    return reading


def _fields(path: Path, number: int, line: str, columns: list[str], *, barred: bool) -> dict[str, str]:
    values = line.split("|")
    if not values[-1] and (
        len(values) == len(columns) + 1 or (barred and len(values) > len(columns))
    ):  # `-p` ends each line with a bar, `-P` does not
        values.pop()
    extra = len(values) - len(columns)
    if extra > 0 and "JobName" in columns:  # only a job's name may hold a bar
        at = columns.index("JobName")
        values[at : at + extra + 1] = ["|".join(values[at : at + extra + 1])]
    if len(values) != len(columns):
        raise WorkloadError(
            f"{path}:{number}: {len(values)} columns, but the first line names {len(columns)}; is it truncated?"
        )
    return dict(zip(columns, values, strict=True))


def _odd(job_id: str) -> str:
    return "steps, left out" if "." in job_id else "records whose JobID is not understood, left out"


def _job(fields: dict[str, str], clock: tzinfo, zone: str, notes: Counter[str]) -> ClusterJob | str:
    """The job of a record, or why the record is not a job; what is changed or guessed of a job is counted."""
    word = fields["State"].split(" ")[0].upper()
    full = [name for name in STATES if len(name) > 3 and word.endswith("+") and name.startswith(word[:-1])]
    state = STATES.get(word.rstrip("+"), STATES[full[0]] if len(full) == 1 else None)
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


def _last_try(attempts: list[ClusterJob], reading: Reading) -> ClusterJob:
    attempts.sort(key=lambda job: (job.end_s or 0, job.submit_s))
    if len(attempts) > 1:
        reading.notes["earlier tries of requeued jobs, left out"] += len(attempts) - 1
    return replace(attempts[-1], submit_s=min(job.submit_s for job in attempts))


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
