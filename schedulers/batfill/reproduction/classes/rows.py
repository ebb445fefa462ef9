"""What perfect knowledge gains where all rows of a log are replayed, or only those of completed jobs.

The 2022 study of small jobs first does not say which it replayed; its Figure 9 and Table 2 hang on it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from batfill.experiment import simulate
from batfill.options import Options
from batfill.reproduction.classes.runs import BY_CLASS, BY_RUNTIME, TAU_S, shown
from batfill.reproduction.classes.sizes import Rows
from batfill.reproduction.outcome import Outcome, Table
from batfill.schema import Section, Text
from batfill.workloads.formats import load_log
from batfill.workloads.swf import workload_of
from batfill.workloads.swf_log import COMPLETED

if TYPE_CHECKING:
    from pathlib import Path

    from batfill.jobs import Workload
    from batfill.reproduction.task import Task


class Parameters(Section):
    """The orders, and the rows; every choice of rows is a choice of the table."""

    policies: Annotated[list[Text], Field(min_length=1)]
    rows: Annotated[list[Rows], Field(min_length=1)]


def compute(task: Task, parameters: Parameters) -> Outcome:
    """Gains over the same policy with users' requests in per cent, a column per log."""
    scenarios = (BY_CLASS, BY_RUNTIME)
    names = tuple(f"{shown(policy)}, {scenario}" for policy in parameters.policies for scenario in scenarios)
    tables, notes = [], []
    with task.bar("replays", len(task.logs) * len(parameters.rows) * len(parameters.policies)) as advance:
        for rows in parameters.rows:
            columns = []
            for label, path in task.logs.items():
                workload = workload_with(path, rows)
                bases, column = [], []
                for policy in parameters.policies:
                    base, *known = (mean_bsld(workload, policy, each) for each in (None, *scenarios))
                    bases.append(f"{shown(policy)} {base:.2f}")
                    column += [100 * (1 - mean / base) for mean in known]
                    advance(1)
                columns.append(column)
                notes.append(f"{rows}, {label}: {len(workload.jobs):,} jobs; users' requests give {', '.join(bases)}.")
            tables.append(Table(tuple(task.logs), names, tuple(zip(*columns, strict=True)), rows))
    return Outcome(tuple(tables), notes=tuple(notes))


def workload_with(path: Path, rows: Rows) -> Workload:
    """The workload of these rows of the log."""
    log = load_log(path)
    if rows == "completed":
        log = replace(log, rows=log.rows[log["status"] == COMPLETED])
    return workload_of(path, log)


def mean_bsld(workload: Workload, policy: str, knowledge: str | None) -> float:
    """Of a replay of it."""
    schedule, _ = simulate(workload.jobs, workload, Options.of({"policy": policy, "knowledge": knowledge}))
    return schedule.summary(TAU_S).mean_bsld
