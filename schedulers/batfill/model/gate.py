"""A gate: when jobs may be backfilled, as where the grid's power is clean or cheap.

Its file has the open periods, or an intensity over time, of which a bound makes them.

>>> gate = Gate(((0.0, 3600.0), (7200.0, inf)))
>>> gate.is_open(3600.0), gate.is_open(7200.0)
(False, True)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError
from batfill.base.files import csv_text
from batfill.model.dates import Change, as_field, date_of, read_rows, require_few, require_one_form, second
from batfill.model.values import finite, is_finite, number_or_text

if TYPE_CHECKING:
    from batfill.model.jobs import Clock

GATE = "the gate"  # what its dates are of, in place of a pool's name
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
    digest: str = ""  # the file's sha256; of the file with these periods if there is none

    def __post_init__(self) -> None:
        require_few(self.name, len(self.periods), "periods")
        require_one_form(self.name, [date for period in self.periods for date in period])
        for number, (begin, end) in enumerate(self.periods, 1):
            if not begin < end:
                raise BatfillError(f"{self.name}: period {number} begins at {begin}, and does not end later")
        for number, ((_, end), (begin, _)) in enumerate(pairwise(self.periods), 2):
            if begin < end:
                raise BatfillError(
                    f"{self.name}: period {number} begins before the one in front of it is over; give periods in "
                    "order, each behind the one before"
                )
        if not self.digest:
            text = csv_text([PERIODS, *(map(as_field, period) for period in self.periods)])
            object.__setattr__(self, "digest", hashlib.sha256(text.encode()).hexdigest())

    @classmethod
    def of(cls, option: str, value: Any) -> Gate:
        """The gate, that of a list of open periods, or that in a file, whose name a bound may follow.

        Raises:
            BatfillError: there is none.
        """
        if isinstance(value, Gate):
            return value
        if isinstance(value, (list, tuple)) or type(value).__module__ == "numpy":
            try:
                rows = [{"begin": begin, "end": None if end == inf else end} for begin, end in value]
            except (TypeError, ValueError):
                raise BatfillError(f"option {option}: {value!r:.60} are not periods; {REMEDY}") from None
            return cls.of_rows(rows)
        if not isinstance(value, (str, Path)) or not str(value):
            raise BatfillError(f"option {option}: {value!r:.60} is no file; {REMEDY}")
        bounded = BOUNDED.fullmatch(str(value))
        name, bound = bounded.groups() if bounded else (str(value), None)
        return cls.read(Path(name), None if bound is None else number_or_text(bound))

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, Any]], name: str = "gate", digest: str = "") -> Gate:
        """The gate whose periods are in rows with a `begin` and an `end`, which is empty for never.

        Raises:
            BatfillError: a row has no begin.
        """
        periods = []
        for number, row in enumerate(rows, 1):
            where = f"{name}: line {row['line']}" if "line" in row else f"{name}: period {number}"
            begin, end = (date_of(where, column, row.get(column)) for column in PERIODS)
            if begin is None:
                raise BatfillError(f"{where}: has no begin; {REMEDY}")
            periods.append((begin, inf if end is None else end))
        return cls(tuple(periods), name, digest)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The periods as `of_rows` takes them, for JSON, if they are in seconds."""
        return [{"begin": begin, "end": finite(end)} for begin, end in self.periods]

    @classmethod
    def read(cls, path: Path, most: Any) -> Gate:
        """The gate in a file; `most` is the highest intensity of an open period, None if the file has periods.

        Raises:
            BatfillError: the file cannot be read, or has neither.
        """
        columns = PERIODS if most is None else INTENSITIES
        rows, digest = read_rows(path, columns, columns, REMEDY)
        if most is None:
            return cls.of_rows(rows, str(path), digest)
        begins = [date_of(f"{path}: line {row['line']}", "begin", row["begin"]) for row in rows]
        found = [number_or_text(row["intensity"]) for row in rows]
        for row, begin, intensity in zip(rows, begins, found, strict=True):
            if begin is None or not is_finite(intensity):
                raise BatfillError(f"{path}: line {row['line']}: is not begin and intensity; {REMEDY}")
        require_one_form(str(path), begins)
        if any(begin >= later for begin, later in pairwise(begins)):
            raise BatfillError(f"{path}: dates are not in order, each once; sort the lines")
        periods = zip(begins, [*begins[1:], inf], found, strict=False)
        opened = [(begin, end) for begin, end, intensity in periods if intensity <= most]
        return cls(joined(opened), f"{path}:{most:.15g}", digest)

    def on(self, clock: Clock | None) -> Gate:
        """The same in seconds of a log with this clock.

        Raises:
            BatfillError: there are dates and no clock.
        """
        dated = ([second(self.name, date, clock) for date in period] for period in self.periods)
        return replace(self, periods=tuple((begin, end) for begin, end in dated))

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
