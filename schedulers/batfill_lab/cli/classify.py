"""`batfill classify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batfill.cli import warn
from batfill.cli.parameters import JSON, WORKLOAD, command, out_option, scheduler_options
from batfill.cli.progress import progress
from batfill.model.options import arguments_of

if TYPE_CHECKING:
    from pathlib import Path


@command()
@WORKLOAD
@scheduler_options("cut", "seed")
@out_option("folder", "Write tables (Parquet), figures (SVG) and summary.json into this folder.")
@JSON
def classify(workload: Path, options: dict[str, Any], out: Path | None, as_json: bool) -> None:
    """Classify jobs as small or large, as an online scheduler could have, and measure the quality.

    WORKLOAD is an SWF log (plain, .gz, .xz, .bz2), Parquet, or a Batsim JSON workload.
    """
    from batfill.base.errors import require
    from batfill_lab.learning import classify as library

    if out is not None:
        require("report,tables", "matplotlib", "pyarrow")
    done = library.classify(workload, **arguments_of(options), bar=progress)
    warn(done.jobs.warnings)
    if out is not None:
        from batfill_lab.learning.front import write_study

        write_study(done, out)
    print(done.as_json() if as_json else done.as_text())
