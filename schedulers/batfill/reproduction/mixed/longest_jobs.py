"""The jobs of a log that ran longest: Table 7 of the 2019 study of mixed policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.reproduction.outcome import Outcome, Table
from batfill.schema import Count, Section
from batfill.workloads.formats import load_log

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

COLUMNS = {"submit_time": "submit_s", "run_time": "runtime_s", "number_processors": "procs"}


class Parameters(Section):
    """How many jobs."""

    count: Count = 10


def compute(task: Task, parameters: Parameters) -> Outcome:
    """A row per job, by its number in the log, the longest first."""
    ((_, path),) = task.logs.items()
    log = load_log(path)
    rows = np.argsort(-log["runtime_s"], kind="stable")[: parameters.count]
    values = tuple(tuple(float(log[field][row]) for field in COLUMNS.values()) for row in rows)
    names = tuple(str(int(number)) for number in log["job"][rows])
    return Outcome((Table(tuple(COLUMNS), names, values),))
