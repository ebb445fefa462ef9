"""What fitted polynomials think of p and q: Figure 2 of the 2023 study of regression heuristics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field
from scipy.stats import spearmanr

from batfill.policies import polynomial
from batfill.reproduction.heuristics.proxy_scores import TITLES, Fitting, fits_of
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict
from batfill.schema import Count
from batfill.workloads import read_workload

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from batfill.reproduction.task import Task
    from batfill.tuning.heuristics import Fit

ORDERS = ("SPT", "SQF", "SAF")


class Parameters(Fitting):
    """Where the functions are looked at."""

    submit_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 300.0  # r
    points: Count = 30  # along p and along q


def compute(task: Task, parameters: Parameters) -> Outcome:
    """How alike each function and three plain orders rank the points (p, q), and the maps; the first choice's."""
    columns, charts = [], []
    for label, path in task.logs.items():
        p, q = grid(path, parameters.points)
        fits = fits_of(task, label, parameters.choices[0], parameters)
        for found in fits:
            values = priorities(found, p, q, parameters.submit_s)
            columns.append([float(spearmanr(values, key).statistic) for key in (p, q, p * q)])
            rows = zip((p / p.max()).tolist(), (q / q.max()).tolist(), values.tolist(), strict=True)
            charts.append(
                Chart(
                    f"{label}-{TITLES[found.name]}",
                    "map",
                    ("p_over_longest", "q_over_machine", "priority"),
                    tuple(rows),
                    "p / longest",
                    "q / machine",
                )
            )
    names = [f"{TITLES[found.name]}, {label}" for label in task.logs for found in fits]
    table = Table(ORDERS, tuple(names), tuple(map(tuple, columns)), parameters.choices[0])
    lin = {name: row[2] for name, row in zip(names, columns, strict=True) if name.startswith("Lin")}
    others = {name: row[2] for name, row in zip(names, columns, strict=True) if not name.startswith("Lin")}
    evidence = ", ".join(f"{name} {value:.2f}" for name, value in lin.items())
    return Outcome(
        (table,),
        {
            "lin": Verdict(min(lin.values()) > 0.8, f"rank correlation with SAF: {evidence}"),
            "larger": Verdict(
                max(others.values()) < min(lin.values()),
                f"the larger functions: {min(others.values()):.2f} to {max(others.values()):.2f}",
            ),
        },
        tuple(charts),
    )


def grid(path: Path, points: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Run times up to the log's longest and widths up to its machine, each with each, shape (points^2,)."""
    workload = read_workload(path)
    assert workload.procs is not None
    p = np.linspace(1, workload.jobs.runtime_s.max(), points)
    q = np.linspace(1, workload.procs, points)
    return np.repeat(p, points), np.tile(q, points)


def priorities(found: Fit, p: NDArray[np.float64], q: NDArray[np.float64], r: float) -> NDArray[np.float64]:
    """The function's values, scaled to [0, 1]; low ones go first."""
    policy = polynomial(found.name, found.terms, "")
    values, _ = policy.lines(np.full(len(p), r), p, q.astype(np.int64))
    return np.asarray((values - values.min()) / np.ptp(values))
