"""Functions on the log that they were fitted to: Figure 3 of the 2023 study of regression heuristics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.reproduction.heuristics.proxy_scores import TITLES, fits_of
from batfill.reproduction.heuristics.window_costs import Windows, boxes, costs_of, counted, medians
from batfill.reproduction.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from batfill.reproduction.outcome import Table
    from batfill.reproduction.task import Task

LARGER = ("Qdr", "Cub", "Qua")
ESTABLISHED = ("SPT", "SAF", "F2")


class Parameters(Windows):
    """Nothing beside the windows."""


def compute(task: Task, parameters: Parameters) -> Outcome:
    """Medians over the windows, each log under its own functions; verdicts are on the first choice."""
    costs = {}
    for label in task.logs:
        learned = {
            f"{TITLES[found.name]}, {choice}": found.terms
            for choice in parameters.choices
            for found in fits_of(task, label, choice, parameters)
        }
        costs[label] = costs_of(task, label, parameters, learned)
    table = medians(costs)
    return Outcome((table,), verdicts(table, parameters.choices[0]), boxes(costs), (counted(costs),))


def verdicts(table: Table, choice: str) -> dict[str, Verdict]:
    """On what the study says of small and large functions."""

    def value(name: str, label: str) -> float:
        found = table.value(f"{name}, {choice}" if name in TITLES.values() else name, label)
        assert found is not None
        return found

    worse = {
        label: [name for name in LARGER if value(name, label) > max(value(other, label) for other in ESTABLISHED)]
        for label in table.columns
    }
    over_saf = {label: value("Lin", label) / value("SAF", label) for label in table.columns}
    over_fcfs = {
        label: [value(name, label) / value("FCFS", label) for name in ("Lin", *LARGER)] for label in table.columns
    }
    return {
        "larger": Verdict(
            all(len(names) == len(LARGER) for names in worse.values()),
            "worse than SPT, SAF and F2: "
            + "; ".join(f"{label} {', '.join(names) or 'none'}" for label, names in worse.items()),
        ),
        "as-fcfs": Verdict(
            all(min(ratios[1:]) > 0.5 for ratios in over_fcfs.values()),
            "Lin, Qdr, Cub and Qua over FCFS: "
            + "; ".join(
                f"{label} {', '.join(f'{ratio:.2f}' for ratio in ratios)}" for label, ratios in over_fcfs.items()
            ),
        ),
        "lin": Verdict(
            max(over_saf.values()) < 2,
            "Lin over SAF: " + ", ".join(f"{label} {ratio:.2f}" for label, ratio in over_saf.items()),
        ),
    }
