"""EASY-backfilling schedulers for the Batsim simulator, and a compiled engine that replays the same decisions.

Everything a study needs is here, and is loaded when it is first used:

>>> import batfill as bf
>>> log = bf.read("workloads/sample.json")
>>> fcfs, saf = bf.replay(log, "fcfs"), bf.replay(log, "saf", threshold_s=200_000)
>>> bool(saf.figures.mean_wait_s < fcfs.figures.mean_wait_s)
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what PLACES says, for type checkers and editors; a test compares the two
    from batfill.errors import BatfillError as BatfillError
    from batfill.experiment import Replay as Replay
    from batfill.experiment import Result as Result
    from batfill.experiment import replay as replay
    from batfill.experiment import replay_many as replay_many
    from batfill.jobs import JobTable as JobTable
    from batfill.jobs import Workload as Workload
    from batfill.jobs import job_table as job_table
    from batfill.policy import POLICIES as policies  # noqa: N811 - a mapping that its users only read
    from batfill.policy import Policy as Policy
    from batfill.workloads import generate_workload as generate
    from batfill.workloads import read_workload as read

__version__ = "0.1.0"

# The public names: the module that has each, and its name there if it is another.
PLACES = {
    "BatfillError": ("batfill.errors", "BatfillError"),
    "JobTable": ("batfill.jobs", "JobTable"),
    "Policy": ("batfill.policy", "Policy"),
    "Replay": ("batfill.experiment", "Replay"),
    "Result": ("batfill.experiment", "Result"),
    "Workload": ("batfill.jobs", "Workload"),
    "generate": ("batfill.workloads", "generate_workload"),
    "job_table": ("batfill.jobs", "job_table"),
    "policies": ("batfill.policy", "POLICIES"),
    "read": ("batfill.workloads", "read_workload"),
    "replay": ("batfill.experiment", "replay"),
    "replay_many": ("batfill.experiment", "replay_many"),
}
__all__ = [
    "BatfillError",
    "JobTable",
    "Policy",
    "Replay",
    "Result",
    "Workload",
    "__version__",
    "generate",
    "job_table",
    "policies",
    "read",
    "replay",
    "replay_many",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module when it is first used: `import batfill` loads nothing slow."""
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, its_name = PLACES[name]
    value = getattr(import_module(module), its_name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *PLACES})
