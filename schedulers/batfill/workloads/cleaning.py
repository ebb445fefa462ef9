"""Cleans a log: drops rows by rules, and fills in unknown processors; every such row is counted.

The rules `wide`, `processors` and `times` are those of the bandit paper of 2017 (section 6.1.1); the flurries are those
that the archive's headers name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from batfill.base.errors import WorkloadError
from batfill.base.version import __version__
from batfill.workloads.filters import matching
from batfill.workloads.swf_log import FIELD, SwfLog, header_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Rows = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Cleaned:
    """A cleaned log, and the number of rows each rule dropped or changed; a row counts for the first rule only."""

    log: SwfLog
    dropped: dict[str, int]
    changed: dict[str, int]


def wide(log: SwfLog, procs: int | None) -> Rows:
    """Rows whose allocated or requested processors exceed the machine."""
    if procs is None:
        raise WorkloadError("the rule `wide` needs the machine's size, which the header does not give; pass --procs")
    return (log["procs"] > procs) | (log["requested_procs"] > procs)


def processors(log: SwfLog, procs: int | None) -> Rows:
    """Rows with neither allocated nor requested processors."""
    return ~((log["procs"] > 0) | (log["requested_procs"] > 0))


def times(log: SwfLog, procs: int | None) -> Rows:
    """Rows whose run time or submission time is negative."""
    return (log["runtime_s"] < 0) | (log["submit_s"] < 0)


def ran(log: SwfLog, procs: int | None) -> Rows:
    """Rows that did not run: run time 0 or negative."""
    return ~(log["runtime_s"] > 0)


def duplicates(log: SwfLog, procs: int | None) -> Rows:
    """Rows equal to an earlier one in all 18 fields."""
    _, job, times_used = np.unique(log["job"], return_inverse=True, return_counts=True)
    shared = np.flatnonzero(times_used[job] > 1)  # equal rows have equal job numbers, which few rows share
    again = np.zeros(len(log), bool)
    again[shared] = True
    again[shared[np.unique(log.rows[shared], axis=0, return_index=True)[1]]] = False
    return again


CLEANING_RULES: dict[str, Callable[[SwfLog, int | None], Rows]] = {
    "wide": wide,
    "processors": processors,
    "times": times,
    "ran": ran,
    "duplicates": duplicates,
}
BANDIT = ("wide", "processors", "times")


def clean(
    log: SwfLog,
    *,
    rules: Sequence[str] = (*BANDIT, "ran"),
    procs: int | None = None,
    statuses: Sequence[int] = (),
    flurries: Sequence[str] = (),
) -> Cleaned:
    """The log without the rows dropped by the rules in the given order, then by statuses, then by flurries.

    Args:
        log: any log.
        rules: names of RULES. `processors` also fills in whichever of allocated and requested is unknown.
        procs: the machine's size, for `wide`.
        statuses: if given, the only statuses to keep.
        flurries: filters as the archive's headers write them (see `filters`), such as
            "user=68 and (job>=58 and job<=564)".

    Raises:
        WorkloadError: a rule or a filter is unknown, or no row is left.
    """
    dropped: dict[str, int] = {}
    keep = np.ones(len(log), bool)

    def drop(name: str, rows: Rows) -> None:
        dropped[name] = int((rows & keep).sum())
        keep[rows] = False

    for name in rules:
        if name not in CLEANING_RULES:
            raise WorkloadError(f"no cleaning rule {name!r}; there are {', '.join(CLEANING_RULES)}")
        drop(name, CLEANING_RULES[name](log, procs))
    if statuses:
        drop(f"status not {' or '.join(map(str, statuses))}", ~np.isin(log["status"], list(statuses)))
    for text in flurries:
        drop(f"flurry {text}", matching(log, text))
    if not keep.any():
        why = ", ".join(f"{name} {count}" for name, count in dropped.items() if count)
        raise WorkloadError(f"cleaning drops all {len(log)} rows ({why}); use fewer rules")
    changed: dict[str, int] = {}
    cleaned = log.as_listed().select(keep)
    rows = cleaned.rows  # a copy
    if "processors" in rules:
        changed["processors filled in"] = _fill_processors(rows)
    changes = "; ".join(
        [f"{name}: {count} rows dropped" for name, count in dropped.items()]
        + [f"{name}: {count} rows changed" for name, count in changed.items()]
    )
    counted = tuple(
        comment._replace(text=f"; MaxRecords: {len(rows)}") if header_name(comment.text) == "maxrecords" else comment
        for comment in cleaned.comments
    )
    cleaned = replace(cleaned, comments=counted).noted(f"cleaned by batfill {__version__}: {changes}")
    return Cleaned(cleaned, dropped, changed)


def _fill_processors(rows: NDArray[np.float64]) -> int:
    allocated, requested = rows[:, FIELD["procs"]], rows[:, FIELD["requested_procs"]]
    unknown_allocated, unknown_requested = ~(allocated > 0), ~(requested > 0)
    allocated[unknown_allocated] = requested[unknown_allocated]
    requested[unknown_requested] = allocated[unknown_requested]
    return int((unknown_allocated | unknown_requested).sum())
