"""A conversation with Batsim 4 or 5: JSON messages are checked, passed to an `Agent`, and answered.

`Conversation` is one simulation, bytes in and bytes out, without a network. `conversation4.py` and `conversation5.py`
have what differs between the versions beyond the form of messages, which `protocol/` describes; `serve.py` binds a
socket. A message that Batsim cannot have sent ends the run with one line that names the message and what is wrong with
it: each event has its form, is dated, and agrees with what was sent, received and requested before. Members that
batfill does not read may be added to an event's data.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

import orjson

from batfill.base.errors import BatfillError
from batfill.batsim_files.machines import machine_set
from batfill.live.request import job_request
from batfill.model.jobs import LONGEST_S
from batfill.model.schedule import FAILED, KILLED, SUCCESS, WALLTIME_REACHED
from batfill.protocol.batsim5 import handshake_text
from batfill.protocol.decisions import CallAt, Decision, Execute, Kill, Register, Reject
from batfill.protocol.forms import (
    INTEGER,
    MESSAGE,
    NUMBER,
    RESOLUTION_S,
    STRING,
    Fields,
    FormError,
    Version,
    check_fields,
    parsed,
    shown_type,
)

if TYPE_CHECKING:
    from batfill.live.agent import Agent
    from batfill.live.request import Registration, Request

log = logging.getLogger("batfill")

# States of a job, worded for messages.
WAITS, RUNS, REGISTERED, ENDED, REJECTED = "waits", "runs", "is being registered", "has ended", "was rejected"

# What may be announced to be over.
JOBS, EXTERNAL_EVENTS = "jobs of the workloads", "external events"

EARLY_S = 10 * RESOLUTION_S  # an event may be dated so much earlier than it is due, since dates are rounded
# Batsim's inner messages take time on a platform with latencies, which no message states, and queue for each other: if
# the first job is late, events may be late by any time, and else by this.
LATE_S = 0.5
GAVE_UP = "SCHEDULER_GAVE_UP"  # an event's type that Batsim does not know

# The return code of each state in which a job ends. A job that did not end by itself has -1, or -2 if it was killed and
# computes: which negative number it is decides nothing.
CODES = {SUCCESS: "0", WALLTIME_REACHED: "negative", KILLED: "negative", FAILED: "not 0"}

MACHINE: Fields = {"id": INTEGER}
RESOURCES: Fields = {"resources": STRING}


class RunningJob(NamedTuple):
    """A running job, as Batsim must report its end."""

    machines: str
    limit_s: float  # the date at which its walltime ends it


def shown_date(date: float) -> str:
    """A date with every digit that it has."""
    return str(date).removesuffix(".0")


def date_meant(now: float) -> float:
    """The date rounded to microseconds: Batsim 5 writes 10.000000000802, with its inner messages' cost, for 10."""
    whole = round(now)
    return float(whole) if abs(now - whole) < 5e-7 else round(now, 6)  # which takes four times as long


class Conversation(ABC):
    """One simulation: passes Batsim's messages to an agent, and the agent's decisions to Batsim."""

    version: ClassVar[Version]
    acknowledged_fields: ClassVar[tuple[str, ...]]  # the fields of a `Request` that a registration's echo repeats

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.messages = 0  # received
        # What is being checked, for errors: the place and type of an event, None and "" for the message as a whole, and
        # the part of it that is meant.
        self.place: int | None = None
        self.kind = self.subject = ""
        self.date: float | None = None  # of the message that is being checked
        self.now = 0.0  # the last good message's, as Batsim wrote it
        self.now_s = -math.inf  # as decisions see it
        self.stamp = 0.0  # the event's timestamp, or the last one's
        self.earliest = 0.0  # the least that the next event may have
        self.late_s = LATE_S  # by how much a submission or a call may be late
        self.begun = False
        self.ended = False
        self.n_machines = 0  # storage included
        self.away: set[int] = set()  # machines that are unavailable
        self.profiles: dict[str, Any] = {}  # by workload; those of Batsim 5 are not known in advance
        self.knows_all_external = True  # whether each external event has to be one that batfill knows, or has been
        self.jobs: dict[str, str] = {}  # each one's state
        self.left = 0  # jobs that were neither started nor rejected
        self.runs: dict[str, RunningJob] = {}  # the jobs that run
        # The jobs whose kill was requested and is not yet acknowledged: whether it was reported while the job ran.
        self.kills: dict[str, bool] = {}
        self.called_for = 0  # calls requested so far
        self.over: dict[str, str] = {}  # what cannot occur again, and the event that said so
        self.queries: list[Request] = []  # the jobs of the message whose waiting times are asked for
        self.events: list[dict[str, Any]] = []  # of the answer
        self.logs = log.isEnabledFor(logging.INFO)

    # What differs between the versions

    @abstractmethod
    def begin(self, data: Any) -> None:
        """The simulation begins; calls `begin_on`."""

    @abstractmethod
    def fields_of(self, data: Any) -> dict[str, Any]:
        """The job of a submission, checked for its form, with the fields that Batsim 4 gives it."""

    @abstractmethod
    def call_of(self, data: Any) -> float | None:
        """A call's date, which is forgotten; None if none was requested."""

    @abstractmethod
    def note_call(self, call: CallAt) -> None:
        """Remember a call that is requested."""

    # Events from Batsim

    def answer(self, text: bytes) -> bytes:
        """The reply to a message.

        Raises:
            BatfillError: Batsim does not send such a message at this point, or the options need registrations that
                Batsim was started without.
        """
        self.messages += 1
        self.place, self.kind, self.subject, self.date = None, "", "", None
        try:
            message = parsed(text.removesuffix(self.version.suffix))
            members: dict[str, Any] = message if type(message) is dict else {}
            now: Any = members.get("now")
            events: Any = members.get("events")
            self.date = now if type(now) in NUMBER else None
            if self.date is None or type(events) is not list or len(members) != len(MESSAGE):
                check_fields(message, MESSAGE)
            if not events or not self.now <= now <= LONGEST_S:
                self.refuse_message(now)
            self.earliest, self.now = self.now, now
            self.now_s = now if self.version.exact_dates else date_meant(now)
            self.events, self.queries = [], []
            for place, event in enumerate(events):
                self.take(place, event)
        except FormError as error:
            if handshake_text(text) is not None:
                raise self.wrong(
                    "is a second handshake: two simulators may be connected; give each its own scheduler"
                ) from None
            raise self.wrong(f"{self.subject}{error}") from None
        if len(self.queries) < len(events):  # a message of queries alone brings no decision
            self.agent.decide(self.now_s)
        for query in self.queries:
            self.agent.answer(query, self.now_s)
        if self.logs:
            log.info("message %d at %f: %d events, %d in the answer", self.messages, now, len(events), len(self.events))
        return orjson.dumps({"now": now, "events": self.events})

    def take(self, place: int, event: Any) -> None:
        """Check one event of the message and pass it to the agent."""
        version = self.version
        fields: dict[str, Any] = event if type(event) is dict else {}
        named: Any = fields.get(version.type_field)
        date: Any = fields.get("timestamp")
        data: Any = fields.get(version.data_field)
        kind = named if type(named) is str else ""
        self.place, self.subject, self.kind = place, "", kind
        # One condition for what every good event has: a call of `check_fields` takes as long as the rest of this.
        if type(date) not in NUMBER or not kind or type(data) is not dict or len(fields) != len(version.event):
            check_fields(event, version.event)
        report = version.reports.get(kind)
        if self.begun is not (report is None or report.means != "begin") or self.ended:
            self.refuse_order()
        if report is None:
            raise self.wrong(f"is of a type that {version.name} does not send to batfill")
        if not self.earliest <= date <= self.now:
            self.check_belated(date)
        else:
            self.earliest = date
        self.stamp = date
        check_fields(data, report.required, report.optional, others=True)
        if report.means:
            getattr(self, report.means)(data)

    def refuse_message(self, now: float) -> NoReturn:
        """Refuse a message of this date without events, or that cannot have the date."""
        if now < self.now:
            before = f"the previous one was at {shown_date(self.now)}" if self.begun else "a simulation begins at 0"
            raise self.wrong(f"goes back in time: {before}")
        if now > LONGEST_S:
            raise self.unable(f"is later than {LONGEST_S:g} s, 30,000 years, batfill's limit; give jobs earlier dates")
        first = self.version.type_of["begin"].decode()
        raise self.wrong(f"has no events{'' if self.begun else f', instead of {first}'}")

    def refuse_order(self) -> NoReturn:
        """Refuse an event that comes before the first, after the last, or is a second first one."""
        if self.ended:
            raise self.wrong("comes after the simulation's end, which is the last event")
        if self.begun:
            raise self.wrong("is the second: two simulators may be connected; give each its own scheduler")
        raise self.wrong(f"comes before {self.version.type_of['begin'].decode()}")

    def check_belated(self, date: float) -> None:
        """Refuse a timestamp outside the time since the last event, or the last message."""
        if self.kind in self.version.belated and self.stamp <= date <= self.now:
            return
        if date > self.now:
            raise self.wrong(f"has the timestamp {shown_date(date)}, after its message's date")
        raise self.wrong(
            f"has the timestamp {shown_date(date)}; the earliest that it can have is {shown_date(self.earliest)}"
        )

    def once(self, what: str) -> None:
        """Refuse an event that says for the second time that no more of these will occur."""
        self.not_after(what)
        self.over[what] = self.kind

    def not_after(self, what: str) -> None:
        """Refuse an event that comes after the one that announces no more of its kind."""
        if what in self.over:
            raise self.wrong(f"{self.subject}comes after {self.over[what]}, which says that there are no more {what}")

    def begin_on(
        self, compute: list[int], storage: list[int], counts: tuple[Any, Any, Any], registration: Registration
    ) -> None:
        """Begin the simulation on the machines with these ids, whose numbers (all, compute, storage) were given."""
        self.subject = ""
        if self.stamp > EARLY_S:
            raise self.wrong("begins the simulation, which begins at 0")
        n = len(compute) + len(storage)
        if counts != (n, len(compute), len(storage)):
            raise self.wrong(
                "counts {} machines, {} to compute and {} for storage, but lists {}, {} and {}".format(
                    *counts, n, len(compute), len(storage)
                )
            )
        seen: set[int] = set()
        for machine in compute + storage:
            if not 0 <= machine < n:
                raise self.wrong(f"has a machine with the id {machine}; the ids of {n} machines are 0-{n - 1}")
            if machine in seen:
                raise self.wrong(f"gives one id to two machines, {machine}")
            seen.add(machine)
        self.n_machines = n
        self.begun = True
        self.agent.begin(compute, registration, self.say)

    def ids(self, data: dict[str, Any], name: str) -> list[int]:
        """The ids of the machines in this list of the first event; none if there is no such list."""
        self.subject = f"in {name} "
        for machine in data.get(name, ()):
            check_fields(machine, MACHINE, others=True)
            state = machine.get("state", "idle")
            if str(state).lower() != "idle":
                raise self.wrong(f"in {name} has machine {machine['id']} in the state {state!r:.60} instead of idle")
        return [machine["id"] for machine in data.get(name, ())]

    def submitted(self, data: Any) -> None:
        """A job was submitted."""
        name = data["job_id"]
        self.subject = f"of {name!r:.60} "
        fields = self.fields_of(data)
        request = job_request(name, fields, self.agent.odd_fields)
        known = self.jobs.get(name)
        if known is None:
            self.left += 1
            self.agent.note_fields(fields)
            late_s = self.stamp - request.submit_s
            if late_s > EARLY_S and not self.jobs:
                self.late_s = math.inf
            if (
                request.submit_s < 0
                or late_s >= self.late_s
                or (request.submit_s > self.stamp and self.is_early(request.submit_s))
            ):
                raise self.wrong(f"{self.subject}has the submission date {shown_date(request.submit_s)}")
            if self.over:
                self.not_after(JOBS)
        else:
            self.check_registered(request, known)
        self.check_request(request.procs, fields.get("walltime", -1))
        self.jobs[name] = WAITS
        self.agent.submitted(request, self.now_s)

    def check_request(self, procs: int, walltime: float) -> None:
        """Refuse a job with fewer machines or a shorter walltime than there can be."""
        if procs < 0:
            raise self.wrong(f"{self.subject}requests {procs} machines; 0 is the least")
        if walltime <= 0 and walltime != -1:
            raise self.wrong(f"{self.subject}has the walltime {walltime}; it is positive, or -1 for none")

    def check_registered(self, request: Request, known: str) -> None:
        """Refuse a job that was submitted before, unless this acknowledges its registration as it was sent."""
        if known != REGISTERED:
            raise self.wrong(f"names job {request.name!r:.60}, which was submitted before and {known}")
        sent = self.agent.requests[request.name]
        for what in self.acknowledged_fields:
            found, expected = getattr(request, what), getattr(sent, what)
            if found != expected:
                word = what.removesuffix("_s")
                raise self.wrong(f"{self.subject}has {word} {found!r:.60}, but was registered with {expected!r:.60}")

    def completed(self, data: Any) -> None:
        """A job has ended."""
        name, state = data["job_id"], data[self.version.state_field]
        run = self.runs.pop(name, None)
        if run is None or state != SUCCESS or data["return_code"] or data.get("alloc", run.machines) != run.machines:
            self.check_end(data, run)
        self.jobs[name] = ENDED
        if self.kills.get(name):
            del self.kills[name]
        self.agent.ended(name, self.now_s, killed=state == KILLED)

    def check_end(self, data: dict[str, Any], run: RunningJob | None) -> None:
        """Refuse the end of a job that Batsim cannot have reported; a job need not have ended successfully."""
        name, state, code = data["job_id"], data[self.version.state_field], data["return_code"]
        if run is None:
            known = self.jobs.get(name, "was never submitted")
            raise self.wrong(f"names job {name!r:.60}, which {known}, so it cannot end now")
        self.subject = f"of {name!r:.60} "
        if state not in CODES:
            raise self.wrong(f"{self.subject}has the state {state!r:.60}; a job's are {', '.join(CODES)}")
        code = code - 2**32 if 2**31 <= code < 2**32 else code  # Batsim 5's are unsigned
        if not {"0": code == 0, "negative": code < 0, "not 0": code != 0}[CODES[state]]:
            raise self.wrong(f"{self.subject}has the return code {code} in the state {state}; it is {CODES[state]}")
        if state == KILLED and name not in self.kills:
            raise self.wrong(f"{self.subject}has the state {KILLED}, but no kill was requested")
        if state == WALLTIME_REACHED and self.is_early(run.limit_s):
            limit = (
                f"its walltime at {shown_date(run.limit_s)}" if run.limit_s < math.inf else "any walltime: it has none"
            )
            raise self.wrong(f"{self.subject}has the state {state} before {limit}")
        if data.get("alloc", run.machines) != run.machines:
            raise self.wrong(f"{self.subject}ran on {data['alloc']!r:.60}, but was started on {run.machines!r:.60}")

    def jobs_killed(self, data: Any) -> None:
        """Kills were done, or the jobs had ended before.

        The end of a killed delay always comes first. A job that computes reports its end itself, over the network, so
        that this may come before.
        """
        for name in data["job_ids"] or [None]:
            if type(name) is not str or self.kills.get(name, True):
                raise self.wrong(f"names job {name!r:.60}, whose kill was not requested, or was reported before")
            if name in self.runs:
                self.kills[name] = True
            else:
                del self.kills[name]

    def called(self, data: Any) -> None:
        """A date has come for which a call was requested."""
        asked_s = self.call_of(data)
        if asked_s is None or self.stamp - asked_s >= self.late_s or self.is_early(asked_s):
            requested = "that date" if asked_s is None else shown_date(asked_s)
            raise self.wrong(f"comes at {shown_date(self.stamp)}, but no call was requested for {requested}")
        self.agent.called(self.now_s)

    def unrequested(self, data: Any) -> None:
        """Something was done that only a scheduler can request."""
        raise self.wrong("answers a request that batfill does not make")

    answered = unrequested

    def no_more_jobs(self, data: Any) -> None:
        """All jobs of the workloads were submitted."""
        self.once(JOBS)
        self.agent.no_more_jobs()

    def no_more_external_events(self, data: Any) -> None:
        """All external events have happened."""
        self.once(EXTERNAL_EVENTS)

    def end(self, data: Any) -> None:
        """The simulation has ended."""
        if self.left or self.runs:
            name, state = next((name, state) for name, state in self.jobs.items() if state in (WAITS, REGISTERED, RUNS))
            raise self.wrong(f"ends the simulation while job {name!r:.60} {state}")
        self.ended = True
        self.agent.finish()

    def withdraw(self, data: Any) -> None:
        """The machines of `resources` become unavailable."""
        machines = self.machines(data)
        if again := machines & self.away:
            raise self.wrong(f"withdraws machine {min(again)}, which is unavailable already")
        self.away |= machines
        self.agent.cluster.withdraw(machines)

    def restore(self, data: Any) -> None:
        """The machines of `resources` become available."""
        machines = self.machines(data)
        if there := machines - self.away:
            raise self.wrong(f"restores machine {min(there)}, which is available already")
        self.away -= machines
        self.agent.cluster.restore(machines)

    def machines(self, data: Any) -> set[int]:
        """The ids of `resources`, as "0-3 7"."""
        check_fields(data, RESOURCES, others=True)
        try:
            return set(machine_set(data["resources"], self.n_machines).ids().tolist())
        except ValueError as error:
            raise self.wrong(f"has wrong resources: {error}") from None

    def is_early(self, due_s: float) -> bool:
        """Whether the current event comes before this date, by more than dates are rounded."""
        return self.stamp < due_s - EARLY_S and self.stamp + 4 * math.ulp(self.stamp) < due_s

    def wrong(self, what: str) -> BatfillError:
        """The error for the current event, or for the message as a whole."""
        return self.unable(f"{what}; this is not {self.version.name}'s protocol")

    def unable(self, what: str) -> BatfillError:
        """The same where Batsim does nothing wrong, and batfill cannot go on."""
        date = "" if self.date is None else f" at {shown_date(self.date)}"
        kind = f" ({shown_type(str(self.kind))})" if self.kind else ""
        event = "" if self.place is None else f" events[{self.place}]{kind}"
        where = f"message {self.messages} from Batsim{date}{event}"
        return BatfillError(f"{where} {what}")

    def last_answer(self) -> bytes:
        """An answer that ends Batsim, which would wait for another message's for ever: it aborts, and names the event.

        The end of the simulation is answered as usual, so that Batsim writes its results.
        """
        event = {"timestamp": self.now, self.version.type_field: GAVE_UP, self.version.data_field: {}}
        return orjson.dumps({"now": self.now, "events": [] if self.ended else [event]})

    # Decisions of the agent

    def say(self, decision: Decision) -> None:
        """Add a decision to the answer, and note what follows from it."""
        if isinstance(decision, Execute):
            self.jobs[decision.job] = RUNS
            self.left -= 1
            limit_s = self.now + self.agent.requests[decision.job].walltime_s
            self.runs[decision.job] = RunningJob(decision.machines, limit_s)
        elif isinstance(decision, Reject):
            self.jobs[decision.job] = REJECTED
            self.left -= 1
        elif isinstance(decision, Kill):
            self.kills |= dict.fromkeys(decision.jobs, False)
        elif isinstance(decision, CallAt):
            self.called_for += 1
            decision = decision._replace(id=f"divider {self.called_for}")
            self.note_call(decision)
        elif isinstance(decision, Register):
            self.left += 1
            self.jobs[decision.job] = REGISTERED if self.agent.registration.acknowledged else WAITS
        kind, data_of = self.version.said[type(decision)]
        type_field, data_field = self.version.type_field, self.version.data_field
        self.events.append({"timestamp": self.now, type_field: kind, data_field: data_of(decision)})
