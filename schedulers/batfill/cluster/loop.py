"""Batsim 4's protocol for an `Agent`: checks JSON messages that arrive over ZeroMQ, and replies to them.

`Conversation` is one simulation, bytes in and bytes out, without a network; `serve` binds a socket for it. A message
that Batsim cannot have sent ends the run with one line that names the message and what is wrong with it.
"""

from __future__ import annotations

import logging
import math
import sys
from typing import TYPE_CHECKING, Any

import orjson

from batfill.batsim.machines import INTERVALS, as_text
from batfill.batsim.protocol import ARRAY, INTEGER, NUMBER, OBJECT, STRING, refuse_port, shown_type, unfit
from batfill.batsim.results import KILLED
from batfill.cluster.agent import Agent, Registration, Request
from batfill.errors import BatfillError, RunFailed
from batfill.workloads.batsim_json import CLASSES, EXPECTED_FIELD, REQUEST_FIELD, user_of
from batfill.workloads.batsim_json import request_of as user_request_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from batfill.batsim.machines import Intervals

log = logging.getLogger("batfill")

DEFAULT_ENDPOINT = "tcp://127.0.0.1:28000"  # where Batsim connects by default
AT_ONCE_MS = 250  # a simulator that connects in this time gets its first answer before the compiler is loaded
PATIENCE_S = 10  # wait for a simulator before printing where one should connect

# States of a job, worded for messages.
WAITS, RUNS, REGISTERED, ENDED, REJECTED = "waits", "runs", "is being registered", "has ended", "was rejected"
IGNORED = ("JOB_KILLED", "FROM_JOB_MSG", "RESOURCE_STATE_CHANGED", "ANSWER")  # they change no decision
NOTIFICATIONS = (
    "no_more_static_job_to_submit",
    "no_more_external_event_to_occur",
    "event_machine_unavailable",
    "event_machine_available",
)

# The fields that each object of a message must have, with their types.
Fields = tuple[tuple[str, tuple[type, ...]], ...]
MESSAGE: Fields = (("now", NUMBER), ("events", ARRAY))
EVENT: Fields = (("type", STRING), ("timestamp", NUMBER))
BEGINS: Fields = (("config", OBJECT), ("compute_resources", ARRAY))
STORAGE: Fields = (("storage_resources", ARRAY),)
MACHINE: Fields = (("id", INTEGER),)
SUBMITTED: Fields = (("job_id", STRING), ("job", OBJECT))
JOB: Fields = (("subtime", NUMBER), ("res", INTEGER), ("profile", STRING))
OPTIONAL: Fields = (("walltime", NUMBER), (EXPECTED_FIELD, NUMBER), (REQUEST_FIELD, NUMBER))
COMPLETED: Fields = (("job_id", STRING), ("job_state", STRING))
NOTIFY: Fields = (("type", STRING),)
RESOURCES: Fields = (("resources", STRING),)


def request_of(name: str, fields: Mapping[str, Any]) -> Request:
    """The request of a Batsim job; `fields` is its JSON object.

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
    )


class Conversation:
    """One simulation: passes Batsim's messages to an agent and, as its `Host`, the agent's requests to Batsim."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.messages = 0  # received
        # What is being checked, for errors: the place and type of an event, None and "" for the message as a whole, and
        # the part of it that is meant.
        self.place: int | None = None
        self.kind = self.subject = ""
        self.now_s = -math.inf
        self.begun = False
        self.ended = False
        self.last_machine = -1  # the highest id, storage included
        self.jobs: dict[str, str] = {}  # each one's state
        self.left = 0  # jobs that were neither started nor rejected
        self.forwards_unknown = False
        self.events: list[dict[str, Any]] = []  # of the answer
        self.logs = log.isEnabledFor(logging.INFO)

    def answer(self, text: bytes) -> bytes:
        """The reply to a message.

        Raises:
            BatfillError: Batsim does not send such a message at this point, or the options need registrations that
                Batsim was started without.
        """
        self.messages += 1
        self.place, self.kind, self.subject = None, "", ""
        try:
            message = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise self.wrong(f"is not JSON: {error}: {text[:100].decode(errors='replace')!r}") from None
        self.check(message, MESSAGE)
        now_s = message["now"]
        if now_s < self.now_s:
            raise self.wrong(f"goes back in time: the previous one was at {self.now_s:g}")
        self.now_s = now_s
        self.events = []
        for place, event in enumerate(message["events"]):
            self.take(place, event)
        self.agent.decide(now_s)
        if self.logs:
            n_events = len(message["events"])
            log.info("message %d at %f: %d events, %d in the answer", self.messages, now_s, n_events, len(self.events))
        return orjson.dumps({"now": now_s, "events": self.events})

    # Events from Batsim

    def take(self, place: int, event: Any) -> None:
        """Check one event of the message and pass it to the agent."""
        self.place, self.subject = place, ""
        kind = self.kind = event.get("type", "") if type(event) is dict else ""
        self.check(event, EVENT)
        data = event.get("data", {})
        if not self.begun and kind != "SIMULATION_BEGINS":
            raise self.wrong("comes before SIMULATION_BEGINS")
        if kind == "JOB_SUBMITTED":
            self.submitted(data)
        elif kind == "JOB_COMPLETED":
            self.completed(data)
        elif kind == "REQUESTED_CALL":
            self.agent.called(self.now_s)
        elif kind == "NOTIFY":
            self.notified(data)
        elif kind == "SIMULATION_BEGINS":
            self.begin(data)
        elif kind == "SIMULATION_ENDS":
            self.ended = True
            self.agent.finish()
        elif kind in ("ADD_RESOURCES", "REMOVE_RESOURCES"):
            change = self.agent.cluster.restore if kind == "ADD_RESOURCES" else self.agent.cluster.withdraw
            change(self.machines(data))
        elif kind not in IGNORED:
            raise self.wrong("is of a type that Batsim 4 does not send")

    def begin(self, data: Any) -> None:
        """SIMULATION_BEGINS."""
        if self.begun:
            raise self.wrong("is the second: two simulators may be connected; give each its own scheduler")
        self.begun = True
        self.check(data, BEGINS)
        config = data["config"]
        if config.get("redis-enabled"):
            raise self.wrong("requires redis, which batfill does not use; start Batsim without --enable-redis")
        self.forwards_unknown = bool(config.get("forward-unknown-events"))
        registration = Registration(
            bool(config.get("dynamic-jobs-enabled")),
            bool(config.get("profile-reuse-enabled")),
            bool(config.get("dynamic-jobs-acknowledged")),
        )
        if "storage_resources" in data:
            self.check(data, STORAGE)
        compute = self.ids(data, "compute_resources")
        storage = self.ids(data, "storage_resources")
        if len({*compute, *storage}) < len(compute) + len(storage):
            raise self.wrong("gives one id to two machines")
        self.last_machine = max(compute + storage, default=-1)
        self.agent.begin(compute, registration, self)

    def ids(self, data: dict[str, Any], name: str) -> list[int]:
        """The ids of the machines in this list of SIMULATION_BEGINS; none if there is no such list."""
        self.subject = f"in {name} "
        for machine in data.get(name, ()):
            self.check(machine, MACHINE)
            if machine["id"] < 0:
                raise self.wrong(f"{self.subject}has the id {machine['id']}; ids begin at 0")
        return [machine["id"] for machine in data.get(name, ())]

    def submitted(self, data: Any) -> None:
        """JOB_SUBMITTED."""
        self.check(data, SUBMITTED)
        name, fields = data["job_id"], data["job"]
        known = self.jobs.get(name)
        if known is not None and known != REGISTERED:
            raise self.wrong(f"names job {name!r:.60}, which was submitted before and {known}")
        self.subject = f"of {name!r:.60} "
        self.check(fields, JOB)
        self.check(fields, tuple(field for field in OPTIONAL if field[0] in fields))
        if known is None:
            self.left += 1
        self.jobs[name] = WAITS
        self.agent.submitted(request_of(name, fields), self.now_s)

    def completed(self, data: Any) -> None:
        """JOB_COMPLETED."""
        self.check(data, COMPLETED)
        name = data["job_id"]
        known = self.jobs.get(name)
        if known != RUNS:
            raise self.wrong(f"names job {name!r:.60}, which {known or 'was never submitted'}, so it cannot end now")
        self.jobs[name] = ENDED
        self.agent.ended(name, self.now_s, killed=data["job_state"] == KILLED)

    def notified(self, data: Any) -> None:
        """NOTIFY."""
        self.check(data, NOTIFY)
        kind = data["type"]
        if kind == "no_more_static_job_to_submit":
            self.agent.no_more_jobs()
        elif kind == "event_machine_unavailable":
            self.agent.cluster.withdraw(self.machines(data))
        elif kind == "event_machine_available":
            self.agent.cluster.restore(self.machines(data))
        elif kind not in NOTIFICATIONS and not self.forwards_unknown:
            raise self.wrong(f"is of type {kind!r:.60}; Batsim 4 sends {', '.join(NOTIFICATIONS)}")

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
        is_object = type(holder) is dict
        for name, types in fields:
            if not is_object or type(holder.get(name)) not in types:
                raise self.wrong(self.subject + unfit(holder, name, types))

    def wrong(self, what: str) -> BatfillError:
        """The error for the current event, or for the message as a whole."""
        date = "" if self.now_s == -math.inf else f" at {self.now_s:.6f}"
        kind = f" ({shown_type(str(self.kind))})" if self.kind else ""
        event = "" if self.place is None else f" events[{self.place}]{kind}"
        return BatfillError(f"message {self.messages} from Batsim{date}{event} {what}; this is not Batsim 4's protocol")

    # Requests of the agent: `cluster.agent.Host`

    def send(self, kind: str, data: dict[str, Any]) -> None:
        """Add an event to the answer."""
        self.events.append({"timestamp": self.now_s, "type": kind, "data": data})

    def execute(self, job: str, machines: Intervals) -> None:
        """See `Host`."""
        self.jobs[job] = RUNS
        self.left -= 1
        self.send("EXECUTE_JOB", {"job_id": job, "alloc": as_text(machines)})

    def reject(self, job: str) -> None:
        """See `Host`."""
        self.jobs[job] = REJECTED
        self.left -= 1
        self.send("REJECT_JOB", {"job_id": job})

    def kill(self, job: str) -> None:
        """See `Host`."""
        self.send("KILL_JOB", {"job_ids": [job]})

    def call_at(self, date_s: float) -> None:
        """See `Host`."""
        self.send("CALL_ME_LATER", {"timestamp": date_s})

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
        self.send("REGISTER_JOB", {"job_id": request.name, "job": job})

    def finish_registration(self) -> None:
        """See `Host`."""
        self.send("NOTIFY", {"type": "registration_finished"})


def serve(options: Mapping[str, Any], endpoint: str = DEFAULT_ENDPOINT, timeout_ms: int = 0) -> None:
    """Schedule for one simulator that connects to `endpoint`, until its simulation ends.

    Args:
        options: as `Agent`'s.
        endpoint: a ZeroMQ address to bind, as tcp://127.0.0.1:28000; tcp://*:28000 listens on every interface.
        timeout_ms: how long to wait for the simulator's next message once it has sent one; 0 for ever.

    Raises:
        BatfillError: an option, the endpoint or a message cannot be used.
        RunFailed: the simulator timed out, or jobs were neither started nor rejected.
    """
    import zmq

    try:
        refuse_port(endpoint)
    except ValueError as error:
        raise BatfillError(f"socket {error}; give another with --socket") from None
    agent = Agent(options)
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.setsockopt(zmq.LINGER, 1000)
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise BatfillError(
                f"socket {endpoint}: {error}; give another with --socket, as tcp://127.0.0.1:28001, or free this one"
            ) from None
        print(f"batfill: listening on {endpoint}", file=sys.stderr, flush=True)
        conversation = Conversation(agent)
        is_there = bool(socket.poll(AT_ONCE_MS))
        if not is_there:
            warm_up(agent)
        if not socket.poll(PATIENCE_S * 1000):
            print(
                f"batfill: no simulator has connected to {endpoint} yet; Batsim connects to tcp://localhost:28000 "
                "unless its --socket-endpoint says otherwise; --socket tcp://*:28000 accepts one from another machine",
                file=sys.stderr,
                flush=True,
            )
        message = socket.recv()
        socket.send(conversation.answer(message))
        if is_there:
            warm_up(agent)
        socket.setsockopt(zmq.RCVTIMEO, timeout_ms or -1)
        while not conversation.ended:
            try:
                message = socket.recv()
            except zmq.Again:
                raise RunFailed(f"Batsim has not sent a message for {timeout_ms} ms") from None
            socket.send(conversation.answer(message))
    if conversation.left:
        raise RunFailed(f"{conversation.left} of {len(conversation.jobs)} jobs were neither started nor rejected")


def warm_up(agent: Agent) -> None:
    """Load or compile the pass before the simulator waits for it."""
    from batfill.cluster import Cluster
    from batfill.engine.easy import decide, start_waiting
    from batfill.engine.jit import announce_compilation

    announce_compilation(start_waiting if agent.by_machines else decide)
    cluster = Cluster(range(2), agent.chosen, by_machines=agent.by_machines)
    if agent.by_machines:  # this pass is compiled where a job starts
        cluster.submit("", 0.0, 1.0, 1)
    cluster.decide(0.0)
