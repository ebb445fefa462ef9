"""`batfill workload scale`: more or less load by shorter or longer times between submissions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def scale(
    source: Annotated[Path, typer.Argument(metavar="IN", help="SWF, Parquet or Batsim JSON.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The log to write: .swf, .json or .parquet.")],
    interarrival: Annotated[
        float | None, typer.Option(help="Multiply the times between submissions by this; below 1 raises the load.")
    ] = None,
    load: Annotated[float | None, typer.Option(help="Stretch them to this offered load.")] = None,
    procs: Annotated[int | None, typer.Option(help="Machine size [default: what the log says].")] = None,
) -> None:
    """Change a log's load by the times between its submissions."""
    from batfill.cli.progress import progress
    from batfill.workloads import scaling
    from batfill.workloads.load import load_log
    from batfill.workloads.save import format_of, provenance, save_log
    from batfill.workloads.swf import known_size, machine_size

    if (interarrival is None) == (load is None):
        raise typer.BadParameter("give one of --interarrival and --load")
    format_of(out)
    with progress("rows read") as advance:
        log = load_log(source, advance=advance)
    if load is not None:
        size = known_size(source, machine_size(source, log.header, procs))
        scaled, factor = scaling.at_load(log, size, load)
    else:
        factor = 1.0 if interarrival is None else interarrival
        scaled = scaling.stretch(log, factor)
    rows = save_log(scaled, out, procs=procs, description=provenance("scale", source, interarrival=f"{factor:.9g}"))
    print(f"{out}: {rows} rows, times between submissions multiplied by {factor:.9g}", file=sys.stderr)
