"""A conversation with Batsim 5, in JSON."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import orjson

from batfill.base.version import __version__
from batfill.live.agent import ACKNOWLEDGE, object_in, with_options
from batfill.live.conversation import EXTERNAL_EVENTS, Conversation
from batfill.live.request import Registration
from batfill.protocol.batsim5 import (
    BATSIM_5,
    JOB,
    JSON_FLAG,
    LENGTH,
    PROTOCOL_VERSION,
    SUBMITTED_JOB,
    handshake_text,
    milliseconds_from,
)
from batfill.protocol.forms import OBJECT, STRING, check_fields
from batfill.workloads.batsim5_json import EXTRA_FIELD
from batfill.workloads.batsim_json import NO_WALLTIME

if TYPE_CHECKING:
    from batfill.live.agent import Agent
    from batfill.protocol.decisions import CallAt

log = logging.getLogger("batfill")

FLAGS = LENGTH.pack(JSON_FLAG)  # before the hello


class Conversation5(Conversation):
    """One simulation of Batsim 5, whose first message is a handshake."""

    version = BATSIM_5
    acknowledged_fields = ("walltime_s", "procs", "profile", "extra")

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self.features: dict[str, bool] = {}  # what the simulation has to offer beyond its defaults
        self.good_profiles: set[str] = set()  # of jobs that were good
        self.calls: dict[str, float] = {}  # the dates for which calls were requested, by their ids

    def answer(self, text: bytes) -> bytes:
        """See `Conversation`; the first message is answered with a hello.

        The features are those that the options need; the initialisation text may add options, and acknowledgements.

        Raises:
            BatfillError: as `Conversation`'s; or the first frame is no handshake, or its text is a JSON object with
                something else in it.
        """
        if self.messages:
            return super().answer(text)
        self.messages = 1
        said = handshake_text(text)
        if said is None:
            raise self.wrong(f"is {text[:100]!r} instead of a length of four bytes and a text of that length")
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
        return FLAGS + orjson.dumps({"now": 0.0, "events": [event]})

    def last_answer(self) -> bytes:
        """See `Conversation`."""
        return (FLAGS if self.messages <= 1 else b"") + super().last_answer()

    def begin(self, data: Any) -> None:
        """SimulationBeginsEvent."""
        self.subject = "in workloads "
        for workload in data["workloads"]:
            check_fields(workload, {"name": STRING}, others=True)
            if workload["name"] in self.profiles:
                raise self.wrong(f"{self.subject}has {workload['name']!r:.60} twice")
            self.profiles[workload["name"]] = {}
        offers = self.features.get
        registration = Registration(
            offers("dynamic_registration", False), offers("profile_reuse", False), offers(ACKNOWLEDGE, False)
        )
        counts = data["host_number"], data["computation_host_number"], data["storage_host_number"]
        self.begin_on(self.ids(data, "computation_hosts"), self.ids(data, "storage_hosts"), counts, registration)

    def fields_of(self, data: Any) -> dict[str, Any]:
        """JobSubmittedEvent; the user's fields are in `extra_data`, a text that may be anything."""
        name, job = data["job_id"], data["job"]
        procs, profile, walltime = job.get("resource_request"), job.get("profile_id"), job.get("walltime")
        text = job.get(EXTRA_FIELD)
        if type(procs) is not int or type(profile) is not str or type(walltime) is not float or text is not None:
            check_fields(job, JOB, SUBMITTED_JOB, others=True)
        if profile not in self.good_profiles:
            self.check_workload("profile", profile)
            self.good_profiles.add(profile)
        if name.partition("!")[0] not in self.profiles:
            self.check_workload("id", name)
        fields = (object_in(text) or {}) if text else {}
        fields["subtime"] = data["submission_time"]
        fields["res"] = procs
        fields["profile"] = profile
        fields["walltime"] = NO_WALLTIME if walltime is None else walltime
        fields[EXTRA_FIELD] = text
        return fields

    def check_workload(self, what: str, name: str) -> None:
        """Refuse the name of a job or profile that is not one of the workloads'."""
        workload, _, rest = name.partition("!")
        if workload not in self.profiles or not rest:
            known = ", ".join(sorted(self.profiles))
            raise self.wrong(f"{self.subject}has the {what} {name!r:.60}, which is of none of the workloads {known}")

    def call_of(self, data: Any) -> float | None:
        """RequestedCallEvent."""
        return self.calls.pop(data["call_me_later_id"], None)

    def note_call(self, call: CallAt) -> None:
        """CallMeLaterEvent; Batsim calls at whole milliseconds."""
        date_s = call.date_s
        self.calls[call.id] = date_s if date_s == int(date_s) else milliseconds_from(date_s) / 1000

    def occurred(self, data: Any) -> None:
        """ExternalEventOccurredEvent: machines leave or return, if its text says so in JSON."""
        self.not_after(EXTERNAL_EVENTS)
        event = {}
        if data["external_event_type"] == "GenericExternalEvent":
            check_fields(data, {"external_event": OBJECT}, others=True)
            check_fields(data["external_event"], {"data": STRING}, others=True)
            event = object_in(data["external_event"]["data"]) or {}
        kind = event.get("type")
        if kind == "machine_unavailable":
            self.withdraw(event)
        elif kind == "machine_available":
            self.restore(event)
        elif self.knows_all_external:
            self.knows_all_external = False
            log.warning(
                "an external event at %f is neither machine_unavailable nor machine_available: ignored, as further "
                "such events",
                self.now_s,
            )
