"""A log's submission times: cut into windows, drawn anew by weeks, or stretched to another load.

Windows are weeks, months or days, with the papers' rules for jobs on a border.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import numpy as np

from batfill.base.errors import WorkloadError
from batfill.base.version import __version__
from batfill.model.jobs import DAY_S, WEEK_S
from batfill.workloads.swf import runs
from batfill.workloads.swf_log import FIELD, SwfLog, header_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Align = Literal["log", "first", "calendar"]
Boundary = Literal["submitted", "submit-finish", "start-finish"]
ResamplingMethod = Literal["users", "weeks"]
ProfileWeeks = Literal["all", "span", "active"]
MOST_WINDOWS = 100_000
MOST_WEEKS = 10_000  # two centuries; more is a mistake in the submission times


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
        return (self.end_s - self.start_s) / DAY_S


def windows(
    log: SwfLog, width_s: float | Literal["month"], *, align: Align = "log", boundary: Boundary = "submitted"
) -> list[Window]:
    """The windows from the first submission to the last, empty ones included.

    `align`: the first window starts at the log's second 0 (counted in whole windows), at the first submission, or on
    the calendar (Mondays at midnight for weeks, midnights for days), which needs the header's UnixStartTime. Months are
    always calendar months. `boundary`: a window keeps all rows "submitted" in it; those that also finished in it by the
    log ("submit-finish", the rule closest to the mixed-policies paper's figures); or those that started and finished in
    one window ("start-finish", as that paper words it). A start is submission plus wait. Rows without a submission time
    belong to no window.
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
    """After `skip` windows, the first `count` in a row with `min_jobs` each; without `count`, all with these."""
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
    part, clock = log.select(window.rows), log.clock  # a copy
    part["submit_s"][:] -= window.start_s
    comments = tuple(
        comment._replace(text=f"; UnixStartTime: {clock.unix_start_s + round(window.start_s)}")
        if clock and header_name(comment.text) == "unixstarttime"
        else comment
        for comment in log.comments
    )
    note = f"window {window.index}, seconds {window.start_s:.0f} to {window.end_s:.0f} of the log"
    return replace(part, comments=comments).renewed(note)


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
        if width_s == "month":
            date = date.replace(year=date.year + date.month // 12, month=date.month % 12 + 1)
        else:
            date += timedelta(seconds=width_s)  # wall-clock days
        edges.append(clock.second(date))
    return np.array(edges)


# Weeks drawn anew


def resample(
    log: SwfLog,
    seed: int,
    *,
    sample: int = 0,
    method: ResamplingMethod = "users",
    weeks: int | None = None,
    profile_weeks: ProfileWeeks = "all",
) -> SwfLog:
    """A new log of `weeks` weeks of the old one's jobs, by default as many; equal arguments give equal logs.

    "users" is Algorithm 1 of the CCGrid 2019 paper: for each new week and each user, the jobs that this user submitted
    in one week of the log, drawn at random. "weeks" is the bandit paper's method: the log's weeks in random order, each
    used once before any is reused. A job keeps its second of the week. Waiting times, preceding jobs and think times
    belong to the old schedule and become unknown; jobs are renumbered by submission.

    `profile_weeks`: a user's weeks to draw from: "all" weeks of the log, including those without a job, which keeps the
    mean load (the paper does not say); those from the user's first job to the last ("span"); or those with a job
    ("active").
    """
    log = log.select(log["submit_s"] >= 0)
    if not len(log):
        raise WorkloadError("no row has a submission time; there is nothing to resample")
    week = (log["submit_s"] // WEEK_S).astype(np.int64)
    week -= week.min()
    n_weeks = int(week.max()) + 1 if weeks is None else weeks
    if not 1 <= n_weeks <= MOST_WEEKS:
        raise WorkloadError(f"{n_weeks} weeks; request 1 or more, or fix the submission times")
    rng = np.random.default_rng([seed, sample])
    if method == "weeks":
        there = int(week.max()) + 1
        order = np.concatenate([rng.permutation(there) for _ in range(-(-n_weeks // there))])[:n_weeks]
        taken, new_week = _rows_of(week, order, np.arange(n_weeks))
    else:
        taken, new_week = _user_weeks(log["user"], week, n_weeks, profile_weeks, rng)
    if not len(taken):
        raise WorkloadError(f"no job falls into the {n_weeks} weeks drawn; request more weeks")
    submit_s = new_week * WEEK_S + log["submit_s"][taken] % WEEK_S
    by_submission = np.argsort(submit_s, kind="stable")
    made = log.select(taken[by_submission])
    made["submit_s"][:] = submit_s[by_submission]
    made["job"][:] = np.arange(1, len(made) + 1)
    for name in ("wait_s", "preceding_job", "think_s"):
        made[name][:] = -1
    how = f"method {method}" + (f", profile weeks {profile_weeks}" if method == "users" else "")
    note = f"resampled by batfill {__version__}, {how}, {n_weeks} weeks, seed {seed}, sample {sample}"
    return made.renewed(note)


def _user_weeks(
    user: NDArray[np.float64],
    week: NDArray[np.int64],
    n_weeks: int,
    profile_weeks: ProfileWeeks,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The drawn rows, and the new week of each; users draw in the order of their numbers."""
    there = int(week.max()) + 1
    users, of_user = np.unique(user, return_inverse=True)
    drawn = np.empty((len(users), n_weeks), np.int64)
    if profile_weeks == "all":
        drawn[:] = rng.integers(there, size=drawn.shape)
    else:
        active = np.unique(of_user * there + week)  # sorted by user, then week
        first = np.searchsorted(active, np.arange(len(users) + 1) * there)
        for u in range(len(users)):
            choice = active[first[u] : first[u + 1]] % there
            if profile_weeks == "span":
                choice = np.arange(choice[0], choice[-1] + 1)
            drawn[u] = choice[rng.integers(len(choice), size=n_weeks)]
    group = (np.arange(len(users))[:, None] * there + drawn).ravel()
    return _rows_of(of_user * there + week, group, np.tile(np.arange(n_weeks), len(users)))


def _rows_of(
    group: NDArray[np.int64], wanted: NDArray[np.int64], label: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of each wanted group in turn, with the label of the request they answer."""
    by_group = np.argsort(group, kind="stable")
    members, starts = np.unique(group[by_group], return_index=True)
    sizes = np.diff(np.append(starts, len(group)))
    place = np.minimum(np.searchsorted(members, wanted), len(members) - 1)
    size = np.where(members[place] == wanted, sizes[place], 0)
    within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    return by_group[np.repeat(starts[place], size) + within], np.repeat(label, size)


# Load


def offered_load(log: SwfLog, procs: int) -> float:
    """Sum of p q over m times the time between the first and the last submission; rows that never ran are ignored."""
    ran = runs(log)
    submit_s = log["submit_s"][ran]
    span_s = float(np.ptp(submit_s)) if len(submit_s) else 0.0
    if span_s == 0:
        raise WorkloadError("a load needs jobs submitted at two or more times")
    area = np.maximum(log["runtime_s"], 0)[ran] * log.needed_procs[ran]
    return float(area.sum()) / (procs * span_s)


def stretch(log: SwfLog, factor: float) -> SwfLog:
    """The log with the times between submissions times `factor`, in whole seconds, without waits and think times."""
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
