"""`batfill workload convert`: a log as a Batsim workload, and the platform for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from batfill.cli.parameters import FILE, JSON, OVERRUN, POSITIVE, PROCS, SOURCE, WHOLE, former_place, out_option

if TYPE_CHECKING:
    from pathlib import Path


def job_slice(text: str) -> slice:
    """START:STOP as a slice; either may be left out."""
    start, colon, stop = text.partition(":")
    if not colon or not all(part == "" or (part.isascii() and part.isdigit()) for part in (start, stop)):
        raise click.UsageError(f"{text!r} is not START:STOP, as in 1000:2000")
    return slice(int(start or 0), int(stop) if stop else None)


@click.command()
@SOURCE
@former_place()
@out_option("The Batsim workload to write, x.json; .gz compresses it.", required=True)
@click.option("--platform", type=FILE, help="Write the matching platform XML here.")
@PROCS
@OVERRUN
@click.option("--first", type=WHOLE, help="Only the first N jobs.")
@click.option("--jobs", metavar="START:STOP", help="Only these jobs, counted by submission.")
@click.option(
    "--field",
    multiple=True,
    help="Keep this field beside user_id: group_id, executable, queue, partition. Repeatable.",
)
@click.option(
    "--host-speed",
    type=POSITIVE,
    default=1e9,
    show_default=True,
    help="Flop/s of a host, for parallel_homogeneous profiles of a Batsim workload.",
)
@JSON
def convert(
    source: Path,
    out: Path,
    platform: Path | None,
    procs: int | None,
    overrun: Any,
    first: int | None,
    jobs: str | None,
    field: tuple[str, ...],
    host_speed: float,
    as_json: bool,
) -> None:
    """Write a log as a Batsim workload: zero-padded ids, delay profiles shared by duration.

    IN is SWF (plain, .gz, .xz, .bz2), Parquet or Batsim JSON.
    """
    from batfill.cli import warn
    from batfill.cli.progress import progress
    from batfill.workloads.convert import convert as library_convert
    from batfill.workloads.files import all_or_none, shown, write_text

    if first is not None and jobs is not None:
        raise click.UsageError("--first and --jobs exclude each other")
    part = slice(first) if first is not None else job_slice(jobs) if jobs is not None else slice(None)
    with progress("rows") as advance, all_or_none():
        made = library_convert(
            source,
            out,
            procs=procs,
            overrun=overrun,
            jobs=part,
            fields=field,
            host_speed=host_speed,
            advance=advance,
        )
        if platform is not None:
            from batfill.batsim.platform import homogeneous_platform

            write_text(platform, homogeneous_platform(made.procs))
    warn(made.warnings)
    for note in made.notes:
        print(note, file=sys.stderr)
    print(f"{out}: {made.jobs} jobs, {made.procs} processors", file=sys.stderr)
    if as_json:
        import orjson

        said = {"file": shown(out), "jobs": made.jobs, "procs": made.procs, "notes": list(made.notes)}
        said["platform"] = None if platform is None else shown(platform)
        print(orjson.dumps(said, option=orjson.OPT_INDENT_2).decode())
