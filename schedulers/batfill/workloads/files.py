"""Opening files that may be compressed, and writing files that are whole or absent."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

from batfill.errors import WorkloadError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader
    from pathlib import Path

GZIP, XZ, BZIP2, PARQUET = b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh", b"PAR1"
DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, OSError)
CHUNK_BYTES = 1 << 23


def digest(path: Path) -> str:
    """The sha256 of the file's bytes as stored, hexadecimal."""
    with readable(path) as stored:
        return hashlib.file_digest(stored, "sha256").hexdigest()


@contextmanager
def readable(path: Path) -> Iterator[BufferedReader]:
    """The file's bytes as stored; WorkloadError in one line where it cannot be opened."""
    try:
        stored = path.open("rb")
    except OSError as error:
        raise WorkloadError(f"{path}: {(error.strerror or str(error)).lower()}; check the path") from None
    with stored:
        yield stored


@contextmanager
def decompressed(path: Path) -> Iterator[BinaryIO]:
    """The file's content as a stream of bytes, whether it is gzip, xz, bzip2 or plain (told by its first bytes)."""
    with readable(path) as stored:
        try:
            start = stored.read(6)
            stored.seek(0)
            if start.startswith(GZIP):
                yield cast("BinaryIO", gzip.GzipFile(fileobj=stored))
            elif start.startswith(XZ):
                yield cast("BinaryIO", lzma.LZMAFile(stored))  # noqa: SIM115 - it closes with `stored`
            elif start.startswith(BZIP2):
                yield cast("BinaryIO", bz2.BZ2File(stored))
            else:
                yield stored
        except DAMAGE as error:
            raise WorkloadError(f"{path}: cannot be unpacked ({error}); fetch or copy the file again") from None


def is_parquet(path: Path) -> bool:
    """Whether the file begins as Parquet does."""
    with readable(path) as stored:
        return stored.read(4) == PARQUET


def first_byte(path: Path) -> bytes:
    """The content's first byte that is neither blank nor part of a byte order mark; b"" where there is none."""
    with decompressed(path) as content:
        while chunk := content.read(4096):
            if text := chunk.lstrip(b"\xef\xbb\xbf \t\r\n"):
                return text[:1]
    return b""


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A stream whose bytes become `path` when the block ends well, and leave no trace when it fails.

    A name that ends in .gz, .xz or .bz2 is compressed (gzip without a time stamp: equal content is equal bytes).
    """
    with raw_file(path) as stored:
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=stored, mode="wb", compresslevel=6, mtime=0) as packed:
                yield cast("BinaryIO", packed)
        elif path.suffix == ".xz":
            with lzma.LZMAFile(stored, "wb") as packed_xz:
                yield cast("BinaryIO", packed_xz)
        elif path.suffix == ".bz2":
            with bz2.BZ2File(stored, "wb") as packed_bz2:
                yield cast("BinaryIO", packed_bz2)
        else:
            yield stored


@contextmanager
def raw_file(path: Path) -> Iterator[BinaryIO]:
    """As `whole_file`, with the bytes as they are given."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as stored:
            yield stored
        temporary.replace(path)
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be written ({error.strerror or error}); check the folder") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole text file, or leave no trace."""
    with whole_file(path) as file:
        file.write(text.encode())


def make_folder(path: Path) -> None:
    """Make the folder and those above it, where they are not there yet."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkloadError(f"{path}: no folder can be made ({error.strerror or error}); choose another") from None
