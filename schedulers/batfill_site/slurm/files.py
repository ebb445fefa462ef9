"""A site's Slurm, its jobs, and the nodes that were reserved or down, from the files that a user gives."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError, WorkloadError
from batfill.base.files import any_length, readable
from batfill.model.dates import date_of
from batfill_site.slurm.conf import read_site
from batfill_site.slurm.hosts import expand
from batfill_site.slurm.jobs import read_jobs
from batfill_site.slurm.site import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from batfill_site.slurm.site import Site, SlurmJobs

VERSION = "22.05"
DATES = ("begin", "end", "announced")  # of a window
REMEDY = "write the columns nodes,begin,end, and announced if it is known before; a list of nodes in double quotes"


def site_of(
    slurm_conf: str | Path,
    *,
    accounts: Sequence[str | Path] = (),
    sshare: str | Path | None = None,
    windows: str | Path | None = None,
    slurm_version: str = VERSION,
) -> Site:
    """The site of these files, which `batfill.slurm` describes.

    Raises:
        BatfillError: a file or the version is unusable.
    """
    files = [*accounts, *([] if sshare is None else [sshare])]
    site = read_site(slurm_conf, version=version_of(slurm_version), accounts=list(map(Path, files)))
    return site if windows is None else replace(site, windows=read_windows(Path(windows), site))


def version_of(text: str) -> tuple[int, int]:
    """The first two numbers of a version of Slurm."""
    first, second = [*str(text).split("."), "", ""][:2]
    if not (first.isdecimal() and second.isdecimal()):
        raise BatfillError(f"option slurm-version: {text!r:.40} is no version of Slurm; give it as 22.05")
    return int(first), int(second)


def jobs_of(log: str | Path | Iterable[str | Path], site: Site, timezone: str | None = None) -> SlurmJobs:
    """The jobs that `sacct -P` printed into a file or several; those without a limit have their partition's.

    Raises:
        WorkloadError: a file is unusable.
    """
    paths = [Path(log)] if isinstance(log, str | Path) else list(map(Path, log))
    return read_jobs(paths, zone=timezone or "UTC", limits=site.max_times_s)


def read_windows(path: Path, site: Site) -> tuple[Window, ...]:
    """The windows in a CSV file: nodes as Slurm writes them, and dates, ISO or Unix; UTC if they name no zone.

    Raises:
        WorkloadError: a column is missing, a node is unknown, or a window does not end after it begins.
    """
    with readable(path) as stream, any_length():
        rows = list(csv.DictReader(stream.read().decode("utf-8-sig", "replace").splitlines()))
    known = {node.name for node in site.nodes}
    return tuple(window(f"{path}: line {number}", row, known) for number, row in enumerate(rows, start=2))


def window(where: str, row: dict[Any, Any], known: set[str]) -> Window:
    """The window of a row."""
    if None in row or not all(row.get(name) for name in ("nodes", "begin", "end")):
        raise WorkloadError(f"{where}: it is no window; {REMEDY}")
    try:
        nodes = tuple(expand(row["nodes"]))
    except WorkloadError as error:
        raise WorkloadError(f"{where}: {error}; correct it") from None
    if unknown := [name for name in nodes if name not in known]:
        raise WorkloadError(f"{where}: slurm.conf has no node {unknown[0]}; correct its name")
    begin_s, end_s, announced_s = (unix_s(date_of(where, name, row.get(name))) for name in DATES)
    if not begin_s < end_s:
        raise WorkloadError(f"{where}: its end, {row['end']}, is not after its begin, {row['begin']}; correct them")
    return Window(nodes, begin_s, end_s, announced_s)


def unix_s(date: Any) -> float:
    """The Unix time of what `date_of` finds; infinite for none."""
    if date is None or isinstance(date, float):
        return math.inf if date is None else date
    at_s: float = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    return at_s
