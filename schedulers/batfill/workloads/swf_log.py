"""Reads and writes the Standard Workload Format without loss: all comment lines, all 18 fields, in the file's order."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from dataclasses import dataclass, replace
from datetime import UTC, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.errors import WorkloadError
from batfill.base.files import decompressed, whole_file, whole_lines
from batfill.base.tables import number_text
from batfill.model.jobs import Clock, zone_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from batfill.model.jobs import Cancelled, Overrun, Unrequested

FIELDS = (
    "job",
    "submit_s",
    "wait_s",
    "runtime_s",
    "procs",
    "cpu_s",
    "memory_kb",
    "requested_procs",
    "requested_s",
    "requested_memory_kb",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding_job",
    "think_s",
)
FIELD = {name: place for place, name in enumerate(FIELDS)}
N_FIELDS = len(FIELDS)
LARGEST_EXACT = 2.0**53  # whole numbers are exact in a float64 up to here
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

MAX_PROCS = "MaxProcs"
FIELD_19 = "Field19"  # in the header of a log of `workload import`: what it added
WIDE = re.compile(r"; Note: (rows of \d+ fields, of which .*)")
GENERATED = re.compile(r"made by batfill \S+ workload generate\b|of generated jobs$")  # in a note of the header,
MOVED = re.compile(r"\bbatfill \S+ workload (scale|resample)\b|^; *Note: (resample)d by batfill")  # as this

# Header lines that describe the rows of this file.
OF_THE_ROWS = ("maxjobs", "maxrecords", "starttime", "endtime")

# The values of the field `status`.
UNKNOWN_STATUS = -1
FAILED, COMPLETED, PARTIAL, LAST_PARTIAL_COMPLETED, LAST_PARTIAL_FAILED, CANCELLED = range(6)


@dataclass(frozen=True, slots=True)
class ArchiveLog:
    """One log of the list of known ones, `archive.toml`; checksums are None if no copy was available."""

    name: str
    title: str
    url: str
    jobs: int
    processors: int
    acknowledge: str
    terms: str = ""
    note: str = ""
    generated: bool = False  # made by a program; its jobs have no users
    sha256: str | None = None
    text_sha256: str | None = None

    @property
    def file(self) -> str:
        return self.url.rpartition("/")[2]


@cache
def manifest() -> dict[str, ArchiveLog]:
    import tomllib

    text = Path(__file__).with_name("archive.toml").read_text("utf-8")
    return {name: ArchiveLog(name=name, **fields) for name, fields in tomllib.loads(text).items()}


def log_with_text(text_sha256: str) -> ArchiveLog | None:
    """The listed log whose uncompressed text has this checksum, whatever the file's name and compression."""
    return next((log for log in manifest().values() if log.text_sha256 == text_sha256), None)


class Comment(NamedTuple):
    """A comment line: the number of rows before it (0 in a header), and its text from the semicolon on."""

    rows_before: int
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class SwfLog:
    """An SWF file: its comments, its numbers (-1 for unknown), and each row's line, counted from 1."""

    comments: tuple[Comment, ...]
    rows: NDArray[np.float64]  # (n_rows, 18), columns as FIELDS; fewer if only some were read, as `fields`
    lines: NDArray[np.int64]  # (n_rows,)
    known: ArchiveLog | None = None  # its entry in the list of known logs, by its text's checksum
    assumed_s: NDArray[np.float64] | None = None  # (n_rows,)  p~ of a row without a request, inf for none; None: p
    fields: tuple[str, ...] = FIELDS  # the names of the columns
    overrun: Overrun = "keep"  # how the walltimes of a log of Batsim JSON were made, as the next; see `read_workload`
    unrequested: Unrequested | None = None
    cancelled: Cancelled = "drop"  # whether rows that were cancelled while they waited are jobs
    amounts: NDArray[np.void] | None = None  # (n_rows,), as those of a `Jobs`, but for memory, which is a column

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, field: str) -> NDArray[np.float64]:
        return self.rows[:, self.fields.index(field)]

    def only(self, fields: Sequence[str]) -> SwfLog:
        if tuple(fields) == self.fields:
            return self
        places = [self.fields.index(field) for field in fields]
        return replace(self, rows=self.rows[:, places], fields=tuple(fields))

    @property
    def taken(self) -> tuple[str, ...]:
        return () if self.amounts is None else self.amounts.dtype.names or ()

    @property
    def header(self) -> tuple[str, ...]:
        return tuple(comment.text for comment in self.comments if comment.rows_before == 0)

    def header_value(self, name: str) -> str | None:
        """The header's value after `; name:`, or None; case does not matter."""
        for text in self.header:
            if header_name(text) == name.lower():
                return text.partition(":")[2].strip()
        return None

    def header_number(self, name: str) -> int | None:
        """The whole number that begins the header's value after `; name:`, also one as 1,024; or None."""
        words = (self.header_value(name) or "").replace(",", "").split()
        digits = words[0][:20] if words else ""  # more than any number of processors or seconds
        return int(digits) if digits.isascii() and digits.isdigit() else None

    @property
    def header_procs(self) -> int | None:
        return self.header_number(MAX_PROCS) or self.header_number("MaxNodes") or None

    @property
    def generated(self) -> bool:
        """Whether a program made the jobs, by the list of known logs or a note in the header."""
        if self.known is not None and self.known.generated:
            return True
        return any(GENERATED.search(text) for text in self.header if header_name(text) == "note")

    @property
    def unlogged(self) -> str | None:
        """Why its waits, if it has any, are not those of a site; None if they may be."""
        if self.generated:
            return "the log's jobs are generated"
        moved = next(filter(None, map(MOVED.search, self.header)), None)
        return moved and f"the log's submissions were {(moved[1] or moved[2]).removesuffix('e')}ed"

    @property
    def clock(self) -> Clock | None:
        """The header's clock: UnixStartTime, and TimeZoneString, else TimeZone (seconds from UTC), else UTC."""
        start_s = self.header_number("UnixStartTime")
        return None if start_s is None or start_s > 2**33 else Clock(start_s, _zone(self))

    @property
    def left(self) -> NDArray[np.bool_]:
        """The rows that are jobs which were cancelled while they waited, (n_rows,)."""
        left: NDArray[np.bool_] = (self["status"] == CANCELLED) & (self["wait_s"] > 0) & ~(self["runtime_s"] > 0)
        return left & (self.cancelled == "wait")

    @property
    def needed_procs(self) -> NDArray[np.float64]:
        """q: the requested processors if known, else the allocated ones; <= 0 if both are unknown."""
        return np.where(self["requested_procs"] > 0, self["requested_procs"], self["procs"])

    def noted(self, note: str) -> SwfLog:
        later = [comment for comment in self.comments if comment.rows_before]
        header = [Comment(0, text) for text in (*self.header, f"; Note: {note}")]
        return replace(self, comments=(*header, *later))

    def sized(self, procs: int) -> SwfLog:
        """The same log with this machine size in its header, and a note on the previous one."""
        log = self.marked()
        before = log.header_value(MAX_PROCS)
        line = Comment(0, f"; {MAX_PROCS}: {procs}")
        if before is None:
            header = [*(comment for comment in log.comments if comment.rows_before == 0), line]
            later = [comment for comment in log.comments if comment.rows_before]
            return replace(log, comments=(*header, *later), known=None)
        place = next(i for i, c in enumerate(log.comments) if header_name(c.text) == MAX_PROCS.lower())
        comments = (*log.comments[:place], line, *log.comments[place + 1 :])
        return replace(log, comments=comments, known=None).noted(f"{MAX_PROCS} was {before}, and {procs} is in force")

    def as_listed(self) -> SwfLog:
        """The same log with what the list of known logs says of it in its header, if it is listed."""
        if self.known is None or self.header_procs == self.known.processors:
            return self.marked()
        return self.sized(self.known.processors)

    def marked(self) -> SwfLog:
        """The same log with a note that its jobs are generated, if it is listed as such; the note replaces the list."""
        if self.known is None or not self.known.generated:
            return self
        return replace(self, known=None).noted(f"{self.known.name}, of generated jobs")

    def renewed(self, *notes: str) -> SwfLog:
        """The same rows under this header with notes added, and without the number of rows and dates of before."""
        kept = [text for text in self.as_listed().header if header_name(text) not in OF_THE_ROWS]
        texts = [*kept, f"; MaxRecords: {len(self)}", *(f"; Note: {note}" for note in notes)]
        comments, lines = tuple(Comment(0, text) for text in texts), np.arange(len(self)) + 1 + len(texts)
        return replace(self, comments=comments, lines=lines, known=None)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.intp] | slice) -> SwfLog:
        """The log with these rows only and its header, without later comments, whose places are lost."""
        header = tuple(comment for comment in self.comments if comment.rows_before == 0)
        assumed_s = None if self.assumed_s is None else self.assumed_s[rows]
        amounts = None if self.amounts is None else self.amounts[rows]
        chosen = replace(self, comments=header, rows=self.rows[rows], lines=self.lines[rows])
        return replace(chosen, assumed_s=assumed_s, amounts=amounts)


def new_log(header: Sequence[str], columns: Mapping[str, NDArray[Any]]) -> SwfLog:
    """A log with these columns, and -1 in all others; each line of `header` is written after a semicolon."""
    n_rows = len(next(iter(columns.values())))
    rows = np.full((n_rows, N_FIELDS), -1.0)
    for name, column in columns.items():
        rows[:, FIELD[name]] = column
    return SwfLog(tuple(Comment(0, f"; {text}") for text in header), rows, np.arange(n_rows) + 1 + len(header))


def header_name(text: str) -> str:
    """The name in a header line `; name: value`, in lower case; "" if it has no colon."""
    name, colon, _ = text.lstrip("; \t").partition(":")
    return name.strip().lower() if colon else ""


def _zone(log: SwfLog) -> tzinfo:
    if zone := zone_named(log.header_value("TimeZoneString") or ""):
        return zone
    try:
        return timezone(timedelta(seconds=int((log.header_value("TimeZone") or "").split()[0])))
    except (IndexError, ValueError):
        return UTC


def read_log(path: Path, *, fields: Sequence[str] = FIELDS, advance: Callable[[int], None] = lambda _: None) -> SwfLog:
    """The log in an SWF file, plain or compressed, with these columns; `advance` gets the number of rows read."""
    text_sum, comments, places = sha256(), list[Comment](), [FIELDS.index(field) for field in fields]
    rows, lines = np.empty((0, len(fields))), np.empty(0, np.int64)
    done = lines_read = width = 0

    def resize(n_rows: int) -> None:  # the system moves large arrays without a second copy in memory
        rows.resize((n_rows, len(fields)), refcheck=False)
        lines.resize(n_rows, refcheck=False)

    with decompressed(path) as content:
        for text in whole_lines(path, content, text_sum):  # in pieces, so that the text takes little memory
            if not text.isspace():
                piece, more = rows_in(path, text if lines_read else text.removeprefix(BOM_UTF8), lines_read, width)
                if width == 0 and more > N_FIELDS and piece.header_value(FIELD_19) is None:
                    said = f"; Note: rows of {more} fields, of which the first {N_FIELDS}, those of SWF, are read"
                    comments.append(Comment(0, said))
                width, end = more, done + len(piece)
                if end > len(rows):
                    resize(max(end, len(rows) * 9 // 8))
                rows[done:end], lines[done:end] = piece.rows[:, places], piece.lines
                comments += [Comment(done + before, said) for before, said in piece.comments]
                done = end
                advance(len(piece))
            lines_read += text.count(b"\n")
    resize(done)
    return SwfLog(tuple(comments), rows, lines, log_with_text(text_sum.hexdigest()), fields=tuple(fields))


def rows_in(path: Path, text: bytes, lines_before: int, width: int = 0) -> tuple[SwfLog, int]:
    """The rows and comments in whole lines of a file, each ended by a newline, after a number of lines before them.

    `width`: the fields of a row, of which those of SWF are read; 0: unknown, as the first row. It is returned, too.
    """
    from batfill.workloads.swf_parse import TENS, parse_rows  # which only reading needs

    most = text.count(b"\n")
    rows = np.empty((most, N_FIELDS), np.float64)
    lines = np.empty(most, np.int64)
    hard = np.empty((min(most * N_FIELDS, len(text) // 2 + 1), 4), np.int64)
    spans = np.empty((most, 3), np.int64)
    n_rows, n_hard, n_comments, line, wrong, width = parse_rows(
        np.frombuffer(text, np.uint8), TENS, rows, lines, hard, spans, width
    )
    lines += lines_before + 1
    wrong_line = lines_before + line + 1
    for row, field, start, end in hard[:n_hard]:
        at_line = wrong_line if row == n_rows else lines[row]
        if row == field == lines_before == 0 and not NUMBER.fullmatch(text[start:end]):
            raise WorkloadError(
                f"{path}:{at_line}: this is no log: it begins with {brief(text[start:end])}; give SWF, "
                "Batsim's JSON, or the accounting of Slurm, OAR or PBS"
            )
        rows[row, field] = number_in(path, at_line, field, text[start:end])
    if wrong >= 0:
        wanted = f"the first row has {width}" if width else f"SWF has {N_FIELDS}"
        raise WorkloadError(
            f"{path}:{wrong_line}: {wrong} fields, but {wanted}; fix or remove the line (is the file truncated?)"
        )
    log = SwfLog(
        tuple(
            Comment(int(before), text[start:end].rstrip(b"\r").decode("utf-8", "surrogateescape"))
            for before, start, end in spans[:n_comments]
        ),
        rows[:n_rows],
        lines[:n_rows],
    )
    return log, width


def brief(token: bytes) -> str:
    return ascii(token[:20].decode("latin-1")) + ("..." if len(token) > 20 else "")


def number_in(path: Path, line: int, field: int, token: bytes) -> float:
    """The value of a token that is no plain short decimal, if it is valid; `line` counts from 1, `field` from 0."""
    shown = brief(token)
    where = f"{path}:{line}: field {field + 1}{f' ({FIELDS[field]})' if field < N_FIELDS else ''}"
    if not NUMBER.fullmatch(token):
        raise WorkloadError(f"{where} is {shown}, not a number; write -1 for unknown values")
    value = float(token)
    if not abs(value) <= LARGEST_EXACT or abs(Decimal(token.decode())) > LARGEST_EXACT:  # which rounds 2^53 + 1 to 2^53
        raise WorkloadError(f"{where} is {shown}, larger than 2^53; write -1 for unknown values")
    return value


def write_log(log: SwfLog, path: Path) -> None:
    """Write the log as SWF text (compressed if the name ends in .gz, .xz or .bz2); reading it gives the same log."""
    write_rows((log.rows,), log.comments, path)


def write_rows(pieces: Iterable[NDArray[np.float64]], comments: Sequence[Comment], path: Path) -> int:
    """As `write_log`, for rows in pieces, each of shape (n, 18), and all comments; returns the number of rows."""
    done = said = 0
    with whole_file(path) as out:

        def say(up_to: float) -> None:
            nonlocal said
            while said < len(comments) and comments[said].rows_before <= up_to:
                out.write(comments[said].text.encode("utf-8", "surrogateescape") + b"\n")
                said += 1

        for rows in pieces:
            at, end = 0, len(rows)
            while at < end:
                say(done + at)
                stop = min(end, comments[said].rows_before - done) if said < len(comments) else end
                for text in _text(rows[at:stop]):
                    out.write(text)
                at = stop
            done += end
        say(np.inf)
    return done


def _text(rows: NDArray[np.float64], at_once: int = 50_000) -> Iterator[bytes]:
    for start in range(0, len(rows), at_once):
        part = rows[start : start + at_once]
        whole = (part == np.floor(part)).all(axis=0)
        columns = [
            part[:, f].astype(np.int64).tolist() if whole[f] else [number_text(x) for x in part[:, f].tolist()]
            for f in range(part.shape[1])
        ]
        yield b"".join(b"%b\n" % " ".join(map(str, row)).encode() for row in zip(*columns, strict=True))
