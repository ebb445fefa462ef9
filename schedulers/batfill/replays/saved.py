"""A replay in a file: saved at any instant, and loaded to go on."""

from __future__ import annotations

import json
import zipfile
from dataclasses import astuple, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.files import whole_file
from batfill.model.calendar import Calendar, Window
from batfill.model.jobs import JobTable
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay
from batfill.replays.queue import named, restored

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from batfill.model.policy import Policy

SAVED_FORMAT = "batfill replay 21"
ORDERS = ("policy", "backfill")  # the fields of `Rules` that are policies


def save(run: EngineReplay, path: Path, about: Mapping[str, Any] | None = None) -> None:
    """Write the replay's whole state, including its workload, to one file (NumPy's .npz; contains no code).

    `about` is any JSON value, which `load` returns.
    """
    columns = {f.name: getattr(run.table, f.name) for f in fields(run.table)}
    table = {name: np.asarray(column) for name, column in columns.items() if column is not None}
    table["ids"] = np.array(table["ids"].tolist(), np.str_)
    rules_by_name = {f.name: getattr(run.queue.rules, f.name) for f in fields(Rules)}
    rules_by_name |= {name: order and order.name for name, order in rules_by_name.items() if name in ORDERS}
    if run.queue.rules.calendar is not None:
        rules_by_name["calendar"] = astuple(run.queue.rules.calendar)
    arrays: dict[str, Any] = {
        "format": np.array(SAVED_FORMAT),
        "size": np.array(run.size),
        "learns": np.array(run.learns),
        "has_key_requests": np.array(run.queue.has_key_requests),
        "rules": np.array(json.dumps(rules_by_name)),
        "about": np.array(json.dumps(dict(about or {}))),
    }
    parts = {"queue": run.queue.saved(), "events": named(run.events), "given": named(run.given), "table": table}
    for part, columns in parts.items():
        arrays |= {f"{part}.{name}": array for name, array in columns.items()}
    with whole_file(path) as stream:
        np.savez(stream, **arrays)


def load(path: Path, policies: Mapping[str, Policy] | None = None) -> tuple[EngineReplay, dict[str, Any]]:
    """The replay saved in this file, and the `about` given to `save`.

    Args:
        path: the file.
        policies: by name, those that `policy_named` does not know.

    Raises:
        BatfillError: the file was not written by `save`.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = dict(stored)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise BatfillError(f"{path}: cannot be read as a saved replay ({error}); save it again") from None
    if str(arrays.get("format")) != SAVED_FORMAT:
        raise BatfillError(
            f"{path}: is not a saved replay of this version ({SAVED_FORMAT}); run it again from the workload"
        )

    def part(name: str) -> dict[str, Any]:
        return {key.partition(".")[2]: array for key, array in arrays.items() if key.startswith(f"{name}.")}

    table = part("table")
    table["ids"] = table["ids"].astype(object)
    table |= {name: bool(table[name]) for name in ("own_end", "outlives")}
    own, rules = policies or {}, json.loads(str(arrays["rules"]))
    for name in ORDERS:
        if (order := rules[name]) is not None:
            rules[name] = own[order] if order in own else policy_named(order)
    if (calendar := rules["calendar"]) is not None:
        windows, *rest = calendar
        rules["calendar"] = Calendar(tuple(Window(*window) for window in windows), *rest)
    run = EngineReplay(JobTable(**table), int(arrays["size"]), Rules(**rules), learns=bool(arrays["learns"]))
    run.queue.restore(part("queue"))
    run.queue.has_key_requests = bool(arrays["has_key_requests"])
    run.events = restored(run.events, part("events"))
    run.given = restored(run.given, part("given"))
    return run, json.loads(str(arrays["about"]))
