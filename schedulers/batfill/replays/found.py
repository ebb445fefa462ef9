"""The content of a result file, how a study reads its log, and the text of the file.

Result files hold findings with everything needed to repeat them. No dates, no timings: equal runs give equal bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from batfill.base.errors import BatfillError, WorkloadError, nearest
from batfill.base.files import json_text, write_text
from batfill.base.tables import Rows, data_frame
from batfill.base.version import ENGINE, __version__
from batfill.model.jobs import refuse_cancelled
from batfill.workloads import opened
from batfill.workloads.formats import replayable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from batfill.model.jobs import Cancelled, Jobs, Overrun, Unrequested


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How a study reads its log."""

    procs: int | None = None  # the machine's size; by default the log's
    overrun: Overrun | None = None  # see `read_workload`; for a file only
    unrequested: Unrequested | None = None  # see `read_workload`; for a file only
    cancelled: Cancelled | None = None  # see `read_workload`; for a file only

    @classmethod
    def of(cls, **arguments: Any) -> Self:
        known = [each.name for each in fields(cls)]
        if unknown := [name for name in arguments if name not in known]:
            suggested = nearest(unknown[0], known) or f"; known are {', '.join(known)}"
            raise BatfillError(f"argument {unknown[0]!r} is unknown{suggested}")
        return cls(**arguments)

    @classmethod
    def taken_from(cls, arguments: dict[str, Any]) -> Self:
        return cls(**{each.name: arguments.pop(each.name) for each in fields(cls) if each.name in arguments})

    @property
    def reading(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(ReadingOptions)}

    def source(self, log: Jobs | str | Path) -> Jobs:
        """The log, whose jobs run until they end."""
        source = replayable(log, **self.reading)
        refuse_cancelled(source, source.where, "what is learned of periods")
        return source

    def jobs(self, log: Jobs | str | Path) -> tuple[Jobs, Jobs, int]:
        """The log, those of its jobs that fit the machine, and the machine's size."""
        workload, size = opened(log, **self.reading)
        jobs = workload.jobs.select(workload.jobs.procs <= size)
        if not len(jobs):
            raise WorkloadError(f"{workload.where}: no job fits {size} processors; give a larger --procs")
        return workload, jobs, size


def document(
    command: str, *, seed: int | None, given: Mapping[str, Any], source: Mapping[str, Any], results: Mapping[str, Any]
) -> dict[str, Any]:
    """Results first, provenance last; `source` describes the input; the seed is None if nothing is random."""
    return {
        **results,
        "made_by": f"batfill {__version__} {command}",
        "engine": ENGINE,
        "seed": seed,
        "options": dict(given),
        "input": dict(source),
    }


class Found(Rows, dict[str, Any]):
    """The content of a result file: a dict displayed as the table that the command prints.

    Attributes:
        rows: the table, a dict per row with equal keys.
        remark: a line below it.
    """

    def __init__(self, content: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], remark: str = "") -> None:
        dict.__init__(self, content)
        self.rows, self.remark = rows, remark

    def as_json(self) -> str:
        """The text of the result file, without the final newline."""
        return as_json(self)

    def save(self, path: str | Path) -> None:
        """Write the result file, as the command's `--out` does."""
        write_text(Path(path), self.as_json() + "\n")

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a frame; its `attrs` hold the options and the input, if known. Needs pandas."""
        return data_frame(self.rows, **{name: self[name] for name in ("options", "input") if name in self})


def as_json(content: Mapping[str, Any]) -> str:
    return json_text(plain(content))


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
