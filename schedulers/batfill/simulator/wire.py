"""What the simulation needs of a version of Batsim's protocol, and the checks that all versions share.

`Wire` is the interface; `wire4` and `wire5` are its two versions. A wire writes what the simulation reports,
one function an event, and reads the events of a reply as `decisions`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import orjson

from batfill.base.errors import RunFailed, WorkloadError
from batfill.base.files import refuse_doubles
from batfill.model.jobs import LONGEST_S
from batfill.protocol import decisions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from batfill.batsim_files.external_events import ExternalEvent
    from batfill.batsim_files.platform import Platform
    from batfill.simulator.catalogue import Progress, SimulatedJob

# The types of a field, and how messages call them; true is not a number.
Fields = Mapping[str, tuple[type, ...]]
Profiles = dict[str, dict[str, dict[str, Any]]]  # their descriptions, by workload and name
NO_FIELDS: Fields = MappingProxyType({})
INTEGER, NUMBER, STRING, ARRAY, OBJECT, BOOLEAN = (int,), (int, float), (str,), (list,), (dict,), (bool,)
OPTIONAL_NUMBER = (int, float, type(None))
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


class Feature(NamedTuple):
    """A setting that Batsim 4 has on its command line, and Batsim 5 in the scheduler's hello."""

    setting: str  # of `SimulationSettings`
    hello: str
    option: str = ""  # "" for none


FEATURES = (
    Feature("dynamic_jobs", "dynamic_registration", "--enable-dynamic-jobs"),
    Feature("reuse_profiles", "profile_reuse", "--enable-profile-reuse"),
    Feature("acknowledge", "acknowledge_dynamic_jobs", "--acknowledge-dynamic-jobs"),
    Feature("forward_profiles", "forward_profiles_on_job_submission", "--forward-profiles-on-submission"),
    Feature("forward_profiles_first", "forward_profiles_on_simulation_begins"),
)


class SimulationStopped(RunFailed):
    """The simulation cannot continue; the message says when, what, and why."""


class ReplyError(Exception):
    """A reply is not a message of Batsim's protocol; the text says what is wrong, and where in the reply."""


class Asked(NamedTuple):
    """One event of a reply."""

    date: float
    type: str
    data: dict[str, Any]
    where: tuple[int, int]  # the number of the message that the reply answers, and the place in the reply's events


class Reply(NamedTuple):
    """The scheduler's reply: its events, and the date from which it accepts the next message."""

    now: float
    events: list[Asked]


class Form(NamedTuple):
    """A JSON object's members with their types, and what is made of them."""

    make: Callable[..., Any]  # takes the required members' values in their order, and the optional ones by name
    required: Fields = NO_FIELDS
    optional: Fields = NO_FIELDS

    def read(self, data: Any, where: str = "") -> Any:
        """What this object means; `where` begins the message if it does not have this form.

        Raises:
            ReplyError, WorkloadError: it does not, or its values cannot be.
        """
        check_fields(data, self.required, self.optional, where)
        others = {name: data[name] for name in self.optional if name in data}
        return self.make(*[data[name] for name in self.required], **others)


def read_one_of(forms: Mapping[str, Form], name: str, kind: str, data: Any, where: str) -> Any:
    """What an object means whose form is that of this kind; `name` is the member that has the kind."""
    if kind not in forms:
        raise ReplyError(f"has the {name} {kind!r:.60}; known: {', '.join(forms)}")
    return forms[kind].read(data, where)


class Wire(ABC):
    """A version of the protocol, as the simulation uses it. Dates are seconds."""

    type_field: ClassVar[str]  # an event's type
    data_field: ClassVar[str]  # what it is about
    end: ClassVar[bytes] = b""  # bytes that may follow a reply
    refuses_past: ClassVar[bool] = True  # a reply that is dated before its message; otherwise it counts now
    forms: ClassVar[Mapping[str, Form]]  # of each event of a reply, for its `Decision`
    unsupported: ClassVar[Mapping[str, str]]  # Batsim's other events, and why they are refused
    # The types and data of the events: all static jobs are submitted, all external events have happened, the end.
    no_more_jobs: ClassVar[tuple[bytes, bytes]]
    no_more_external_events: ClassVar[tuple[bytes, bytes]]
    simulation_ends: ClassVar[tuple[bytes, bytes]]
    notices_alone: ClassVar[bool]  # the end of the static submissions has its own message, unless all are at date 0
    begins_with_submissions: ClassVar[bool]  # if several files bring events, the first message has those of date 0, too
    profiles_until_last_job: ClassVar[bool]  # a profile stays until the last of its jobs has ended, not the first
    # In words: how registrations are enabled, how profiles are reused, what ends registrations.
    to_register: ClassVar[str]
    to_reuse: ClassVar[str]
    end_of_registration: ClassVar[str]

    @abstractmethod
    def message(self, now: float, events: Sequence[bytes]) -> bytes:
        """The message that carries these events."""

    @abstractmethod
    def event(self, date: float, kind: bytes, data: bytes = b"{}") -> bytes:
        """An event of this type; `data` is a JSON object."""

    @abstractmethod
    def simulation_begins(
        self, platform: Platform, settings: SimulationSettings, paths: dict[str, str], profiles: Profiles
    ) -> bytes:
        """The first event: machines, settings, and each workload's path and profiles."""

    @abstractmethod
    def job_submitted(self, date: float, job: SimulatedJob, *, with_profile: bool) -> bytes:
        """A job was submitted."""

    @abstractmethod
    def job_completed(self, date: float, job: SimulatedJob, return_code: int) -> bytes:
        """A job ended in its state."""

    @abstractmethod
    def jobs_killed(
        self, date: float, jobs: Sequence[SimulatedJob], progress: Sequence[tuple[SimulatedJob, Progress]]
    ) -> bytes:
        """The jobs of one request to kill, and the progress of those that ran."""

    @abstractmethod
    def requested_call(self, date: float, call_id: str, *, last: bool) -> bytes:
        """A requested call; `last`: of a periodic one that ends."""

    @abstractmethod
    def external_event(self, date: float, event: ExternalEvent) -> bytes:
        """An external event happened."""

    def read_reply(self, text: bytes, number: int, now: float) -> Reply:
        """The reply to the message of this number and date, checked for its form.

        Raises:
            ReplyError: it is not a message, or is dated before `now` where that is no date.
        """
        reply = read_message(text.rstrip(self.end), number, self.type_field, self.data_field)
        if reply.now < now - RESOLUTION_S and self.refuses_past:
            raise ReplyError(f"has the date {reply.now:.6f} as its 'now', which is in the past")
        return reply if self.refuses_past or reply.now >= now else reply._replace(now=now)

    def decided(self, kind: str, data: dict[str, Any]) -> decisions.Decision:
        """What an event of a reply decides.

        Raises:
            ReplyError, WorkloadError: it is none of Batsim's, or its data cannot be.
        """
        if kind not in self.forms:
            raise ReplyError(self.unsupported.get(kind, f"not known; known: {', '.join(self.forms)}"))
        decision: decisions.Decision = self.forms[kind].read(data)
        return decision


def read_message(text: bytes, number: int, type_field: str, data_field: str) -> Reply:
    """The scheduler's reply to the message of this number, checked for its form.

    Args:
        text: JSON.
        number: of the message that it answers.
        type_field: the name of an event's member with its type.
        data_field: the name of an event's member with its data.

    Raises:
        ReplyError: it is not a message.
    """
    try:
        reply = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ReplyError(f"is not JSON: {error}: {shown_start(text)}") from None
    check_fields(reply, {"now": NUMBER, "events": ARRAY})
    try:
        refuse_doubles(text, reply)
    except ValueError as error:
        raise ReplyError(f"{error}; send it once") from None
    now, events = reply["now"], reply["events"]
    if now < 0:
        raise ReplyError(f"has {now} as its 'now', which is not a date from 0 on")
    if now > LONGEST_S:
        raise ReplyError(f"has {now} as its 'now'; batfill's limit is {LONGEST_S:g} s, 30,000 years")
    members: Fields = {"timestamp": NUMBER, type_field: STRING, data_field: OBJECT}
    asked = []
    last = 0.0
    date: Any
    kind: Any
    data: Any
    for place, item in enumerate(events):
        fields: dict[str, Any] = item if type(item) is dict else {}
        date, kind, data = fields.get("timestamp"), fields.get(type_field), fields.get(data_field)
        sound = type(date) in NUMBER and last <= date <= now and type(kind) is str and type(data) is dict
        if not sound or len(fields) > len(members):
            where = f"has events[{place}]{f' ({shown_type(kind)})' if type(kind) is str else ''}, which "
            check_fields(item, members, where=where)
            since = f"that of the previous event, {last}," if place else "0"
            raise ReplyError(
                f"{where}has the timestamp {date}, which is not a date from {since} to the reply's 'now', {now}"
            )
        last = date
        asked.append(Asked(float(date), kind, data, (number, place)))
    return Reply(float(now), asked)


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
        ReplyError: it has.
    """
    for name, kinds in required.items():
        if type(data) is not dict or type(data.get(name)) not in kinds:
            raise ReplyError(where + unfit(data, name, kinds))
    if len(data) == len(required):
        return
    for name, value in data.items():
        if name in optional and type(value) not in optional[name]:
            raise ReplyError(where + unfit(data, name, optional[name]))
        if not others and name not in optional and name not in required:
            known = ", ".join([*required, *optional]) or "none"
            raise ReplyError(f"{where}has a member {name!r:.60}, which the protocol does not know; known: {known}")


def unfit(holder: Any, name: str, kinds: tuple[type, ...]) -> str:
    """Why a JSON value has no member of this name and one of these types, in words."""
    found = "is not an object"
    if type(holder) is dict:
        found = f"has {holder[name]!r:.60}" if name in holder else "lacks it"
    return f"needs {name!r}, {JSON_TYPES[kinds]}, and {found}"


def kill_of(job_ids: list[Any], *, refuse_repeats: bool = False) -> decisions.Kill:
    """The kill of these jobs, at least one.

    Raises:
        WorkloadError: they are not ids, or there is none.
    """
    if not job_ids:
        raise WorkloadError("'job_ids' is empty; name the jobs to kill")
    for job_id in job_ids:
        if type(job_id) is not str:
            raise WorkloadError(f"{job_id!r:.60} in 'job_ids' is not a job's id, a string")
    return decisions.Kill(job_ids, refuse_repeats)


def refuse_unused(job_id: str, unused: Iterable[str]) -> None:
    """Refuse members of a job's start that would change nothing here.

    Raises:
        WorkloadError: there is one.
    """
    for name in unused:
        raise WorkloadError(f"job {job_id!r:.60} has a {name}, which delay profiles do not use; leave it out")


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
