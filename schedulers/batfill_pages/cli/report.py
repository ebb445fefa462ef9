"""`batfill report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.base.progress import progress
from batfill.cli import command_line
from batfill.cli.parameters import FILE, JSON, SECONDS, TAU, Choice, command, out_option, seed_option

if TYPE_CHECKING:
    from pathlib import Path


@command()
@click.argument("places", metavar="DIR...", nargs=-1, required=True, type=FILE)
@out_option("file", "The page to write; by default DIR/report.html.", example="report.html")
@TAU
@click.option(
    "--threshold", "overdue_s", type=SECONDS, help="Mark jobs that waited longer than this, a duration, as overdue."
)
@click.option(
    "--figures",
    default="",
    show_default=False,
    help="Also write figures for papers, each with its data: some of pdf,svg,png.",
)
@click.option(
    "--columns",
    type=Choice(["1", "2"]),
    default="1",
    callback=lambda *given: int(given[-1]),
    help="Width of the figures: one column of a two-column page (3.5 in) or both (7.16 in).",
)
@seed_option("the intervals and of the sample")
@JSON
def report(places: tuple[Path, ...], out: Path | None, figures: str, as_json: bool, **how: Any) -> None:
    """Write a self-contained HTML page about these runs: Gantt, curves, tables; several runs are compared.

    Every <prefix>_jobs.csv below DIR is a run: from `batfill run`, `batfill replay --out`, or Batsim itself.
    Runs of the same jobs are compared with the first of them. Prints the names of the files written.

    DIR is a folder with runs, or the prefix of a run's result files.
    """
    from batfill.base.files import json_text
    from batfill_pages.write import write_report

    with progress("runs read and described") as advance:
        written = write_report(
            places,
            out,
            **how,
            figures=[name.strip() for name in figures.split(",") if name.strip()],
            command=command_line(),
            advance=advance,
        )
    print(json_text([str(path) for path in written]) if as_json else "\n".join(map(str, written)))
