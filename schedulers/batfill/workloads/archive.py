"""The logs of the Parallel Workloads Archive: downloads them, checks them, and caches them."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from batfill.base.errors import RunFailed, WorkloadError
from batfill.base.files import CHUNK_BYTES, decompressed, digest, make_folder, raw_file, readable, whole_file
from batfill.base.version import __version__
from batfill.workloads.formats import stem_of
from batfill.workloads.swf_log import ArchiveLog, manifest, read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ELSEWHERE = "choose another cache with --cache or $BATFILL_CACHE"
CONVERTED = Path("workloads/archive")  # the folder in which the descriptors of expe/ look for workloads
DOWNLOAD_TRIES = 5
TIMEOUT_S = 30.0
BLOCK_BYTES = 1 << 16
GONE = (401, 403, 404, 410)  # retrying would not help


class Gone(Exception):  # noqa: N818 - an answer
    """The server does not offer the file."""


def known_log(name: str) -> ArchiveLog:
    """The log with this name or file stem; case does not matter. WorkloadError if there is none."""
    logs = manifest()
    for log in logs.values():
        if name.lower() in (log.name, stem_of(Path(log.file)).lower()):
            return log
    raise WorkloadError(f"no log {name!r}; there are {', '.join(logs)}")


def cache_folder() -> Path:
    if given := os.environ.get("BATFILL_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "batfill"


def verified(log: ArchiveLog, path: Path) -> str:
    """What was verified of the file, in a few words; ValueError with the reason if it is not this log."""
    if log.sha256 is not None and digest(path) == log.sha256:
        return "sha256 as expected"
    text = hashlib.sha256()
    try:
        with decompressed(path) as content:
            while chunk := content.read(CHUNK_BYTES):
                text.update(chunk)
        if log.text_sha256 is not None:
            if text.hexdigest() != log.text_sha256:
                raise ValueError(f"the file has another text: sha256 {text.hexdigest()}, not {log.text_sha256}")
            return "compressed differently, the text's sha256 as expected"
        rows = len(read_log(path))
    except WorkloadError as error:
        raise ValueError(f"the file is not an SWF log: {error.on_command_line}") from None
    expected = "as expected" if rows == log.jobs else f"instead of {log.jobs}"
    return f"no checksum is listed for it: text sha256 {text.hexdigest()}, {rows} rows {expected}"


def fetch(
    log: ArchiveLog,
    *,
    cache: Path | None = None,
    local: Path | None = None,
    started: Callable[[int | None], None] = lambda _: None,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[Path, str]:
    """A checked copy of the log in the cache, by default `cache_folder()`, and what was verified about it.

    `local`: take the file from this folder instead of the network. `started` gets the length that the server announces,
    or None, at the start of each transfer, `advance` the number of bytes received since the last call.
    """
    folder = cache_folder() if cache is None else cache
    make_folder(folder, remedy=ELSEWHERE)
    kept = folder / log.file
    if local is not None:
        return kept, _take(log, local, kept)
    if kept.exists():
        try:
            return kept, f"already in the cache, {verified(log, kept)}"
        except ValueError as error:
            raise RunFailed(f"{kept}: {error}; remove it and fetch again") from None
    if not os.access(folder, os.W_OK):
        raise RunFailed(f"{folder}: cannot be written; {ELSEWHERE}")
    return kept, _download(log, folder, started, advance)


def _download(
    log: ArchiveLog, folder: Path, started: Callable[[int | None], None], advance: Callable[[int], None]
) -> str:
    """Download the complete log into the folder and check it, or leave nothing; returns what was verified."""
    kept = folder / log.file
    for tries_left in reversed(range(DOWNLOAD_TRIES)):
        try:
            with raw_file(kept) as part:
                for block in _received(log.url, started):
                    part.write(block)
                    advance(len(block))
                part.flush()
                return verified(log, Path(part.name))
        except (ValueError, Gone) as error:
            if tries_left == 0 or isinstance(error, Gone):
                raise RunFailed(f"{log.url}: {error}; fetch it by hand and pass its folder with --from") from None
            time.sleep(DOWNLOAD_TRIES - tries_left)
    raise AssertionError("the last try ends the loop")


def _received(url: str, started: Callable[[int | None], None]) -> Iterator[bytes]:
    """The bytes as they are; `started` gets their length or None. Gone: never ask again; ValueError: it failed."""
    from http.client import HTTPException  # with TLS it takes as long to load as numpy
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    headers = {"User-Agent": f"batfill/{__version__}", "Accept-Encoding": "identity"}
    try:
        with urlopen(Request(url, headers=headers), timeout=TIMEOUT_S) as answer:
            started(answer.length)
            while block := answer.read(BLOCK_BYTES):
                yield block
            if answer.length:
                raise ValueError("the connection ended early")
    except HTTPError as error:
        error.close()
        raise (Gone if error.code in GONE else ValueError)(
            f"the server answers {error.code} ({error.reason})"
        ) from None
    except (OSError, HTTPException) as error:
        cause = error.reason if isinstance(error, URLError) else error
        raise ValueError(f"cannot be fetched ({' '.join(str(cause).split()) or type(cause).__name__})") from None


def _take(log: ArchiveLog, folder: Path, kept: Path) -> str:
    """Copy the log from a local folder, where it may be compressed or not, and check it."""
    stored, plain = folder / log.file, log.file.removesuffix(".gz")
    source = next((path for path in (stored, folder / plain, folder / f"{plain}.gz") if path.is_file()), None)
    if source is None:
        raise WorkloadError(f"{folder}: holds no {log.file}; get it from {log.url}")
    try:
        found = verified(log, source)
    except ValueError as error:
        raise WorkloadError(f"{source}: {error}; get the file of {log.url}") from None
    opened = readable if source == stored else decompressed
    with opened(source) as content, raw_file(kept) if source == stored else whole_file(kept) as out:
        shutil.copyfileobj(content, out, CHUNK_BYTES)
    return found
