"""The logs as they are: Table II of the CCGrid 2019 paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.jobs import DAY_S
from batfill.reproduction.outcome import Outcome, Table
from batfill.schema import Section
from batfill.workloads.formats import load_log
from batfill.workloads.scaling import offered_load
from batfill.workloads.swf import machine_size

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

COLUMNS = ("# CPUs", "# Jobs", "Util %", "Duration (months)")
MONTH_S = 365.25 / 12 * DAY_S


class Parameters(Section):
    """None."""


def compute(task: Task, parameters: Parameters) -> Outcome:
    """A row per log; utilisation is the load offered by the jobs that ran."""
    rows = []
    for path in task.logs.values():
        log = load_log(path)
        procs = machine_size(path, log, None)
        months = float(np.ptp(log["submit_s"])) / MONTH_S
        load = 100 * offered_load(log, procs) if procs else None
        rows.append((procs, len(log), load, months))
    return Outcome((Table(COLUMNS, tuple(task.logs), tuple(rows)),))
