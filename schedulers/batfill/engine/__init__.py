"""The compiled engine: the waiting jobs, the running jobs, and the scheduling decision. It reads no files.

Read in this order: `records` (the data), `blocks` (the waiting jobs, sorted), `ends` (the running jobs, sorted),
`running` (the reservation and the rule of backfilling), `keys` (orders that move with time), `waiting` (joining and
leaving the queue), `plan` (any number of reservations), `easy` (the decision), `arrivals` (a shortcut for jobs
submitted alone), `loop` (the replay's event loop). Names load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

PLACES = {
    "sources": "FILES SOURCES",
    "records": (
        "AWAY CANDIDATE CHANGE DATED FAR FOLLOW JOB LINE NOBODY QUEUE QUEUED_AGAIN SLOT "
        "SPARE_STEPS STARTED STEP TRY Decided QueueArrays QueueRules RULES as_records new_records"
    ),
    "blocks": "clear new_blocks width_of",
    "ends": "END enlarged_ends enter listed new_ends next_end_s",
    "running": "change_release correct corrected finish start unsettle",
    "waiting": "GAP bring_forward demote enqueue_rows requeue set_class spare start_waiting submit",
    "easy": "decide kill_pays",
    "loop": (
        "CLOCK DONE KILL TO_KEY Events Given Scratch advance advance_each next_change_s next_following reset violation"
    ),
}
HOME = {name: module for module, names in PLACES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load the module that defines this name."""
    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{HOME[name]}"), name)
    globals()[name] = value
    return value
