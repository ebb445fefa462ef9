"""`batfill workload convert`: a log as a Batsim workload, and the platform for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

Overrun = Literal["keep", "kill"]


def job_slice(text: str) -> slice:
    """START:STOP as a slice; either may be left out."""
    start, colon, stop = text.partition(":")
    if not colon or not all(part == "" or (part.isascii() and part.isdigit()) for part in (start, stop)):
        raise typer.BadParameter(f"{text!r} is not START:STOP, as in 1000:2000")
    return slice(int(start or 0), int(stop) if stop else None)


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="SWF (plain, .gz, .xz, .bz2), Parquet or Batsim JSON.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.json", help="The workload to write; .gz compresses it.")],
    platform: Annotated[Path | None, typer.Option(help="Write the matching platform XML here.")] = None,
    procs: Annotated[
        int | None, typer.Option(help="Machine size [default: the log's MaxProcs, else MaxNodes].")
    ] = None,
    overrun: Annotated[
        Overrun, typer.Option(help="keep: requests below the run time are raised above it; kill: the job ends there.")
    ] = "keep",
    first: Annotated[int | None, typer.Option(min=1, help="Only the first N jobs.")] = None,
    jobs: Annotated[
        str | None, typer.Option(metavar="START:STOP", help="Only these jobs, counted by submission.")
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(help="Keep this field beside user_id: group_id, executable, queue, partition. Repeatable."),
    ] = None,
    host_speed: Annotated[
        float, typer.Option(help="Flop/s of a host, for parallel_homogeneous profiles of a Batsim workload.")
    ] = 1e9,
) -> None:
    """Write a log as a Batsim workload: zero-padded ids, delay profiles shared by duration."""
    from batfill.cli import warn
    from batfill.cli.progress import progress
    from batfill.workloads.convert import convert as library_convert
    from batfill.workloads.files import write_text

    if first is not None and jobs is not None:
        raise typer.BadParameter("--first and --jobs exclude each other")
    part = slice(first) if first else job_slice(jobs) if jobs is not None else slice(None)
    with progress("rows") as advance:
        made = library_convert(
            source,
            out,
            procs=procs,
            overrun=overrun,
            jobs=part,
            fields=tuple(field or ()),
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
