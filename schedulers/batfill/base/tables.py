"""Tables as Python programs use them: columns of jobs, and rows of findings, in the forms of other libraries."""

from __future__ import annotations

import re
from dataclasses import asdict, fields
from functools import cached_property
from itertools import zip_longest
from operator import index
from pathlib import Path
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from batfill.base.errors import optional
from batfill.base.files import csv_text, place_of, write_text
from batfill.base.words import columns, duration, wrapped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray


def data_frame(columns: Mapping[str, Any] | Sequence[Mapping[str, Any]], **attrs: Any) -> pd.DataFrame:
    """These columns, or these rows, as a DataFrame with these `attrs`."""
    frame: pd.DataFrame = optional("pandas", "tables").DataFrame(columns)
    frame.attrs.update(attrs)
    return frame


def arrow_table(columns: Mapping[str, NDArray[Any]], about: Mapping[bytes, bytes] | None = None) -> pa.Table:
    """These columns as an Arrow table, nan as null, with this metadata."""
    arrow = optional("pyarrow", "tables")
    arrays = {
        name: arrow.array(values, arrow.string() if values.dtype == object else None, from_pandas=True)
        for name, values in columns.items()
    }
    table: pa.Table = arrow.table(arrays)
    return table.replace_schema_metadata(dict(about)) if about else table


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view of the array that cannot be changed from now on; of a copy if it is a view of memory that can.

    Arrays are checked when they enter, and kernels trust them: what a user holds of them is read-only. A view of a
    locked array cannot be unlocked either.
    """
    if not is_settled(array):
        array = array.copy() if array.base is not None else array
        array.flags.writeable = False
    return array if array.base is not None else array.view()


def is_settled(array: NDArray[Any]) -> bool:
    holder: Any = array
    while isinstance(holder, np.ndarray):
        if holder.flags.writeable:
            return False
        holder = holder.base
    return True


class AsDict:
    """A dataclass as a dict."""

    __slots__ = ()

    def as_dict(self: Any) -> dict[str, Any]:
        """As a dict by field, for JSON."""
        return asdict(self)


class ReadOnly:
    """A frozen dataclass whose arrays are read-only; so are those of its copies and pickles."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for f in fields(self):  # type: ignore[arg-type]  # of the dataclass below
            if isinstance(value := getattr(self, f.name), np.ndarray):
                object.__setattr__(self, f.name, read_only(value))

    def __reduce__(self) -> tuple[Any, ...]:
        """By the fields: numpy would make the arrays of a copy writable, and kept columns are made again."""
        return type(self), tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]


def same_values(one: Any, other: Any) -> bool:
    """Whether two columns, or values, are equal; nan equals nan."""
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return not isinstance(one, np.ndarray) and not isinstance(other, np.ndarray) and bool(one == other)
    if one.dtype.kind == other.dtype.kind == "f":
        return np.array_equal(one, other, equal_nan=True)
    return np.array_equal(one, other)


class Keyed:
    """A result whose content, as `as_dict` has it, is also read by its names."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """The content by name."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> Any:
        """A part of the content by its name."""
        content = self.as_dict()
        if name not in content:
            raise KeyError(f"{name!r} is not in the result; it has {', '.join(content)}")
        return content[name]


class JobRows:
    """What everything with a row per job has; a class says what its columns are, and what is known about them.

    Columns by name are read-only: copy one to change it.

    Examples:
        >>> import batfill as bf
        >>> log = bf.read("workloads/sample.json")
        >>> len(log), log[0]["procs"], log["procs"][:3].tolist(), [job["job_id"] for job in log[:2]]
        (800, 4, [4, 1, 8], ['001', '002'])
    """

    __slots__ = ()

    def columns(self) -> dict[str, NDArray[Any]]:
        """Every job by column, in order of submission; nan or None means unknown, or not applicable."""
        raise NotImplementedError

    @property
    def kept(self) -> Mapping[str, NDArray[Any]]:
        """The columns, read-only, computed once until they change: a loop may read a value or a row at a time."""
        raise NotImplementedError

    def about(self) -> dict[str, Any]:
        """The provenance of the columns, for the `attrs` of a frame."""
        return {}

    def rows(self) -> list[tuple[str, str]]:
        """What it is, as rows of (label, text)."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return label_lines(self.rows())

    def _repr_html_(self) -> str:
        return label_html(self.rows())

    def __len__(self) -> int:
        """The number of jobs."""
        return len(self.kept["job_id"])

    @overload
    def __getitem__(self, which: str) -> NDArray[Any]: ...

    @overload
    def __getitem__(self, which: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, which: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, which: str | int | slice) -> Any:
        """A column by its name, read-only, a job by its row as a dict, or several by a slice."""
        columns = self.kept
        if isinstance(which, str):
            if which not in columns:
                raise KeyError(f"{which!r} is not a column; they are {', '.join(columns)}")
            return columns[which]
        if isinstance(which, slice):
            return list(rows_of({name: column[which] for name, column in columns.items()}))
        try:
            which = index(which)
        except TypeError:
            raise TypeError(f"{which!r:.60} is neither a column's name nor a row nor a slice") from None
        if not -len(self) <= which < len(self):
            raise IndexError(f"row {which} of {len(self):,} jobs")
        return {name: plain_value(column[which]) for name, column in columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The jobs in order of submission, a dict each."""
        return rows_of(self.columns())

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns as lists."""
        return {name: column.tolist() for name, column in self.columns().items()}

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """Write the columns as CSV to a file, or return the text without one; unknown values are empty."""
        columns = self.columns()
        rows = ([csv_cell(value) for value in row.values()] for row in rows_of(columns))
        text = csv_text([list(columns), *rows])
        if path is None:
            return text
        write_text(place_of("path", path), text)
        return None

    def to_pandas(self) -> pd.DataFrame:
        """A row per job; see `columns`. The frame's `attrs` hold the provenance. Needs pandas."""
        return data_frame(self.columns(), **self.about())

    def to_arrow(self) -> pa.Table:
        """A row per job; see `columns`. Needs pyarrow, not pandas."""
        return arrow_table(self.columns())

    def describe(self) -> Described:
        """Count, mean, standard deviation and quantiles of each column of numbers, over the values that are known."""
        return Described(
            [
                {"column": name, **distribution(column[np.isfinite(column)])}
                for name, column in self.columns().items()
                if column.dtype.kind in "iuf" and np.isfinite(column).any()
            ]
        )


class KeptRows(JobRows):
    """Rows of jobs that never change: the columns are computed at the first use."""

    @cached_property
    def kept(self) -> Mapping[str, NDArray[Any]]:
        return {name: read_only(column) for name, column in self.columns().items()}


def rows_of(columns: Mapping[str, NDArray[Any]]) -> Iterator[dict[str, Any]]:
    names = tuple(columns)
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        yield dict(zip(names, row, strict=True))


def plain_value(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def csv_cell(value: Any) -> Any:
    """A value in CSV: unknown ones are empty, whole numbers have no point."""
    if value is None or value != value:
        return ""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def distribution(values: NDArray[Any]) -> dict[str, float]:
    """The figures of `JobRows.describe`, named as pandas names them; the standard deviation is over n - 1."""
    quartiles = np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist()
    spread = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
    names = ("min", "25%", "50%", "75%", "max")
    return {
        "count": len(values),
        "mean": float(values.mean()),
        "std": spread,
        **dict(zip(names, quartiles, strict=True)),
    }


class Rows:
    """A table of findings, shown as text and in notebooks; a class sets `rows`, a dict per row with equal keys."""

    rows: Sequence[Mapping[str, Any]]
    remark: str = ""  # a line below it

    def as_text(self) -> str:
        """The rows as a table, and the remark."""
        return as_table(self.rows) + (f"\n\n{wrapped(self.remark)}" if self.remark else "")

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return rows_html(self.rows, self.remark)


class Described(Rows):
    """What `JobRows.describe` finds: a row per column."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.rows = rows

    def __getitem__(self, column: str) -> Mapping[str, Any]:
        """The figures of a column."""
        found = [row for row in self.rows if row["column"] == column]
        if not found:
            raise KeyError(f"{column!r} is not a column of numbers")
        return found[0]

    def to_pandas(self) -> pd.DataFrame:
        """As pandas' `describe`: a column per column. Needs pandas."""
        frame: pd.DataFrame = data_frame(self.rows).set_index("column").T
        return frame


def as_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A text table of rows with equal keys: words left-aligned, figures right-aligned; without columns of None."""
    head = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    cells = [[shown(name, row[name]) for name in head] for row in rows]
    words = [k for k, column in enumerate(zip(*cells, strict=True)) if not all(map(FIGURE.match, column))]
    return in_columns([[*map(heading, head)], *cells], words)


FIGURE = re.compile(r"[-+±]?[\d.]|-?$")


HEADINGS = {"p999_wait_s": "99.9 %", "max_wait_s": "longest wait", "day_longer": "day later"}
FORMS = {"p": ".2g", "share": ".0%", "day_longer": ".2%"}  # of figures by column


def heading(column: str) -> str:
    """The name of a column in words."""
    return HEADINGS.get(column, column.removesuffix("_s").replace("_", " "))


def shown(column: str, value: Any) -> str:
    """A value of this column, formatted: in columns named `..._s` a duration."""
    if not isinstance(value, (int, float)) or not np.isfinite(value):
        return cell(value)
    if column.endswith("_s"):
        return duration(value)
    return format(value, FORMS[column]) if column in FORMS else cell(value)


def escaped(text: str) -> str:
    from html import escape  # loads a table of 2,000 characters, which only notebooks need

    return escape(text)


def rows_html(rows: Sequence[Mapping[str, Any]], remark: str = "") -> str:
    """The same as HTML, for notebooks."""
    head = "".join(f"<th>{escaped(heading(name))}</th>" for name in rows[0])
    body = "".join(
        f"<tr>{''.join(f'<td>{escaped(shown(name, value))}</td>' for name, value in row.items())}</tr>" for row in rows
    )
    below = f"<p>{escaped(remark)}</p>" if remark else ""
    return f"<table><tr>{head}</tr>{body}</table>{below}"


def number_text(value: float) -> str:
    """The shortest decimal that reads back as this number; whole numbers have no decimal point."""
    return str(int(value)) if value == int(value) else repr(value)


def label_lines(rows: Iterable[tuple[str, str]]) -> str:
    """Rows of (label, text), one per line, broken to fit a terminal."""
    return "\n".join(wrapped(f"{label:13}{text}", " " * 13) for label, text in rows)


def label_html(rows: Iterable[tuple[str, str]]) -> str:
    cells = (
        f'<tr><th style="text-align:left">{escaped(label)}</th><td style="text-align:left">{escaped(text)}</td></tr>'
        for label, text in rows
    )
    return f"<table>{''.join(cells)}</table>"


WIDEST_CELL = 46  # columns; a longer text goes on in the next line
NARROWEST_CELL = 20  # of words, if columns would otherwise not fit


def in_columns(rows: Sequence[Sequence[str]], words: Collection[int]) -> str:
    """The rows, header first, as aligned columns: columns in `words` to the left, others to the right.

    Long words are broken. Where all columns do not fit a terminal, the widest one of words gets narrower, and if that
    does not suffice, the last ones follow below, beside the first one.
    """
    fit = columns()
    wraps = [TextWrapper(min(WIDEST_CELL, fit // 2), break_long_words=False, break_on_hyphens=False)] * len(rows[0])

    def broken_rows() -> tuple[list[list[list[str]]], list[int]]:
        broken = [[wrap.wrap(cell) or [""] for wrap, cell in zip(wraps, row, strict=True)] for row in rows]
        return broken, [max(len(line) for cell in column for line in cell) for column in zip(*broken, strict=True)]

    broken, widths = broken_rows()
    widest = max(words, key=widths.__getitem__, default=0)
    left = widths[widest] + fit - sum(widths) - 2 * (len(widths) - 1)
    if NARROWEST_CELL <= left < widths[widest]:
        wraps[widest] = TextWrapper(left, break_long_words=False, break_on_hyphens=False)
        broken, widths = broken_rows()
    parts: list[list[int]] = [[]]
    for k, width in enumerate(widths):
        if len(parts[-1]) > 1 and sum(widths[other] + 2 for other in parts[-1]) + width > fit:
            parts.append([0])
        parts[-1].append(k)
    return "\n\n".join(
        "\n".join(
            "  ".join(
                cell.ljust(widths[k]) if k in words else cell.rjust(widths[k])
                for k, cell in zip(part, line, strict=True)
            ).rstrip()
            for row in broken
            for line in zip_longest(*(row[k] for k in part), fillvalue="")
        )
        for part in parts
    )


def text_html(text: str) -> str:
    """Text in columns as HTML, for notebooks."""
    return f'<pre style="line-height:1.3">{escaped(text)}</pre>'


def cell(value: Any) -> str:
    """One value, formatted."""
    if value is None:
        return "-"
    if isinstance(value, float):
        if not np.isfinite(value):
            return "-"
        text = f"{value:,.4g}" if abs(value) < 1 else f"{value:,.2f}"
        # A ratio that is not 1 must not look like 1, the value without a difference.
        return text if value == 1 or float(text.replace(",", "")) != 1 else f"{value:.6g}"
    return str(value)
