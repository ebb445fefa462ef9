"""Matplotlib's axes for drawings in notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.base.errors import optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
