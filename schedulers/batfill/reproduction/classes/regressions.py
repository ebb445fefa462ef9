"""Classification beside predictions of run times: Table 7 of the 2022 study of small jobs first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batfill.errors import BatfillError
from batfill.options import USER
from batfill.reproduction.classes.runs import BASE, IDEMPOTENT, TAU_S, Replays, runs_of
from batfill.reproduction.grids import run_grid
from batfill.reproduction.outcome import Outcome, Table, Verdict
from batfill.schema import Text

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

EASY_PLUS, AUTHORS, REGRESSION = "EASY++", "EASY++, its authors", "regression, its authors"
CLASSIFIED = {"FCFS-CI": "fcfs", "SPF-CI": "spf"}
ORDERS = {"same": "backfill in the queue's order", "spf": "backfill shortest first"}


class Parameters(Replays):
    """The backfilling under which run times are predicted; the first is that of the classification, too."""

    backfills: list[Text]


def compute(task: Task, parameters: Parameters) -> Outcome:
    """Gains over EASY-FCFS in per cent: a row per log, and a table per order of backfilling."""
    predicted = {label: predictions(task, label, parameters) for label in task.logs}
    classified: dict[str, dict[str, float]] = {}
    for label in task.logs:
        runs = runs_of(task, label, parameters)
        if "fcfs" not in runs.policies:
            raise BatfillError(f"{label}: gains are over EASY-FCFS; put fcfs among its policies")
        base = runs.mean("fcfs", BASE)
        classified[label] = {
            name: 100 * (1 - runs.mean(policy, IDEMPOTENT) / base)
            for name, policy in CLASSIFIED.items()
            if policy in runs.policies
        }
    tables = []
    for backfill in parameters.backfills:
        gains = {label: predicted[label][backfill] for label in task.logs}
        columns = (EASY_PLUS, AUTHORS, REGRESSION)
        rows = [(found["easy++"], found["easy++"], found["regression"]) for found in gains.values()]
        tables.append(Table(columns, tuple(gains), tuple(rows), ORDERS.get(backfill, f"backfill {backfill}")))
    ours = tuple(tuple(found.get(name) for name in CLASSIFIED) for found in classified.values())
    tables.append(Table(tuple(CLASSIFIED), tuple(classified), ours))
    best = {label: max(max(found.values()) for found in by.values()) for label, by in predicted.items()}
    return Outcome(
        tuple(tables),
        {
            "better": Verdict(
                all(min(classified[label].values()) > best[label] for label in best),
                "; ".join(
                    f"{label} {', '.join(f'{name} {gain:.0f}' for name, gain in classified[label].items())}, "
                    f"best prediction {best[label]:.0f}"
                    for label in best
                ),
            )
        },
    )


def predictions(task: Task, label: str, parameters: Parameters) -> dict[str, dict[str, float]]:
    """By backfill and knowledge: the gain over EASY-FCFS, backfilled in the queue's order, in per cent."""
    names = (USER, "easy++", "regression")
    content: dict[str, Any] = {
        "policies": ["fcfs"],
        "backfills": parameters.backfills,
        "knowledge": list(names),
        "tau": TAU_S,
        **parameters.windows_of(label),
    }
    rows = run_grid(task, label, content, overrun="keep").rows
    mean = {(row["backfill"], row["knowledge"]): row["mean_bsld"] for row in rows}
    base = mean["same", USER]
    return {
        backfill: {name: 100 * (1 - mean[backfill, name] / base) for name in names[1:]}
        for backfill in parameters.backfills
    }
