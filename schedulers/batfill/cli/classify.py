"""`batfill classify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.cli import warn
from batfill.cli.parameters import JSON, WORKLOAD, out_option, scheduler_options
from batfill.cli.progress import progress

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@WORKLOAD
@scheduler_options("regime", "divider-rule", "cut", "train", "train-lag", "seed")
@out_option("Write tables (Parquet), figures (SVG) and summary.json into this folder.")
@JSON
def classify(workload: Path, options: dict[str, Any], out: Path | None, as_json: bool) -> None:
    """Judge every job of a log small or large as an online scheduler could have, and say how good that was.

    WORKLOAD is an SWF log (plain, .gz, .xz, .bz2), Parquet, or a Batsim JSON workload.
    """
    from batfill.errors import require
    from batfill.files import json_text
    from batfill.knowledge.study import as_text, classify_log, read_jobs
    from batfill.options import Learning

    if out is not None:
        require("report,tables", "matplotlib", "pyarrow")
    settings = Learning.of({"knowledge": "classifier", **options}).settings
    jobs = read_jobs(workload)
    warn(jobs.warnings)
    with progress("jobs judged", len(jobs)) as judged:
        done = classify_log(jobs, settings, judged)
    if out is not None:
        from batfill.reports.learning import write_study

        write_study(done, out)
    print(json_text({**done.as_dict(), "per_week": done.weeks()}) if as_json else as_text(done))
