"""Reports a run's end: `run.json`, and for a failure one line with the process, the reason and the log to read."""

from __future__ import annotations

import platform
import re
import signal
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.errors import BatfillError
from batfill.base.files import digest, write_json
from batfill.base.version import __version__
from batfill.batsim_files.results import RUN_JSON

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

SIMULATOR, SCHEDULER = "the simulator", "the scheduler"
TAIL_BYTES = 1 << 16
QUOTE_LENGTH = 200
# Bash's own output: the commands it runs (-x), and reports of those that a signal ended.
BASH_TRACE = re.compile(r"\++ ")
BASH_REPORT = re.compile(r"\S+: line \d+: +\d+ ")
# SimGrid's levels in "[0.000000] [server/CRITICAL] ...". What follows such a line is often a stack or a farewell.
SEVERE = re.compile(r"/(CRITICAL|ERROR)\]")


class Stopped(Exception):  # noqa: N818 - it is the run's result
    """The run ends here, with robin's exit status and one line that says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def tail(log: Path) -> list[str]:
    """The last non-blank lines of a log; none if it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(file.seek(0, 2) - TAIL_BYTES, 0))
            return [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return []


class Quote(NamedTuple):
    """The line of a log that says why a process ended."""

    log: Path
    verb: str  # "reports" an error, or "ends with" its last line
    line: str


def quoted(logs: Sequence[Path]) -> Quote | None:
    """SimGrid's last error, or else the last line, in the first log with more than bash's own output; None if none."""
    for log in logs:
        lines = [line for line in tail(log) if not BASH_TRACE.match(line) and not BASH_REPORT.match(line)]
        if lines:
            errors = [line for line in lines if SEVERE.search(line)]
            line = (errors or lines)[-1]
            short = line if len(line) <= QUOTE_LENGTH else f"{line[: QUOTE_LENGTH - 3]}..."
            return Quote(log, "reports" if errors else "ends with", short)
    return None


def last_line_of(logs: Sequence[Path]) -> str:
    """The log to read and the line that says why, see `quoted`; the first log if none has such a line."""
    quote = quoted(logs)
    return f"{logs[0]} says nothing" if quote is None else f"{quote.log} {quote.verb}: {quote.line}"


def ending(status: int) -> str:
    """A process's end in words; -signal and 128 + signal give the signal's name."""
    number = -status if status < 0 else status - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"ended with status {status}"
    return f"was killed by {name}" if status < 0 else f"ended with status {status} ({name})"


def digests(paths: Iterable[Path]) -> dict[str, str]:
    """The sha256 of each of these files that exists, hexadecimal."""
    return {str(path): digest(path) for path in paths if path.is_file()}


@contextmanager
def recorded(output_dir: Path, record: dict[str, Any]) -> Iterator[None]:
    """Write `run.json` when the block ends: versions, times, exit status with its reason, and the contents of `record`.

    The block may still add to `record`; its exceptions propagate.

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
        status, reason = 2, error.on_command_line
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
        write_json(output_dir / RUN_JSON, {**about, **record})
