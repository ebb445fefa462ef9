"""The logs of the Parallel Workloads Archive: downloads them, checks them, and caches them."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batfill.base.errors import RunFailed, WorkloadError
from batfill.base.files import CHUNK_BYTES, decompressed, digest, make_folder, raw_file, readable, whole_file
from batfill.base.version import __version__
from batfill.workloads.formats import stem_of
from batfill.workloads.manifest import ArchiveLog, manifest
from batfill.workloads.swf_log import batches_of

if TYPE_CHECKING:
    from collections.abc import Callable

ELSEWHERE = "choose another cache with --cache or $BATFILL_CACHE"
DOWNLOAD_TRIES = 5
TIMEOUT_S = 30.0
BLOCK_BYTES = 1 << 16
GONE = (401, 403, 404, 410)  # retrying would not help


def known_log(name: str) -> ArchiveLog:
    """The log with this name or file stem; case does not matter.

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


def verified(log: ArchiveLog, path: Path) -> str:
    """Check the file; returns what was verified, in a few words.

    Raises:
        ValueError: the file is not this log; the message says why.
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
                raise ValueError(f"the file has another text: sha256 {text.hexdigest()}, not {log.text_sha256}")
            return "compressed differently, the text's sha256 as expected"
        rows = sum(len(batch) for batch in batches_of(path))
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
    """A checked copy of the log in the cache, and what was verified about it.

    Args:
        log: the log to fetch.
        cache: the folder of the copies; by default `cache_folder()`.
        local: take the file from this folder instead of the network.
        started: called with the length the server announces, or None, at the start of each transfer.
        advance: called with the number of bytes received since the last call.

    Raises:
        RunFailed: the log cannot be fetched, or the download is something else.
        WorkloadError: the local folder does not hold the log, or holds something else.
    """
    folder = cache_folder() if cache is None else cache
    make_folder(folder, mend=ELSEWHERE)
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


@dataclass(slots=True)
class _Bar:
    """The progress bar for pooch, which calls `fetch`'s `started` and `advance`."""

    started: Callable[[int | None], None]
    update: Callable[[int], None]
    length: int = 0

    @property
    def total(self) -> int:
        """The number of bytes to receive; 0 if the server does not say."""
        return self.length

    @total.setter
    def total(self, length: int) -> None:
        self.length = length
        self.reset()

    def reset(self) -> None:
        """Restart at 0."""
        self.started(self.length or None)

    def close(self) -> None:
        """Nothing: the caller closes the bar."""


def _download(
    log: ArchiveLog, folder: Path, started: Callable[[int | None], None], advance: Callable[[int], None]
) -> str:
    """Download the complete log into the folder and check it, or leave nothing; returns what was verified.

    pooch retries, with pauses. It knows only the compressed file's checksum, which changes if the archive compresses
    the log again, so `verified` decides.

    Raises:
        RunFailed: the log cannot be fetched; one line with the reason and the address.
    """
    import pooch  # with requests it takes half a second to load
    import requests

    answers = ExitStack()

    def keep_packed(answer: Any, **_: Any) -> None:
        answers.callback(answer.close)  # pooch leaves it open on failure
        # Servers declare a .gz file's compression as Content-Encoding; requests would decompress it.
        answer.raw.headers.pop("Content-Encoding", None)

    http = pooch.HTTPDownloader(
        progressbar=_Bar(started, advance),
        chunk_size=BLOCK_BYTES,
        timeout=TIMEOUT_S,
        headers={"User-Agent": f"batfill/{__version__}", "Accept-Encoding": "identity"},
        hooks={"response": keep_packed},
    )
    found = ""

    def download(url: str, part: str, _: object) -> None:
        nonlocal found
        try:
            http(url, part, None)
        except requests.HTTPError as error:
            if error.response is not None and error.response.status_code in GONE:
                raise unavailable(error) from None
            raise
        found = verified(log, Path(part))
        umask = os.umask(0)
        os.umask(umask)
        Path(part).chmod(0o666 & ~umask)  # temporary files are private; a cache may be shared

    def unavailable(error: Exception) -> RunFailed:
        return RunFailed(f"{log.url}: {_reason(error)}; fetch it by hand and pass its folder with --from")

    pooch.get_logger().setLevel(logging.WARNING)  # it would report each try
    source = pooch.create(
        folder, "", registry={log.file: None}, urls={log.file: log.url}, retry_if_failed=DOWNLOAD_TRIES - 1
    )
    try:
        with answers:
            source.fetch(log.file, downloader=download)
    except (ValueError, requests.RequestException) as error:
        raise unavailable(error) from None
    except OSError as error:
        raise RunFailed(f"{folder}: cannot be written ({error.strerror or error}); {ELSEWHERE}") from None
    return found


def _reason(error: Exception) -> str:
    """Why a download failed, in one short line."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answers {error.response.status_code} ({error.response.reason})"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection ended early"
    if not isinstance(error, requests.RequestException):
        return str(error)
    cause: BaseException = error
    while before := cause.__cause__ or cause.__context__:  # requests wraps the system's error three times
        cause = before
    return f"cannot be fetched ({' '.join(str(cause).split()) or type(cause).__name__})"


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
