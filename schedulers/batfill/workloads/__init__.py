"""Workloads: reading and writing logs, and everything researchers do to them before a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from batfill.jobs import Workload
    from batfill.workloads.swf import Overrun


def read_workload(path: Path, *, procs: int | None = None, overrun: Overrun = "keep") -> Workload:
    """The workload in a file: Batsim JSON or SWF, plain or compressed, or Parquet, told apart by their beginnings.

    Args:
        path: the file.
        procs: the machine's size in processors; by default what the file says.
        overrun: what an SWF job does that ran longer than it asked for (see `read_swf`); Batsim JSON says it itself.

    Raises:
        WorkloadError: the file is none of them, or is damaged.
    """
    from batfill.workloads.formats import first_byte, is_parquet

    if is_parquet(path):
        from batfill.workloads.formats import read_parquet
        from batfill.workloads.swf import workload_of

        return workload_of(path, read_parquet(path), procs=procs, overrun=overrun)
    if first_byte(path) == b"{":
        from dataclasses import replace

        from batfill.jobs import checked_size
        from batfill.workloads.batsim_json import read_batsim_json

        workload = read_batsim_json(path)
        return workload if procs is None else replace(workload, procs=checked_size(path, procs))
    from batfill.workloads.swf import read_swf

    return read_swf(path, procs=procs, overrun=overrun)
