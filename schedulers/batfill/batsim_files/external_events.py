"""Reads files of external events: machines become unavailable or available, and events for the scheduler to interpret.

One JSON object per line, in any order, as `{"type": "machine_unavailable", "resources": "0-3 7", "timestamp": 20}`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

from batfill.base.errors import WorkloadError
from batfill.base.files import readable
from batfill.batsim_files.machines import MachineSet, machine_set

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# At one date machines become available before others become unavailable, as in Batsim.
KNOWN = ("machine_available", "machine_unavailable")


class ExternalEvent(NamedTuple):
    """An event at a fixed date, independent of the scheduler."""

    date: float
    type: str
    machines: MachineSet | None  # None: an event of another type, for the scheduler to interpret
    raw: bytes  # what the scheduler gets: the event's text in its file


class Form(msgspec.Struct):
    """An event in a file."""

    type: str
    timestamp: Annotated[float, msgspec.Meta(ge=0)]
    resources: object = ""


def read_events(paths: Iterable[Path], n_machines: int, *, forward_unknown: bool = False) -> list[ExternalEvent]:
    """The events in these files, in time order; of one date as in Batsim, or else in the order of the files."""
    events = []
    for path in paths:
        with readable(path) as content:
            lines = content.read().split(b"\n")
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    events.append(event_of(line, n_machines, forward_unknown=forward_unknown))
                except (msgspec.DecodeError, ValueError, RecursionError) as error:
                    raise WorkloadError(f"{path}: line {number}: {error}; give one event per line") from None
    rank = {kind: place for place, kind in enumerate(KNOWN)}
    return sorted(events, key=lambda event: (event.date, rank.get(event.type, len(KNOWN))))


def event_of(line: bytes, n_machines: int, *, forward_unknown: bool) -> ExternalEvent:
    """The event on this line; a ValueError if it is none."""
    stated = msgspec.json.decode(line, type=Form)
    machines = None
    if stated.type in KNOWN:
        machines = machine_set(stated.resources if isinstance(stated.resources, str) else "", n_machines)
    elif not forward_unknown:
        raise ValueError(f"type {stated.type!r} is not known; pass it on with --forward-unknown-events")
    return ExternalEvent(stated.timestamp, stated.type, machines, line)
