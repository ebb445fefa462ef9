"""How often the classifier is right: Tables 5 and 6 and Figure 4 of the 2022 study of small jobs first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from batfill.reproduction.classes.studies import Studied, study_of
from batfill.reproduction.outcome import Chart, Outcome, Table, Value, Verdict

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

Figures = Literal["rates", "errors"]
RATES = {"Accuracy (%)": "accuracy", "Precision (%)": "precision", "Recall (%)": "recall"}
ERRORS = {"False Large (%)": "false_large", "False Small (%)": "false_small"}
READINGS = ("of those judged so", "of all jobs")


class Parameters(Studied):
    """Which figures."""

    figures: Figures = "rates"


def compute(task: Task, parameters: Parameters) -> Outcome:
    """A row per log: the three rates for every choice, or the two errors for every reading of them."""
    found = {
        choice: {label: done for label in task.logs if (done := study_of(task, label, choice, parameters)) is not None}
        for choice in parameters.choices
    }
    tables = []
    for choice, studies in found.items():
        if parameters.figures == "rates":
            rows = [tuple(percent(done["total"][name]) for name in RATES.values()) for done in studies.values()]
            tables.append(Table(tuple(RATES), tuple(studies), tuple(rows), choice))
            continue
        for reading in READINGS:
            rows = [errors(done["total"], reading) for done in studies.values()]
            tables.append(Table(tuple(ERRORS), tuple(studies), tuple(rows), f"{choice}, {reading}"))
    first = found[parameters.choices[0]]
    return Outcome(tuple(tables), verdicts(first), tuple(chart(label, done["weeks"]) for label, done in first.items()))


def percent(share: Value) -> Value:
    """A share in per cent."""
    return None if share is None else 100 * share


def errors(total: dict[str, Any], reading: str) -> tuple[Value, ...]:
    """The two errors of Table 6."""
    if reading == "of all jobs":
        return tuple(100 * total[name] / total["jobs"] for name in ERRORS.values())
    return tuple(percent(total[f"{name}_rate"]) for name in ERRORS.values())


def verdicts(studies: dict[str, Any]) -> dict[str, Verdict]:
    """On all jobs, and on single weeks."""
    least = {label: min(done["total"][name] for name in RATES.values()) for label, done in studies.items()}
    spread = {
        label: float(np.median([row["accuracy"] for row in done["weeks"] if row["accuracy"] is not None]))
        for label, done in studies.items()
    }
    return {
        "above-78": Verdict(
            min(least.values()) > 0.78,
            "the least of the three: " + ", ".join(f"{label} {100 * share:.1f} %" for label, share in least.items()),
        ),
        "weekly": Verdict(
            min(spread.values()) > 0.75,
            "accuracy of the median week: "
            + ", ".join(f"{label} {100 * share:.1f} %" for label, share in spread.items()),
        ),
    }


def chart(label: str, weeks: list[dict[str, Any]]) -> Chart:
    """The quality week by week."""
    rows = tuple((row["week"], *(row[name] for name in RATES.values())) for row in weeks)
    return Chart(f"{label}-weeks", "lines", ("week", *RATES.values()), rows, "week", "share")
