"""`batfill fidelity`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.cli import warn
from batfill.cli.parameters import (
    FILE,
    JSON,
    OVERRUN,
    PROCS,
    UNREQUESTED,
    command,
    out_option,
    seed_option,
)
from batfill_site.cli.of_slurm import RUNS, require_one_kind, site_options

if TYPE_CHECKING:
    from pathlib import Path


@command()
@click.argument("log", metavar="LOG", type=FILE)
@click.option("--fit/--no-fit", default=True, help="Also fit what the site does, and score it on the later jobs.")
@PROCS
@OVERRUN
@UNREQUESTED
@site_options
@RUNS
@seed_option("what differs between the runs")
@out_option("file", "Write the full result to this JSON file.", example="fidelity.json")
@JSON
def fidelity(
    log: Path,
    fit: bool,
    site: dict[str, Any],
    runs: int | None,
    seed: int,
    out: Path | None,
    as_json: bool,
    **how: Any,
) -> None:
    """How far simulated waits are from those in a log, and why.

    Fits what at the site explains the difference. The replay is FCFS with EASY backfilling, plain and with the outages
    that the log shows as announced windows. LOG is SWF with waits, or a cluster's accounting. With --slurm-conf the
    site's Slurm is modelled, and LOG is what `sacct -P` prints.
    """
    from batfill_site import fidelity as library

    require_one_kind(site, {"runs", "seed"}, {"log", "out", "as_json"})
    how |= {"seed": seed, **site, **({} if runs is None else {"runs": runs})} if site else {"fit": fit}
    found = library.fidelity(log, **how)
    warn(found["input"]["warnings"])
    if out is not None:
        found.save(out)
    print(found.as_json() if as_json else found.as_text())
