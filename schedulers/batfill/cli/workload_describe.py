"""`batfill workload describe`: what a log holds and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def describe(
    source: Annotated[Path, typer.Argument(metavar="IN", help="SWF, Parquet or Batsim JSON.")],
    procs: Annotated[int | None, typer.Option(help="Machine size [default: what the log says].")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Report on a log: jobs, users, span, load, quality, premature jobs, and what each cleaning rule would drop."""
    from batfill.cli.progress import progress
    from batfill.workloads import describe as library

    with progress("rows read") as advance:
        report = library.describe(source, procs=procs, advance=advance)
    if json:
        import orjson

        print(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode())
    else:
        print(library.as_text(report))
