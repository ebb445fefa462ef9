"""A replay saved where it stands, to go on in another process with the same results to the last byte."""

from __future__ import annotations

import zipfile
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill import engine
from batfill.errors import BatfillError
from batfill.files import whole_file
from batfill.jobs import JobTable
from batfill.policies import policy_named
from batfill.replay import Replay

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = "batfill replay 5"
SAME = ""


def save(run: Replay, path: Path) -> None:
    """Write the replay's whole state, its workload included, to one file (NumPy's .npz; nothing in it is code)."""
    columns = {f.name: getattr(run.table, f.name) for f in fields(run.table)}
    table = {name: np.asarray(column) for name, column in columns.items() if column is not None}
    table["ids"] = table["ids"].astype(np.str_)
    arrays: dict[str, Any] = {
        "format": np.array(FORMAT),
        "size": np.array(run.size),
        "learns": np.array(run.learns),
        "policy": np.array(run.queue.policy.name),
        "backfill": np.array(run.queue.backfill.name if run.queue.backfill else SAME),
        "threshold_s": np.array(run.queue.threshold_s),
    }
    parts = {"queue": run.queue.saved(), "events": run.events._asdict(), "table": table}
    for part, columns in parts.items():
        arrays |= {f"{part}.{name}": array for name, array in columns.items()}
    with whole_file(path) as stream:
        np.savez(stream, **arrays)


def load(path: Path) -> Replay:
    """The replay saved in this file, where it stood.

    Raises:
        BatfillError: the file is not one that `save` wrote.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = dict(stored)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise BatfillError(f"{path}: cannot be read as a saved replay ({error}); save it again") from None
    if str(arrays.get("format")) != FORMAT:
        raise BatfillError(f"{path}: is not a saved replay of this version ({FORMAT}); run it again from the workload")

    def part(name: str) -> dict[str, Any]:
        return {key.partition(".")[2]: array for key, array in arrays.items() if key.startswith(f"{name}.")}

    table = part("table")
    table["ids"] = table["ids"].astype(object)
    table["own_end"] = bool(table["own_end"])
    backfill = str(arrays["backfill"])
    queue = part("queue")
    run = Replay(
        JobTable(**table),
        int(arrays["size"]),
        policy_named(str(arrays["policy"])),
        backfill=policy_named(backfill) if backfill != SAME else None,
        threshold_s=float(arrays["threshold_s"]),
        divider_s=queue["dividers"]["divider_s"],
        learns=bool(arrays["learns"]),
    )
    run.queue.restore(queue)
    run.events = type(run.events)(**{name: engine.as_records(array) for name, array in part("events").items()})
    return run
