"""`batfill report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    places: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders with runs, or prefixes of their result files.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page to write; by default DIR/report.html.")
    ] = None,
    tau: Annotated[float, typer.Option(help="The bound of the bounded slowdown, in seconds.")] = 10.0,
    threshold: Annotated[
        float | None, typer.Option(help="Mark jobs that waited longer than this many seconds as overdue.")
    ] = None,
    figures: Annotated[
        str, typer.Option(help="Also write figures for papers, each with its data: some of pdf,svg,png.")
    ] = "",
    seed: Annotated[int, typer.Option(help="The seed of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the files' names as a JSON list.")] = False,
) -> None:
    """Write one HTML page about these runs that needs no network: Gantt, curves, tables; several runs are compared.

    Every <prefix>_jobs.csv below DIR is a run: of `batfill run`, of `batfill replay --out`, of Batsim itself.
    Runs of the same jobs are compared with the first of them. Prints the names of the files written.
    """
    import json
    import shlex
    import sys

    from batfill.cli.progress import progress
    from batfill.report import write_report

    with progress("runs") as advance:
        written = write_report(
            places,
            output,
            tau_s=tau,
            overdue_s=threshold,
            seed=seed,
            figures=[name.strip() for name in figures.split(",") if name.strip()],
            command=shlex.join(sys.argv),
            advance=advance,
        )
    print(json.dumps([str(path) for path in written], indent=1) if as_json else "\n".join(map(str, written)))
