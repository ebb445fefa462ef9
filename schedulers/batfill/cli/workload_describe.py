"""`batfill workload describe`: what a log holds and what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from batfill.cli.parameters import JSON, PROCS, SOURCE

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@SOURCE
@PROCS
@JSON
def describe(source: Path, procs: int | None, as_json: bool) -> None:
    """Report on a log: jobs, users, span, load, quality, premature jobs, and what each cleaning rule would drop.

    IN is SWF (plain, .gz, .xz, .bz2), Parquet or Batsim JSON.
    """
    from batfill.cli.progress import progress
    from batfill.workloads import describe as library

    with progress("rows read") as advance:
        report = library.describe(source, procs=procs, advance=advance)
    if as_json:
        import orjson

        print(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode())
    else:
        print(library.as_text(report))
