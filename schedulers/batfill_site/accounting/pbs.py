"""Reads the accounting files of PBS and TORQUE servers, one file per day.

Source: the accounting chapters of the TORQUE and PBS Professional manuals. A line is `date time;type;job id;name=value
...`. The files are in server_priv/accounting; pass all of them, because a job may end on another day than it was
queued.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from batfill.base.errors import WorkloadError
from batfill.model.values import MEMORY
from batfill.workloads.swf_log import CANCELLED, COMPLETED, FAILED
from batfill_site.accounting.cluster_log import NO_ZONE, TWICE, ClusterJob, Reading, Takes
from batfill_site.accounting.record_text import ODD, count_of, epoch, limit_of, read_times, zone_of

RECORD_LINE = re.compile(r"^(\d\d)/(\d\d)/(\d{4}) (\d\d:\d\d:\d\d)(?:\.\d+)?;(\w);([^;]*);(.*)$")
RECORD_FIELD = re.compile(r'([^\s=]+)=("[^"]*"|\S*)')
RANGE = re.compile(r"(\d{1,11})-(\d{1,11})", re.ASCII)
SIZE = re.compile(r"(\d{1,15})([kmgtp]?)([bw]?)", re.ASCII)  # of memory, in bytes or words
SHOWN = ("qtime", "start", "end", "Resource_List.walltime")  # no names, since an example is shown
BLOCK = 1000  # records read at once
QUEUED, STARTED, DELETED, ABORTED, ENDED = "Q", "S", "D", "A", "E"
WHOLE_ARRAY = re.compile(r"^\d+\[\]")


@dataclass(slots=True)
class _Life:
    """What the records say of the job that has an id now; the next one may get the id again."""

    queued_s: int = 0
    queue: str = ""
    deleted_s: int = 0
    started: bool = False
    ended: tuple[str, str] | None = None  # id and ctime
    over_s: int = 0  # when it had ended or was deleted
    shown: str = ""


def read_pbs(paths: list[Path], reading: Reading) -> Reading:
    """The jobs of accounting files: those that ended (E), and those deleted (D) or aborted (A) while they waited.

    A job that ran several times has several E records with one ctime: the last one is the job, with its first queue
    time. Records of one id with other ctimes are of other jobs, since a server's ids start again. A subjob of an array
    (12[3]) is a job; the record of the whole array (12[]) is left out. A job that ended with a status other than 0
    failed, or was cancelled if a D record names it. The reading's zone, the server's, is that of jobs that never ran
    (the others' times are seconds since 1970).
    """
    tries: dict[tuple[str, str], dict[ClusterJob, str]] = {}  # of each id and ctime, in their order
    by_id: dict[str, _Life] = {}
    lives: list[_Life] = []
    for path in paths:
        reading.files[path] = 0
        for number, at_s, later_s, kind, job, text in _records(path, reading):
            reading.files[path] += 1
            fields = {name: value.strip('"') for name, value in RECORD_FIELD.findall(text)}
            stated = "".join(f", {name} {fields[name][:20]}" for name in SHOWN if name in fields)
            show = f"{path.name}:{number}: {kind} of {job}{stated}"
            if WHOLE_ARRAY.match(job):
                if kind == ENDED:
                    reading.note("records of whole arrays, left out", example=show)
                continue
            if kind in (QUEUED, DELETED, ABORTED):
                if at_s == ODD:
                    reading.note("records of no date that is understood, left out", example=show)
                    continue
                if later_s:
                    reading.note(f"records in an hour that the clock repeats or skips ({reading.zone})", example=show)
            elif kind not in (STARTED, ENDED):
                continue
            run = job, fields.get("ctime", "")
            life = by_id.get(job)
            again = kind == QUEUED and life is not None and 0 < life.over_s < at_s
            if life is None or again or (kind == ENDED and life.ended not in (None, run)):
                life = by_id[job] = _Life()
                lives.append(life)
            life.shown = show
            if kind == QUEUED:
                life.queued_s = life.queued_s or at_s
                life.queue = fields.get("queue", "")
            elif kind == STARTED:
                life.started = True
            elif kind == ENDED:
                found = _job(fields, was_deleted=life.deleted_s > 0)
                if tries.setdefault(run, {}).setdefault(found, show) is not show:
                    reading.note(TWICE, example=show)
                life.ended, life.over_s = run, found.end_s
            else:
                life.deleted_s = life.over_s = at_s
    jobs, shown = [], []
    for some in tries.values():
        last, first = list(some)[-1], next(iter(some))
        submit_s = min(job.submit_s for job in some)
        jobs.append(last._replace(submit_s=submit_s, eligible_s=first.eligible_s))
        shown.append(some[last])
        reading.note("earlier tries of jobs run again, left out", len(some) - 1, some[first])
    unended = [life for life in lives if life.ended is None]
    deleted = [life for life in unended if life.deleted_s and not life.started]
    never_ran = [life for life in deleted if life.queued_s]
    for reason, gone in (
        ("jobs deleted while they waited", never_ran),
        (NO_ZONE, never_ran if reading.zone == "UTC" else []),
        ("jobs deleted without a record of their queueing, left out", [life for life in deleted if not life.queued_s]),
        ("jobs that have not ended, left out", [life for life in unended if life.started or not life.deleted_s]),
    ):
        reading.note(reason, len(gone), min((life.shown for life in gone), default=""))
    jobs += [ClusterJob(life.queued_s, 0, life.deleted_s, 0, 0, 0, CANCELLED, queue=life.queue) for life in never_ran]
    reading.extend(jobs, shown + [life.shown for life in never_ran])
    return reading


def _records(path: Path, reading: Reading) -> Iterator[tuple[int, int, int, str, str, str]]:
    """Of each record its line, its second and what its other reading adds, as in `Times`, its type, id and fields."""
    lines, clock = reading.lines_of(path), zone_of(reading.zone)
    while some := list(islice(lines, BLOCK)):
        found = []
        for number, line in some:
            match = RECORD_LINE.match(line)
            if not match:
                raise WorkloadError(f"{path}:{number}: not `date time;type;job id;...`; is it a PBS accounting file?")
            found.append(match)
        times = read_times(["{2}-{0}-{1}T{3}".format(*match.groups()) for match in found], clock)
        seconds = zip(times.seconds.tolist(), times.later_s.tolist(), strict=True)
        for (number, _), at_s, match in zip(some, seconds, found, strict=True):
            yield number, *at_s, *match.groups()[4:]


def _job(fields: dict[str, str], *, was_deleted: bool) -> ClusterJob:
    def second(*names: str) -> int:
        return next((epoch(fields[name]) for name in names if name in fields), 0)

    completed = fields.get("Exit_status", "0") == "0"
    return ClusterJob(
        submit_s=second("qtime", "ctime"),
        start_s=second("start"),
        end_s=second("end"),
        procs=processors_used(fields),
        requested_procs=processors_requested(fields),
        eligible_s=second("etime"),
        requested_s=limit_of(fields.get("Resource_List.walltime", ""), bare=1),
        status=COMPLETED if completed else CANCELLED if was_deleted else FAILED,
        user=fields.get("user", ""),
        group=fields.get("group", "") or fields.get("account", ""),
        executable=fields.get("jobname", ""),
        queue=fields.get("queue", ""),
        takes=takes_of(fields),
    )


def takes_of(fields: dict[str, str]) -> str:
    """What the job requested beside processors, see `Takes`: memory in GB, and GPUs."""
    size = SIZE.fullmatch(fields.get("Resource_List.mem", "").lower())
    memory = int(size[1]) * 1024 ** " kmgtp".index(size[2] or " ") * (8 if size[3] == "w" else 1) if size else 0
    return Takes.text_of({MEMORY: memory / 1e9, "gpu": count_of(fields.get("Resource_List.ngpus", "")) or 0})


def processors_used(fields: dict[str, str]) -> int:
    """Processors held: resources_used.ncpus, else the slots of exec_host (n1/0+n1/1, n1/0-5, n1/0*16)."""
    if used := count_of(fields.get("resources_used.ncpus", "")):
        return used
    slots = 0
    for place in filter(None, fields.get("exec_host", "").split("+")):
        at = place.partition("/")[2]
        slots += count_of(at.partition("*")[2]) or sum(map(_range, at.split(",")))
    return slots


def _range(text: str) -> int:
    found = RANGE.fullmatch(text)
    return max(int(found[2]) - int(found[1]) + 1, 1) if found else 1


def processors_requested(fields: dict[str, str]) -> int:
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
