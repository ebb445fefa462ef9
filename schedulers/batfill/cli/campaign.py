"""`batfill campaign`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def campaign(
    file: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="What to run; see docs/campaigns.md.")],
    out: Annotated[
        Path | None, typer.Option(help="The folder of the results [default: expe-out/ and the file's name].")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and say how many runs there are and how long they take.")
    ] = False,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on the workers of this Dask scheduler.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Run on so many workers here [default: one per processor].")
    ] = None,
    job_script: Annotated[
        bool, typer.Option("--job-script", help="Print the job script of the file's `cluster:` and submit nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a grid of replays, resume it where it stopped, and store one row per run."""
    import sys

    from batfill.campaign import clusters, config, run
    from batfill.cli.progress import progress
    from batfill.compiled import announce_compilation
    from batfill.engine import advance

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
