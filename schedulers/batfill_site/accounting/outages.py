"""Proposes when a machine was down, from a log's own starts and ends: nothing ran while enough waited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import WorkloadError
from batfill.model.limits.calendar import ANNOUNCED, Calendar, Window
from batfill.workloads.swf import job_rows
from batfill.workloads.swf_log import SwfLog

GRID_S, FEWEST = 600.0, 3  # the time between two looks at the log, and the looks in a row that make an outage
MOST_BUSY, LEAST_WAITING = 0.1, 0.25  # shares of the machine: less is busy, as much or more is waited for


def outages(source: Path | str, log: SwfLog, procs: int) -> Calendar:
    """The calendar of a log's outages, in seconds since its first job, as announced windows of the whole machine.

    The log is looked at every 10 min from its first submission on. An outage is 30 min or more of looks at which jobs
    run on less than 10 % of the machine, while those that wait request at least 25 % of it. A job of one of several
    partitions counts as waiting only while its partition is as idle, since it may wait for a small one that is full.
    """
    path = Path(source)
    rows = job_rows(path, log).row
    wait_s = log["wait_s"][rows]
    if not (wait_s >= 0).any():
        raise WorkloadError(
            f"{path}: none of {len(wait_s):,} jobs that ran has a wait, so its outages cannot be known; take the log "
            "as its site wrote it"
        )
    submit_s = log["submit_s"][rows] - log["submit_s"][rows[0]]
    start_s = submit_s + np.maximum(wait_s, 0)
    end_s = start_s + np.maximum(log["runtime_s"][rows], 0)
    q = log.needed_procs[rows]
    spans = idle_spans(submit_s, start_s, end_s, q, log["partition"][rows], procs)
    return Calendar(tuple(Window(ANNOUNCED, begin_s, beyond_s, procs) for begin_s, beyond_s in spans), path.name)


def idle_spans(
    submit_s: NDArray[np.float64],
    start_s: NDArray[np.float64],
    end_s: NDArray[np.float64],
    q: NDArray[Any],
    partition: NDArray[Any],
    procs: int,
) -> list[tuple[float, float]]:
    """The outages' begins and ends, of jobs with these columns, (n,) each, whose dates count from the first one's."""
    at_s = np.arange(0, end_s.max() + GRID_S, GRID_S)
    parts, waiting = np.unique(partition), np.zeros(len(at_s))
    for part in parts:
        its = partition == part
        busy = held(at_s, start_s[its], end_s[its], q[its])
        size = procs if len(parts) == 1 else busy.max()
        waiting += np.where(busy < MOST_BUSY * size, held(at_s, submit_s[its], start_s[its], q[its]), 0)
    down = held(at_s, start_s, end_s, q) < MOST_BUSY * procs
    down &= waiting >= LEAST_WAITING * procs
    edges = np.diff(down.astype(np.int8), prepend=0, append=0)
    first, beyond = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    long = beyond - first >= FEWEST
    return list(zip((first[long] * GRID_S).tolist(), (beyond[long] * GRID_S).tolist(), strict=True))


def held(at_s: NDArray[Any], from_s: NDArray[Any], until_s: NDArray[Any], procs: NDArray[Any]) -> NDArray[Any]:
    """The processors of jobs, or what they take, from a date on until another, at each of these dates."""

    def total(dates_s: NDArray[Any]) -> NDArray[Any]:
        order = np.argsort(dates_s, kind="stable")
        sums: NDArray[Any] = np.append(0, np.cumsum(procs[order]))
        return sums[np.searchsorted(dates_s[order], at_s, side="right")]

    at_once: NDArray[Any] = total(from_s) - total(until_s)
    return at_once


def most_held(from_s: NDArray[Any], until_s: NDArray[Any], procs: NDArray[Any]) -> int:
    """The most processors of jobs, or of what they take, at once; what ends at a date is free at it."""
    return int(held(from_s, from_s, until_s, procs).max(initial=0))
