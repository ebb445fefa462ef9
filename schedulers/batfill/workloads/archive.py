"""The logs of the Parallel Workloads Archive: a cache of checked copies, and how a copy gets there."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from batfill.errors import RunFailed, WorkloadError
from batfill.files import CHUNK_BYTES, decompressed, digest, make_folder, raw_file, readable, whole_file
from batfill.workloads.download import download
from batfill.workloads.formats import stem_of
from batfill.workloads.manifest import ArchiveLog, manifest
from batfill.workloads.swf_log import batches_of

if TYPE_CHECKING:
    from collections.abc import Callable


ELSEWHERE = "choose another cache with --cache or $BATFILL_CACHE"


def known_log(name: str) -> ArchiveLog:
    """The log of this name, or of this file's stem; case does not matter.

    Raises:
        WorkloadError: there is none.
    """
    logs = manifest()
    for log in logs.values():
        if name.lower() in (log.name, stem_of(Path(log.file)).lower()):
            return log
    raise WorkloadError(f"no log {name!r}; there are {', '.join(logs)}")


def cache_folder() -> Path:
    """$BATFILL_CACHE, else batfill in $XDG_CACHE_HOME, else in ~/.cache."""
    if given := os.environ.get("BATFILL_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "batfill"


def checked(log: ArchiveLog, path: Path) -> str:
    """What was found right about the file, in a few words.

    Raises:
        ValueError: what is wrong with it.
    """
    if log.sha256 is not None and digest(path) == log.sha256:
        return "sha256 as expected"
    text = hashlib.sha256()
    try:
        with decompressed(path) as content:
            while chunk := content.read(CHUNK_BYTES):
                text.update(chunk)
        if log.text_sha256 is not None:
            if text.hexdigest() != log.text_sha256:
                raise ValueError(f"what came is another text: sha256 {text.hexdigest()}, not {log.text_sha256}")
            return "packed anew, the text's sha256 as expected"
        rows = sum(len(batch) for batch in batches_of(path))
    except WorkloadError as error:
        raise ValueError(f"what came is no SWF log: {error}") from None
    expected = "as expected" if rows == log.jobs else f"where {log.jobs} were expected"
    return f"its sum is not known here: text sha256 {text.hexdigest()}, {rows} rows {expected}"


def fetch(
    log: ArchiveLog,
    *,
    cache: Path | None = None,
    local: Path | None = None,
    pause_s: float = 1.0,
    started: Callable[[int | None], None] = lambda _: None,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[Path, str]:
    """A checked copy of the log in the cache, and what was found right about it.

    Args:
        log: which.
        cache: where copies are kept; by default `cache_folder()`.
        local: take the file from this folder instead of the network.
        pause_s: before the second try; it doubles with each.
        started: see `download`.
        advance: see `download`.

    Raises:
        RunFailed: it cannot be had, or what came is something else.
        WorkloadError: the local folder does not hold it, or holds something else.
    """
    folder = cache_folder() if cache is None else cache
    make_folder(folder, mend=ELSEWHERE)
    kept = folder / log.file
    if local is not None:
        return kept, _take(log, local, kept)
    if kept.exists():
        try:
            return kept, f"already here, {checked(log, kept)}"
        except ValueError as error:
            raise RunFailed(f"{kept}: {error}; remove it and fetch again") from None
    part = folder / f"{log.file}.part"
    if not os.access(folder, os.W_OK):
        raise RunFailed(f"{folder}: cannot be written; {ELSEWHERE}")
    found = download(
        log.url, part, check=lambda path: checked(log, path), pause_s=pause_s, started=started, advance=advance
    )
    part.replace(kept)
    return kept, found


def _take(log: ArchiveLog, folder: Path, kept: Path) -> str:
    """Copy the log from a local folder, where it may be unpacked, and check it."""
    packed, plain = folder / log.file, folder / log.file.removesuffix(".gz")
    source = packed if packed.is_file() else plain
    if not source.is_file():
        raise WorkloadError(f"{folder}: holds no {log.file}; get it from {log.url}")
    try:
        found = checked(log, source)
    except ValueError as error:
        raise WorkloadError(f"{source}: {error}; get the file of {log.url}") from None
    with readable(source) as content, raw_file(kept) if source == packed else whole_file(kept) as out:
        shutil.copyfileobj(content, out, CHUNK_BYTES)
    return found
