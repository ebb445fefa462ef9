"""A gate: when jobs may be backfilled, as where the grid's power is clean or cheap.

Its file has the open periods, or an intensity over time, of which a bound makes them.

>>> gate = Gate(((0.0, 3600.0), (7200.0, inf)))
>>> gate.is_open(3600.0), gate.is_open(7200.0)
(False, True)
"""

from __future__ import annotations

import csv
import hashlib
import re
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError
from batfill.base.files import any_length, readable
from batfill.model.calendar import MOST_WINDOWS, Change, date_of
from batfill.model.values import is_finite, number_or_text

if TYPE_CHECKING:
    from batfill.model.jobs import Clock

GATE = "backfill-while"  # the option, and what its dates are of, in place of a pool's name
PERIODS, INTENSITIES = ("begin", "end"), ("begin", "intensity")
BOUNDED = re.compile(r"(.+):(-?[0-9.]+(?:[eE][+-]?[0-9]+)?)")
REMEDY = (
    "give a CSV file with the columns begin,end, the periods in which jobs are backfilled; or one with "
    "begin,intensity and the highest intensity behind its name, as grid.csv:300"
)


@dataclass(frozen=True, slots=True)
class Gate:
    """The periods in which jobs are backfilled.

    Raises:
        BatfillError: they are not in order.
    """

    periods: tuple[tuple[Any, Any], ...]  # begin and end, in seconds of the log or as dates; the last end may be inf
    name: str = "gate"  # the file, and the bound
    digest: str = ""  # the file's sha256

    def __post_init__(self) -> None:
        if len(self.periods) > MOST_WINDOWS:
            raise BatfillError(
                f"option {GATE}: {self.name}: {len(self.periods):,} periods are too many; give at most "
                f"{MOST_WINDOWS:,}, or join periods"
            )
        dates = [date for period in self.periods for date in period if date != inf]
        if len({isinstance(date, datetime) for date in dates}) > 1:
            raise BatfillError(f"option {GATE}: {self.name}: seconds and dates are mixed; give all in one form")
        if naive := [date for date in dates if isinstance(date, datetime) and date.tzinfo is None]:
            text = naive[0].isoformat()
            raise BatfillError(f"option {GATE}: {self.name}: {text} has no time zone; add one, as {text}+01:00")
        for number, (begin, end) in enumerate(self.periods, 1):
            if end != inf and not begin < end:
                raise BatfillError(f"option {GATE}: {self.name}: period {number} ends at {end}, before it begins")
        for number, ((_, end), (begin, _)) in enumerate(pairwise(self.periods), 2):
            if end == inf or begin < end:
                raise BatfillError(
                    f"option {GATE}: {self.name}: period {number} begins before the one in front of it is over; give "
                    "periods in order, each behind the one before"
                )

    @classmethod
    def of(cls, option: str, value: Any) -> Gate:
        """The gate, that of a list of open periods, or that in a file, whose name a bound may follow.

        Raises:
            BatfillError: there is none.
        """
        if isinstance(value, Gate):
            return value
        if isinstance(value, (list, tuple)):
            try:
                return cls(tuple((begin, end) for begin, end in value))
            except (TypeError, ValueError):
                raise BatfillError(f"option {option}: {value!r:.60} are not periods; {REMEDY}") from None
        if not isinstance(value, (str, Path)) or not str(value):
            raise BatfillError(f"option {option}: {value!r:.60} is no file; {REMEDY}")
        bounded = BOUNDED.fullmatch(str(value))
        name, bound = bounded.groups() if bounded else (str(value), None)
        return cls.read(option, Path(name), None if bound is None else number_or_text(bound))

    @classmethod
    def read(cls, option: str, path: Path, most: Any) -> Gate:
        """The gate in a file; `most` is the highest intensity of an open period, None if the file has periods.

        Raises:
            BatfillError: the file cannot be read, or has neither.
        """
        with readable(path) as stream:
            content = stream.read()
        with any_length():
            try:
                lines = list(csv.reader(content.decode("utf-8-sig").splitlines()))
            except (UnicodeDecodeError, csv.Error):
                raise BatfillError(f"option {option}: {path}: is not text; {REMEDY}") from None
        columns, bounded = tuple(name.strip() for name in lines[0]) if lines else (), most is not None
        if columns != (INTENSITIES if bounded else PERIODS):
            asked = ",".join(INTENSITIES if bounded else PERIODS)
            raise BatfillError(f"option {option}: {path}: line 1: the columns are not {asked}; {REMEDY}")
        rows = []
        for number, line in enumerate(lines[1:], 2):
            where = f"option {option}: {path}: line {number}"
            if not any(line):
                continue
            begin = date_of(where, "begin", line[0])
            if len(line) != 2 or begin is None or (bounded and not is_finite(number_or_text(line[1]))):
                raise BatfillError(f"{where}: is not {' and '.join(columns)}; {REMEDY}")
            end = number_or_text(line[1]) if bounded else date_of(where, "end", line[1])
            rows.append((begin, inf if end is None else end))
        digest, name = hashlib.sha256(content).hexdigest(), f"{path}:{most:.15g}" if bounded else str(path)
        if not bounded:
            return cls(tuple(rows), name, digest)
        try:
            if any(begin >= later for (begin, _), (later, _) in pairwise(rows)):
                raise BatfillError(f"option {option}: {path}: dates are not in order, each once; sort the lines")
        except TypeError:
            raise BatfillError(f"option {option}: {path}: seconds and dates are mixed; give all in one form") from None
        ends = [*(begin for begin, _ in rows[1:]), inf]
        return cls(
            joined([(begin, end) for (begin, n), end in zip(rows, ends, strict=True) if n <= most]), name, digest
        )

    def on(self, clock: Clock | None) -> Gate:
        """The same in seconds of a log with this clock.

        Raises:
            BatfillError: there are dates and no clock.
        """
        if clock is None and (dates := [d for period in self.periods for d in period if isinstance(d, datetime)]):
            raise BatfillError(
                f"option {GATE}: {self.name}: {dates[0].isoformat()} is a date, and the workload has no clock; give "
                "seconds"
            )
        periods = [[clock.second(d) if clock and isinstance(d, datetime) else d for d in one] for one in self.periods]
        return replace(self, periods=tuple((begin, end) for begin, end in periods))

    # In seconds

    @property
    def changes(self) -> list[Change]:
        """The dates at which a period begins or ends."""
        dates = [(date, sign) for begin, end in self.periods for date, sign in ((begin, 1), (end, -1)) if date < inf]
        return [Change(float(date), GATE, sign, -inf, 0) for date, sign in dates]

    def is_open(self, date_s: float) -> bool:
        """Whether jobs are backfilled at a date."""
        return any(begin <= date_s < end for begin, end in self.periods)


def joined(periods: list[tuple[Any, Any]]) -> tuple[tuple[Any, Any], ...]:
    """The same, where one that begins at the end of another is part of it."""
    whole: list[tuple[Any, Any]] = []
    for begin, end in periods:
        begin = whole.pop()[0] if whole and whole[-1][1] == begin else begin
        whole.append((begin, end))
    return tuple(whole)
