"""The results of a campaign's choices, by workload."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from batfill.options import described

if TYPE_CHECKING:
    import pyarrow as pa

CHOICE_COLUMNS = ("policy", "backfill", "threshold_s", "knowledge", "learning")


def overview(table: pa.Table) -> list[dict[str, Any]]:
    """A row per workload and choice of options, in the table's order: the number of runs, and means over them.

    Each run has equal weight, whatever its number of jobs; runs without a figure do not count.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    columns = ["workload", *CHOICE_COLUMNS, "mean_wait_s", "mean_bsld"]
    for row in table.select(columns).to_pylist():
        groups[tuple(row[name] for name in ("workload", *CHOICE_COLUMNS))].append(row)
    return [
        {
            "workload": key[0],
            "options": options_text(*key[1:]),
            "runs": len(rows),
            "mean_wait_s": sum(row["mean_wait_s"] for row in rows) / len(rows),
            "mean_bsld": sum(row["mean_bsld"] for row in rows) / len(rows),
            "max_mean_bsld": max(row["mean_bsld"] for row in rows),
        }
        for key, rows in groups.items()
    ]


def options_text(policy: str, backfill: str, threshold_s: float | None, knowledge: str, learning: str | None) -> str:
    """The options of a row as in `described`; `learning` has those besides the knowledge's name, as JSON."""
    more = json.loads(learning) if learning else {}
    return described({"policy": policy, "backfill": backfill, "threshold": threshold_s, "knowledge": knowledge, **more})
