"""What the simulation needs of a version of Batsim's protocol, and the checks that all versions share.

`Wire` is the interface; `protocol4` and `protocol5` are its two versions. A wire writes what the simulation reports,
one function an event, and turns the events of a reply into the simulation's own methods, so that the effect of a
decision is written once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from batfill.errors import RunFailed, WorkloadError
from batfill.jobs import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from batfill.batsim.catalogue import Job, Progress
    from batfill.batsim.external_events import ExternalEvent
    from batfill.batsim.platform import Platform
    from batfill.batsim.simulation import Call, Simulation

# The types of a field, and how messages call them; true is not a number.
INTEGER, NUMBER, STRING, ARRAY, OBJECT, BOOLEAN = (int,), (int, float), (str,), (list,), (dict,), (bool,)
JSON_TYPES: dict[tuple[type, ...], str] = {
    INTEGER: "an integer",
    NUMBER: "a number",
    STRING: "a string",
    ARRAY: "an array",
    OBJECT: "an object",
    BOOLEAN: "true or false",
}

# Messages round dates: a date may return with an error of half the last unit of Batsim 4's six decimals. Batsim 5's
# twelve show the time that its own messages take, which is not meant.
RESOLUTION_S = 1e-6

PORT = re.compile(r"tcp://.+:(-?\d{1,18})")
HIGHEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """The settings of a simulation; the defaults are those of Batsim 4's options."""

    forward_profiles: bool = False  # with each submission
    forward_profiles_first: bool = False  # all in the first message, in which Batsim 4 always has them
    dynamic_jobs: bool = False
    acknowledge: bool = False
    reuse_profiles: bool = False
    share_compute: bool = False
    share_storage: bool = True
    forward_unknown_events: bool = False
    sched_config: str = ""


class SimulationStopped(RunFailed):
    """The simulation cannot continue; the message says when, what, and why."""


class ReplyError(Exception):
    """A reply is not a message of Batsim's protocol; the text says what is wrong, and where in the reply."""


class Decision(NamedTuple):
    """One event of a reply."""

    date: float
    type: str
    data: dict[str, Any]
    where: tuple[int, int]  # the number of the message that the reply answers, and the place in the reply's events


class Reply(NamedTuple):
    """The scheduler's reply: its decisions, and the date from which it accepts the next message."""

    now: float
    decisions: list[Decision]


class Wire(Protocol):
    """A version of the protocol, as the simulation uses it. Dates are seconds."""

    decisions: Mapping[str, Callable[[Simulation, dict[str, Any]], None]]
    """What each event of a reply does; it raises WorkloadError or ReplyError with the reason why it cannot be."""
    unsupported: Mapping[str, str]
    """Batsim's other events, and why they are refused."""
    notices_alone: bool
    """Whether the end of the static submissions has a message of its own, unless all jobs are submitted at date 0."""
    begins_with_submissions: bool
    """Whether the first message has the events of date 0, too, if several files bring events."""
    profiles_until_last_job: bool
    """Whether a profile stays until the last of its jobs has ended, instead of the first."""
    to_register: str
    """How registrations are enabled, in words."""
    to_reuse: str
    """How profiles are reused, in words."""
    end_of_registration: str
    """What ends registrations, in words."""

    def message(self, now: float, events: Sequence[bytes]) -> bytes:
        """The message that carries these events."""

    def simulation_begins(
        self,
        platform: Platform,
        settings: SimulationSettings,
        paths: dict[str, str],
        profiles: dict[str, dict[str, dict[str, Any]]],
    ) -> bytes:
        """The first event: machines, settings, and each workload's path and profiles."""

    def job_submitted(self, date: float, job: Job, *, with_profile: bool) -> bytes:
        """A job was submitted."""

    def job_completed(self, date: float, job: Job, return_code: int) -> bytes:
        """A job ended in its state."""

    def jobs_killed(self, date: float, jobs: Sequence[Job], progress: Sequence[tuple[Job, Progress]]) -> bytes:
        """The jobs of one request to kill, and the progress of those that ran."""

    def requested_call(self, date: float, call: Call, *, last: bool) -> bytes:
        """A requested call; `last`: of a periodic one that ends."""

    def no_more_jobs(self, date: float) -> bytes:
        """All static jobs have been submitted."""

    def no_more_external_events(self, date: float) -> bytes:
        """All external events have happened."""

    def external_event(self, date: float, event: ExternalEvent) -> bytes:
        """An external event happened."""

    def simulation_ends(self, date: float) -> bytes:
        """The simulation has ended."""

    def read_reply(self, text: bytes, number: int, now: float) -> Reply:
        """The reply to the message of this number and date, checked for its form.

        Raises:
            ReplyError: it is not a message.
        """


def read_message(text: bytes, number: int, type_field: str, data_field: str, *, strict: bool = False) -> Reply:
    """The scheduler's reply to the message of this number, checked for its form.

    Args:
        text: JSON.
        number: of the message that it answers.
        type_field: the name of an event's member with its type.
        data_field: the name of an event's member with its data.
        strict: whether to refuse members that the protocol does not know.

    Raises:
        ReplyError: it is not a message.
    """
    try:
        reply = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ReplyError(f"is not JSON: {error}: {shown_start(text)}") from None
    now, events = needed(reply, "now", NUMBER), needed(reply, "events", ARRAY)
    if now > LONGEST_S:
        raise ReplyError(f"has the date {now:g} as its 'now', more than {LONGEST_S:g} s, 30,000 years")
    if strict and len(reply) > len(("now", "events")):
        raise ReplyError(f"has a member {_other(reply, ('now', 'events'))!r:.60}, which a message does not have")
    decisions = []
    last = -LONGEST_S
    date: Any
    for place, item in enumerate(events):
        fields: dict[str, Any] = item if type(item) is dict else {}
        date, kind, data = fields.get("timestamp"), fields.get(type_field), fields.get(data_field)
        if not (type(date) in NUMBER and last <= date <= now and type(kind) is str and type(data) is dict):
            named = f" ({shown_type(kind)})" if type(kind) is str else ""
            wrong = _wrong_with(item, last, now, type_field, data_field)
            raise ReplyError(f"has events[{place}]{named}, which {wrong}")
        if strict and len(fields) > len(("timestamp", type_field, data_field)):
            other = _other(fields, ("timestamp", type_field, data_field))
            raise ReplyError(
                f"has events[{place}] ({shown_type(kind)}), which has a member {other!r:.60} beside its data"
            )
        last = date
        decisions.append(Decision(float(date), kind, data, (number, place)))
    return Reply(float(now), decisions)


def _other(holder: dict[str, Any], known: tuple[str, ...]) -> str:
    """The first member of this object whose name is not known."""
    return next(name for name in holder if name not in known)


def needed(holder: Any, name: str, kinds: tuple[type, ...]) -> Any:
    """The member of a JSON object that has this name; it must have one of these types, and true is not a number.

    Raises:
        ReplyError: there is none.
    """
    value = holder.get(name) if type(holder) is dict else None
    if type(value) in kinds:
        return value
    raise ReplyError(unfit(holder, name, kinds))


def text_of(data: dict[str, Any], key: str) -> str:
    """A string that an event's data must have.

    Raises:
        ReplyError: there is none.
    """
    text: str = needed(data, key, STRING)
    return text


def job_ids_of(data: dict[str, Any]) -> list[str]:
    """The jobs to kill, at least one.

    Raises:
        WorkloadError, ReplyError: they are not ids, or there is none.
    """
    job_ids: list[str] = needed(data, "job_ids", ARRAY)
    if not job_ids:
        raise WorkloadError("'job_ids' is empty; name the jobs to kill")
    for job_id in job_ids:
        if type(job_id) is not str:
            raise WorkloadError(f"{job_id!r:.60} in 'job_ids' is not a job's id, a string")
    return job_ids


def unfit(holder: Any, name: str, kinds: tuple[type, ...]) -> str:
    """Why a JSON value has no member of this name and one of these types, in words."""
    found = "is not an object"
    if type(holder) is dict:
        found = f"has {holder[name]!r:.60}" if name in holder else "lacks it"
    return f"needs {name!r}, {JSON_TYPES[kinds]}, and {found}"


def _wrong_with(item: Any, last: float, now: float, type_field: str, data_field: str) -> str:
    """What makes this event of a reply unusable; `last` is the timestamp of the event before it."""
    try:
        date = needed(item, "timestamp", NUMBER)
        needed(item, type_field, STRING)
        needed(item, data_field, OBJECT)
    except ReplyError as error:
        return str(error)
    if date > now:
        return f"has the timestamp {date}, later than the reply's 'now' {now}"
    return f"has the timestamp {date}, before that of the previous event, {last}"


def refuse_port(endpoint: str) -> None:
    """Refuse a port that a TCP endpoint cannot have: ZeroMQ would silently use another.

    Raises:
        ValueError: the port, in words.
    """
    port = PORT.fullmatch(endpoint)
    if port and not 1 <= int(port[1]) <= HIGHEST_PORT:
        raise ValueError(f"{endpoint}: a port is a number from 1 to {HIGHEST_PORT}")


def shown_type(kind: str) -> str:
    """The type of an event, for one line of text."""
    return kind if kind.isidentifier() and len(kind) < 40 else f"{kind!r:.40}"


def shown_start(text: bytes) -> str:
    """The beginning of a message, on one line."""
    shown = repr(text[:100].decode(errors="replace"))
    return shown if len(text) <= 100 else f"{shown}..."
