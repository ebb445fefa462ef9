"""What each feature contributes to the forests: Figure 5 of the 2022 study of small jobs first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.knowledge.features import NAMES
from batfill.reproduction.classes.studies import Studied, study_of
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
TEMPORAL = ("hour", "weekday", "day of month", "month", "week of year", "quarter")


class Parameters(Studied):
    """Nothing beside the studies; the first choice's forests are looked at."""


def compute(task: Task, parameters: Parameters) -> Outcome:
    """The median over the trainings of each feature's share of the decrease of Gini impurity, a column per log."""
    studies = {label: study_of(task, label, parameters.choices[0], parameters) for label in task.logs}
    trained = {label: done["importances"] for label, done in studies.items() if done and done["importances"]}
    columns = {label: medians(rows) for label, rows in trained.items()}
    values = tuple(tuple(columns[label][name] for label in columns) for name in NAMES)
    charts = tuple(
        Chart(
            label,
            "boxes",
            ("feature", "p5", "p25", "p50", "p75", "p95"),
            tuple((name, *np.quantile([row[name] for row in rows], QUANTILES).tolist()) for name in NAMES),
            "",
            "importance",
        )
        for label, rows in trained.items()
    )
    return Outcome((Table(tuple(columns), NAMES, values),), verdicts(columns), charts)


def medians(trainings: list[dict[str, Any]]) -> dict[str, float]:
    """Of each feature over the trainings."""
    return {name: float(np.median([row[name] for row in trainings])) for name in NAMES}


def verdicts(columns: dict[str, dict[str, float]]) -> dict[str, Verdict]:
    """On what the study says is important."""
    top = {label: max(found, key=lambda name: found[name]) for label, found in columns.items()}
    lags = {
        label: all(
            found[f"lag 1 (u, {name})"] > found[f"lag 2 (u, {name})"] > found[f"lag 3 (u, {name})"]
            for name in ("p~", "q", "day")
        )
        for label, found in columns.items()
    }
    temporal = {label: sum(found[name] for name in TEMPORAL) for label, found in columns.items()}
    others = {
        label: 1 - share - found["p~"] - found["q"]
        for (label, share), found in zip(temporal.items(), columns.values(), strict=True)
    }
    return {
        "request": Verdict(
            all(name == "p~" for name in top.values()),
            "most important: " + ", ".join(f"{label} {name}" for label, name in top.items()),
        ),
        "lags": Verdict(
            all(lags.values()), ", ".join(f"{label} {'yes' if falls else 'no'}" for label, falls in lags.items())
        ),
        "temporal": Verdict(
            all(temporal[label] < others[label] for label in temporal),
            "temporal in sum, lags and shares in sum: "
            + ", ".join(f"{label} {temporal[label]:.2f}, {others[label]:.2f}" for label in temporal),
        ),
    }
