"""One fitted function on other logs: Figures 4 and 5 of the 2023 study of regression heuristics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from batfill.reproduction.heuristics.proxy_scores import fits_of
from batfill.reproduction.heuristics.window_costs import Windows, boxes, costs_of, counted, medians
from batfill.reproduction.outcome import Outcome, Verdict
from batfill.schema import Text
from batfill.tuning.heuristics import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.policies import Term
    from batfill.reproduction.outcome import Table
    from batfill.reproduction.task import Task

PRINTED = "Lin, as printed"


class Parameters(Windows):
    """Where Lin comes from."""

    fitted_to: Text  # the log whose Lin is used beside the printed one, if the log is at hand
    printed: Annotated[list[float], Field(min_length=4, max_length=4)]  # the paper's coefficients of 1, p, q and r


def compute(task: Task, parameters: Parameters) -> Outcome:
    """Medians over the windows; verdicts are on Lin with the paper's coefficients."""
    learned: dict[str, Sequence[Term]] = {
        PRINTED: [(value, *powers) for value, powers in zip(parameters.printed, FUNCTIONS["lin"], strict=True)]
    }
    if parameters.fitted_to in task.logs:
        for choice in parameters.choices:
            learned[f"Lin, {choice}"] = fits_of(task, parameters.fitted_to, choice, parameters)[0].terms
    others = [label for label in task.logs if label != parameters.fitted_to]
    costs = {label: costs_of(task, label, parameters, learned) for label in others}
    table = medians(costs)
    return Outcome((table,), verdicts(table), boxes(costs), (counted(costs),))


def verdicts(table: Table) -> dict[str, Verdict]:
    """On what the study says of Lin, SAF and F2."""
    known = [name for name in table.rows if not name.startswith("Lin") or name == PRINTED]
    ranked = {label: sorted(known, key=lambda name: table.value(name, label) or 0.0) for label in table.columns}
    places = {label: names.index(PRINTED) + 1 for label, names in ranked.items()}
    return {
        "three-lowest": Verdict(
            max(places.values(), default=9) <= 3,
            "Lin's place among seven: " + ", ".join(f"{label} {place}" for label, place in places.items()),
        ),
        "fcfs": Verdict(
            all(names.index("FCFS") > max(names.index(name) for name in ("SAF", "F2")) for names in ranked.values()),
            "by median: " + "; ".join(f"{label} {', '.join(names)}" for label, names in ranked.items()),
        ),
    }
