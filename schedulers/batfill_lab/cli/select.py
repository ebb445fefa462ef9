"""`batfill select`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.base.progress import progress
from batfill.cli import warn
from batfill.cli.parameters import (
    JSON,
    OVERRUN,
    PROCS,
    UNREQUESTED,
    WHOLE,
    WHOLE_OR_NONE,
    WORKLOAD,
    choice_option,
    command,
    out_option,
    scheduler_options,
    seed_option,
)
from batfill.model.options import OPTIONS
from batfill_lab.online.settings import METHODS, SELECTION

if TYPE_CHECKING:
    from pathlib import Path


@command(heading="selection")
@WORKLOAD
@PROCS
@choice_option(
    "--method",
    choices=METHODS,
    help="Replay each past period under all policies, exactly or with errors; or learn only from the policy used.",
)
@scheduler_options(
    *("policies", "period", "lambda", "alpha", "epsilon", "gamma", "noise", "backfill", "threshold"), more=SELECTION
)
@click.option(
    "--samples",
    type=WHOLE_OR_NONE,
    default=0,
    help="Number of resamplings of the log's weeks; 0 uses the log as it is.",
)
@click.option("--weeks", type=WHOLE, help="Length of a sample [default: the log's].")
@seed_option("the samples, the noise and the choices")
@OVERRUN
@UNREQUESTED
@out_option("file", "Write the full result to this JSON file.", example="select.json")
@JSON
def select(
    workload: Path,
    options: dict[str, Any],
    out: Path | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Select the policy after each period, from the past periods, and compare waits with EASY-FCFS.

    WORKLOAD is an SWF log (plain, .gz, .xz, .bz2), or a Batsim JSON workload.
    """
    from batfill_lab.search import select as library

    found = library.select(
        workload,
        **how,
        **{(OPTIONS | SELECTION)[name].argument: value for name, value in options.items()},
        bar=progress,
    )
    warn(found["input"]["warnings"])
    if out is not None:
        found.save(out)
    print(found.as_json() if as_json else found.as_text())
