"""Matplotlib's axes for drawings in notebooks, and durations on axes in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.base.errors import optional
from batfill.base.words import duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


def axes_of(axes: Axes | None) -> Axes:
    """These axes, or those of a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    if axes is not None:
        return axes
    figure = optional("matplotlib.pyplot", "report").figure(figsize=(8, 3.2), layout="constrained")
    made: Axes = figure.add_subplot()
    return made


WAITS_S = {0: "0", 60: "1 min", 600: "10 min", 3600: "1 h", 10_800: "3 h", 43_200: "12 h", 86_400: "1 d"}
WAITS_S |= {259_200: "3 d", 864_000: "10 d", 2_592_000: "1 month", 7_776_000: "3 months", 31_536_000: "1 year"}
CLOSE = ("3 h", "1 d", "10 d", "3 months")  # left out if much else is shown
STEPS_S = (
    *(1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 432_000, 864_000),
    *(2_592_000, 8_640_000),
)


def log_waits(axis: Axis) -> None:
    """Make this axis of seconds logarithmic from a minute on, between two of its ticks, which are in words."""
    low_s, high_s = axis.get_data_interval()
    which = "x" if axis is axis.axes.xaxis else "y"
    getattr(axis.axes, f"set_{which}scale")("symlog", linthresh=60)
    low_s = max(s for s in WAITS_S if s <= max(low_s, 0))
    high_s = min((s for s in WAITS_S if s >= high_s and s > low_s), default=high_s)
    inside = {s: words for s, words in WAITS_S.items() if low_s <= s <= high_s}
    shown = {s: words for s, words in inside.items() if len(inside) <= 6 or words not in CLOSE}
    axis.set_ticks(list(shown), list(shown.values()))
    axis.set_ticks([], minor=True)
    axis.set_view_interval(low_s, high_s, ignore=True)


def in_words(axis: Axis) -> None:
    """Give this linear axis of seconds round ticks in words."""
    low_s, high_s = axis.get_view_interval()
    step_s = next((step for step in STEPS_S if (high_s - low_s) / step <= 6), STEPS_S[-1])
    first = int(-(-low_s // step_s))
    ticks = [step_s * k for k in range(first, int(high_s // step_s) + 1)]
    axis.set_ticks(ticks, [duration(s) if s else "0" for s in ticks])
