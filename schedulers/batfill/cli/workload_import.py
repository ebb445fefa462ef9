"""`batfill workload import`: a cluster's own accounting as an SWF log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

System = Literal["slurm", "oar", "pbs"]


def import_log(
    system: Annotated[System, typer.Argument(help="Whose accounting it is.")],
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="sacct -P output, oarstat -J output, or PBS accounting files; plain, .gz, .xz or .bz2.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The log to write: .swf, .json or .parquet.")],
    anonymise: Annotated[
        bool, typer.Option("--anonymise", help="Keep the names of users, groups and jobs out of the log.")
    ] = False,
    key: Annotated[
        Path | None, typer.Option(help="Keep the numbers of all names here, and go on with those it holds.")
    ] = None,
    procs: Annotated[
        int | None, typer.Option(min=1, help="Machine size [default: the most processors seen in use at once].")
    ] = None,
    timezone: Annotated[str, typer.Option(help="The cluster's time zone, such as Europe/Paris.")] = "UTC",
    computer: Annotated[str, typer.Option(help="What the header calls the machine.")] = "unknown",
    cores_per_resource: Annotated[int, typer.Option(min=1, help="Processors of one OAR resource.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print the counts as one JSON object.")] = False,
) -> None:
    """Turn a cluster's accounting into an SWF log with a header; says what it left out."""
    from batfill import __version__
    from batfill.workloads.cluster_log import Key, swf_of
    from batfill.workloads.save import format_of, save_log

    format_of(out)
    if system == "slurm":
        from batfill.workloads.slurm import read_slurm

        reading = read_slurm(files, zone=timezone)
    elif system == "oar":
        from batfill.workloads.oar import read_oar

        reading = read_oar(files, cores_per_resource=cores_per_resource)
    else:
        from batfill.workloads.pbs import read_pbs

        reading = read_pbs(files, zone=timezone)
    names = Key() if key is None else Key.load(key)
    log = swf_of(
        reading,
        source=f"{system} accounting",
        anonymise=anonymise,
        key=names,
        procs=procs,
        zone=timezone,
        computer=computer,
    )
    if key is not None:
        names.save(key)
    made = {"made_by": f"batfill {__version__} workload import {system}"}
    rows = save_log(log, out, procs=procs, description=made)
    for reason, count in reading.notes.items():
        print(f"{count} records: {reason}", file=sys.stderr)
    print(f"{out}: {rows} jobs", file=sys.stderr)
    if json:
        import orjson

        counts = {"file": str(out), "jobs": rows, "notes": dict(reading.notes)}
        print(orjson.dumps(counts, option=orjson.OPT_INDENT_2).decode())
