"""Matplotlib's axes for drawings in notebooks, and waits on axes in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.base.errors import BatfillError, optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


def axes_of(axes: Axes | None) -> Axes:
    """These axes, or those of a new figure."""
    if axes is not None:
        if not hasattr(axes, "broken_barh"):
            raise BatfillError(f"axes: {axes!r:.60} are none of matplotlib's; leave them out, or give a figure's")
        return axes
    figure = optional("matplotlib.pyplot", "report").figure(figsize=(8, 3.2), layout="constrained")
    made: Axes = figure.add_subplot()
    return made


WAITS_S = {0: "0", 60: "1 min", 600: "10 min", 3600: "1 h", 10_800: "3 h", 43_200: "12 h", 86_400: "1 d"}
WAITS_S |= {259_200: "3 d", 864_000: "10 d", 2_592_000: "1 month", 7_776_000: "3 months", 31_536_000: "1 year"}
CLOSE = ("3 h", "1 d", "10 d", "3 months")  # left out if much else is shown


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
