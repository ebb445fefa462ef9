"""The readers of `batfill workload import`: batch systems' accounting, and what computing centres publish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.base.memory import require_memory
from batfill.workloads.centres import CENTRES, read_centre
from batfill.workloads.cluster_log import Reading, require_known
from batfill.workloads.frontier_swf import read_frontier
from batfill.workloads.oar import read_oar
from batfill.workloads.pbs import read_pbs
from batfill.workloads.record_text import zone_of
from batfill.workloads.slurm import read_slurm

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from batfill.workloads.centres import Unit


# Bytes of memory for a byte of text, measured: OAR's JSON is one document, and a PBS job's records are far apart.
WHOLE = {"oar": 7, "pbs": 4}


def read_records(
    system: str,
    paths: list[Path],
    *,
    zone: str = "UTC",
    cores_per_resource: int = 1,
    unit: Unit | None = None,
    partition_limit_s: float | None = None,
    partitions: Collection[str] | None = None,
    clusters: Collection[str] | None = None,
) -> Reading:
    """The finished jobs in these files.

    Args:
        system: slurm, oar, pbs, frontier, or one of CENTRES.
        paths: the files.
        zone: the cluster's time zone; OAR and Frontier need none.
        cores_per_resource: for OAR: the processors of a resource.
        unit: for a published log: what a processor is; None for the centre's choice.
        partition_limit_s: for Slurm: the requested time of jobs whose limit is their partition's.
        partitions: for a system with partitions: those to read; None for all.
        clusters: for Slurm: those to read; None for all.

    Raises:
        WorkloadError: a file cannot be read as such, the time zone is unknown, no record is of a chosen partition, or
            reading as a whole takes more memory than is free, by the files' size as stored.
        MissingExtra: a library is missing that a table needs.
    """
    if system in WHOLE:
        needed = WHOLE[system] * sum(path.stat().st_size for path in paths if path.is_file())
        require_memory(paths[0], f"reading {system}'s records as a whole", needed, "import fewer files at a time")
    zone_of(zone)  # the header states it, also of a system whose times need none
    reading = Reading(zone, partition_limit_s, None if partitions is None else frozenset(partitions))
    if system == "slurm":
        read_slurm(paths, reading, clusters=None if clusters is None else frozenset(clusters))
    elif system == "oar":
        read_oar(paths, reading, cores_per_resource=cores_per_resource)
    elif system == "pbs":
        read_pbs(paths, reading)
    elif system == "frontier":
        read_frontier(paths, reading, unit=unit)
    else:
        read_centre(CENTRES[system], paths, reading, unit=unit)
    if reading.only is not None:
        require_known("partition", reading.only, reading.jobs.names["partition"])
    return reading
