"""Converts an SWF log to jobs: selects the rows that ran, and sets their number, run time, walltime and processors.

`requested_s` is the requested time in the log, -1 if it has none; `walltime_s` is the limit at which the job is
ended, which `workload_of` derives from it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
from numpy.dtypes import StringDType

from batfill.base.errors import LARGEST, WorkloadError, whole_from
from batfill.base.files import digest
from batfill.base.tables import number_text
from batfill.model.jobs import (
    UNKNOWN,
    Jobs,
    Overrun,
    Unrequested,
    checked_size,
    raised_warning,
    records_of,
    refuse_unrequested,
    stand_in,
    table_in_order,
)
from batfill.model.values import MEMORY, unrequested_of
from batfill.workloads.swf_log import LAST_PARTIAL_FAILED, PARTIAL, WIDE, SwfLog

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    "requested_memory_kb",
)
OF_STAND_INS = {"queue": ("queue",)}


def needed_fields(unrequested: Unrequested | None) -> tuple[str, ...]:
    return (*OF_JOBS, *OF_STAND_INS.get(str(unrequested), ()))


def workload_of(
    source: Path | str,
    log: SwfLog,
    *,
    procs: int | None = None,
    overrun: Overrun = "keep",
    unrequested: Unrequested | None = None,
    sha256: str | None = None,
    part: slice = slice(None),
) -> Jobs:
    """The jobs of a log already read, for the engine; notes say what was dropped or changed.

    `source`: the log's file, or as a str the name of a made log, of which the columns of `needed_fields` are read.
    `overrun`: "keep" raises a requested time below the run time to it; "kill" leaves it, and the job will end there;
    "extend" raises the limit only, and the scheduler goes on reading the request. `part`: only these jobs, counted in
    order; times then count from the first of them.
    """
    path = Path(source)
    if overrun not in get_args(Overrun):
        raise WorkloadError(f"{path}: overrun {overrun!r} is none of {', '.join(get_args(Overrun))}; choose one")
    unrequested, noted = choice_for(log, unrequested)
    ran = job_rows(path, log)
    log = with_assumed(path, log, ran.row, unrequested)
    row, number, runtime_s = ran.row[part], ran.number[part], ran.runtime_s[part]
    if not len(row):
        raise WorkloadError(f"{path}: jobs {part.start}:{part.stop} select none of {len(ran.row)}; choose others")

    def column(name: str) -> NDArray[np.float64]:
        return log[name][row]

    submit_s, requested_s, waited_s = map(column, ("submit_s", "requested_s", "wait_s"))
    asked = requested_s > 0
    request_s = np.where(asked, requested_s, runtime_s if log.assumed_s is None else log.assumed_s[row])
    left = log.left[row]
    runtime_s = np.where(left, np.minimum(runtime_s, request_s), runtime_s)
    waited_s = np.where(left | (waited_s < 0), np.nan, waited_s)
    clock = log.clock
    jobs = table_in_order(
        str(path),
        ids=padded_ids(number, width=len(str(number.max()))),
        submit_s=submit_s - submit_s[0],
        runtime_s=runtime_s,
        walltime_s=request_s if overrun == "kill" else np.maximum(request_s, runtime_s),
        request_s=request_s,
        asked=asked,
        procs=log.needed_procs[row].astype(np.int64),
        user=column("user").astype(np.int64),
        job_class=np.full(len(row), UNKNOWN, np.int8),
        cancel_after_s=np.where(left, column("wait_s"), np.inf) if left.any() else None,
        waited_s=waited_s if (waited_s >= 0).any() else None,
        amounts=amounts_in(log, row),
        row=None if (row[1:] > row[:-1]).all() else row,
        own_end=overrun != "kill",
        outlives=overrun == "extend",
        name=path.name,
        size=machine_size(path, log, procs),
        digest="" if isinstance(source, str) else sha256 or digest(path),
        clock=clock.later(float(submit_s[0])) if clock else None,
        overrun=overrun,
        unrequested=unrequested,
        cancelled=log.cancelled,
        file=None if isinstance(source, str) else path,
    )
    by_default = noted if jobs.invented.any() else ()
    return jobs.stating(notes=(*size_notes(log, procs), *zone_notes(log), *notes_of(jobs, ran, len(log)), *by_default))


def amounts_in(log: SwfLog, keep: NDArray[np.intp]) -> NDArray[np.void] | None:
    """What jobs state that they take: amounts, and `memory`, in GB, of the log's kB per processor; None for nothing."""
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


class Ran(NamedTuple):
    """The rows of a log that are jobs, in the order of (submission, number); the arrays have shape (n_jobs,)."""

    row: NDArray[np.intp]
    number: NDArray[np.int64]  # unique
    runtime_s: NDArray[np.float64]  # summed over a job's partial executions
    dropped: dict[str, int]  # rows by the reason they are not jobs
    renumbered: int  # jobs whose number was unknown or used before


def job_rows(path: Path, log: SwfLog) -> Ran:
    """The rows that ran: run time > 0, a submission time, and processors, requested or allocated; and `SwfLog.left`.

    By the format's standard a checkpointed job has several rows with one number: its partial executions (status 2 to 4)
    and a summary. The summary is kept; without one the run times of the parts are summed.
    """
    number, runtime_s = log["job"], np.where(log.left, log["wait_s"], log["runtime_s"])
    reason = _reason(log, runtime_s)
    for what, values, most, rule in (
        ("job number", number, np.inf, "whole; number the jobs 1, 2, ..."),
        ("number of processors", log.needed_procs, LARGEST, f"{whole_from(1)}; write the number allocated to the job"),
    ):
        broken = ((values != np.floor(values)) | (values > most)) & (reason == 0)
        if broken.any():
            row = int(np.argmax(broken))
            raise WorkloadError(f"{path}:{log.lines[row]}: {what} {number_text(float(values[row]))} is not {rule}")
    if not len(log):
        raise WorkloadError(f"{path}: no job in it, only 0 rows; is it a complete SWF log?")
    parts = np.flatnonzero((log["status"] >= PARTIAL) & (log["status"] <= LAST_PARTIAL_FAILED))
    if len(parts):
        _join_parts(log, parts, reason, runtime_s)
    counts = np.bincount(reason, minlength=len(REASONS)).tolist()
    dropped = {text: count for text, count in zip(REASONS[1:], counts[1:], strict=True) if count}
    kept = np.flatnonzero(reason == 0)
    if not len(kept):
        why = "; ".join(f"{count}: {text}" for text, count in dropped.items())
        raise WorkloadError(f"{path}: none of {len(log)} rows is a job that ran ({why}); is it an SWF log?")
    unique, renumbered = _unique(number[kept].astype(np.int64))
    submit_s = log["submit_s"][kept]
    if not ((submit_s[1:] > submit_s[:-1]) | ((submit_s[1:] == submit_s[:-1]) & (unique[1:] > unique[:-1]))).all():
        order = np.lexsort((unique, submit_s))
        kept, unique = kept[order], unique[order]
    return Ran(kept, unique, runtime_s[kept], dropped, renumbered)


def runs(log: SwfLog) -> NDArray[np.bool_]:
    ran: NDArray[np.bool_] = _reason(log) == 0
    return ran


def _reason(log: SwfLog, runtime_s: NDArray[np.float64] | None = None) -> NDArray[np.int8]:
    runtime_s = log["runtime_s"] if runtime_s is None else runtime_s
    return np.select(
        [~(runtime_s > 0), log["submit_s"] < 0, ~(log.needed_procs > 0)],
        [np.int8(NO_RUN_TIME), np.int8(NO_SUBMISSION), np.int8(NO_PROCESSORS)],
        np.int8(0),
    )


def _join_parts(log: SwfLog, rows: NDArray[np.intp], reason: NDArray[np.int8], runtime_s: NDArray[np.float64]) -> None:
    """Write the reasons of these partial executions into `reason`, and as the first's run time the sum of theirs."""
    number = log["job"]
    whole = np.ones(len(log), bool)
    whole[rows] = False
    summarised = np.isin(number[rows], number[whole])
    reason[rows[summarised]] = SUMMARISED
    rows = rows[~summarised]
    _, first, job = np.unique(number[rows], return_index=True, return_inverse=True)
    summed_s = np.bincount(job, np.maximum(runtime_s[rows], 0), len(first))
    reason[rows] = ADDED
    first = rows[first]
    runtime_s[first] = summed_s
    reason[first] = _reason(log.select(first), summed_s.astype(np.float64))


def _unique(number: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """The numbers, with negative and repeated ones replaced by new ones above the largest; and how many were."""
    if number[0] >= 0 and (number[1:] > number[:-1]).all():  # true for nearly every log; avoids the sort below
        return number, 0
    again = np.ones(len(number), bool)
    again[np.unique(number, return_index=True)[1]] = False
    again |= number < 0
    number[again] = max(int(number.max()), 0) + 1 + np.arange(again.sum())
    return number, int(again.sum())


def notes_of(jobs: Jobs, ran: Ran, n_rows: int) -> tuple[str, ...]:
    """One line per kind of dropped rows and changed jobs, with counts, except those that `Jobs.warnings` reports."""
    n_jobs, below = len(jobs), int((jobs.request_s < jobs.runtime_s).sum())
    changed = {
        NO_REQUEST: int(jobs.invented.sum()),
        NO_LIMIT: int((~jobs.asked & np.isinf(jobs.walltime_s)).sum()),
        RAISED: below if jobs.overrun == "keep" else 0,
        OUTLIVED: below if jobs.overrun == "extend" else 0,
        "job number unknown or used before, a new one given": ran.renumbered,
    }
    left = int(jobs.is_cancelled.sum())
    if jobs.invented_warning:
        changed[NO_REQUEST] = changed[NO_LIMIT] = 0
    if raised_warning(changed[RAISED], n_jobs, jobs.unrequested):
        changed[RAISED] = 0
    stated = jobs.unrequested in ("refuse", "runtime")
    texts = {} if stated else {NO_REQUEST: stand_in(jobs.unrequested).partition(";")[0]}
    return (
        *(f"{count:,} of {n_rows:,} rows dropped: {reason}" for reason, count in ran.dropped.items()),
        *[f"{left:,} of {n_rows:,} rows are jobs that leave the queue when they were cancelled"] * bool(left),
        *(f"{count} of {n_jobs} jobs changed: {texts.get(what, what)}" for what, count in changed.items() if count),
    )


def choice_for(log: SwfLog, unrequested: Unrequested | None) -> tuple[Unrequested, tuple[str, ...]]:
    """What stands in for missing requests, by default the run time in a generated log; and a note on a default."""
    if unrequested is not None:
        chosen: Unrequested = unrequested_of("unrequested", unrequested)  # type: ignore[assignment]
        return chosen, ()
    if not log.generated:
        return "refuse", ()
    return "runtime", ("generated jobs have no user who requests: unrequested is runtime unless you choose another",)


def with_assumed(where: object, log: SwfLog, rows: NDArray[np.intp], unrequested: Unrequested) -> SwfLog:
    """The log with p~ of its `rows` without a request, unless the run time stands in for it, or p~ is there."""
    keep = np.zeros(len(log), bool)
    keep[rows] = True
    missing = keep & ~(log["requested_s"] > 0)
    if log.assumed_s is not None or unrequested in ("refuse", "runtime") or not missing.any():
        return log
    if unrequested == "queue":
        assumed_s = queue_limits(where, log, keep, missing)
    elif unrequested == "user-max":
        assumed_s = user_limits(log, keep, missing)
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
    rows = job_rows(Path(str(where)), log).row
    missing = ~(log["requested_s"][rows] > 0)
    if log.assumed_s is not None:
        missing &= np.isfinite(log.assumed_s[rows])
    refuse_unrequested(where, int(missing.sum()), len(rows), unrequested)


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
    if procs is None:
        raise WorkloadError(f"{source}: its header says neither MaxProcs nor MaxNodes; pass --procs")
    return procs
