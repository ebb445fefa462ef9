"""Columns as Python programs give them: lists, Series, frames, dates and durations, converted for a job table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import WorkloadError
from batfill.base.tables import JobRows, plain_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Names in our tables, where they differ from `job_table`'s.
COLUMNS = {"job_id": "ids", "class": "job_class", "requested_s": "user_request_s"}
CLASS_NUMBERS = {"small": 1, "large": 0, None: -1}


def is_frame(given: object) -> bool:
    """Whether it has columns by name: a frame of pandas or polars, an Arrow table, a dict."""
    return not isinstance(given, (str, JobRows)) and any(hasattr(given, name) for name in ("keys", "column_names"))


def frame_columns(given: Any) -> dict[str, Any]:
    """The columns of such a frame by the names of `job_table`'s arguments; `submit` also means `submit_s`."""
    names = [str(name) for name in (getattr(given, "column_names", None) or list(given))]
    timed = {"submit", "runtime", "walltime", "requested"}
    columns = {f"{name}_s" if name in timed else name: name for name in names}
    return {COLUMNS.get(column, column): given[name] for column, name in columns.items()}


def array_of(given: Any) -> NDArray[Any]:
    """A column as an array; numbers among texts stay numbers."""
    values = np.atleast_1d(np.asarray(given))
    return np.atleast_1d(np.asarray(given, object)) if values.dtype.kind in "US" else values


def seconds_in(source: str, name: str, given: Any) -> tuple[NDArray[np.float64], int | None]:
    """A column of dates or durations in seconds, and the Unix time of second 0 if it holds dates.

    Dates count from the first one's whole second; those without a zone are in UTC.

    Raises:
        WorkloadError: a value is no number, date or duration.
    """
    values = array_of(given)
    if values.dtype == object and len(values):
        first = values[0]
        if hasattr(first, "timestamp"):  # dates with a zone
            stamps = np.array([value.timestamp() for value in values])
            return since_first(stamps)
        if hasattr(first, "total_seconds"):
            return np.array([value.total_seconds() for value in values]), None
    if values.dtype.kind == "M":
        return since_first(values.astype("datetime64[us]").astype(np.int64) / 1e6)
    if values.dtype.kind == "m":
        seconds = values / np.timedelta64(1, "s")
        return seconds, None
    return numbers_in(source, name, values, "a number of seconds"), None


def since_first(stamps: NDArray[np.float64]) -> tuple[NDArray[np.float64], int | None]:
    """Unix times from the first one's whole second on, and that second."""
    if not len(stamps) or not np.isfinite(stamps).all():
        return stamps, None
    first = int(np.floor(stamps.min()))
    return stamps - first, first


def numbers_in(source: str, name: str, given: Any, what: str = "a number") -> NDArray[np.float64]:
    """A column of numbers as float64; None is nan.

    Raises:
        WorkloadError: a value is not a number; the message names the first one.
    """
    values = array_of(given)
    if values.dtype.kind in "iufb":
        return values.astype(np.float64, copy=False)
    for row, value in enumerate(values.ravel().tolist()):
        if value is not None and (isinstance(value, str) or not np.isreal(value)):
            raise column_error(source, name, row, value, what)
    return values.astype(np.float64)


def whole_in(source: str, name: str, given: Any) -> NDArray[np.int64]:
    """A column of whole numbers as int64.

    Raises:
        WorkloadError: a value is not one.
    """
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
    """A column of ids as text: numbers in decimal, texts as they are."""
    values = array_of(given)
    if values.dtype.kind == "T" or (values.dtype == object and all(type(value) is str for value in values)):
        return values
    return np.array([str(value) for value in values.tolist()], object)


def classes_in(source: str, given: Any) -> NDArray[np.int8]:
    """A column of classes as numbers: small, large, or None or nan for unknown."""
    values = array_of(given)
    if values.dtype.kind in "iu":
        return values.astype(np.int8, copy=False)
    found = np.zeros(len(values), np.int8)
    for row, value in enumerate(values.tolist()):
        known = None if value != value else value
        if known not in CLASS_NUMBERS:
            raise column_error(source, "job_class", row, value, "small, large or None")
        found[row] = CLASS_NUMBERS[known]
    return found


def column_error(source: str, name: str, row: int, value: object, what: str) -> WorkloadError:
    """The refusal of a value in a column."""
    return WorkloadError(f"{source}: column {name}, row {row}: {value!r} is not {what}; convert the column first")
