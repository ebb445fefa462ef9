"""Jobs backfilled under smallest request first on whole logs: Proposition 1 of the CCGrid 2019 paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from batfill.reproduction.grids import longest_request_s, run_grid
from batfill.reproduction.outcome import Outcome, Table, Verdict
from batfill.schema import Section
from batfill.workloads.swf import Overrun

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

COLUMNS = {
    "SQF, no threshold": ("sqf", False),
    "SQF, threshold": ("sqf", True),
    "FCFS": ("fcfs", False),
}


class Parameters(Section):
    """The threshold that is compared with none."""

    longest_requests: Annotated[float, Field(gt=0)] = 3.0  # in longest requests of the log
    overrun: Overrun = "kill"


def compute(task: Task, parameters: Parameters) -> Outcome:
    """Counts, a row per log."""
    rows, jobs = [], []
    for label, path in task.logs.items():
        threshold = parameters.longest_requests * longest_request_s(path)
        content = {"policies": ["fcfs", "sqf"], "thresholds": [None, threshold]}
        grid = run_grid(task, label, content, overrun=parameters.overrun)
        counts = {(row["policy"], row["threshold_s"] is not None): row["backfilled"] for row in grid.rows}
        rows.append(tuple(counts[key] for key in COLUMNS.values()))
        jobs.append(grid.rows[0]["jobs"])
    counted = ", ".join(f"{label} {n:,}" for label, n in zip(task.logs, jobs, strict=True))
    return Outcome(
        tables=(Table(tuple(COLUMNS), tuple(task.logs), tuple(rows)),),
        verdicts={
            "none": Verdict(not any(row[0] for row in rows), f"jobs replayed: {counted}"),
        },
    )
