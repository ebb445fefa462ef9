"""Tables about one run: waiting by width and length, and the classes of bounded slowdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.model.jobs import DAY_S, HOUR_S
from batfill.model.metrics import SLOWDOWN_CLASSES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.reports.runs import ReportedRun

LENGTHS_S = (600, HOUR_S, 6 * HOUR_S, DAY_S)
LENGTH_WORDS = ("up to 10 min", "up to 1 h", "up to 6 h", "up to 1 day", "longer")
CLASS_WORDS = ("1", "(1, 10]", "(10, 100]", "above 100")


class WaitGrid(NamedTuple):
    """Mean waiting time by width (rows) and run time (columns), shapes (n_widths, n_lengths)."""

    widths: tuple[str, ...]
    lengths: tuple[str, ...]
    jobs: NDArray[np.int64]
    mean_wait_s: NDArray[np.float64]  # nan without jobs
    max_wait_s: NDArray[np.float64]  # 0 without jobs


def wait_grid(run: ReportedRun) -> WaitGrid:
    """The jobs that ran, by width in powers of four up to the machine's size and by run time."""
    final = run.final
    limits = [1]
    while limits[-1] < run.size:
        limits.append(min(limits[-1] * 4, run.size))
    row = np.searchsorted(limits, run.procs[final])
    column = np.searchsorted(LENGTHS_S, run.runtime_s[final])
    shape = len(limits), len(LENGTH_WORDS)
    cell = row * shape[1] + column
    jobs = np.bincount(cell, minlength=shape[0] * shape[1])
    wait_s = np.bincount(cell, weights=run.wait_s[final], minlength=len(jobs))
    mean_s = np.divide(wait_s, jobs, out=np.full(len(jobs), np.nan), where=jobs > 0)
    longest_s = np.zeros(len(jobs))
    np.maximum.at(longest_s, cell, run.wait_s[final])
    lows = [1, *(limit + 1 for limit in limits[:-1])]
    widths = tuple(f"{low:,}" if low == high else f"{low:,}-{high:,}" for low, high in zip(lows, limits, strict=True))
    return WaitGrid(widths, LENGTH_WORDS, jobs.reshape(shape), mean_s.reshape(shape), longest_s.reshape(shape))


class SlowdownClass(NamedTuple):
    """The jobs whose bounded slowdown is in one class."""

    bsld: str
    jobs: int
    mean_wait_s: float
    max_wait_s: float
    backfilled: int  # 0 unless `ReportedRun.backfilling_known`


def slowdown_classes(run: ReportedRun, tau_s: float) -> list[SlowdownClass]:
    """The four classes: 1, (1, 10], (10, 100] and above."""
    final = run.final
    place = np.searchsorted(SLOWDOWN_CLASSES, run.bsld(tau_s)[final])
    backfilled = run.facts.backfilled[final] == 1
    wait_s = run.wait_s[final]
    return [
        SlowdownClass(
            words,
            int((place == k).sum()),
            float(wait_s[place == k].mean()) if (place == k).any() else 0.0,
            float(wait_s[place == k].max(initial=0.0)),
            int(backfilled[place == k].sum()),
        )
        for k, words in enumerate(CLASS_WORDS)
    ]
