"""Reads files of external events: machines become unavailable or available, and events for the scheduler to interpret.

One JSON object per line, in any order, as `{"type": "machine_unavailable", "resources": "0-3 7", "timestamp": 20}`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from batfill.base.errors import WorkloadError
from batfill.base.files import readable, whole_lines
from batfill.batsim_files.machines import MachineSet, machine_set
from batfill.workloads.batsim_json import is_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

# At one date machines become available before others become unavailable, as in Batsim.
KNOWN = ("machine_available", "machine_unavailable")


class ExternalEvent(NamedTuple):
    """An event at a fixed date, independent of the scheduler."""

    date: float
    type: str
    machines: MachineSet | None  # None: an event of another type, for the scheduler to interpret
    raw: bytes  # what the scheduler gets: the event's text in its file


def read_events(paths: Iterable[Path], n_machines: int, *, forward_unknown: bool = False) -> list[ExternalEvent]:
    """The events in these files, in time order; of one date as in Batsim, or else in the order of the files.

    Args:
        paths: the files.
        n_machines: number of machines.
        forward_unknown: whether to accept events of other types, for the scheduler to interpret.
    """
    events = [_event(line, n_machines, forward_unknown=forward_unknown) for line in _lines(paths)]
    rank = {kind: place for place, kind in enumerate(KNOWN)}
    return sorted(events, key=lambda event: (event.date, rank.get(event.type, len(KNOWN))))


class Line(NamedTuple):
    """A line of a file of events."""

    where: str  # begins messages
    text: bytes
    event: dict[str, Any]
    type: str
    date: float


def _lines(paths: Iterable[Path]) -> Iterator[Line]:
    """The events in these files, file by file."""
    for path in paths:
        with readable(path) as content:
            lines = [line for text in whole_lines(path, content) for line in text.split(b"\n")[:-1]]
        for number, line in ((number, line) for number, line in enumerate(lines, 1) if line.strip()):
            where = f"{path}: line {number}"
            try:
                event = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise WorkloadError(f"{where}: not JSON ({error}); give one event per line") from None
            kind, date = (event.get("type"), event.get("timestamp")) if isinstance(event, dict) else (None, None)
            if not isinstance(kind, str):
                raise WorkloadError(f"{where}: no event with a type; known types: {', '.join(KNOWN)}")
            if not is_time(date):
                raise WorkloadError(f"{where}: timestamp: {date!r} is not a number >= 0; give the date in seconds")
            yield Line(where, line, event, kind, float(date))


def _event(line: Line, n_machines: int, *, forward_unknown: bool) -> ExternalEvent:
    """The event on this line."""
    machines, resources = None, line.event.get("resources")
    if line.type in KNOWN:
        try:
            machines = machine_set(resources if isinstance(resources, str) else "", n_machines)
        except ValueError as error:
            raise WorkloadError(f"{line.where}: resources: {error}") from None
    elif not forward_unknown:
        raise WorkloadError(
            f"{line.where}: type {line.type!r} is not known (known: {', '.join(KNOWN)}); "
            "pass it on with --forward-unknown-events"
        )
    return ExternalEvent(line.date, line.type, machines, line.text)
