"""Files: reading compressed ones, and writing ones that appear whole or not at all."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import stat
import sys
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from batfill.base import host
from batfill.base.errors import RunFailed, WorkloadError

if TYPE_CHECKING:
    from bz2 import BZ2Decompressor
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from hashlib import _Hash
    from io import BufferedReader
    from lzma import LZMADecompressor

    Writes = Literal["file", "folder", "prefix"]

PACKED = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00", ".bz2": b"BZh"}  # how such files begin
CHUNK_BYTES = 1 << 23
UNPACKED_BYTES = 1 << 16  # at once, of an .xz or .bz2 file
LONGEST_LINE = CHUNK_BYTES  # no record is that long, and reading a line takes a multiple of its size in memory
STANDARD_INPUT = Path("-")
FULL = (errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC)  # not a mistake of the user's, as a wrong path is

PART = re.compile(r"\.(.+)\.(\d+@.+)\.part", re.DOTALL)  # a temporary name, see `part_of`


LONGEST_NAME, LONGEST_PATH = 255, 4095  # bytes, on Linux
# The temporary and final names of the finished files of an `all_or_none`; None outside of one.
finished: ContextVar[list[tuple[Path, Path]] | None] = ContextVar("finished", default=None)
held: ContextVar[dict[Path, list[BinaryIO]] | None] = ContextVar("held", default=None)  # see `held_open`


def digest(path: Path) -> str:
    """The sha256 of the file's bytes as stored, hexadecimal."""
    import hashlib

    with readable(path) as stored:
        return hashlib.file_digest(cast("BufferedReader", stored), "sha256").hexdigest()


@contextmanager
def readable(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes as stored; a WorkloadError if it cannot be opened.

    `-` is standard input. It and pipes (/dev/stdin, <(command)) are kept in memory, since a workload is read several
    times: for its format, for its digest, and once or twice for its jobs.
    """
    if free := (held.get() or {}).get(path):  # empty while somebody reads it
        stored = free.pop()
        stored.seek(0)
        try:
            yield stored
        finally:
            free.append(stored)
        return
    try:
        if path == STANDARD_INPUT:
            stored = io.BytesIO(read_once(path))
        else:
            refuse_device(path)
            stored = io.BytesIO(read_once(path)) if path.is_fifo() else path.open("rb")
    except OSError as error:
        raise WorkloadError(f"{path}: {(error.strerror or str(error)).lower()}; check the path") from None
    except ValueError as error:
        raise WorkloadError(f"{str(path)!a}: cannot be a path ({error}); check it") from None
    with stored:
        yield stored


@contextmanager
def held_open(path: Path) -> Iterator[None]:
    """Open the file once for all that read it in this block, one after the other: all see the same file."""
    before = held.get() or {}
    if path in before:
        yield
        return
    with readable(path) as stored:
        token = held.set({**before, path: [stored]})
        try:
            yield
        finally:
            held.reset(token)


def refuse_device(path: Path) -> None:
    kind = path.stat().st_mode
    if (stat.S_ISCHR(kind) or stat.S_ISBLK(kind)) and not path.samefile(os.devnull):
        raise OSError(errno.EINVAL, "is a device, not a file", str(path))


def file_bytes(path: Path) -> bytes:
    """All bytes of a file, as stored; an OSError if it cannot be read, or is a device."""
    refuse_device(path)
    return path.read_bytes()


@cache
def read_once(path: Path) -> bytes:
    """All bytes from this pipe, which can be read only once."""
    if path != STANDARD_INPUT:
        return path.read_bytes()
    if sys.stdin is None:
        raise WorkloadError("-: standard input is closed; give a file")
    return sys.stdin.buffer.read()


@contextmanager
def decompressed(path: Path) -> Iterator[BinaryIO]:
    """The file's content as a stream of bytes; gzip, xz, bzip2 or plain by its first bytes."""
    with readable(path) as stored, content_of(path, stored) as content:
        yield content


@contextmanager
def content_of(path: Path, stored: BinaryIO) -> Iterator[BinaryIO]:
    """As `decompressed`, of the file's bytes at their beginning; their place then shows how much has been unpacked."""
    try:
        start = stored.read(6)
        stored.seek(0)
        with packed(
            stored, next((suffix for suffix, mark in PACKED.items() if start.startswith(mark)), ""), "rb"
        ) as found:
            yield found
    except damage() as error:
        raise WorkloadError(f"{path}: cannot be unpacked ({error}); fetch or copy the file again") from None


def packed(stored: BinaryIO, suffix: str, mode: Literal["rb", "wb"]) -> AbstractContextManager[BinaryIO]:
    """A stream of what is packed in these bytes in the way of this suffix; they themselves for another suffix.

    The libraries are loaded on use, which few files need. Gzip is without a time stamp: equal content, equal bytes.
    """
    if suffix == ".gz":
        import gzip

        return cast("AbstractContextManager[BinaryIO]", gzip.GzipFile("", mode, 6, stored, mtime=0))
    if suffix == ".xz":
        try:
            import lzma
        except ModuleNotFoundError:
            raise WorkloadError("an .xz file needs Python's module lzma, which this Python lacks: unpack it") from None
        if mode == "rb":
            return io.BufferedReader(Streams(stored, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ), b"\0"))
        return cast("AbstractContextManager[BinaryIO]", lzma.LZMAFile(stored, mode))
    if suffix == ".bz2":
        import bz2

        if mode == "rb":
            return io.BufferedReader(Streams(stored, bz2.BZ2Decompressor))
        return cast("AbstractContextManager[BinaryIO]", bz2.BZ2File(stored, mode))
    return nullcontext(stored)


class Streams(io.RawIOBase):
    """What is packed in xz or bzip2 streams one behind the other; Python's readers silently drop what else follows."""

    def __init__(self, stored: BinaryIO, new: Callable[[], LZMADecompressor | BZ2Decompressor], padding: bytes = b""):
        self.stored, self.new, self.padding, self.stream = stored, new, padding, new()

    def readable(self) -> bool:
        """That it can be read."""
        return True

    def readinto(self, into: Any) -> int:
        piece = made = b""
        while not made:
            if self.stream.eof:
                piece = self.stream.unused_data.lstrip(self.padding)
                while not piece:
                    if not (piece := self.stored.read(UNPACKED_BYTES)):
                        return 0
                    piece = piece.lstrip(self.padding)
                self.stream = self.new()
            elif not self.stream.needs_input:
                piece = b""
            elif not (piece := self.stored.read(UNPACKED_BYTES)):
                raise EOFError("it is cut short, or something else follows")
            made = self.stream.decompress(piece, len(into))
        into[: len(made)] = made
        return len(made)


def damage() -> tuple[type[Exception], ...]:
    """What the libraries raise that unpack; few files need them, so they are loaded on use."""
    import zlib

    lzma = sys.modules.get("lzma")
    return (EOFError, OSError, zlib.error, *((lzma.LZMAError,) if lzma else ()))


def whole_lines(path: Path, content: BinaryIO, text_sum: _Hash | None = None) -> Iterator[bytes]:
    """The content in pieces of whole lines, each ended by a newline; `text_sum` is updated with it."""
    rest = b""
    while piece := content.read(CHUNK_BYTES):
        if text_sum is not None:
            text_sum.update(piece)
        whole, newline, last = piece.rpartition(b"\n")
        if newline:
            yield rest + whole + newline
        rest = last if newline else rest + piece
        if len(rest) > LONGEST_LINE:
            raise WorkloadError(
                f"{path}: a line is longer than {LONGEST_LINE / 2**20:g} MiB; give a text with one record a line"
            )
    if rest:
        yield rest + b"\n"


def begins_blank(path: Path) -> WorkloadError:
    return WorkloadError(f"{path}: begins with {CHUNK_BYTES / 2**20:g} MiB of blank lines; is it a log?")


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A stream whose bytes become `path` if the block succeeds, and leave no trace if it fails.

    A name ending in .gz, .xz or .bz2 is compressed, see `packed`.
    Temporary files that killed processes left of the same file are removed.
    """
    remove_left_overs(path.parent, lambda name: name == path.name[:150])
    with raw_file(path) as stored, packed(stored, path.suffix, "wb") as content:
        yield content


@contextmanager
def raw_file(path: Path) -> Iterator[BinaryIO]:
    """As `whole_file`, without compression. Devices and pipes are written directly."""
    with writing(path):
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as stored:
                yield stored
            return
        temporary, together = part_of(path), finished.get()
        try:
            with temporary.open("wb") as stored:
                yield stored
            if together is None:
                temporary.replace(path)
            else:
                together.append((temporary, path))
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def all_or_none() -> Iterator[None]:
    """Rename the files written in the block to their final names if it succeeds: all of them or none."""
    if finished.get() is not None:  # the outer block renames them
        yield
        return
    names: list[tuple[Path, Path]] = []
    token = finished.set(names)
    try:
        yield
        for _, path in names:
            if path.is_dir():
                raise WorkloadError(f"{path}: cannot be written (Is a directory); check the folder")
        for temporary, path in names:
            with writing(path):
                temporary.replace(path)
    finally:
        finished.reset(token)
        for temporary, _ in names:
            temporary.unlink(missing_ok=True)


def part_of(path: Path) -> Path:
    return path.with_name(f".{path.name[:150]}.{this_process()}.part")


def this_process() -> str:
    """This process in the names of its temporary files: its number and its machine, such as 1234@node7."""
    return f"{os.getpid()}@{os.uname().nodename}"


def has_ended(process: str) -> bool:
    """Whether a process, named as `this_process`, has ended; of other machines' that is not known, so False."""
    pid, _, machine = process.partition("@")
    if machine != os.uname().nodename:
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's process, or no number of a process
        return False
    with suppress(OSError):  # a system without /proc
        # "pid (name) state ...", and the name may hold anything. Of a zombie only its parent has not noticed the end.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX"
    return False


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Wait until no other process is in such a block for a file of this folder, if the folder can be locked."""
    with ExitStack() as stack:
        with suppress(OSError):
            handle = os.open(path.parent, os.O_RDONLY)
            stack.callback(os.close, handle)
            host.lock(handle, wait=True)
        yield


def remove_left_overs(folder: Path, of: Callable[[str], bool] = lambda name: True) -> None:
    """Remove the temporary files of killed processes here; `of` takes the first 150 characters of a final name."""
    with suppress(OSError), os.scandir(folder) as entries:  # writing to the folder will report what is wrong with it
        for entry in entries:
            match = PART.fullmatch(entry.name)
            if match and of(match[1]) and has_ended(match[2]):
                (folder / entry.name).unlink(missing_ok=True)


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """A temporary folder, removed after the block. Removes folders for this purpose that killed processes left."""
    import shutil
    import tempfile

    name = re.compile(rf"{re.escape(purpose)}-(\d+@.+)-\w+")
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            match = name.fullmatch(entry.name)
            if match is None or not entry.is_dir(follow_symlinks=False):
                continue
            ours = entry.stat(follow_symlinks=False).st_uid == os.geteuid()
            if ours and has_ended(match[1]):
                shutil.rmtree(entry.path, ignore_errors=True)
    try:
        made = tempfile.TemporaryDirectory(prefix=f"{purpose}-{this_process()}-", ignore_cleanup_errors=True)
    except OSError as error:
        raise RunFailed(f"no temporary folder can be made ({error.strerror}); free space, or set TMPDIR") from None
    with made as folder:
        yield Path(folder)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unwritable(str(path), error, "check the folder") from None


def unwritable(place: str, error: OSError, remedy: str) -> RunFailed | WorkloadError:
    """What to raise for this error of writing to a place; `remedy` ends the message if there is space."""
    full = error.errno in FULL
    text = f"{place}: cannot be written ({error.strerror or error}); {'free space there' if full else remedy}"
    return (RunFailed if full else WorkloadError)(text)


def require_other(name: str, place: Path, others: Iterable[Path]) -> None:
    """Refuse to write a `place` that is one of the other files of a command, whatever links lead to them."""
    for other in others:
        with suppress(OSError, ValueError):  # a name too long, or with a NUL
            if place.samefile(other) if place.is_file() and other.exists() else place.resolve() == other.resolve():
                raise WorkloadError(f"{name} {place}: is the file {other}, which the command needs; name another file")


def require_place(name: str, text: str, writes: Writes, example: str) -> None:
    """Check, before the work that comes first, that something can be written at a path; writes nothing.

    That is a "file"; a "folder", made with its parents if missing; or files that begin with this "prefix", whose folder
    is made in the same way. The `example` is a name to advise.
    """
    import tempfile

    path = Path(text)
    folder = path if writes == "folder" else path.parent
    what = None
    if text == "-" or (folder == Path("/dev") and path.is_file()):  # /dev/stdout, redirected
        what = "is not standard output here; name a file"
    elif writes != "folder" and (text.endswith("/") or path.name in ("", "..") or (writes == "file" and path.is_dir())):
        there = path.is_dir() or writes == "prefix"
        what = f"is a folder; name a {writes}, as {path / example if there else path}"
    elif path.exists() and not path.is_dir() and not path.is_file():
        if writes == "file" and os.access(path, os.W_OK):  # a pipe, or /dev/null
            return
        what = f"is not a {writes}, but a device; choose another"
    else:
        while writes != "file" and not folder.exists() and folder != folder.parent:
            folder = folder.parent
        if not folder.exists():
            what = f"the folder {folder} does not exist; make it first"
        elif not folder.is_dir():
            what = f"{folder} is not a folder; choose another"
        else:
            try:
                tempfile.TemporaryFile(dir=folder).close()
            except OSError as error:
                raise unwritable(f"{name} {text}", error, f"choose another folder than {folder}") from None
    if what is not None:
        raise WorkloadError(f"{name} {text}: {what}")


def write_text(path: Path, text: str) -> None:
    """Write a whole text file, or leave no trace. Bytes of paths that are not UTF-8 are preserved."""
    with whole_file(path) as file:
        file.write(text.encode("utf-8", "surrogateescape"))


def read_json(path: Path, remedy: str) -> tuple[Any, str]:
    """The JSON document in this file, which may be compressed, and the sha256 of the file's bytes as stored."""
    import hashlib

    import orjson

    with readable(path) as stored:
        as_stored = stored.read()
    with content_of(path, io.BytesIO(as_stored)) as content:
        text = content.read()
    if not text.strip():
        raise WorkloadError(f"{path}: the file is empty; {remedy}")
    try:
        document = orjson.loads(text)
        refuse_doubles(text, document)
    except ValueError as error:
        what = f"not JSON ({error})" if isinstance(error, orjson.JSONDecodeError) else error
        raise WorkloadError(f"{path}: {what}; {remedy}") from None
    return document, hashlib.sha256(as_stored).hexdigest()


def refuse_doubles(text: bytes, parsed: Any) -> None:
    """Refuse JSON with a member twice in one object, of which the parser keeps the last and Batsim the first.

    Also what is nested too deeply to be written again.

    Without backslashes, as many strings have to be in what was parsed as in the text; else the text is parsed again.
    """
    import orjson

    try:
        written = orjson.dumps(parsed)
    except TypeError:  # 255 levels or more, which it reads but does not write
        raise ValueError("nested too deeply") from None
    if b"\\" in text or text.count(b'"') != written.count(b'"'):
        loaded_json(text, object_pairs_hook=members_once)


def members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of these members, none of which may occur twice."""
    seen: dict[str, Any] = {}
    for name, value in pairs:
        if name in seen:
            raise ValueError(f"has the member {name!r:.60} twice in one object")
        seen[name] = value
    return seen


def loaded_json(text: str | bytes, **how: Any) -> Any:
    """As `json.loads`, which unlike orjson takes NaN; a ValueError if it is not JSON or nested too deeply."""
    try:
        return json.loads(text, **how)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_text(value: object) -> str:
    """The value as JSON, as in all results and every `--json`: indented by one, keys in insertion order."""
    return json.dumps(value, indent=1)


def write_json(path: Path, value: object) -> None:
    """Write `json_text` to a whole file, or leave no trace."""
    write_text(path, json_text(value) + "\n")


@contextmanager
def any_length() -> Iterator[None]:
    """Make the csv module accept fields of any length in this block: a wide job's machines exceed its 128 KiB limit."""
    import csv

    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """The rows as CSV, each ended by a line feed."""
    import csv

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def shown(path: Path | str) -> str:
    """The path as text that JSON can hold; bytes that are not UTF-8 are escaped."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def make_folder(path: Path, *, remedy: str = "choose another") -> None:
    """Make the folder and its parents if they do not exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkloadError(f"{path}: cannot make the folder ({error.strerror or error}); {remedy}") from None


def path_of(log: object) -> Path:
    if not isinstance(log, (str, Path)):
        remedy = "`read` makes a workload of one, `job_table` of columns"
        raise WorkloadError(f"log: {log!r:.80} is no workload, file or data frame; {remedy}")
    return Path(log)


def place_of(name: str, path: object) -> Path:
    """The path in the argument `name`, of a file or folder."""
    if not isinstance(path, (str, Path)) or not str(path).strip("."):
        raise WorkloadError(f"{name}: {path!r:.80} is no path; give a text or a pathlib.Path")
    longest = max(map(len, os.fsencode(str(path)).split(b"/")))
    if "\0" in str(path) or longest > LONGEST_NAME or len(str(path)) > LONGEST_PATH:
        raise WorkloadError(f"{name}: {str(path)!r:.80} cannot be a path; give a shorter one, without NUL")
    return Path(path)
