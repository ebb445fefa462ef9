"""Writing a workload from Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from batfill.workloads.formats import save_log, source_of

if TYPE_CHECKING:
    from batfill.jobs import Workload


def write(log: Workload | str | Path, path: str | Path) -> Path:
    """Write a workload to a file; its name decides the format.

    SWF and Parquet hold the log that the workload was read from, with what only the log has; Batsim JSON holds its jobs
    with the walltimes of the workload.

    Args:
        log: the workload, a log's file, or a data frame, as for `read_workload`.
        path: the file: .swf or .json, also .gz, .xz or .bz2, or .parquet.

    Returns:
        The file.

    Raises:
        WorkloadError: the name has no known suffix, or the file cannot be written.

    Examples:
        >>> import tempfile
        >>> import batfill as bf
        >>> log = bf.generate(jobs=50, procs=16, seed=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = bf.read(bf.write(log, f"{folder}/log.swf"))
        >>> bool((again["submit_s"] == log["submit_s"]).all())
        True
    """
    out, source = Path(path), source_of(log)
    save_log(source.log, out, procs=source.procs, overrun=source.overrun, unrequested=source.unrequested)
    return out
