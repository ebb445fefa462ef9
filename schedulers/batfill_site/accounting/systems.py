"""The readers of `batfill workload import`: the accounting of each batch system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill_site.accounting.cluster_log import ClusterLog, Reading, require_known
from batfill_site.accounting.oar import read_oar
from batfill_site.accounting.pbs import read_pbs
from batfill_site.accounting.record_text import zone_of
from batfill_site.accounting.slurm import read_slurm

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from batfill.workloads.formats import System
    from batfill.workloads.swf_log import SwfLog

NO_DATES = "Batsim JSON counts seconds from its first job, without a date: for calendars with dates write a .swf file"


def read_records(
    system: str,
    paths: list[Path],
    *,
    zone: str = "UTC",
    cores_per_resource: int = 1,
    partition_limit_s: float | None = None,
    partitions: Collection[str] = (),
    clusters: Collection[str] = (),
) -> Reading:
    """The finished jobs in these files of slurm, oar or pbs; of Slurm's partitions and clusters none are all."""
    zone_of(zone)  # the header states it, also of a system whose times need none
    reading = Reading(zone, partition_limit_s, frozenset(partitions))
    if system == "slurm":
        read_slurm(paths, reading, clusters=frozenset(clusters))
    elif system == "oar":
        read_oar(paths, reading, cores_per_resource=cores_per_resource)
    else:
        read_pbs(paths, reading)
    require_known("partition", reading.only, reading.jobs.names["partition"])
    return reading


def read_accounting(
    path: Path, system: System, *, procs: int | None = None, timezone: str = "UTC", cores_per_resource: int = 1
) -> SwfLog:
    reading = read_records(system, [path], zone=timezone, cores_per_resource=cores_per_resource)
    return ClusterLog(reading, source=f"{path}: {system} accounting", procs=procs).log()


def save_imported(log: ClusterLog, out: Path, *, procs: int | None = None, made_by: str) -> tuple[int, tuple[str, ...]]:
    """Write an importer's log, in pieces unless as Batsim JSON; returns the number of jobs, and what it leaves out."""
    from batfill.workloads.formats import format_of, save_log
    from batfill.workloads.swf import job_rows
    from batfill.workloads.swf_log import write_rows

    if format_of(out) == ".json":
        whole = log.log()
        rows = save_log(whole, out, procs=procs, description={"made_by": made_by})
        dropped = job_rows(out, whole).dropped.items()
        return rows, (*(f"{count:,} of {len(whole):,} rows dropped: {reason}" for reason, count in dropped), NO_DATES)
    return write_rows((piece.rows for piece in log.pieces()), log.comments, out), ()
