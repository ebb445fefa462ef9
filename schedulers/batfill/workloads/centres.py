"""Reads the tables of jobs that computing centres publish (Parquet, csv), each by a declared mapping of its columns.

Sources, with what they say of their columns: see `docs/reference/formats.md`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from batfill.errors import LARGEST, WorkloadError, optional
from batfill.files import decompressed, readable
from batfill.workloads.cluster_log import (
    LAST_S,
    NAMES,
    NOT_ENDED,
    ROWS_AT_ONCE,
    Names,
    Reading,
    known_time,
    unix_times,
    zone_of,
)
from batfill.workloads.parquet_log import is_parquet
from batfill.workloads.slurm import ENDED_STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import tzinfo
    from pathlib import Path

    from numpy.typing import NDArray

Unit = Literal["nodes", "cores"]
UNITS: tuple[Unit, ...] = ("nodes", "cores")
Columns = tuple[str, ...]  # the names of a column; a table has one of them
BLANK = ord(" ")  # between a date and a time
CSV_BYTES = 1 << 23
NOTHING = ("", "0", "0.0", "false", "False")  # texts of what was not requested
GPUS, MEMORY = "requested GPUs", "requested memory"


@dataclass(frozen=True, slots=True)
class Centre:
    """The layout of a centre's table: the names of its columns, of which the first found is read, and their units.

    Attributes:
        title: of the publication.
        allocated: the units that a job was given.
        requested: the units that it requested.
        unit: what a processor is, unless the caller says otherwise.
        limit_unit_s: of a limit that is a number; one stored as a duration says its unit itself.
        names: the columns of names, by ours.
        counts: columns of other whole numbers, by ours, and what a job did whose number is positive.
        texts: other columns, kept as they are published, and what a job did that has one other than 0.
    """

    title: str
    submit: Columns
    start: Columns
    end: Columns
    limit: Columns
    state: Columns
    allocated: Mapping[Unit, Columns]
    requested: Mapping[Unit, Columns]
    unit: Unit = "nodes"
    limit_unit_s: int = 1
    names: Mapping[str, Columns] = field(default_factory=dict)
    counts: Mapping[str, tuple[Columns, str]] = field(default_factory=dict)
    texts: Mapping[str, tuple[Columns, str]] = field(default_factory=dict)


EAGLE = Centre(
    title="NREL Eagle",
    submit=("submit_time_tz", "submit_time"),
    start=("start_time_tz", "start_time"),
    end=("end_time_tz", "end_time"),
    limit=("wallclock_req",),
    state=("state_simple", "state"),
    allocated={"nodes": ("nodes_used",), "cores": ("processors_used",)},
    requested={"nodes": ("nodes_req",), "cores": ("processors_req",)},
    names={
        "user": ("user_hash", "user"),
        "group": ("account_hash", "account"),
        "executable": ("name",),
        "queue": ("qos",),
        "partition": ("partition",),
    },
    counts={"gpus": (("gpus_requested", "gpus_req"), GPUS)},
    texts={"memory": (("memory_req", "mem_req"), MEMORY)},
)
CENTRES = {
    "eagle": EAGLE,
    "kestrel": replace(EAGLE, title="NREL Kestrel", unit="cores"),  # whose jobs share nodes
    "fugaku": Centre(
        title="Fugaku (F-DATA)",
        submit=("adt",),
        start=("sdt",),
        end=("edt",),
        limit=("elpl",),
        state=("exit state",),
        allocated={"nodes": ("nnuma",), "cores": ("cnumat",)},
        requested={"nodes": ("nnumr",), "cores": ("cnumr",)},
        names={"user": ("usr",), "executable": ("jnam",)},
        texts={"memory": (("mszl",), "have a limit of memory"), "frequency": (("freq_req",), "requested a frequency")},
    ),
    "pm100": Centre(
        title="Marconi100 (PM100)",
        submit=("submit_time",),
        start=("start_time",),
        end=("end_time",),
        limit=("time_limit",),
        limit_unit_s=60,
        state=("job_state",),
        allocated={"nodes": ("num_nodes_alloc",), "cores": ("num_cores_alloc", "num_cpus_alloc")},
        requested={"nodes": ("num_nodes_req",), "cores": ("num_cores_req", "num_cpus_req")},
        names={"user": ("user_id",), "group": ("group_id",), "queue": ("qos",), "partition": ("partition",)},
        counts={"gpus": (("num_gpus_req",), GPUS)},
        texts={"memory": (("mem_req",), MEMORY), "shared": (("shared",), "may share their nodes")},
    ),
}


def read_centre(centre: Centre, paths: list[Path], *, unit: Unit | None = None, zone: str = "UTC") -> Reading:
    """The finished jobs of a centre's tables, read in pieces: memory holds 45 bytes a job and its extra columns.

    Args:
        centre: the layout.
        paths: the files, Parquet or csv (plain, .gz, .xz, .bz2).
        unit: what a processor of the log is; None for the centre's. The other unit is kept as an extra column.
        zone: the time zone of dates without one.

    Raises:
        WorkloadError: a file is neither, or lacks a column; the message names it.
        MissingExtra: pyarrow is not installed.
    """
    unit = centre.unit if unit is None else unit
    other = next(name for name in UNITS if name != unit)
    given, wanted = centre.allocated[unit], centre.requested[unit]
    reading = Reading()
    names = reading.jobs.names
    names |= {name: Names() for name in centre.texts}
    clock = zone_of(zone)
    states, statuses = Names(), np.array([NOT_ENDED], np.int8)
    for path in paths:
        for table in _tables(path, centre, unit):
            codes = table.codes(states, centre.state)
            if len(states) > len(statuses):
                later = [states.text(code).upper() for code in range(len(statuses), len(states))]
                ended = [ENDED_STATES.get(state.split(" ")[0], NOT_ENDED) for state in later]
                statuses = np.append(statuses, np.array(ended, np.int8))
            allocated, requested = table.counts(given), table.counts(wanted)
            columns: dict[str, NDArray[Any]] = {
                "submit_s": table.times(centre.submit, clock),
                "start_s": table.times(centre.start, clock),
                "end_s": table.times(centre.end, clock),
                "procs": allocated if table.has(given) else requested,
                "requested_procs": requested,
                "requested_s": table.limits(centre.limit, centre.limit_unit_s),
                "status": statuses[codes],
                **{kind: table.codes(names[kind], centre.names.get(kind, ())) for kind in NAMES},
            }
            others = centre.allocated[other] if table.has(centre.allocated[other]) else centre.requested[other]
            extra: dict[str, NDArray[Any]] = {
                other: table.counts(others),
                **{name: table.counts(places) for name, (places, _) in centre.counts.items()},
                **{name: table.codes(names[name], places) for name, (places, _) in centre.texts.items()},
            }
            reading.add_ended(columns, np.ones(len(table), bool), extra, allocated=table.has(given))
    for name, (_, what) in {**centre.counts, **centre.texts}.items():
        count_unmodelled(reading, name, what)
    return reading


def count_unmodelled(reading: Reading, name: str, what: str) -> None:
    """Count the jobs with a positive number, or a text other than 0, in this extra column under `what`."""
    jobs = reading.jobs
    if not len(jobs):
        return
    if name in jobs.names:
        texts = [jobs.names[name].text(code) for code in range(len(jobs.names[name]))]
        has = np.array([text not in NOTHING for text in texts])[jobs[name]]
    else:
        has = jobs[name] > 0
    reading.unmodelled[what] += int(np.count_nonzero(has))


class _Table:
    """Some rows of a centre's table."""

    def __init__(self, path: Path, batch: Any) -> None:
        self.path = path
        self.batch = batch  # a pyarrow.RecordBatch

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def has(self, places: Columns) -> bool:
        """Whether the table has a column of one of these names."""
        return any(place in self.batch.schema.names for place in places)

    def _column(self, places: Columns) -> Any:
        """The column, or None if there is none."""
        return next((self.batch.column(place) for place in places if place in self.batch.schema.names), None)

    def codes(self, names: Names, places: Columns) -> NDArray[np.int32]:
        """The number of each text in `names`, (n,), 0 for none."""
        column = self._column(places)
        if column is None:
            return np.zeros(len(self), np.int32)
        return names.codes(*self._spans(places, "texts"))

    def counts(self, places: Columns) -> NDArray[np.int32]:
        """The column's positive numbers, (n,), -1 for others."""
        column = self._column(places)
        if column is None:
            return np.full(len(self), -1, np.int32)
        numbers = _numbers(column)
        if numbers is None:
            raise self._odd(places, "numbers")
        return np.where((numbers >= 1) & (numbers <= LARGEST), numbers, -1).astype(np.int32)

    def limits(self, places: Columns, unit_s: int) -> NDArray[np.uint32]:
        """The column's durations in seconds, (n,), 0 for none, and for more than LAST_S, which means no limit."""
        from batfill.workloads.record_parse import HARD, parse_durations

        column = self._column(places)
        pa = optional("pyarrow", "tables")
        if pa.types.is_duration(column.type):
            column, unit_s = column.cast(pa.duration("s"), safe=False).cast(pa.int64()), 1
        numbers = _numbers(column)
        if numbers is not None:
            seconds = numbers * unit_s
        else:
            text, spans = self._spans(places, "durations")
            read, kinds = np.empty(len(self), np.int64), np.empty(len(self), np.int8)
            parse_durations(text, spans, unit_s, read, kinds)
            if (kinds == HARD).any():
                raise self._odd(places, "durations")
            seconds = read.astype(np.float64)
        return np.where((seconds >= 1) & (seconds <= LAST_S), seconds, 0).astype(np.uint32)

    def times(self, places: Columns, clock: tzinfo) -> NDArray[np.uint32]:
        """The column's times, (n,), 0 for none; those without a time zone are read by this clock."""
        from batfill.workloads.record_parse import HARD, LOCAL, parse_times

        column = self._column(places)
        pa = optional("pyarrow", "tables")
        if pa.types.is_timestamp(column.type):
            whole = column.cast(pa.timestamp("s", column.type.tz), safe=False).cast(pa.int64()).fill_null(0)
            seconds = whole.to_numpy(zero_copy_only=False).copy()
            if column.type.tz is None:
                seconds = np.where(seconds > 0, unix_times(seconds, clock), 0)
        else:
            text, spans = self._spans(places, "dates")
            seconds, kinds = np.empty(len(self), np.int64), np.empty(len(self), np.int8)
            parse_times(text, spans, BLANK, seconds, kinds)
            local = kinds == LOCAL
            seconds[local] = unix_times(seconds[local], clock)
            for row in np.flatnonzero(kinds == HARD).tolist():
                start, end = spans[row]
                seconds[row] = self._time(places, text[start:end].tobytes().decode(), clock)
        return np.where((seconds > 0) & (seconds <= LAST_S), seconds, 0).astype(np.uint32)

    def _time(self, places: Columns, text: str, clock: tzinfo) -> int:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise self._odd(places, f"dates ({text!a})") from None
        return known_time((at if at.tzinfo else at.replace(tzinfo=clock)).timestamp())

    def _spans(self, places: Columns, what: str) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """The column's texts: the bytes, and where each text is, (n, 2); a missing one is empty."""
        pa = optional("pyarrow", "tables")
        try:
            texts = self._column(places).cast(pa.string())
        except pa.ArrowException:
            raise self._odd(places, what) from None
        _, offsets, content = texts.buffers()
        ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        spans = np.stack([ends[:-1], ends[1:]], axis=1)
        if texts.null_count:
            missing = texts.is_null().to_numpy(zero_copy_only=False)
            spans[missing, 1] = spans[missing, 0]
        has_content = content is not None and content.size
        return np.frombuffer(content if has_content else b"\0", np.uint8), spans

    def _odd(self, places: Columns, what: str) -> WorkloadError:
        name = next(place for place in places if place in self.batch.schema.names)
        return WorkloadError(f"{self.path}: column {name} does not hold {what}; is it the published table?")


def _numbers(column: Any) -> NDArray[np.float64] | None:
    """The numbers of an Arrow array, NaN for missing ones; None if they are no numbers."""
    pa, pc = optional("pyarrow", "tables"), optional("pyarrow.compute", "tables")
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):  # of a csv file
        column = pc.if_else(pc.equal(column, ""), None, column)
    try:
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
    except pa.ArrowException:
        return None


def _tables(path: Path, centre: Centre, unit: Unit) -> Iterator[_Table]:
    """The rows of a file in pieces, with the columns of its centre."""
    with _opened(path) as (columns, batches):
        needed = (centre.submit, centre.start, centre.end, centre.limit, centre.state, centre.requested[unit])
        for places in needed:
            if not any(place in columns for place in places):
                raise WorkloadError(
                    f"{path}: no column {' or '.join(places)}, which the table of {centre.title} has; "
                    f"give its files, or name another system"
                )
        optional_columns = [*centre.allocated.values(), *centre.requested.values(), *centre.names.values()]
        optional_columns += [places for places, _ in (*centre.counts.values(), *centre.texts.values())]
        read = dict.fromkeys(place for places in (*needed, *optional_columns) for place in places if place in columns)
        if twice := [place for place in read if columns.count(place) > 1]:
            raise WorkloadError(f"{path}: has several columns {twice[0]}; keep one of them, and rename the others")
        for batch in batches(list(read)):
            yield _Table(path, batch)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[list[str], Any]]:
    """A file's columns, and a function of some of them that returns their rows in pieces.

    Raises:
        WorkloadError: it is neither Parquet nor csv.
    """
    pa, csv = optional("pyarrow", "tables"), optional("pyarrow.csv", "tables")
    try:
        if is_parquet(path):
            with readable(path) as stored, optional("pyarrow.parquet", "tables").ParquetFile(stored) as file:
                yield file.schema_arrow.names, lambda read: file.iter_batches(ROWS_AT_ONCE, columns=read)
            return
        how = csv.ReadOptions(block_size=CSV_BYTES)
        with decompressed(path) as content, csv.open_csv(content, how) as head:
            columns = list(head.schema.names)

        def rows(read: list[str]) -> Iterator[Any]:
            as_text = csv.ConvertOptions(include_columns=read, column_types=dict.fromkeys(read, pa.string()))
            with decompressed(path) as content, csv.open_csv(content, how, convert_options=as_text) as batches:
                yield from batches

        yield columns, rows
    except (pa.ArrowException, OSError) as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise WorkloadError(f"{path}: neither Parquet nor csv ({what}); fetch or copy the file again") from None
