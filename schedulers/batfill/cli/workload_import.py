"""`batfill workload import`: a cluster's own accounting as an SWF log."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from batfill.cli.parameters import FILE, JSON, SIZE, WHOLE, out_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command("import")
@click.argument("system", type=click.Choice(["slurm", "oar", "pbs"]))
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=FILE)
@out_option("The log to write: .swf, .json or .parquet, also compressed.", required=True)
@click.option("--anonymise", is_flag=True, help="Keep the names of users, groups and jobs out of the log.")
@click.option("--key", type=FILE, help="Keep the numbers of all names here, and go on with those it holds.")
@click.option("--procs", type=SIZE, help="The machine's processors [default: the most seen in use at once].")
@click.option("--timezone", default="UTC", show_default=True, help="The cluster's time zone, such as Europe/Paris.")
@click.option("--computer", default="unknown", show_default=True, help="What the header calls the machine.")
@click.option("--cores-per-resource", type=WHOLE, help="oar: processors of one resource [default: 1].")
@JSON
def import_log(
    system: Any,
    files: tuple[Path, ...],
    out: Path,
    anonymise: bool,
    key: Path | None,
    procs: int | None,
    timezone: str,
    computer: str,
    cores_per_resource: int | None,
    as_json: bool,
) -> None:
    """Turn a cluster's accounting into an SWF log with a header; says what it left out.

    FILE is `sacct -P` output, `oarstat -J` output, or a PBS accounting file; plain, .gz, .xz or .bz2.
    """
    from batfill import __version__
    from batfill.workloads.cluster_log import Key, swf_of
    from batfill.workloads.files import all_or_none, shown
    from batfill.workloads.save import format_of, save_log

    if cores_per_resource is not None and system != "oar":
        raise click.UsageError(f"--cores-per-resource is of oar alone; {system} counts processors; leave it out")
    format_of(out)
    if system == "slurm":
        from batfill.workloads.slurm import read_slurm

        reading = read_slurm(list(files), zone=timezone)
    elif system == "oar":
        from batfill.workloads.oar import read_oar

        reading = read_oar(list(files), cores_per_resource=1 if cores_per_resource is None else cores_per_resource)
    else:
        from batfill.workloads.pbs import read_pbs

        reading = read_pbs(list(files), zone=timezone)
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
    made = {"made_by": f"batfill {__version__} workload import {system}"}
    with all_or_none():
        if key is not None:
            names.save(key)
        rows = save_log(log, out, procs=procs, description=made)
    for reason, count in reading.notes.items():
        print(f"{count} records: {reason}", file=sys.stderr)
    print(f"{out}: {rows} jobs", file=sys.stderr)
    if as_json:
        import orjson

        counts = {"file": shown(out), "jobs": rows, "notes": dict(reading.notes)}
        print(orjson.dumps(counts, option=orjson.OPT_INDENT_2).decode())
