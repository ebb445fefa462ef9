"""The form of Batsim's JSON messages, of either version and from either end, which msgspec reads.

`batsim4.py` and `batsim5.py` describe each event once: what its data has, and which method of the end that reads it
takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union

import msgspec

from batfill.model.jobs import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from batfill.protocol.decisions import Decision

# Messages round dates: a date may return with an error of half the last unit of Batsim 4's six decimals. Batsim 5's
# twelve show the time that its own messages take, which is not meant.
RESOLUTION_S = 1e-6


def form(name: str, *, rename: Literal["kebab"] | None = None, **members: Any) -> Any:
    """The form of an object: each member's type, or its type and default; members that are not named may be added."""
    fields = [(member, *(kind if isinstance(kind, tuple) else (kind,))) for member, kind in members.items()]
    return msgspec.defstruct(name, fields, rename=rename, kw_only=True, frozen=True)


# What a message's numbers can be.
Date = Annotated[int, msgspec.Meta(ge=0, le=int(LONGEST_S))] | Annotated[float, msgspec.Meta(ge=0, le=LONGEST_S)]
Seconds = Annotated[int, msgspec.Meta(ge=-1, le=2**53)] | Annotated[float, msgspec.Meta(ge=-1)]  # a walltime
Procs = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
Ids = list[form("Machine", id=int)]  # type: ignore[misc, valid-type] # a class made here
UNREAD = form("Unread")


class Event(NamedTuple):
    """An event, as the end that reads it takes it."""

    means: str  # the method of `live.conversation.Conversation` or `simulator.simulation.Simulation` for its data
    data: Any = UNREAD


def reader_of(kinds: Mapping[str, Event], type_field: str, data_field: str) -> msgspec.json.Decoder[Any]:
    """Reads a message: `now` and `events`, each with its `timestamp`, its `data` and what it `means`."""
    events = [
        msgspec.defstruct(
            kind,
            [("timestamp", Date), ("data", event.data, msgspec.field(name=data_field))],
            tag_field=type_field,
            tag=kind,
            namespace={"means": event.means},
        )
        for kind, event in kinds.items()
    ]
    return msgspec.json.Decoder(form("Message", now=Date, events=list[Union[*events]]))  # type: ignore[valid-type]


@dataclass(frozen=True, eq=False)
class Version:
    """A version of the protocol, as batfill's scheduler speaks it."""

    name: str
    type_field: str  # an event's type
    data_field: str  # what it is about
    events: Mapping[str, Event]  # the simulation's, by type
    # The type of the event that states a decision, and what makes its data of it; None if the decision is the data.
    said: Mapping[type[Decision], tuple[str, Callable[[Any], dict[str, Any]] | None]]
    exact_dates: bool = True  # False: the simulation's dates show the time that its own messages take
    suffix: bytes = b""  # of a simulation's message, after its JSON

    @cached_property
    def reader(self) -> msgspec.json.Decoder[Any]:
        return reader_of(self.events, self.type_field, self.data_field)
