"""`batfill workload clean`: drop rows by named rules, and count them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from batfill.cli.parameters import FILE, JSON, PROCS, SOURCE, former_place, out_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@SOURCE
@former_place()
@out_option("The log to write: .swf, .json or .parquet, also compressed.", required=True)
@click.option(
    "--rule",
    multiple=True,
    help="wide, processors, times (the bandit paper's three), ran (run time > 0), duplicates. Repeatable "
    "[default: wide processors times ran].",
)
@click.option("--status", type=int, multiple=True, help="Keep only rows of this status. Repeatable.")
@click.option("--flurries", is_flag=True, help="Drop the flurries that IN's header names.")
@click.option(
    "--flurries-from",
    type=FILE,
    help="Drop the flurries that this log's header names, as the archive's cleaned logs do.",
)
@click.option(
    "--overrun",
    type=click.Choice(["leave", "keep", "kill"]),
    default="leave",
    show_default=True,
    help="Of jobs that ran too long: leave them, keep (raise the request), kill (cut the run).",
)
@PROCS
@JSON
def clean(
    source: Path,
    out: Path,
    rule: tuple[str, ...],
    status: tuple[int, ...],
    flurries: bool,
    flurries_from: Path | None,
    overrun: Any,
    procs: int | None,
    as_json: bool,
) -> None:
    """Clean a log by named rules; every row dropped or changed is counted by rule.

    IN is SWF (plain, .gz, .xz, .bz2), Parquet or Batsim JSON.
    """
    from batfill.cli.progress import progress
    from batfill.workloads import cleaning
    from batfill.workloads.files import shown
    from batfill.workloads.filters import header_filters
    from batfill.workloads.load import load_log
    from batfill.workloads.save import format_of, provenance, save_log
    from batfill.workloads.swf import machine_size, size_notes, with_size

    format_of(out)
    with progress("rows read") as advance:
        log = load_log(source, advance=advance)
    for note in size_notes(log, procs):
        print(note, file=sys.stderr)
    log = with_size(source, log, procs)
    named: list[str] = []
    for asked, place, header in (
        (flurries, source, log.header),
        (flurries_from is not None, flurries_from, load_log(flurries_from).header if flurries_from else ()),
    ):
        found = [one.text for one in header_filters(header)] if asked else []
        if asked and not found:
            print(f"{place}: its header names no filter", file=sys.stderr)
        named += found
    cleaned = cleaning.clean(
        log,
        rules=rule or (*cleaning.BANDIT, "ran"),
        procs=machine_size(source, log, procs),
        statuses=status,
        flurries=named,
        overrun=overrun,
    )
    made = provenance("clean", source, notes=list(cleaned.log.header[-1:]))
    left = save_log(cleaned.log, out, procs=procs, description=made)
    for name, count in cleaned.dropped.items():
        print(f"{name}: {count} of {len(log)} rows dropped", file=sys.stderr)
    for name, count in cleaned.changed.items():
        print(f"{name}: {count} rows changed", file=sys.stderr)
    print(f"{out}: {left} rows", file=sys.stderr)
    if as_json:
        import orjson

        counts = {"file": shown(out), "rows": left, "dropped": cleaned.dropped, "changed": cleaned.changed}
        print(orjson.dumps(counts, option=orjson.OPT_INDENT_2).decode())
