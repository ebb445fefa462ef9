"""How far a running simulation has come."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Reading(NamedTuple):
    """What is known now; None where nothing says it."""

    done: int
    total: int | None = None
    date_s: float | None = None
    waiting: int | None = None


class Watch:
    """Reads the progress file where there is one, and else counts the lines of `_jobs.csv` as they come."""

    def __init__(self, progress_file: Path, jobs_csv: Path, total: int | None) -> None:
        self._progress_file = progress_file
        self._jobs_csv = jobs_csv
        self._total = total
        self._lines = 0
        self._offset = 0

    def read(self) -> Reading:
        """How far it is."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads(self._progress_file.read_bytes())
            return Reading(int(said["jobs_done"]), int(said["jobs_total"]), float(said["date"]), int(said["waiting"]))
        with suppress(OSError), self._jobs_csv.open("rb") as file:
            file.seek(self._offset)
            new = file.read()
            self._lines += new.count(b"\n")
            self._offset += len(new)
        return Reading(max(self._lines - 1, 0), self._total)
