"""Any workload file as an SWF log, which is what cleaning, splitting and resampling work on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.errors import WorkloadError
from batfill.workloads.files import first_byte, is_parquet
from batfill.workloads.swf_log import COMPLETED, SwfLog, batches_of, new_log, read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from hashlib import _Hash
    from pathlib import Path

    from batfill.jobs import Workload


def load_log(path: Path, *, advance: Callable[[int], None] = lambda _: None) -> SwfLog:
    """The log in an SWF, Parquet or Batsim JSON file, told apart by the content; `advance` is told of SWF rows read.

    Raises:
        WorkloadError: the file cannot be read as any of them, or holds no row.
    """
    if is_parquet(path):
        from batfill.workloads.parquet import read_parquet

        log = read_parquet(path)
    elif first_byte(path) == b"{":
        from batfill.workloads.batsim_json import read_batsim_json

        log = log_of(read_batsim_json(path))
    else:
        log = read_log(path, advance=advance)
    if not len(log):
        raise WorkloadError(f"{path}: no row in it; is it an SWF log, and whole?")
    return log


def pieces_of(path: Path, text_sum: _Hash | None = None) -> Iterator[SwfLog]:
    """The rows of an SWF log piece by piece, as `batches_of`; those of a Parquet file at once."""
    if not is_parquet(path):
        yield from batches_of(path, text_sum)
        return
    from batfill.workloads.parquet import read_parquet

    yield read_parquet(path)


def log_of(workload: Workload) -> SwfLog:
    """The workload as a log: ids that are whole numbers become job numbers, otherwise the jobs are numbered from 1."""
    jobs = workload.jobs
    numbered = all(name.isascii() and name.isdigit() and len(name) < 16 for name in jobs.ids)
    number = np.array([int(name) for name in jobs.ids]) if numbered else np.arange(len(jobs)) + 1
    no_request = False if jobs.no_request is None else jobs.no_request
    header = [f"Note: from {workload.name}", f"MaxJobs: {len(jobs)}", f"MaxRecords: {len(jobs)}"]
    if workload.procs is not None:
        header.append(f"MaxProcs: {workload.procs}")
    return new_log(
        header,
        {
            "job": number,
            "submit_s": jobs.submit_s,
            "runtime_s": jobs.runtime_s,
            "procs": jobs.procs,
            "requested_procs": jobs.procs,
            "requested_s": np.where(np.isinf(jobs.walltime_s) | no_request, -1, jobs.walltime_s),
            "status": np.full(len(jobs), COMPLETED),
            "user": jobs.user,
        },
    )
