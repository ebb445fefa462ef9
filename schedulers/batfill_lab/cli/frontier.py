"""`batfill frontier`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.cli import note, warn
from batfill.cli.parameters import (
    JSON,
    OVERRUN,
    PROCS,
    TAU,
    UNREQUESTED,
    WHOLE,
    WORKLOAD,
    PolicyName,
    command,
    out_option,
    scheduler_options,
)
from batfill.model.options import NAMES, SHARED_BY_ALL, SHARED_BY_TRIES, arguments_of

if TYPE_CHECKING:
    from pathlib import Path


@command()
@WORKLOAD
@PROCS
@click.option(
    "--policy", type=PolicyName(several=True), default="fcfs,spf", help="Orders of the queue, separated by commas."
)
@click.option(
    "--cuts",
    default="0,0.1,0.2,0.35,0.5,0.75",
    help="Probabilities from which a job counts as small, separated by commas.",
)
@click.option(
    "--protected",
    default="0",
    help="Shares of the jobs that must not be killed, separated by commas.",
)
@scheduler_options(*SHARED_BY_ALL, *(name for name in SHARED_BY_TRIES if name in NAMES), "seed")
@TAU
@OVERRUN
@UNREQUESTED
@out_option("folder", "Write frontier.csv, .svg and .json into this folder.")
@click.option("--workers", type=WHOLE, help="Number of processes for the replays [default: one per processor].")
@JSON
def frontier(
    workload: Path,
    procs: int | None,
    policy: str,
    cuts: str,
    protected: str,
    options: dict[str, Any],
    out: Path | None,
    workers: int | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Show what killing small jobs buys and who pays: slowdown, wasted work and waits, for an administrator to choose.

    WORKLOAD is an SWF log (plain, .gz, .xz, .bz2), Parquet, or a Batsim JSON workload.
    """
    from batfill.base.errors import require
    from batfill.base.files import json_text
    from batfill.base.processes import cpu_count
    from batfill.model.policy import names_in
    from batfill_lab.learning import frontier as library

    if out is not None:
        require("report", "matplotlib")

    found = library.frontier(
        workload,
        procs=procs,
        policies=names_in(policy),
        cuts=library.shares_in("cuts", cuts),
        protected=library.shares_in("protected", protected),
        **arguments_of(options),
        **how,
        workers=workers or cpu_count(),
        report=note,
    )
    warn(found.provenance["warnings"])
    if out is not None:
        from batfill_lab.learning.front import write_frontier

        write_frontier(found.points, out, found.provenance)
    print(json_text(found.as_dict()) if as_json else found.as_text())
