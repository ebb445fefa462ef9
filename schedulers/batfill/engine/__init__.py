"""The compiled engine: who waits, who runs, and who starts now. Nothing in here reads a file or knows of a protocol.

Read in this order: `records` (the data), `tree` (the waiting jobs, sorted), `running` (the running jobs and the
reservation), `keys` (orders that move with time), `waiting` (joining and leaving the queue), `easy` (the decision),
`arrivals` (a shortcut for jobs that are submitted alone), `loop` (the replay's events). `jit` says how it is compiled.

Names are loaded when they are first used, as numba takes most of a second to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

PLACES = {
    "jit": "SOURCES announce_compilation",
    "records": "AWAY CANDIDATE JOB LINE OVERDUE QUEUE RUN STARTED TRY QueueArrays RULES "
    "as_records dividers_of new_records",
    "tree": "clear enlarged has_capacity new_tree",
    "running": "correct finish start",
    "waiting": "demote enqueue_at enqueue_rows requeue set_level",
    "easy": "decide",
    "loop": "CLOCK DONE END KILL NEEDS_ROOM Events Given advance advance_each push reset",
}
HOME = {name: module for module, names in PLACES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load the module that has this name."""
    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{HOME[name]}"), name)
    globals()[name] = value
    return value
