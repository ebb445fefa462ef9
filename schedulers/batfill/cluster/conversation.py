"""What the conversations with Batsim 4 and 5 share: JSON messages are checked, passed to an `Agent`, and answered.

`Conversation` is one simulation, bytes in and bytes out, without a network. `batsim4.py` and `batsim5.py` say how each
version words its events and the decisions; `loop.py` binds a socket. A message that Batsim cannot have sent ends the
run with one line that names the message and what is wrong with it.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from batfill.batsim.machines import INTERVALS
from batfill.batsim.protocol import ARRAY, INTEGER, NUMBER, STRING, shown_type, unfit
from batfill.batsim.results import KILLED
from batfill.cluster.agent import Agent, Registration, Request
from batfill.errors import BatfillError
from batfill.workloads.batsim_json import CLASSES, EXPECTED_FIELD, REQUEST_FIELD, user_of
from batfill.workloads.batsim_json import request_of as user_request_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from batfill.batsim.machines import Intervals

log = logging.getLogger("batfill")

# States of a job, worded for messages.
WAITS, RUNS, REGISTERED, ENDED, REJECTED = "waits", "runs", "is being registered", "has ended", "was rejected"

# The fields that each object of a message must have, with their types.
Fields = tuple[tuple[str, tuple[type, ...]], ...]
MESSAGE: Fields = (("now", NUMBER), ("events", ARRAY))
MACHINE: Fields = (("id", INTEGER),)
OF_USER: Fields = ((EXPECTED_FIELD, NUMBER), (REQUEST_FIELD, NUMBER))  # which batfill reads if they are there
RESOURCES: Fields = (("resources", STRING),)


def request_of(name: str, fields: Mapping[str, Any]) -> Request:
    """The request of a Batsim job; `fields` is its JSON object, with the fields that Batsim 4 gives it.

    Raises:
        KeyError: it has no subtime, res or profile.
    """
    walltime_s = fields.get("walltime", -1)
    walltime_s = walltime_s if walltime_s > 0 else math.inf
    expected_s = fields.get(EXPECTED_FIELD, -1)
    requested_s = user_request_of(fields)
    job_class = fields.get("class")
    return Request(
        name,
        fields["subtime"],
        walltime_s,
        fields["res"],
        fields["profile"],
        user_of(fields),  # type: ignore[arg-type] # which only reads it
        job_class if isinstance(job_class, str) and job_class in CLASSES else None,
        fields.get("killable") is not False,
        expected_s if 0 < expected_s < walltime_s else None,
        requested_s if requested_s > 0 else math.nan,
        fields.get("extra_data"),
    )


def date_meant(now: float) -> float:
    """The date rounded to microseconds: Batsim 5 writes 10.000000000802, with its inner messages' cost, for 10."""
    whole = round(now)
    return float(whole) if abs(now - whole) < 5e-7 else round(now, 6)  # which takes four times as long


def ignore(data: Any) -> None:
    """Handle an event that changes no decision."""


class Conversation(ABC):
    """One simulation: passes Batsim's messages to an agent and, as its `Host`, the agent's requests to Batsim."""

    version: ClassVar[str]
    greeted: bool = True  # False: the next message is a handshake
    exact_dates: ClassVar[bool] = True  # False: decisions see `date_meant` by Batsim
    suffix: ClassVar[bytes] = b""  # of a message, after its JSON
    type_field: ClassVar[str]  # the event's type
    data_field: ClassVar[str]  # what the event is about
    event_fields: ClassVar[Fields]
    begins: ClassVar[str]  # the type of the simulation's first event
    completed_fields: ClassVar[Fields]
    state_field: ClassVar[str]  # in which a job ended

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.messages = 0  # received
        # What is being checked, for errors: the place and type of an event, None and "" for the message as a whole, and
        # the part of it that is meant.
        self.place: int | None = None
        self.kind = self.subject = ""
        self.now = -math.inf  # as Batsim wrote it
        self.now_s = -math.inf  # as decisions see it
        self.begun = False
        self.ended = False
        self.last_machine = -1  # the highest id, storage included
        self.jobs: dict[str, str] = {}  # each one's state
        self.left = 0  # jobs that were neither started nor rejected
        self.events: list[dict[str, Any]] = []  # of the answer
        self.logs = log.isEnabledFor(logging.INFO)
        self.handlers = {
            self.begins: self.begin,
            **self.events_handled(),
            **dict.fromkeys(self.events_ignored(), ignore),
        }

    def answer(self, text: bytes) -> bytes:
        """The reply to a message.

        Raises:
            BatfillError: Batsim does not send such a message at this point, or the options need registrations that
                Batsim was started without.
        """
        self.messages += 1
        if not self.greeted:
            return self.greet(text)
        self.place, self.kind, self.subject = None, "", ""
        try:
            message = orjson.loads(text.removesuffix(self.suffix))
        except orjson.JSONDecodeError as error:
            raise self.unreadable(text, error) from None
        self.check(message, MESSAGE)
        now = message["now"]
        if now < self.now:
            raise self.wrong(f"goes back in time: the previous one was at {self.now:g}")
        self.now = now
        self.now_s = now if self.exact_dates else date_meant(now)
        self.events = []
        for place, event in enumerate(message["events"]):
            self.take(place, event)
        self.agent.decide(self.now_s)
        if self.logs:
            n_events = len(message["events"])
            log.info("message %d at %f: %d events, %d in the answer", self.messages, now, n_events, len(self.events))
        return orjson.dumps({"now": now, "events": self.events})

    # Events from Batsim

    def greet(self, frame: bytes) -> bytes:
        """The answer to a handshake."""
        raise NotImplementedError  # for a version that has none

    @abstractmethod
    def events_handled(self) -> dict[str, Callable[[Any], None]]:
        """What is done with the data of an event, by its type; for those but the first."""

    @abstractmethod
    def events_ignored(self) -> tuple[str, ...]:
        """The types of the events that change no decision."""

    @abstractmethod
    def begin(self, data: Any) -> None:
        """Check the simulation's first event, and call `begin_on`."""

    @abstractmethod
    def job_of(self, data: Any) -> dict[str, Any]:
        """The job of a checked submission, with the fields that Batsim 4 gives it."""

    @abstractmethod
    def check_submission(self, data: Any) -> str:
        """Check that a submission has its parts; returns the job's name."""

    def take(self, place: int, event: Any) -> None:
        """Check one event of the message and pass it to the agent."""
        self.place, self.subject = place, ""
        kind = self.kind = event.get(self.type_field, "") if type(event) is dict else ""
        handler = self.handlers.get(kind) if type(kind) is str else None
        if handler is None or type(event.get("timestamp")) not in NUMBER:
            self.check(event, self.event_fields)
        if not self.begun and kind != self.begins:
            raise self.wrong(f"comes before {self.begins}")
        if handler is None:
            raise self.wrong(f"is of a type that {self.version} does not send")
        handler(event.get(self.data_field, {}))

    def begin_on(self, compute: list[int], storage: list[int], registration: Registration) -> None:
        """Begin the simulation on the machines with these ids."""
        if len({*compute, *storage}) < len(compute) + len(storage):
            raise self.wrong("gives one id to two machines")
        self.last_machine = max(compute + storage, default=-1)
        self.agent.begin(compute, registration, self)

    def refuse_second(self) -> None:
        """Refuse a second first event."""
        if self.begun:
            raise self.wrong("is the second: two simulators may be connected; give each its own scheduler")
        self.begun = True

    def ids(self, data: dict[str, Any], name: str) -> list[int]:
        """The ids of the machines in this list of the first event; none if there is no such list."""
        self.subject = f"in {name} "
        for machine in data.get(name, ()):
            self.check(machine, MACHINE)
            if machine["id"] < 0:
                raise self.wrong(f"{self.subject}has the id {machine['id']}; ids begin at 0")
        return [machine["id"] for machine in data.get(name, ())]

    def submitted(self, data: Any) -> None:
        """A job was submitted."""
        name = self.check_submission(data)
        known = self.jobs.get(name)
        if known is not None and known != REGISTERED:
            raise self.wrong(f"names job {name!r:.60}, which was submitted before and {known}")
        self.subject = f"of {name!r:.60} "
        fields = self.job_of(data)
        if known is None:
            self.left += 1
        self.jobs[name] = WAITS
        self.agent.submitted(request_of(name, fields), self.now_s)

    def completed(self, data: Any) -> None:
        """A job has ended."""
        self.check(data, self.completed_fields)
        name = data["job_id"]
        known = self.jobs.get(name)
        if known != RUNS:
            raise self.wrong(f"names job {name!r:.60}, which {known or 'was never submitted'}, so it cannot end now")
        self.jobs[name] = ENDED
        self.agent.ended(name, self.now_s, killed=data[self.state_field] == KILLED)

    def called(self, data: Any) -> None:
        """A date of `call_at` has come."""
        self.agent.called(self.now_s)

    def no_more_jobs(self, data: Any) -> None:
        """All jobs of the workloads were submitted."""
        self.agent.no_more_jobs()

    def end(self, data: Any) -> None:
        """The simulation has ended."""
        self.ended = True
        self.agent.finish()

    def withdraw(self, data: Any) -> None:
        """The machines of `resources` become unavailable."""
        self.agent.cluster.withdraw(self.machines(data))

    def restore(self, data: Any) -> None:
        """The machines of `resources` become available."""
        self.agent.cluster.restore(self.machines(data))

    def machines(self, data: Any) -> Iterator[int]:
        """The ids of `resources`, as "0-3 7"."""
        self.check(data, RESOURCES)
        text = data["resources"]
        if not INTERVALS.fullmatch(text):
            raise self.wrong(f"has resources {text!r:.60}, which are not machine ids such as '0-3 7'")
        for part in text.split():
            low, _, high = part.partition("-")
            first, last = int(low), int(high or low)
            if not first <= last <= self.last_machine:
                raise self.wrong(f"has resources {text!r:.60}, but the machines' ids are 0-{self.last_machine}")
            yield from range(first, last + 1)

    def check(self, holder: Any, fields: Fields) -> None:
        """Refuse a JSON value that is not an object with these fields; true and false are not numbers."""
        if type(holder) is not dict:
            raise self.wrong(self.subject + unfit(holder, *fields[0]))
        for name, types in fields:
            if type(holder.get(name)) not in types:
                raise self.wrong(self.subject + unfit(holder, name, types))

    def check_given(self, holder: dict[str, Any], fields: Fields) -> None:
        """Refuse an object in which one of these fields has another type; each may be absent."""
        for name, types in fields:
            if name in holder and type(holder[name]) not in types:
                raise self.wrong(self.subject + unfit(holder, name, types))

    def unreadable(self, text: bytes, error: orjson.JSONDecodeError) -> BatfillError:
        """The error for a message that is not JSON."""
        return self.wrong(f"is not JSON: {error}: {text[:100].decode(errors='replace')!r}")

    def wrong(self, what: str) -> BatfillError:
        """The error for the current event, or for the message as a whole."""
        date = "" if self.now_s == -math.inf else f" at {self.now_s:.6f}"
        kind = f" ({shown_type(str(self.kind))})" if self.kind else ""
        event = "" if self.place is None else f" events[{self.place}]{kind}"
        where = f"message {self.messages} from Batsim{date}{event}"
        return BatfillError(f"{where} {what}; this is not {self.version}'s protocol")

    # Requests of the agent: `cluster.agent.Host`; each version words them

    def send(self, kind: str, data: dict[str, Any]) -> None:
        """Add an event to the answer."""
        self.events.append({"timestamp": self.now, self.type_field: kind, self.data_field: data})

    def leaves_queue(self, job: str, state: str) -> None:
        """Note that a job was started or rejected."""
        self.jobs[job] = state
        self.left -= 1

    def joins_queue(self, request: Request) -> None:
        """Note a job that the scheduler submits."""
        self.left += 1
        self.jobs[request.name] = REGISTERED if self.agent.registration.acknowledged else WAITS

    @abstractmethod
    def execute(self, job: str, machines: Intervals) -> None:
        """See `Host`."""

    @abstractmethod
    def reject(self, job: str) -> None:
        """See `Host`."""

    @abstractmethod
    def kill(self, job: str) -> None:
        """See `Host`."""

    @abstractmethod
    def call_at(self, date_s: float) -> None:
        """See `Host`."""

    @abstractmethod
    def register(self, request: Request) -> None:
        """See `Host`."""

    @abstractmethod
    def finish_registration(self) -> None:
        """See `Host`."""
