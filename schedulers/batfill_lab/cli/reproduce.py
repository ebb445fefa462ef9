"""`batfill reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from batfill.base.progress import progress
from batfill.cli import note
from batfill.cli.parameters import FILE, JSON, NEW_FILE, command, out_option

CHECKOUT = Path(__file__).parents[3]  # of an installation that `make` made


def studies_runner() -> Any:
    """What computes the papers' tables: not in the wheel, but beside the package in a checkout."""
    import sys

    from batfill.base.errors import BatfillError

    if not (CHECKOUT / "studies" / "papers").is_dir():
        raise BatfillError(
            "reproduce: the papers' protocols and computations are not in the installed package; clone the repository, "
            "run `make run` there, and then `.venv/bin/batfill reproduce`"
        )
    if str(CHECKOUT) not in sys.path:
        sys.path.append(str(CHECKOUT))
    from studies.papers import run

    return run


@command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--list", "list_", is_flag=True, help="List the entries, and the logs they need.")
@click.option("--quick", is_flag=True, help="A small version: fewer weeks, samples or points.")
@click.option("--full", is_flag=True, help="As many resamplings as in the papers; takes hours.")
@click.option(
    "--logs",
    metavar="DIR",
    type=FILE,
    help="Folder of the logs [default: $BATFILL_TRACES, then `workload fetch`'s cache].",
)
@click.option("--protocols", metavar="DIR", type=FILE, help="Use the protocols in this folder.")
@out_option(
    "folder",
    "The folder of the results, which later runs reuse.",
    default=Path("expe-out/reproduce"),
)
@click.option("--fresh", is_flag=True, help="Recompute results that exist already.")
@click.option("--figures", default="svg", help="The formats of the figures: some of pdf,svg,png.")
@click.option(
    "--page",
    type=NEW_FILE,
    help="Write a Markdown page that sums up, and one for each paper, with figures, in a folder of its name.",
)
@JSON
def reproduce(
    names: tuple[str, ...],
    list_: bool,
    protocols: Path | None,
    quick: bool,
    full: bool,
    figures: str,
    as_json: bool,
    **how: Any,
) -> None:
    """Reproduce papers' tables and figures, and compare numbers.

    NAME is PAPER/ENTRY, PAPER for all of it, or all.
    """
    from batfill.base.errors import BatfillError
    from batfill.base.files import json_text

    run = studies_runner()
    if list_:
        listed = run.entries_listing(protocols)
        print(json_text(listed) if as_json else run.as_text(listed))
        return
    if quick and full:
        raise BatfillError("--quick and --full are two sizes of the same computations; choose one")
    done = run.run(
        list(names),
        protocols=protocols,
        size="quick" if quick else "full" if full else "usual",
        formats=figures,
        **how,
        bar=progress,
        say=note,
    )
    print(json_text(run.as_objects(done)) if as_json else run.sections(done))
