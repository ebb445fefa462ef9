"""`batfill fidelity`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.cli import warn
from batfill.cli.parameters import FILE, JSON, OVERRUN, PROCS, UNREQUESTED, command, out_option

if TYPE_CHECKING:
    from pathlib import Path


@command()
@click.argument("log", metavar="LOG", type=FILE)
@click.option("--fit/--no-fit", default=True, help="Also fit what the site does, and score it on the later jobs.")
@PROCS
@OVERRUN
@UNREQUESTED
@out_option("file", "Write the full result to this JSON file.")
@JSON
def fidelity(log: Path, fit: bool, out: Path | None, as_json: bool, **how: Any) -> None:
    """How far simulated waits are from those in a log, and why.

    Fits what at the site explains the difference. The replay is FCFS with EASY backfilling, plain and with the outages
    that the log shows as announced windows. LOG is SWF with waits, or a cluster's accounting.
    """
    from batfill_site import fidelity as library

    found = library.fidelity(log, fit=fit, **how)
    warn(found["input"]["warnings"])
    if out is not None:
        found.save(out)
    print(found.as_json() if as_json else found.as_text())
