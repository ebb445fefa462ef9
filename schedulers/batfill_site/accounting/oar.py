"""Reads OAR's jobs from JSON, as printed by `oarstat -J -f` and returned by its REST API (/jobs/details.json).

Source: OAR's documentation of oarstat and of its API. Both spellings of the fields are read (startTime, start_time).
docs/how-to/import.md has the command.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from batfill.base.errors import WorkloadError
from batfill.base.files import read_json
from batfill.workloads.swf_log import CANCELLED, COMPLETED, FAILED
from batfill_site.accounting.cluster_log import TWICE, ClusterJob, Reading
from batfill_site.accounting.record_text import epoch, limit_of

FINISHED_STATES = ("Terminated", "Error")
ENDING = ("SWITCH_INTO_TERMINATE_STATE", "SWITCH_INTO_ERROR_STATE")
DELETED = "FRAG_JOB_REQUEST"
SHOWN = ("state", "submissionTime", "submission_time", "startTime", "start_time", "stopTime", "stop_time", "walltime")
LISTS = ("types", "events", "dependencies")
WANTED = re.compile(r"/([a-z_]+)=(\d+)")


def read_oar(paths: list[Path], reading: Reading, *, cores_per_resource: int = 1) -> Reading:
    """The finished jobs in files of OAR's JSON: an object of jobs by id, an array, or an object with `items`.

    A job's processors are its assigned resources, else the product of its request (`/nodes=2/core=4`), times
    `cores_per_resource`. Jobs that ran inside a container job share its resources and are left out. A job without a
    stop time ends at the event that switched its state. A job could start from the end of the jobs on which it depends,
    if they are in this file or an earlier one, and an advance reservation from its start.
    """
    ends_s: dict[str, int] = {}
    read: dict[str, ClusterJob] = {}
    for path in paths:
        jobs, names = [], []
        records = _records(path)
        reading.files[path] = len(records)
        ends_s.update({name: _end(job) for name, job in records})
        for name, job in records:
            stated = ", ".join(f"{field} {job[field]}" for field in SHOWN if job.get(field) is not None)
            shown = f"job {name}, {stated}"
            found = _job(job, cores_per_resource, ends_s)
            if isinstance(found, str):
                reading.note(found, example=shown)
            elif read.setdefault(name, found) is not found and read[name] == found:
                reading.note(TWICE, example=shown)
            else:
                jobs.append(found)
                names.append(shown)
        reading.extend(jobs, names)
    return reading


def _records(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The name of each job, and its fields."""
    document, _ = read_json(path, "make it with oarstat -J -f")
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        document = document["items"]
    if isinstance(document, list):
        document = {str(place): job for place, job in enumerate(document, 1)}
    if not isinstance(document, dict) or not all(isinstance(job, dict) for job in document.values()):
        raise WorkloadError(f"{path}: holds no OAR jobs; make it with oarstat -J -f")
    for name, job in document.items():
        if odd := [field for field in LISTS if not isinstance(job.get(field) or [], list)]:
            raise WorkloadError(f"{path}: job {name}: {odd[0]} is no list; make it with oarstat -J -f")
    return [(str(_first(job, "Job_Id", "job_id", "id") or key), job) for key, job in document.items()]


def _end(job: dict[str, Any]) -> int:
    switched = [epoch(str(event.get("date"))) for event in _events(job) if event.get("type") in ENDING]
    return _time(job, "stopTime", "stop_time") or max([0, *switched])


def _events(job: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in job.get("events") or [] if isinstance(event, dict)]


def _job(job: dict[str, Any], cores: int, ends_s: dict[str, int]) -> ClusterJob | str:
    """The job of a record, or why the record is not a job; `ends_s` has the ends of jobs by name."""
    if _first(job, "state") not in FINISHED_STATES:
        return "jobs that have not ended, left out"
    if "inner" in " ".join(str(kind) for kind in job.get("types") or []):
        return "jobs inside a container job, left out"
    start_s = _time(job, "startTime", "start_time")
    reserved = job.get("reservation") not in (None, "", "None")
    needed = job.get("dependencies") or []
    eligible_s = start_s if reserved else max([0, *(ends_s.get(str(other), 0) for other in needed)])
    parts = str(job.get("wanted_resources") or "").split("+")  # each the product of its counts
    counts = ([int(count) for _, count in WANTED.findall(part)] for part in parts)
    procs, wanted = _resources(job), sum(math.prod(each) for each in counts if each)
    failed = job["state"] == "Error" or _first(job, "exit_code") not in (None, 0, "0")
    deleted = any(event.get("type") == DELETED for event in _events(job))
    return ClusterJob(
        submit_s=_time(job, "submissionTime", "submission_time"),
        start_s=start_s,
        end_s=_end(job),
        eligible_s=eligible_s,
        procs=procs * cores,
        requested_procs=(wanted or procs) * cores,
        requested_s=limit_of(str(job.get("walltime") or ""), bare=1),
        status=CANCELLED if deleted else FAILED if failed else COMPLETED,
        user=str(_first(job, "owner", "job_user", "user") or ""),
        group=str(_first(job, "project") or ""),
        executable=str(_first(job, "name", "job_name") or ""),
        queue=str(_first(job, "queue", "queue_name") or ""),
    )


def _resources(job: dict[str, Any]) -> int:
    assigned = job.get("assigned_resources")
    if assigned is None and isinstance(job.get("resources"), list):
        assigned = [part for part in job["resources"] if isinstance(part, dict) and part.get("status") == "assigned"]
    return len(assigned) if isinstance(assigned, list | dict) else 0


def _time(job: dict[str, Any], *names: str) -> int:
    """Seconds since 1970, 0 for none, ODD for what is no such number."""
    found = _first(job, *names)
    return 0 if found in (None, "", "0") else epoch(str(found))


def _first(job: dict[str, Any], *names: str) -> Any:
    return next((job[name] for name in names if job.get(name) is not None), None)
