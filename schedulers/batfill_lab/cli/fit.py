"""`batfill fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.base.progress import progress
from batfill.cli import note, warn
from batfill.cli.parameters import (
    JSON,
    OVERRUN,
    POSITIVE,
    PROCS,
    UNREQUESTED,
    WHOLE,
    WORKLOAD,
    choice_option,
    command,
    out_option,
    seed_option,
)

if TYPE_CHECKING:
    from pathlib import Path


@command()
@WORKLOAD
@PROCS
@click.option("--tuples", type=WHOLE, default=4000, help="Number of subtraces to score.")
@click.option("--permutations", type=WHOLE, default=4000, help="Number of orders of each subtrace.")
@choice_option(
    "--regression",
    choices=("signed", "plain"),
    help="area and lin, with no weight for larger jobs or the order of arrival; or lin, qdr, cub and qua as published.",
)
@choice_option(
    "--shuffle",
    choices=("fair", "published"),
    help="Every order equally likely, or biased as in the published code.",
)
@choice_option("--weights", choices=("pq", "pq2"), help="Weight of a squared error: p q, or (p q)^2 as published.")
@click.option("--days", type=POSITIVE, default=15.0, help="Length of a window in days.")
@click.option("--count", type=WHOLE, help="Use only this many windows, from the first.")
@click.option(
    "--training",
    type=WHOLE,
    help="Learn from this many windows, from the first, and test on the others; by default half.",
)
@seed_option("the subtraces, the orders and the comparison")
@OVERRUN
@UNREQUESTED
@out_option(
    "file",
    "Write the policy file, for --policy area@FILE and so on, or @FILE for what is recommended.",
    example="fitted.json",
)
@JSON
def fit(
    workload: Path,
    procs: int | None,
    out: Path | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Learn policies by regression on random schedules.

    Scores random orders of jobs, fits functions to the scores, and tests them. WORKLOAD is an SWF log (plain, .gz, .xz,
    .bz2), or a Batsim JSON workload.
    """
    from batfill_lab.learning import fit as library

    fitted = library.fit(workload, procs=procs, **how, bar=progress)
    warn(fitted["input"]["warnings"])
    if out is not None:
        fitted.save(out)
    if as_json:
        print(fitted.as_json())
        return
    print(fitted.as_text())
    for found in fitted.fits:
        for warning in found.warnings:
            note(f"{found.name}: {warning}")
