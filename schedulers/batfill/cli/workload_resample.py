"""`batfill workload resample`: new logs made of an old one's weeks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from batfill.cli.parameters import JSON, PROCS, SOURCE, WHOLE, former_place, out_option, seed_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@SOURCE
@former_place()
@out_option("The log to write, x.swf.gz; several samples are x-000.swf.gz, ...", required=True)
@click.option(
    "--method",
    type=click.Choice(["users", "weeks"]),
    default="users",
    show_default=True,
    help="users: each user's weeks separately (CCGrid 2019); weeks: whole weeks (bandit paper).",
)
@click.option("--weeks", type=WHOLE, help="Length [default: the log's].")
@click.option("--samples", type=WHOLE, default=1, show_default=True, help="How many logs.")
@seed_option("the samples; sample k of a seed is the same however many are made")
@click.option(
    "--profile-weeks",
    type=click.Choice(["all", "span", "active"]),
    help="users: a user's weeks are all of the log (keeps the load) [default], from first to last job, or with a job "
    "only.",
)
@PROCS
@JSON
def resample(
    source: Path,
    out: Path,
    method: Any,
    weeks: int | None,
    samples: int,
    seed: int,
    profile_weeks: Any,
    procs: int | None,
    as_json: bool,
) -> None:
    """Make new logs from a log's weeks, whole or user by user.

    IN is SWF (plain, .gz, .xz, .bz2), Parquet or Batsim JSON.
    """
    from batfill.cli.progress import counted, progress
    from batfill.workloads.files import shown
    from batfill.workloads.load import load_log
    from batfill.workloads.resampling import resample as library_resample
    from batfill.workloads.save import format_of, provenance, save_log, stem_of
    from batfill.workloads.swf import size_notes, with_size

    if profile_weeks is not None and method != "users":
        raise click.UsageError("--profile-weeks is of --method users; leave one of them out")
    profile_weeks = profile_weeks or "all"
    format_of(out)
    with progress("rows read") as advance:
        log = load_log(source, advance=advance)
    for note in size_notes(log, procs):
        print(note, file=sys.stderr)
    log = with_size(source, log, procs)
    stem = stem_of(out)
    description = provenance("resample", source, seed=seed, method=method)
    written: list[dict[str, object]] = []
    with progress("samples", samples) as advance, counted(written, f"of {samples} samples are written"):
        for sample in range(samples):
            path = out if samples == 1 else out.with_name(f"{stem}-{sample:03}{out.name.removeprefix(stem)}")
            made = library_resample(log, seed, sample=sample, method=method, weeks=weeks, profile_weeks=profile_weeks)
            rows = save_log(made, path, procs=procs, description={**description, "sample": sample})
            advance(1)
            written.append({"file": shown(path), "rows": rows, "seed": seed, "sample": sample})
            print(f"{path}: {rows} rows, seed {seed}, sample {sample}", file=sys.stderr)
    if as_json:
        import orjson

        print(orjson.dumps(written, option=orjson.OPT_INDENT_2).decode())
