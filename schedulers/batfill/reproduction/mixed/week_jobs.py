"""The jobs that are left when logs are cut into weeks: Table 1 of the 2019 study of mixed policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from batfill.reproduction.outcome import Outcome, Table
from batfill.schema import Section
from batfill.tuning.periods import read_periods
from batfill.workloads.splitting import Boundary

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

COLUMNS = ("#CPU", "#jobs", "avg job duration", "avg job size")


class Parameters(Section):
    """The rules for jobs on a border; each is a choice."""

    boundaries: Annotated[list[Boundary], Field(min_length=1)]


def compute(task: Task, parameters: Parameters) -> Outcome:
    """A row per log: machine, jobs, mean run time (s), and mean processors of a job, over all weeks."""
    tables = []
    with task.bar("logs", len(parameters.boundaries) * len(task.logs)) as advance:
        for boundary in parameters.boundaries:
            rows = []
            for path in task.logs.values():
                periods = read_periods(path, boundary=boundary)
                runtime_s = np.concatenate([jobs.runtime_s for jobs in periods.tables])
                procs = np.concatenate([jobs.procs for jobs in periods.tables])
                rows.append((periods.procs, len(procs), float(runtime_s.mean()), float(procs.mean())))
                advance(1)
            tables.append(Table(COLUMNS, tuple(task.logs), tuple(rows), boundary))
    return Outcome(tuple(tables))
