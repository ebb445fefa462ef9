"""What a log says of its site beside the jobs that are replayed: rows left out, and its batch system."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from batfill.workloads.swf import NO_RUN_TIME, REASONS, job_rows
from batfill.workloads.swf_log import CANCELLED
from batfill_site.accounting.cluster_log import HAD_GPUS
from batfill_site.fidelity import notes_of, number_of, unmodelled
from batfill_site.machine import PLACES

if TYPE_CHECKING:
    from collections.abc import Collection

    from batfill.model.jobs import Jobs

# How a header names a batch system.
NAMED = {"slurm": r"slurm", "oar": r"oar", "pbs": r"(open)?pbs|torque", "flux": r"flux"}
OF_RECORDS = re.compile(r"[\d,]+ records?: .+")  # an import's note on what it left out or changed


class SiteLog(NamedTuple):
    """What a log says of its site."""

    rows: int
    jobs: int  # those that ran
    left_out: dict[str, int]  # rows that are no job, by reason
    cancelled: int  # of those without a run time, the cancelled ones
    wide: int  # jobs that do not fit the machine
    imported: list[str]  # what the import left out or changed, a phrase each
    unmodelled: list[str]  # what its jobs have and a replay knows nothing of, a phrase each
    places: dict[str, int]  # its partitions and queues, 0 if unknown
    system: str | None  # its batch system; None if unknown

    @classmethod
    def of(cls, source: Jobs, jobs: int, wide: int, fields: Collection[str]) -> SiteLog:
        """What the source of so many jobs says, of which some do not fit the machine; pools read these fields."""
        log, rows = source.log, job_rows(Path(source.where), source.log)
        idle = rows.dropped.get(REASONS[NO_RUN_TIME], 0)
        cancelled = (~(log["runtime_s"] > 0) & (log["status"] == CANCELLED) & ~log.left).sum() if idle else 0
        head = " ".join(text for text in log.header if not text.lower().startswith(("; queue", "; user", "; group")))
        groups, of_gpus = number_of(log, "group"), any(field.startswith("gpu") for field in fields)
        without = [what for what in unmodelled(log) if not (of_gpus and what.endswith(HAD_GPUS))]
        named = (name for name, words in NAMED.items() if re.search(rf"\b({words})\b", head, re.IGNORECASE))
        return cls(
            len(log),
            jobs,
            rows.dropped,
            int(cancelled),
            wide,
            [note for note in notes_of(log) if OF_RECORDS.fullmatch(note)],
            [*without, *([f"{groups:,} groups or accounts"] if groups > 1 else [])],
            {place: number_of(log, place) for place in PLACES},
            source.system or next(named, None),
        )
