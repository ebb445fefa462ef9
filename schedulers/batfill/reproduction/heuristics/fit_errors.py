"""How well polynomials fit the scores of the proxy problem: Table 2 of the 2023 study of regression heuristics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.reproduction.heuristics.proxy_scores import TITLES, Fitting, fits_of
from batfill.reproduction.outcome import Outcome, Table

if TYPE_CHECKING:
    from batfill.reproduction.task import Task


class Parameters(Fitting):
    """Nothing beside the fits."""


def compute(task: Task, parameters: Parameters) -> Outcome:
    """The mean absolute errors, a row per function and a column per log, for every choice."""
    tables = []
    for choice in parameters.choices:
        columns = [[found.mae for found in fits_of(task, label, choice, parameters)] for label in task.logs]
        rows = tuple(zip(*columns, strict=True))
        tables.append(Table(tuple(task.logs), tuple(TITLES.values()), rows, choice))
    scored = [f"{32 * parameters.tuples[label]:,} scored jobs of {label}" for label in task.logs]
    return Outcome(tuple(tables), notes=(f"{', '.join(scored)}.",))
