"""Parquet for ourselves: a log's 18 columns, typed and compressed, with its comments in the file's metadata."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from batfill import __version__
from batfill.errors import WorkloadError
from batfill.workloads.files import readable, whole_file
from batfill.workloads.swf_log import FIELDS, Comment, SwfLog

if TYPE_CHECKING:
    from pathlib import Path

COMMENTS = b"batfill.comments"


def write_parquet(log: SwfLog, path: Path) -> None:
    """Write the log; columns that hold whole numbers only become integers. Reading it gives the same log."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: _compact(log[name]) for name in FIELDS} | {"line": log.lines}
    comments = [[c.rows_before, c.text.encode("utf-8", "surrogateescape").hex()] for c in log.comments]
    table = pa.table(columns).replace_schema_metadata(
        {COMMENTS: json.dumps(comments).encode(), b"made_by": f"batfill {__version__}".encode()}
    )
    with whole_file(path) as file:
        pq.write_table(table, file, compression="zstd")


def read_parquet(path: Path) -> SwfLog:
    """A log that `write_parquet` wrote.

    Raises:
        WorkloadError: the file is not Parquet, or lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with readable(path) as file:
        try:
            table = pq.read_table(file)
            if missing := [name for name in (*FIELDS, "line") if name not in table.column_names]:
                raise WorkloadError(f"{path}: no column {missing[0]}; only files that batfill wrote can be read")
            rows = np.column_stack([table[name].to_numpy().astype(np.float64) for name in FIELDS])
            comments = json.loads((table.schema.metadata or {}).get(COMMENTS, b"[]"))
            lines = table["line"].to_numpy().astype(np.int64)
        except (pa.ArrowException, ValueError, TypeError, OSError) as error:
            what = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise WorkloadError(f"{path}: not a Parquet log ({what}); write it again from its source") from None
    return SwfLog(
        tuple(Comment(at, bytes.fromhex(text).decode("utf-8", "surrogateescape")) for at, text in comments), rows, lines
    )


def _compact(
    column: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    return column.astype(np.int64) if (column == np.floor(column)).all() else np.ascontiguousarray(column)
