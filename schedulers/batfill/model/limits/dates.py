"""Dates that a user gives, in seconds of a log or of its clock, and the CSV files that have them."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.errors import BatfillError
from batfill.base.files import any_length, readable
from batfill.model.values import is_finite, number_or_text, of_numpy

if TYPE_CHECKING:
    from batfill.model.jobs import Clock


class Change(NamedTuple):
    """A date at which something changes, as the engine's CHANGE."""

    at_s: float
    pool: str  # by name; empty for processors
    amount: int  # how much this frees
    announced_s: float
    fails: int


def in_time(changes: Iterable[Change]) -> list[Change]:
    """The changes in order of time: what a pool gets back before what it loses, failures last."""
    return sorted(changes, key=lambda change: (change.at_s, change.amount < 0, change.fails))


def date_of(where: str, column: str, value: Any) -> Any:
    """A date of a row: seconds, or a datetime; None if it is empty."""
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


def as_field(date: Any) -> str:
    if date is None or date == inf:
        return ""
    return date.isoformat() if isinstance(date, datetime) else f"{date:.15g}"


def require_one_form(where: str, dates: Iterable[Any]) -> None:
    """Refuse dates without a time zone, and seconds beside dates; None and infinity are neither."""
    known = [date for date in dates if date not in (None, inf)]
    if naive := [date for date in known if isinstance(date, datetime) and date.tzinfo is None]:
        text = naive[0].isoformat()
        raise BatfillError(f"{where}: {text} has no time zone; add one, as {text}+01:00")
    if len({isinstance(date, datetime) for date in known}) > 1:
        raise BatfillError(f"{where}: seconds and dates are mixed; give all in one form")


def second(where: str, date: Any, clock: Clock | None) -> Any:
    """A date in seconds of a log with this clock; what is no date of a clock stays."""
    if not isinstance(date, datetime):
        return date
    if clock is None:
        raise BatfillError(f"{where}: {date.isoformat()} is a date, and the workload has no clock; give seconds")
    return clock.second(date)


def unreached(dated: Mapping[str, Any], end_s: float) -> list[str]:
    """A line for each option whose dates are all behind the last end or, of a gate, before the origin."""
    found, last = [], f"the last job ended at {end_s:,.0f} s"
    for name, one in dated.items():
        periods = getattr(one, "periods", None)
        if periods is not None and not any(begin <= end_s and end > 0 for begin, end in periods):
            found.append(f"option {name}: the gate never opened, so no job was backfilled; {last}; check its dates")
        elif one and periods is None and (begin_s := min((date.at_s for date in one.changes), default=0.0)) > end_s:
            found.append(f"option {name} did nothing: it begins at {begin_s:,.0f} s, and {last}")
    return found


def read_rows(
    path: Path, known: Sequence[str] | None, needed: Sequence[str], remedy: str
) -> tuple[list[dict[str, Any]], str]:
    """The rows of a CSV file, as text by the names in line 1 and with their `line`, and the file's sha256.

    It may have the `known` columns, None for any, and must have the `needed` ones; `remedy` ends the messages.
    """
    with readable(path) as stream:
        content = stream.read()
    try:
        reader = csv.DictReader(content.decode("utf-8-sig").splitlines(), restkey="more")
        with any_length():
            named = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = named
            rows = [{**row, "line": reader.line_num} for row in reader]
    except (UnicodeDecodeError, csv.Error):
        raise BatfillError(f"{path}: is not text; {remedy}") from None
    if other := [name for name in named if known is not None and name not in known]:
        raise BatfillError(f"{path}: line 1: column {other[0]!r:.60} is unknown; {remedy}")
    if double := [name for name in named if named.count(name) > 1 and (known or name in needed)]:
        raise BatfillError(f"{path}: line 1: column {double[0]!r:.60} stands twice; {remedy}")
    if lacking := [name for name in needed if name not in named]:
        raise BatfillError(f"{path}: line 1: there is no column {lacking[0]}; {remedy}")
    for row in rows:
        if "more" in row:
            raise BatfillError(f"{path}: line {row['line']}: has more values than line 1 has names; {remedy}")
        if short := [name for name in needed if row[name] is None]:
            raise BatfillError(f"{path}: line {row['line']}: has too few values, and no {short[0]}; {remedy}")
    return rows, hashlib.sha256(content).hexdigest()
