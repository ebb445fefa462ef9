"""Cuts a log into time windows (weeks, months or days), with the papers' rules for jobs on a border."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

import numpy as np

from batfill.base.errors import WorkloadError
from batfill.model.jobs import DAY_S, WEEK_S
from batfill.workloads.swf_log import FIELD, SwfLog, header_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Align = Literal["log", "first", "calendar"]
Boundary = Literal["submitted", "submit-finish", "start-finish"]
MOST_WINDOWS = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A time interval of a log and its rows."""

    index: int  # from 0, empty windows counted
    start_s: float  # on the log's clock
    end_s: float
    rows: NDArray[np.intp]  # in the log's order
    left_out: int  # rows submitted in it that the boundary rule leaves out

    @property
    def days(self) -> float:
        """Its length in days."""
        return (self.end_s - self.start_s) / DAY_S


def windows(
    log: SwfLog, width_s: float | Literal["month"], *, align: Align = "log", boundary: Boundary = "submitted"
) -> list[Window]:
    """The windows from the first submission to the last, empty ones included.

    Args:
        log: any log; rows without a submission time belong to no window.
        width_s: seconds, or "month" for calendar months.
        align: where the first window starts: at the log's second 0 (counted in whole windows), at the first submission,
            or on the calendar (Mondays at midnight for weeks, midnights for days), which needs the header's
            UnixStartTime. Months are always calendar months.
        boundary: the rows a window keeps: all "submitted" in it; those that also finished in it by the log
            ("submit-finish", the rule closest to the mixed-policies paper's figures); or those that started and
            finished in one window ("start-finish", as that paper words it). A start is submission plus wait.

    Raises:
        WorkloadError: no row has a submission time, the dates are unknown, or there would be too many windows.
    """
    submit_s = log["submit_s"]
    known = submit_s >= 0
    if not known.any():
        raise WorkloadError("no row has a submission time; there is nothing to split")
    edges = _edges(log, float(submit_s[known].min()), float(submit_s.max()), width_s, align)
    start_s = submit_s + np.maximum(log["wait_s"], 0)
    finish_s = start_s + np.maximum(log["runtime_s"], 0)
    place = np.searchsorted(edges, submit_s, side="right") - 1
    finished = np.searchsorted(edges, finish_s, side="right") - 1
    keep = known.copy()
    if boundary == "submit-finish":
        keep &= finished == place
    elif boundary == "start-finish":
        keep &= finished == np.searchsorted(edges, start_s, side="right") - 1
    by_window = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[by_window], np.arange(len(edges)))
    found = []
    for index in range(len(edges) - 1):
        rows = by_window[bounds[index] : bounds[index + 1]]
        rows = rows[known[rows]]
        kept = rows[keep[rows]]
        found.append(Window(index, float(edges[index]), float(edges[index + 1]), kept, len(rows) - len(kept)))
    return found


def consecutive_windows(
    found: Sequence[Window], *, skip: int = 0, count: int | None = None, min_jobs: int = 0
) -> list[Window]:
    """Consecutive windows: after the first `skip`, the first run of `count` with at least `min_jobs` jobs each.

    Without `count`, all windows after the skipped ones that hold enough jobs.

    Raises:
        WorkloadError: there are not enough.
    """
    left = list(found[skip:])
    if count is None:
        chosen = [window for window in left if len(window.rows) >= min_jobs]
        if not chosen:
            raise WorkloadError(f"none of {len(found)} windows is left; skip fewer or require fewer jobs")
        return chosen
    run: list[Window] = []
    for window in left:
        run = [*run, window] if len(window.rows) >= min_jobs else []
        if len(run) == count:
            return run
    raise WorkloadError(
        f"no {count} consecutive windows of at least {min_jobs} jobs among {len(left)} after the first {skip}"
    )


def cut(log: SwfLog, window: Window) -> SwfLog:
    """The window as a separate log, whose second 0 is the window's start."""
    rows = log.rows[window.rows]
    rows[:, FIELD["submit_s"]] -= window.start_s
    clock = log.clock
    comments = tuple(
        comment._replace(text=f"; UnixStartTime: {clock.unix_start_s + round(window.start_s)}")
        if clock and header_name(comment.text) == "unixstarttime"
        else comment
        for comment in log.comments
    )
    note = f"window {window.index}, seconds {window.start_s:.0f} to {window.end_s:.0f} of the log"
    assumed_s = None if log.assumed_s is None else log.assumed_s[window.rows]
    return replace(log, comments=comments).renewed(rows, note, assumed_s=assumed_s)


def _edges(
    log: SwfLog, first_s: float, last_s: float, width_s: float | Literal["month"], align: Align
) -> NDArray[np.float64]:
    """The windows' borders, ascending; the last one is after the last submission."""
    if width_s == "month" or align == "calendar":
        return _calendar_edges(log, first_s, last_s, width_s)
    if not 0 < width_s < np.inf:
        raise WorkloadError(f"windows of {width_s:g} s; they must be longer than 0 and end")
    origin = first_s if align == "first" else np.floor(first_s / width_s) * width_s
    n_windows = int((last_s - origin) // width_s) + 1
    if n_windows > MOST_WINDOWS:
        raise WorkloadError(f"{n_windows} windows; use longer ones, or fix the submission times")
    return np.asarray(origin + np.arange(n_windows + 1) * width_s, dtype=np.float64)


def _calendar_edges(
    log: SwfLog, first_s: float, last_s: float, width_s: float | Literal["month"]
) -> NDArray[np.float64]:
    clock = log.clock
    if clock is None:
        raise WorkloadError(
            "the header has no UnixStartTime, so no calendar is known; split by days or weeks of the log"
        )
    if last_s - first_s > MOST_WINDOWS * DAY_S:
        raise WorkloadError(f"submissions span {(last_s - first_s) / WEEK_S:.0f} weeks; fix the submission times")
    midnight = clock.date(first_s).replace(hour=0, minute=0, second=0, microsecond=0)
    if width_s == "month":
        date = midnight.replace(day=1)
    elif width_s % WEEK_S == 0:
        date = midnight - timedelta(days=midnight.weekday())
    elif width_s % DAY_S == 0:
        date = midnight
    else:
        raise WorkloadError(f"windows of {width_s:g} s do not fit a calendar; use whole days")
    edges = [clock.second(date)]
    while edges[-1] <= last_s:
        date = _next_month(date) if width_s == "month" else date + timedelta(seconds=width_s)  # wall-clock days
        edges.append(clock.second(date))
    return np.array(edges)


def _next_month(date: datetime) -> datetime:
    return date.replace(year=date.year + date.month // 12, month=date.month % 12 + 1)
