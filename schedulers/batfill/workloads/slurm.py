"""Reads Slurm's jobs from `sacct -P` output piece by piece, with columns found by name.

Source: the sacct manual. This command gives all the fields read here, requeued jobs included:

    SLURM_TIME_FORMAT=%s sacct -a -X -P -D -S START -E END -o JobID,User,Group,JobName,Partition,QOS,Submit,Start,End,\
TimelimitRaw,AllocCPUS,ReqCPUS,State
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.errors import LARGEST, WorkloadError
from batfill.workloads.cluster_log import (
    LAST_S,
    NOT_ENDED,
    ROWS_AT_ONCE,
    TYPES,
    Jobs,
    Names,
    Reading,
    pieces_of,
    seconds_in,
    unix_time,
    unix_times,
    zone_of,
)
from batfill.workloads.swf_log import CANCELLED, COMPLETED, FAILED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo
    from pathlib import Path

    from numpy.typing import NDArray

NEEDED = ("JobID", "Submit", "Start", "End", "State")
ENDED_STATES = {
    "COMPLETED": COMPLETED,
    "CANCELLED": CANCELLED,
    **dict.fromkeys(
        ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED", "REQUEUED"), FAILED
    ),
}
SAME_JOB = ("key", "user", "executable")  # Slurm's counter of ids wraps around
TEXTS = {"User": "user", "JobName": "executable", "QOS": "queue", "Partition": "partition"}
READ_COLUMNS = (*NEEDED, *TEXTS, "Group", "Account", "AllocCPUS", "ReqCPUS", "TimelimitRaw", "Timelimit")
JOB_ID = re.compile(r"^(\d+(?:_\d+|_\[[^\]]*\])?)(\+\d+)?$")
MINUTE_S = 60
DATE = ord("T")  # between a date and a time


def read_slurm(paths: list[Path], *, zone: str = "UTC") -> Reading:
    """The finished jobs of `sacct` output, in files that start with the line of column names.

    - A requeued job has several records (with `-D`, of one id, user and name): its last one is the job, with the
      submission time of the first.
    - The components of a heterogeneous job (JobID 7+0, 7+1) are one job with all their processors.
    - A task of an array is a job; the record of tasks that never started (7_[3-9]) is one job that never ran.
    - Steps (7.batch), which `-X` leaves out, and jobs that have not ended are left out and counted.

    Args:
        paths: the files, plain or compressed. They are read in pieces: memory holds 57 bytes a record, and the names.
        zone: the time zone of dates that are not seconds since 1970.

    Raises:
        WorkloadError: a file does not start with column names or lacks one, or a line has another number of columns.
    """
    records = _Records(zone_of(zone))
    for path in paths:
        for table in _tables(path):
            records.read(table)
    return records.reading()


class _Table:
    """The rows of a piece of a file: its bytes, and where each column's fields are."""

    def __init__(self, text: NDArray[np.uint8], columns: list[str], spans: NDArray[np.int32]) -> None:
        self.text = text
        self.columns = columns
        self.spans = spans  # (n, columns, 2)

    def __len__(self) -> int:
        return len(self.spans)

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def of(self, column: str) -> NDArray[np.int32]:
        """The spans of this column's fields, (n, 2)."""
        return np.ascontiguousarray(self.spans[:, self.columns.index(column)])

    def field(self, column: str, row: int) -> str:
        """The text of a field."""
        start, end = self.spans[row, self.columns.index(column)]
        return self.text[start:end].tobytes().decode("utf-8", "replace")

    def counts(self, column: str) -> NDArray[np.int32]:
        """The column's positive whole numbers, (n,), -1 for others and without such a column."""
        from batfill.workloads.record_parse import parse_counts  # loads numba, which only reading needs

        counts = np.full(len(self), -1, np.int32)
        if column in self:
            parse_counts(self.text, self.of(column), counts)
        return counts

    def times(self, column: str, clock: tzinfo) -> NDArray[np.uint32]:
        """The column's times, (n,), 0 for none."""
        from batfill.workloads.record_parse import HARD, LOCAL, parse_times

        seconds, kinds = np.empty(len(self), np.int64), np.empty(len(self), np.int8)
        parse_times(self.text, self.of(column), DATE, seconds, kinds)
        local = kinds == LOCAL
        seconds[local] = unix_times(seconds[local], clock)
        for row in np.flatnonzero(kinds == HARD).tolist():
            seconds[row] = unix_time(self.field(column, row), clock) or 0
        return np.where((seconds > 0) & (seconds <= LAST_S), seconds, 0).astype(np.uint32)

    def limits(self) -> NDArray[np.uint32]:
        """The requested times, (n,), 0 for none, such as UNLIMITED and Partition_Limit, and for more than LAST_S."""
        from batfill.workloads.record_parse import HARD, parse_durations

        column = next((name for name in ("TimelimitRaw", "Timelimit") if name in self), None)
        seconds, kinds = np.zeros(len(self), np.int64), np.zeros(len(self), np.int8)
        if column is not None:
            parse_durations(self.text, self.of(column), MINUTE_S, seconds, kinds)
            for row in np.flatnonzero(kinds == HARD).tolist():
                seconds[row] = min(seconds_in(self.field(column, row), bare=MINUTE_S) or 0, LAST_S + 1)
        return np.where(seconds <= LAST_S, seconds, 0).astype(np.uint32)


def _tables(path: Path) -> Iterator[_Table]:
    """The rows of a file, piece by piece."""
    from batfill.workloads.record_parse import split_rows

    names: list[str] = []
    before = 0
    barred = False
    bars = np.empty(0, np.int32)
    for text in pieces_of(path):
        while not names and text:  # the first line that is not blank
            line, _, text = text.partition(b"\n")
            before += 1
            head = line.decode("utf-8", "replace").rstrip("\r\n").lstrip("\ufeff")
            if head.strip():
                names, barred = head.rstrip("|").split("|"), head.endswith("|")
                if missing := [name for name in NEEDED if name not in names]:
                    raise WorkloadError(
                        f"{path}:{before}: no column {missing[0]}; use sacct -P -o {','.join(NEEDED)},..."
                    )
        if not names:
            continue
        columns = [name for name in READ_COLUMNS if name in names]
        wanted = np.array([names.index(name) for name in columns], np.int64)
        content = np.frombuffer(text, np.uint8)
        if bars.size < len(text) + 2:
            bars = np.empty(len(text) + 2, np.int32)
        spans = np.empty((text.count(b"\n"), len(columns), 2), np.int32)
        name_column = names.index("JobName") if "JobName" in names else -1
        n_rows, lines, wrong = split_rows(content, len(names), name_column, barred, wanted, bars, spans)
        if wrong >= 0:
            raise WorkloadError(
                f"{path}:{before + lines + 1}: {wrong} columns, but the first line names {len(names)}; is it truncated?"
            )
        before += lines
        yield _Table(content, columns, spans[:n_rows])


class _Records:
    """The records of ended jobs, with the keys of their ids."""

    def __init__(self, clock: tzinfo) -> None:
        self.clock = clock
        self.result = Reading()
        self.result.jobs.extra = {}
        self.odd_ids: dict[str, int] = {}
        self.odd_components: dict[str, int] = {}
        self.states = Names()
        self.statuses = np.array([NOT_ENDED], np.int8)

    def read(self, table: _Table) -> None:
        """Add the records of ended jobs; count the others."""
        keys, components, valid = self._ids(table)
        status = self._status(table)
        submit_s, start_s, end_s = (table.times(name, self.clock) for name in ("Submit", "Start", "End"))
        names = self.result.jobs.names
        columns: dict[str, NDArray[Any]] = {
            "submit_s": submit_s,
            "start_s": start_s,
            "end_s": end_s,
            "procs": table.counts("AllocCPUS"),
            "requested_procs": table.counts("ReqCPUS"),
            "requested_s": table.limits(),
            "status": status,
            "group": np.zeros(len(table), np.int32),
        }
        for column, kind in TEXTS.items():
            columns[kind] = (
                names[kind].codes(table.text, table.of(column)) if column in table else np.zeros(len(table), np.int32)
            )
        for column in ("Group", "Account"):
            if column in table:
                missing = columns["group"] == 0
                columns["group"][missing] = names["group"].codes(table.text, table.of(column)[missing])
        self.result.add_ended(columns, valid, {"key": keys, "component": components}, allocated="AllocCPUS" in table)

    def _ids(self, table: _Table) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
        """Of each record the key of its id, its component (-1 for none), and whether it is a job."""
        from batfill.workloads.record_parse import HARD, parse_job_ids

        n = len(table)
        keys, components, kinds = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int8)
        parse_job_ids(table.text, table.of("JobID"), keys, components, kinds)
        valid = np.ones(n, bool)
        for row in np.flatnonzero(kinds == HARD).tolist():
            job_id = table.field("JobID", row)
            match = JOB_ID.match(job_id)
            if match:
                keys[row] = self.odd_ids.setdefault(match[1], -1 - len(self.odd_ids))
                if match[2]:
                    components[row] = self.odd_components.setdefault(match[2], (1 << 25) + len(self.odd_components))
            else:
                valid[row] = False
                self.result.notes[_odd(job_id)] += 1
        return keys, components, valid

    def _status(self, table: _Table) -> NDArray[np.int8]:
        """SWF's status of each record, NOT_ENDED for states of jobs that have not ended."""
        codes = self.states.codes(table.text, table.of("State"))
        if len(self.states) > len(self.statuses):
            later = [self.states.text(code) for code in range(len(self.statuses), len(self.states))]
            ended = [ENDED_STATES.get(state.split(" ")[0].rstrip("+"), NOT_ENDED) for state in later]
            self.statuses = np.concatenate([self.statuses, np.array(ended, np.int8)])
        return self.statuses[codes]

    def reading(self) -> Reading:
        """The jobs of these records."""
        jobs = self.result.jobs
        if len(jobs):
            parts = np.flatnonzero(jobs["component"] >= 0)
            if len(parts):
                self._join(self._keep_last(parts, ("component",)))
            self._keep_last(_repeated(jobs["key"]))
        jobs.extra = {}
        return self.result

    def _keep_last(self, rows: NDArray[np.intp], besides: tuple[str, ...] = ()) -> NDArray[np.bool_]:
        """Keep the last try of each job among these rows, with the job's first submission, in the row of its first try.

        Returns whether each remaining row is of such a job, (n,).
        """
        jobs = self.result.jobs
        kept, among = np.ones(len(jobs), bool), np.zeros(len(jobs), bool)
        if len(rows):
            order, starts = _grouped(jobs, rows, (*besides, *SAME_JOB), then=("end_s", "submit_s"))
            last, first = order[np.append(starts[1:], len(order)) - 1], np.minimum.reduceat(order, starts)
            submit_s = np.minimum.reduceat(jobs["submit_s"][order], starts)
            for name in (*TYPES, *jobs.extra):
                jobs[name][first] = jobs[name][last]
            jobs["submit_s"][first] = submit_s
            kept[rows], among[first] = False, True
            kept[first] = True
            if len(order) > len(starts):
                self.result.notes["earlier tries of requeued jobs, left out"] += len(order) - len(starts)
                jobs.keep(kept)
        return among[kept]

    def _join(self, parts: NDArray[np.bool_]) -> None:
        """Make one job of the components in these rows that have one id, user and name; it comes after all others."""
        jobs = self.result.jobs
        order, starts = _grouped(jobs, np.flatnonzero(parts), SAME_JOB)
        order, starts = _by_first(order, starts)
        column = {name: jobs[name][order] for name in (*TYPES, *jobs.extra)}
        head = {name: values[starts] for name, values in column.items()}
        start_s = np.minimum.reduceat(np.where(column["start_s"] > 0, column["start_s"], LAST_S), starts)
        failing = np.where(column["status"] == COMPLETED, len(order), np.arange(len(order)))
        failed = np.minimum.reduceat(failing, starts)
        known = np.logical_and.reduceat(column["requested_s"] > 0, starts)
        head |= {
            "submit_s": np.minimum.reduceat(column["submit_s"], starts),
            "start_s": np.where(np.logical_or.reduceat(column["start_s"] > 0, starts), start_s, 0),
            "end_s": np.maximum.reduceat(column["end_s"], starts),
            "requested_s": np.where(known, np.maximum.reduceat(column["requested_s"], starts), 0),
            "status": np.append(column["status"], COMPLETED)[failed],
            "component": np.full(len(starts), -1),
        }
        for name in ("procs", "requested_procs"):
            total = np.add.reduceat(np.maximum(column[name], 0).astype(np.int64), starts)
            head[name] = np.where(total > 0, np.minimum(total, LARGEST), -1)
        self.result.notes["components of heterogeneous jobs, joined"] += len(order)
        jobs.keep(~parts)
        jobs.add({name: head[name] for name in TYPES}, {name: head[name] for name in jobs.extra})


def _odd(job_id: str) -> str:
    return "steps, left out" if "." in job_id else "records whose JobID is not understood, left out"


def _repeated(keys: NDArray[np.int64]) -> NDArray[np.intp]:
    """The rows whose key another row has, too."""
    ordered = np.sort(keys)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(repeated):
        return np.arange(0)
    del ordered
    found = np.empty(len(keys), bool)
    for start in range(0, len(keys), ROWS_AT_ONCE):  # `np.isin` needs several times the memory of the keys
        part = keys[start : start + ROWS_AT_ONCE]
        at = np.minimum(np.searchsorted(repeated, part), len(repeated) - 1)
        found[start : start + ROWS_AT_ONCE] = repeated[at] == part
    return np.flatnonzero(found)


def _grouped(
    jobs: Jobs, rows: NDArray[np.intp], same: tuple[str, ...], then: tuple[str, ...] = ()
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows in groups that are equal in these columns, each by the columns `then` and by row; each group's start."""
    order = rows[np.lexsort([jobs[name][rows] for name in (*reversed(then), *same)])]
    changes = np.zeros(len(order), bool)
    changes[0] = True
    for name in same:
        values = jobs[name][order]
        changes[1:] |= values[1:] != values[:-1]
    return order, np.flatnonzero(changes)


def _by_first(order: NDArray[np.intp], starts: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The groups of `_grouped` in the order of their first rows."""
    sizes = np.diff(np.append(starts, len(order)))
    group = np.repeat(np.argsort(np.argsort(order[starts], kind="stable")), sizes)
    ends = np.cumsum(sizes[np.argsort(group[starts])])
    return order[np.argsort(group, kind="stable")], np.append(0, ends[:-1])
