"""Grids of mixed policies, kept: several entries look at the same weeks under the same points."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Literal

import numpy as np

from batfill.reproduction.shared import code_of
from batfill.tuning.coverage import Coverage
from batfill.tuning.space import Space
from batfill.workloads.files import make_folder, raw_file

if TYPE_CHECKING:
    from batfill.reproduction.task import Task
    from batfill.tuning.costs import Setting
    from batfill.tuning.weeks import Periods

Units = Literal["plain", "typical"]


def space_of(units: Units, periods: Periods, n_training: int) -> Space:
    """Weights on (q, p~, w) as they are, or divided by what is typical of the training periods."""
    return Space.of(3) if units == "plain" else Space.scaled(3, periods.part(0, n_training))


def coverage_of(task: Task, label: str, periods: Periods, setting: Setting, space: Space, points: int) -> Coverage:
    """The grid's costs on these periods, computed at most once for all entries of a paper."""
    content = {
        "periods": periods.provenance(),
        "setting": setting.as_dict(),
        "space": space.as_dict(),
        "points": points,
        "code": code_of("tuning"),
    }
    identity = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
    path = task.folder / "coverage" / f"{identity}.npy"
    if path.is_file():
        return Coverage(periods, setting, space, points, known=np.load(path, allow_pickle=False))
    with task.bar(f"periods of {label}, each under {points:,} policies", len(periods)) as advance:
        search = Coverage(periods, setting, space, points, advance)
    make_folder(path.parent)
    with raw_file(path) as stream:
        np.save(stream, search.costs)
    return search
