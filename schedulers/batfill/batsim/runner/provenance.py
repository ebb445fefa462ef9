"""`run.json`: what made a run's files and how it ended, so that it can be told and repeated."""

from __future__ import annotations

import json
import platform
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from batfill import __version__
from batfill.batsim.runner.verdict import Stopped
from batfill.errors import BatfillError
from batfill.files import digest, write_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FILE_NAME = "run.json"


def digests(paths: Iterable[Path]) -> dict[str, str]:
    """The sha256 of each of these files that is there, hexadecimal."""
    return {str(path): digest(path) for path in paths if path.is_file()}


@contextmanager
def recorded(output_dir: Path, said: dict[str, Any]) -> Iterator[None]:
    """Write `run.json` when the block ends: versions, times, the exit status and its reason, and what is `said`.

    The block may still add to `said`; what it raises passes on.

    Raises:
        WorkloadError: the file cannot be written.
    """
    began, started = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    status, reason = 1, "unexpected"
    try:
        yield
        status, reason = 0, ""
    except Stopped as stopped:
        status, reason = stopped.status, stopped.reason
        raise
    except BatfillError as error:
        status, reason = 2, str(error)
        raise
    finally:
        about = {
            "made_by": f"batfill {__version__} run",
            "python": platform.python_version(),
            "started": started,
            "wall_s": round(time.monotonic() - began, 3),
            "exit": status,
            "reason": reason,
        }
        write_text(output_dir / FILE_NAME, json.dumps({**about, **said}, indent=1) + "\n")
