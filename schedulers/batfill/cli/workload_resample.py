"""`batfill workload resample`: new logs made of an old one's weeks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

Method = Literal["users", "weeks"]
ProfileWeeks = Literal["all", "span", "active"]


def resample(
    source: Annotated[Path, typer.Argument(metavar="IN", help="SWF, Parquet or Batsim JSON.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="x.swf.gz; several samples are x-000.swf.gz, ...")],
    method: Annotated[
        Method,
        typer.Option(help="users: each user's weeks separately (CCGrid 2019); weeks: whole weeks (bandit paper)."),
    ] = "users",
    weeks: Annotated[int | None, typer.Option(min=1, help="Length [default: the log's].")] = None,
    samples: Annotated[int, typer.Option(min=1, help="How many logs.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Sample k of a seed is the same however many are made.")] = 0,
    profile_weeks: Annotated[
        ProfileWeeks,
        typer.Option(
            help="A user's weeks: all of the log (keeps the load), from first to last job, or with a job only."
        ),
    ] = "all",
    procs: Annotated[
        int | None, typer.Option(min=1, help="Machine size for .json [default: what the log says].")
    ] = None,
) -> None:
    """Make new logs from a log's weeks, whole or user by user."""
    from batfill.cli.progress import progress
    from batfill.workloads.load import load_log
    from batfill.workloads.resampling import resample as library_resample
    from batfill.workloads.save import format_of, provenance, save_log, stem_of

    format_of(out)
    with progress("rows read") as advance:
        log = load_log(source, advance=advance)
    stem = stem_of(out)
    description = provenance("resample", source, seed=seed, method=method)
    with progress("samples", samples) as advance:
        for sample in range(samples):
            path = out if samples == 1 else out.with_name(f"{stem}-{sample:03}{out.name.removeprefix(stem)}")
            made = library_resample(log, seed, sample=sample, method=method, weeks=weeks, profile_weeks=profile_weeks)
            rows = save_log(made, path, procs=procs, description={**description, "sample": sample})
            advance(1)
            print(f"{path}: {rows} rows, seed {seed}, sample {sample}", file=sys.stderr)
