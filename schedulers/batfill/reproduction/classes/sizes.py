"""Small and large jobs of a log, and what they hold of it: Tables 2 and 3 of the 2022 study of small jobs first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from batfill.reproduction.outcome import Outcome, Table
from batfill.schema import Section
from batfill.workloads.formats import load_log
from batfill.workloads.swf_log import COMPLETED

if TYPE_CHECKING:
    from pathlib import Path

    from batfill.reproduction.task import Task

Rows = Literal["all that ran", "completed"]
COUNTS = ("Divider (s)", "Small non premature (%)", "Small premature (%)")
AREAS = ("Large (%)", "Small non premature (%)", "Small premature (%)")


class Parameters(Section):
    """What is counted, and over which rows of a log; every choice of rows has a divider of its own."""

    of: Literal["jobs", "area"]
    rows: Annotated[list[Rows], Field(min_length=1)]


def compute(task: Task, parameters: Parameters) -> Outcome:
    """The divider and shares of the jobs, or shares of the area p q, a row per log."""
    columns = COUNTS if parameters.of == "jobs" else AREAS
    tables, notes = [], []
    for rows in parameters.rows:
        found = {label: shares(path, rows, parameters.of) for label, path in task.logs.items()}
        tables.append(Table(columns, tuple(found), tuple(values for values, _ in found.values()), rows))
        notes.append(f"{rows}: {', '.join(f'{n:,} rows of {label}' for label, (_, n) in found.items())}.")
    return Outcome(tuple(tables), notes=tuple(notes))


def shares(path: Path, rows: Rows, of: Literal["jobs", "area"]) -> tuple[tuple[float, ...], int]:
    """The three figures of a log, and how many rows they are of."""
    log = load_log(path)
    taken = log["runtime_s"] > 0
    if rows == "completed":
        taken &= log["status"] == COMPLETED
    runtime_s, requested_s = log["runtime_s"][taken], log["requested_s"][taken]
    divider_s = float(np.median(runtime_s))
    small = runtime_s < divider_s
    premature = small & (requested_s > divider_s)
    weight = np.ones(len(runtime_s)) if of == "jobs" else runtime_s * log.needed_procs[taken]
    percent = [float(100 * weight[part].sum() / weight.sum()) for part in (~small, small & ~premature, premature)]
    return (divider_s if of == "jobs" else percent[0], *percent[1:]), len(runtime_s)
