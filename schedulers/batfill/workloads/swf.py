"""From an SWF log to the jobs a scheduler meets: for how long, on how many processors, under which limit."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from batfill.errors import WorkloadError
from batfill.jobs import UNKNOWN, JobTable, Workload, checked_size, job_table
from batfill.workloads.clock import clock_of
from batfill.workloads.files import digest
from batfill.workloads.swf_log import SwfLog, header_size, read_log
from batfill.workloads.swf_rules import NO_REQUEST, JobRows, job_rows, notes_of, requested

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

Overrun = Literal["keep", "kill"]

# Batsim ends a job with p = p~ as one that overran; a second more lets it complete.
BATSIM_MARGIN_S = 1


def read_swf(path: Path, *, procs: int | None = None, overrun: Overrun = "keep") -> Workload:
    """The jobs of an SWF file (plain or compressed) as the engine takes them; notes say what was dropped or changed.

    Args:
        path: the file.
        procs: the machine's size; by default what `machine_size` finds.
        overrun: "keep" raises a requested time below the run time to it; "kill" leaves it, and the job will end there.

    Raises:
        WorkloadError: the file is not SWF, or holds no job that ran.
    """
    return workload_of(path, read_log(path), procs=procs, overrun=overrun)


def workload_of(path: Path, log: SwfLog, *, procs: int | None = None, overrun: Overrun = "keep") -> Workload:
    """As `read_swf`, of a log already read from `path`."""
    if overrun not in get_args(Overrun):
        raise WorkloadError(f"{path}: overrun {overrun!r} is none of {', '.join(get_args(Overrun))}; choose one")
    rows = job_rows(path, [log])
    changed: Counter[str] = Counter()
    jobs = jobs_in(log, rows, overrun=overrun, changed=changed)
    clock = clock_of(log.header)
    return Workload(
        name=path.name,
        jobs=job_table(
            str(path),
            ids=jobs.ids,
            submit_s=jobs.submit_s,
            runtime_s=jobs.runtime_s,
            walltime_s=jobs.walltime_s,
            procs=jobs.procs,
            user=jobs.user,
            own_end=overrun == "keep",
            no_request=jobs.no_request,
        ),
        procs=machine_size(path, log, procs),
        digest=digest(path),
        notes=(*size_notes(log, procs), *notes_of(rows, changed)),
        clock=clock.later(rows.first_submit_s) if clock else None,
    )


def jobs_in(
    log: SwfLog,
    rows: JobRows,
    *,
    first_row: int = 0,
    overrun: Overrun = "keep",
    margin_s: float = 0,
    changed: Counter[str],
) -> JobTable:
    """The jobs of a piece of a log, in the log's order.

    Args:
        log: the piece.
        rows: which rows of the whole log are jobs.
        first_row: the place of the piece's first row in the whole log.
        overrun: see `read_swf`.
        margin_s: see `keep_overruns`.
        changed: out, counts what was changed in how many jobs.
    """
    here = slice(first_row, first_row + len(log))
    keep = rows.keep[here]
    runtime_s = log["runtime_s"][keep]
    if rows.runtime_s:
        joined = [rows.runtime_s.get(first_row + row) for row in np.flatnonzero(keep).tolist()]
        runtime_s = np.array([p if whole is None else whole for p, whole in zip(runtime_s, joined, strict=True)])
    walltime_s = log["requested_s"][keep]
    unknown = ~(walltime_s > 0)
    changed[NO_REQUEST] += int(unknown.sum())
    walltime_s = np.where(unknown, runtime_s, walltime_s)
    if overrun == "keep":
        changed["requested time below the run time, raised to it"] += int((walltime_s < runtime_s).sum())
        walltime_s = keep_overruns(walltime_s, runtime_s, margin_s=margin_s)
    return JobTable(
        ids=padded_ids(rows.number[here][keep], width=rows.id_width),
        submit_s=rows.submit_s[here][keep] - rows.first_submit_s,
        runtime_s=runtime_s,
        walltime_s=walltime_s,
        procs=requested(log)[keep].astype(np.int64),
        user=log["user"][keep].astype(np.int64),
        job_class=np.full(len(runtime_s), UNKNOWN, np.int8),
        no_request=unknown,
    )


def keep_overruns(
    walltime_s: NDArray[np.float64], runtime_s: NDArray[np.float64], *, margin_s: float = 0
) -> NDArray[np.float64]:
    """p~ := p + margin where p~ <= p: no job is ended before its logged run time.

    A host that ends a job at p = p~ as overrun (Batsim does) needs a margin above 0 to let such a job complete.
    """
    return np.where(walltime_s <= runtime_s, runtime_s + margin_s, walltime_s)


def padded_ids(number: NDArray[np.int64], *, width: int) -> NDArray[np.object_]:
    """The numbers as strings of one width, so that they sort as the numbers do."""
    ids = np.empty(len(number), object)
    ids[:] = [f"{n:0{width}}" for n in number.tolist()]
    return ids


def machine_size(path: Path, log: SwfLog, procs: int | None = None) -> int | None:
    """m: `procs` if given, else the list's if it knows the log, else the header's MaxProcs, its MaxNodes, or None."""
    if procs is not None:
        return checked_size(path, procs)
    if log.known:
        return log.known.processors
    size = header_size(log.header)
    return None if size is None else checked_size(f"{path}: its header", size)


def with_size(path: Path, log: SwfLog, procs: int | None) -> SwfLog:
    """The log with the size that `machine_size` finds in its header, so that logs made of it keep it."""
    size = machine_size(path, log, procs)
    return log if size is None or size == header_size(log.header) else log.sized(size)


def size_notes(log: SwfLog, procs: int | None) -> tuple[str, ...]:
    """A line that says where the machine's size comes from if it is neither given (`procs`) nor the header's."""
    size, said = log.known.processors if log.known else None, header_size(log.header)
    if procs is not None or log.known is None or size == said:
        return ()
    header = "the header has none" if said is None else f"the header says {said}"
    return (f"{size} processors by the list of known logs ({log.known.name}); {header}; --procs overrides both",)


def known_size(source: Path, procs: int | None) -> int:
    """The machine's size, which a Batsim workload must say.

    Raises:
        WorkloadError: it is unknown.
    """
    if procs is None:
        raise WorkloadError(f"{source}: its header says neither MaxProcs nor MaxNodes; pass --procs")
    return procs
