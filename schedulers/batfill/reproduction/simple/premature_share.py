"""The share of premature jobs: Table III of the CCGrid 2019 paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from batfill.reproduction.outcome import Outcome, Table
from batfill.schema import Section
from batfill.workloads.describe import PREMATURE
from batfill.workloads.formats import load_log
from batfill.workloads.swf_log import COMPLETED

if TYPE_CHECKING:
    from batfill.reproduction.task import Task


class Parameters(Section):
    """The paper's number is one for "at least 100 times"."""

    times: Annotated[float, Field(gt=1)] = PREMATURE


def compute(task: Task, parameters: Parameters) -> Outcome:
    """In % of the jobs that ran, of all rows and of the completed ones, a row per log."""
    shares: dict[str, list[tuple[float]]] = {"jobs that ran": [], "all rows": [], "completed": []}
    for path in task.logs.values():
        log = load_log(path)
        runtime_s = log["runtime_s"]
        premature = log["requested_s"] >= parameters.times * runtime_s.clip(min=1)
        counted = (runtime_s > 0, runtime_s == runtime_s, log["status"] == COMPLETED)
        for choice, rows in zip(shares.values(), counted, strict=True):
            choice.append((100 * float(premature[rows].mean()),))
    return Outcome(
        tuple(Table(("% of premature jobs",), tuple(task.logs), tuple(rows), name) for name, rows in shares.items())
    )
