"""Reads the accounting files of PBS and TORQUE servers, one file per day.

Source: the accounting chapters of the TORQUE and PBS Professional manuals. A line is `date time;type;job id;name=value
...`. The files are in server_priv/accounting; pass all of them, because a job may end on another day than it was
queued.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from batfill.errors import WorkloadError
from batfill.workloads.cluster_log import ClusterJob, Reading, count_of, epoch, lines_of, seconds_in, unix_time, zone_of
from batfill.workloads.swf_log import CANCELLED, COMPLETED, FAILED

if TYPE_CHECKING:
    from pathlib import Path

RECORD_LINE = re.compile(r"^(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(?:\.\d+)?);(\w);([^;]*);(.*)$")
RECORD_FIELD = re.compile(r'([^\s=]+)=("[^"]*"|\S*)')
QUEUED, DELETED, ABORTED, ENDED = "Q", "D", "A", "E"
WHOLE_ARRAY = re.compile(r"^\d+\[\]")


def read_pbs(paths: list[Path], *, zone: str = "UTC") -> Reading:
    """The jobs of accounting files: those that ended (E), and those deleted (D) or aborted (A) while they waited.

    - A job that ran several times has several E records: the last one is the job, with its first queue time.
    - A subjob of an array (12[3]) is a job; the record of the whole array (12[]) is left out.
    - A job that ended with a status other than 0 failed, or was cancelled if a D record names it.

    Args:
        paths: the files, plain or compressed.
        zone: the server's time zone, for jobs that never ran (the others' times are seconds since 1970).

    Raises:
        WorkloadError: a line is not an accounting record; the message names it.
    """
    reading = Reading()
    clock = zone_of(zone)
    queued: dict[str, float] = {}
    deleted: dict[str, float] = {}
    ended: dict[str, ClusterJob] = {}
    queues: dict[str, str] = {}
    for path in paths:
        for number, line in lines_of(path):
            if not line.strip():
                continue
            match = RECORD_LINE.match(line)
            if not match:
                raise WorkloadError(f"{path}:{number}: not `date time;type;job id;...`; is it a PBS accounting file?")
            date, kind, job, text = match.groups()
            if WHOLE_ARRAY.match(job):
                reading.notes["records of whole arrays, left out"] += kind == ENDED
                continue
            at_s = unix_time(date.split(".")[0], clock, "%m/%d/%Y %H:%M:%S")
            fields = {name: value.strip('"') for name, value in RECORD_FIELD.findall(text)}
            if kind == QUEUED and at_s is not None:
                queued.setdefault(job, at_s)
                queues[job] = fields.get("queue", "")
            elif kind in (DELETED, ABORTED) and at_s is not None:
                deleted[job] = at_s
            elif kind == ENDED:
                found = _job(fields, was_deleted=job in deleted)
                if isinstance(found, str):
                    reading.notes[found] += 1
                    continue
                if job in ended:
                    reading.notes["earlier tries of jobs run again, left out"] += 1
                    found = replace(found, submit_s=min(found.submit_s, ended[job].submit_s))
                ended[job] = found
    never_ran = [
        ClusterJob(queued[job], None, at_s, None, None, None, CANCELLED, queue=queues[job])
        for job, at_s in deleted.items()
        if job in queued and job not in ended
    ]
    reading.notes["jobs deleted while they waited"] += len(never_ran)
    reading.jobs.extend([*ended.values(), *never_ran])
    reading.notes = +reading.notes
    return reading


def _job(fields: dict[str, str], *, was_deleted: bool) -> ClusterJob | str:
    """The job of an E record, or why the record is not a job."""

    def second(*names: str) -> float | None:
        return next((at_s for name in names if (at_s := epoch(fields.get(name, "")))), None)

    submit_s, start_s, end_s = second("qtime", "ctime"), second("start"), second("end")
    if submit_s is None or start_s is None or end_s is None:
        return "end records without qtime, start or end, left out"
    completed = fields.get("Exit_status", "0") == "0"
    return ClusterJob(
        submit_s=submit_s,
        start_s=start_s,
        end_s=end_s,
        procs=processors_used(fields),
        requested_procs=processors_requested(fields),
        requested_s=seconds_in(fields.get("Resource_List.walltime", ""), bare=1) or None,
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
