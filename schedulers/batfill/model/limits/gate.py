"""A gate: when jobs may be backfilled, as where the grid's power is clean or cheap.

Its file has the open periods, or an intensity over time, of which a bound makes them.

>>> gate = Gate.given("backfill-while", [(0, 3600), (7200, inf)])
>>> gate.periods
((0, 3600), (7200, inf))
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Any

from batfill.base.errors import BatfillError
from batfill.model.limits.calendar import ANNOUNCED, Calendar
from batfill.model.limits.dates import Change, date_of, read_rows, require_one_form
from batfill.model.values import GATE, is_finite, number_or_text

PERIODS, INTENSITIES = ("begin", "end"), ("begin", "intensity")
BOUNDED = re.compile(r"(.+):(-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
REMEDY = (
    "give a CSV file with the columns begin,end, the periods in which jobs are backfilled; or one with "
    "begin,intensity and the highest intensity behind its name, as grid.csv:300"
)


class Gate(Calendar):
    """The periods in which jobs are backfilled, as windows of a pool that nothing takes anything of."""

    __slots__ = ()
    remedy = REMEDY

    @classmethod
    def given(cls, option: str, value: Any) -> Gate:
        if isinstance(value, Gate):
            return value
        if isinstance(value, (list, tuple)) or type(value).__module__ == "numpy":
            try:
                rows = [{"begin": begin, "end": None if end == inf else end} for begin, end in value]
            except (TypeError, ValueError):
                raise BatfillError(f"option {option}: {value!r:.60} are not periods; {REMEDY}") from None
            return cls.of_periods(rows, "gate")
        if not isinstance(value, (str, Path)) or not str(value):
            raise BatfillError(f"option {option}: {value!r:.60} is no file; {REMEDY}")
        if bounded := BOUNDED.fullmatch(str(value)):
            return cls.below(Path(bounded[1]), number_or_text(bounded[2]))
        rows, digest = read_rows(Path(value), PERIODS, PERIODS, REMEDY)
        return cls.of_periods(rows, str(value), digest)

    @classmethod
    def of_periods(cls, rows: Iterable[Mapping[str, Any]], name: str, digest: str = "") -> Gate:
        windows = [{**row, "kind": ANNOUNCED, "processors": 1, "pool": GATE} for row in rows]
        made = cls.of(windows, name, digest)
        for one, other in pairwise(sorted(made.windows, key=attrgetter("begin"))):
            if other.begin < one.end:
                raise made.wrong(other, "begins before another period is over; join them")
        return made

    @classmethod
    def below(cls, path: Path, most: float) -> Gate:
        rows, digest = read_rows(path, INTENSITIES, INTENSITIES, REMEDY)
        begins, values = [], [number_or_text(row["intensity"]) for row in rows]
        for row, intensity in zip(rows, values, strict=True):
            begins.append(date_of(f"{path}: line {row['line']}", "begin", row["begin"]))
            if begins[-1] is None or not is_finite(intensity):
                raise BatfillError(f"{path}: line {row['line']}: is not begin and intensity; {REMEDY}")
        require_one_form(str(path), begins)
        if any(begin >= later for begin, later in pairwise(begins)):
            raise BatfillError(f"{path}: dates are not in order, each once; sort the lines")
        periods: list[dict[str, Any]] = []
        for begin, end, intensity in zip(begins, [*begins[1:], None], values, strict=True):
            if intensity <= most and periods and periods[-1]["end"] == begin:
                periods[-1]["end"] = end
            elif intensity <= most:
                periods.append({"begin": begin, "end": end})
        return cls.of_periods(periods, f"{path}:{most:.15g}", digest)

    # In seconds

    @property
    def periods(self) -> tuple[tuple[Any, Any], ...]:
        return tuple((window.begin, window.end) for window in self.windows)

    @property
    def changes(self) -> list[Change]:
        return [date._replace(amount=-date.amount) for date in super().changes]
