"""Drawings of replays on matplotlib's axes, for notebooks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from batfill.base.axes import axes_of, log_waits
from batfill.base.errors import BatfillError, nearest, optional
from batfill.batsim_files.replayed import Tries
from batfill.model.jobs import DAY_S, HOUR_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from batfill.model.schedule import Schedule

Plot = Literal["waits", "utilisation", "gantt"]
MOST_BARS = 20_000  # of a Gantt chart, which takes seconds


def plot_schedule(schedule: Schedule, kind: Plot, axes: Axes | None, from_s: float, until_s: float) -> Axes:
    if not isinstance(kind, str) or kind not in KINDS:
        raise BatfillError(f"kind: {kind!r} is none of {', '.join(KINDS)}{nearest(str(kind), KINDS)}")
    if not until_s > from_s:
        raise BatfillError(f"until_s: {until_s:g} is not after from_s, {from_s:g}; give a later instant")
    axes = axes_of(axes)
    KINDS[kind](schedule, axes, from_s, min(until_s, schedule.until_s))
    return axes


def draw_waits(schedule: Schedule, axes: Axes, from_s: float, until_s: float) -> None:
    submit_s = schedule.submit_s
    ran = schedule.ended & (submit_s >= from_s) & (submit_s <= until_s)
    wait_s = (schedule.start_s - submit_s)[ran]
    days, place = np.unique(submit_s[ran] // DAY_S, return_inverse=True)
    longest = np.zeros(len(days))
    np.maximum.at(longest, place, wait_s)
    mean = np.bincount(place, weights=wait_s, minlength=len(days)) / np.bincount(place, minlength=len(days))
    axes.plot(days, longest, ".-", linewidth=0.8, color="0.6", label="longest")
    axes.plot(days, mean, ".-", label="mean")
    axes.set(xlabel="day of submission", ylabel="wait")
    log_waits(axes.yaxis)
    axes.xaxis.set_major_locator(optional("matplotlib.ticker", "report").MaxNLocator(integer=True))
    axes.legend(frameon=False)


def draw_utilisation(schedule: Schedule, axes: Axes, from_s: float, until_s: float) -> None:
    """The share of the processors in use, killed tries included."""
    dates, computing = zip(*((0.0, 0), *Tries(schedule).computing()), strict=True)
    at_s, used = np.array(dates), np.array(computing) / schedule.size
    end_s = min(until_s, at_s[-1])
    kept = (at_s > from_s) & (at_s < end_s)
    before = used[np.searchsorted(at_s, from_s, "right") - 1]
    edges = np.concatenate([[from_s], at_s[kept], [max(end_s, from_s)]]) / DAY_S
    axes.stairs(np.concatenate([[before], used[kept]]), edges, fill=True, alpha=0.6)
    if schedule.calendar is not None:
        gone_s, away = schedule.calendar.away()
        edges = np.concatenate([[from_s], np.clip(gone_s, from_s, end_s), [max(end_s, from_s)]]) / DAY_S
        axes.stairs(1 - away / schedule.size, edges, baseline=1, fill=True, alpha=0.4, color="0.5", label="unavailable")
        axes.legend(frameon=False)
    axes.set(xlabel="days", ylabel="processors in use", ylim=(0, 1))
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")


def draw_gantt(schedule: Schedule, axes: Axes, from_s: float, until_s: float) -> None:
    """A bar per try and run of adjacent processors: started in order, backfilled (orange), or killed (hatched)."""
    tries = Tries(schedule)
    shown = np.flatnonzero((tries.end_s > from_s) & (tries.start_s < until_s))
    if len(shown) > MOST_BARS:
        raise BatfillError(
            f"gantt: {len(shown):,} jobs ran in this window, and {MOST_BARS:,} can be drawn; give from_s and until_s"
        )
    unit, name = (
        (DAY_S, "days") if min(until_s, tries.end_s.max(initial=1.0)) - from_s > 3 * DAY_S else (HOUR_S, "hours")
    )
    for i in shown.tolist():
        start_s, end_s = max(float(tries.start_s[i]), from_s), min(float(tries.end_s[i]), until_s)
        look: dict[str, Any] = {"facecolor": "C1" if schedule.backfilled[tries.row[i]] else "C0"}
        if tries.killed[i]:
            look = {"facecolor": "none", "edgecolor": "C3", "hatch": "///"}
        bars = [(start_s / unit, (end_s - start_s) / unit)]
        for first, last in tries.machines.of(i):
            axes.broken_barh(bars, (first, last - first + 1), linewidth=0.3, **{"edgecolor": "white", **look})
    end_s = until_s if math.isfinite(until_s) else float(tries.end_s.max(initial=from_s + 1))
    kinds = ("started in order", {"facecolor": "C0"}), ("backfilled", {"facecolor": "C1"})
    killed = (
        (("killed", {"facecolor": "none", "edgecolor": "C3", "hatch": "///"}),) if tries.killed[shown].any() else ()
    )
    patch = optional("matplotlib.patches", "report").Patch
    keys = [patch(label=label, **look) for label, look in (*kinds, *killed)]
    axes.legend(handles=keys, ncols=3, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    axes.set(xlabel=name, ylabel="processors", xlim=(from_s / unit, end_s / unit), ylim=(0, schedule.size))


KINDS: dict[str, Callable[[Schedule, Axes, float, float], None]] = {
    "waits": draw_waits,
    "utilisation": draw_utilisation,
    "gantt": draw_gantt,
}
