"""What a computation is given beside its parameters: the logs that are at hand, and where it may keep things."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from batfill.workloads.archive import cache_folder
from batfill.workloads.manifest import manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    Bar = Callable[[str, float | None], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True, slots=True)
class Task:
    """The surroundings of one computation."""

    logs: dict[str, Path]  # by the entry's labels (columns or rows of its table), in its order; never empty
    folder: Path  # shared by the entries of a paper: campaigns are kept there, and resumed
    bar: Bar  # bar("weeks", 100) makes a progress bar: a context that gives a function to move it on


def file_of(log: str) -> str:
    """The file of a log that is named as the archive's manifest does, or by its file."""
    known = manifest().get(log)
    return known.file if known else log


def places(given: Path | None) -> list[Path]:
    """Where logs are looked for: the folder given, else $BATFILL_TRACES and the cache of `batfill workload fetch`."""
    if given is not None:
        return [given]
    traces = os.environ.get("BATFILL_TRACES")
    return [*([Path(traces)] if traces else []), cache_folder()]


def find(log: str, folders: Sequence[Path]) -> Path | None:
    """The log's file in the first folder that holds it, packed or not."""
    name = file_of(log)
    candidates = [folder / each for folder in folders for each in (name, name.removesuffix(".gz"))]
    return next((path for path in candidates if path.is_file()), None)
