"""A log in any format: told apart by its content when it is read, by its name when it is written.

SWF, Batsim JSON, and Parquet for ourselves: a log's 18 columns, typed and compressed, with its comments in the file's
metadata. Cleaning, splitting and resampling work on logs, and so on all three.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from batfill import __version__
from batfill.errors import WorkloadError, optional
from batfill.files import decompressed, digest, readable, shown, whole_file
from batfill.workloads.batsim_json import read_batsim_json, write_batsim_json
from batfill.workloads.swf import BATSIM_MARGIN_S, Overrun, job_rows, jobs_in, known_size, machine_size, with_size
from batfill.workloads.swf_log import (
    COMPLETED,
    FIELDS,
    LARGEST,
    Comment,
    SwfLog,
    batches_of,
    new_log,
    read_log,
    write_log,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from hashlib import _Hash
    from pathlib import Path

    from batfill.jobs import Workload

PACKED = (".gz", ".xz", ".bz2")
FORMATS = (".swf", ".json", ".parquet")
PARQUET = b"PAR1"
COMMENTS = b"batfill.comments"


def is_parquet(path: Path) -> bool:
    """Whether the file begins as Parquet does."""
    with readable(path) as stored:
        return stored.read(4) == PARQUET


def first_byte(path: Path) -> bytes:
    """The content's first byte that is neither blank nor part of a byte order mark; b"" where there is none."""
    with decompressed(path) as content:
        while chunk := content.read(4096):
            if text := chunk.lstrip(b"\xef\xbb\xbf \t\r\n"):
                return text[:1]
    return b""


def load_log(path: Path, *, advance: Callable[[int], None] = lambda _: None) -> SwfLog:
    """The log in an SWF, Parquet or Batsim JSON file, told apart by the content; `advance` is told of SWF rows read.

    Raises:
        WorkloadError: the file cannot be read as any of them, or holds no row.
    """
    if is_parquet(path):
        log = read_parquet(path)
    elif first_byte(path) == b"{":
        log = log_of(read_batsim_json(path))
    else:
        log = read_log(path, advance=advance)
    if not len(log):
        raise WorkloadError(f"{path}: no row in it; is it an SWF log, and whole?")
    return log


def pieces_of(path: Path, text_sum: _Hash | None = None) -> Iterator[SwfLog]:
    """The rows of an SWF log piece by piece, as `batches_of`; those of a Parquet file at once."""
    if is_parquet(path):
        yield read_parquet(path)
    else:
        yield from batches_of(path, text_sum)


def log_of(workload: Workload) -> SwfLog:
    """The workload as a log: ids that are whole numbers become job numbers, otherwise the jobs are numbered from 1."""
    jobs = workload.jobs
    numbered = all(name.isascii() and name.isdigit() and len(name) < 16 for name in jobs.ids)
    number = np.array([int(name) for name in jobs.ids]) if numbered else np.arange(len(jobs)) + 1
    no_request = False if jobs.no_request is None else jobs.no_request
    header = [f"Note: from {workload.name}", f"MaxJobs: {len(jobs)}", f"MaxRecords: {len(jobs)}"]
    if workload.procs is not None:
        header.append(f"MaxProcs: {workload.procs}")
    return new_log(
        header,
        {
            "job": number,
            "submit_s": jobs.submit_s,
            "runtime_s": jobs.runtime_s,
            "procs": jobs.procs,
            "requested_procs": jobs.procs,
            "requested_s": np.where(np.isinf(jobs.walltime_s) | no_request, -1, jobs.walltime_s),
            "status": np.full(len(jobs), COMPLETED),
            "user": jobs.user,
        },
    )


def format_of(path: Path) -> str:
    """The format a file's name asks for: ".swf", ".json" or ".parquet".

    Raises:
        WorkloadError: it asks for none of them.
    """
    suffix = unpacked(path).suffix
    if suffix not in FORMATS or (suffix == ".parquet" and path.suffix != suffix):
        raise WorkloadError(f"{path}: name it .swf, .json or .parquet (.swf and .json also .gz, .xz or .bz2)")
    return suffix


def unpacked(path: Path) -> Path:
    """The path without the suffix of a compression."""
    return path.with_suffix("") if path.suffix in PACKED else path


def stem_of(path: Path) -> str:
    """The file's name without its format and compression: KTH-SP2-1996-2.1-cln of KTH-SP2-1996-2.1-cln.swf.gz."""
    plain = unpacked(path)
    return plain.stem if plain.suffix in FORMATS else plain.name


def provenance(command: str, source: Path, **choices: object) -> dict[str, object]:
    """What made a file: the version and command, the source with its sum, and the choices taken."""
    made_by = f"batfill {__version__} workload {command}"
    return {"made_by": made_by, "source": shown(source.name), "source_sha256": digest(source), **choices}


def save_log(
    log: SwfLog,
    out: Path,
    *,
    procs: int | None = None,
    overrun: Overrun = "keep",
    description: Mapping[str, object] | None = None,
) -> int:
    """Write the log; return how many jobs (of a Batsim workload) or rows (otherwise) the file holds.

    Args:
        log: what to write. SWF and Parquet keep all of it, Batsim JSON its jobs.
        out: the file; its name says the format.
        procs: the machine's size, which the file says from then on; by default what `machine_size` finds.
        overrun: what becomes of requests below the run time in Batsim JSON.
        description: what made the file. Batsim JSON holds it as such; other logs get it as a note in their header,
            where it names a source (without one, the log was made with such a note).

    Raises:
        WorkloadError: the name asks for no known format, the file cannot be written, the log holds no job, or a
            number beyond 2^53, which could not be read again.
    """
    wanted = format_of(out)
    held = np.abs(log.rows) <= LARGEST
    if not held.all():
        row, column = np.unravel_index(np.argmin(held), held.shape)
        raise WorkloadError(
            f"{out}: {FIELDS[column]} of a row becomes {log.rows[row, column]:g}, beyond 2^53; "
            "choose a smaller factor or limit"
        )
    log = with_size(out, log, procs)
    if description and "source" in description and wanted != ".json":
        log = log.noted(
            ", ".join(f"{name} {value}" for name, value in description.items() if not isinstance(value, list))
        )
    if wanted == ".swf":
        write_log(log, out)
        return len(log)
    if wanted == ".parquet":
        write_parquet(log, out)
        return len(log)
    rows = job_rows(out, [log])
    machine = known_size(out, machine_size(out, log, procs))
    jobs = jobs_in(log, rows, overrun=overrun, margin_s=BATSIM_MARGIN_S, changed=Counter())
    return write_batsim_json(out, [(jobs, {})], procs=machine, description=description)


def write_parquet(log: SwfLog, path: Path) -> None:
    """Write the log; columns that hold whole numbers only become integers. Reading it gives the same log."""
    pa, pq = optional("pyarrow", "tables"), optional("pyarrow.parquet", "tables")
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
    pa, pq = optional("pyarrow", "tables"), optional("pyarrow.parquet", "tables")
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
