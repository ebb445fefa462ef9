"""A conversation with Batsim 4 or 5: messages in, an `Agent`'s decisions out.

A `Conversation` is one simulation, bytes in and bytes out, without a network; `serve.py` binds a socket. Batsim is
trusted: a message is checked for its form, which `protocol/` describes, for the ids of machines, and for jobs that the
agent does not know, which it could not take. What is refused ends the run with one line.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import msgspec

from batfill.base.errors import BatfillError
from batfill.base.version import __version__
from batfill.batsim_files.machines import machine_set
from batfill.live.agent import ACKNOWLEDGE, object_in, with_options
from batfill.live.request import Registration, job_request
from batfill.model.states import KILLED
from batfill.protocol.batsim4 import BATSIM_4, JOB, RESOURCES, SUBMITTED
from batfill.protocol.batsim5 import BATSIM_5, JSON_FLAG, LENGTH, PROTOCOL_VERSION, handshake_text
from batfill.protocol.decisions import CallAt, Decision
from batfill.workloads.batsim_json import NO_WALLTIME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from batfill.live.agent import Agent
    from batfill.live.request import Request
    from batfill.protocol.forms import Version

log = logging.getLogger("batfill")

GAVE_UP = "SCHEDULER_GAVE_UP"  # an event's type that Batsim does not know, and ends at
FLAGS = LENGTH.pack(JSON_FLAG)  # before Batsim 5's hello
TWO_SIMULATORS = "two simulators may be connected; give each its own scheduler"


class Conversation:
    """One simulation: passes Batsim's messages to an agent, and the agent's decisions to Batsim."""

    version: ClassVar[Version]

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.messages = 0  # received
        self.event: Any = None  # that is passed on
        self.now = 0.0  # the last message's, as Batsim wrote it
        self.now_s = 0.0  # as decisions see it
        self.begun = False
        self.ended = False
        self.n_machines = 0  # storage included
        self.knows_all_external = True  # whether each external event has to be one that batfill knows, or has been
        self.queries: list[Request] = []  # the jobs of the message whose waiting times are asked for
        self.events: list[dict[str, Any]] = []  # of the answer

    # Events from Batsim

    def answer(self, text: bytes) -> bytes:
        """The reply to a message."""
        self.messages += 1
        self.event = None
        if text[:1] != b"{" and handshake_text(text) is not None:
            self.refuse(f"is a second handshake: {TWO_SIMULATORS}")
        try:
            message = self.version.reader.decode(text.removesuffix(self.version.suffix))
            now, events = message.now, message.events
            if now < self.now:
                self.refuse(f"is of {now:.15g}, before the last one's date")
            self.now = now
            self.now_s = now if self.version.exact_dates else date_meant(now)
            self.events, self.queries = [], []
            for event in events:
                self.event = event
                if (event.means == "begin") is self.begun or self.ended:
                    self.refuse(f"is out of place: a simulation begins once, then ends once; {TWO_SIMULATORS}")
                getattr(self, event.means)(event.data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.refuse(f"is not of {self.version.name}'s protocol: {error}")
        if len(self.queries) < len(events):  # a message of queries alone brings no decision
            self.agent.decide(self.now_s)
        for query in self.queries:
            self.agent.answer(query, self.now_s)
        log.info("message %d at %f: %d events, %d in the answer", self.messages, now, len(events), len(self.events))
        return msgspec.json.encode({"now": now, "events": self.events})

    def refuse(self, why: str) -> NoReturn:
        """Refuse the current event, or the message as a whole."""
        event = "" if self.event is None else f" at {self.now:.15g} ({type(self.event).__name__})"
        raise BatfillError(f"message {self.messages} from Batsim{event} {why}")

    def begin_on(self, compute: list[Any], storage: list[Any], registration: Registration) -> None:
        compute_ids = [machine.id for machine in compute]
        self.n_machines = len(compute) + len(storage)
        if sorted([*compute_ids, *(machine.id for machine in storage)]) != list(range(self.n_machines)):
            self.refuse(f"lists {self.n_machines} machines whose ids are not 0-{self.n_machines - 1}")
        self.begun = True
        self.agent.begin(compute_ids, registration, self.say)

    def submitted(self, data: Any, extra: str | None = None) -> None:
        """A job was submitted, with the fields of Batsim 4; `extra` is further data of Batsim 5's."""
        agent, name, job = self.agent, data.job_id, data.job
        msgspec.convert(job, JOB)
        if -1 != job.get("walltime", -1) <= 0:
            self.refuse(f"has the walltime {job['walltime']:.15g} of job {name}; it is positive, or -1 for none")
        if name in agent.requests and name not in agent.registered:
            self.refuse(f"submits job {name!r:.60} again, which waits or runs")
        agent.submitted(name, job, self.now_s, extra)

    def completed(self, data: Any) -> None:
        if data.job_id not in self.agent.ledger.rows:
            self.refuse(f"names job {data.job_id!r:.60}, which does not run")
        self.agent.ended(data.job_id, self.now_s, killed=data.state == KILLED)

    def called(self, _: Any) -> None:
        self.agent.called(self.now_s)

    def no_more_jobs(self, _: Any) -> None:
        self.agent.no_more_jobs()

    def nothing(self, _: Any) -> None:
        """Something that changes no decision; a killed job is also reported as completed."""

    def end(self, _: Any) -> None:
        self.ended = True
        self.agent.finish()

    def withdraw(self, data: Any) -> None:
        self.agent.cluster.withdraw(self.machines(data.resources))

    def restore(self, data: Any) -> None:
        self.agent.cluster.restore(self.machines(data.resources))

    def machines(self, text: str) -> list[int]:
        try:
            ids: list[int] = machine_set(text, self.n_machines).ids().tolist()
        except ValueError as error:
            self.refuse(f"is not of {self.version.name}'s protocol: {error}")
        return ids

    def last_answer(self) -> bytes:
        """An answer that ends Batsim, which would wait for another message's for ever: it aborts, and names the event.

        The end of the simulation is answered as usual, so that Batsim writes its results.
        """
        event = {"timestamp": self.now, self.version.type_field: GAVE_UP, self.version.data_field: {}}
        return msgspec.json.encode({"now": self.now, "events": [] if self.ended else [event]})

    def say(self, decision: Decision) -> None:
        """Add a decision of the agent's to the answer."""
        version = self.version
        kind, data_of = version.said[type(decision)]
        data = decision if data_of is None else data_of(decision)
        self.events.append({"timestamp": self.now, version.type_field: kind, version.data_field: data})


class Conversation4(Conversation):
    """One simulation of Batsim 4."""

    version = BATSIM_4

    def begin(self, data: Any) -> None:
        config = data.config
        if config.redis_enabled:
            self.refuse("requires redis, which batfill does not use; start Batsim without --enable-redis")
        self.knows_all_external = not config.forward_unknown_events
        acknowledged = config.dynamic_jobs_acknowledged
        self.agent, acknowledge = with_options(self.agent, config.sched_config, "Batsim's --sched-cfg")
        if acknowledge not in (None, acknowledged):
            raise BatfillError(
                f"Batsim's --sched-cfg has {ACKNOWLEDGE!r}: {str(acknowledge).lower()}; under Batsim 4 its option "
                "--acknowledge-dynamic-jobs decides that"
            )
        workflows = workflows_of(data.profiles)
        registration = Registration(config.dynamic_jobs_enabled, config.profile_reuse_enabled, acknowledged, workflows)
        self.begin_on(data.compute_resources, data.storage_resources, registration)

    def asked(self, data: Any) -> None:
        query = data.requests.estimate_waiting_time
        job = {**query.job, "subtime": self.now_s, "profile": ""}
        msgspec.convert(job, JOB)
        self.queries.append(job_request(query.job_id, job, self.agent.odd_fields))

    def notified(self, data: Any) -> None:
        if data.type == "no_more_static_job_to_submit":
            self.agent.no_more_jobs()
        elif data.type == "event_machine_unavailable":
            self.withdraw(data)
        elif data.type == "event_machine_available":
            self.restore(data)
        elif data.type != "no_more_external_event_to_occur" and self.knows_all_external:
            self.refuse(f"is of type {data.type!r:.60}, which batfill does not know")


class Conversation5(Conversation):
    """One simulation of Batsim 5, in JSON; its first message is a handshake."""

    version = BATSIM_5

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self.features: dict[str, bool] = {}  # what the simulation has to offer beyond its defaults
        self.calls = 0  # requested so far

    def answer(self, text: bytes) -> bytes:
        """See `Conversation`; the first message is answered with a hello.

        The features are those that the options need; the initialisation text may add options, and acknowledgements.
        """
        if self.messages:
            return super().answer(text)
        self.messages = 1
        said = handshake_text(text)
        if said is None:
            self.refuse(f"is {text[:100]!r} instead of a length of four bytes and a text of that length")
        self.agent, acknowledge = with_options(self.agent, said, "Batsim's initialisation text")
        if self.agent.kills:
            self.features = {"dynamic_registration": True, "profile_reuse": True}
            self.features |= {ACKNOWLEDGE: True} if acknowledge else {}
        log.info("Batsim 5 says %r at its start; features requested: %s", said, ", ".join(self.features) or "none")
        hello = {
            "batprotocol_version": PROTOCOL_VERSION,
            "decision_component_name": "batfill",
            "decision_component_version": __version__,
            "decision_component_commit": "",
            "requested_simulation_features": self.features,
        }
        event = {"timestamp": 0.0, "event_type": "EDCHelloEvent", "event": hello}
        return FLAGS + msgspec.json.encode({"now": 0.0, "events": [event]})

    def say(self, decision: Decision) -> None:
        super().say(decision)
        if isinstance(decision, CallAt):
            self.calls += 1
            self.events[-1]["event"]["call_me_later_id"] = f"divider {self.calls}"

    def last_answer(self) -> bytes:
        return (FLAGS if self.messages <= 1 else b"") + super().last_answer()

    def begin(self, data: Any) -> None:
        allowed = bool(self.features)
        registration = Registration(allowed, allowed, ACKNOWLEDGE in self.features)
        self.begin_on(data.computation_hosts, data.storage_hosts, registration)

    def submitted(self, data: Any, _: str | None = None) -> None:
        """JobSubmittedEvent; the user's fields are in `extra_data`, a text that may be anything."""
        job, text = data.job, data.job.extra_data
        fields = (object_in(text) or {}) if text else {}
        fields["subtime"] = data.submission_time
        fields["res"] = job.resource_request
        fields["profile"] = job.profile_id
        fields["walltime"] = NO_WALLTIME if job.walltime is None else job.walltime
        super().submitted(SUBMITTED(job_id=data.job_id, job=fields), text)

    def occurred(self, data: Any) -> None:
        """ExternalEventOccurredEvent: machines leave or return, if its text says so in JSON."""
        event = object_in(data.external_event.data) or {}
        if event.get("type") == "machine_unavailable":
            self.withdraw(msgspec.convert(event, RESOURCES))
        elif event.get("type") == "machine_available":
            self.restore(msgspec.convert(event, RESOURCES))
        elif self.knows_all_external:
            self.knows_all_external = False
            log.warning(
                "an external event at %f is neither machine_unavailable nor machine_available: ignored, as further "
                "such events",
                self.now_s,
            )


def date_meant(now: float) -> float:
    """The date rounded to microseconds: Batsim 5 writes 10.000000000802, with its inner messages' cost, for 10."""
    whole = round(now)
    return float(whole) if abs(now - whole) < 5e-7 else round(now, 6)  # which takes four times as long


def workflows_of(profiles: Mapping[str, Any]) -> tuple[str, ...]:
    """The workflows among the workloads: their jobs and profiles come as they are made, so that none is announced."""
    return tuple(name for name in profiles if not profiles[name])
