"""A replay in a file: saved at any instant, and loaded to go on.

The file holds what the replay was given and how far it had gone, and nothing of what the engine has made of it: `load`
replays the workload up to there. So kernels see only what was checked as for any replay.
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
import zlib
from dataclasses import astuple, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.files import readable, whole_file
from batfill.engine.records import NOBODY
from batfill.model.calendar import Calendar, Window
from batfill.model.feedback import NONE, Follows
from batfill.model.jobs import JobTable, checked_size
from batfill.model.policy import policy_named
from batfill.model.rules import EVERY_JOB, Rules
from batfill.model.values import is_finite
from batfill.replays.engine_replay import EngineReplay

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from batfill.model.policy import Policy

SAVED_FORMAT = "batfill replay 22"
ORDERS = ("policy", "backfill")  # the fields of `Rules` that are policies

# The arrays of a file by name, with their types. One of shape (n_jobs,) has a value for each job; those in OPTIONAL may
# be missing.
PER_JOB = {
    "table.ids": "U",
    "table.submit_s": "f8",
    "table.runtime_s": "f8",
    "table.walltime_s": "f8",
    "table.user_request_s": "f8",
    "table.procs": "i8",
    "table.user": "i8",
    "table.job_class": "i1",
    "table.killable": "b1",
    "table.assumed_s": "f8",
    "table.waited_s": "f8",
    "table.preceding": "i8",
    "table.think_s": "f8",
    "given.expected_s": "f8",
    "given.small": "b1",
    "follows.preceding": "i8",
    "follows.think_s": "f8",
}
SINGLE = {
    "format": "U",
    "table.own_end": "b1",
    "table.outlives": "b1",
    "size": "i8",
    "steps": "U",
    "digest": "U",
    "about": "U",
}
OF_TABLE = tuple(f.name for f in fields(JobTable))
OPTIONAL = {f"table.{f.name}" for f in fields(JobTable) if f.default is None} | {"follows.preceding", "follows.think_s"}
NUMBER = (int, float)
OF_WINDOW: Any = (str, NUMBER, NUMBER, int, (*NUMBER, type(None)), int, str)  # the types of a window's fields


def save(run: EngineReplay, path: Path, about: Mapping[str, Any] | None = None) -> None:
    """Write the replay, including its workload, to one file (NumPy's .npz; contains no code).

    `about` is any JSON value, which `load` returns.

    Raises:
        BatfillError: the replay has learned, or was not begun on an empty machine, and cannot be repeated.
    """
    if run.learns or math.isnan(run.until_s):
        raise BatfillError(f"{path}: this replay cannot be repeated from its workload; save one that does not learn")
    arrays: dict[str, Any] = {f"table.{name}": getattr(run.table, name) for name in OF_TABLE}
    arrays["table.ids"] = np.array(run.table.ids.tolist(), np.str_)
    arrays |= {"given.expected_s": run.given.expected_s, "given.small": run.given.small.astype(bool)}
    if run.closed:
        preceding = run.events.follows["preceding"].astype(np.int64)
        arrays["follows.preceding"] = np.where(preceding == NOBODY, NONE, preceding)
        arrays["follows.think_s"] = run.events.follows["think_s"]
    steps = [[until_s, stated(rules)] for until_s, rules in (*run.past, (run.until_s, run.queue.rules))]
    arrays |= {"format": SAVED_FORMAT, "size": np.int64(run.size), "digest": digest_of(run)}
    arrays |= {"steps": json.dumps(steps), "about": json.dumps(dict(about or {}))}
    with whole_file(path) as stream:
        whole: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
        np.savez(stream, **whole)


def load(path: Path, policies: Mapping[str, Policy] | None = None) -> tuple[EngineReplay, dict[str, Any]]:
    """The replay saved in this file, and the `about` given to `save`.

    Args:
        path: the file.
        policies: by name, those that `policy_named` does not know.

    Raises:
        BatfillError: the file is not as `save` wrote it, a policy is unknown, or the replay found something else then.
    """
    arrays = arrays_in(path)
    table: dict[str, Any] = {name: arrays.get(f"table.{name}") for name in OF_TABLE}
    table["ids"] = table["ids"].astype(object)
    table |= {name: bool(table[name]) for name in ("own_end", "outlives")}
    try:
        jobs = JobTable(**table, source=str(path))
        size = checked_size(path, int(arrays["size"]))
        follows = follows_in(arrays)
        steps = [(until_of(until_s), rules_of(rules, policies or {})) for until_s, rules in json_in(arrays["steps"])]
        about = json_in(arrays["about"])
        if not (steps and isinstance(about, dict)) or any(a[0] > b[0] for a, b in pairwise(steps)):
            raise ValueError("steps")
        first = steps[0][1]
        if first.calendar is not None:
            first.calendar.on(size, None)
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise wrong(path, str(error)) from None
    run = EngineReplay(
        jobs, size, first, expected_s=arrays["given.expected_s"], small=arrays["given.small"], follows=follows
    )
    for (until_s, _), (_, rules) in pairwise(steps):
        run.advance(until_s)
        run.change_rules(rules)
    run.advance(steps[-1][0])
    if digest_of(run) != str(arrays["digest"]):
        raise BatfillError(
            f"{path}: the replay had found other starts when it was saved; load it with the policies and the version "
            "of batfill that it was saved with, or run it again from the workload"
        )
    return run, about


def digest_of(run: EngineReplay) -> str:
    """The sha256 of what the replay has found so far, hexadecimal."""
    found = run.start_s, run.tries, run.kills
    return hashlib.sha256(b"".join(array.tobytes() for array in found)).hexdigest()


def wrong(path: Path, what: str) -> BatfillError:
    """The refusal of a file that differs from what `save` writes."""
    return BatfillError(f"{path}: was changed after it was saved ({what:.200}); run it again from the workload")


def arrays_in(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a saved replay by name, of the types and shapes that `save` writes.

    Raises:
        BatfillError: it is none, or one is missing, or has another type or shape.
    """
    try:
        with readable(path) as stream, np.load(stream, allow_pickle=False) as stored:
            arrays: dict[str, NDArray[Any]] = {name: np.asarray(stored[name]) for name in stored.files}
    except (
        *(OSError, ValueError, TypeError, AttributeError, EOFError, KeyError, NotImplementedError, MemoryError),
        *(SyntaxError, RuntimeError, zipfile.BadZipFile, zlib.error),
    ) as error:
        raise BatfillError(f"{path}: cannot be read as a saved replay ({error!s:.200}); save it again") from None
    if str(arrays.get("format")) != SAVED_FORMAT:
        raise BatfillError(
            f"{path}: is not a saved replay of this version ({SAVED_FORMAT}); run it again from the workload"
        )
    n_jobs = arrays["table.ids"].size if "table.ids" in arrays else 0
    for types, shape in ((PER_JOB, (n_jobs,)), (SINGLE, ())):
        for name, kind in types.items():
            if name not in arrays:
                if name not in OPTIONAL:
                    raise wrong(path, f"{name} is missing")
                continue
            array = arrays[name]
            if array.shape != shape or (array.dtype.kind if kind == "U" else array.dtype) != kind:
                raise wrong(path, f"{name} is of type {array.dtype} and shape {array.shape}")
    return arrays


def json_in(text: NDArray[Any]) -> Any:
    """The JSON value in a text.

    Raises:
        ValueError: it is none.
    """
    try:
        return json.loads(str(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def follows_in(arrays: Mapping[str, NDArray[Any]]) -> Follows | None:
    """What the jobs follow; None if their dates are those of the table.

    Raises:
        KeyError: an array is missing.
        ValueError: one follows a job that is none, or itself through others, or thinks for no time that is known.
    """
    if not {"follows.preceding", "follows.think_s"} & arrays.keys():
        return None
    follows = Follows(arrays["follows.preceding"], arrays["follows.think_s"])
    within = (follows.preceding >= NONE) & (follows.preceding < len(follows.preceding))
    if not (within & (follows.think_s >= 0) & (follows.think_s < math.inf)).all() or follows.in_circles().size:
        raise ValueError("follows")
    return follows


def until_of(until_s: Any) -> float:
    """The date up to which rules held.

    Raises:
        ValueError: it is none.
    """
    if not is_finite(until_s) and until_s not in (math.inf, -math.inf):
        raise ValueError("a step's date")
    return float(until_s)


def stated(rules: Rules) -> dict[str, Any]:
    """The rules for JSON."""
    values = {f.name: getattr(rules, f.name) for f in fields(Rules)}
    values |= {name: values[name] and values[name].name for name in ORDERS}
    return values | {"calendar": rules.calendar and astuple(rules.calendar)}


def rules_of(values: Any, own: Mapping[str, Policy]) -> Rules:
    """The rules that `stated` gives.

    Raises:
        BatfillError: a policy is unknown, or a value is out of range.
        ValueError: a value is of another type.
    """
    rules = dict(values)
    if rules.keys() != {f.name for f in fields(Rules)}:
        raise ValueError("the names of rules")
    for f in fields(Rules):
        value, kind = rules[f.name], NUMBER if isinstance(f.default, float) else (type(f.default),)
        if f.name in ORDERS:
            if not isinstance(value, str) and (value is not None or f.name == "policy"):
                raise ValueError(f.name)
            rules[f.name] = value if value is None else own[value] if value in own else policy_named(value)
        elif f.name == "calendar":
            rules[f.name] = None if value is None else calendar_of(*value)
        elif type(value) not in kind or (kind == (int,) and value > EVERY_JOB):
            raise ValueError(f"{f.name} {value!r:.40}")
    return Rules(**rules)


def calendar_of(windows: Any, name: Any, digest: Any) -> Calendar:
    """The calendar of these fields.

    Raises:
        BatfillError: a window is impossible.
        ValueError: a field is of another type.
    """
    made = tuple(Window(*window) for window in windows)
    typed = all(isinstance(field, kind) for window in made for field, kind in zip(window, OF_WINDOW, strict=True))
    dates = [date for window in made for date in (window.begin, window.end, window.announced or 0.0)]
    if not (typed and isinstance(name, str) and isinstance(digest, str) and not any(map(math.isnan, dates))):
        raise ValueError("calendar")
    return Calendar(made, name, digest)
