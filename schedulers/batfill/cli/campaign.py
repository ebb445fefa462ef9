"""`batfill campaign`."""

from __future__ import annotations

from pathlib import Path

import click

from batfill.cli.parameters import FILE, JSON, WHOLE, out_option


@click.command()
@click.argument("file", metavar="FILE.yaml", type=FILE)
@out_option("The folder of the results [default: expe-out/ and the file's name].")
@click.option(
    "--dry-run", is_flag=True, help="Check everything and say how many runs there are and how long they take."
)
@click.option("--scheduler", metavar="ADDRESS", help="Run on the workers of this Dask scheduler.")
@click.option("--workers", type=WHOLE, help="Run on so many workers here [default: one per processor].")
@click.option("--job-script", is_flag=True, help="Print the job script of the file's `cluster:` and submit nothing.")
@JSON
def campaign(
    file: Path,
    out: Path | None,
    dry_run: bool,
    scheduler: str | None,
    workers: int | None,
    job_script: bool,
    as_json: bool,
) -> None:
    """Run a grid of replays, resume it where it stopped, and store one row per run.

    FILE.yaml says what to run; see docs/campaigns.md.
    """
    import sys

    from batfill.campaign import clusters, config, run
    from batfill.cli.progress import progress
    from batfill.compiled import announce_compilation
    from batfill.engine import advance

    if workers is not None and scheduler is not None:
        raise click.UsageError("--workers starts workers here and --scheduler uses others; leave one of them out")
    read = config.read_campaign(file)
    if job_script:
        print(clusters.job_script(read).strip())
        return
    announce_compilation(advance)
    folder = out or Path("expe-out") / file.stem
    if dry_run:
        outlook = run.look(read, folder, scheduler=scheduler, workers=workers, bar=progress)
        print(outlook.as_json() if as_json else outlook.as_text())
        return
    done = run.run_campaign(
        read,
        folder,
        scheduler=scheduler,
        workers=workers,
        bar=progress,
        say=lambda text: print(f"batfill: {text}", file=sys.stderr),
    )
    print(done.as_json() if as_json else done.as_text())
