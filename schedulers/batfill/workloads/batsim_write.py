"""Writing Batsim's JSON workloads: delay profiles shared by duration, one job per line, in little memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import orjson

from batfill.workloads.batsim_json import NO_REQUEST_FIELD
from batfill.workloads.files import whole_file
from batfill.workloads.swf_log import number_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from batfill.jobs import JobTable

    Jobs = tuple[JobTable, Mapping[str, NDArray[np.int64]]]


def write_batsim_json(
    out: Path, batches: Iterable[Jobs], *, procs: int, description: Mapping[str, object] | None = None
) -> int:
    """Write a workload that Batsim 4 reads; return how many jobs it holds.

    Args:
        out: the file, compressed when its name ends in .gz, .xz or .bz2.
        batches: the jobs in pieces, each with further fields of the job objects by name; values below 0 are left out.
            A job's `user` becomes its `user_id`, an infinite walltime no walltime; jobs whose log has no requested
            time are marked `"no_request": true`.
        procs: the machine's size, "nb_res".
        description: what made the file, for whoever finds it; Batsim does not read it.
    """
    n_jobs = 0
    durations: dict[str, float] = {}
    with whole_file(out) as file:
        file.write(b'{"nb_res": %d,\n' % procs)
        if description:
            file.write(b'"description": %b,\n' % orjson.dumps(dict(description)))
        file.write(b'"jobs": [')
        for jobs, fields in batches:
            lines = ",\n".join(job_lines(jobs, fields, durations))
            file.write((",\n" if n_jobs and lines else "\n" if lines else "").encode() + lines.encode())
            n_jobs += len(jobs)
        file.write(b'\n],\n"profiles": {')
        profiles = (f'"delay{name}": {{"type": "delay", "delay": {name}}}' for name in sorted(durations, key=float))
        file.write(("\n" + ",\n".join(profiles) if durations else "").encode())
        file.write(b"\n}}\n")
    return n_jobs


def job_lines(jobs: JobTable, fields: Mapping[str, NDArray[np.int64]], durations: dict[str, float]) -> Iterator[str]:
    """Each job as JSON text; `durations` gathers the run times met, by their text."""
    extra = {"user_id": jobs.user, **fields}
    columns = {name: column.tolist() for name, column in extra.items()}
    numbers = zip(
        jobs.ids.tolist(),
        jobs.submit_s.tolist(),
        jobs.walltime_s.tolist(),
        jobs.procs.tolist(),
        jobs.runtime_s.tolist(),
        strict=True,
    )
    without = set() if jobs.no_request is None else set(np.flatnonzero(jobs.no_request).tolist())
    for row, (name, submit_s, walltime_s, procs, runtime_s) in enumerate(numbers):
        delay = number_text(runtime_s)
        durations[delay] = runtime_s
        walltime = "" if walltime_s == np.inf else f'"walltime": {number_text(walltime_s)}, '
        more = "".join(f', "{field}": {column[row]}' for field, column in columns.items() if column[row] >= 0)
        more += f', "{NO_REQUEST_FIELD}": true' if row in without else ""
        yield (
            f'{{"id": {quoted(name)}, "subtime": {number_text(submit_s)}, {walltime}"res": {procs}, '
            f'"profile": "delay{delay}"{more}}}'
        )


def quoted(text: str) -> str:
    """The text as a JSON string."""
    return f'"{text}"' if text.isalnum() else orjson.dumps(text).decode()
