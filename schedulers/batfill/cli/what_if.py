"""`batfill what-if`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from batfill.cli.parameters import (
    FILE,
    JSON,
    OVERRUN,
    POSITIVE_SECONDS,
    PROCS,
    TAU,
    former_option,
    out_option,
    seed_option,
)

if TYPE_CHECKING:
    from pathlib import Path

# A shorter threshold may be meant in hours, which this option was in once.
SHORT_S = 600


@click.command("what-if")
@click.argument("log", metavar="LOG", type=FILE)
@PROCS
@out_option("Write the answer as one HTML page.")
@former_option("--output", instead="--out")
@click.option(
    "--threshold",
    type=POSITIVE_SECONDS,
    multiple=True,
    help="Durations after which waiting jobs come first. Repeatable [default: 6h 12h 24h 48h 96h].",
)
@click.option(
    "--small-first/--no-small-first",
    default=True,
    show_default=True,
    help="Also try a classifier that puts small jobs first; it takes the longest.",
)
@OVERRUN
@TAU
@seed_option("the bootstrap and the classifier")
@JSON
def what_if(
    log: Path,
    procs: int | None,
    out: Path | None,
    threshold: tuple[float, ...],
    small_first: bool,
    overrun: Any,
    tau: float,
    seed: int,
    as_json: bool,
) -> None:
    """What other schedulers would have done to waiting and slowdown on a cluster's own log, and who would lose.

    LOG is SWF, Parquet or Batsim JSON; `batfill workload import` makes one of a cluster's accounting.
    """
    import json
    import shlex

    from batfill.cli import warn
    from batfill.cli.progress import progress
    from batfill.compiled import announce_compilation
    from batfill.engine import advance as engine
    from batfill.report import what_if as library
    from batfill.report import what_if_page as pages
    from batfill.workloads.files import write_text

    announce_compilation(engine)
    short = [seconds for seconds in threshold if seconds < SHORT_S]
    if short:
        print(f"batfill: option threshold: {short[0]:g} is in seconds; write {short[0]:g}h for hours", file=sys.stderr)
    thresholds = [seconds / 3600 for seconds in threshold] or library.THRESHOLDS_H
    with progress("choices", len(library.choices(thresholds, small_first, seed))) as advance:
        answer = library.what_if(
            log,
            procs=procs,
            overrun=overrun,
            thresholds_h=thresholds,
            small_first=small_first,
            tau_s=tau,
            seed=seed,
            advance=advance,
        )
    if out is not None:
        write_text(out, pages.as_page(answer, log, shlex.join(sys.argv)))
        print(f"batfill: look at it in a browser: {out}", file=sys.stderr)
    if as_json:  # the text has them beside the advice
        warn(answer.workload.warnings)
    print(json.dumps(answer.as_dict(), indent=1) if as_json else pages.as_text(answer))
