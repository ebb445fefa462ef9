"""Batsim 5's words in a conversation, in JSON: the handshake, its events' names and members, and its decisions' form.

Read from 5.0.0-rc2. Fields that nothing but its newest form has are read if they are there, and never sent.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import orjson

from batfill.base.version import __version__
from batfill.live.agent import ACKNOWLEDGE, object_in, state_options, with_options
from batfill.live.conversation import EXTERNAL_EVENTS, JSON_MESSAGES, Conversation, Words, initialisation_text
from batfill.live.request import Registration
from batfill.model.options import REQUESTED
from batfill.protocol.decisions import CallAt, Execute, Kill, Register, Registering, Reject
from batfill.simulator.wire import ARRAY, INTEGER, NUMBER, OBJECT, STRING
from batfill.workloads.batsim5_json import EXTRA_FIELD
from batfill.workloads.batsim_json import NO_WALLTIME

if TYPE_CHECKING:
    from batfill.simulator.wire import Fields

log = logging.getLogger("batfill")

PROTOCOL_VERSION = "1.0.0"
# Batsim requires a placement of a job's processes on its hosts; for delays it changes nothing.
PLACED = {
    "executor_placement_type": "PredefinedExecutorPlacementStrategyWrapper",
    "executor_placement": {"strategy": "SpreadOverHostsFirst"},
}

BEGINS: Fields = {
    "computation_hosts": ARRAY,
    "host_number": INTEGER,
    "computation_host_number": INTEGER,
    "storage_host_number": INTEGER,
    "workloads": ARRAY,
}
SUBMITTED: Fields = {"job_id": STRING, "job": OBJECT, "submission_time": NUMBER}
JOB: Fields = {"resource_request": INTEGER, "profile_id": STRING}
LIMITED_JOB: Fields = {**JOB, "walltime": NUMBER}


def milliseconds_from(date_s: float) -> int:
    """The first whole millisecond that is not before this date."""
    time = math.ceil(date_s * 1000)  # which the product's rounding may put one too low or too high
    if time / 1000 < date_s:
        return time + 1
    return time - 1 if (time - 1) / 1000 >= date_s else time


def greet(talk: Conversation, frame: bytes) -> bytes:
    """This scheduler's hello, in answer to the handshake.

    The features are those that the options need; the initialisation text may add options, and acknowledgements.

    Raises:
        BatfillError: the frame is no handshake, or its text is a JSON object with something else in it.
    """
    said = initialisation_text(frame)
    if said is None:
        raise talk.wrong(f"is {frame[:100]!r} instead of a length of four bytes and a text of that length")
    talk.greeted = True
    talk.agent, acknowledge = with_options(talk.agent, said, "Batsim's initialisation text")
    if talk.agent.kills:
        talk.features = {"dynamic_registration": True, "profile_reuse": True}
        talk.features |= {ACKNOWLEDGE: True} if acknowledge else {}
    state_options({**talk.agent.stated(), REQUESTED: list(talk.features)})
    log.info("Batsim 5 says %r at its start; features requested: %s", said, ", ".join(talk.features) or "none")
    hello = {
        "batprotocol_version": PROTOCOL_VERSION,
        "decision_component_name": "batfill",
        "decision_component_version": __version__,
        "decision_component_commit": "",
        "requested_simulation_features": talk.features,
    }
    event = {"timestamp": 0.0, "event_type": "EDCHelloEvent", "event": hello}
    return JSON_MESSAGES + orjson.dumps({"now": 0.0, "events": [event]})


def begin(talk: Conversation, data: Any) -> None:
    """SimulationBeginsEvent."""
    talk.check(data, BEGINS, {"storage_hosts": ARRAY})
    talk.subject = "in workloads "
    for workload in data["workloads"]:
        talk.check(workload, {"name": STRING})
        if workload["name"] in talk.profiles:
            raise talk.wrong(f"{talk.subject}has {workload['name']!r:.60} twice")
        talk.profiles[workload["name"]] = {}
    offers = talk.features.get
    registration = Registration(
        offers("dynamic_registration", False), offers("profile_reuse", False), offers(ACKNOWLEDGE, False)
    )
    counts = data["host_number"], data["computation_host_number"], data["storage_host_number"]
    talk.begin_on(talk.ids(data, "computation_hosts"), talk.ids(data, "storage_hosts"), counts, registration)


def job_of(talk: Conversation, data: Any) -> dict[str, Any]:
    """See `Words`; the user's fields are in `extra_data`, a text that may be anything."""
    name, job, submit_s = data.get("job_id"), data.get("job"), data.get("submission_time")
    if type(job) is not dict or type(name) is not str or type(submit_s) not in NUMBER:
        talk.subject = ""
        talk.check(data, SUBMITTED)
    procs, profile, walltime = job.get("resource_request"), job.get("profile_id"), job.get("walltime")
    text = job.get(EXTRA_FIELD)
    # One condition for what every good job has: a call of `check` for each costs a tenth of the message.
    if (
        type(procs) is not int
        or type(walltime) is not float
        or type(profile) is not str
        or profile not in talk.good_profiles
    ):
        talk.check(job, JOB if walltime is None else LIMITED_JOB)
        check_workload(talk, "profile", profile)
        talk.good_profiles.add(profile)
    if name.partition("!")[0] not in talk.profiles:
        check_workload(talk, "id", name)
    if type(text) is not str and text is not None:
        talk.check(job, {EXTRA_FIELD: STRING})
    fields = (object_in(text) or {}) if text else {}
    fields["subtime"] = submit_s
    fields["res"] = procs
    fields["profile"] = profile
    fields["walltime"] = -1 if walltime is None else walltime
    fields[EXTRA_FIELD] = text
    return fields


def check_workload(talk: Conversation, what: str, name: str) -> None:
    """Refuse the name of a job or profile that is not one of the workloads'."""
    workload, _, rest = name.partition("!")
    if workload not in talk.profiles or not rest:
        known = ", ".join(sorted(talk.profiles))
        raise talk.wrong(f"{talk.subject}has the {what} {name!r:.60}, which is of none of the workloads {known}")


def call_of(talk: Conversation, data: Any) -> float | None:
    """See `Words`."""
    talk.check(data, {"call_me_later_id": STRING})
    return talk.calls.pop(data["call_me_later_id"], None)


def note_call(talk: Conversation, name: str, date_s: float) -> None:
    """See `Words`; Batsim calls at whole milliseconds."""
    talk.calls[name] = date_s if date_s == int(date_s) else milliseconds_from(date_s) / 1000


def call(requested: CallAt) -> dict[str, Any]:
    """CallMeLaterEvent; a fraction of a millisecond is rounded up."""
    date_s = requested.date_s
    when: dict[str, Any] = {"time": int(date_s), "time_unit": "Second"}
    if date_s != int(date_s):
        when = {"time": milliseconds_from(date_s), "time_unit": "Millisecond"}
    return {"call_me_later_id": requested.id, "when_type": "OneShot", "when": when}


def registered(new: Register) -> dict[str, Any]:
    """RegisterJobEvent; Batsim takes the date of the registration for the job's submission."""
    job = {"resource_request": new.raw["res"], "profile_id": new.raw["profile"]}
    if new.raw["walltime"] != NO_WALLTIME:
        job["walltime"] = new.raw["walltime"]
    if EXTRA_FIELD in new.raw:
        job[EXTRA_FIELD] = new.raw[EXTRA_FIELD]
    return {"job_id": new.job, "job": job}


def occurred(talk: Conversation, data: Any) -> None:
    """ExternalEventOccurredEvent: machines leave or return, if its text says so in JSON."""
    talk.not_after(EXTERNAL_EVENTS)
    talk.check(data, {"external_event_type": STRING})
    event = {}
    if data["external_event_type"] == "GenericExternalEvent":
        talk.check(data, {"external_event": OBJECT})
        talk.check(data["external_event"], {"data": STRING})
        event = object_in(data["external_event"]["data"]) or {}
    kind = event.get("type")
    if kind == "machine_unavailable":
        talk.withdraw(event)
    elif kind == "machine_available":
        talk.restore(event)
    elif talk.knows_all_external:
        talk.knows_all_external = False
        log.warning(
            "an external event at %f is neither machine_unavailable nor machine_available: ignored, as further "
            "such events",
            talk.now_s,
        )


WORDS_5 = Words(
    version="Batsim 5",
    type_field="event_type",
    data_field="event",
    state_field="state",
    begins="SimulationBeginsEvent",
    begin=begin,
    handled={
        "JobSubmittedEvent": Conversation.submitted,
        "JobCompletedEvent": Conversation.completed,
        "JobsKilledEvent": Conversation.jobs_killed,
        "RequestedCallEvent": Conversation.called,
        "AllStaticJobsHaveBeenSubmittedEvent": Conversation.no_more_jobs,
        "AllStaticExternalEventsHaveBeenInjectedEvent": Conversation.no_more_external_events,
        "ExternalEventOccurredEvent": occurred,
        "SimulationEndsEvent": Conversation.end,
        "HostsTurnedOnOffEvent": Conversation.unrequested,
        "HostsPStateChangedEvent": Conversation.unrequested,
    },
    job_of=job_of,
    call_of=call_of,
    note_call=note_call,
    said={
        Execute: (
            "ExecuteJobEvent",
            lambda start: {"job_id": start.job, "allocation": {"host_allocation": start.machines, **PLACED}},
        ),
        Reject: ("RejectJobEvent", lambda rejected: {"job_id": rejected.job}),
        Kill: ("KillJobsEvent", lambda kill: {"job_ids": kill.jobs}),
        CallAt: ("CallMeLaterEvent", call),
        Register: ("RegisterJobEvent", registered),
        Registering: ("FinishRegistrationEvent", lambda _: {}),
    },
    acknowledged_fields=("walltime_s", "procs", "profile", "extra"),
    greet=greet,
    exact_dates=False,
    suffix=b"\0",
    belated=("ExternalEventOccurredEvent", "JobsKilledEvent"),
)
