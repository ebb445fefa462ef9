"""From an SWF log to the jobs a scheduler meets: which rows, for how long, on how many processors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from batfill.errors import WorkloadError
from batfill.jobs import Workload, job_table
from batfill.workloads.files import digest
from batfill.workloads.swf_log import (
    FIELD,
    LAST_PARTIAL_FAILED,
    PARTIAL,
    SwfLog,
    header_value,
    read_log,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

Overrun = Literal["keep", "kill"]

NO_RUN_TIME = "run time <= 0 or unknown"
NO_SUBMISSION = "submission time unknown"
NO_PROCESSORS = "neither requested nor allocated processors"
PARTIAL_OF_SUMMARY = "partial execution of a job whose summary row is kept"
MERGED = "further partial execution of a job without a summary row, its run time added to the first"


@dataclass(frozen=True, slots=True, eq=False)
class LogJobs:
    """The rows of a log that become jobs, in any order; every column has shape (n_jobs,)."""

    number: NDArray[np.int64]  # the log's job number, made unique
    submit_s: NDArray[np.float64]
    runtime_s: NDArray[np.float64]
    walltime_s: NDArray[np.float64]
    procs: NDArray[np.int64]
    user: NDArray[np.int64]
    dropped: Counter[str]  # rows by the reason they were dropped for
    changed: Counter[str]  # rows by what was changed in them


def read_swf(path: Path, *, procs: int | None = None, overrun: Overrun = "keep") -> Workload:
    """The jobs of an SWF file (plain or compressed) as the engine takes them; notes say what was dropped or changed.

    Args:
        path: the file.
        procs: the machine's size; by default the header's MaxProcs, else its MaxNodes, else unknown.
        overrun: "keep" raises a requested time below the run time to it; "kill" leaves it, and the job will end there.

    Raises:
        WorkloadError: the file is not SWF, or holds no job that ran.
    """
    log = read_log(path)
    jobs = jobs_of(path, log, overrun=overrun)
    notes = notes_of(jobs, len(log))
    return Workload(
        name=path.name,
        jobs=job_table(
            str(path),
            ids=padded_ids(jobs.number),
            submit_s=jobs.submit_s - jobs.submit_s.min(),
            runtime_s=jobs.runtime_s,
            walltime_s=jobs.walltime_s,
            procs=jobs.procs,
            user=jobs.user,
        ),
        procs=machine_size(path, log.header, procs),
        digest=digest(path),
        notes=notes,
    )


def jobs_of(path: Path, log: SwfLog, *, overrun: Overrun = "keep", margin_s: float = 0) -> LogJobs:
    """The jobs of a log: rows that ran, on requested (else allocated) processors, under the requested (else run) time.

    Raises:
        WorkloadError: no row is left, or a job number is not whole.
    """
    dropped: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    keep = np.ones(len(log), bool)

    def drop(rows: NDArray[np.bool_], reason: str) -> None:
        rows &= keep
        dropped[reason] += int(rows.sum())
        keep[rows] = False

    log = _without_partial_rows(log, drop)
    drop(~(log["runtime_s"] > 0), NO_RUN_TIME)
    drop(log["submit_s"] < 0, NO_SUBMISSION)
    q = np.where(log["requested_procs"] > 0, log["requested_procs"], log["procs"])
    drop(~(q > 0), NO_PROCESSORS)
    if not keep.any():
        raise WorkloadError(
            f"{path}: none of {len(log)} rows is a job that ran"
            + "".join(f"; {count}: {reason}" for reason, count in dropped.items() if count)
            + "; is it an SWF log?"
        )
    number = np.floor(log["job"][keep])
    if not (number == log["job"][keep]).all():
        row = np.flatnonzero(keep)[np.argmax(number != log["job"][keep])]
        raise WorkloadError(
            f"{path}:{log.lines[row]}: job number {log['job'][row]} is not whole; number the jobs 1, 2, ..."
        )
    runtime_s = log["runtime_s"][keep]
    walltime_s = log["requested_s"][keep]
    unknown = ~(walltime_s > 0)
    changed["requested time unknown, the run time taken"] = int(unknown.sum())
    walltime_s = np.where(unknown, runtime_s, walltime_s)
    if overrun == "keep":
        changed["requested time below the run time, raised to it"] = int((walltime_s < runtime_s).sum())
        walltime_s = keep_overruns(walltime_s, runtime_s, margin_s=margin_s)
    return LogJobs(
        number=_unique(number.astype(np.int64), changed),
        submit_s=log["submit_s"][keep],
        runtime_s=runtime_s,
        walltime_s=walltime_s,
        procs=np.ceil(q[keep]).astype(np.int64),
        user=log["user"][keep].astype(np.int64),
        dropped=dropped,
        changed=changed,
    )


def keep_overruns(
    walltime_s: NDArray[np.float64], runtime_s: NDArray[np.float64], *, margin_s: float = 0
) -> NDArray[np.float64]:
    """p~ := p + margin where p~ <= p: no job is ended before its logged run time.

    A host that ends a job at p = p~ as overrun (Batsim does) needs a margin above 0 to let such a job complete.
    """
    return np.where(walltime_s <= runtime_s, runtime_s + margin_s, walltime_s)


def padded_ids(number: NDArray[np.int64]) -> NDArray[np.object_]:
    """The numbers as strings of one width, so that they sort as the numbers do."""
    width = len(str(int(number.max()))) if len(number) else 0
    ids = np.empty(len(number), object)
    ids[:] = [f"{n:0{width}}" for n in number.tolist()]
    return ids


def machine_size(path: Path, header: tuple[str, ...], procs: int | None = None) -> int | None:
    """m: `procs` where given, else the header's MaxProcs, else its MaxNodes, else None."""
    if procs is not None:
        if procs < 1:
            raise WorkloadError(f"{path}: a machine of {procs} processors; pass --procs of 1 or more")
        return procs
    for name in ("MaxProcs", "MaxNodes"):
        words = (header_value(header, name) or "").replace(",", "").split()
        if words and words[0].isascii() and words[0].isdigit() and int(words[0]) > 0:
            return int(words[0])
    return None


def notes_of(jobs: LogJobs, n_rows: int) -> tuple[str, ...]:
    """What reading dropped and changed, one line each, with counts."""
    return tuple(
        [f"{count} of {n_rows} rows dropped: {reason}" for reason, count in jobs.dropped.items() if count]
        + [f"{count} of {len(jobs.number)} jobs changed: {what}" for what, count in jobs.changed.items() if count]
    )


def _without_partial_rows(log: SwfLog, drop: Callable[[NDArray[np.bool_], str], None]) -> SwfLog:
    """Keep a checkpointed job's summary row, as the format's standard asks; where there is none, add up its parts."""
    status, number = log["status"], log["job"]
    partial = (status >= PARTIAL) & (status <= LAST_PARTIAL_FAILED)
    if not partial.any():
        return log
    summarised = partial & np.isin(number, number[~partial])
    drop(summarised.copy(), PARTIAL_OF_SUMMARY)
    alone = np.flatnonzero(partial & ~summarised)
    _, first, job = np.unique(number[alone], return_index=True, return_inverse=True)
    rows = log.rows.copy()
    runtime_s = np.zeros(len(first))
    np.add.at(runtime_s, job, np.maximum(log["runtime_s"][alone], 0))
    rows[alone[first], FIELD["runtime_s"]] = runtime_s
    further = np.zeros(len(log), bool)
    further[np.delete(alone, first)] = True
    drop(further, MERGED)
    return SwfLog(log.comments, rows, log.lines)


def _unique(number: NDArray[np.int64], changed: Counter[str]) -> NDArray[np.int64]:
    """The numbers with those that are negative or occurred before replaced by new ones above the largest."""
    _, first = np.unique(number, return_index=True)
    again = np.ones(len(number), bool)
    again[first] = False
    again |= number < 0
    if again.any():
        changed["job number unknown or used before, a new one given"] = int(again.sum())
        number = number.copy()
        number[again] = max(int(number.max()), 0) + 1 + np.arange(again.sum())
    return number
