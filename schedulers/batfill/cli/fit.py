"""`batfill fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.cli import warn
from batfill.cli.parameters import JSON, POSITIVE, PROCS, WHOLE, WORKLOAD, choice_option, out_option, seed_option
from batfill.cli.progress import announce_compilation, progress

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@WORKLOAD
@PROCS
@click.option("--tuples", type=WHOLE, default=441, help="Number of subtraces to score.")
@click.option("--permutations", type=WHOLE, default=256_000, help="Number of orders of each subtrace.")
@choice_option(
    "--shuffle",
    choices=("fair", "published"),
    help="Every order equally likely, or biased as in the published code.",
)
@choice_option("--weights", choices=("pq", "pq2"), help="Weight of a squared error: p q, or (p q)^2 as published.")
@seed_option("the subtraces and the orders")
@click.option("--evaluate", is_flag=True, help="Also compare the functions with six known policies on windows.")
@click.option("--days", type=POSITIVE, help="--evaluate: length of a window in days [default: 15].")
@click.option("--count", type=WHOLE, help="--evaluate: only this many windows, from the first.")
@out_option("Write the policy file, for --policy lin@FILE, qdr@FILE, cub@FILE, qua@FILE.")
@JSON
def fit(
    workload: Path,
    procs: int | None,
    evaluate: bool,
    days: float | None,
    count: int | None,
    out: Path | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Learn heuristics by regression on the scores of many random schedules, and save them as policies.

    WORKLOAD is an SWF log (plain, .gz, .xz, .bz2), Parquet, or a Batsim JSON workload.
    """
    import sys

    from batfill.tuning import heuristics
    from batfill.tuning.results import as_json as text_of

    heuristics.check_window_options(evaluate, days=days, count=count)
    fitted = heuristics.fit(workload, procs=procs, **how, bar=progress)
    warn(fitted["input"]["warnings"])
    if out is not None:
        fitted.save(out)
    evaluation = None
    if evaluate:
        announce_compilation()
        width = 15 if days is None else days
        evaluation = fitted.evaluate(workload, procs=procs, days=width, count=count, bar=progress)
    if as_json:
        print(text_of({**fitted, "evaluation": evaluation} if evaluation else fitted))
        return
    print(fitted.as_text())
    if evaluation:
        print(f"\n{evaluation.as_text()}")
    for found in fitted.fits:
        for warning in found.warnings:
            print(f"batfill: {found.name}: {warning}", file=sys.stderr)
