"""What the classifier looks at: Table 4 of the 2022 study of small jobs first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.knowledge.features import NAMES
from batfill.reproduction.outcome import Outcome, Table
from batfill.schema import Section

if TYPE_CHECKING:
    from batfill.reproduction.task import Task


class Parameters(Section):
    """None."""


def compute(task: Task, parameters: Parameters) -> Outcome:
    """How many features of each type there are."""
    lags = [name for name in NAMES if name.startswith("lag ")]
    shares = [name for name in NAMES if name.startswith("share ")]
    job = [name for name in NAMES if name in ("p~", "q")]
    counts = {
        "Job features": len(job),
        "Temporal features": len(NAMES) - len(job) - len(lags) - len(shares),
        "Lag features": len(lags),
        "Aggregation features": len(shares),
    }
    table = Table(("features",), tuple(counts), tuple((float(count),) for count in counts.values()))
    return Outcome((table,), notes=(f"In the order of the forest: {', '.join(NAMES)}.",))
