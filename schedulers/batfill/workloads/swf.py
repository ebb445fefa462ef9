"""Converts an SWF log to jobs: selects the rows that ran, and sets their number, run time, walltime and processors.

`requested_s` is the requested time in the log, -1 if it has none; `walltime_s` is the limit at which the job is
ended, which `columns_of` derives from it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.dtypes import StringDType

from batfill.base.errors import LARGEST, WorkloadError, whole_from
from batfill.base.files import digest
from batfill.base.tables import number_text
from batfill.model.jobs import (
    UNKNOWN,
    Overrun,
    Unrequested,
    Workload,
    checked_size,
    raised_warning,
    records_of,
    refuse_unrequested,
    request_warning,
    stand_in,
    table_in_order,
)
from batfill.model.values import unrequested_of
from batfill.workloads.swf_log import LAST_PARTIAL_FAILED, MEMORY, PARTIAL, WIDE, SwfLog, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

# Why a row is not a job: the first of these that holds, 0 for a job.
REASONS = (
    "",
    "run time <= 0 or unknown",
    "submission time unknown",
    "neither requested nor allocated processors",
    "partial execution of a job whose summary row is kept",
    "further partial execution of a job without a summary row, its run time added to the first",
)
IDS_AT_ONCE = 1 << 20
NO_REQUEST = "requested time unknown, the run time taken"
NO_LIMIT = "requested time unknown, no limit"
RAISED = "requested time, or what stands in for it, below the run time, raised to it"
OUTLIVED = "requested time, or what stands in for it, below the run time, outlived"
NO_RUN_TIME, NO_SUBMISSION, NO_PROCESSORS, SUMMARISED, ADDED = range(1, len(REASONS))

# The columns that jobs are made of, and those that what stands in for a request may need besides.
OF_JOBS = (
    *("job", "submit_s", "wait_s", "runtime_s", "procs", "requested_procs", "requested_s", "status", "user"),
    *("preceding_job", "think_s", "requested_memory_kb"),
)
OF_STAND_INS = {"queue": ("queue",)}


def needed_fields(unrequested: Unrequested | None) -> tuple[str, ...]:
    """The columns that `workload_of` reads of a log."""
    return (*OF_JOBS, *OF_STAND_INS.get(str(unrequested), ()))


def workload_of(
    source: Path | str,
    log: SwfLog,
    *,
    procs: int | None = None,
    overrun: Overrun = "keep",
    unrequested: Unrequested | None = None,
    sha256: str | None = None,
) -> Workload:
    """The jobs of a log already read, for the engine; notes say what was dropped or changed.

    Args:
        source: the log's file, or as a str the name of a made log.
        log: the log, of which the columns of `needed_fields` are read.
        procs: the machine's size; by default what `machine_size` finds.
        overrun: "keep" raises a requested time below the run time to it; "kill" leaves it, and the job will end there;
            "extend" raises the limit only, and the scheduler goes on reading the request.
        unrequested: what stands in for a missing request, see `read_workload`.
        sha256: the file's digest, if it is known.
    """
    path = Path(source)
    if overrun not in get_args(Overrun):
        raise WorkloadError(f"{path}: overrun {overrun!r} is none of {', '.join(get_args(Overrun))}; choose one")
    unrequested, noted = choice_for(log, unrequested)
    rows = job_rows(path, [log])
    log = with_assumed(path, log, rows, unrequested)
    changed: Counter[str] = Counter()
    jobs = columns_of(log, rows, overrun=overrun, changed=changed)
    clock, size, doubts = log.clock, machine_size(path, log, procs), size_notes(log, procs)
    notes = (*doubts, *zone_notes(log), *notes_of(rows, changed, unrequested), *(noted if changed[NO_REQUEST] else ()))
    return Workload(
        name=path.name,
        jobs=table_in_order(str(path), **jobs),
        procs=size,
        digest="" if isinstance(source, str) else sha256 or digest(path),
        notes=notes,
        clock=clock.later(rows.first_submit_s) if clock else None,
        overrun=overrun,
        unrequested=unrequested,
        file=None if isinstance(source, str) else path,
    )


def columns_of(
    log: SwfLog,
    rows: RowsOfJobs,
    *,
    first_row: int = 0,
    overrun: Overrun = "keep",
    margin_s: float = 0,
    changed: Counter[str],
) -> dict[str, Any]:
    """The jobs of a piece of a log, in the log's order, as columns of a `JobTable`.

    Args:
        log: the piece.
        rows: the rows of the whole log that are jobs.
        first_row: index of the piece's first row in the whole log.
        overrun: see `workload_of`.
        margin_s: by how much a raised limit exceeds the run time; a host that ends a job at p = p~ as overrun, such as
            Batsim, needs one above 0 for such a job to complete.
        changed: out, number of jobs by what was changed.
    """
    here = slice(first_row, first_row + len(log))
    keep = rows.keep[here]
    runtime_s = rows.run_times(log, first_row)[keep]
    requested_s = log["requested_s"][keep]
    no_request = ~(requested_s > 0)
    stand_in_s = runtime_s if log.assumed_s is None else log.assumed_s[keep]
    unlimited = no_request & np.isinf(stand_in_s)
    changed[NO_REQUEST] += int((no_request & ~unlimited).sum())
    changed[NO_LIMIT] += int(unlimited.sum())
    walltime_s = np.where(no_request, stand_in_s, requested_s)
    assumed_s = np.where(no_request & ~unlimited, walltime_s, np.nan)
    if overrun != "kill":
        changed[RAISED if overrun == "keep" else OUTLIVED] += int((walltime_s < runtime_s).sum())
        walltime_s = np.where(walltime_s <= runtime_s, runtime_s + margin_s, walltime_s)
    waited_s = log["wait_s"][keep]
    return {
        "ids": padded_ids(rows.number[here][keep], width=rows.id_width),
        "submit_s": rows.submit_s[here][keep] - rows.first_submit_s,
        "runtime_s": runtime_s,
        "walltime_s": walltime_s,
        "user_request_s": np.where(no_request, np.nan, requested_s),
        "procs": log.needed_procs[keep].astype(np.int64),
        "user": log["user"][keep].astype(np.int64),
        "job_class": np.full(len(runtime_s), UNKNOWN, np.int8),
        "own_end": overrun != "kill",
        "outlives": overrun == "extend",
        "assumed_s": assumed_s if no_request.any() and (overrun == "extend" or log.assumed_s is not None) else None,
        "waited_s": np.where(waited_s >= 0, waited_s, np.nan) if (waited_s >= 0).any() else None,
        "amounts": amounts_in(log, keep),
    }


def amounts_in(log: SwfLog, keep: NDArray[np.bool_]) -> NDArray[np.void] | None:
    """What jobs state that they take: the log's amounts, and `memory`, in GB to the byte; None if they state nothing.

    The log has the memory for each processor, in kB.
    """
    known, others = log["requested_memory_kb"][keep], None if log.amounts is None else log.amounts[keep]
    found = {} if others is None else {name: others[name] for name in others.dtype.names or ()}
    if (known > 0).any():
        gb = np.round(known * log.needed_procs[keep] / 1e6, 9)
        found[MEMORY] = np.where(known > 0, gb, np.nan)
    return records_of("the log", len(known), found) if found else None


def with_amounts(log: SwfLog, amounts: Mapping[str, NDArray[np.float64]]) -> SwfLog:
    """The log with what its rows take, (n_rows,) by name, as `amounts_in` finds it."""
    others = {name: column for name, column in amounts.items() if name != MEMORY}
    if MEMORY in amounts:
        gb, procs = amounts[MEMORY], log.needed_procs
        known = (gb > 0) & (gb < np.inf) & (procs > 0)
        log["requested_memory_kb"][:] = np.where(known, gb * 1e6 / np.maximum(procs, 1), -1)
    return replace(log, amounts=records_of("the log", len(log), others) if others else None)


@dataclass(frozen=True, eq=False)
class RowsOfJobs:
    """The rows of a log that become jobs. Arrays have shape (n_rows,), in the file's order."""

    keep: NDArray[np.bool_]
    number: NDArray[np.int64]  # unique among the rows kept
    submit_s: NDArray[np.float64]
    runtime_s: dict[int, float]  # by row: run time of a job summed over its partial executions
    dropped: dict[str, int]  # rows by the reason they are not jobs
    renumbered: int  # jobs whose number was unknown or used before

    @cached_property
    def first_submit_s(self) -> float:
        """The first job's submission time, on the log's clock."""
        return float(self.submit_s[self.keep].min())

    @cached_property
    def id_width(self) -> int:
        """The number of digits of the largest job number."""
        return len(str(self.number[self.keep].max()))

    @property
    def in_order(self) -> NDArray[np.intp]:
        """The rows in the order of (submission, number), which is that of the job table."""
        rows = np.flatnonzero(self.keep)
        return rows[np.lexsort((self.number[rows], self.submit_s[rows]))]

    def run_times(self, log: SwfLog, first_row: int = 0) -> NDArray[np.float64]:
        """The run time of each row of a piece of the log, which begins at `first_row`; summed where jobs have parts."""
        runtime_s = log["runtime_s"].copy()
        for row in self.runtime_s.keys() & range(first_row, first_row + len(log)):
            runtime_s[row - first_row] = self.runtime_s[row]
        return runtime_s

    def jobs_only(self, jobs: slice) -> RowsOfJobs:
        """Only these jobs, counted in order."""
        chosen = self.in_order[jobs]
        if not len(chosen):
            raise WorkloadError(f"jobs {jobs.start}:{jobs.stop} select none of {self.keep.sum()}; choose others")
        keep = np.zeros_like(self.keep)
        keep[chosen] = True
        return replace(self, keep=keep)


def job_rows(path: Path, batches: Iterable[SwfLog]) -> RowsOfJobs:
    """The rows that ran: run time > 0, a submission time, and processors, requested or allocated.

    By the format's standard a checkpointed job has several rows with one number: its partial executions (status 2 to 4)
    and a summary. The summary is kept; without one the run times of the parts are summed.

    Args:
        path: the log's name in error messages.
        batches: the log in pieces, in order.
    """
    reasons: list[NDArray[np.int8]] = []
    numbers: list[NDArray[np.float64]] = []
    submits: list[NDArray[np.float64]] = []
    parts: list[SwfLog] = []
    at_row: list[NDArray[np.intp]] = []
    n_rows = 0
    for batch in batches:
        reasons.append(_reason(batch))
        numbers.append(batch["job"].copy())
        submits.append(batch["submit_s"].copy())
        partial = np.flatnonzero((batch["status"] >= PARTIAL) & (batch["status"] <= LAST_PARTIAL_FAILED))
        parts.append(batch.select(partial))
        at_row.append(n_rows + partial)
        procs = batch.needed_procs
        for what, values, most, rule in (
            ("job number", numbers[-1], np.inf, "whole; number the jobs 1, 2, ..."),
            ("number of processors", procs, LARGEST, f"{whole_from(1)}; write the number allocated to the job"),
        ):
            broken = ((values != np.floor(values)) | (values > most)) & (reasons[-1] == 0)
            if broken.any():
                row = int(np.argmax(broken))
                found = number_text(float(values[row]))
                raise WorkloadError(f"{path}:{batch.lines[row]}: {what} {found} is not {rule}")
        n_rows += len(batch)
    if not n_rows:
        raise WorkloadError(f"{path}: no job in it, only {n_rows} rows; is it a complete SWF log?")
    reason, number, submit_s = _end_to_end(reasons), _end_to_end(numbers), _end_to_end(submits)
    runtime_s = _join_parts(joined(parts, fields=parts[0].fields), np.concatenate(at_row), reason, number)
    counts = np.bincount(reason, minlength=len(REASONS)).tolist()
    dropped = {text: count for text, count in zip(REASONS[1:], counts[1:], strict=True) if count}
    keep = reason == 0
    if not keep.any():
        why = "; ".join(f"{count}: {text}" for text, count in dropped.items())
        raise WorkloadError(f"{path}: none of {n_rows} rows is a job that ran ({why}); is it an SWF log?")
    unique, renumbered = _unique(number.astype(np.int64), keep)
    return RowsOfJobs(keep, unique, submit_s, runtime_s, dropped, renumbered)


def runs(log: SwfLog) -> NDArray[np.bool_]:
    """A mask of the rows that ran: run time > 0, a submission time, processors."""
    ran: NDArray[np.bool_] = _reason(log) == 0
    return ran


def _reason(log: SwfLog) -> NDArray[np.int8]:
    return np.select(
        [~(log["runtime_s"] > 0), log["submit_s"] < 0, ~(log.needed_procs > 0)],
        [np.int8(NO_RUN_TIME), np.int8(NO_SUBMISSION), np.int8(NO_PROCESSORS)],
        np.int8(0),
    )


def _end_to_end(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    """The column of these pieces, which are freed; one piece is the column itself, without a copy."""
    column = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    pieces.clear()
    return column


def _join_parts(
    parts: SwfLog, at_row: NDArray[np.intp], reason: NDArray[np.int8], number: NDArray[np.float64]
) -> dict[int, float]:
    """Write the partial executions' reasons into `reason`; returns the summed run times by row."""
    if not len(parts):
        return {}
    whole = np.ones(len(reason), bool)
    whole[at_row] = False
    summarised = np.isin(parts["job"], number[whole])
    reason[at_row[summarised]] = SUMMARISED
    parts, at_row = parts.select(~summarised), at_row[~summarised]
    _, first, job = np.unique(parts["job"], return_index=True, return_inverse=True)
    runtime_s = np.zeros(len(first))
    np.add.at(runtime_s, job, np.maximum(parts["runtime_s"], 0))
    summed = parts.select(first)
    summed["runtime_s"][:] = runtime_s
    reason[at_row] = ADDED
    reason[at_row[first]] = _reason(summed)
    return dict(zip(at_row[first].tolist(), runtime_s.tolist(), strict=True))


def _unique(number: NDArray[np.int64], keep: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int]:
    """The numbers, with negative and repeated ones replaced by new ones above the largest; and how many were."""
    kept = number[keep]
    if kept[0] >= 0 and (kept[1:] > kept[:-1]).all():  # true for nearly every log; avoids the sort below
        return number, 0
    again = np.ones(len(kept), bool)
    again[np.unique(kept, return_index=True)[1]] = False
    again |= kept < 0
    kept[again] = max(int(kept.max()), 0) + 1 + np.arange(again.sum())
    number[keep] = kept
    return number, int(again.sum())


def notes_of(rows: RowsOfJobs, changed: Counter[str], unrequested: Unrequested) -> tuple[str, ...]:
    """One line per kind of dropped rows and changed jobs, with counts, except those that `warnings_of` reports."""
    changed = changed + Counter({"job number unknown or used before, a new one given": rows.renumbered})
    n_rows, n_jobs = len(rows.keep), int(rows.keep.sum())
    for what in ((NO_REQUEST, NO_LIMIT), (RAISED,)):
        if warnings_of(rows, Counter({one: changed[one] for one in what}), unrequested):
            for one in what:
                del changed[one]
    texts = {} if unrequested in ("refuse", "runtime") else {NO_REQUEST: stand_in(unrequested).partition(";")[0]}
    return (
        *(f"{count:,} of {n_rows:,} rows dropped: {reason}" for reason, count in rows.dropped.items()),
        *(f"{count} of {n_jobs} jobs changed: {texts.get(what, what)}" for what, count in changed.items()),
    )


def warnings_of(rows: RowsOfJobs, changed: Counter[str], unrequested: Unrequested) -> tuple[str, ...]:
    """The changes that make figures doubtful, one line each."""
    n_jobs = int(rows.keep.sum())
    missing = changed[NO_REQUEST] + (changed[NO_LIMIT] if unrequested != "refuse" else 0)
    missing_warning = request_warning(missing, n_jobs, stand_in(unrequested))
    return (*missing_warning, *raised_warning(changed[RAISED], n_jobs, unrequested))


def choice_for(log: SwfLog, unrequested: Unrequested | None) -> tuple[Unrequested, tuple[str, ...]]:
    """What stands in for missing requests, by default the run time in a generated log; and a note on a default."""
    if unrequested is not None:
        chosen: Unrequested = unrequested_of("unrequested", unrequested)  # type: ignore[assignment]
        return chosen, ()
    if not log.generated:
        return "refuse", ()
    return "runtime", ("generated jobs have no user who requests: unrequested is runtime unless you choose another",)


def with_assumed(where: object, log: SwfLog, rows: RowsOfJobs, unrequested: Unrequested) -> SwfLog:
    """The log with p~ of its rows without a request, unless the run time stands in for it, or they have it already.

    Args:
        where: begins error messages.
        log: the whole log, since "queue" and "user-max" read all of it.
        rows: its rows that are jobs.
        unrequested: what stands in.
    """
    missing = rows.keep & ~(log["requested_s"] > 0)
    if log.assumed_s is not None or unrequested in ("refuse", "runtime") or not missing.any():
        return log
    if unrequested == "queue":
        assumed_s = queue_limits(where, log, rows.keep, missing)
    elif unrequested == "user-max":
        assumed_s = user_limits(log, rows.keep, missing)
    else:
        assumed_s = np.full(len(log), np.inf if unrequested == "none" else float(unrequested))
    return replace(log, assumed_s=assumed_s)


def queue_limits(
    where: object, log: SwfLog, keep: NDArray[np.bool_], missing: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The longest request of each row's queue, else the header's MaxRuntime, shape (n_rows,)."""
    queues, of_row = np.unique(log["queue"], return_inverse=True)
    longest_s = np.zeros(len(queues))
    np.maximum.at(longest_s, of_row[keep], log["requested_s"][keep])
    longest_s[queues < 0] = 0  # an unknown queue is none
    longest_s[longest_s <= 0] = log.header_number("MaxRuntime") or 0
    limit_s: NDArray[np.float64] = longest_s[of_row]
    bare = missing & ~(limit_s > 0)
    if bare.any():
        row = int(np.argmax(bare))
        queue = f"queue {log['queue'][row]:g}, of which no job has one" if log["queue"][row] >= 0 else "no known queue"
        raise WorkloadError(
            f"{where}: {int(bare.sum())} jobs without a requested time have no limit of a queue (first: job "
            f"{log['job'][row]:g}, in {queue}), and the header has no MaxRuntime; choose another unrequested"
        )
    return limit_s


def user_limits(log: SwfLog, keep: NDArray[np.bool_], missing: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The longest run time of jobs that had ended by each missing row's submission, shape (n_rows,).

    Those of the same user count, else those of all users; inf if none had ended. A job ends in the log at submission +
    wait + run time, an unknown wait being 0. Rows that are not missing have inf.
    """
    submit_s, runtime_s, user = log["submit_s"], log["runtime_s"], log["user"].astype(np.int64)
    end_s = submit_s + np.maximum(log["wait_s"], 0) + runtime_s
    ended = np.flatnonzero(keep)
    ended = ended[np.argsort(end_s[ended], kind="stable")].tolist()
    limit_s = np.full(len(log), np.inf)
    asking = np.flatnonzero(missing)
    longest_s: dict[int, float] = {}
    of_all_s, done = 0.0, 0
    for row in asking[np.argsort(submit_s[asking], kind="stable")].tolist():
        while done < len(ended) and end_s[ended[done]] <= submit_s[row]:
            other = ended[done]
            ran_s = float(runtime_s[other])
            of_all_s = max(of_all_s, ran_s)
            longest_s[int(user[other])] = max(longest_s.get(int(user[other]), 0.0), ran_s)
            done += 1
        own_s = longest_s.get(int(user[row]), 0.0) if user[row] >= 0 else 0.0
        limit_s[row] = own_s or of_all_s or np.inf
    return limit_s


def require_requests(where: object, log: SwfLog, unrequested: Unrequested) -> None:
    """Refuse to replay a log of whose jobs too many have no request, see `refuse_unrequested`."""
    keep = job_rows(Path(str(where)), [log]).keep
    missing = keep & ~(log["requested_s"] > 0)
    if log.assumed_s is not None:
        missing &= np.isfinite(log.assumed_s)
    refuse_unrequested(where, int(missing.sum()), int(keep.sum()), unrequested)


def padded_ids(number: NDArray[np.int64], *, width: int) -> NDArray[Any]:
    """The numbers as strings of one width, so that they sort as the numbers do: 16 B each, not 65 as objects."""
    # In parts, since padding copies.
    ids = np.empty(len(number), StringDType())
    for start in range(0, len(number), IDS_AT_ONCE):
        part = slice(start, start + IDS_AT_ONCE)
        ids[part] = np.strings.zfill(number[part].astype(StringDType()), width)
    return ids


def machine_size(path: Path, log: SwfLog, procs: int | None = None) -> int | None:
    """m: `procs` if given, else that of the list of known logs, else the header's MaxProcs or MaxNodes, or None."""
    if procs is not None:
        return checked_size(path, procs)
    if log.known:
        return log.known.processors
    size = log.header_procs
    return None if size is None else checked_size(f"{path}: its header", size)


def with_size(path: Path, log: SwfLog, procs: int | None) -> SwfLog:
    """The log with the result of `machine_size` in its header, so that logs made from it keep it."""
    size = machine_size(path, log, procs)
    return log.marked() if size is None or size == log.header_procs else log.sized(size)


def size_notes(log: SwfLog, procs: int | None) -> tuple[str, ...]:
    """Lines on rows with more fields than SWF has, and on a machine's size that is neither given nor the header's."""
    wide = tuple(found[1] for text in log.header if (found := WIDE.fullmatch(text)))
    size, in_header = log.known.processors if log.known else None, log.header_procs
    if procs is not None or log.known is None or size == in_header:
        return wide
    header = "the header has none" if in_header is None else f"the header says {in_header}"
    return (*wide, f"{size} processors by the list of known logs ({log.known.name}); {header}; --procs overrides both")


def zone_notes(log: SwfLog) -> tuple[str, ...]:
    """A line on the header's time zone if this system does not know it."""
    named = log.header_value("TimeZoneString")
    if log.clock is None or not named or log.clock.zone_name == named:
        return ()
    return (f"this system has no time zone {named}: dates are by {log.clock.zone_name}; pip install tzdata",)


def known_size(source: Path, procs: int | None) -> int:
    """The machine's size, which a Batsim workload must state."""
    if procs is None:
        raise WorkloadError(f"{source}: its header says neither MaxProcs nor MaxNodes; pass --procs")
    return procs
