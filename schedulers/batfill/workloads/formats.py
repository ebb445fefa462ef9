"""Reads and writes a log in any format: the content decides when reading, the file's name when writing.

SWF and Batsim JSON. Cleaning, splitting and resampling work on logs, and so on both.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, cast, get_args

import numpy as np

from batfill.base.doors import door
from batfill.base.errors import WorkloadError
from batfill.base.files import (
    CHUNK_BYTES,
    begins_blank,
    decompressed,
    digest,
    held_open,
    path_of,
    place_of,
    shown,
)
from batfill.base.progress import patient_progress
from batfill.base.version import __version__
from batfill.model.jobs import Cancelled, Jobs, Overrun, Unrequested, is_frame, records_of, workload_of_frame
from batfill.model.values import MEMORY, number_from, number_or_text, unrequested_of
from batfill.workloads.swf import (
    OF_JOBS,
    job_rows,
    known_size,
    needed_fields,
    require_requests,
    with_amounts,
    with_assumed,
    with_size,
    workload_of,
)
from batfill.workloads.swf_log import (
    COMPLETED,
    FAILED,
    FIELDS,
    LARGEST_EXACT,
    SwfLog,
    new_log,
    read_log,
    write_log,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

PACKED = (".gz", ".xz", ".bz2")
FORMATS = (".swf", ".json")
ROWS_AT_ONCE = 1 << 17  # that are checked before they are written
System = Literal["slurm", "oar", "pbs"]
Kind = Literal["table", "slurm", "oar", "pbs", "json", "swf"]
# How files of each kind begin: the names of `to_csv`; sacct's names of columns, or a record without them, for its
# reader to refuse; OAR's jobs by id, as an array or as items; a date; a workload of Batsim, or a list, which is none,
# as its reader says.
BEGINNINGS: dict[Kind, re.Pattern[bytes]] = {
    "table": re.compile(rb"(?=[^\n]*\bsubmit_s\b)(?=[^\n]*\bruntime_s\b)\w+,"),
    "slurm": re.compile(
        rb"(?![;{\[])(?:[^\n]*\n)*?(?:(?:[^|\n]*\|)*[ \t]*JobID(?:Raw)?[ \t]*\||(?:[^|\n]*\|)+JobID(?:Raw)?\s)"
        rb"|\d+[^|\s]*\|(?:[^|\n]*\|){4}"
        rb"|(?=[^|\n]*\bJobID(?:Raw)?[,;\t])(?=[^|\n]*\bState\b)[^|\n]*\bSubmit[,;\t]",
        re.IGNORECASE,
    ),
    "oar": re.compile(rb'\[\s*\{|\{\s*"(?:\d+|items)"\s*:'),
    "pbs": re.compile(rb"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;\w;"),
    "json": re.compile(rb"[{\[]"),
}
BEGINNING_BYTES = 4096
BLANK = b"\xef\xbb\xbf \t\r\n"  # blanks, and byte order marks


def kind_of(path: Path) -> Kind:
    """What the file is, by its beginning; SWF if that says nothing else."""
    blank = 0
    with decompressed(path) as content:
        while not (text := content.read(BEGINNING_BYTES)).strip(BLANK) and text:
            blank += len(text)
            if blank > CHUNK_BYTES:
                raise begins_blank(path)
        text = text.lstrip(BLANK)
        text += content.read(BEGINNING_BYTES - len(text))
    return next((kind for kind, begins in BEGINNINGS.items() if begins.match(text)), "swf")


def is_accounting(kind: Kind) -> TypeGuard[System]:
    return kind in get_args(System)


def csv_columns(source: str, text: str) -> dict[str, Any]:
    """The columns of a table of jobs as `to_csv` writes it, by name; empty cells are unknown."""
    try:
        head, *rows = csv.reader(io.StringIO(text), strict=True)
    except (csv.Error, ValueError) as error:
        raise WorkloadError(f"{source}: not CSV ({error or 'no line of names'}); write it again with to_csv") from None
    if odd := next((number for number, row in enumerate(rows, 2) if len(row) != len(head)), None):
        raise WorkloadError(f"{source}:{odd}: {len(rows[odd - 2])} values under {len(head)} names; correct the line")
    texts = dict(zip(head, zip(*rows, strict=True) if rows else [()] * len(head), strict=True))
    return {
        name: list(column) if name in ("job_id", "ids") else [number_or_text(cell) if cell else None for cell in column]
        for name, column in texts.items()
    }


def table_in(path: Path, procs: int | None, unrequested: Unrequested | None) -> Jobs:
    with decompressed(path) as content:
        text = content.read().decode("utf-8-sig", "surrogateescape")
    table = workload_of_frame(csv_columns(str(path), text), procs, unrequested, name=path.name)
    return table.stating(digest=digest(path))


def read_file(
    path: Path,
    *,
    procs: int | None = None,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    cancelled: Cancelled | None = None,
    timezone: str | None = None,
    cores_per_resource: int | None = None,
    speed: float | str | None = None,
    fields: Sequence[str] | None = None,
) -> Jobs:
    """The jobs of a file as by `read_workload`, and their log if its columns, `fields`, are given."""
    zone = "UTC" if timezone is None else timezone
    cores = 1 if cores_per_resource is None else number_from("cores_per_resource", cores_per_resource)
    with held_open(path):
        kind = kind_of(path)
        for name, value, of in (
            ("timezone", timezone, get_args(System)),
            ("cores_per_resource", cores_per_resource, ("oar",)),
        ):
            if value is not None and kind not in of:
                raise WorkloadError(f"{path}: {name} applies to the accounting of {', '.join(of)} only; leave it out")
        if cancelled == "wait" and kind in ("json", "table"):
            raise WorkloadError(f"{path}: cancelled applies to SWF and accounting only; leave it out")
        with patient_progress(f"reading {path.name}") as advance:
            if kind == "json":
                from batfill.workloads.batsim_json import read_batsim_json  # which only such files need

                workload = as_stated(read_batsim_json(path, speed), overrun, unrequested)
                workload = workload if procs is None else workload.stating(size=procs)
                return workload if fields is None else workload.stating(log=log_of(workload))
            if kind == "table":
                workload = table_in(path, procs, unrequested)
                return workload if fields is None else workload.stating(log=log_of(workload))
            if is_accounting(kind):
                log = door("read_accounting")(path, kind, procs=procs, timezone=zone, cores_per_resource=cores)
            else:
                log = read_log(path, fields=fields or needed_fields(unrequested), advance=advance)
            log = replace(log, cancelled=cancelled or "drop")
            workload = workload_of(path, log, procs=procs, overrun=overrun or "keep", unrequested=unrequested)
    if fields is not None:
        workload = prepared(workload.stating(log=log.only(fields)))
    if not is_accounting(kind):
        return workload
    made = [f"{kind} accounting, its dates in {zone}"]
    if procs is None:
        made.append("the machine's size is the most processors seen in use at once")
    read = (text.removeprefix("; Note: ") for text in log.header if text.startswith("; Note: "))
    notes = (*made, *(text for text in read if not text.startswith("MaxProcs ")), *workload.notes)
    of_oar = cores if kind == "oar" else None
    return workload.stating(notes=notes, timezone=zone, cores_per_resource=of_oar, system=kind)


def part_of(whole: Jobs, log: SwfLog) -> Jobs:
    """The jobs of a log that is that of the whole, or made of it."""
    return workload_of(
        whole.where,
        log,
        procs=whole.size,
        overrun=whole.overrun,
        unrequested=whole.unrequested,
        sha256=whole.digest,
    )


def source_of(
    log: Jobs | str | Path,
    *,
    procs: int | None = None,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    cancelled: Cancelled | None = None,
) -> Jobs:
    """The jobs with their log, read again, or made of them; None is the workload's or the file's own choice."""
    if is_frame(log):
        log = workload_of_frame(log, procs)
    if not isinstance(log, Jobs):
        how: dict[str, Any] = {"overrun": overrun, "unrequested": unrequested, "cancelled": cancelled}
        return read_file(path_of(log), procs=procs, **how, fields=FIELDS)
    if log.log is not None:
        return log
    size = log.size if procs is None else procs
    if log.file is None:
        chosen = log.unrequested if unrequested is None else unrequested
        stated = log.stating(size=size, overrun=overrun or log.overrun, unrequested=chosen)
        return prepared(stated.stating(log=log_of(stated)))
    with held_open(log.file):
        if digest(log.file) != log.digest:
            raise WorkloadError(f"{log.file}: has changed since the workload was read from it; read it again")
        kind = kind_of(log.file)
        if kind == "json":
            stated = as_stated(log, overrun, unrequested).stating(size=size)
            return stated.stating(log=log_of(stated))
        return read_file(
            log.file,
            procs=size,
            overrun=overrun or log.overrun,
            unrequested=log.unrequested if unrequested is None else unrequested,
            cancelled=cancelled or log.cancelled,
            timezone=log.timezone if is_accounting(kind) else None,
            cores_per_resource=log.cores_per_resource,
            fields=FIELDS,
        )


def read_once(log: Jobs | str | Path, **reading: Any) -> Jobs:
    """The log, read so that neither `opened` nor `source_of` reads it again."""
    if isinstance(log, Jobs) or is_frame(log):
        return cast("Jobs", log)  # `opened` takes a frame as well
    return read_file(path_of(log), **reading, fields=(*OF_JOBS, "queue", "partition", "group"))


def replayable(
    log: Jobs | str | Path,
    *,
    procs: int | None = None,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    cancelled: Cancelled | None = None,
) -> Jobs:
    """As `source_of`, for a log that is replayed in parts."""
    whole = source_of(log, procs=procs, overrun=overrun, unrequested=unrequested, cancelled=cancelled)
    require_requests(whole.where, whole.log, whole.unrequested)
    return whole


def prepared(whole: Jobs) -> Jobs:
    """The same with what stands in for missing requests in its log, whose parts keep it."""
    if whole.unrequested in ("refuse", "runtime"):
        return whole
    rows = job_rows(Path(whole.where), whole.log).row
    return whole.stating(log=with_assumed(whole.where, whole.log, rows, whole.unrequested))


def with_column(jobs: Jobs, field: str) -> Jobs:
    """The jobs with this column of their log as an amount, for which it is read again; as they are without a log."""
    if jobs.file is None:
        return jobs
    whole, names = source_of(jobs), () if jobs.amounts is None else jobs.amounts.dtype.names or ()
    column = whole.log[field][job_rows(jobs.file, whole.log).row]
    by_id = dict(zip((job.lstrip("0") for job in whole.ids.tolist()), column.tolist(), strict=True))
    amounts = {} if jobs.amounts is None else {name: jobs.amounts[name] for name in names}
    amounts[field] = np.array([by_id.get(job.lstrip("0"), -1.0) for job in jobs.ids.tolist()])
    return replace(jobs, amounts=records_of(jobs.name, len(jobs), amounts))


def as_stated(workload: Jobs, overrun: Overrun | None, unrequested: Unrequested | None) -> Jobs:
    """A Batsim workload, whose walltimes are made; given choices must be those it was made with, or change nothing."""
    jobs, stated = workload.jobs, workload
    where = workload.file or workload.name
    ended = bool((jobs.runtime_s >= jobs.walltime_s).any())
    if overrun is not None and overrun != workload.overrun:
        if ended or jobs.outlives or jobs.raised.any() or overrun == "extend":
            raise WorkloadError(
                f"{where}: its walltimes were made with overrun {workload.overrun}; convert its log with {overrun}"
            )
        stated = stated.stating(overrun=overrun)
    if unrequested is not None and unrequested != workload.unrequested:
        chosen: Unrequested = unrequested_of("unrequested", unrequested)  # type: ignore[assignment]
        if jobs.invented.any() and (workload.unrequested, chosen) != ("refuse", "runtime"):
            raise WorkloadError(
                f"{where}: its walltimes were made with unrequested {workload.unrequested}; convert its log with "
                f"{chosen}"
            )
        if chosen not in ("refuse", "none") and np.isinf(jobs.walltime_s).any():
            raise WorkloadError(
                f"{where}: unrequested {chosen}: jobs of a Batsim workload without a walltime have no limit; give them "
                "one there"
            )
        stated = stated.stating(unrequested=chosen)
    return stated


def load_log(
    path: Path, *, speed: float | str | None = None, advance: Callable[[int], None] = lambda _: None
) -> SwfLog:
    """The log in an SWF or Batsim JSON file; `advance` is called with the number of SWF rows read."""
    with held_open(path):
        kind = kind_of(path)
        if kind == "json":
            from batfill.workloads.batsim_json import read_batsim_json

            workload = read_batsim_json(path, speed)
            return replace(log_of(workload), overrun=workload.overrun, unrequested=workload.unrequested)
        refuse_accounting(path, kind)
        log = read_log(path, advance=advance)
    if not len(log):
        raise WorkloadError(f"{path}: holds no row; is it a complete SWF log?")
    return log


def refuse_accounting(path: Path, kind: Kind) -> None:
    if is_accounting(kind):
        raise WorkloadError(
            f"{path}: is the accounting of {kind}; make a log of it with `batfill workload import {kind}`"
        )


def log_of(workload: Jobs) -> SwfLog:
    """The workload as a log; whole-number ids become job numbers, otherwise jobs are numbered from 1."""
    from batfill.workloads.batsim_json import BATSIM_MARGIN_S

    jobs = workload.jobs
    numbered = all(name.isascii() and name.isdigit() and len(name) < 16 for name in jobs.ids)
    number = np.array([int(name) for name in jobs.ids]) if numbered else np.arange(len(jobs)) + 1
    # A limit raised to the run time gives way to the request; another limit was set by hand and becomes the request.
    raised = (jobs.asked_s <= jobs.runtime_s) & (jobs.walltime_s <= jobs.runtime_s + BATSIM_MARGIN_S)
    requested_s = np.where(raised | np.isinf(jobs.walltime_s), jobs.asked_s, jobs.walltime_s)
    header = [f"Note: from {workload.name}", f"MaxJobs: {len(jobs)}", f"MaxRecords: {len(jobs)}"]
    if workload.size is not None:
        header.append(f"MaxProcs: {workload.size}")
    columns = new_log(
        header,
        {
            "job": number,
            "submit_s": jobs.submit_s,
            **({} if jobs.waited_s is None else {"wait_s": np.where(np.isnan(jobs.waited_s), -1, jobs.waited_s)}),
            "runtime_s": jobs.runtime_s,
            "procs": jobs.procs,
            "requested_procs": jobs.procs,
            "requested_s": np.where(np.isnan(requested_s) | jobs.invented, -1, requested_s),
            "status": np.full(len(jobs), COMPLETED) if jobs.fails is None else np.where(jobs.fails, FAILED, COMPLETED),
            "user": jobs.user,
        },
    )
    if (amounts := jobs.amounts) is not None:
        columns = with_amounts(columns, {name: amounts[name] for name in amounts.dtype.names or ()})
    missing = ~(columns["requested_s"] > 0)
    if not missing.any():
        return columns
    assumed_s = np.where(jobs.asked, jobs.walltime_s, np.minimum(jobs.request_s, jobs.walltime_s))
    return replace(columns, assumed_s=np.where(missing, assumed_s, np.inf))


def format_of(path: Path) -> str:
    suffix = unpacked(path).suffix
    if suffix not in FORMATS:
        raise WorkloadError(f"{path}: name it .swf or .json, also .gz, .xz or .bz2")
    return suffix


def left_behind(names: Iterable[str], out: Path) -> tuple[str, ...]:
    """A line on the amounts of these names that a file of this name cannot hold, if it cannot."""
    others = ", ".join(name for name in names if name != MEMORY)
    if not others or format_of(out) == ".json":
        return ()
    return (f"SWF has a field for memory only, and so not for {others}: dropped; a .json file keeps them",)


def unpacked(path: Path) -> Path:
    return path.with_suffix("") if path.suffix in PACKED else path


def stem_of(path: Path) -> str:
    """The file's name without its format and compression: KTH-SP2-1996-2.1-cln of KTH-SP2-1996-2.1-cln.swf.gz."""
    plain = unpacked(path)
    return plain.stem if plain.suffix in FORMATS else plain.name


def provenance(command: str, source: Path, **choices: object) -> dict[str, object]:
    made_by = f"batfill {__version__} workload {command}"
    return {"made_by": made_by, "source": shown(source.name), "source_sha256": digest(source), **choices}


def made_by(log: SwfLog, description: Mapping[str, object]) -> SwfLog:
    return log.noted(", ".join(f"{name} {value}" for name, value in description.items() if not isinstance(value, list)))


def save_log(
    log: SwfLog,
    out: Path,
    *,
    procs: int | None = None,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    description: Mapping[str, object] | None = None,
) -> int:
    """Write the log; returns the number of jobs (Batsim JSON) or rows (otherwise) in the file.

    SWF keeps all of the log, Batsim JSON its jobs, by `overrun` and `unrequested`, which are the log's by default.
    `procs`: by default what `machine_size` finds. `description`: the file's provenance; in SWF it is a note in the
    header if it names a source (otherwise the log already has such a note).
    """
    wanted = format_of(out)
    for first in range(0, len(log), ROWS_AT_ONCE):
        rows = log.rows[first : first + ROWS_AT_ONCE]
        held = np.abs(rows) <= LARGEST_EXACT
        if not held.all():
            row, column = np.unravel_index(np.argmin(held), held.shape)
            raise WorkloadError(
                f"{out}: {FIELDS[column]} of a row becomes {rows[row, column]:g}, beyond 2^53; "
                "choose a smaller factor or limit"
            )
    log = with_size(out, log, procs)
    if description and "source" in description and wanted != ".json":
        log = made_by(log, description)
    if wanted == ".swf":
        write_log(log, out)
        return len(log)
    from batfill.workloads.batsim_json import write_batsim_json

    jobs = workload_of(
        str(out), log, procs=procs, overrun=overrun or log.overrun, unrequested=unrequested or log.unrequested
    )
    known_size(out, jobs.size)
    choices: dict[str, object] = {"overrun": jobs.overrun} if jobs.overrun != "keep" else {}
    choices |= {} if jobs.asked.all() else {"unrequested": jobs.unrequested}
    by = {"made_by": f"batfill {__version__}"} if choices else {}
    return write_batsim_json(out, jobs, description={**by, **(description or {}), **choices})


def write(log: Jobs | str | Path, path: str | Path) -> Path:
    """Write a workload to a file; its name decides the format.

    SWF holds the log that the workload was read from, with what only the log has, and of the jobs' amounts the memory;
    Batsim JSON holds its jobs with the walltimes of the workload, and all amounts.

    Args:
        log: the workload, a log's file, or a data frame, as for `read_workload`.
        path: the file: .swf or .json, also .gz, .xz or .bz2.

    Returns:
        The file.

    Raises:
        WorkloadError: the name has no known suffix, or the file cannot be written.

    Examples:
        >>> import tempfile
        >>> import batfill as bf
        >>> log = bf.generate(jobs=50, procs=16, seed=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = bf.read(bf.write(log, f"{folder}/log.swf"))
        >>> bool((again["submit_s"] == log["submit_s"]).all())
        True
    """
    out, source = place_of("path", path), source_of(log)
    save_log(source.log, out, procs=source.size, overrun=source.overrun, unrequested=source.unrequested)
    return out
