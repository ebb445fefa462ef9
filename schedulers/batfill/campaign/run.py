"""A campaign from its file to its results: plan, say what it will take, run what is left, store."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import as_completed

from batfill.campaign.clusters import connect, worker_count
from batfill.campaign.plan import Plan, number_of_traces, plan, tasks_of, timed, total_s
from batfill.campaign.provenance import Provenance
from batfill.campaign.store import Store, open_store
from batfill.campaign.summary import overview
from batfill.campaign.work import run_task
from batfill.errors import BatfillError, RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from distributed import Client

    from batfill.campaign.config import ReadCampaign
    from batfill.campaign.work import Task

    Bar = Callable[[str, float | None], AbstractContextManager[Callable[[int], None]]]
    Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a campaign will take."""

    runs: int
    finished: int  # before
    tasks: int
    workers: int
    estimated_s: float

    def as_text(self) -> str:
        """One line."""
        if self.finished == self.runs:
            return f"{self.runs:,} runs, all finished before"
        before = f", {self.finished:,} of them finished before" if self.finished else ""
        plural = "" if self.workers == 1 else "s"
        return f"{self.runs:,} runs{before}; about {duration(self.estimated_s)} on {self.workers} worker{plural}"

    def as_json(self) -> str:
        """One object."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, indent=1)


@dataclass(frozen=True, slots=True)
class Done:
    """What a campaign came to."""

    results: Path
    runs: int
    finished_before: int
    took_s: float
    choices: list[dict[str, Any]]
    warnings: tuple[str, ...]  # by file, see `Workload.warnings`

    def as_text(self) -> str:
        """A table of the choices, workload by workload, and where the rows are."""
        header = ("workload", "options", "runs", "mean wait", "mean bsld", "largest")
        rows = [
            (
                row["workload"],
                row["options"],
                f"{row['runs']:,}",
                f"{row['mean_wait_s']:,.1f} s",
                f"{row['mean_bsld']:,.3f}",
                f"{row['max_mean_bsld']:,.3f}",
            )
            for row in self.choices
        ]
        widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
        lines = [
            "  ".join(
                cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in (header, *rows)
        ]
        return "\n".join([*lines, f"{self.runs:,} runs in {self.results}"])

    def as_json(self) -> str:
        """One object."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, indent=1, default=str)


def look(read: ReadCampaign, out: Path, *, scheduler: str | None, workers: int | None, bar: Bar) -> Outlook:
    """What the campaign will take, without running any of it or writing anything.

    Raises:
        BatfillError: it cannot be run as it is written.
    """
    count = worker_count(scheduler=scheduler, cluster=read.campaign.cluster, workers=workers)
    return prepare(read, Store(out), count, bar)[0]


def prepare(read: ReadCampaign, store: Store, workers: int, bar: Bar) -> tuple[Outlook, list[Task], Plan]:
    """The outlook, the tasks that are left, and the plan they come from."""
    with bar("logs planned", number_of_traces(read.campaign)) as advance:
        whole = plan(read, advance)
    left = whole.left(store.finished(per_job=whole.per_job))
    speeds = timed(left)
    tasks = tasks_of(left, speeds, whole, workers)
    estimated_s = total_s(left, speeds) / min(workers, max(len(tasks), 1))
    return Outlook(len(whole.runs), len(whole.runs) - len(left), len(tasks), workers, estimated_s), tasks, whole


def run_campaign(
    read: ReadCampaign,
    out: Path,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    bar: Bar,
    say: Say,
) -> Done:
    """Run what is left of the campaign, and store a row per run in `out`.

    Args:
        read: the campaign.
        out: its folder; runs that are finished there are not run again.
        scheduler: a Dask scheduler's address.
        workers: how many to start on this machine, whatever the campaign says of a cluster.
        bar: makes progress bars.
        say: is told the outlook, before anything runs.

    Raises:
        BatfillError: it cannot be run as it is written.
        RunFailed: some runs failed; the others are stored.
    """
    began = time.perf_counter()
    count = worker_count(scheduler=scheduler, cluster=read.campaign.cluster, workers=workers)
    with open_store(out) as store:
        outlook, tasks, whole = prepare(read, store, count, bar)
        say(outlook.as_text())
        warnings = tuple(f"{Path(path).name}: {text}" for path, texts in whole.warnings().items() for text in texts)
        for warning in warnings:
            say(f"warning: {warning}")
        left = outlook.runs - outlook.finished
        if tasks:
            with (
                connect(scheduler=scheduler, cluster=read.campaign.cluster, workers=workers) as connected,
                bar("runs", left) as advance,
            ):
                record = Provenance(out, read, whole, workers=connected.place, left=left)
                done, failure = run_tasks(connected.client, tasks, store, advance)
            record.end(done)
            if failure:
                raise RunFailed(
                    f"{left - done:,} of {outlook.runs:,} runs are not finished ({failure}); "
                    "the others are stored: run the same command again for the rest"
                )
        table = store.merge([planned.run.id for planned in whole.runs])
        took_s = time.perf_counter() - began
        return Done(store.runs, outlook.runs, outlook.finished, took_s, overview(table), warnings)


def run_tasks(client: Client, tasks: Sequence[Task], store: Store, advance: Callable[[int], None]) -> tuple[int, str]:
    """Run these tasks and store each as it finishes; returns how many runs were done, and the first failure or "".

    Raises:
        BatfillError: a worker finds a mistake in what was given.
    """
    futures = client.map(run_task, list(tasks), pure=False)
    done = 0
    failure = ""
    for batch in as_completed(futures).batches():
        finished = []
        for future in batch:
            if future.status == "finished":
                finished.append(future.result())
            elif future.status == "cancelled":
                failure = failure or "the scheduler went away"
            else:
                error = future.exception()
                if isinstance(error, BatfillError):
                    raise error
                failure = failure or f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            future.release()
        rows = [row for task in finished for row in task.rows]
        store.add(rows, [item for task in finished for item in task.jobs.items()])
        done += len(rows)
        advance(len(rows))
    return done, failure


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
