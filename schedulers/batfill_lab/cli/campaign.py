"""`batfill campaign`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from batfill.base.errors import require
from batfill.base.progress import progress
from batfill.cli import note
from batfill.cli.parameters import FILE, JSON, SECONDS, WHOLE, command, out_option

if TYPE_CHECKING:
    from pathlib import Path


@command()
@click.argument("file", metavar="FILE.yaml", type=FILE)
@out_option("folder", "The folder of the results [default: expe-out/ and the file's name].")
@click.option("--dry-run", is_flag=True, help="Check everything, and print the number of runs.")
@click.option("--scheduler", metavar="ADDRESS", help="Run on the workers of this Dask scheduler.")
@click.option("--workers", type=WHOLE, help="Run on this many local workers [default: one per processor].")
@click.option("--job-script", is_flag=True, help="Print the job script of the file's `cluster:` and submit nothing.")
@click.option(
    "--worker-limit",
    type=SECONDS,
    metavar="SECONDS",
    help="Longest time a cluster or scheduler may be without workers, a duration [default: 3600].",
)
@JSON
def campaign(
    file: Path,
    out: Path | None,
    dry_run: bool,
    scheduler: str | None,
    workers: int | None,
    job_script: bool,
    worker_limit: float | None,
    as_json: bool,
) -> None:
    """Run a grid of replays, and resume it where it stopped.

    Each run is a row of its results. FILE.yaml describes the campaign; see docs/how-to/campaigns.md.
    """
    import shlex

    require("campaign", "pydantic", "pyarrow")
    from batfill_lab import campaigns
    from batfill_lab.campaigns import clusters, config, running

    read = config.read_campaign(file)
    beside = {
        "--out": out,
        "--scheduler": scheduler,
        "--workers": workers,
        "--worker-limit": None if worker_limit is None else f"{worker_limit:g}",
    }
    given = [word for name, value in beside.items() if value is not None for word in (name, str(value))]
    if job_script:
        if idle := [*given[::2], *(["--dry-run"] if dry_run else []), *(["--json"] if as_json else [])]:
            raise config.CampaignError(f"--job-script only prints a script; leave {idle[0]} out")
        print(clusters.job_script(read).strip())
        return
    where = clusters.Where(scheduler, workers, read.campaign.cluster, worker_limit)
    where.check()
    if dry_run:
        outlook = running.look(read, running.folder_of(file, out), where, bar=progress)
        print(outlook.as_json() if as_json else outlook.as_text())
        return
    again = shlex.join(["batfill", "campaign", str(file), *given, *(["--json"] if as_json else [])])
    done = campaigns.campaign(
        file,
        out,
        scheduler=scheduler,
        workers=workers,
        worker_limit_s=worker_limit,
        bar=progress,
        say=note,
        again=f"run `{again}`",
    )
    print(done.as_json() if as_json else done.as_text())
