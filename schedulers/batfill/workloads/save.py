"""Writing a log in the format its name asks for: SWF, Batsim JSON or Parquet."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from batfill import __version__
from batfill.errors import WorkloadError
from batfill.workloads.batsim_write import write_batsim_json
from batfill.workloads.files import digest, shown
from batfill.workloads.swf import BATSIM_MARGIN_S, Overrun, jobs_in, known_size, machine_size, with_size
from batfill.workloads.swf_log import FIELDS, LARGEST, SwfLog, write_log
from batfill.workloads.swf_rules import job_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PACKED = (".gz", ".xz", ".bz2")
FORMATS = (".swf", ".json", ".parquet")


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
        from batfill.workloads.parquet import write_parquet

        write_parquet(log, out)
        return len(log)
    rows = job_rows(out, [log])
    machine = known_size(out, machine_size(out, log, procs))
    jobs = jobs_in(log, rows, overrun=overrun, margin_s=BATSIM_MARGIN_S, changed=Counter())
    return write_batsim_json(out, [(jobs, {})], procs=machine, description=description)
