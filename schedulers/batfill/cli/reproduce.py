"""`batfill reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="PAPER/ENTRY, PAPER for all of it, or all.")
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the names, what they are, and the logs they need.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A small version: fewer weeks, samples or points.")] = False,
    logs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where the logs are [default: $BATFILL_TRACES, then `workload fetch`'s cache]."
        ),
    ] = None,
    protocols: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Take the protocols of this folder, not those of batfill.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of the results, which are taken from there the next time.")] = (
        Path("expe-out/reproduce")
    ),
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute again what is there already.")] = False,
    figures: Annotated[str, typer.Option(help="The formats of the figures: some of pdf,svg,png.")] = "svg",
    page: Annotated[
        Path | None, typer.Option(help="Write one Markdown page of all entries, with figures in a folder beside it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> None:
    """Make tables and figures of the papers again, and print the papers' numbers beside ours."""
    import json
    import sys

    from batfill.cli.progress import progress
    from batfill.compiled import announce_compilation
    from batfill.engine import advance
    from batfill.reproduction import commands

    if list_:
        listed = commands.listing(protocols)
        print(json.dumps(listed, indent=1) if as_json else commands.as_text(listed))
        return
    announce_compilation(advance)
    done = commands.run(
        names or [],
        protocols=protocols,
        logs=logs,
        out=out,
        quick=quick,
        fresh=fresh,
        formats=figures,
        page=page,
        bar=progress,
        say=lambda text: print(f"batfill: {text}", file=sys.stderr),
    )
    print(json.dumps(commands.as_objects(done), indent=1) if as_json else commands.sections(done))
