"""`batfill workload clean`: drop rows by named rules, and count them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

Overrun = Literal["leave", "keep", "kill"]


def clean(
    source: Annotated[Path, typer.Argument(metavar="IN", help="SWF, Parquet or Batsim JSON.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The log to write: .swf, .json or .parquet.")],
    rule: Annotated[
        list[str] | None,
        typer.Option(
            help="wide, processors, times (the bandit paper's three), ran (run time > 0), duplicates. Repeatable "
            "[default: wide processors times ran]."
        ),
    ] = None,
    status: Annotated[list[int] | None, typer.Option(help="Keep only rows of this status. Repeatable.")] = None,
    flurries: Annotated[bool, typer.Option("--flurries", help="Drop the flurries that IN's header names.")] = False,
    flurries_from: Annotated[
        Path | None,
        typer.Option(help="Drop the flurries that this log's header names, as the archive's cleaned logs do."),
    ] = None,
    overrun: Annotated[
        Overrun,
        typer.Option(help="Of jobs that ran too long: leave them, keep (raise the request), kill (cut the run)."),
    ] = "leave",
    procs: Annotated[int | None, typer.Option(help="Machine size [default: what the log says].")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the counts as one JSON object.")] = False,
) -> None:
    """Clean a log by named rules; every row dropped or changed is counted by rule."""
    from batfill.cli.progress import progress
    from batfill.workloads import cleaning
    from batfill.workloads.load import load_log
    from batfill.workloads.save import format_of, provenance, save_log
    from batfill.workloads.swf import machine_size

    format_of(out)
    with progress("rows read") as advance:
        log = load_log(source, advance=advance)
    named = cleaning.header_flurries(log.header) if flurries else []
    if flurries_from is not None:
        named += cleaning.header_flurries(load_log(flurries_from).header)
    cleaned = cleaning.clean(
        log,
        rules=(*cleaning.BANDIT, "ran") if rule is None else rule,
        procs=machine_size(source, log.header, procs),
        statuses=status or (),
        flurries=named,
        overrun=overrun,
    )
    made = provenance("clean", source, notes=list(cleaned.log.header[-1:]))
    left = save_log(cleaned.log, out, procs=procs, description=made)
    for name, count in cleaned.dropped.items():
        print(f"{name}: {count} of {len(log)} rows dropped", file=sys.stderr)
    for name, count in cleaned.changed.items():
        print(f"{name}: {count} rows changed", file=sys.stderr)
    print(f"{out}: {left} rows", file=sys.stderr)
    if json:
        import orjson

        counts = {"file": str(out), "rows": left, "dropped": cleaned.dropped, "changed": cleaned.changed}
        print(orjson.dumps(counts, option=orjson.OPT_INDENT_2).decode())
