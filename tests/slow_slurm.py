"""Reads `sacct -P` output one record at a time: slow and obvious, to compare `batfill.workloads.slurm` with."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from batfill.errors import WorkloadError
from batfill.workloads.cluster_log import ClusterJob, count_of, lines_of, seconds_in, unix_time, zone_of
from batfill.workloads.swf_log import CANCELLED, COMPLETED, FAILED

if TYPE_CHECKING:
    from datetime import tzinfo
    from pathlib import Path

NEEDED = ("JobID", "Submit", "Start", "End", "State")
ENDED_STATES = {
    "COMPLETED": COMPLETED,
    "CANCELLED": CANCELLED,
    **dict.fromkeys(
        ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED", "REQUEUED"), FAILED
    ),
}
JOB_ID = re.compile(r"^(\d+(?:_\d+|_\[[^\]]*\])?)(\+\d+)?$")


@dataclass
class Reading:
    jobs: list[ClusterJob] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)


def read_slurm(paths: list[Path], *, zone: str = "UTC") -> Reading:
    """The finished jobs of `sacct` output, in files that start with the line of column names.

    - A requeued job has several records (with `-D`, of one id, user and name): its last one is the job, with the
      submission time of the first.
    - The components of a heterogeneous job (JobID 7+0, 7+1) are one job with all their processors.
    - A task of an array is a job; the record of tasks that never started (7_[3-9]) is one job that never ran.
    - Steps (7.batch), which `-X` leaves out, and jobs that have not ended are left out and counted.

    Args:
        paths: the files, plain or compressed.
        zone: the time zone of dates that are not seconds since 1970.

    Raises:
        WorkloadError: a file does not start with column names or lacks one, or a line has another number of columns.
    """
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
                    raise WorkloadError(
                        f"{path}:{number}: no column {missing[0]}; use sacct -P -o {','.join(NEEDED)},..."
                    )
                continue
            fields = _fields(path, number, line, columns, barred=barred)
            match = JOB_ID.match(fields["JobID"])
            if not match:
                reading.notes[_odd(fields["JobID"])] += 1
                continue
            job = _job(fields, clock)
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


def _job(fields: dict[str, str], clock: tzinfo) -> ClusterJob | str:
    """The job of a record, or why the record is not a job."""
    state = fields["State"].split(" ")[0].rstrip("+")
    if state not in ENDED_STATES:
        return "jobs that have not ended, left out"
    submit_s, start_s, end_s = (unix_time(fields[name], clock) for name in ("Submit", "Start", "End"))
    if submit_s is None:
        return "jobs without a submission time, left out"
    if end_s is None:
        return "jobs without an end, left out"
    if start_s is not None and (start_s > end_s or not count_of(fields.get("AllocCPUS", "1"))):
        start_s = None  # cancelled while it waited: Start is the date of the cancellation, or a planned one
    return ClusterJob(
        submit_s=submit_s,
        start_s=start_s,
        end_s=end_s,
        procs=count_of(fields.get("AllocCPUS", "")),
        requested_procs=count_of(fields.get("ReqCPUS", "")),
        requested_s=_limit(fields),
        status=ENDED_STATES[state],
        user=fields.get("User", ""),
        group=fields.get("Group", "") or fields.get("Account", ""),
        executable=fields.get("JobName", ""),
        queue=fields.get("QOS", ""),
        partition=fields.get("Partition", ""),
    )


def _limit(fields: dict[str, str]) -> float | None:
    """The requested time; None for UNLIMITED and Partition_Limit."""
    if "TimelimitRaw" in fields:
        return seconds_in(fields["TimelimitRaw"], bare=60) or None
    return seconds_in(fields.get("Timelimit", ""), bare=60) or None


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
        procs=sum(job.procs or 0 for job in parts) or None,
        requested_procs=sum(job.requested_procs or 0 for job in parts) or None,
        requested_s=max(limits) if len(limits) == len(parts) else None,
        status=next((job.status for job in parts if job.status != COMPLETED), COMPLETED),
    )
