"""`batfill tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from batfill.cli import ordering


def tune(
    workload: Annotated[Path, typer.Argument(help="An SWF, Parquet or Batsim JSON log.")],
    procs: Annotated[
        int | None, typer.Option(help="The machine's processors; by default what the log says.", min=1)
    ] = None,
    method: Annotated[
        Literal["coverage", "xnes"], typer.Option(help="Look up a whole grid, or search by xNES.")
    ] = "coverage",
    features: Annotated[
        Literal["3", "6"], typer.Option(help="Weigh q, p~ and w, or also p~/q, (w+p~)/p~ and p~ q (xnes only).")
    ] = "3",
    units: Annotated[
        Literal["typical", "plain"],
        typer.Option(help="Weights count per typical value of a feature, or per second and processor."),
    ] = "typical",
    points: Annotated[
        int | None, typer.Option(help="coverage: the grid's points, at least [default: 10000].", min=6)
    ] = None,
    evaluations: Annotated[
        int | None, typer.Option(help="xnes: policies looked at per question [default: 1000].", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of xnes and of the bootstrap.", min=0)] = 0,
    backfill: ordering.Backfill = "spf",
    threshold: ordering.Threshold = None,
    tau: Annotated[float, typer.Option(help="The bound of the bounded slowdown, in seconds.")] = 10.0,
    days: Annotated[float | None, typer.Option(help="How long a period is [default: 7].")] = None,
    months: Annotated[bool, typer.Option("--months", help="Calendar months instead.")] = False,
    boundary: Annotated[
        Literal["submitted", "submit-finish", "start-finish"],
        typer.Option(help="Which jobs a period keeps; see `batfill workload split`."),
    ] = "submit-finish",
    skip: Annotated[int, typer.Option(help="Leave out so many periods at first.", min=0)] = 0,
    count: Annotated[int | None, typer.Option(help="Take so many consecutive periods.", min=1)] = None,
    min_jobs: Annotated[int, typer.Option(help="Leave out periods with fewer jobs.", min=1)] = 1,
    training: Annotated[
        int | None, typer.Option(help="Periods that w*train learns from, at first; by default half.", min=1)
    ] = None,
    last: Annotated[
        str, typer.Option(help="Walk forward: tune on the last so many periods, use it in the next.")
    ] = "1,4",
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Compare these policies too (may be repeated), beside the twelve pure ones."),
    ] = None,
    baseline: Annotated[str, typer.Option(help="What all are compared with.")] = "saf",
    maps: Annotated[Path | None, typer.Option(help="coverage: a folder for a map of each period.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write all of it to this JSON file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as one JSON object.")] = False,
) -> None:
    """Search mixed policies on a log's weeks, and test what was learned on the weeks that follow."""
    from batfill.cli import warn
    from batfill.cli.progress import progress
    from batfill.compiled import announce_compilation
    from batfill.engine import advance as kernel
    from batfill.tuning.costs import PURE, Setting
    from batfill.tuning.results import as_json as text_of
    from batfill.tuning.results import as_table
    from batfill.tuning.tune import rows_of, steps_of, whole_numbers, width_of
    from batfill.tuning.tune import tune as library_tune
    from batfill.tuning.weeks import read_periods
    from batfill.workloads.files import write_text

    announce_compilation(kernel)
    setting = Setting.of(backfill, threshold, tau)
    back = whole_numbers("--last", last)
    periods = read_periods(
        workload,
        procs=procs,
        days=width_of(days, months),
        boundary=boundary,
        skip=skip,
        count=count,
        min_jobs=min_jobs,
    )
    warn(periods.warnings)
    with progress("searches" if method == "xnes" else "periods", steps_of(method, len(periods), back)) as advance:
        found = library_tune(
            periods,
            setting,
            method=method,
            features=3 if features == "3" else 6,
            units=units,
            points=points,
            evaluations=evaluations,
            seed=seed,
            training=training,
            last=back,
            policies=[*PURE, *(policy or [])],
            baseline=baseline,
            maps=maps,
            advance=advance,
        )
    if out is not None:
        write_text(out, text_of(found) + "\n")
    print(text_of(found) if as_json else f"{as_table(rows_of(found))}\n\nw*train is {found['trained']}")
