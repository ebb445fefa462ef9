"""`batfill workload scale`: more or less load by shorter or longer times between submissions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from batfill.cli.parameters import JSON, POSITIVE, PROCS, SOURCE, former_place, out_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@SOURCE
@former_place()
@out_option("The log to write: .swf, .json or .parquet, also compressed.", required=True)
@click.option(
    "--interarrival",
    type=POSITIVE,
    help="Multiply the times between submissions by this; below 1 raises the load.",
)
@click.option("--load", type=POSITIVE, help="Stretch them to this offered load.")
@PROCS
@JSON
def scale(
    source: Path, out: Path, interarrival: float | None, load: float | None, procs: int | None, as_json: bool
) -> None:
    """Change a log's load by the times between its submissions.

    IN is SWF (plain, .gz, .xz, .bz2), Parquet or Batsim JSON.
    """
    from batfill.cli.progress import progress
    from batfill.workloads import scaling
    from batfill.workloads.files import shown
    from batfill.workloads.load import load_log
    from batfill.workloads.save import format_of, provenance, save_log
    from batfill.workloads.swf import known_size, machine_size, size_notes, with_size

    if (interarrival is None) == (load is None):
        raise click.UsageError("give one of --interarrival and --load")
    format_of(out)
    with progress("rows read") as advance:
        log = load_log(source, advance=advance)
    for note in size_notes(log, procs):
        print(note, file=sys.stderr)
    log = with_size(source, log, procs)
    if load is not None:
        size = known_size(source, machine_size(source, log, procs))
        scaled, factor = scaling.at_load(log, size, load)
    else:
        factor = 1.0 if interarrival is None else interarrival
        scaled = scaling.stretch(log, factor)
    rows = save_log(scaled, out, procs=procs, description=provenance("scale", source, interarrival=f"{factor:.9g}"))
    print(f"{out}: {rows} rows, times between submissions multiplied by {factor:.9g}", file=sys.stderr)
    if as_json:
        import orjson

        said = {"file": shown(out), "rows": rows, "interarrival": factor}
        print(orjson.dumps(said, option=orjson.OPT_INDENT_2).decode())
