"""One file over HTTP: resumed where it broke off, tried again with pauses, and never taken for whole when it is not."""

from __future__ import annotations

import fcntl
import http.client
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from batfill import __version__
from batfill.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

TRIES = 5
TIMEOUT_S = 30.0
BLOCK_BYTES = 1 << 16
GONE = (401, 403, 404, 410)  # trying again would not help


class RefusedError(Exception):
    """The server answered, and the answer will not change."""


def download(
    url: str,
    part: Path,
    *,
    check: Callable[[Path], str],
    pause_s: float = 1.0,
    started: Callable[[int | None], None] = lambda _: None,
    advance: Callable[[int], None] = lambda _: None,
) -> str:
    """Fetch `url` into `part`, going on from what `part` already holds, until `check` accepts it; what `check` says.

    Args:
        url: http or https.
        part: the file; it stays when the download fails, so that the next one goes on from there.
        check: raises ValueError, with what is wrong, for content that is not what was asked for; such content is thrown
            away and fetched once more from the start.
        pause_s: before the second try; it doubles with each.
        started: called with the length the server promises, or None, whenever bytes begin to flow.
        advance: called with the number of bytes that have come.

    Raises:
        RunFailed: the file cannot be had; one line with the reason and the address.
    """
    reason = ""
    with _opened(part) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunFailed(f"{part}: another download of it is under way; wait for it to end") from None
        for attempt in range(TRIES):
            if attempt:
                time.sleep(pause_s * 2 ** (attempt - 1))
            try:
                fetched = _continue(url, file, started, advance)
            except RefusedError as error:
                reason = str(error)
                break
            except (OSError, http.client.HTTPException) as error:
                reason = _told(error)
                continue
            if not fetched:
                reason = "the connection ended early"
                continue
            try:
                return check(part)
            except ValueError as error:
                reason = str(error)
                file.truncate(0)
    if part.stat().st_size == 0:
        part.unlink()
    raise RunFailed(f"{url}: {reason}; fetch it by hand and pass its folder with --from")


def _opened(part: Path) -> BinaryIO:
    try:
        return part.open("ab")
    except OSError as error:
        raise RunFailed(
            f"{part}: cannot be written ({error.strerror or error}); choose another folder for it"
        ) from None


def _continue(url: str, file: BinaryIO, started: Callable[[int | None], None], advance: Callable[[int], None]) -> bool:
    """Append what is missing; whether all that the server promised has come."""
    have = file.seek(0, 2)
    headers = {"User-Agent": f"batfill/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and have:  # nothing is left to send: either all is here, or it is something else
                return True
            if error.code in GONE:
                raise RefusedError(f"the server answers {error.code} ({error.reason})") from None
            raise
    with answer:
        if answer.status != 206 and have:  # the server cannot resume
            file.truncate(0)
            have = 0
        length = answer.headers.get("Content-Length")
        promised = int(length) if length and length.isdigit() else None
        started(None if promised is None else have + promised)
        advance(have)
        came = 0
        while block := answer.read(BLOCK_BYTES):
            file.write(block)
            came += len(block)
            advance(len(block))
        file.flush()
    return promised is None or came >= promised


def _told(error: Exception) -> str:
    """A network error in a few words, on one line."""
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code} ({error.reason})"
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return f"cannot be fetched ({' '.join(str(cause).split()) or type(cause).__name__})"
