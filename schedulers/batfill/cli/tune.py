"""`batfill tune`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from batfill.base.doors import door
from batfill.base.errors import LARGEST, BatfillError
from batfill.cli import warn
from batfill.cli.parameters import (
    JSON,
    MONTHS,
    OVERRUN,
    PART,
    POSITIVE,
    PROCS,
    TAU,
    UNREQUESTED,
    WHOLE,
    WHOLE_OR_NONE,
    WORKLOAD,
    PolicyName,
    Whole,
    boundary_option,
    choice_option,
    command,
    out_option,
    scheduler_option,
    seed_option,
)
from batfill.cli.progress import progress
from batfill.model.options import OPTIONS

if TYPE_CHECKING:
    from pathlib import Path

# What only one family uses.
OF_MIXED = ("method", "features", "units", "evaluations", "boundary", "skip", "count", "min_jobs", "last")
OF_AGED = ("max_wait_growth", "p999_wait_growth")


def refuse_unused(family: str) -> None:
    """Refuse the options that were given a value of their own and that this family does not use.

    Raises:
        BatfillError: there is one.
    """
    context = click.get_current_context()
    unused = OF_AGED if family == "mixed" else (*OF_MIXED, "months")
    for parameter in context.command.params:
        name = parameter.name or ""
        usual = 0 if name == "max_wait_growth" else parameter.get_default(context)
        given = context.get_parameter_source(name) is not ParameterSource.DEFAULT
        if name in unused and given and context.params[name] != usual:
            raise BatfillError(f"{parameter.opts[0]}: --family {family} does not use it; leave it out")


@command()
@WORKLOAD
@PROCS
@choice_option(
    "--family",
    choices=("mixed", "aged"),
    help="The policies searched: linear mixed ones, each week from an empty machine, for the lowest cost; or aged "
    "orders on the whole log, for the lowest cost that keeps the long waits.",
)
@choice_option("--method", choices=("coverage", "xnes"), help="Evaluate a whole grid, or search by xNES.")
@choice_option(
    "--features", choices=("3", "6"), help="Weigh q, p~ and w, or also p~/q, (w+p~)/p~ and p~ q (xnes only)."
)
@choice_option(
    "--units",
    choices=("typical", "plain"),
    help="Units of the weights: a feature's typical value, or seconds and processors.",
)
@click.option(
    "--points",
    type=Whole(6, LARGEST),
    help="coverage: the grid's points, at least [default: 10000]; aged: the orders searched [default: 64].",
)
@click.option("--evaluations", type=WHOLE, help="xnes: policies evaluated per question [default: 1000].")
@click.option(
    "--max-wait-growth",
    type=PART,
    help="aged: how much longer than the baseline's the longest wait may be, as 10% or 0.1 [default: 0%, or no limit "
    "with --p999-wait-growth].",
)
@click.option("--p999-wait-growth", type=PART, help="aged: the same for the 99.9 % quantile of the waits.")
@seed_option("xnes, of the aged orders and of the intervals")
@scheduler_option(
    OPTIONS["backfill"],
    help="The order of backfilling [default: spf, as in the 2019 study; aged: the queue's own].",
)
@scheduler_option(
    OPTIONS["threshold"],
    help="Jobs that have waited longer come first; aged orders are searched without it and with it.",
)
@TAU
@click.option("--days", type=POSITIVE, help="Length of a period in days [default: 7].")
@MONTHS
@boundary_option("submit-finish", "Which jobs a period keeps; see `batfill workload split`.")
@click.option("--skip", type=WHOLE_OR_NONE, default=0, help="Leave out this many periods at the start.")
@click.option("--count", type=WHOLE, help="Use this many consecutive periods.")
@click.option("--min-jobs", type=WHOLE, default=1, help="Leave out periods with fewer jobs.")
@click.option("--training", type=WHOLE, help="Number of training periods, from the first; by default half.")
@click.option(
    "--last",
    default="1,4",
    help="Walk forward: tune on this many past periods, use it in the next.",
)
@click.option(
    "--policy",
    multiple=True,
    type=PolicyName(),
    help="Compare this policy too; mixed: in addition to the twelve pure ones. Repeatable.",
)
@click.option("--baseline", type=PolicyName(), default="saf", help="The policy that all are compared with.")
@OVERRUN
@UNREQUESTED
@out_option("file", "Write the full result to this JSON file.")
@JSON
def tune(
    workload: Path,
    family: str,
    threshold: float | None,
    days: float | None,
    policy: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Search mixed policies or aged orders on a log's weeks, and test the result on the weeks that follow.

    WORKLOAD is an SWF log (plain, .gz, .xz, .bz2), Parquet, or a Batsim JSON workload.
    """
    from batfill.search import tune as library

    refuse_unused(family)
    given = {name: value for name, value in how.items() if value is not None}
    months, last = given.pop("months"), given.pop("last")
    if family == "aged":
        shared = {name: value for name, value in given.items() if name not in OF_MIXED}
        days = 7 if days is None else days
        found = door("tune_aged")(workload, threshold_s=threshold, days=days, policies=policy, **shared, bar=progress)
    else:
        given = {name: value for name, value in given.items() if name not in OF_AGED}
        given["features"] = int(given["features"])
        found = library.tune(
            workload,
            threshold_s=threshold,
            days=library.period_length(days, months),
            last=library.whole_numbers("--last", last),
            policies=policy,
            **given,
            bar=progress,
        )
    warn(found["input"]["warnings"])
    if out is not None:
        found.save(out)
    print(found.as_json() if as_json else found.as_text())
