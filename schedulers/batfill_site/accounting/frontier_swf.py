"""Reads the published trace of Frontier: SWF with three more fields, the last of which says how many nodes a job had.

Field 19 is the number of GPUs used, field 20 a soft limit, field 21 the machine, the mode and the size of a job, such
as frontier:excl:2500x112: 2500 nodes of 112 hardware threads. Source: see `docs/reference/formats.md`.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import LARGEST, WorkloadError
from batfill.workloads.swf_log import CANCELLED, FAILED, FIELD, FIELDS, UNKNOWN_STATUS, SwfLog, number_in, rows_in
from batfill_site.accounting.cluster_log import NAMES, Reading
from batfill_site.accounting.record_text import Names, Times, pieces_of, text_of

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from batfill_site.accounting.centres import Unit

N_FIELDS = 21
EXPECTED = f"Frontier's trace has {N_FIELDS}; read a log with 18 fields as it is, it needs no import"
GPUS = len(FIELDS)  # the place of field 19
SIZES = re.compile(r"[^:]+:([^:]*):(\d{1,9})x(\d{1,9})")
BEGAN = re.compile(rb"^[ \t]*;[ \t]*UnixStartTime[ \t]*:[ \t]*(\d{1,12})", re.MULTILINE | re.IGNORECASE)
EXCLUSIVE = "excl"


def read_frontier(paths: list[Path], reading: Reading, *, unit: Unit | None = None) -> Reading:
    """The jobs of Frontier's SWF files with 21 fields.

    A job's processors are the nodes of field 21, or their hardware threads. Fields 5 and 8, the processors allocated
    and requested, are nodes of some jobs and something else of others: they are not used, and field 5 is compared with
    field 21.

    Args:
        paths: the files, plain or compressed. Each states its UnixStartTime.
        reading: an empty one, with its choices.
        unit: "nodes", the default, or "cores": what a processor of the log is.

    Raises:
        WorkloadError: a line does not hold 21 fields, a field is not a number or beyond 2^53, or a file has no
            UnixStartTime.
    """
    sizes = Names()
    for path in paths:
        _read(path, reading, sizes, "nodes" if unit is None else unit)
    return reading


def _read(path: Path, reading: Reading, sizes: Names, unit: Unit) -> None:
    """Add a file's jobs; `sizes` holds the texts of field 21."""
    names = reading.jobs.names
    before = 0
    reading.files[path] = 0
    began_s: int | None = None
    for text in pieces_of(path):
        gpus: list[float] = []
        texts: list[str] = []
        lines = text.split(b"\n")[:-1]
        plain = b"".join(_as_swf(path, line, before + k, gpus, texts) for k, line in enumerate(lines, 1))
        piece, _ = rows_in(path, plain, before)
        before += len(lines)
        if found := BEGAN.search(text):
            began_s = int(found[1])
        if not len(piece):
            continue
        if began_s is None:
            raise WorkloadError(f"{path}: no UnixStartTime in its header; is it Frontier's published trace?")
        field = {name: piece.rows[:, place] for name, place in FIELD.items()}
        codes = sizes.codes(texts)
        matches = [SIZES.fullmatch(size) for size in sizes]
        nodes = np.array([int(found[2]) if found else -1 for found in matches])[codes]
        threads = np.array([int(found[3]) if found else -1 for found in matches])[codes]
        shared = np.array([found is not None and found[1] not in ("", EXCLUSIVE) for found in matches])[codes]
        sized = (nodes > 0) & (threads > 0) & (nodes * threads <= LARGEST)
        reading.files[path] += len(piece)
        show = partial(_shown, path, piece, sizes, codes)
        if not sized.all():
            reading.note(
                "jobs without nodes in field 21, left out", int(np.count_nonzero(~sized)), show(int(np.argmin(sized)))
            )
        procs = np.where(sized, nodes * (1 if unit == "nodes" else threads), -1)
        submit_s = began_s + field["submit_s"]
        started = (field["wait_s"] >= 0) & (field["runtime_s"] >= 0)
        start_s = np.where(started, submit_s + field["wait_s"], 0)
        known_status = (field["status"] >= FAILED) & (field["status"] <= CANCELLED)
        columns: dict[str, Any] = {
            "submit_s": Times.of(submit_s),
            "start_s": Times.of(start_s),
            "end_s": Times.of(np.where(started, start_s + field["runtime_s"], 0)),
            "procs": procs,
            "requested_procs": procs,
            "requested_s": np.maximum(field["requested_s"], 0),
            "status": np.where(known_status, field["status"], UNKNOWN_STATUS),
            **{kind: _codes(names[kind], field[kind]) for kind in NAMES},
        }
        named = {
            "jobs whose field 5 is not their nodes in field 21, which count": (field["procs"] > 0)
            & (field["procs"] != nodes),
            "jobs that name a preceding job, which is left out, since jobs are numbered again": field["preceding_job"]
            > 0,
            "jobs with a status other than 0, 1 and 5: an unknown one": ~known_status,
        }
        beside = {"used GPUs": np.array(gpus) > 0, "shared their nodes": shared}
        reading.add_ended(columns, sized, show, guessed=named, unmodelled=beside)


def _as_swf(path: Path, line: bytes, number: int, gpus: list[float], sizes: list[str]) -> bytes:
    """A line with the fields of SWF only; the number of GPUs and the text of field 21 are added to the lists."""
    fields = line.split()
    if not fields or fields[0].startswith(b";"):
        return line + b"\n"
    if len(fields) != N_FIELDS:
        raise WorkloadError(f"{path}:{number}: {len(fields)} fields, but {EXPECTED}")
    gpus.append(number_in(path, number, GPUS, fields[GPUS]))
    sizes.append(text_of(fields[-1]))
    return b" ".join(fields[: len(FIELDS)]) + b"\n"


def _shown(path: Path, piece: SwfLog, sizes: Names, codes: NDArray[np.int32], row: int) -> str:
    """A row's line, job, and what its times and its size come from."""
    shown = ("job", "submit_s", "wait_s", "runtime_s", "procs", "status")
    fields = ", ".join(f"{name} {piece.rows[row, FIELD[name]]:.15g}" for name in shown)
    return f"{path.name}:{piece.lines[row]}: {fields}, field 21 {sizes.text(int(codes[row]))}"


def _codes(names: Names, numbers: NDArray[np.float64]) -> NDArray[np.int32]:
    """The number in `names` of each number's text, (n,); an unknown one (-1) has none."""
    found, of = np.unique(numbers.astype(np.int64), return_inverse=True)
    return names.codes(["" if number < 0 else str(number) for number in found.tolist()])[of]
