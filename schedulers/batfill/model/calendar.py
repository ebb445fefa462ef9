"""A calendar: windows in which processors are unavailable. Times are seconds of the log, or dates of its clock.

>>> maintenance = Calendar.of([{"kind": "announced", "begin": 3600, "end": 7200, "processors": 64}])
>>> maintenance.away_proc_s(0, 5400)
115200.0
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.files import any_length, csv_text, readable
from batfill.model.values import is_finite, number_or_text, of_numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.model.jobs import Clock, JobTable

ANNOUNCED, FAILURE = KINDS = ("announced", "failure")
COLUMNS = ("kind", "begin", "end", "processors", "announced", "machines")
NEEDED = COLUMNS[:4]
REMEDY = (
    f"a calendar is a CSV file with the columns {','.join(NEEDED)}, and {COLUMNS[4]} if it is not always known; "
    "machines may replace processors for a kept plan"
)
MOST_WINDOWS = 20_000
PROCS = re.compile(r"-?[0-9]{1,15}")
SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")  # of machines


class Window(NamedTuple):
    """Processors are unavailable from `begin` on, and available again at `end`. A date is aware of its zone."""

    kind: str  # one of KINDS
    begin: Any
    end: Any  # inf for never
    processors: int
    announced: Any = None  # when an announced window becomes known; None for always
    line: int = 0  # of the file
    machines: str = ""  # which, as `0-3 8`; empty: any

    @property
    def changes(self) -> list[tuple[float, int, float, int]]:
        """Its dates as the engine's CHANGE: when, the processors that this frees, known since, whether jobs fail."""
        fails = self.kind == FAILURE
        announced_s = self.begin if fails else -math.inf if self.announced is None else self.announced
        dates = [(self.begin, -self.processors, announced_s, int(fails)), (self.end, self.processors, announced_s, 0)]
        if -math.inf < announced_s < self.begin:
            dates.append((announced_s, 0, announced_s, 0))
        return [date for date in dates if date[0] < math.inf]


@dataclass(frozen=True, slots=True)
class Calendar:
    """Windows in which processors are unavailable, as `calendar` of a replay.

    Raises:
        BatfillError: a window is impossible.
    """

    windows: tuple[Window, ...]
    name: str = "calendar"
    digest: str = ""  # the sha256 of the file; of the file with these windows if there is none

    def __post_init__(self) -> None:
        if len(self.windows) > MOST_WINDOWS:
            raise BatfillError(
                f"{self.name}: {len(self.windows):,} windows are too many, since each decision plans around all "
                f"that are to come; give at most {MOST_WINDOWS:,}, or join windows"
            )
        dated = {isinstance(date, datetime) for window in self.windows for date in self.dates_of(window)}
        for window in self.windows:
            self.check(window, mixed=len(dated) > 1)
        if not self.digest:
            object.__setattr__(self, "digest", hashlib.sha256(self.as_csv().encode()).hexdigest())

    @staticmethod
    def dates_of(window: Window) -> list[Any]:
        """The dates that are given."""
        return [date for date in (window.begin, window.end, window.announced) if date not in (None, math.inf)]

    def check(self, window: Window, *, mixed: bool) -> None:
        """Refuse a window that cannot be; `mixed`: whether the calendar has dates as well as seconds."""
        dates = self.dates_of(window)
        if naive := [date for date in dates if isinstance(date, datetime) and date.tzinfo is None]:
            raise self.wrong(
                window, f"{naive[0].isoformat()} has no time zone; add one, as {naive[0].isoformat()}+01:00"
            )
        if mixed:
            raise self.wrong(window, "seconds and dates are mixed in the calendar; give all in one form")
        if window.kind not in KINDS:
            raise self.wrong(window, f"kind {window.kind!r:.60} is none of {', '.join(KINDS)}")
        if window.processors < 1:
            raise self.wrong(window, f"{window.processors} processors are none; give at least 1, or drop the line")
        if window.end != math.inf and not window.begin < window.end:
            raise self.wrong(
                window, f"ends at {window.end}, and begins at {window.begin}; the end comes after the begin"
            )
        if window.announced is None:
            return
        if window.kind == FAILURE:
            raise self.wrong(window, "a failure is known when it happens; leave announced empty")
        if not window.announced <= window.begin:
            raise self.wrong(window, f"announced at {window.announced}, after its begin at {window.begin}")

    def wrong(self, window: Window, what: str) -> BatfillError:
        """The error that this is wrong with a window."""
        where = f"line {window.line}" if window.line else f"window {self.windows.index(window) + 1}"
        return BatfillError(f"{self.name}: {where}: {what}")

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], name: str = "calendar", digest: str = "") -> Calendar:
        """The calendar of rows that have a file's columns; values are text, numbers or datetimes.

        Raises:
            BatfillError: a row is no window.
        """
        windows = []
        if not isinstance(rows, Iterable):
            raise BatfillError(f"{name}: {rows!r:.60} are not rows; give a dict for each window")
        for number, row in enumerate(rows):
            line = number + 2 if digest else 0
            where = f"{name}: {f'line {line}' if digest else f'window {number + 1}'}"
            if not isinstance(row, Mapping):
                raise BatfillError(f"{where}: {row!r:.60} is not a row; give a dict with {', '.join(NEEDED)}")
            machines = str(row.get("machines") or "").strip()
            if machines and row.get("processors") not in (None, ""):
                raise BatfillError(f"{where}: has machines and processors; give one of them")
            if machines:
                row = {**row, "processors": sum(last - first + 1 for first, last in spans_of(where, machines))}
            if lacking := [column for column in NEEDED if row.get(column) in (None, "") and column != "end"]:
                raise BatfillError(f"{where}: has no {lacking[0]}; {REMEDY}")
            begin, end, announced = (
                date_of(where, column, row.get(column)) for column in ("begin", "end", "announced")
            )
            procs = str(row["processors"]).strip()
            if not PROCS.fullmatch(procs):
                raise BatfillError(f"{where}: {procs!r} is not a number of processors; give a whole number >= 1")
            kind = str(row["kind"]).strip()
            windows.append(Window(kind, begin, math.inf if end is None else end, int(procs), announced, line, machines))
        return cls(tuple(windows), name, digest)

    @classmethod
    def read(cls, path: Path) -> Calendar:
        """The calendar in a file.

        Raises:
            BatfillError: it cannot be read, or a line is no window.
        """
        with readable(path) as stream:
            content = stream.read()
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise BatfillError(f"{path}: is not text; {REMEDY}") from None
        reader = csv.DictReader(text.splitlines(), restkey="more")
        with any_length():
            named = [name.strip() for name in reader.fieldnames or ()]
        if other := [name for name in named if name not in COLUMNS]:
            raise BatfillError(f"{path}: line 1: column {other[0]!r:.60} is unknown; {REMEDY}")
        if lacking := [
            name for name in NEEDED if name not in named and not (name == "processors" and "machines" in named)
        ]:
            raise BatfillError(f"{path}: line 1: there is no column {lacking[0]}; {REMEDY}")
        reader.fieldnames = named
        with any_length():
            rows = list(reader)
        if long := [number for number, row in enumerate(rows, 2) if "more" in row]:
            raise BatfillError(f"{path}: line {long[0]}: has more values than line 1 has names; {REMEDY}")
        return cls.of(rows, str(path), hashlib.sha256(content).hexdigest())

    def as_csv(self) -> str:
        """The windows as a file."""
        rows = [
            [window.kind, *map(as_field, (window.begin, window.end)), window.processors, as_field(window.announced)]
            for window in self.windows
        ]
        return csv_text([COLUMNS[:5], *rows])

    def require_form(self, clock: Clock | None, *, by_ids: bool) -> None:
        """Refuse windows that fit no machine: dates without a clock, and machines that are not named, or must not be.

        Raises:
            BatfillError: there is one.
        """
        for window in self.windows:
            if clock is None and (dates := [date for date in self.dates_of(window) if isinstance(date, datetime)]):
                raise self.wrong(
                    window, f"{dates[0].isoformat()} is a date, and the workload has no clock; give seconds"
                )
            if window.machines and not by_ids:
                raise self.wrong(window, "names machines, and only processors are counted here; give their number")
            if by_ids and not window.machines:
                raise self.wrong(window, "has a number of processors, and a kept plan is of machines; name them")
            if by_ids and window.announced is not None:
                raise self.wrong(window, "is announced at a date, and a kept plan knows all windows; leave that empty")

    def on(self, size: int, clock: Clock | None, ids: Iterable[int] | None = None) -> Calendar:
        """The same in seconds of a log with this clock, on a machine of `size` processors, or on those with these ids.

        Raises:
            BatfillError: there are dates and no clock, or more processors are unavailable at a time than there are.
        """

        def second(date: Any) -> Any:
            return clock.second(date) if clock is not None and isinstance(date, datetime) else date

        self.require_form(clock, by_ids=ids is not None)
        known = set(ids or ())
        for window in self.windows if ids is not None else ():
            named = {id_ for first, last in spans_of(self.name, window.machines) for id_ in range(first, last + 1)}
            if unknown := sorted(named - known):
                raise self.wrong(window, f"machine {unknown[0]} is unknown; give ids of machines that compute")
        windows = tuple(
            window._replace(**{name: second(getattr(window, name)) for name in ("begin", "end", "announced")})
            for window in self.windows
        )
        there = replace(self, windows=windows)
        if wide := [window for window in windows if window.processors > size]:
            raise there.wrong(wide[0], f"takes {wide[0].processors} processors of a machine of {size}; give fewer")
        at_s, away = there.away()
        if (away > size).any():
            place = int(np.argmax(away > size))
            together = [window for window in windows if window.begin <= at_s[place - 1] < window.end]
            lines = ", ".join(str(window.line or windows.index(window) + 1) for window in together)
            raise there.wrong(
                together[-1],
                f"overlaps others (lines {lines}): together they take {sum(w.processors for w in together)} processors "
                f"of a machine of {size}; join them, or make them narrower",
            )
        return there

    # In seconds

    @property
    def changes(self) -> list[tuple[float, int, float, int]]:
        """The dates of all windows as the engine's CHANGE, in order: ends first, then begins, failures last."""
        dates = [date for window in self.windows for date in window.changes]
        return sorted(dates, key=lambda date: (date[0], date[1] < 0, date[3]))

    def most_kills(self, n_jobs: int) -> int:
        """The most tries that failures can kill, if so many jobs run."""
        return sum(min(window.processors, n_jobs) for window in self.windows if window.kind == FAILURE)

    def away(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The dates at which windows begin or end, (n,), and the processors unavailable before and after, (n + 1,)."""
        changes = self.changes
        at_s = np.array([date[0] for date in changes], np.float64)
        return at_s, np.concatenate([[0], np.cumsum([-date[1] for date in changes], dtype=np.int64)])

    def away_proc_s(self, from_s: float, until_s: float) -> float:
        """The processor-seconds of the windows between two dates."""
        at_s, away = self.away()
        return float((np.diff(np.clip(at_s, from_s, until_s), prepend=from_s, append=until_s) * away).sum())

    def has_gap(self, procs: int, span_s: float, submit_s: float, size: int) -> bool:
        """Whether the windows ever leave so many of `size` processors for so long, from a submission on."""
        at_s, away = self.away()
        if procs <= size - away[-1]:
            return True
        from_s = submit_s
        for until_s, taken in zip(at_s.tolist(), away.tolist(), strict=False):
            if taken > size - procs:
                from_s = max(until_s, submit_s)
            elif until_s - from_s >= span_s:
                return True
        return False

    def require_possible(self, jobs: JobTable, size: int, source: str) -> None:
        """Refuse a workload with jobs for which no gap is ever wide and long enough.

        Raises:
            BatfillError: it has some.
        """
        lasts_s = np.minimum(np.minimum(jobs.runtime_s, jobs.walltime_s), jobs.request_s)
        wide = np.flatnonzero((jobs.procs > size - self.away()[1][-1]) & (jobs.procs <= size)).tolist()
        stuck = [row for row in wide if not self.has_gap(jobs.procs[row], lasts_s[row], jobs.submit_s[row], size)]
        if stuck:
            raise BatfillError(never_runs(source, self.name, jobs, stuck))


def never_runs(source: str, calendar: str, jobs: JobTable, stuck: list[int]) -> str:
    """The words of jobs that can never run because of a calendar."""
    first = stuck[0]
    return (
        f"{source}: {len(stuck):,} of {len(jobs):,} jobs can never run: {calendar} has no gap for them (first: job "
        f"{jobs.ids[first]}, {jobs.procs[first]} processors from {jobs.submit_s[first]:,.0f} s on); leave them out, or "
        "let the windows end"
    )


def date_of(where: str, column: str, value: Any) -> Any:
    """A date of a row: seconds, or a datetime; None if it is empty.

    Raises:
        BatfillError: it is neither.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, datetime) and value == value:  # pandas' NaT is one
        return value
    try:
        number = number_or_text(of_numpy(value))
        return float(number) if is_finite(number) else datetime.fromisoformat(value.strip())
    except (AttributeError, ValueError):
        pass
    raise BatfillError(
        f"{where}: {column} {value!r:.60} is neither a number of seconds nor a date; give 86400, or "
        "2026-03-01T08:00+01:00"
    )


def spans_of(where: str, text: str) -> tuple[tuple[int, int], ...]:
    """The machines in a text such as `0-3 8`, in order.

    Raises:
        BatfillError: it is something else, or names a machine twice.
    """
    found = [SPAN.fullmatch(word) for word in text.split()]
    spans = sorted((int(one[1]), int(one[2] or one[1])) for one in found if one)
    ordered = all(first <= last for first, last in spans) and all(a[1] < b[0] for a, b in pairwise(spans))
    if None in found or not ordered:
        raise BatfillError(f"{where}: machines {text!r:.60} are not ids, each once; give them as `0-3 8`")
    return tuple(spans)


def as_field(date: Any) -> str:
    """A date as in a file."""
    if date is None or date == math.inf:
        return ""
    return date.isoformat() if isinstance(date, datetime) else f"{date:.15g}"


def calendar_of(name: str, value: Any) -> Calendar:
    """The calendar, or that in the file with this name.

    Raises:
        BatfillError: there is none.
    """
    if isinstance(value, Calendar):
        return value
    if not isinstance(value, (str, Path)):
        raise BatfillError(f"option {name}: {value!r:.60} is neither a file nor a Calendar")
    return Calendar.read(Path(value))


NO_WINDOWS = Calendar(())
