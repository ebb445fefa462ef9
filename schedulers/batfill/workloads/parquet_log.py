"""Reads and writes logs as Parquet, for our own use, piece by piece: memory does not grow with a log's length.

The 18 columns are typed and compressed; each row's line is a column, too, and the comments are the file's metadata.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import WorkloadError, optional
from batfill.base.files import readable, whole_file
from batfill.base.version import __version__
from batfill.workloads.swf_log import FIELDS, LARGEST_EXACT, N_FIELDS, Comment, SwfLog, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from numpy.typing import NDArray

PARQUET = b"PAR1"
COMMENTS = b"batfill.comments"
LINE = "line"
ROWS_AT_ONCE = 1 << 17
RISING = ("job", "submit_s", LINE)  # stored as differences: a dictionary of values that hardly repeat saves nothing


def is_parquet(path: Path) -> bool:
    """Whether the file starts with Parquet's signature."""
    with readable(path) as stored:
        return stored.read(4) == PARQUET


def write_parquet(log: SwfLog, path: Path) -> None:
    """Write the log; columns of whole numbers become integers. Reading the file gives the same log."""

    def pieces() -> Iterator[SwfLog]:
        for start in range(0, max(len(log), 1), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            yield SwfLog((), log.rows[part], log.lines[part])

    write_pieces(pieces, path, lambda: log.comments)


def write_pieces(
    pieces: Callable[[], Iterable[SwfLog]],
    path: Path,
    comments: Callable[[], Sequence[Comment]],
) -> int:
    """As `write_parquet`, for a log of which one piece is in memory at a time; returns the number of rows.

    Args:
        pieces: begins the log; called again if a column of whole numbers turns out to have a fraction, since a column
            has one type.
        path: the file.
        comments: called after the last piece; the comments of the pieces themselves are ignored.

    Raises:
        WorkloadError: the file cannot be written.
    """
    try:
        return _written(pieces, path, comments, False)
    except _FractionFound:
        fractional = np.logical_or.reduce([_fractional(piece) for piece in pieces()])
        return _written(pieces, path, comments, fractional)


class _FractionFound(Exception):  # noqa: N818 - a reason to begin again
    """A column that is stored as integers has a fraction."""


def _fractional(piece: SwfLog) -> NDArray[np.bool_]:
    """The columns with a fraction, shape (n_fields,)."""
    return np.array([bool((piece[name] != np.floor(piece[name])).any()) for name in piece.fields])


def _written(
    pieces: Callable[[], Iterable[SwfLog]],
    path: Path,
    comments: Callable[[], Sequence[Comment]],
    fractional: NDArray[np.bool_] | bool,
) -> int:
    """Write the file; `fractional` says which columns have fractions, besides those in which the first piece has some.

    A log may have a column besides those of SWF, which `parquet_pieces` does not read.

    Raises:
        _FractionFound: another column has some.
    """
    from concurrent.futures import ThreadPoolExecutor

    pa, pq = optional("pyarrow", "tables"), optional("pyarrow.parquet", "tables")
    reading = iter(pieces())
    first = next(reading, SwfLog((), np.empty((0, N_FIELDS)), np.empty(0, np.int64)))
    fractional = fractional | _fractional(first)
    schema = pa.schema(
        [(name, pa.float64() if some else pa.int64()) for name, some in zip(first.fields, fractional, strict=True)]
        + [(LINE, pa.int64())]
    )
    how = {
        "compression": "zstd",
        "use_dictionary": [name for name in schema.names if name not in RISING],
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in RISING if schema.field(name).type == pa.int64()},
    }
    n_rows = 0
    with (
        whole_file(path) as file,
        pq.ParquetWriter(file, schema, **how) as writer,
        ThreadPoolExecutor(1) as behind,  # compresses a piece while the next one is read
    ):
        compressed: Future[None] | None = None
        for piece in chain((first,), reading):
            if (_fractional(piece) & ~fractional).any():
                raise _FractionFound
            columns = {
                name: piece[name].astype(np.float64 if some else np.int64)
                for name, some in zip(first.fields, fractional, strict=True)
            }
            if compressed is not None:
                compressed.result()
            table = pa.table({**columns, LINE: piece.lines}, schema=schema)
            compressed = behind.submit(writer.write_table, table)
            n_rows += len(piece)
        if compressed is not None:
            compressed.result()
        stored = [[c.rows_before, c.text.encode("utf-8", "surrogateescape").hex()] for c in comments()]
        writer.add_key_value_metadata({COMMENTS: json.dumps(stored), b"made_by": f"batfill {__version__}"})
    return n_rows


def read_parquet(path: Path, *, fields: Sequence[str] = FIELDS) -> SwfLog:
    """A log that `write_parquet` wrote, with these columns.

    Raises:
        WorkloadError: the file is not Parquet, lacks a column or a value, or holds a number beyond 2^53.
    """
    return joined(parquet_pieces(path, fields=fields), fields=fields, n_rows=parquet_rows(path))


def parquet_rows(path: Path) -> int:
    """The number of rows, which the file states.

    Raises:
        WorkloadError: the file is not Parquet.
    """
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def parquet_pieces(path: Path, *, fields: Sequence[str] = FIELDS) -> Iterator[SwfLog]:
    """As `read_parquet`, in pieces; a comment's place is within its piece.

    Raises:
        WorkloadError: as `read_parquet`.
    """
    with _opened(path) as file:
        if missing := [name for name in (*FIELDS, LINE) if name not in file.schema_arrow.names]:
            raise WorkloadError(f"{path}: no column {missing[0]}; only files that batfill wrote can be read")
        stored = json.loads((file.metadata.metadata or {}).get(COMMENTS, b"[]"))
        comments = [Comment(at, bytes.fromhex(text).decode("utf-8", "surrogateescape")) for at, text in stored]
        n_rows, done, said = file.metadata.num_rows, 0, 0
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=[*fields, LINE]):
            rows = np.empty((len(batch), len(fields)))
            for place, name in enumerate(fields):
                rows[:, place] = batch.column(name).to_numpy(zero_copy_only=False)
                _require_numbers(path, name, rows[:, place], done)
            numbers = batch.column(LINE).to_numpy(zero_copy_only=False)
            _require_numbers(path, LINE, numbers, done)
            lines = numbers.astype(np.int64)
            end = done + len(batch)
            here = said
            while said < len(comments) and (comments[said].rows_before < end or end == n_rows):
                said += 1
            own = tuple(c._replace(rows_before=c.rows_before - done) for c in comments[here:said])
            yield SwfLog(own, rows, lines, fields=tuple(fields))
            done = end
        if said < len(comments):  # a log without rows
            empty = np.empty((0, len(fields))), np.empty(0, np.int64)
            yield SwfLog(tuple(comments), *empty, fields=tuple(fields))


def _require_numbers(path: Path, name: str, values: NDArray[Any], rows_before: int) -> None:
    """Refuse missing values, which become NaN, and, as in SWF, numbers that a float64 does not hold exactly."""
    held = np.abs(values) <= LARGEST_EXACT
    if not held.all():
        row = rows_before + int(np.argmin(held)) + 1
        raise WorkloadError(
            f"{path}: {name} of row {row} is missing or beyond 2^53; only files that batfill wrote can be read"
        )


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The file as a `ParquetFile`; what pyarrow finds wrong with it becomes a WorkloadError."""
    pa, pq = optional("pyarrow", "tables"), optional("pyarrow.parquet", "tables")
    with readable(path) as stored:
        try:
            with pq.ParquetFile(stored) as file:
                yield file
        except (pa.ArrowException, ValueError, TypeError, OSError) as error:
            what = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise WorkloadError(f"{path}: not a Parquet log ({what}); write it again from its source") from None
