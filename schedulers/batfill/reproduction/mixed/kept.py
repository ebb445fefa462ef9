"""Costly arrays about periods, kept: several entries look at the same weeks, and none should wait for them twice."""

from __future__ import annotations

import hashlib
import inspect
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.engine.jit import SOURCES
from batfill.files import make_folder, raw_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from batfill.tuning.periods import Periods


def kept_array(
    folder: Path,
    periods: Periods,
    asked: dict[str, Any],
    code: Iterable[Any],
    make: Callable[[], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """What `make` gives: from the file that holds it, or made and put there.

    Args:
        folder: where such arrays lie.
        periods: whose jobs it is made from.
        asked: all other input.
        code: functions, classes and modules that make it, beside the engine: a change of any makes it anew.
        make: makes it.
    """
    known = hashlib.sha256(f"{SOURCES} {periods.procs} {json.dumps(asked, sort_keys=True)}".encode())
    for part in code:
        known.update(inspect.getsource(part).encode())
    for jobs in periods.tables:
        for column in (jobs.submit_s, jobs.runtime_s, jobs.walltime_s, jobs.procs):
            known.update(np.ascontiguousarray(column).tobytes())
    path = folder / f"{known.hexdigest()[:32]}.npy"
    if path.is_file():
        return np.asarray(np.load(path, allow_pickle=False))
    made = make()
    make_folder(folder)
    with raw_file(path) as stream:
        np.save(stream, made)
    return made
