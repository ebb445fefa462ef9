"""The work of a worker: the runs of one task, on the same jobs, as rows of results."""

from __future__ import annotations

import io
import json
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from batfill.base.errors import BatfillError
from batfill.base.version import __version__
from batfill.model.metrics import bounded_slowdown
from batfill.model.options import NO_SMALL
from batfill.replays.replay import simulate
from batfill_lab.campaigns.traces import Piece, Trace, piece_of
from batfill_lab.studied import stated, studied

if TYPE_CHECKING:
    from batfill.model.options import Options
    from batfill.model.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Run:
    """One replay."""

    id: str  # its content hash
    window: int | None
    given: dict[str, Any]  # the scheduler's options


@dataclass(frozen=True, slots=True)
class Task:
    """Runs on one trace."""

    trace: Trace
    runs: tuple[Run, ...]
    tau_s: float
    per_job: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """The outcome of a task's runs, each with either a row or a failure."""

    rows: list[dict[str, Any]] = field(default_factory=list)  # as in `store.SCHEMA`
    jobs: dict[str, bytes] = field(default_factory=dict)  # job tables by run, Parquet files' bytes, if `per_job`
    failed: dict[str, str] = field(default_factory=dict)  # by run, the error in one line


def run_task(task: Task) -> Finished:
    """Run the task; a failed run does not stop the others."""
    finished = Finished()
    for run in task.runs:
        piece = piece_of(task.trace, run.window)
        try:
            row, schedule = replay_one(task, run, piece)
            if task.per_job:
                finished.jobs[run.id] = job_table_bytes(run.id, schedule, task.tau_s)
            finished.rows.append(row)
        except BatfillError:
            raise
        except Exception as error:  # any error is this run's, and is reported with it
            finished.failed[run.id] = one_line(error)
    return finished


def replay_one(task: Task, run: Run, piece: Piece) -> tuple[dict[str, Any], Schedule]:
    options = studied(run.given)
    began = time.perf_counter()
    schedule, learned = simulate(piece.workload.jobs, piece.workload, options)
    simulate_s = time.perf_counter() - began
    rushed = schedule.rushed()
    row = {
        "run": run.id,
        **origin(task.trace, piece),
        **option_columns(run.given, options),
        "tau_s": task.tau_s,
        "seed": run.given.get("seed", task.trace.seed if task.trace.resamplings else None),
        **schedule.summary(task.tau_s).as_dict(),
        "learned": json.dumps(learned.as_dict()) if learned else None,
        "urgent": json.dumps(rushed.as_dict()) if rushed else None,
        "simulate_s": simulate_s,
        "version": __version__,
    }
    return row, schedule


def one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def origin(trace: Trace, piece: Piece) -> dict[str, Any]:
    source = trace.source
    return {
        "workload": source.name,
        "workload_sha256": source.sha256,
        "procs": piece.workload.size,
        "overrun": piece.workload.overrun,
        "unrequested": str(piece.workload.unrequested),
        "sample": trace.sample if trace.resamplings else None,
        "window": piece.window,
        "window_start_s": None if math.isnan(piece.start_s) else piece.start_s,
        "window_end_s": None if math.isnan(piece.end_s) else piece.end_s,
    }


def option_columns(given: dict[str, Any], options: Options) -> dict[str, Any]:
    """The options as columns, as given; those of learning besides the knowledge's name as JSON, and all in force."""
    plain = ("policy", "backfill", "depth", "threshold", "small", "predict", "seed")
    rest = {name: value for name, value in given.items() if name not in plain}
    return {
        "policy": given["policy"],
        "backfill": given["backfill"],
        "depth": str(options.depth),
        "threshold_s": given["threshold"],
        "knowledge": options.predict if options.small == NO_SMALL else options.small,
        "learning": json.dumps(rest, sort_keys=True) if rest else None,
        "options": json.dumps({**options.as_dict(), **stated(options), **options.digests}),
    }


def job_table_bytes(identity: str, schedule: Schedule, tau_s: float) -> bytes:
    jobs = schedule.jobs
    wait_s = schedule.wait_s
    table = pa.table(
        {
            "run": pa.array([identity] * len(jobs), pa.string()).dictionary_encode(),
            "job": pa.array(jobs.ids.tolist(), pa.string()),
            "user": jobs.user,
            "procs": jobs.procs,
            "submit_s": schedule.submit_s,
            "walltime_s": jobs.walltime_s,
            "start_s": schedule.start_s,
            "end_s": schedule.end_s,
            "wait_s": wait_s,
            "bsld": bounded_slowdown(wait_s, schedule.runtime_s, tau_s),
            "backfilled": schedule.backfilled,
            "killed": schedule.killed,
            "requeued": schedule.requeued,
            "rejected": schedule.rejected,
        }
    )
    stored = io.BytesIO()
    pq.write_table(table, stored)
    return stored.getvalue()
