"""The list of known logs, `archive.toml`: each one's address, checksums, number of jobs and machine size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ArchiveLog:
    """One log of the manifest; checksums are None if no copy was available."""

    name: str
    title: str
    url: str
    jobs: int
    processors: int
    acknowledge: str
    terms: str = ""
    note: str = ""
    generated: bool = False  # made by a program; its jobs have no users
    sha256: str | None = None
    text_sha256: str | None = None

    @property
    def file(self) -> str:
        """The file's name in the archive."""
        return self.url.rpartition("/")[2]


@cache
def manifest() -> dict[str, ArchiveLog]:
    """The logs of archive.toml by name."""
    import tomllib

    text = Path(__file__).with_name("archive.toml").read_text("utf-8")
    return {name: ArchiveLog(name=name, **fields) for name, fields in tomllib.loads(text).items()}


def log_with_text(text_sha256: str) -> ArchiveLog | None:
    """The listed log whose uncompressed text has this checksum, whatever the file's name and compression."""
    return next((log for log in manifest().values() if log.text_sha256 == text_sha256), None)
