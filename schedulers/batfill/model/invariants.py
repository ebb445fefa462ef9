"""What holds of every run, whatever was scheduled: checked after each replay and simulation.

A violation is a bug in batfill and no result: `require_sound` raises an `InternalError`, and the command line asks for
a report. `engine.violations` holds the check itself, which the engine compiles.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.engine.violations import WRONG, Marks, Ran, first_violation, marks_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

TOLERANCE = 1e-9  # of figures that are sums of many numbers


class InternalError(Exception):
    """A run breaks an invariant: a bug in batfill."""


class Ledger:
    """The starts and ends of a simulation's jobs, as they happen, for the check at its end."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.names: list[str] = []  # by row, in order of start
        self.submit_s, self.start_s, self.end_s = (array("d") for _ in range(3))
        self.procs, self.ended, self.ends = array("q"), array("Q"), array("Q")
        self.rows: dict[str, int] = {}  # of the running jobs

    def start(self, name: str, submit_s: float, procs: int, now_s: float) -> None:
        self.rows[name] = len(self.names)
        self.names.append(name)
        self.submit_s.append(submit_s)
        self.start_s.append(now_s)
        self.end_s.append(math.nan)
        self.procs.append(procs)
        self.ended.append(len(self.ends))

    def end(self, name: str, now_s: float) -> None:
        if (row := self.rows.pop(name, None)) is not None:
            self.end_s[row] = now_s
            self.ends.append(row)

    def check(self, *, over: bool) -> None:
        """Raise InternalError if an invariant is violated; `over`: every job that has started must have ended."""
        n_jobs = len(self.names)
        submit_s, procs, start_s, end_s, ended, ends = (  # lists, whose items plain Python reads faster than numpy's
            column.tolist() for column in (self.submit_s, self.procs, self.start_s, self.end_s, self.ended, self.ends)
        )
        ran = Ran(submit_s, procs, [], start_s, end_s, range(n_jobs), ended, ends, [-math.inf], [self.size], *[[]] * 4)
        marks = Marks(*(column.tolist() for column in marks_for(n_jobs, 0, len(ends))))
        found = first_violation(self.size, math.inf if over else -math.inf, ran, marks)
        require_sound(found, self.names.__getitem__)


def require_sound(found: tuple[int, int, float], name: Callable[[int], object]) -> None:
    """Raise InternalError for what `first_violation` found, if anything; `name` gives a row's job."""
    wrong, row, at_s = found
    if wrong:
        raise InternalError(f"job {name(int(row))} {WRONG[wrong]}, at {float(at_s):.15g} s")


def require_once(jobs: int, expected: int) -> None:
    if jobs != expected:
        raise InternalError(f"the figures count {jobs} jobs, and {expected} were submitted")


def require_at_most(
    what: str, value: float, most: float, shares: Callable[[], NDArray[np.float64]], ids: NDArray[Any]
) -> None:
    """Raise InternalError if a figure exceeds `most`; `shares` are the jobs' in it, to name the largest."""
    if not value <= most + TOLERANCE * max(most, 1.0):
        largest = ids[int(np.argmax(shares()))]
        raise InternalError(f"{what} is {value!r}, above {most!r}; the largest share in it is that of job {largest}")
