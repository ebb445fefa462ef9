"""Campaigns: grids of replays on one machine or many, stored as one row per run, and resumable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.base.errors import require

if TYPE_CHECKING:
    from pathlib import Path

    from batfill_lab.campaigns.running import Done, Say
    from batfill_lab.processes import Bar


def campaign(
    file: str | Path,
    out: str | Path | None = None,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    worker_limit_s: float | None = None,
    bar: Bar | None = None,
    say: Say | None = None,
    again: str | None = None,
) -> Done:
    """Run a grid of replays, resume it where it stopped, and store one row per run.

    Processes share the runs, so a script must call this below `if __name__ == "__main__":`.

    Args:
        file: the campaign; see the guide to campaigns.
        out: the folder of the results; by default `expe-out/` and the file's name.
        scheduler: use the workers of the Dask scheduler at this address.
        workers: use this many local workers; by default one per processor.
        worker_limit_s: how long a cluster or scheduler may be without workers.
        bar: makes progress bars; by default one appears after two seconds.
        say: receives a line from time to time: the number of runs first, then the progress.
        again: how to resume after a stop, for the message.

    Raises:
        BatfillError: the campaign is unusable as written.
        RunFailed: some runs failed or found no worker; the others are stored.
    """
    require("campaign", "pydantic", "pyarrow")
    from batfill.base.files import place_of
    from batfill.base.progress import patient_progress
    from batfill.model.values import function_of, number_from, seconds_of, text_of
    from batfill_lab.campaigns.clusters import Where
    from batfill_lab.campaigns.config import read_campaign
    from batfill_lab.campaigns.running import AGAIN, folder_of, run_campaign

    path, out = place_of("file", file), None if out is None else place_of("out", out)
    bar, say, again = (
        function_of("bar", bar),
        function_of("say", say),
        None if again is None else text_of("again", again),
    )
    workers = None if workers is None else number_from("workers", workers)
    scheduler = None if scheduler is None else text_of("scheduler", scheduler)
    worker_limit_s = None if worker_limit_s is None else seconds_of("worker_limit_s", worker_limit_s)
    read = read_campaign(path)
    where = Where(scheduler, workers, read.campaign.cluster, worker_limit_s)
    return run_campaign(
        read,
        folder_of(path, out),
        where,
        bar=bar or patient_progress,
        say=say or (lambda _: None),
        again=again or AGAIN,
    )
