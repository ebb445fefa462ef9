"""`batfill tune`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.cli import warn
from batfill.cli.parameters import (
    FILE,
    JSON,
    MONTHS,
    POSITIVE,
    PROCS,
    TAU,
    WHOLE,
    WHOLE_OR_NONE,
    WORKLOAD,
    PolicyName,
    Whole,
    boundary_option,
    grouped,
    out_option,
    scheduler_option,
    seed_option,
)
from batfill.cli.progress import announce_compilation, progress
from batfill.options import LARGEST, OPTIONS

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@WORKLOAD
@PROCS
@click.option(
    "--method",
    type=click.Choice(["coverage", "xnes"]),
    default="coverage",
    help="Look up a whole grid, or search by xNES.",
)
@click.option(
    "--features",
    type=click.Choice(["3", "6"]),
    default="3",
    help="Weigh q, p~ and w, or also p~/q, (w+p~)/p~ and p~ q (xnes only).",
)
@click.option(
    "--units",
    type=click.Choice(["typical", "plain"]),
    default="typical",
    help="Weights count per typical value of a feature, or per second and processor.",
)
@click.option("--points", type=Whole(6, LARGEST), help="coverage: the grid's points, at least [default: 10000].")
@click.option("--evaluations", type=WHOLE, help="xnes: policies looked at per question [default: 1000].")
@seed_option("xnes and of the bootstrap")
@scheduler_option(OPTIONS["backfill"], default="spf", help="The order of backfilling; spf as in the 2019 study.")
@scheduler_option(OPTIONS["threshold"])
@TAU
@click.option("--days", type=POSITIVE, help="How long a period is [default: 7].")
@MONTHS
@boundary_option("submit-finish", "Which jobs a period keeps; see `batfill workload split`.")
@click.option("--skip", type=WHOLE_OR_NONE, default=0, help="Leave out so many periods at first.")
@click.option("--count", type=WHOLE, help="Take so many consecutive periods.")
@click.option("--min-jobs", type=WHOLE, default=1, help="Leave out periods with fewer jobs.")
@click.option("--training", type=WHOLE, help="Periods that w*train learns from, at first; by default half.")
@click.option(
    "--last",
    default="1,4",
    help="Walk forward: tune on the last so many periods, use it in the next.",
)
@click.option(
    "--policy",
    multiple=True,
    type=PolicyName(),
    help="Compare these policies too (may be repeated), beside the twelve pure ones.",
)
@click.option("--baseline", type=PolicyName(), default="saf", help="What all are compared with.")
@click.option("--maps", type=FILE, help="coverage: a folder for a map of each period.")
@out_option("Write all of it to this JSON file.")
@JSON
@grouped("conditions", "backfill", "threshold", "tau_s")
@grouped("periods", "procs", "boundary", "skip", "count", "min_jobs")
def tune(
    workload: Path,
    features: str,
    conditions: dict[str, Any],
    days: float | None,
    months: bool,
    periods: dict[str, Any],
    last: str,
    policy: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    **plan_options: Any,
) -> None:
    """Search mixed policies on a log's weeks, and test what was learned on the weeks that follow.

    WORKLOAD is an SWF log (plain, .gz, .xz, .bz2), Parquet, or a Batsim JSON workload.
    """
    from batfill.files import write_text
    from batfill.policy import PURE
    from batfill.tuning.periods import Conditions, read_periods
    from batfill.tuning.results import as_json as text_of
    from batfill.tuning.results import as_table
    from batfill.tuning.tune import StudyPlan, rows_of, whole_numbers, width_of
    from batfill.tuning.tune import tune as library_tune

    announce_compilation()
    compared = Conditions.of(**conditions)
    plan = StudyPlan(
        features=3 if features == "3" else 6,
        last=whole_numbers("--last", last),
        policies=(*PURE, *policy),
        **plan_options,
    )
    read = read_periods(workload, days=width_of(days, months), **periods)
    warn(read.warnings)
    with progress("searches" if plan.method == "xnes" else "periods", plan.steps(len(read))) as advance:
        found = library_tune(read, compared, plan, advance)
    if out is not None:
        write_text(out, text_of(found) + "\n")
    print(text_of(found) if as_json else f"{as_table(rows_of(found))}\n\nw*train is {found['trained']}")
