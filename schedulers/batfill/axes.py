"""Matplotlib's axes for drawings in notebooks, and the drawing of a workload on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.errors import optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from batfill.jobs import JobTable


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


def plot_submissions(jobs: JobTable, procs: int | None, day_s: float, axes: Axes | None = None) -> Axes:
    """Draw the work submitted each day as the processors that it would keep busy, beside the machine's."""
    axes = axes_of(axes)
    ran_s = np.minimum(jobs.runtime_s, jobs.walltime_s)
    days = np.zeros(0) if not len(jobs) else np.arange(jobs.submit_s[-1] // day_s + 1)
    work = np.bincount((jobs.submit_s // day_s).astype(np.int64), weights=ran_s * jobs.procs, minlength=len(days))
    axes.stairs(work / day_s, np.append(days, len(days)), fill=True, alpha=0.6, label="submitted")
    if procs is not None:
        axes.axhline(procs, color="0.3", linewidth=1, label="the machine")
    axes.set(xlabel="days", ylabel="processors")
    axes.legend(frameon=False)
    return axes
