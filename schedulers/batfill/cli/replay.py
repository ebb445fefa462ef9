"""`batfill replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batfill.cli import aside, warn
from batfill.cli.parameters import (
    JSON,
    OVERRUN,
    PROCS,
    TAU,
    UNREQUESTED,
    WORKLOAD,
    command,
    out_option,
    scheduler_options,
)
from batfill.cli.progress import progress
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
    if out is not None:
        result.to_batsim(out)
    if as_json:  # the table shows them
        warn(result.workload.warnings)
    print(result.as_json() if as_json else result.as_text())
