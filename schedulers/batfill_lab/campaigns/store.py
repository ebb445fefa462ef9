"""The folder of a campaign, whose files are always whole, however the campaign was stopped.

runs.parquet        one row per run of the campaign, in its order, written once all are finished
parts/              the rows of runs finished since; each file appears whole under its name
earlier.parquet     rows of runs no longer in the campaign's file
jobs/RUN.parquet    a run's jobs, if requested
provenance.json     the origin of all results
"""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from batfill.base import host
from batfill.base.files import make_folder, raw_file, remove_left_overs
from batfill.model.metrics import Summary
from batfill.model.option_texts import described
from batfill.model.options import SMALLS
from batfill.model.values import number_or_text
from batfill_lab.campaigns.config import CampaignError
from batfill_lab.studied import STUDIED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

COLUMNS: list[tuple[str, pa.DataType]] = [
    ("run", pa.string()),
    ("workload", pa.string()),
    ("workload_sha256", pa.string()),
    ("procs", pa.int64()),
    ("overrun", pa.string()),
    ("unrequested", pa.string()),
    ("seed", pa.int64()),
    ("sample", pa.int64()),
    ("window", pa.int64()),
    ("window_start_s", pa.float64()),
    ("window_end_s", pa.float64()),
    ("policy", pa.string()),
    ("backfill", pa.string()),
    ("depth", pa.string()),  # a number, or all
    ("threshold_s", pa.float64()),
    ("knowledge", pa.string()),
    ("learning", pa.string()),  # options given besides the knowledge's name; None if there are none
    ("options", pa.string()),  # every option in force, default or not, as JSON
    ("tau_s", pa.float64()),
    *((column.name, pa.int64() if column.type == "int" else pa.float64()) for column in fields(Summary)),
    ("learned", pa.string()),
    ("urgent", pa.string()),  # figures of urgent jobs as JSON; None without any
    ("simulate_s", pa.float64()),
    ("version", pa.string()),
]
SCHEMA = pa.schema(COLUMNS)
CHOICE_COLUMNS = (
    "policy",
    "backfill",
    "depth",
    "threshold_s",
    "knowledge",
    "learning",
)  # of a choice of options


class Store:
    """An open folder, held by one campaign at a time."""

    def __init__(self, folder: Path) -> None:
        """Use `open_store`."""
        self.folder = folder
        self.parts = folder / "parts"
        self.jobs = folder / "jobs"
        self.runs = folder / "runs.parquet"
        self.earlier = folder / "earlier.parquet"

    def files(self) -> list[Path]:
        return [path for path in (self.runs, self.earlier, *sorted(self.parts.glob("*.parquet"))) if path.is_file()]

    def rows(self) -> pa.Table:
        """The finished runs, once each, in no particular order."""
        table = pa.concat_tables([SCHEMA.empty_table(), *map(rows_in_file, self.files())])
        seen: set[str] = set()
        first = []
        for i, run in enumerate(run_names(table)):
            if run not in seen:
                seen.add(run)
                first.append(i)
        return table.take(pa.array(first, pa.int64()))

    def finished(self, *, per_job: bool) -> set[str]:
        """The runs that need not be repeated: those with a row and, if requested, their jobs."""
        runs = set(run_names(self.rows()))
        if per_job:
            runs &= {path.stem for path in self.jobs.glob("*.parquet")}
        return runs

    def add(self, rows: Sequence[dict[str, Any]], jobs: Iterable[tuple[str, bytes]] = ()) -> None:
        """Store these runs, jobs first, so that a run with a row has its jobs."""
        for run, stored in jobs:
            make_folder(self.jobs)
            with raw_file(self.jobs / f"{run}.parquet") as file:
                file.write(stored)
        if rows:
            make_folder(self.parts)
            store_rows(pa.Table.from_pylist(list(rows), SCHEMA), self.parts / f"{rows[0]['run']}.parquet")

    def merge(self, order: Sequence[str]) -> pa.Table:
        """Move these finished runs, in this order, to runs.parquet, and all others to earlier.parquet."""
        table = self.rows()
        place = {run: i for i, run in enumerate(run_names(table))}
        wanted = set(order)
        others = [i for run, i in place.items() if run not in wanted]
        runs = table.take(pa.array([place[run] for run in order], pa.int64()))
        if others:
            store_rows(table.take(pa.array(others, pa.int64())), self.earlier)
        store_rows(runs, self.runs)
        if not others:
            self.earlier.unlink(missing_ok=True)
        for path in self.parts.glob("*.parquet"):
            path.unlink()
        if self.parts.is_dir():
            self.parts.rmdir()
        return runs


@contextmanager
def open_store(folder: Path) -> Iterator[Store]:
    """The campaign's folder, made if needed and removed if it stays empty, locked until this process ends."""
    made = not folder.exists()
    make_folder(folder)
    with (folder / ".lock").open("w") as lock:
        try:
            host.lock(lock.fileno())
        except OSError:
            raise CampaignError(
                f"{folder}: a campaign is running in this folder; wait for it, or choose another with --out"
            ) from None
        store = Store(folder)
        for place in (folder, store.parts, store.jobs):
            remove_left_overs(place)
        try:
            yield store
        except BaseException:
            if made and [path.name for path in folder.iterdir()] == [".lock"]:
                (folder / ".lock").unlink()
                folder.rmdir()
            raise


def rows_in_file(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path)
        for name, was in {"unrequested": None, "depth": "1"}.items():
            if name not in table.column_names:  # of a former version
                table = table.append_column(name, pa.array([was] * len(table), pa.string()))
        return table.select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise CampaignError(f"{path}: not a campaign's results ({reason}); remove it from the folder") from None


def run_names(table: pa.Table) -> list[str]:
    return [str(run) for run in table.column("run").to_pylist()]


def store_rows(table: pa.Table, path: Path) -> None:
    with raw_file(path) as file:
        pq.write_table(table, file)


def overview(table: pa.Table) -> list[dict[str, Any]]:
    """A row per workload and choice, in the table's order; each run has equal weight, without a figure none."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    columns = ["workload", *CHOICE_COLUMNS, "rejected", "mean_wait_s", "max_wait_s", "mean_bsld"]
    for row in table.select(columns).to_pylist():
        groups[row["workload"], options_text(row)].append(row)
    return [
        {
            "workload": workload,
            "options": options,
            "runs": len(rows),
            "rejected": sum(row["rejected"] for row in rows),
            "mean_wait_s": sum(row["mean_wait_s"] for row in rows) / len(rows),
            "max_wait_s": max(row["max_wait_s"] for row in rows),
            "mean_bsld": sum(row["mean_bsld"] for row in rows) / len(rows),
            "max_mean_bsld": max(row["mean_bsld"] for row in rows),
        }
        for (workload, options), rows in groups.items()
    ]


def options_text(row: Mapping[str, Any]) -> str:
    options = options_of(row)
    return ", ".join([described(options), *(f"{name} {options[name]}" for name in STUDIED if name in options)])


def options_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a row by name; `knowledge` is a value of `small` or `predict`, `learning` the rest."""
    known = {"small" if row["knowledge"] in SMALLS else "predict": row["knowledge"]}
    known |= json.loads(row["learning"] or "{}") | {
        "depth": number_or_text(row["depth"]),
        "threshold": row["threshold_s"],
    }
    return {name: row[name] for name in ("policy", "backfill")} | known
