"""What the 2017 study of online policy selection leaves open, each varied alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from batfill.reproduction.outcome import Outcome, Table, Value
from batfill.reproduction.selection.selected import TITLES, Choosing, Method, Share, selected
from batfill.schema import Seconds, Section, Text

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

USUAL = "as in the other entries"
# What a parameter means to each method; a threshold and Delta mean something to all.
USED_BY: dict[str, tuple[Method, ...]] = {
    "decay": ("full", "noisy"),
    "balance": ("full", "noisy"),
    "noise": ("noisy",),
    "epsilon": ("epsilon-greedy",),
}


class Change(Section):
    """What takes the place of a usual value."""

    period: Annotated[float, Field(gt=0)] | None = None
    decay: Share | None = None
    balance: Share | None = None
    epsilon: Share | None = None
    noise: Literal["walltime"] | float | None = None
    threshold: Seconds | None = None


class Parameters(Choosing):
    """The usual values, and those that take their place."""

    varied: Annotated[dict[Text, Change], Field(min_length=1)]  # by the rows' labels


def compute(task: Task, parameters: Parameters) -> Outcome:
    """Mean waits over EASY-FCFS's: a column per method and log, a row per change."""
    columns = {f"{title}, {label}": (method, label) for label in task.logs for method, title in TITLES.items()}
    rows: dict[str, tuple[Value, ...]] = {}
    for name, change in {USUAL: Change(), **parameters.varied}.items():
        changed = change.model_dump(exclude_unset=True)
        how = parameters.model_copy(update=changed)
        rows[name] = tuple(
            float(selected(task, label, method, how)["wait_over_fcfs"]["mean"])
            if not changed or any(method in USED_BY.get(key, (method,)) for key in changed)
            else None
            for method, label in columns.values()
        )
    return Outcome((Table(tuple(columns), tuple(rows), tuple(rows.values())),))
