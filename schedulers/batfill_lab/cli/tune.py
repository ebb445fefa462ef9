"""`batfill tune`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.base.errors import LARGEST
from batfill.base.progress import progress
from batfill.cli import warn
from batfill.cli.parameters import (
    JSON,
    MONTHS,
    OVERRUN,
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
from batfill.model.options import OPTIONS

if TYPE_CHECKING:
    from pathlib import Path


@command(heading="search")
@WORKLOAD
@PROCS
@choice_option("--method", choices=("coverage", "xnes"), help="Evaluate a whole grid, or search by xNES.")
@choice_option(
    "--features", choices=("3", "6"), help="Weigh q, p~ and w, or also p~/q, (w+p~)/p~ and p~ q (xnes only)."
)
@choice_option(
    "--units",
    choices=("typical", "plain"),
    help="Units of the weights: a feature's typical value, or seconds and processors.",
)
@click.option("--points", type=Whole(6, LARGEST), help="coverage: the grid's points, at least [default: 10000].")
@click.option("--evaluations", type=WHOLE, help="xnes: policies evaluated per question [default: 1000].")
@seed_option("xnes and of the intervals")
@scheduler_option(
    OPTIONS["backfill"],
    help="The order of backfilling [default: spf, as in the 2019 study].",
)
@scheduler_option(OPTIONS["threshold"])
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
    help="Compare this policy too, in addition to the twelve pure ones. Repeatable.",
)
@click.option("--baseline", type=PolicyName(), default="saf", help="The policy that all are compared with.")
@OVERRUN
@UNREQUESTED
@out_option("file", "Write the full result to this JSON file.", example="tune.json")
@JSON
def tune(
    workload: Path,
    threshold: float | None,
    days: float | None,
    months: bool,
    last: str,
    policy: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Search mixed policies on a log's weeks, and test them.

    They are tested on the weeks that follow. WORKLOAD is an SWF log (plain, .gz, .xz, .bz2), or a Batsim JSON
    workload.
    """
    from batfill_lab.search import tune as library

    given = {name: value for name, value in how.items() if value is not None}
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
