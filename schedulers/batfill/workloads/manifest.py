"""The list of known logs, `archive.toml`: where each is, what it must hold, and how large its machine was."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class ArchiveLog:
    """One log of the manifest; sums and sizes are None if no copy has been at hand."""

    name: str
    title: str
    url: str
    jobs: int
    processors: int
    acknowledge: str
    terms: str = ""
    note: str = ""
    sha256: str | None = None
    bytes: int | None = None
    text_sha256: str | None = None
    text_bytes: int | None = None

    @property
    def file(self) -> str:
        """The name the archive gives the file."""
        return self.url.rpartition("/")[2]


@cache
def manifest() -> dict[str, ArchiveLog]:
    """Every log of archive.toml by its name."""
    text = resources.files("batfill.workloads").joinpath("archive.toml").read_text("utf-8")
    return {name: ArchiveLog(name=name, **fields) for name, fields in tomllib.loads(text).items()}


def log_with_text(text_sha256: str) -> ArchiveLog | None:
    """The log of the list whose unpacked text has this sum, however a copy is packed and whatever it is called."""
    return next((log for log in manifest().values() if log.text_sha256 == text_sha256), None)
