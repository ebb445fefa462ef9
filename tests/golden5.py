"""Recorded runs of Batsim 5.0.0-rc2: a folder each in one compressed archive, unpacked once per test process."""

from __future__ import annotations

import atexit
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import orjson

ARCHIVE = Path(__file__).parent / "data" / "golden5.tar.xz"


@cache
def folder() -> Path:
    """Where the recordings are unpacked."""
    place = Path(tempfile.mkdtemp(prefix="golden5-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    with tarfile.open(ARCHIVE) as stored:
        stored.extractall(place, filter="data")
    return place / "golden5"


@dataclass(frozen=True)
class Recording5:
    """One run; `exit` is negative for a signal."""

    name: str

    @property
    def folder(self) -> Path:
        """Its files: cmd.txt, exit.txt, platform.xml, workload.json, events.txt, stderr.txt, out/..."""
        return folder() / self.name

    @property
    def exit(self) -> str:
        """Batsim's exit status, as the recording has it."""
        return (self.folder / "exit.txt").read_text().strip()

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The lines of the conversation: seq, dir, and msg, or text where it is no JSON; the handshake comes first."""
        return messages_of(self.name)


@lru_cache(maxsize=2)  # each test asks for those of one recording, several times
def messages_of(name: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (folder() / name / "messages.jsonl").read_text().splitlines()]


def recordings(prefix: str = "") -> list[Recording5]:
    """Those whose names begin so."""
    names = sorted(path.name for path in folder().iterdir() if path.is_dir())
    return [Recording5(name) for name in names if name.startswith(prefix)]
