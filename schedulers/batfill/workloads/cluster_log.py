"""Shared by the importers of accounting logs: the jobs as narrow columns, numbers for names, the log they make."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import orjson

from batfill import __version__
from batfill.errors import LARGEST, WorkloadError
from batfill.files import CHUNK_BYTES, decompressed, raw_file
from batfill.jobs import DAY_S
from batfill.workloads.swf_log import FIELDS, Comment, SwfLog, new_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from numpy.typing import NDArray

PERSONAL = ("user", "group", "executable")  # what --anonymise hides
PUBLIC = ("queue", "partition")
NAMES = (*PERSONAL, *PUBLIC)
# The columns of a job. Times are seconds since 1970, 0 if unknown; durations are seconds, 0 if unknown or without a
# limit; processors are -1 if unknown; a name is its number in `Jobs.names`, 0 for none.
TYPES: dict[str, np.dtype[Any]] = {
    "submit_s": np.dtype(np.uint32),
    "start_s": np.dtype(np.uint32),
    "end_s": np.dtype(np.uint32),
    "procs": np.dtype(np.int32),  # allocated
    "requested_procs": np.dtype(np.int32),
    "requested_s": np.dtype(np.uint32),
    "status": np.dtype(np.int8),  # SWF's code
    **dict.fromkeys(NAMES, np.dtype(np.int32)),
}
LAST_S = 2**32 - 1  # the year 2106
NOT_ENDED = -2  # the status of a job that waits or runs
ROWS_AT_ONCE = 1 << 17
QUARTER_S = 900


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """One job; times are Unix times, None if unknown; unknown names are ""."""

    submit_s: float
    start_s: float | None
    end_s: float | None
    procs: int | None  # allocated
    requested_procs: int | None
    requested_s: float | None  # None also for no limit
    status: int  # SWF's code
    user: str = ""
    group: str = ""
    executable: str = ""  # the job's name
    queue: str = ""
    partition: str = ""


class Names:
    """Texts and their numbers, from 1 in the order of appearance; 0 is the empty text."""

    def __init__(self) -> None:
        self._slots = np.full(64, -1, np.int32)
        self._hashes = np.empty(16, np.uint64)
        self._ends = np.empty(16, np.int64)
        self._pool = np.empty(256, np.uint8)
        self._n = 0
        self.of([""])

    def __len__(self) -> int:
        return self._n

    def codes(self, text: NDArray[np.uint8], spans: NDArray[np.int32]) -> NDArray[np.int32]:
        """The number of each text[start:end], (n,); `spans` are its first and one-past-last bytes, (n, 2)."""
        from batfill.workloads.record_parse import intern, rehash  # loads numba, which only reading needs

        codes = np.empty(len(spans), np.int32)
        done = 0
        while True:
            done, self._n = intern(text, spans, done, self._slots, self._hashes, self._pool, self._ends, self._n, codes)
            if done == len(spans):
                return codes
            used = int(self._ends[self._n - 1]) if self._n else 0
            needed = used + int(spans[done, 1] - spans[done, 0])
            if needed > self._pool.size:
                self._pool.resize(max(needed, self._pool.size * 3 // 2), refcheck=False)
            if self._n >= self._ends.size:
                for array in (self._ends, self._hashes):
                    array.resize(array.size * 3 // 2, refcheck=False)
            if 2 * (self._n + 1) > self._slots.size:
                self._slots = np.full(self._slots.size * 2, -1, np.int32)
                rehash(self._hashes, self._n, self._slots)

    def of(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """The number of each text, (n,)."""
        stored = [text.encode("utf-8", "replace") for text in texts]
        ends = np.cumsum([0, *map(len, stored)], dtype=np.int32)
        spans = np.stack([ends[:-1], ends[1:]], axis=1)
        return self.codes(np.frombuffer(b"".join(stored) or b"\0", np.uint8), spans)

    def text(self, code: int) -> str:
        """The text with this number."""
        start = int(self._ends[code - 1]) if code else 0
        return self._pool[start : int(self._ends[code])].tobytes().decode("utf-8", "replace")


class Jobs:
    """Jobs in any order as narrow columns (TYPES), 45 bytes each; reads as a sequence of `ClusterJob`.

    Attributes:
        names: the texts of the columns of names.
        extra: other columns, by name: those of SWF, and those that only Parquet keeps.
    """

    def __init__(self) -> None:
        self._columns = {name: np.empty(0, kind) for name, kind in TYPES.items()}
        self._n = 0
        self.names = {kind: Names() for kind in NAMES}
        self.extra: dict[str, NDArray[Any]] = {}

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The column of this name, (n,): a view, which `add` and `keep` make stale."""
        stored = self._columns[name] if name in self._columns else self.extra[name]
        return stored[: self._n]

    def add(self, columns: Mapping[str, NDArray[Any]], extra: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Append jobs: each column of TYPES, and the same extra columns each time."""
        extra = {} if extra is None else extra
        end = self._n + len(columns["submit_s"])
        if not self._n:
            self.extra = {name: np.empty(0, column.dtype) for name, column in extra.items()}
        for name, column in {**columns, **extra}.items():
            stored = self._columns[name] if name in self._columns else self.extra[name]
            if end > stored.size:  # the system moves large arrays without a second copy in memory
                stored.resize(max(end, stored.size * 9 // 8), refcheck=False)
            stored[self._n : end] = column
        self._n = end

    def extend(self, jobs: Sequence[ClusterJob]) -> None:
        """Append jobs that were read one by one."""

        def numbers(name: str, known: Callable[[Any], int], unknown: int) -> NDArray[Any]:
            values = (getattr(job, name) for job in jobs)
            return np.array([unknown if value is None else known(value) for value in values], TYPES[name])

        columns = {name: numbers(name, known_time, 0) for name in ("submit_s", "start_s", "end_s", "requested_s")}
        columns |= {name: numbers(name, known_count, -1) for name in ("procs", "requested_procs")}
        columns["status"] = numbers("status", int, -1)
        columns |= {kind: self.names[kind].of([getattr(job, kind) for job in jobs]) for kind in NAMES}
        self.add(columns)

    def keep(self, rows: NDArray[np.bool_]) -> None:
        """Leave out the other jobs; `rows` is (n,)."""
        kept = int(np.count_nonzero(rows))
        for columns in (self._columns, self.extra):
            for name in columns:
                columns[name] = columns[name][: self._n][rows]
        self._n = kept

    def job(self, row: int) -> ClusterJob:
        """The job in this row."""

        def known(name: str, unknown: int) -> Any:
            value = int(self._columns[name][row])
            return None if value == unknown else value

        return ClusterJob(
            submit_s=float(self._columns["submit_s"][row]),
            start_s=known("start_s", 0),
            end_s=known("end_s", 0),
            procs=known("procs", -1),
            requested_procs=known("requested_procs", -1),
            requested_s=known("requested_s", 0),
            status=int(self._columns["status"][row]),
            **{kind: self.names[kind].text(int(self._columns[kind][row])) for kind in NAMES},
        )

    def __iter__(self) -> Iterator[ClusterJob]:
        return (self.job(row) for row in range(self._n))


@dataclass(slots=True)
class Reading:
    """An importer's result: jobs in any order, and what it left out, joined, or read but does not model.

    Attributes:
        jobs: the jobs.
        notes: the number of records left out or joined, by reason.
        unmodelled: the number of jobs by what they have and a replay knows nothing of, such as "requested GPUs".
    """

    jobs: Jobs = field(default_factory=Jobs)
    notes: Counter[str] = field(default_factory=Counter)
    unmodelled: Counter[str] = field(default_factory=Counter)

    def add_ended(
        self,
        columns: Mapping[str, NDArray[Any]],
        valid: NDArray[np.bool_],
        extra: Mapping[str, NDArray[Any]] | None = None,
        *,
        allocated: bool,
    ) -> None:
        """Append the records of jobs that have ended, and count the others.

        Args:
            columns: those of TYPES, each (n,); a status may be NOT_ENDED.
            valid: (n,): which records to consider at all.
            extra: other columns.
            allocated: whether the source says how many processors a job was given; a job with none never started.
        """
        valid = valid.copy()
        for reason, wrong in (
            ("jobs that have not ended, left out", columns["status"] == NOT_ENDED),
            ("jobs without a submission time, left out", columns["submit_s"] == 0),
            ("jobs without an end, left out", columns["end_s"] == 0),
        ):
            if count := np.count_nonzero(valid & wrong):
                self.notes[reason] += int(count)
            valid &= ~wrong
        # Cancelled while it waited: its start is the date of the cancellation, or a planned one.
        never = (columns["start_s"] > columns["end_s"]) | (allocated & (columns["procs"] < 0))
        kept = {**columns, "start_s": np.where(never, 0, columns["start_s"])}
        self.jobs.add(
            {name: kept[name][valid] for name in TYPES}, {name: column[valid] for name, column in (extra or {}).items()}
        )


@dataclass(slots=True)
class Key:
    """The number of each name, by kind; numbers start at 1 in the order of first submission."""

    numbers: dict[str, dict[str, int]] = field(default_factory=lambda: {kind: {} for kind in NAMES})

    def number(self, kind: str, name: str) -> int:
        """The name's number, created if the name is new; -1 for no name."""
        if not name:
            return -1
        known = self.numbers[kind]
        return known.setdefault(name, len(known) + 1)

    @classmethod
    def load(cls, path: Path) -> Key:
        """The key in a file that `save` wrote, or an empty one if there is no file.

        Raises:
            WorkloadError: the file is not a key.
        """
        key = cls()
        if not path.exists():
            return key
        try:
            found = orjson.loads(path.read_bytes())
            for kind, names in key.numbers.items():
                names.update({str(name): int(number) for name, number in found[kind].items()})
                if sorted(names.values()) != list(range(1, len(names) + 1)):
                    raise ValueError(f"the numbers of {kind} are not 1, 2, ...")
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise WorkloadError(f"{path}: not a key that batfill wrote ({error}); name another file") from None
        return key

    def save(self, path: Path) -> None:
        """Write the key, readable by its owner only."""
        with raw_file(path) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(orjson.dumps(self.numbers, option=orjson.OPT_INDENT_2))


class ClusterLog:
    """The jobs of an importer as an SWF log, numbered by submission, of which any part can be had at a time."""

    def __init__(
        self,
        reading: Reading,
        *,
        source: str,
        anonymise: bool = False,
        key: Key | None = None,
        procs: int | None = None,
        zone: str = "UTC",
        computer: str = "unknown",
    ) -> None:
        """Order the jobs and number their names.

        Args:
            reading: an importer's result.
            source: the source of the jobs, for the header.
            anonymise: omit the names of users, groups and jobs from the header, which otherwise explains their numbers.
            key: numbers used before; new names are added to it.
            procs: the machine's size; by default the most processors seen in use at once, which the header then states.
            zone: the cluster's time zone, by name.
            computer: the machine's name in the header.

        Raises:
            WorkloadError: there is no job.
        """
        jobs = reading.jobs
        if not len(jobs):
            why = "; ".join(f"{count}: {reason}" for reason, count in reading.notes.items())
            raise WorkloadError(
                f"{source}: no finished job in it{f' ({why})' if why else ''}; check the command that made it"
            )
        self.jobs = jobs
        size = procs if procs is not None else most_in_use(jobs)
        self._order = _by_submission(jobs["submit_s"])
        self._first_s = int(jobs["submit_s"][self._order[0]])
        key = Key() if key is None else key
        self._numbers, used = {}, {}
        for kind in NAMES:
            self._numbers[kind], used[kind] = self._numbered(kind, key)
        self._texts = {
            name: np.array([jobs.names[name].text(code) for code in range(len(jobs.names[name]))], object)
            for name in jobs.extra
            if name in jobs.names
        }
        self.notes = [f"{count} records: {reason}" for reason, count in reading.notes.items()]
        self.notes += [
            f"{count:,} of {len(jobs):,} jobs {what}, which is not modelled"
            for what, count in reading.unmodelled.items()
            if count
        ]
        if len(used["partition"]) > 1:
            self.notes.append(
                f"the jobs are of {len(used['partition'])} partitions, which are not modelled: one machine"
            )
        self.header = [
            "Version: 2.2",
            f"Computer: {' '.join(computer.split())}",
            f"Conversion: batfill {__version__} workload import, from {source}",
            f"MaxJobs: {len(jobs)}",
            f"MaxRecords: {len(jobs)}",
            f"UnixStartTime: {self._first_s}",
            f"TimeZoneString: {zone}",
            *([f"MaxProcs: {size}"] if size else []),
            *(["Note: MaxProcs is the most processors seen in use at once"] if size and procs is None else []),
        ]
        for kind in PUBLIC if anonymise else (*PUBLIC, *PERSONAL):
            self.header += [
                f"{kind.capitalize()}: {number} {' '.join(name.split())}"
                for name, number in key.numbers[kind].items()
                if number in used[kind]
            ]
        self.header += [f"Note: {note}" for note in self.notes]

    def __len__(self) -> int:
        return len(self.jobs)

    def _numbered(self, kind: str, key: Key) -> tuple[NDArray[np.int32], set[int]]:
        """The key's number of each name, by its code, -1 for none; and the numbers in use."""
        codes, names = self.jobs[kind], self.jobs.names[kind]
        unseen = len(self._order)
        first = np.full(len(names), unseen, np.int64)
        for stop in range(unseen, 0, -ROWS_AT_ONCE):  # backwards: of equal indices numpy keeps the last assignment
            start = max(stop - ROWS_AT_ONCE, 0)
            first[codes[self._order[start:stop]][::-1]] = np.arange(stop - 1, start - 1, -1)
        numbers = np.full(len(names), -1, np.int32)
        for code in np.argsort(first, kind="stable")[: np.count_nonzero(first < unseen)].tolist():
            numbers[code] = key.number(kind, names.text(code))
        return numbers, set(numbers[numbers > 0].tolist())

    def piece(self, part: slice) -> SwfLog:
        """These jobs by submission, without the header."""
        at = self._order[part]
        column = {name: self.jobs[name][at] for name in TYPES}
        submit_s, start_s, end_s = (column[name].astype(np.int64) for name in ("submit_s", "start_s", "end_s"))
        left_s = np.where(start_s > 0, start_s, end_s)  # never started: it waited until it was removed
        ran = (start_s > 0) & (end_s > 0)
        piece = new_log(
            (),
            {
                **{name: self.jobs[name][at] for name in self.jobs.extra if name in FIELDS},
                "job": np.arange(part.start + 1, part.start + 1 + len(at)),
                "submit_s": submit_s - self._first_s,
                "wait_s": np.where(left_s > 0, np.maximum(left_s - submit_s, 0), -1),
                "runtime_s": np.where(ran, np.maximum(end_s - start_s, 0), 0),
                "procs": column["procs"],
                "requested_procs": column["requested_procs"],
                "requested_s": np.where(column["requested_s"] > 0, column["requested_s"].astype(np.int64), -1),
                "status": column["status"],
                **{kind: self._numbers[kind][column[kind]] for kind in NAMES},
            },
        )
        return SwfLog((), piece.rows, piece.lines + part.start + len(self.header))

    def extra(self, part: slice) -> dict[str, NDArray[Any]]:
        """The columns of these jobs that SWF has no field for: numbers, -1 for unknown, or texts."""
        at = self._order[part]
        return {
            name: self._texts[name][self.jobs[name][at]] if name in self._texts else self.jobs[name][at]
            for name in self.jobs.extra
            if name not in FIELDS
        }

    def pieces(self) -> Iterator[SwfLog]:
        """The log in pieces, without the header."""
        for start in range(0, len(self), ROWS_AT_ONCE):
            yield self.piece(slice(start, min(start + ROWS_AT_ONCE, len(self))))

    @property
    def comments(self) -> tuple[Comment, ...]:
        """The header."""
        return tuple(Comment(0, f"; {text}") for text in self.header)

    def log(self) -> SwfLog:
        """The whole log."""
        whole = self.piece(slice(0, len(self)))
        return SwfLog(self.comments, whole.rows, whole.lines)


def swf_of(reading: Reading, **choices: Any) -> SwfLog:
    """The jobs as an SWF log, numbered by submission, with its provenance in the header; see `ClusterLog`.

    Raises:
        WorkloadError: there is no job.
    """
    return ClusterLog(reading, **choices).log()


def _by_submission(submit_s: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The rows by submission, equal ones as they are, (n,)."""
    keys = submit_s.astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= np.arange(len(keys), dtype=np.uint32)
    keys.sort()
    return keys.astype(np.uint32)  # the lower half


def most_in_use(jobs: Jobs) -> int:
    """The largest number of processors in use at once; a job's processors are free at the instant it ends."""
    from batfill.workloads.record_parse import peak

    ran = (jobs["start_s"] > 0) & (jobs["end_s"] > 0) & (jobs["procs"] > 0)

    def events(name: str) -> NDArray[np.uint64]:
        keys = jobs[name][ran].astype(np.uint64)
        keys <<= np.uint64(32)
        keys |= jobs["procs"][ran].astype(np.uint32)
        keys.sort()
        return keys

    return int(peak(events("start_s"), events("end_s")))


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Each line of a text file, plain or compressed, with its number from 1."""
    with decompressed(path) as content:
        for number, line in enumerate(content, start=1):
            yield number, line.decode("utf-8", "replace").rstrip("\r\n").lstrip("\ufeff")


def pieces_of(path: Path) -> Iterator[bytes]:
    """The content of a text file, plain or compressed, in pieces of whole lines, each ended by a newline."""
    rest = b""
    with decompressed(path) as content:
        while piece := content.read(CHUNK_BYTES):
            end = piece.rfind(b"\n") + 1
            if end:
                yield rest + piece[:end]
                rest = piece[end:]
            else:
                rest += piece
    if rest:
        yield rest + b"\n"


def zone_of(name: str) -> tzinfo:
    """The time zone of this name.

    Raises:
        WorkloadError: it is unknown.
    """
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise WorkloadError(f"no time zone {name!r}; name one such as Europe/Paris or UTC") from None


def known_time(seconds: float) -> int:
    """Whole seconds, 0 if they are not between 1 and LAST_S: times are after 1970 and before 2106."""
    return int(seconds) if 1 <= seconds <= LAST_S else 0


def known_count(number: int) -> int:
    """A number of processors, -1 if it is beyond Batsim's largest integer."""
    return number if number <= LARGEST else -1


def unix_times(local_s: NDArray[np.int64], zone: tzinfo) -> NDArray[np.int64]:
    """Seconds since 1970 of a clock's seconds in this zone, (n,), as `unix_time` reads them.

    The zone's offset is looked up once in a quarter of an hour, since offsets change only then. Seconds that are no
    known time get the offset of the nearest one, since Python has no dates for them.
    """
    if zone is UTC:
        return local_s
    quarters, of = np.unique(np.clip(local_s, 0, LAST_S) // QUARTER_S, return_inverse=True)
    offsets = [
        datetime.fromtimestamp(quarter * QUARTER_S, UTC).replace(tzinfo=zone).utcoffset()
        for quarter in quarters.tolist()
    ]
    return local_s - np.array([offset.total_seconds() if offset else 0 for offset in offsets], np.int64)[of]


def epoch(text: str) -> float | None:
    """Seconds since 1970 written in digits; None for 0, which means no time, and for anything else."""
    return known_time(float(text)) or None if text.isascii() and text.isdigit() else None


def unix_time(text: str, zone: tzinfo, form: str = "%Y-%m-%dT%H:%M:%S") -> float | None:
    """Seconds since 1970 from digits or from a date in the cluster's time zone; None for no time, such as "Unknown"."""
    if text.isascii() and text.isdigit():
        return epoch(text)
    try:
        return known_time(datetime.strptime(text, form).replace(tzinfo=zone).timestamp()) or None
    except (ValueError, OverflowError):
        return None


def seconds_in(text: str, *, bare: float) -> float | None:
    """Seconds of [days-]hours:minutes:seconds, minutes:seconds, or a number of units of `bare` seconds; or None."""
    days, dash, clock = text.rpartition("-")
    parts = clock.split(".")[0].split(":")
    if not all(part.isascii() and part.isdigit() and len(part) < 12 for part in parts) or (
        dash and not (days.isascii() and days.isdigit() and len(days) < 12)
    ):
        return None
    numbers = [int(part) for part in parts]
    if dash:  # days-hours[:minutes[:seconds]]
        numbers = [*numbers, 0, 0][:3]
    elif len(numbers) == 1:
        return numbers[0] * bare
    total = 0
    for number in numbers:
        total = total * 60 + number
    return float(total + (int(days) * DAY_S if dash else 0))


def count_of(text: str) -> int | None:
    """A positive whole number, or None."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 and 0 < int(text) <= LARGEST else None
