"""Batsim 5's side of a conversation, in JSON: the handshake, its events' names and fields, and its form of decisions.

Read from 5.0.0-rc2. Fields that nothing but its newest form has are read if they are there, and never sent.
"""

from __future__ import annotations

import logging
import math
import struct
from typing import TYPE_CHECKING, Any

import orjson

from batfill.batsim.protocol import ARRAY, INTEGER, NUMBER, OBJECT, STRING
from batfill.cluster.agent import ACKNOWLEDGE, Registration, object_in, state_options, with_options
from batfill.cluster.conversation import EXTERNAL_EVENTS, OF_USER, Conversation
from batfill.errors import BatfillError
from batfill.options import REQUESTED
from batfill.version import __version__
from batfill.workloads.batsim_json import EXPECTED_FIELD, REQUEST_FIELD

if TYPE_CHECKING:
    from collections.abc import Callable

    from batfill.batsim.machines import Intervals
    from batfill.cluster.agent import Agent, Request
    from batfill.cluster.conversation import Fields

log = logging.getLogger("batfill")

LENGTH = struct.Struct("=I")  # of the initialisation text; the flags of the answer have the same form
JSON_MESSAGES = LENGTH.pack(2)  # flags
PROTOCOL_VERSION = "1.0.0"
# Batsim requires a placement of a job's processes on its hosts; for delays it changes nothing.
PLACEMENT_TYPE = "PredefinedExecutorPlacementStrategyWrapper"
PLACEMENT = {"strategy": "SpreadOverHostsFirst"}

BEGINS: Fields = (
    ("computation_hosts", ARRAY),
    ("host_number", INTEGER),
    ("computation_host_number", INTEGER),
    ("storage_host_number", INTEGER),
    ("workloads", ARRAY),
)
WORKLOAD: Fields = (("name", STRING),)
OPTIONAL_BEGINS: Fields = (("storage_hosts", ARRAY),)
SUBMITTED: Fields = (("job_id", STRING), ("job", OBJECT), ("submission_time", NUMBER))
JOB: Fields = (("resource_request", INTEGER), ("profile_id", STRING))
LIMITED_JOB: Fields = (*JOB, ("walltime", NUMBER))
CALLED: Fields = (("call_me_later_id", STRING),)
EXTRA: Fields = (("extra_data", STRING),)
EXTERNAL: Fields = (("external_event_type", STRING),)
GENERIC: Fields = (("external_event", OBJECT),)
GENERIC_DATA: Fields = (("data", STRING),)


def initialisation_text(frame: bytes) -> str | None:
    """The text of a handshake's first frame; None if the frame is something else."""
    if len(frame) < LENGTH.size or LENGTH.unpack_from(frame)[0] != len(frame) - LENGTH.size:
        return None
    return frame[LENGTH.size :].decode(errors="replace")


def milliseconds_from(date_s: float) -> int:
    """The first whole millisecond that is not before this date."""
    time = math.ceil(date_s * 1000)  # which the product's rounding may put one too low or too high
    if time / 1000 < date_s:
        return time + 1
    return time - 1 if (time - 1) / 1000 >= date_s else time


class Batsim5(Conversation):
    """A conversation with Batsim 5; the first message is the handshake."""

    version = "Batsim 5"
    exact_dates = False
    suffix = b"\0"
    type_field, data_field = "event_type", "event"
    event_fields = (("event_type", STRING), ("timestamp", NUMBER), ("event", OBJECT))
    begins = "SimulationBeginsEvent"
    answers = "HostsTurnedOnOffEvent", "HostsPStateChangedEvent"
    state_field = "state"
    belated = "ExternalEventOccurredEvent", "JobsKilledEvent"
    completed_fields = (("job_id", STRING), (state_field, STRING), ("return_code", INTEGER))
    acknowledged_fields = "walltime_s", "procs", "profile", "extra"
    no_code = 2**32 - 1  # -1 as an unsigned number

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self.greeted = False
        self.features: dict[str, bool] = {}  # what the simulation has to offer beyond Batsim's defaults
        self.workloads: set[str] = set()
        self.profiles: set[str] = set()  # of jobs that were good
        self.calls: dict[str, float] = {}  # the dates for which calls were requested, by their ids
        self.called_for = 0  # calls requested so far
        self.knows_all_external = True  # False after an external event that batfill does not know

    def greet(self, frame: bytes) -> bytes:
        """This scheduler's hello, in answer to the handshake."""
        said = initialisation_text(frame)
        if said is None:
            raise self.wrong(f"is {frame[:100]!r} instead of a length of four bytes and a text of that length")
        self.greeted = True
        self.features = self.features_for(said)
        state_options({**self.agent.stated(), REQUESTED: list(self.features)})
        log.info("Batsim 5 says %r at its start; features requested: %s", said, ", ".join(self.features) or "none")
        hello = {
            "batprotocol_version": PROTOCOL_VERSION,
            "decision_component_name": "batfill",
            "decision_component_version": __version__,
            "decision_component_commit": "",
            "requested_simulation_features": self.features,
        }
        event = {"timestamp": 0.0, "event_type": "EDCHelloEvent", "event": hello}
        return JSON_MESSAGES + orjson.dumps({"now": 0.0, "events": [event]})

    def unreadable(self, text: bytes, error: orjson.JSONDecodeError) -> BatfillError:
        """As `Conversation.unreadable`; it may be another simulator's handshake."""
        if initialisation_text(text) is None:
            return super().unreadable(text, error)
        return self.wrong("is a second handshake: two simulators may be connected; give each its own scheduler")

    def features_for(self, text: str) -> dict[str, bool]:
        """The features that the options need; the initialisation text may add options, and acknowledgements.

        Raises:
            BatfillError: the text is a JSON object with something else in it.
        """
        self.agent, acknowledge = with_options(self.agent, text, "Batsim's initialisation text")
        if not self.agent.kills:
            return {}
        acknowledged = {ACKNOWLEDGE: True} if acknowledge else {}
        return {"dynamic_registration": True, "profile_reuse": True, **acknowledged}

    # Events from Batsim

    def events_handled(self) -> dict[str, Callable[[Any], None]]:
        """See `Conversation`."""
        return {
            "JobSubmittedEvent": self.submitted,
            "JobCompletedEvent": self.completed,
            "JobsKilledEvent": self.jobs_killed,
            "RequestedCallEvent": self.called,
            "AllStaticJobsHaveBeenSubmittedEvent": self.no_more_jobs,
            "AllStaticExternalEventsHaveBeenInjectedEvent": self.no_more_external_events,
            "ExternalEventOccurredEvent": self.occurred,
            "SimulationEndsEvent": self.end,
        }

    def begin(self, data: Any) -> None:
        """SimulationBeginsEvent."""
        self.check(data, BEGINS)
        self.check_given(data, OPTIONAL_BEGINS)
        self.subject = "in workloads "
        for workload in data["workloads"]:
            self.check(workload, WORKLOAD)
            if workload["name"] in self.workloads:
                raise self.wrong(f"{self.subject}has {workload['name']!r:.60} twice")
            self.workloads.add(workload["name"])
        asked = self.features.get
        registration = Registration(
            asked("dynamic_registration", False), asked("profile_reuse", False), asked(ACKNOWLEDGE, False)
        )
        counts = data["host_number"], data["computation_host_number"], data["storage_host_number"]
        self.begin_on(self.ids(data, "computation_hosts"), self.ids(data, "storage_hosts"), counts, registration)

    def job_of(self, data: Any) -> dict[str, Any]:
        """See `Conversation`; the user's fields are in `extra_data`, a text that may be anything."""
        name, job, submit_s = data.get("job_id"), data.get("job"), data.get("submission_time")
        if type(job) is not dict or type(name) is not str or type(submit_s) not in NUMBER:
            self.check_submission(data)
        procs, profile, walltime = job.get("resource_request"), job.get("profile_id"), job.get("walltime")
        text = job.get("extra_data")
        # One condition for what every good job has: a call of `check` for each costs a tenth of the message.
        if (
            type(procs) is not int
            or type(walltime) is not float
            or type(profile) is not str
            or profile not in self.profiles
        ):
            self.check(job, JOB if walltime is None else LIMITED_JOB)
            self.check_workload("profile", profile)
            self.profiles.add(profile)
        if name.partition("!")[0] not in self.workloads:
            self.check_workload("id", name)
        if type(text) is not str and text is not None:
            self.check(job, EXTRA)
        fields = (object_in(text) or {}) if text else {}
        if EXPECTED_FIELD in fields or REQUEST_FIELD in fields:
            self.subject += "in extra_data "
            self.check_given(fields, OF_USER)
        fields["subtime"] = submit_s
        fields["res"] = procs
        fields["profile"] = profile
        fields["walltime"] = -1 if walltime is None else walltime
        fields["extra_data"] = text
        return fields

    def check_submission(self, data: dict[str, Any]) -> None:
        """Refuse a submission without its parts."""
        self.subject = ""
        self.check(data, SUBMITTED)

    def check_workload(self, what: str, name: str) -> None:
        """Refuse the name of a job or profile that is not one of the workloads'."""
        workload, _, rest = name.partition("!")
        if workload not in self.workloads or not rest:
            known = ", ".join(sorted(self.workloads))
            raise self.wrong(f"{self.subject}has the {what} {name!r:.60}, which is of none of the workloads {known}")

    def call_of(self, data: Any) -> float | None:
        """See `Conversation`."""
        self.check(data, CALLED)
        return self.calls.pop(data["call_me_later_id"], None)

    def occurred(self, data: Any) -> None:
        """ExternalEventOccurredEvent: machines leave or return, if its text says so in JSON."""
        self.not_after(EXTERNAL_EVENTS)
        self.check(data, EXTERNAL)
        event = {}
        if data["external_event_type"] == "GenericExternalEvent":
            self.check(data, GENERIC)
            self.check(data["external_event"], GENERIC_DATA)
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

    # Requests of the agent: `cluster.agent.Host`

    def execute(self, job: str, machines: Intervals) -> None:
        """See `Host`."""
        allocation = {
            "host_allocation": self.starts(job, machines),
            "executor_placement_type": PLACEMENT_TYPE,
            "executor_placement": PLACEMENT,
        }
        self.send("ExecuteJobEvent", {"job_id": job, "allocation": allocation})

    def reject(self, job: str) -> None:
        """See `Host`."""
        self.rejects(job)
        self.send("RejectJobEvent", {"job_id": job})

    def kill(self, job: str) -> None:
        """See `Host`."""
        self.kills.add(job)
        self.send("KillJobsEvent", {"job_ids": [job]})

    def call_at(self, date_s: float) -> None:
        """See `Host`; Batsim calls at whole milliseconds, so that a fraction of one is rounded up."""
        self.called_for += 1
        name = f"divider {self.called_for}"
        if date_s == int(date_s):
            when, self.calls[name] = {"time": int(date_s), "time_unit": "Second"}, date_s
        else:
            time = milliseconds_from(date_s)
            when, self.calls[name] = {"time": time, "time_unit": "Millisecond"}, time / 1000
        self.send("CallMeLaterEvent", {"call_me_later_id": name, "when_type": "OneShot", "when": when})

    def register(self, request: Request) -> None:
        """See `Host`; Batsim takes the date of the registration for the job's submission."""
        self.joins_queue(request)
        job: dict[str, Any] = {"resource_request": request.procs, "profile_id": request.profile}
        if request.walltime_s < math.inf:
            job["walltime"] = request.walltime_s
        if request.extra:
            job["extra_data"] = request.extra
        self.send("RegisterJobEvent", {"job_id": request.name, "job": job})

    def finish_registration(self) -> None:
        """See `Host`."""
        self.send("FinishRegistrationEvent", {})
