"""A conversation with Batsim 4 or 5: JSON messages are checked, passed to an `Agent`, and answered.

`Conversation` is one simulation, bytes in and bytes out, without a network. `words4.py` and `words5.py` have each
version's `Words` for events and decisions; `serve.py` binds a socket. A message that Batsim cannot have sent ends the
run with one line that names the message and what is wrong with it: each event has its form, is dated, and agrees with
what was sent, received and requested before. Members that batfill does not read may be added to an event's data.

A good event passes one condition; only an event that fails it is examined, for the line that says what is wrong.
"""

from __future__ import annotations

import logging
import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import orjson

from batfill.base.errors import BatfillError
from batfill.batsim_files.machines import intervals_text, machine_set
from batfill.live.request import Registration, Request
from batfill.model.jobs import LONGEST_S
from batfill.model.schedule import FAILED, KILLED, SUCCESS, WALLTIME_REACHED
from batfill.protocol.decisions import CallAt, Decision, Execute, Kill, Register, Registering, Reject
from batfill.simulator.wire import (
    ARRAY,
    INTEGER,
    NO_FIELDS,
    NUMBER,
    OBJECT,
    RESOLUTION_S,
    STRING,
    Fields,
    ReplyError,
    check_fields,
    shown_start,
    shown_type,
)
from batfill.workloads.batsim5_json import EXTRA_FIELD
from batfill.workloads.batsim_json import EXPECTED_FIELD, odd_fields, usable, user_of, user_request_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from batfill.batsim_files.machines import Intervals
    from batfill.live.agent import Agent

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

# The members that each object of a message must have, with their types.
MESSAGE: Fields = {"now": NUMBER, "events": ARRAY}
MACHINE: Fields = {"id": INTEGER}
KILLED_JOBS: Fields = {"job_ids": ARRAY}
RESOURCES: Fields = {"resources": STRING}

LENGTH = struct.Struct("=I")  # of the initialisation text; the flags of the answer have the same form
JSON_MESSAGES = LENGTH.pack(2)  # the flags


class RunningJob(NamedTuple):
    """A running job, as Batsim must report its end."""

    machines: str
    limit_s: float  # the date at which its walltime ends it


def shown_date(date: float) -> str:
    """A date with every digit that it has."""
    return str(date).removesuffix(".0")


def job_request(name: str, fields: Mapping[str, Any], odd: set[str]) -> Request:
    """The request of a Batsim job.

    Args:
        name: its id.
        fields: its JSON object, with the fields that Batsim 4 gives it.
        odd: fields of the user's that were unusable in a job; a warning names the first of each.

    Raises:
        KeyError: it has no subtime, res or profile.
    """
    for field, what in odd_fields(fields):
        if field not in odd:
            odd.add(field)
            log.warning("job %s: %s; further such jobs are not named", name, what)
    fields = usable(fields) if odd else fields
    walltime_s = fields.get("walltime", -1)
    walltime_s = walltime_s if walltime_s > 0 else math.inf
    request_s = fields.get(EXPECTED_FIELD, -1)
    user_request_s = user_request_of(fields)
    return Request(
        name,
        fields["subtime"],
        request_s if 0 < request_s < walltime_s else walltime_s,
        walltime_s,
        fields["res"],
        fields["profile"],
        user_of(fields),
        fields.get("class"),
        fields.get("killable") is not False,
        user_request_s if user_request_s > 0 else math.nan,
        fields.get("extra_data"),
    )


def date_meant(now: float) -> float:
    """The date rounded to microseconds: Batsim 5 writes 10.000000000802, with its inner messages' cost, for 10."""
    whole = round(now)
    return float(whole) if abs(now - whole) < 5e-7 else round(now, 6)  # which takes four times as long


def initialisation_text(frame: bytes) -> str | None:
    """The text of a Batsim 5's first frame, the handshake; None if the frame is something else."""
    if len(frame) < LENGTH.size or LENGTH.unpack_from(frame)[0] != len(frame) - LENGTH.size:
        return None
    return frame[LENGTH.size :].decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Words:
    """A version of the protocol, as a scheduler hears and says it."""

    version: str
    type_field: str  # the event's type
    data_field: str  # what the event is about
    state_field: str  # in which a job ended
    begins: str  # the type of the simulation's first event
    begin: Callable[[Conversation, Any], None]  # checks its data, and calls `begin_on`
    handled: Mapping[str, Callable[[Conversation, Any], None]]  # what is done with the data of the others, by type
    # The job of a submission, checked for its form, with the fields that Batsim 4 gives it.
    job_of: Callable[[Conversation, Any], dict[str, Any]]
    call_of: Callable[[Conversation, Any], float | None]  # a call's date, checked and forgotten; None if not requested
    note_call: Callable[[Conversation, str, float], None]  # the id and the date of one that is requested
    said: Mapping[type[Decision], tuple[str, Callable[[Any], dict[str, Any]]]]  # the type and data of an answer's event
    acknowledged_fields: tuple[str, ...]  # the fields of a `Request` that a registration's echo repeats
    greet: Callable[[Conversation, bytes], bytes] | None = None  # the answer to a handshake, if there is one
    exact_dates: bool = True  # False: decisions see `date_meant` by Batsim
    suffix: bytes = b""  # of a message, after its JSON
    belated: tuple[str, ...] = ()  # the types of events that have the timestamp of the event before them


class Conversation:
    """One simulation: passes Batsim's messages to an agent and, as its `Host`, the agent's requests to Batsim."""

    def __init__(self, words: Words, agent: Agent) -> None:
        self.words = words
        self.agent = agent
        self.greeted = words.greet is None  # False: the next message is a handshake
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
        self.features: dict[str, bool] = {}  # what the simulation has to offer beyond Batsim 5's defaults
        self.profiles: dict[str, Any] = {}  # by workload; those of Batsim 5 are not known in advance:
        self.good_profiles: set[str] = set()  # of jobs that were good
        self.knows_all_external = True  # whether each external event has to be one that batfill knows, or has been
        self.jobs: dict[str, str] = {}  # each one's state
        self.left = 0  # jobs that were neither started nor rejected
        self.runs: dict[str, RunningJob] = {}  # the jobs that run
        # The jobs whose kill was requested and is not yet acknowledged: whether it was reported while the job ran.
        self.kills: dict[str, bool] = {}
        self.called_for = 0  # calls requested so far
        self.calls: dict[str, float] = {}  # the dates for which calls were requested, by their ids, if events have ids
        self.dates: list[float] = []  # otherwise: a heap of these dates
        self.over: dict[str, str] = {}  # what cannot occur again, and the event that said so
        self.events: list[dict[str, Any]] = []  # of the answer
        self.logs = log.isEnabledFor(logging.INFO)
        self.handlers = {words.begins: words.begin, **words.handled}

    def answer(self, text: bytes) -> bytes:
        """The reply to a message.

        Raises:
            BatfillError: Batsim does not send such a message at this point, or the options need registrations that
                Batsim was started without.
        """
        self.messages += 1
        if not self.greeted:
            assert self.words.greet
            return self.words.greet(self, text)
        self.place, self.kind, self.subject, self.date = None, "", "", None
        try:
            message = orjson.loads(text.removesuffix(self.words.suffix))
        except orjson.JSONDecodeError as error:
            if initialisation_text(text) is not None:
                why = "is a second handshake: two simulators may be connected; give each its own scheduler"
            else:
                why = f"is not JSON: {error}: {shown_start(text)}"
            raise self.wrong(why) from None
        if type(message) is not dict or len(message) != len(MESSAGE) or type(message.get("now")) not in NUMBER:
            self.check(message, MESSAGE, others=False)
        now, events = message["now"], message.get("events")
        self.date = now
        if type(events) is not list or not events or not self.now <= now <= LONGEST_S:
            self.refuse_message(message)
        self.earliest, self.now = self.now, now
        self.now_s = now if self.words.exact_dates else date_meant(now)
        self.events = []
        for place, event in enumerate(events):
            self.take(place, event)
        self.agent.decide(self.now_s)
        if self.logs:
            log.info("message %d at %f: %d events, %d in the answer", self.messages, now, len(events), len(self.events))
        return orjson.dumps({"now": now, "events": self.events})

    # Events from Batsim

    def take(self, place: int, event: Any) -> None:
        """Check one event of the message and pass it to the agent."""
        self.place, self.subject, words = place, "", self.words
        fields: dict[str, Any] = event if type(event) is dict else {}
        kind, date, data = fields.get(words.type_field), fields.get("timestamp"), fields.get(words.data_field)
        handler = self.handlers.get(kind) if type(kind) is str else None
        self.kind = kind if type(kind) is str else ""
        if type(date) not in NUMBER or type(data) is not dict or handler is None or len(fields) != 3:
            self.check(event, {words.type_field: STRING, "timestamp": NUMBER, words.data_field: OBJECT}, others=False)
        if self.begun is not (kind != words.begins) or self.ended:
            self.refuse_order()
        if handler is None:
            raise self.wrong(f"is of a type that {self.words.version} does not send to batfill")
        if not self.earliest <= date <= self.now:  # type: ignore[operator] # the form was checked
            self.check_belated(date)  # type: ignore[arg-type] # the same
        else:
            self.earliest = date  # type: ignore[assignment]
        self.stamp = date  # type: ignore[assignment]
        handler(self, data)

    def refuse_message(self, message: dict[str, Any]) -> NoReturn:
        """Refuse a message whose events or date cannot be."""
        self.check(message, MESSAGE, others=False)
        now = message["now"]
        if now < self.now:
            before = f"the previous one was at {shown_date(self.now)}" if self.begun else "a simulation begins at 0"
            raise self.wrong(f"goes back in time: {before}")
        if now > LONGEST_S:
            raise self.unable(f"is later than {LONGEST_S:g} s, 30,000 years, batfill's limit; give jobs earlier dates")
        raise self.wrong(f"has no events{'' if self.begun else f', instead of {self.words.begins}'}")

    def refuse_order(self) -> NoReturn:
        """Refuse an event that comes before the first, after the last, or is a second first one."""
        if self.ended:
            raise self.wrong("comes after the simulation's end, which is the last event")
        if self.begun:
            raise self.wrong("is the second: two simulators may be connected; give each its own scheduler")
        raise self.wrong(f"comes before {self.words.begins}")

    def check_belated(self, date: float) -> None:
        """Refuse a timestamp outside the time since the last event, or the last message."""
        if self.kind in self.words.belated and self.stamp <= date <= self.now:
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
        self.agent.begin(compute, registration, self)

    def ids(self, data: dict[str, Any], name: str) -> list[int]:
        """The ids of the machines in this list of the first event; none if there is no such list."""
        self.subject = f"in {name} "
        for machine in data.get(name, ()):
            self.check(machine, MACHINE)
            state = machine.get("state", "idle")
            if str(state).lower() != "idle":
                raise self.wrong(f"in {name} has machine {machine['id']} in the state {state!r:.60} instead of idle")
        return [machine["id"] for machine in data.get(name, ())]

    def submitted(self, data: Any) -> None:
        """A job was submitted."""
        name = data.get("job_id")
        self.subject = f"of {name!r:.60} "
        fields = self.words.job_of(self, data)
        request = job_request(name, fields, self.agent.odd_fields)
        known = self.jobs.get(name)
        if known is None:
            self.left += 1
            late_s = self.stamp - request.submit_s
            if late_s > EARLY_S and not self.jobs:
                self.late_s = math.inf
            if request.submit_s < 0 or late_s >= self.late_s or self.is_early(request.submit_s):
                raise self.wrong(f"{self.subject}has the submission date {shown_date(request.submit_s)}")
            if self.over:
                self.not_after(JOBS)
        else:
            self.check_registered(request, known)
        walltime = fields.get("walltime", -1)
        if request.procs < 0:
            raise self.wrong(f"{self.subject}requests {request.procs} machines; 0 is the least")
        if walltime <= 0 and walltime != -1:
            raise self.wrong(f"{self.subject}has the walltime {walltime}; it is positive, or -1 for none")
        self.jobs[name] = WAITS
        self.agent.submitted(request, self.now_s)

    def check_registered(self, request: Request, known: str) -> None:
        """Refuse a job that was submitted before, unless this acknowledges its registration as it was sent."""
        if known != REGISTERED:
            raise self.wrong(f"names job {request.name!r:.60}, which was submitted before and {known}")
        sent = self.agent.requests[request.name]
        for what in self.words.acknowledged_fields:
            found, expected = getattr(request, what), getattr(sent, what)
            if found != expected:
                word = what.removesuffix("_s")
                raise self.wrong(f"{self.subject}has {word} {found!r:.60}, but was registered with {expected!r:.60}")

    def completed(self, data: Any) -> None:
        """A job has ended."""
        name, state, code = data.get("job_id"), data.get(self.words.state_field), data.get("return_code")
        run = self.runs.pop(name, None) if type(name) is str else None
        if (
            run is None
            or state != SUCCESS
            or type(code) is not int
            or code
            or data.get("alloc", run.machines) != run.machines
        ):
            self.check_end(data, run)
        self.jobs[name] = ENDED
        if self.kills.get(name):
            del self.kills[name]
        self.agent.ended(name, self.now_s, killed=state == KILLED)

    def check_end(self, data: dict[str, Any], run: RunningJob | None) -> None:
        """Refuse the end of a job that Batsim cannot have reported; a job need not have ended successfully."""
        self.check(data, {"job_id": STRING, self.words.state_field: STRING, "return_code": INTEGER})
        name, state, code = data["job_id"], data[self.words.state_field], data["return_code"]
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
            raise self.wrong(f"{self.subject}has the state {state} before {self.limit(run)}")
        if data.get("alloc", run.machines) != run.machines:
            raise self.wrong(f"{self.subject}ran on {data['alloc']!r:.60}, but was started on {run.machines!r:.60}")

    @staticmethod
    def limit(run: RunningJob) -> str:
        """The date of a job's walltime, in words."""
        return f"its walltime at {shown_date(run.limit_s)}" if run.limit_s < math.inf else "any walltime: it has none"

    def jobs_killed(self, data: Any) -> None:
        """Kills were done, or the jobs had ended before.

        The end of a killed delay always comes first. A job that computes reports its end itself, over the network, so
        that this may come before.
        """
        self.check(data, KILLED_JOBS)
        for name in data["job_ids"] or [None]:
            if type(name) is not str or self.kills.get(name, True):
                raise self.wrong(f"names job {name!r:.60}, whose kill was not requested, or was reported before")
            if name in self.runs:
                self.kills[name] = True
            else:
                del self.kills[name]

    def called(self, data: Any) -> None:
        """A date of `call_at` has come."""
        asked_s = self.words.call_of(self, data)
        if asked_s is None or self.stamp - asked_s >= self.late_s or self.is_early(asked_s):
            requested = "that date" if asked_s is None else shown_date(asked_s)
            raise self.wrong(f"comes at {shown_date(self.stamp)}, but no call was requested for {requested}")
        self.agent.called(self.now_s)

    def unrequested(self, data: Any) -> None:
        """Something was done that only a scheduler can request."""
        raise self.wrong("answers a request that batfill does not make")

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
        self.check(data, RESOURCES)
        try:
            return set(machine_set(data["resources"], self.n_machines).ids().tolist())
        except ValueError as error:
            raise self.wrong(f"has wrong resources: {error}") from None

    def check(self, holder: Any, fields: Fields, optional: Fields = NO_FIELDS, *, others: bool = True) -> None:
        """Refuse a JSON value that is not an object with these members, as `check_fields`."""
        try:
            check_fields(holder, fields, optional, self.subject, others=others)
        except ReplyError as error:
            raise self.wrong(str(error)) from None

    def is_early(self, due_s: float) -> bool:
        """Whether the current event comes before this date, by more than dates are rounded."""
        return self.stamp < due_s - EARLY_S and self.stamp + 4 * math.ulp(self.stamp) < due_s

    def wrong(self, what: str) -> BatfillError:
        """The error for the current event, or for the message as a whole."""
        return self.unable(f"{what}; this is not {self.words.version}'s protocol")

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
        words, flags = self.words, JSON_MESSAGES if self.words.greet and self.messages <= 1 else b""
        event = {"timestamp": self.now, words.type_field: GAVE_UP, words.data_field: {}}
        return flags + orjson.dumps({"now": self.now, "events": [] if self.ended else [event]})

    # Requests of the agent: `request.Host`

    def say(self, decision: Decision) -> None:
        """Add a decision to the answer."""
        kind, data_of = self.words.said[type(decision)]
        fields = {"timestamp": self.now, self.words.type_field: kind, self.words.data_field: data_of(decision)}
        self.events.append(fields)

    def execute(self, job: str, machines: Intervals) -> None:
        """See `Host`."""
        self.jobs[job] = RUNS
        self.left -= 1
        text = intervals_text(machines)
        self.runs[job] = RunningJob(text, self.now + self.agent.requests[job].walltime_s)
        self.say(Execute(job, text))

    def reject(self, job: str) -> None:
        """See `Host`."""
        self.jobs[job] = REJECTED
        self.left -= 1
        self.say(Reject(job))

    def kill(self, job: str) -> None:
        """See `Host`."""
        self.kills[job] = False
        self.say(Kill([job]))

    def call_at(self, date_s: float) -> None:
        """See `Host`."""
        self.called_for += 1
        call = CallAt(date_s, f"divider {self.called_for}")
        self.words.note_call(self, call.id, date_s)
        self.say(call)

    def register(self, request: Request) -> None:
        """See `Host`."""
        self.left += 1
        self.jobs[request.name] = REGISTERED if self.agent.registration.acknowledged else WAITS
        job = {
            "profile": request.profile,
            "id": request.name,
            "res": request.procs,
            "walltime": request.walltime_field,
            "subtime": request.submit_s,
        }
        self.say(Register(request.name, job | ({EXTRA_FIELD: request.extra} if request.extra else {})))

    def finish_registration(self) -> None:
        """See `Host`."""
        self.say(Registering(False))
