"""Reads the tables of jobs that computing centres publish (Parquet, csv), each by a declared mapping of its columns.

Sources, with what they say of their columns: see `docs/reference/formats.md`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from batfill.base.errors import LARGEST, WorkloadError, optional
from batfill.base.files import LONGEST_LINE, decompressed, readable
from batfill.workloads.parquet_log import is_parquet
from batfill_site.accounting.cluster_log import NAMES, ROWS_AT_ONCE, Reading
from batfill_site.accounting.record_text import (
    LAST_S,
    ODD,
    Names,
    Times,
    each,
    limit_of,
    read_times,
    text_of,
    unix_times,
    zone_of,
)
from batfill_site.accounting.slurm import status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import tzinfo
    from pathlib import Path

    from numpy.typing import NDArray

Unit = Literal["nodes", "cores"]
Columns = tuple[str, ...]  # the names of a column; a table has one of them
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
        beside: what else a job had, and the columns whose positive number or text says so.
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
    beside: Mapping[str, Columns] = field(default_factory=dict)


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
    beside={GPUS: ("gpus_requested", "gpus_req"), MEMORY: ("memory_req", "mem_req")},
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
        beside={"have a limit of memory": ("mszl",), "requested a frequency": ("freq_req",)},
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
        beside={GPUS: ("num_gpus_req",), MEMORY: ("mem_req",), "may share their nodes": ("shared",)},
    ),
}


def read_centre(centre: Centre, paths: list[Path], reading: Reading, *, unit: Unit | None = None) -> Reading:
    """The finished jobs of a centre's tables, read in pieces: memory holds 49 bytes a job.

    Args:
        centre: the layout.
        paths: the files, Parquet or csv (plain, .gz, .xz, .bz2).
        reading: an empty one, with its choices.
        unit: what a processor of the log is; None for the centre's.

    Raises:
        WorkloadError: a file is neither, or lacks a column; the message names it.
        MissingExtra: pyarrow is not installed.
    """
    unit = centre.unit if unit is None else unit
    given, wanted = centre.allocated[unit], centre.requested[unit]
    names = reading.jobs.names
    clock = zone_of(reading.zone)
    for path in paths:
        reading.files[path] = 0
        for table in _tables(path, centre, unit, chosen=reading.only is not None):
            requested, assumed = table.counts(wanted), table.name(given) is None
            columns: dict[str, Any] = {
                "submit_s": table.times(centre.submit, clock),
                "start_s": table.times(centre.start, clock),
                "end_s": table.times(centre.end, clock),
                "procs": requested if assumed else table.counts(given),
                "requested_procs": requested,
                "requested_s": table.limits(centre.limit, centre.limit_unit_s),
                "status": table.each(centre.state, "texts", status_of),
                **{kind: table.codes(names[kind], centre.names.get(kind, ())) for kind in NAMES},
            }
            titles = {
                "submit_s": centre.submit,
                "start_s": centre.start,
                "end_s": centre.end,
                "requested_s": centre.limit,
                "requested_procs": wanted,
                "procs": given,
            }
            reading.add_ended(
                columns,
                np.ones(len(table), bool),
                partial(table.show, [*titles.values(), centre.state], reading.files[path]),
                titles={name: title for name, places in titles.items() if (title := table.name(places))},
                guessed={f"no column {given[0]}: the processors requested count": np.full(len(table), assumed)},
                unmodelled={what: table.states(places) for what, places in centre.beside.items()},
            )
            reading.files[path] += len(table)
    return reading


class _Table:
    """Some rows of a centre's table."""

    def __init__(self, path: Path, batch: Any) -> None:
        self.path = path
        self.batch = batch  # a pyarrow.RecordBatch

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def name(self, places: Columns) -> str | None:
        """The name of the first of these columns that the table has; None if it has none."""
        return next((place for place in places if place in self.batch.schema.names), None)

    def show(self, columns: list[Columns], before: int, row: int) -> str:
        """A row's number in the file, after `before` others, and its fields in these columns."""
        fields = []
        for name in filter(None, map(self.name, columns)):
            try:
                fields.append(f"{name} {self.batch.column(name)[row]}")
            except (ValueError, OverflowError):  # a time beyond Python's dates
                fields.append(f"{name} beyond all dates")
        return f"{self.path.name}: row {before + row + 1}, {', '.join(fields)}"

    def _column(self, places: Columns) -> Any:
        """The column, or None if there is none."""
        name = self.name(places)
        return None if name is None else self.batch.column(name)

    def codes(self, names: Names, places: Columns) -> NDArray[np.int32]:
        """The number of each text in `names`, (n,), 0 for none."""
        if self.name(places) is None:
            return np.zeros(len(self), np.int32)
        texts, which = self._texts(places, "texts")
        return names.codes(texts)[which]

    def counts(self, places: Columns) -> NDArray[np.int64]:
        """The column's whole numbers, (n,), 0 for missing ones, ODD for others and without such a column."""
        column = self._column(places)
        if column is None:
            return np.full(len(self), ODD, np.int64)
        numbers = _numbers(column)
        if numbers is None:
            raise self._odd(places, "numbers")
        known = np.where(np.isnan(numbers), 0, numbers)
        known[(known < 0) | (known != np.floor(known))] = ODD
        return np.minimum(known, LARGEST + 1).astype(np.int64)

    def states(self, places: Columns) -> NDArray[np.bool_]:
        """Whether the column has a positive number, or a text other than NOTHING, (n,)."""
        column = self._column(places)
        if column is None:
            return np.zeros(len(self), bool)
        numbers = _numbers(column)
        if numbers is not None:
            return numbers > 0
        return self.each(places, "texts", lambda text: text not in NOTHING) > 0

    def limits(self, places: Columns, unit_s: int) -> NDArray[np.int64]:
        """The column's durations in seconds, (n,), as `limit_of` reads them."""
        column = self._column(places)
        pa = optional("pyarrow", "tables")
        if pa.types.is_duration(column.type):
            column, unit_s = column.cast(pa.duration("s"), safe=False).cast(pa.int64()), 1
        numbers = _numbers(column)
        if numbers is not None:
            seconds = np.where(np.isnan(numbers), 0, numbers) * unit_s
            return np.where(seconds < 0, ODD, np.clip(seconds, 0, LAST_S + 1)).astype(np.int64)
        read = self.each(places, "durations", lambda text: limit_of(text, bare=unit_s))
        if (read == ODD).all():
            raise self._odd(places, "durations")
        return read

    def times(self, places: Columns, clock: tzinfo) -> Times:
        """The column's times; those without a time zone are read by this clock."""
        column = self._column(places)
        pa = optional("pyarrow", "tables")
        if not pa.types.is_timestamp(column.type):
            texts, which = self._texts(places, "dates")
            times = Times._make(values[which] for values in read_times(texts, clock))
            if len(self) and (times.seconds == ODD).all():
                raise self._odd(places, f"dates ({column[0].as_py()!r})")
            return times
        short = column.cast(pa.timestamp("s", column.type.tz), safe=False)
        missing = column.is_null().to_numpy(zero_copy_only=False)
        cut = optional("pyarrow.compute", "tables").not_equal(short.cast(column.type, safe=False), column)
        whole = short.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        seconds, later_s = (whole, np.zeros(len(self), np.int64)) if column.type.tz else unix_times(whole, clock)
        known = np.where((seconds > 0) & (seconds <= LAST_S), seconds, ODD)
        cut = cut.fill_null(False).to_numpy(zero_copy_only=False)
        return Times(np.where(missing, 0, known), later_s, cut, ~missing & (column.type.tz is None))

    def each(self, places: Columns, what: str, read: Callable[[str], Any]) -> NDArray[np.int64]:
        """The number that `read` returns for each text of the column, (n,)."""
        texts, which = self._texts(places, what)
        return each(texts, read)[which]

    def _texts(self, places: Columns, what: str) -> tuple[list[str], NDArray[np.int32]]:
        """The column's different texts, and which each row has; `what` it should hold, for the refusal."""
        pa = optional("pyarrow", "tables")
        try:
            column = self._column(places).cast(pa.string()).cast(pa.binary()).fill_null(b"").dictionary_encode()
        except pa.ArrowException:
            raise self._odd(places, what) from None
        return [text_of(text) for text in column.dictionary.to_pylist()], column.indices.to_numpy()

    def _odd(self, places: Columns, what: str) -> WorkloadError:
        return WorkloadError(
            f"{self.path}: column {self.name(places)} does not hold {what}; is it the published table?"
        )


def _numbers(column: Any) -> NDArray[np.float64] | None:
    """The numbers of an Arrow array, NaN for missing ones; None if they are no numbers."""
    pa, pc = optional("pyarrow", "tables"), optional("pyarrow.compute", "tables")
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):  # of a csv file
        column = pc.if_else(pc.equal(column, ""), None, column)
    try:
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
    except pa.ArrowException:
        return None


def _tables(path: Path, centre: Centre, unit: Unit, *, chosen: bool) -> Iterator[_Table]:
    """The rows of a file in pieces, with the columns of its centre, also the partition's if some are chosen."""
    with _opened(path) as (columns, batches):
        needed = [centre.submit, centre.start, centre.end, centre.limit, centre.state, centre.requested[unit]]
        if chosen:
            needed.append(centre.names["partition"])
        for places in needed:
            if not any(place in columns for place in places):
                raise WorkloadError(
                    f"{path}: no column {' or '.join(places)}, which the table of {centre.title} has; "
                    f"give its files, or name another system"
                )
        optional_columns = [centre.allocated[unit], *centre.names.values(), *centre.beside.values()]
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
    n_rows = 0
    try:
        if is_parquet(path):
            with readable(path) as stored, optional("pyarrow.parquet", "tables").ParquetFile(stored) as file:
                yield file.schema_arrow.names, lambda read: file.iter_batches(ROWS_AT_ONCE, columns=read)
            return
        read_options = csv.ReadOptions(use_threads=False, block_size=LONGEST_LINE)
        parse_options = csv.ParseOptions(newlines_in_values=True)
        with decompressed(path) as content:
            columns = csv.open_csv(content, read_options, parse_options).schema.names

        def rows(read: list[str]) -> Iterator[Any]:
            nonlocal n_rows
            as_text = csv.ConvertOptions(include_columns=read, column_types=dict.fromkeys(read, pa.string()))
            with decompressed(path) as content:
                for batch in csv.open_csv(content, read_options, parse_options, as_text):
                    yield batch
                    n_rows += len(batch)

        yield columns, rows
    except (pa.ArrowException, OSError) as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "straddling" in what:
            raise WorkloadError(
                f"{path}:{n_rows + 2}: this row is longer than {LONGEST_LINE / 2**20:g} MiB; "
                "is a quotation mark missing? (correct the row, or remove it)"
            ) from None
        raise WorkloadError(f"{path}: neither Parquet nor csv ({what}); fetch or copy the file again") from None
