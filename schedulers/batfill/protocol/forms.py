"""The form of Batsim's JSON messages, of either version: members with their types, and a line for what is wrong.

`batsim4.py` and `batsim5.py` describe each message once, as a `Version`. Both ends use it: the scheduler reads what the
simulation writes, by msgspec, and the simulation, of Batsim 4 alone, reads the scheduler's decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union

import msgspec
import orjson

from batfill.base.errors import WorkloadError
from batfill.model.jobs import LONGEST_S
from batfill.protocol.decisions import Kill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from batfill.protocol.decisions import Decision

# The types of a field, and how messages call them; true is not a number.
Fields = Mapping[str, tuple[type, ...]]
NO_FIELDS: Fields = MappingProxyType({})
INTEGER, NUMBER, STRING, ARRAY, OBJECT, BOOLEAN = (int,), (int, float), (str,), (list,), (dict,), (bool,)
OPTIONAL_NUMBER = (*NUMBER, type(None))
ANY = (*NUMBER, str, list, dict, bool, type(None))
JSON_TYPES: dict[tuple[type, ...], str] = {
    INTEGER: "an integer",
    NUMBER: "a number",
    STRING: "a string",
    ARRAY: "an array",
    OBJECT: "an object",
    BOOLEAN: "true or false",
    OPTIONAL_NUMBER: "a number or null",
}
MESSAGE: Fields = {"now": NUMBER, "events": ARRAY}

# Messages round dates: a date may return with an error of half the last unit of Batsim 4's six decimals. Batsim 5's
# twelve show the time that its own messages take, which is not meant.
RESOLUTION_S = 1e-6


class FormError(Exception):
    """A message is none of Batsim's protocol; the text says what is wrong, and where in the message."""


def form(name: str, *, rename: Literal["kebab"] | None = None, **members: Any) -> Any:
    """The form of an object that the simulation sends: each member's type, or its type and default.

    Members that are not named here may be added to any.
    """
    fields = [(member, *(kind if isinstance(kind, tuple) else (kind,))) for member, kind in members.items()]
    return msgspec.defstruct(name, fields, rename=rename, kw_only=True, frozen=True)


# What a simulation's numbers can be.
Date = Annotated[int, msgspec.Meta(ge=0, le=int(LONGEST_S))] | Annotated[float, msgspec.Meta(ge=0, le=LONGEST_S)]
Seconds = Annotated[int, msgspec.Meta(ge=-1, le=2**53)] | Annotated[float, msgspec.Meta(ge=-1)]  # a walltime
Procs = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
Ids = list[form("Machine", id=int)]  # type: ignore[misc, valid-type] # a class made here
UNREAD = form("Unread")


class Report(NamedTuple):
    """An event of the simulation's, as batfill's scheduler reads it."""

    means: str  # the method of `live.conversation.Conversation` that takes its data
    data: Any = UNREAD


class Form(NamedTuple):
    """A JSON object's members with their types, and what they mean."""

    means: Callable[..., Any]  # a decision's class, or what makes a value
    required: Fields = NO_FIELDS
    optional: Fields = NO_FIELDS
    # What is made of them, if not `means`: it takes the required members' values in their order, the others by name.
    make: Callable[..., Any] | None = None
    write: Callable[[Any], dict[str, Any]] | None = None  # the members of a decision; None if batfill never decides so

    def read(self, data: Any, where: str = "") -> Any:
        """What this object means; `where` begins the message if it does not have this form.

        Raises:
            FormError, WorkloadError: it does not, or its values cannot be.
        """
        check_fields(data, self.required, self.optional, where)
        others = {name: data[name] for name in self.optional if name in data}
        return (self.make or self.means)(*[data[name] for name in self.required], **others)


@dataclass(frozen=True, eq=False)
class Version:
    """A version of the protocol: the names and the form of all messages."""

    name: str
    type_field: str  # an event's type
    data_field: str  # what it is about
    reports: Mapping[str, Report]  # the simulation's events, by type
    decisions: Mapping[str, Form]  # the scheduler's events, by type
    unsupported: Mapping[str, str]  # its events that the simulation here refuses, and why
    exact_dates: bool = True  # False: the simulation's dates show the time that its own messages take
    suffix: bytes = b""  # of a simulation's message, after its JSON

    @cached_property
    def message(self) -> msgspec.json.Decoder[Any]:
        """Reads a message of the simulation's: `now` and `events`, each with its `data` and with what it `means`."""
        events = [
            msgspec.defstruct(
                kind,
                [("timestamp", Date), ("data", report.data, msgspec.field(name=self.data_field))],
                tag_field=self.type_field,
                tag=kind,
                namespace={"means": report.means},
            )
            for kind, report in self.reports.items()
        ]
        return msgspec.json.Decoder(form("Message", now=Date, events=list[Union[*events]]))  # type: ignore[valid-type]

    @cached_property
    def event(self) -> Fields:
        """The members of each event."""
        return {"timestamp": NUMBER, self.type_field: STRING, self.data_field: OBJECT}

    @cached_property
    def said(self) -> dict[type[Decision], tuple[str, Callable[[Any], dict[str, Any]]]]:
        """The type of the event that states a decision of batfill's, and its data."""
        return {form.means: (kind, form.write) for kind, form in self.decisions.items() if form.write}  # type: ignore[misc] # a decision's class

    @cached_property
    def type_of(self) -> dict[str, bytes]:
        """The type of the report with each meaning."""
        return {report.means: kind.encode() for kind, report in self.reports.items()}

    def decided(self, kind: str, data: dict[str, Any]) -> Decision:
        """What an event of the scheduler's decides.

        Raises:
            FormError, WorkloadError: it is none of Batsim's, or its data cannot be.
        """
        if kind in self.unsupported:
            raise FormError(self.unsupported[kind])
        if kind not in self.decisions:
            known = ", ".join(kind for kind in self.decisions if kind not in self.unsupported)
            raise FormError(f"not known; known: {known}")
        decision: Decision = self.decisions[kind].read(data)
        return decision


def parsed(text: bytes) -> Any:
    """The JSON value of a message.

    Raises:
        FormError: it is not JSON.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FormError(f"is not JSON: {error}: {shown_start(text)}") from None


def check_fields(
    data: Any, required: Fields, optional: Fields = NO_FIELDS, where: str = "", *, others: bool = False
) -> None:
    """Refuse an object with an unknown member, without a required one, or with a value of another type.

    Args:
        data: the JSON value.
        required: the members that it must have, with their types.
        optional: the members that it may have.
        where: begins the message.
        others: whether it may have further members.

    Raises:
        FormError: it has.
    """
    if type(data) is not dict:
        for name, kinds in required.items():
            raise FormError(f"{where}needs {name!r}, {JSON_TYPES[kinds]}, and is not an object")
    for name, kinds in required.items():
        if name not in data or type(data[name]) not in kinds:
            raise FormError(where + unfit(data, name, kinds))
    if len(data) == len(required):
        return
    for name in optional:
        if name in data and type(data[name]) not in optional[name]:
            raise FormError(where + unfit(data, name, optional[name]))
    if not others:
        for name in data:
            if name not in optional and name not in required:
                known = ", ".join([*required, *optional]) or "none"
                raise FormError(f"{where}has a member {name!r:.60}, which the protocol does not know; known: {known}")


def unfit(data: dict[str, Any], name: str, kinds: tuple[type, ...]) -> str:
    """Why a JSON object has no member of this name and one of these types, in words."""
    found = f"has {data[name]!r:.60}" if name in data else "lacks it"
    return f"needs {name!r}, {JSON_TYPES[kinds]}, and {found}"


def kill_of(job_ids: list[Any]) -> Kill:
    """The kill of these jobs, at least one."""
    if not job_ids:
        raise WorkloadError("'job_ids' is empty; name the jobs to kill")
    for job_id in job_ids:
        if type(job_id) is not str:
            raise WorkloadError(f"{job_id!r:.60} in 'job_ids' is not a job's id, a string")
    return Kill(job_ids)


def refuse_unused(job_id: str, unused: Iterable[str]) -> None:
    """Refuse members of a job's start that would change nothing here."""
    for name in unused:
        raise WorkloadError(f"job {job_id!r:.60} has a {name}, which delay profiles do not use; leave it out")


def parts_of_id(what: str, identifier: str) -> tuple[str, str]:
    """The workload and the name in the id of a job or a profile."""
    workload, _, name = identifier.partition("!")
    if not workload or not name or "!" in name:
        raise WorkloadError(f"{identifier!r:.60} is not the id of a {what}, such as 'w0!1'")
    return workload, name


def shown_type(kind: str) -> str:
    """The type of an event, for one line of text."""
    return kind if kind.isidentifier() and len(kind) < 40 else f"{kind!r:.40}"


def shown_start(text: bytes) -> str:
    """The beginning of a message, on one line."""
    shown = repr(text[:100].decode(errors="replace"))
    return shown if len(text) <= 100 else f"{shown}..."
