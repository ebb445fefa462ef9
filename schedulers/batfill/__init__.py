"""EASY-backfilling schedulers for the Batsim simulator, and a compiled engine that replays the same decisions.

Everything a study needs is here, and is loaded on first use:

>>> import batfill as bf
>>> log = bf.read("workloads/sample.json")
>>> fcfs, saf = bf.replay(log, "fcfs"), bf.replay(log, "saf", threshold_s=200_000)
>>> bool(saf.figures.mean_wait_s < fcfs.figures.mean_wait_s)
True
"""

from __future__ import annotations

import signal
import sys

program = sys.orig_argv[1:3] == ["-m", "batfill"] or any(word.endswith("/batfill") for word in sys.orig_argv[1:2])
if program and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # An interrupt ends the program without a traceback until the command line is loaded, which answers in one line.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
del program

from typing import TYPE_CHECKING, Any  # noqa: E402 - this import is most of the time meant above

if TYPE_CHECKING:  # repeats PLACES for type checkers and editors; a test compares the two
    from batfill.campaigns.run import campaign as campaign
    from batfill.errors import BatfillError as BatfillError
    from batfill.experiment import Replay as Replay
    from batfill.experiment import Result as Result
    from batfill.experiment import replay as replay
    from batfill.experiment import replay_many as replay_many
    from batfill.jobs import JobTable as JobTable
    from batfill.jobs import Workload as Workload
    from batfill.jobs import job_table as job_table
    from batfill.knowledge.frontier import frontier as frontier
    from batfill.knowledge.study import classify as classify
    from batfill.networks import network_of as network_of
    from batfill.policy import POLICIES as policies  # noqa: N811 - a mapping that its users only read
    from batfill.policy import Policy as Policy
    from batfill.policy import picked_by as picked_by
    from batfill.policy import save_network as save_network
    from batfill.reports.comparison import compare as compare
    from batfill.reports.what_if import what_if as what_if
    from batfill.reports.write import report as report
    from batfill.tuning.aged import tune_aged as tune_aged
    from batfill.tuning.heuristics import fit as fit
    from batfill.tuning.select import select as select
    from batfill.tuning.tune import tune as tune
    from batfill.workloads import generate_workload as generate
    from batfill.workloads import read_workload as read

__version__ = "0.1.0"

# The public names: the module of each, and its name there if it differs.
PLACES = {
    "BatfillError": ("batfill.errors", "BatfillError"),
    "JobTable": ("batfill.jobs", "JobTable"),
    "Policy": ("batfill.policy", "Policy"),
    "Replay": ("batfill.experiment", "Replay"),
    "Result": ("batfill.experiment", "Result"),
    "Workload": ("batfill.jobs", "Workload"),
    "campaign": ("batfill.campaigns.run", "campaign"),
    "classify": ("batfill.knowledge.study", "classify"),
    "compare": ("batfill.reports.comparison", "compare"),
    "fit": ("batfill.tuning.heuristics", "fit"),
    "frontier": ("batfill.knowledge.frontier", "frontier"),
    "generate": ("batfill.workloads", "generate_workload"),
    "job_table": ("batfill.jobs", "job_table"),
    "network_of": ("batfill.networks", "network_of"),
    "picked_by": ("batfill.policy", "picked_by"),
    "policies": ("batfill.policy", "POLICIES"),
    "read": ("batfill.workloads", "read_workload"),
    "replay": ("batfill.experiment", "replay"),
    "replay_many": ("batfill.experiment", "replay_many"),
    "report": ("batfill.reports.write", "report"),
    "save_network": ("batfill.policy", "save_network"),
    "select": ("batfill.tuning.select", "select"),
    "tune": ("batfill.tuning.tune", "tune"),
    "tune_aged": ("batfill.tuning.aged", "tune_aged"),
    "what_if": ("batfill.reports.what_if", "what_if"),
}
__all__ = [
    "BatfillError",
    "JobTable",
    "Policy",
    "Replay",
    "Result",
    "Workload",
    "__version__",
    "campaign",
    "classify",
    "compare",
    "fit",
    "frontier",
    "generate",
    "job_table",
    "network_of",
    "picked_by",
    "policies",
    "read",
    "replay",
    "replay_many",
    "report",
    "save_network",
    "select",
    "tune",
    "tune_aged",
    "what_if",
]


if not TYPE_CHECKING:  # type checkers would take every name for Any

    def __getattr__(name: str) -> Any:
        """Load a public name from its module on first use: `import batfill` loads nothing slow."""
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
