"""The file of a saved replay: its jobs as arrays, and in JSON what it was given and how far it had gone.

Nothing of what the engine has made of it is in the file: `Replay.load` replays the jobs up to there. So kernels see
only what was checked as for any replay.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.files import loaded_json, readable, whole_file
from batfill.model.jobs import JobTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

SAVED_FORMAT = "batfill replay 23"
# The columns of a job table with their types. A value for each job; those that may be None may be missing.
COLUMNS = {
    "ids": "U",
    **dict.fromkeys(("submit_s", "runtime_s", "walltime_s", "user_request_s"), "f8"),
    **dict.fromkeys(("procs", "user"), "i8"),
    "job_class": "i1",
    "killable": "b1",
    **dict.fromkeys(("assumed_s", "waited_s", "think_s"), "f8"),
    "preceding": "i8",
}
FLAGS = ("own_end", "outlives")
OPTIONAL = {f.name for f in fields(JobTable) if f.default is None}


def save(path: Path, jobs: JobTable, about: Mapping[str, Any]) -> None:
    """Write jobs and what is JSON about their replay to one file (NumPy's .npz; contains no code)."""
    columns = {name: getattr(jobs, name) for name in COLUMNS}
    columns["ids"] = np.array(jobs.ids.tolist(), np.str_)
    stated = json.dumps({**about, **{name: getattr(jobs, name) for name in FLAGS}})
    with whole_file(path) as stream:
        given: dict[str, Any] = {name: column for name, column in columns.items() if column is not None}
        np.savez(stream, format=SAVED_FORMAT, about=stated, **given)


def load(path: Path) -> tuple[JobTable, dict[str, Any]]:
    """The jobs in the file that `save` wrote, and what is about their replay, which is not checked.

    Raises:
        BatfillError: the file is no saved replay, or has arrays of other types or shapes.
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
    shape = (arrays["ids"].size if "ids" in arrays else 0,)
    for name, kind in COLUMNS.items():
        if name not in arrays:
            if name not in OPTIONAL:
                raise wrong(path, f"{name} is missing")
            continue
        array = arrays[name]
        if array.shape != shape or (array.dtype.kind if kind == "U" else array.dtype) != kind:
            raise wrong(path, f"{name} is of type {array.dtype} and shape {array.shape}")
    try:
        about = loaded_json(str(arrays["about"]))
        flags = {name: bool(about[name]) for name in FLAGS}
    except (KeyError, ValueError, TypeError) as error:
        raise wrong(path, str(error)) from None
    columns: dict[str, Any] = {name: arrays.get(name) for name in COLUMNS}
    return JobTable(**{**columns, "ids": columns["ids"].astype(object), **flags}, source=str(path)), about


def wrong(path: Path, what: str) -> BatfillError:
    """The refusal of a file that differs from what `save` writes."""
    return BatfillError(f"{path}: was changed after it was saved ({what:.200}); run it again from the workload")
