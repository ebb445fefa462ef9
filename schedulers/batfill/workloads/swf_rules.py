"""Which rows of an SWF log are jobs that ran, and under which number: the rules that need the whole log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from batfill.errors import WorkloadError
from batfill.jobs import request_warning
from batfill.workloads.swf_log import FIELD, LAST_PARTIAL_FAILED, PARTIAL, SwfLog

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

# Why a row is not a job: a row's fate is the place of the first reason that holds, 0 for a job.
REASONS = (
    "",
    "run time <= 0 or unknown",
    "submission time unknown",
    "neither requested nor allocated processors",
    "partial execution of a job whose summary row is kept",
    "further partial execution of a job without a summary row, its run time added to the first",
)
NO_REQUEST = "requested time unknown, the run time taken"
NO_RUN_TIME, NO_SUBMISSION, NO_PROCESSORS, SUMMARISED, ADDED = range(1, len(REASONS))


@dataclass(frozen=True, eq=False)
class JobRows:
    """The rows of a log that become jobs. Arrays have shape (n_rows,), in the file's order."""

    keep: NDArray[np.bool_]
    number: NDArray[np.int64]  # unique among the rows kept
    submit_s: NDArray[np.float64]
    runtime_s: dict[int, float]  # by row: the run time of a job put together from its partial executions
    dropped: dict[str, int]  # rows by the reason they are not jobs
    renumbered: int  # jobs whose number was unknown or used before

    @cached_property
    def first_submit_s(self) -> float:
        """When the first job was submitted, on the log's clock."""
        return float(self.submit_s[self.keep].min())

    @cached_property
    def id_width(self) -> int:
        """How many digits the largest job number has."""
        return len(str(self.number[self.keep].max()))

    def jobs_only(self, jobs: slice) -> JobRows:
        """These jobs only, counted in the order of (submission, number).

        Raises:
            WorkloadError: no job is left.
        """
        rows = np.flatnonzero(self.keep)
        order = rows[np.lexsort((self.number[rows], self.submit_s[rows]))][jobs]
        if not len(order):
            raise WorkloadError(f"jobs {jobs.start}:{jobs.stop} of {len(rows)} are none; choose others")
        keep = np.zeros_like(self.keep)
        keep[order] = True
        return replace(self, keep=keep)


def requested(log: SwfLog) -> NDArray[np.float64]:
    """q: the requested processors where the log knows them, else the allocated ones; <= 0 where it knows neither."""
    return np.where(log["requested_procs"] > 0, log["requested_procs"], log["procs"])


def job_rows(path: Path, batches: Iterable[SwfLog]) -> JobRows:
    """The rows that ran: run time > 0, a submission time, and processors, requested or allocated.

    A checkpointed job has several rows of one number, as the format's standard says: its partial executions (status 2
    to 4) and a summary. The summary is kept; where there is none, the run times of the parts are added up.

    Args:
        path: what error messages call the log.
        batches: the log in pieces, in order.

    Raises:
        WorkloadError: no row is left, or a number of a job or of processors is not whole (the line is named).
    """
    fates: list[NDArray[np.int8]] = []
    numbers: list[NDArray[np.float64]] = []
    submits: list[NDArray[np.float64]] = []
    parts: list[NDArray[np.float64]] = []
    at_row: list[NDArray[np.intp]] = []
    n_rows = 0
    for batch in batches:
        fates.append(_fate(batch))
        numbers.append(batch["job"].copy())
        submits.append(batch["submit_s"].copy())
        partial = np.flatnonzero((batch["status"] >= PARTIAL) & (batch["status"] <= LAST_PARTIAL_FAILED))
        parts.append(batch.rows[partial])
        at_row.append(n_rows + partial)
        for what, values, mend in (
            ("job number", numbers[-1], "number the jobs 1, 2, ..."),
            ("number of processors", requested(batch), "write how many the job was given"),
        ):
            broken = (values != np.floor(values)) & (fates[-1] == 0)
            if broken.any():
                row = int(np.argmax(broken))
                raise WorkloadError(f"{path}:{batch.lines[row]}: {what} {values[row]} is not whole; {mend}")
        n_rows += len(batch)
    if not n_rows:
        raise WorkloadError(f"{path}: no job in it, only {n_rows} rows; is it an SWF log, and whole?")
    fate, number, submit_s = np.concatenate(fates), np.concatenate(numbers), np.concatenate(submits)
    runtime_s = _join_parts(np.concatenate(parts), np.concatenate(at_row), fate, number)
    dropped = {REASONS[reason]: int((fate == reason).sum()) for reason in range(1, len(REASONS))}
    dropped = {reason: count for reason, count in dropped.items() if count}
    keep = fate == 0
    if not keep.any():
        why = "; ".join(f"{count}: {reason}" for reason, count in dropped.items())
        raise WorkloadError(f"{path}: none of {n_rows} rows is a job that ran ({why}); is it an SWF log?")
    unique, renumbered = _unique(number.astype(np.int64), keep)
    return JobRows(keep, unique, submit_s, runtime_s, dropped, renumbered)


def _fate(log: SwfLog) -> NDArray[np.int8]:
    return np.select(
        [~(log["runtime_s"] > 0), log["submit_s"] < 0, ~(requested(log) > 0)],
        [np.int8(NO_RUN_TIME), np.int8(NO_SUBMISSION), np.int8(NO_PROCESSORS)],
        np.int8(0),
    )


def _join_parts(
    parts: NDArray[np.float64], at_row: NDArray[np.intp], fate: NDArray[np.int8], number: NDArray[np.float64]
) -> dict[int, float]:
    """Decide the fate of partial executions in place; return the added-up run times by row."""
    if not len(parts):
        return {}
    whole = np.ones(len(fate), bool)
    whole[at_row] = False
    summarised = np.isin(parts[:, FIELD["job"]], number[whole])
    fate[at_row[summarised]] = SUMMARISED
    parts, at_row = parts[~summarised], at_row[~summarised]
    _, first, job = np.unique(parts[:, FIELD["job"]], return_index=True, return_inverse=True)
    runtime_s = np.zeros(len(first))
    np.add.at(runtime_s, job, np.maximum(parts[:, FIELD["runtime_s"]], 0))
    joined = parts[first]
    joined[:, FIELD["runtime_s"]] = runtime_s
    fate[at_row] = ADDED
    fate[at_row[first]] = _fate(SwfLog((), joined, at_row[first]))
    return dict(zip(at_row[first].tolist(), runtime_s.tolist(), strict=True))


def _unique(number: NDArray[np.int64], keep: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int]:
    """The numbers with those that are negative or occurred before replaced by new ones above the largest; how many."""
    kept = number[keep]
    if kept[0] >= 0 and (kept[1:] > kept[:-1]).all():  # nearly every log; saves the sort below
        return number, 0
    again = np.ones(len(kept), bool)
    again[np.unique(kept, return_index=True)[1]] = False
    again |= kept < 0
    kept[again] = max(int(kept.max()), 0) + 1 + np.arange(again.sum())
    number[keep] = kept
    return number, int(again.sum())


def notes_of(rows: JobRows, changed: Counter[str]) -> tuple[str, ...]:
    """What reading dropped and changed, one line each, with counts; what `warnings_of` says is left to it."""
    changed = changed + Counter({"job number unknown or used before, a new one given": rows.renumbered})
    n_rows, n_jobs = len(rows.keep), int(rows.keep.sum())
    if warnings_of(rows, changed):
        del changed[NO_REQUEST]
    return (
        *(f"{count} of {n_rows} rows dropped: {reason}" for reason, count in rows.dropped.items()),
        *(f"{count} of {n_jobs} jobs changed: {what}" for what, count in changed.items()),
    )


def warnings_of(rows: JobRows, changed: Counter[str]) -> tuple[str, ...]:
    """The changes that make figures doubtful, one line each."""
    return request_warning(changed[NO_REQUEST], int(rows.keep.sum()))
