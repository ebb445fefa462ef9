"""`batfill select`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.cli import warn
from batfill.cli.parameters import (
    JSON,
    METHODS,
    POSITIVE_SECONDS,
    PROCS,
    SHARE,
    WHOLE,
    WHOLE_OR_NONE,
    WORKLOAD,
    choice_option,
    out_option,
    scheduler_options,
    seed_option,
)
from batfill.cli.progress import announce_compilation, progress

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@WORKLOAD
@PROCS
@choice_option(
    "--method",
    choices=METHODS,
    help="Replay each past period under all policies, exactly or badly; or learn from what was used.",
)
@click.option(
    "--policies",
    default="ten",
    help="`ten`, `twelve`, or names separated by commas (by semicolons, if some are mixed).",
)
@click.option(
    "--period",
    type=POSITIVE_SECONDS,
    default="7d",
    help="Delta: the time between choices, a duration.",
)
@click.option("--lambda", type=SHARE, help="full, noisy: what a period counts for each that came later [default: 0.9].")
@click.option("--alpha", type=SHARE, help="full, noisy: 1 lets periods count by their jobs, 0 all alike [default: 1].")
@click.option("--epsilon", type=SHARE, help="epsilon-greedy: the share of random choices [default: 0.1].")
@click.option("--gamma", type=SHARE, help="exp3: the share of random choices [default: 0.1].")
@click.option("--noise", help="noisy: `walltime` replays with requested times [default], a number spreads run times.")
@scheduler_options("backfill", "threshold")
@click.option(
    "--samples",
    type=WHOLE_OR_NONE,
    default=0,
    help="Resample the log's weeks so often; 0 takes it as it is.",
)
@click.option("--weeks", type=WHOLE, help="Length of a sample [default: the log's].")
@seed_option("the samples, the noise and the choices")
@out_option("Write all of it to this JSON file.")
@JSON
def select(
    workload: Path,
    period: float,
    options: dict[str, Any],
    out: Path | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Choose the policy anew after each period by what the past has shown, and compare waits with EASY-FCFS's.

    WORKLOAD is an SWF log (plain, .gz, .xz, .bz2), Parquet, or a Batsim JSON workload.
    """
    from batfill.tuning import select as library

    announce_compilation()
    found = library.select(
        workload,
        period_s=period,
        lambda_=how.pop("lambda"),
        backfill=options.get("backfill"),
        threshold_s=options.get("threshold"),
        **how,
        bar=progress,
    )
    warn(found["input"]["warnings"])
    if out is not None:
        found.save(out)
    print(found.as_json() if as_json else found.as_text())
