"""A campaign from file to results: plan, run the rest, store."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError, Interrupted, RunFailed, on_command_line, optional
from batfill.base.files import json_text
from batfill.base.tables import Keyed, in_columns, text_html
from batfill.base.words import duration
from batfill_lab.campaigns.clusters import NoWorkers, Where, connect, require_usable, worker_count
from batfill_lab.campaigns.plan import Plan, Planned, plan
from batfill_lab.campaigns.provenance import Provenance
from batfill_lab.campaigns.store import Store, open_store, overview, rows_in_file
from batfill_lab.campaigns.work import Finished, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    import pyarrow as pa

    from batfill_lab.campaigns.clusters import Workers
    from batfill_lab.campaigns.config import ReadCampaign
    from batfill_lab.campaigns.work import Task
    from batfill_lab.processes import Bar

    Say = Callable[[str], None]

AGAIN = "run the same command again"  # after a stop
REPORT_S = 30.0  # between two progress lines


@dataclass(frozen=True, slots=True)
class Outlook:
    """The size of a campaign."""

    runs: int
    finished: int  # in earlier sessions
    tasks: int
    workers: int

    def as_text(self) -> str:
        if self.finished == self.runs:
            return f"{self.runs:,} runs, all finished earlier"
        before = f", {self.finished:,} of them finished earlier" if self.finished else ""
        plural = "" if self.workers == 1 else "s"
        return f"{self.runs:,} runs{before}, on {self.workers} worker{plural}"

    def as_json(self) -> str:
        return json_text(asdict(self))


@dataclass(frozen=True, slots=True, repr=False)
class Done(Keyed):
    """The results of a campaign."""

    results: Path
    runs: int
    finished_before: int
    took_s: float
    choices: list[dict[str, Any]]
    warnings: tuple[str, ...]  # by file, see `Jobs.warnings`

    def as_text(self) -> str:
        """A table of the choices, by workload, and the rows' file; with the jobs rejected if there are any."""
        lost = ["rejected"] if any(row["rejected"] for row in self.choices) else []
        header = ("workload", "options", "runs", *lost, "mean wait", "longest wait", "mean bsld", "largest")
        rows = [
            (
                row["workload"],
                row["options"],
                *(f"{row[name]:,}" for name in ("runs", *lost)),
                *(duration(row["mean_wait_s"]), duration(row["max_wait_s"])),
                f"{row['mean_bsld']:,.3f}",
                f"{row['max_mean_bsld']:,.3f}",
            )
            for row in self.choices
        ]
        return f"{in_columns([header, *rows], words=(0, 1))}\n{self.runs:,} runs in {self.results}"

    __repr__ = as_text

    def _repr_html_(self) -> str:
        return text_html(self.as_text())

    def as_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self) | {"results": str(self.results)}

    def as_json(self) -> str:
        """One object."""
        return json_text(self.as_dict())

    def to_arrow(self) -> pa.Table:
        """A row per run, with its figures and every option."""
        return rows_in_file(self.results)

    def to_pandas(self) -> pd.DataFrame:
        """A row per run, with its figures and every option. Needs pandas."""
        optional("pandas", "tables")
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame


def look(read: ReadCampaign, out: Path, where: Where, *, bar: Bar) -> Outlook:
    where.check()
    return prepare(read, Store(out), where, bar).outlook


@dataclass(frozen=True, slots=True)
class Prepared:
    """A campaign ready to run."""

    outlook: Outlook
    plan: Plan
    left: dict[str, Planned]  # by run
    tasks: list[Task]


def prepare(read: ReadCampaign, store: Store, where: Where, bar: Bar) -> Prepared:
    workers = worker_count(where)
    campaign, made = read.campaign, read.campaign.resamplings
    with bar("logs planned", len(campaign.workloads) * (len(campaign.seeds) * made.samples if made else 1)) as advance:
        whole = plan(read, advance)
    left = whole.left(store.finished(per_job=whole.per_job))
    tasks = whole.in_tasks(left, workers)
    outlook = Outlook(len(whole.runs), len(whole.runs) - len(left), len(tasks), workers)
    return Prepared(outlook, whole, {planned.run.id: planned for planned in left}, tasks)


def folder_of(file: Path, out: str | Path | None) -> Path:
    return Path("expe-out") / file.stem if out is None else Path(out)


def run_campaign(
    read: ReadCampaign, out: Path, where: Where | None = None, *, bar: Bar, say: Say, again: str = AGAIN
) -> Done:
    """Run the rest of the campaign, and store a row per run in `out`; runs finished there are not repeated.

    `say` prints the number of runs before any, then the progress from time to time. `again`: how to resume after a
    stop, for the message. RunFailed if some runs failed or found no worker; the others are stored.
    """
    began = time.perf_counter()
    where = where or Where(cluster=read.campaign.cluster)
    where.check()
    if where.batch is not None:
        require_usable(where.batch)
    with open_store(out) as store:
        ready = prepare(read, store, where, bar)
        outlook = ready.outlook
        say(outlook.as_text())
        warnings_by_path = ready.plan.warnings().items()
        warnings = tuple(f"{Path(path).name}: {text}" for path, texts in warnings_by_path for text in texts)
        for warning in warnings:
            say(f"warning: {warning}")
        if ready.tasks:
            with connect(where, say) as workers, bar("runs", len(ready.left)) as advance:
                session = Session(ready, store, advance, say)
                record = Provenance(out, read, ready.plan, where, workers=workers.place, left=len(ready.left))
                try:
                    session.run(workers)
                except BaseException as stopped:
                    if not isinstance(stopped, Exception):  # Ctrl-C, or another signal
                        # an interrupt may arrive between storing runs and counting them
                        session.done = len(store.finished(per_job=ready.plan.per_job) & set(ready.left))
                        stored = outlook.finished + session.done
                        kept = f"{stored:,} of {outlook.runs:,} runs are stored in {store.folder}; to resume, {again}"
                        if isinstance(stopped, Interrupted):  # the command line includes it in its one line
                            stopped.add_note(kept)
                        else:
                            say(kept)
                    raise
                finally:
                    record.end(session.done)
            if session.failure:
                missing = len(ready.left) - session.done
                raise RunFailed(
                    f"{missing:,} of {outlook.runs:,} runs are not finished ({session.failure}); "
                    f"{'the others are stored: ' * (missing < outlook.runs)}{again} for the rest"
                )
        table = store.merge([planned.run.id for planned in ready.plan.runs])
        took_s = time.perf_counter() - began
        return Done(store.runs, outlook.runs, outlook.finished, took_s, overview(table), warnings)


class Session:
    """The remaining runs of a campaign, as they run and are stored."""

    def __init__(self, ready: Prepared, store: Store, advance: Callable[[int], None], say: Say) -> None:
        self.ready, self.store, self.advance, self.say = ready, store, advance, say
        self.done = 0  # runs stored
        self.failure = ""  # the first
        self.size, self.whole = 0, sum(planned.size for planned in ready.left.values())  # of the runs done, and of all
        self.began_s = self.reported_s = time.monotonic()

    def run(self, workers: Workers) -> None:
        """Run the tasks, and store each as it ends, up to one whose worker finds a mistake in the input."""
        mistake: BatfillError | None = None
        with closing(workers.run(self.ready.tasks)) as ended:
            try:
                for outcomes in ended:
                    self.keep([outcome for _, outcome in outcomes if isinstance(outcome, Finished)])
                    for place, outcome in outcomes:
                        if isinstance(outcome, BatfillError):
                            mistake = mistake or outcome
                        elif isinstance(outcome, ConnectionError):  # of the scheduler, not of a run
                            self.failure = self.failure or str(outcome)
                        elif isinstance(outcome, BaseException):
                            runs = self.ready.tasks[place].runs
                            more = f"this or one of {len(runs) - 1:,} runs with it: " if len(runs) > 1 else ""
                            self.fail(runs[0].id, more + one_line(outcome))
                    if mistake:
                        raise mistake
                    self.report()
            except NoWorkers as error:
                self.failure = self.failure or on_command_line(error)

    def keep(self, finished: Sequence[Finished]) -> None:
        rows = [row for task in finished for row in task.rows]
        self.store.add(rows, [item for task in finished for item in task.jobs.items()])
        for task in finished:
            for run, message in task.failed.items():
                self.fail(run, message)
        self.size += sum(self.ready.left[row["run"]].size for row in rows)
        self.done += len(rows)
        self.advance(len(rows))

    def fail(self, run: str, message: str) -> None:
        planned = self.ready.left[run]
        options = ", ".join(f"{name} {value}" for name, value in planned.run.given.items() if value is not None)
        window = "" if planned.run.window is None else f", window {planned.run.window}"
        self.failure = self.failure or f"{planned.trace.source.name}{window}, {options}: {message}"

    def report(self) -> None:
        now_s = time.monotonic()
        if now_s - self.reported_s < REPORT_S or self.done >= len(self.ready.left):
            return
        self.reported_s, took_s = now_s, now_s - self.began_s
        left = f"; about {duration(took_s * (self.whole / self.size - 1), up=True)} left" if self.size else ""
        self.say(f"{self.done:,} of {len(self.ready.left):,} runs after {duration(took_s, up=True)}{left}")
