"""A log as it is, or resampled by whole weeks: the logs on which online choices are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from batfill.errors import BatfillError, WorkloadError
from batfill.files import digest
from batfill.workloads.formats import load_log
from batfill.workloads.resampling import resample
from batfill.workloads.swf import workload_of

if TYPE_CHECKING:
    from pathlib import Path

    from batfill.jobs import JobTable
    from batfill.workloads.swf_log import SwfLog


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """The k-th log of a seed is the same however many are made."""

    path: Path
    log: SwfLog
    procs: int
    warnings: tuple[str, ...]  # see `Workload.warnings`; of the whole log
    resampled: bool
    weeks: int | None  # of a sample; None for as many as the log has
    seed: int

    @classmethod
    def of(cls, path: Path, *, procs: int | None, resampled: bool, weeks: int | None, seed: int) -> Samples:
        """The samples of a log's file.

        Raises:
            BatfillError: the log cannot be read, its machine's size is not known, or an option does nothing.
        """
        if weeks is not None and not resampled:
            raise BatfillError("--weeks: only samples have another length than the log; add --samples, or leave it out")
        log = load_log(path)
        workload = workload_of(path, log, procs=procs)
        if workload.procs is None:
            raise WorkloadError(f"{path}: does not say how many processors the machine has; give --procs N")
        return cls(path, log, workload.procs, workload.warnings, resampled, weeks, seed)

    def jobs(self, sample: int) -> JobTable:
        """The jobs of one of them."""
        log = self.log
        if self.resampled:
            log = resample(log, self.seed, sample=sample, method="weeks", weeks=self.weeks)
        return workload_of(self.path, log, procs=self.procs).jobs

    def provenance(self) -> dict[str, Any]:
        """What result files say of the input."""
        return {
            "source": self.path.name,
            "source_sha256": digest(self.path),
            "resampled": "weeks" if self.resampled else None,
            "weeks": self.weeks,
            "warnings": list(self.warnings),
        }
