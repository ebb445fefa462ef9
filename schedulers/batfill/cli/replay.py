"""`batfill replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.cli.parameters import JSON, OVERRUN, PROCS, TAU, WORKLOAD, out_option, scheduler_options

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@WORKLOAD
@PROCS
@scheduler_options()
@TAU
@OVERRUN
@out_option("Write PREFIX_jobs.csv and its kin, as Batsim does.", metavar="PREFIX")
@JSON
def replay(
    workload: Path,
    procs: int | None,
    options: dict[str, Any],
    tau: float,
    overrun: Any,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run one policy over a whole workload in the compiled engine, and print its figures.

    WORKLOAD is an SWF log (plain, .gz, .xz, .bz2), Parquet, or a Batsim JSON workload.
    """
    from batfill.cli import warn
    from batfill.cli.progress import progress
    from batfill.compiled import announce_compilation
    from batfill.engine import advance
    from batfill.experiment import replay_file

    announce_compilation(advance)
    with progress("jobs judged") as judged:
        report = replay_file(workload, options, procs=procs, tau_s=tau, overrun=overrun, out=out, advance=judged)
    warn(report.options.remarks)
    if as_json:  # the table has them
        warn(report.workload.warnings)
    print(report.as_json() if as_json else report.as_text())
