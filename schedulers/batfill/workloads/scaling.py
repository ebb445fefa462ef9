"""A log's offered load, and its change by stretching the times between submissions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from batfill.base.errors import WorkloadError
from batfill.workloads.swf import runs
from batfill.workloads.swf_log import FIELD, SwfLog


def offered_load(log: SwfLog, procs: int) -> float:
    """Sum of p q over m times the time between the first and the last submission; rows that never ran are ignored.

    Raises:
        WorkloadError: all jobs were submitted at one instant, so the load is undefined.
    """
    ran = runs(log)
    submit_s = log["submit_s"][ran]
    span_s = float(np.ptp(submit_s)) if len(submit_s) else 0.0
    if span_s == 0:
        raise WorkloadError("a load needs jobs submitted at two or more times")
    area = np.maximum(log["runtime_s"], 0)[ran] * log.needed_procs[ran]
    return float(area.sum()) / (procs * span_s)


def stretch(log: SwfLog, factor: float) -> SwfLog:
    """The log with every time between submissions multiplied by `factor` (below 1 raises the load), to whole seconds.

    Waits and think times belong to the old dates and become unknown.

    Raises:
        WorkloadError: the factor is not above 0.
    """
    if not 0 < factor < np.inf:
        raise WorkloadError(f"an inter-arrival factor of {factor:g}; it must be above 0")
    rows = log.rows.copy()
    submit_s = rows[:, FIELD["submit_s"]]
    known = submit_s >= 0
    first = submit_s[known].min(initial=np.inf)
    submit_s[known] = np.floor(first + (submit_s[known] - first) * factor + 0.5)
    for name in ("wait_s", "think_s"):
        rows[:, FIELD[name]] = -1
    return replace(log, rows=rows)


def at_load(log: SwfLog, procs: int, load: float) -> tuple[SwfLog, float]:
    """The log stretched to this offered load, and the factor used."""
    if not 0 < load < np.inf:
        raise WorkloadError(f"a load of {load:g}; it must be above 0")
    factor = offered_load(log, procs) / load
    return stretch(log, factor), factor
