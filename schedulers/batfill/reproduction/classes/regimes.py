"""What the 2022 study of small jobs first leaves open: how recent the information is, the divider, the threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from batfill.options import USER
from batfill.reproduction.classes.runs import TAU_S, Replayed, shown
from batfill.reproduction.classes.studies import Choice, rules_of
from batfill.reproduction.grids import run_grid
from batfill.reproduction.outcome import Outcome, Table
from batfill.schema import Text

if TYPE_CHECKING:
    from batfill.reproduction.task import Task


class Parameters(Replayed):
    """What is varied."""

    choices: Annotated[list[Choice], Field(min_length=1)]
    thresholds: Annotated[dict[Text, float | None], Field(min_length=1)]  # by their labels


def compute(task: Task, parameters: Parameters) -> Outcome:
    """Gains over EASY-FCFS without a threshold in per cent, a row per choice and threshold, a column per policy."""
    ((label, _),) = task.logs.items()
    known: list[Any] = [USER]
    for choice in parameters.choices:
        regime, rule = rules_of(choice)
        known.append({"knowledge": "classifier", "kill": True, "regime": regime, "divider-rule": rule})
    content: dict[str, Any] = {
        "policies": parameters.policies,
        "thresholds": list(parameters.thresholds.values()),
        "knowledge": known,
        "seeds": [parameters.seed],
        "tau": TAU_S,
        **parameters.windows_of(label),
    }
    rows = iter(run_grid(task, label, content, overrun="keep").rows)
    mean = {
        (policy, threshold, choice): next(rows)["mean_bsld"]
        for policy in parameters.policies
        for threshold in parameters.thresholds
        for choice in ("base", *parameters.choices)
    }
    base = next(iter(mean.values()))
    names = [(threshold, choice) for choice in ("base", *parameters.choices) for threshold in parameters.thresholds]
    values = tuple(tuple(100 * (1 - mean[policy, *name] / base) for policy in parameters.policies) for name in names)
    table = Table(
        tuple(f"{shown(policy)}-CI" for policy in parameters.policies),
        tuple(f"{choice}, {threshold}" for threshold, choice in names),
        values,
    )
    return Outcome((table,), notes=(f"{shown(parameters.policies[0])} has a mean bounded slowdown of {base:.2f}.",))
