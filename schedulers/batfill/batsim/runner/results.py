"""What a simulation left behind: its result files, and the jobs that are missing from them."""

from __future__ import annotations

import csv
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import orjson

from batfill.batsim_files import RUN_JSON
from batfill.errors import BatfillError, WorkloadError
from batfill.files import decompressed
from batfill.jobs import request_warning
from batfill.outputs import JOB_COLUMNS, REJECTED
from batfill.workloads.batsim_json import NO_REQUEST_FIELD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# What Batsim writes beside each other, after the export prefix.
SUFFIXES = (
    "_jobs.csv",
    "_schedule.csv",
    "_schedule.trace",
    "_machine_states.csv",
    "_pstate_changes.csv",
    "_consumed_energy.csv",
    RUN_JSON,  # what a replay noted beside the files it wrote under this prefix
)


class ResultError(BatfillError):
    """A result file is not what Batsim writes."""


class JobName(NamedTuple):
    """A job of a simulation: its workload's name (w0, w1, ...) and its id there."""

    workload: str
    id: str


class JobRow(NamedTuple):
    """One line of `_jobs.csv`. Times in seconds; those of a rejected job are NaN."""

    name: JobName
    state: str
    submit_s: float
    procs: int
    start_s: float
    runtime_s: float


def result_file(prefix: str, suffix: str) -> Path:
    """The result file of this export prefix."""
    return Path(f"{prefix}{suffix}")


def remove_results(prefix: str) -> None:
    """Remove what an earlier run left under this prefix, so that nothing of it can pass for this run's.

    Raises:
        OSError: a file is there and cannot be removed.
    """
    for suffix in SUFFIXES:
        result_file(prefix, suffix).unlink(missing_ok=True)


def workload_jobs(paths: Sequence[Path]) -> tuple[list[JobName], tuple[str, ...]]:
    """Every job of these Batsim workloads, named as Batsim names them (the first file is w0), and `Workload.warnings`.

    Raises:
        WorkloadError: a file cannot be read, or is no Batsim workload.
    """
    names = []
    missing = 0
    for number, path in enumerate(paths):
        with decompressed(path) as content:
            stored = content.read()
        try:
            jobs = orjson.loads(stored)["jobs"]
            ids = [str(job["id"]).rpartition("!")[2] for job in jobs]
            missing += sum(job.get(NO_REQUEST_FIELD) is True for job in jobs)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            reason = str(error) if isinstance(error, orjson.JSONDecodeError) else "no `jobs` with an `id` each"
            raise WorkloadError(
                f"{path}: not a Batsim workload ({reason}); make one with `batfill workload convert`"
            ) from None
        names += [JobName(f"w{number}", job_id) for job_id in ids]
    return names, request_warning(missing, len(names))


def read_jobs_csv(path: Path) -> list[JobRow]:
    """The lines of a `_jobs.csv`, in the order the jobs ended.

    Raises:
        ResultError: the file cannot be read, lacks a column, or has a line that is cut off.
    """
    rows = []
    try:
        with path.open(newline="") as file:
            lines = csv.DictReader(file)
            if missing := set(JOB_COLUMNS.split(",")[:10]) - set(lines.fieldnames or ()):
                raise ResultError(f"{path}:1: no column {min(missing)}; the simulation did not write it whole")
            for line in lines:
                ran = line["final_state"] != REJECTED
                rows.append(
                    JobRow(
                        JobName(line["workload_name"], line["job_id"]),
                        line["final_state"],
                        float(line["submission_time"]),
                        int(line["requested_number_of_resources"]),
                        float(line["starting_time"]) if ran else np.nan,
                        float(line["execution_time"]) if ran else np.nan,
                    )
                )
    except OSError as error:
        raise ResultError(f"{path}: {(error.strerror or str(error)).lower()}; did the simulation run?") from None
    except (ValueError, TypeError, csv.Error):
        raise ResultError(f"{path}:{len(rows) + 2}: cut off; the simulation did not write it whole") from None
    return rows


def missing_jobs(expected: Iterable[JobName], rows: Iterable[JobRow]) -> list[JobName]:
    """The jobs of the workloads that are in no line, in the workloads' order: they never ended."""
    ended = {row.name for row in rows}
    return [name for name in expected if name not in ended]


class ScheduleRow(NamedTuple):
    """What is read of `_schedule.csv`."""

    batsim_version: str
    machines: int


def read_schedule_csv(path: Path) -> ScheduleRow | None:
    """The run's own summary; None where the file is not there or says no such thing."""
    with suppress(OSError, KeyError, ValueError, StopIteration, csv.Error), path.open(newline="") as file:
        row = next(csv.DictReader(file))
        return ScheduleRow(row["batsim_version"], int(row["nb_computing_machines"]))
    return None
