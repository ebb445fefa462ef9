"""A log as a Batsim workload, in two passes over the file, so that any length fits in little memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.errors import WorkloadError
from batfill.workloads.batsim_write import write_batsim_json
from batfill.workloads.files import first_byte
from batfill.workloads.load import pieces_of
from batfill.workloads.manifest import listed
from batfill.workloads.save import format_of, provenance
from batfill.workloads.swf import BATSIM_MARGIN_S, Overrun, jobs_in, known_size, machine_size, size_notes
from batfill.workloads.swf_rules import job_rows, notes_of, warnings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from batfill.workloads.batsim_write import Jobs
    from batfill.workloads.swf_log import SwfLog

# Fields of a job object beside user_id, and the SWF columns they come from.
JOB_FIELDS = {"group_id": "group", "executable": "executable", "queue": "queue", "partition": "partition"}

ALL_JOBS = slice(None)
HOST_SPEED = 1e9  # flop/s, that of our platforms


class Converted(NamedTuple):
    """What a conversion wrote: how many jobs, for a machine of how many processors, and what it dropped or changed."""

    jobs: int
    procs: int
    notes: tuple[str, ...]
    warnings: tuple[str, ...]  # see `Workload.warnings`


def convert(
    source: Path,
    out: Path,
    *,
    procs: int | None = None,
    overrun: Overrun = "keep",
    jobs: slice = ALL_JOBS,
    fields: tuple[str, ...] = (),
    host_speed: float = HOST_SPEED,
    advance: Callable[[int], None] = lambda _: None,
) -> Converted:
    """Write the workload in `source` (SWF, Parquet or Batsim JSON) as Batsim JSON.

    Args:
        source: the log.
        out: the JSON file.
        procs: the machine's size; by default what the log says.
        overrun: "keep" lets every job run as long as it ran, "kill" leaves requests below the run time.
        jobs: which jobs, in the order of their submissions; times then count from the first of them.
        fields: which of JOB_FIELDS the jobs of a log keep beside user_id; a Batsim workload's keep all of theirs.
        host_speed: flop/s, what turns a Batsim workload's parallel_homogeneous profiles into delays.
        advance: called with the number of rows done since it was last called, twice for each row.

    Raises:
        WorkloadError: the log cannot be read, holds no job, or does not say the machine's size.
    """
    if format_of(out) != ".json":
        raise WorkloadError(f"{out}: `convert` writes Batsim JSON; name it .json, .json.gz, .json.xz or .json.bz2")
    for field in fields:
        if field not in JOB_FIELDS:
            raise WorkloadError(f"no field {field!r} to keep; there are {', '.join(JOB_FIELDS)}")
    if first_byte(source) == b"{":
        from batfill.workloads.convert_json import convert_json

        return Converted(
            *convert_json(
                source,
                out,
                procs=procs,
                overrun=overrun,
                jobs=jobs,
                host_speed=host_speed,
                description=_description(source, overrun, jobs),
            )
        )
    text = sha256()
    head: SwfLog | None = None

    def first_pass() -> Iterator[SwfLog]:
        nonlocal head
        for batch in pieces_of(source, text):
            head = head or batch.select(np.empty(0, np.intp))
            yield batch
            advance(len(batch))

    rows = job_rows(source, first_pass()).jobs_only(jobs)
    assert head is not None  # there are rows
    log = replace(head, known=listed(text.hexdigest()))
    size = known_size(source, machine_size(source, log, procs))
    changed: Counter[str] = Counter()

    def second_pass() -> Iterator[Jobs]:
        first_row = 0
        for batch in pieces_of(source):
            table = jobs_in(
                batch, rows, first_row=first_row, overrun=overrun, margin_s=BATSIM_MARGIN_S, changed=changed
            )
            keep = rows.keep[first_row : first_row + len(batch)]
            yield table, {field: batch[JOB_FIELDS[field]][keep].astype(np.int64) for field in fields}
            first_row += len(batch)
            advance(len(batch))

    n_jobs = write_batsim_json(out, second_pass(), procs=size, description=_description(source, overrun, jobs))
    return Converted(n_jobs, size, (*size_notes(log, procs), *notes_of(rows, changed)), warnings_of(rows, changed))


def _description(source: Path, overrun: Overrun, jobs: slice) -> dict[str, object]:
    part = "all" if jobs == ALL_JOBS else f"{jobs.start or 0}:{'' if jobs.stop is None else jobs.stop}"
    return provenance("convert", source, overrun=overrun, jobs=part)
