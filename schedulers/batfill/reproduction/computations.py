"""The computations that entries name: modules with a section `Parameters` and `compute(task, parameters)`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from batfill.campaign.config import Section
    from batfill.reproduction.outcome import Outcome
    from batfill.reproduction.task import Task

# What an entry's `compute:` may say, and the module of this package that does it.
MODULES = {
    "pure-policies": "pure_policies",
}


class Computation(NamedTuple):
    """How an entry is computed."""

    parameters: type[Section]
    compute: Callable[[Task, Any], Outcome]
    source: Path  # a change of it makes stored results stale


def computation(name: str) -> Computation:
    """The computation of this name, one of MODULES."""
    module = import_module(f"batfill.reproduction.{MODULES[name]}")
    return Computation(module.Parameters, module.compute, Path(str(module.__file__)))
