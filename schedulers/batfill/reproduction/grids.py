"""Campaigns behind entries: written, run and resumed as `batfill campaign` does, one per log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq
import yaml

from batfill.campaign.config import read_campaign
from batfill.campaign.run import run_campaign
from batfill.files import digest, make_folder, write_text
from batfill.reproduction.shared import REPLAYS, code_of
from batfill.workloads.formats import load_log

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from batfill.reproduction.task import Task


class Grid(NamedTuple):
    """The runs of a campaign: a row of figures each, and their jobs where the campaign keeps them."""

    label: str
    folder: Path
    rows: list[dict[str, Any]]

    def of(self, policy: str) -> list[dict[str, Any]]:
        """The runs under this policy, in the campaign's order."""
        return [row for row in self.rows if row["policy"] == policy]

    def jobs(self, row: dict[str, Any], columns: Sequence[str]) -> dict[str, NDArray[Any]]:
        """These columns of a run's jobs, without the rejected ones."""
        table = pq.read_table(self.folder / "jobs" / f"{row['run']}.parquet", columns=[*columns, "rejected"])
        ran = ~table.column("rejected").to_numpy()
        return {name: table.column(name).to_numpy()[ran] for name in columns}


def run_grid(task: Task, label: str, content: dict[str, Any], *, overrun: str) -> Grid:
    """The campaign of these sections on the log of this label.

    All campaigns of a paper on one log share a folder: runs that any of them has finished are not run again by the same
    code.
    """
    path = task.logs[label]
    text = yaml.safe_dump({"workloads": [{"file": str(path.resolve()), "overrun": overrun}], **content})
    folder = task.folder / "campaigns" / f"{digest(path)[:16]}-{code_of(*REPLAYS)[:8]}"
    make_folder(folder)
    write_text(folder / "campaign.yaml", text)
    done = run_campaign(read_campaign(folder / "campaign.yaml"), folder, bar=task.bar, say=lambda _: None)
    return Grid(label, folder, pq.read_table(done.results).to_pylist())


def longest_request_s(path: Path) -> float:
    """The largest requested time in a log, in seconds."""
    return float(load_log(path)["requested_s"].max())
