"""`batfill replay`, and `batfill policies`, which lists what it takes as an order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.base.progress import progress
from batfill.cli import aside, note, warn
from batfill.cli.parameters import (
    CANCELLED,
    HOSTS,
    JSON,
    OVERRUN,
    PROCS,
    TAU,
    UNREQUESTED,
    WORKLOAD,
    command,
    out_option,
    scheduler_options,
    speed_options,
)
from batfill.model.options import arguments_of

if TYPE_CHECKING:
    from pathlib import Path


@command()
@WORKLOAD
@PROCS
@scheduler_options()
@TAU
@OVERRUN
@UNREQUESTED
@CANCELLED
@speed_options
@out_option("prefix", "Write result files PREFIX_jobs.csv, ..., as Batsim does.", metavar="PREFIX")
@JSON
def replay(workload: Path, options: dict[str, Any], out: Path | None, as_json: bool, **how: Any) -> None:
    """Run one policy over a whole workload, and print figures.

    WORKLOAD: an SWF log (plain, .gz, .xz, .bz2), or Batsim JSON.

    \b
    batfill replay LOG --policy saf --threshold 2d
    batfill replay LOG --preset first-tries

    """  # noqa: D301 - click keeps the lines after this mark
    from batfill.replays.replay import replay as run

    with progress("jobs judged") as judged:
        result = run(workload, **how, **arguments_of(options), advance=judged, say=aside)
    hosts = click.get_current_context().meta.get(HOSTS, result.size)
    if hosts != result.size:
        note(
            f"the platform has {hosts:,} hosts, the replay {result.size:,} processors; --procs {hosts} makes them equal"
        )
    if out is not None:
        result.to_batsim(out)
    if as_json:  # the table shows them
        warn(result.warnings)
    print(result.as_json() if as_json else result.as_text())


@command()
@JSON
def policies(as_json: bool) -> None:
    """List every policy: name, formula, and source.

    r is the submission time, p~ the requested time (walltime), q the processors, w the waiting time; lowest key first,
    ties by r, then by job id. Presets, which set several options, follow.
    """
    from itertools import groupby

    from batfill.base.files import json_text
    from batfill.base.tables import in_columns
    from batfill.base.words import wrapped
    from batfill.model.options import PRESETS
    from batfill.model.policy import listing

    rows = listing()
    if as_json:
        print(json_text(rows))
        return
    head = ("name", "key, lowest first", "order")
    print(in_columns([head, *((row["name"], row["formula"], row["order"]) for row in rows)], range(len(head))))
    print("\nsources")
    for source, same in groupby(rows, lambda row: row["source"]):
        print(wrapped(f"{', '.join(row['name'] for row in same)}: {source}", "  "))
    for name, preset in PRESETS.items():
        if preset.values:
            words = " ".join(f"--{option} {value}" for option, value in preset.values.items())
            print(wrapped(f"\n--preset {name}: {preset.words}\n  {words}", "  "))
