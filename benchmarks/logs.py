"""The logs the suite runs on: where they are, what of them is replayed, and how they become overloaded ones."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from batfill.model.jobs import Jobs, job_table
from batfill.workloads import read_workload
from batfill.workloads.formats import log_of
from batfill.workloads.swf import padded_ids
from batfill.workloads.swf_log import write_log

PLACES = [os.environ.get("BATFILL_TRACES"), *sorted(Path(__file__).parents[2].glob("*/traces"))]
BETWEEN_COPIES_S = 60


class LogMissing(Exception):  # noqa: N818 - it is a reason to skip a case, not a mistake
    """A log is not at hand."""


@dataclass(frozen=True, slots=True)
class Log:
    """A log of the archive and the machine it is replayed on."""

    name: str
    file: str
    procs: int

    @property
    def path(self) -> Path:
        """Where it is.

        Raises:
            LogMissing: nowhere.
        """
        for place in PLACES:
            if place and (path := Path(place) / self.file).is_file():
                return path
        raise LogMissing(f"{self.file} is not here; set BATFILL_TRACES to a folder that holds it")


KTH = Log("KTH-SP2", "KTH-SP2-1996-2.1-cln.swf.gz", 100)
SDSC = Log("SDSC-SP2", "SDSC-SP2-1998-4.2-cln.swf.gz", 128)
BLUE = Log("SDSC-BLUE", "SDSC-BLUE-2000-4.2-cln.swf.gz", 1152)
CTC = Log("CTC-SP2", "CTC-SP2-1996-3.1-cln.swf.gz", 338)
HPC2N = Log("HPC2N", "HPC2N-2002-2.2-cln.swf.gz", 240)
CEA = Log("CEA-Curie", "CEA-Curie-2011-2.1-cln.swf.gz", 93_312)
LOGS = (KTH, SDSC, BLUE)


@cache
def workload(log: Log, copies: int = 1, squeeze: float = 1.0) -> Jobs:
    """The log's jobs that ran and fit the machine, as `crowded` makes them; p~ is raised to p, the first is at 0."""
    whole = read_workload(log.path, procs=log.procs)
    return crowded(whole.select(whole.procs <= log.procs), copies, squeeze).stating(name=whole.name, size=log.procs)


def crowded(jobs: Jobs, copies: int, squeeze: float) -> Jobs:
    """So many copies of the jobs end to end, their submissions then times `squeeze`, rounded down to seconds."""
    submit_s = jobs.submit_s - jobs.submit_s[0]
    span_s = submit_s[-1] + BETWEEN_COPIES_S
    n_jobs = copies * len(jobs)
    return job_table(
        "copies",
        ids=padded_ids(np.arange(n_jobs) + 1, width=len(str(n_jobs))),
        submit_s=np.floor(np.add.outer(np.arange(copies) * span_s, submit_s).ravel() * squeeze),
        runtime_s=np.tile(jobs.runtime_s, copies),
        walltime_s=np.tile(jobs.walltime_s, copies),
        procs=np.tile(jobs.procs, copies),
        user=None if jobs.user is None else np.tile(jobs.user, copies),
        own_end=jobs.own_end,
    )


def write_plain(of: Jobs, path: Path) -> Path:
    """Write the workload as the plain SWF text that the yardstick reads."""
    write_log(log_of(of), path)
    return path
