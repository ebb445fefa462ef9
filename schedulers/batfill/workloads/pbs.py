"""Reads the accounting files of PBS and TORQUE servers, one file per day.

Source: the accounting chapters of the TORQUE and PBS Professional manuals. A line is `date time;type;job id;name=value
...`. The files are in server_priv/accounting; pass all of them, because a job may end on another day than it was
queued.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from batfill.base.errors import WorkloadError
from batfill.workloads.cluster_log import NO_ZONE, ClusterJob, Reading
from batfill.workloads.record_text import ODD, count_of, epoch, limit_of, lines_of, unix_time, zone_of
from batfill.workloads.swf_log import CANCELLED, COMPLETED, FAILED

if TYPE_CHECKING:
    from pathlib import Path

RECORD_LINE = re.compile(r"^(\d\d)/(\d\d)/(\d{4}) (\d\d:\d\d:\d\d)(?:\.\d+)?;(\w);([^;]*);(.*)$")
RECORD_FIELD = re.compile(r'([^\s=]+)=("[^"]*"|\S*)')
SHOWN = ("qtime", "start", "end", "Resource_List.walltime")  # no names, since an example is shown
QUEUED, STARTED, DELETED, ABORTED, ENDED = "Q", "S", "D", "A", "E"
WHOLE_ARRAY = re.compile(r"^\d+\[\]")


def read_pbs(paths: list[Path], reading: Reading) -> Reading:
    """The jobs of accounting files: those that ended (E), and those deleted (D) or aborted (A) while they waited.

    - A job that ran several times has several E records: the last one is the job, with its first queue time.
    - A subjob of an array (12[3]) is a job; the record of the whole array (12[]) is left out.
    - A job that ended with a status other than 0 failed, or was cancelled if a D record names it.

    Args:
        paths: the files, plain or compressed.
        reading: an empty one, with its choices. Its zone, the server's, is that of jobs that
            never ran (the others' times are seconds since 1970).

    Raises:
        WorkloadError: a line is not an accounting record; the message names it.
    """
    clock = zone_of(reading.zone)
    queued: dict[str, int] = {}
    deleted: dict[str, int] = {}
    started: set[str] = set()
    ended: dict[str, ClusterJob] = {}
    queues: dict[str, str] = {}
    shown: dict[str, str] = {}
    for path in paths:
        reading.files[path] = 0
        for number, line in lines_of(path):
            if not line.strip():
                continue
            match = RECORD_LINE.match(line)
            if not match:
                raise WorkloadError(f"{path}:{number}: not `date time;type;job id;...`; is it a PBS accounting file?")
            reading.files[path] += 1
            month, day, year, time, kind, job, text = match.groups()
            fields = {name: value.strip('"') for name, value in RECORD_FIELD.findall(text)}
            stated = "".join(f", {name} {fields[name][:20]}" for name in SHOWN if name in fields)
            show = f"{path.name}:{number}: {kind} of {job}{stated}"
            if WHOLE_ARRAY.match(job):
                if kind == ENDED:
                    reading.note("records of whole arrays, left out", example=show)
                continue
            if kind == ENDED:
                found = _job(fields, was_deleted=job in deleted)
                if job in ended:
                    reading.note("earlier tries of jobs run again, left out", example=shown[job])
                    before = ended[job]
                    found = replace(
                        found, submit_s=min(found.submit_s or 0, before.submit_s or 0), eligible_s=before.eligible_s
                    )
                ended[job] = found
            elif kind in (QUEUED, DELETED, ABORTED):
                at_s, later_s = unix_time(f"{year}-{month}-{day}T{time}", clock)
                if at_s == ODD:
                    reading.note("records of no date that is understood, left out", example=show)
                    continue
                if later_s:
                    reading.note(f"records in an hour that the clock repeats or skips ({reading.zone})", example=show)
                if kind == QUEUED:
                    queued.setdefault(job, at_s)
                    queues[job] = fields.get("queue", "")
                else:
                    deleted[job] = at_s
            elif kind == STARTED:
                started.add(job)
            else:
                continue
            shown[job] = show
    never_ran = {
        job: ClusterJob(queued[job], None, at_s, None, None, None, CANCELLED, queue=queues[job])
        for job, at_s in deleted.items()
        if job in queued and job not in ended and job not in started
    }
    for reason, jobs in (
        ("jobs deleted while they waited", list(never_ran)),
        (NO_ZONE, list(never_ran) if reading.zone == "UTC" else []),
        (
            "jobs deleted without a record of their queueing, left out",
            deleted.keys() - queued.keys() - ended.keys() - started,
        ),
        ("jobs that have not ended, left out", (queued.keys() - deleted.keys() | started) - ended.keys()),
    ):
        reading.note(reason, len(jobs), min((shown[job] for job in jobs), default=""))
    found_jobs = {**ended, **never_ran}
    reading.extend(list(found_jobs.values()), [shown[job] for job in found_jobs])
    return reading


def _job(fields: dict[str, str], *, was_deleted: bool) -> ClusterJob:
    """The job of an E record."""

    def second(*names: str) -> int:
        return next((epoch(fields[name]) for name in names if name in fields), 0)

    submit_s, start_s, end_s = second("qtime", "ctime"), second("start"), second("end")
    completed = fields.get("Exit_status", "0") == "0"
    return ClusterJob(
        submit_s=submit_s,
        start_s=start_s,
        end_s=end_s,
        procs=processors_used(fields),
        requested_procs=processors_requested(fields),
        eligible_s=second("etime"),
        requested_s=limit_of(fields.get("Resource_List.walltime", ""), bare=1),
        status=COMPLETED if completed else CANCELLED if was_deleted else FAILED,
        user=fields.get("user", ""),
        group=fields.get("group", "") or fields.get("account", ""),
        executable=fields.get("jobname", ""),
        queue=fields.get("queue", ""),
    )


def processors_used(fields: dict[str, str]) -> int | None:
    """Processors held: resources_used.ncpus, else the slots of exec_host (n1/0+n1/1, n1/0-5, n1/0*16)."""
    if used := count_of(fields.get("resources_used.ncpus", "")):
        return used
    slots = 0
    for place in filter(None, fields.get("exec_host", "").split("+")):
        at = place.partition("/")[2]
        _, star, times = at.partition("*")
        if star:
            slots += count_of(times) or 1
        else:
            slots += sum(_range(part) for part in at.split(",")) if at else 1
    return slots or None


def _range(text: str) -> int:
    """The count of numbers in `3` or `0-5`."""
    first, dash, last = text.partition("-")
    if not dash or not all(part.isascii() and part.isdigit() and len(part) < 12 for part in (first, last)):
        return 1
    return max(int(last) - int(first) + 1, 1)


def processors_requested(fields: dict[str, str]) -> int | None:
    """Processors requested: Resource_List.ncpus or .procs, else the chunks of .select or .nodes (2:ncpus=8+1:ppn=4)."""
    for name in ("ncpus", "procs"):
        if found := count_of(fields.get(f"Resource_List.{name}", "")):
            return found
    request = fields.get("Resource_List.select") or fields.get("Resource_List.nodes") or ""
    total = 0
    for chunk in filter(None, request.split("+")):
        count, *rest = chunk.split(":")
        per_node = next((count_of(part.partition("=")[2]) for part in rest if part.startswith(("ncpus=", "ppn="))), 1)
        total += (count_of(count) or 1) * (per_node or 1)  # a host's name instead of a number is one host
    return total or count_of(fields.get("Resource_List.nodect", ""))
