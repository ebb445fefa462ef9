"""Columns as Python programs give them: lists, Series, frames, dates and durations, converted for a job table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import WorkloadError
from batfill.base.tables import plain_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CLASS_NUMBERS = {"small": 1, "large": 0, None: -1}


def array_of(given: Any) -> NDArray[Any]:
    """A column as an array; numbers among texts stay numbers, and lists stay objects, which are refused one by one."""
    try:
        values = np.atleast_1d(np.asarray(given))
    except ValueError:  # lists of different lengths
        values = np.fromiter(given, object)
    return np.atleast_1d(np.asarray(given, object)) if values.dtype.kind in "US" else values


def seconds_in(source: str, name: str, given: Any) -> tuple[NDArray[np.float64], int | None]:
    """Dates or durations in seconds, and the Unix time of second 0 if they are dates, without a zone in UTC."""
    values = array_of(given)
    if values.dtype == object:
        known = next((value for value in values.tolist() if not is_missing(value)), None)
        if hasattr(known, "timestamp"):  # dates with a zone
            return since_first(each_in(source, name, values, datetime, stamp_of, "a date"))
        if hasattr(known, "total_seconds"):
            return each_in(source, name, values, timedelta, timedelta.total_seconds, "a duration"), None
    if values.dtype.kind == "M":
        stamps = values.astype("datetime64[us]").astype(np.int64) / 1e6
        return since_first(np.where(np.isnat(values), np.nan, stamps))
    if values.dtype.kind == "m":
        seconds = values / np.timedelta64(1, "s")
        return seconds, None
    return numbers_in(source, name, values, "a number of seconds"), None


def is_missing(value: Any) -> bool:
    """Whether the value is None, nan, NaT or pandas' NA."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # NA differs from nothing, and of an array there is no one answer
        return type(value).__name__ == "NAType"


def stamp_of(date: datetime) -> float:
    """The Unix time of a date; one without a zone is in UTC."""
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def each_in(
    source: str, name: str, values: NDArray[Any], kind: type, convert: Callable[[Any], float], what: str
) -> NDArray[np.float64]:
    for row, value in enumerate(values.tolist()):
        if not (is_missing(value) or isinstance(value, kind)):
            raise column_error(source, name, row, value, what)
    return np.array([np.nan if is_missing(value) else convert(value) for value in values.tolist()])


def since_first(stamps: NDArray[np.float64]) -> tuple[NDArray[np.float64], int | None]:
    if not len(stamps) or not np.isfinite(stamps).all():
        return stamps, None
    first = int(np.floor(stamps.min()))
    return stamps - first, first


def numbers_in(source: str, name: str, given: Any, what: str = "a number") -> NDArray[np.float64]:
    values = array_of(given)
    if values.dtype.kind in "iufb":
        return values.astype(np.float64, copy=False)
    missing = np.array([is_missing(value) for value in values.ravel().tolist()], bool).reshape(values.shape)
    for row, value in enumerate(values.ravel().tolist()):
        if not (missing.flat[row] or isinstance(value, Real | Decimal)):
            raise column_error(source, name, row, value, what)
    try:
        return np.where(missing, np.nan, values).astype(np.float64)
    except (OverflowError, TypeError):
        raise WorkloadError(f"{source}: column {name} has values that are not {what}; convert it first") from None


def whole_in(source: str, name: str, given: Any) -> NDArray[np.int64]:
    values = array_of(given)
    if values.dtype.kind in "iu":
        return values.astype(np.int64, copy=False)
    numbers = numbers_in(source, name, values, "a whole number")
    wrong = ~(np.isfinite(numbers) & (numbers == np.floor(numbers)) & (np.abs(numbers) < 2**53))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise column_error(source, name, row, plain_value(values.ravel()[row]), "a whole number")
    return numbers.astype(np.int64)


def texts_in(given: Any) -> NDArray[Any]:
    values = array_of(given)
    if values.dtype.kind == "T" or (values.dtype == object and all(type(value) is str for value in values)):
        return values
    return np.array([str(value) for value in values.tolist()], object)


def classes_in(source: str, given: Any) -> NDArray[np.int8]:
    values = array_of(given)
    if values.dtype.kind in "iu":
        odd = (values < min(CLASS_NUMBERS.values())) | (values > max(CLASS_NUMBERS.values()))
        if odd.any():
            row = int(np.argmax(odd))
            raise column_error(source, "job_class", row, plain_value(values.ravel()[row]), "SMALL, LARGE or UNKNOWN")
        return values.astype(np.int8, copy=False)
    found = np.zeros(len(values), np.int8)
    for row, value in enumerate(values.tolist()):
        known = None if is_missing(value) else value
        if known is not None and (not isinstance(known, str) or known not in CLASS_NUMBERS):
            raise column_error(source, "job_class", row, value, "small, large or None")
        found[row] = CLASS_NUMBERS[known]
    return found


def column_error(source: str, name: str, row: int, value: object, what: str) -> WorkloadError:
    return WorkloadError(f"{source}: column {name}, row {row}: {value!r:.60} is not {what}; convert the column first")
