"""Batsim 4's words in a conversation: its events' names and members, and how it wants the decisions."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError
from batfill.live.agent import ACKNOWLEDGE, with_options
from batfill.live.conversation import EXTERNAL_EVENTS, Conversation, Words
from batfill.live.request import Registration
from batfill.protocol.decisions import CallAt, Execute, Kill, Register, Registering, Reject
from batfill.simulator.wire import ARRAY, BOOLEAN, INTEGER, NUMBER, OBJECT, STRING
from batfill.workloads.batsim5_json import EXTRA_FIELD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from batfill.simulator.wire import Fields

BEGINS: Fields = {
    "config": OBJECT,
    "compute_resources": ARRAY,
    "nb_resources": INTEGER,
    "nb_compute_resources": INTEGER,
    "nb_storage_resources": INTEGER,
    "workloads": OBJECT,
    "profiles": OBJECT,
}
OPTIONAL_BEGINS: Fields = {
    "storage_resources": ARRAY,
    "allow_compute_sharing": BOOLEAN,
    "allow_storage_sharing": BOOLEAN,
}
CONFIG: Fields = {
    "redis-enabled": BOOLEAN,
    "dynamic-jobs-enabled": BOOLEAN,
    "dynamic-jobs-acknowledged": BOOLEAN,
    "profile-reuse-enabled": BOOLEAN,
}
OPTIONAL_CONFIG: Fields = {
    "forward-unknown-events": BOOLEAN,
    "profiles-forwarded-on-submission": BOOLEAN,
    "sched-config": STRING,
}
SUBMITTED: Fields = {"job_id": STRING, "job": OBJECT}
JOB: Fields = {"id": STRING, "subtime": NUMBER, "res": INTEGER, "profile": STRING}
OPTIONAL: Fields = {"walltime": NUMBER}


def begin(talk: Conversation, data: Any) -> None:
    """SIMULATION_BEGINS."""
    talk.check(data, BEGINS, OPTIONAL_BEGINS)
    config = data["config"]
    talk.subject = "in config "
    talk.check(config, CONFIG, OPTIONAL_CONFIG)
    if config["redis-enabled"]:
        raise talk.unable("requires redis, which batfill does not use; start Batsim without --enable-redis")
    talk.knows_all_external = not config.get("forward-unknown-events", False)
    registration = Registration(
        config["dynamic-jobs-enabled"],
        config["profile-reuse-enabled"],
        config["dynamic-jobs-acknowledged"],
        workflows_of(data["profiles"]),
    )
    talk.subject = ""
    if data["workloads"].keys() != data["profiles"].keys():
        found, expected = (", ".join(data[name]) or "none" for name in ("profiles", "workloads"))
        raise talk.wrong(f"has profiles of the workloads {found:.60}, but the workloads {expected:.60}")
    talk.check(data["profiles"], dict.fromkeys(data["workloads"], OBJECT))
    talk.profiles = data["profiles"]
    talk.agent, acknowledge = with_options(talk.agent, config.get("sched-config", ""), "Batsim's --sched-cfg")
    if acknowledge not in (None, registration.acknowledged):
        raise BatfillError(
            f"Batsim's --sched-cfg has {ACKNOWLEDGE!r}: {str(acknowledge).lower()}; under Batsim 4 its option "
            "--acknowledge-dynamic-jobs decides that"
        )
    counts = data["nb_resources"], data["nb_compute_resources"], data["nb_storage_resources"]
    talk.begin_on(talk.ids(data, "compute_resources"), talk.ids(data, "storage_resources"), counts, registration)


def workflows_of(profiles: Mapping[str, Any]) -> tuple[str, ...]:
    """The workflows among the workloads: their jobs and profiles come as they are made, so that none is announced."""
    return tuple(name for name in profiles if not profiles[name])


def job_of(talk: Conversation, data: Any) -> dict[str, Any]:
    """See `Words`."""
    name, job = data.get("job_id"), data.get("job")
    # One condition for what every good job has: a call of `check` for each costs a tenth of the message.
    if (
        type(name) is not str
        or type(job) is not dict
        or job.get("id") != name
        or type(job.get("subtime")) not in NUMBER
        or type(job.get("res")) is not int
        or type(job.get("profile")) is not str
        or job["profile"] not in talk.profiles.get(name.partition("!")[0], ())
    ):
        check_job(talk, data)
    if type(job.get("walltime", 1)) is not int:
        talk.check(job, {}, OPTIONAL)
    return job  # type: ignore[no-any-return]


def check_job(talk: Conversation, data: dict[str, Any]) -> None:
    """Refuse a job without what every job has."""
    talk.subject = ""
    talk.check(data, SUBMITTED)
    name, job = data["job_id"], data["job"]
    talk.subject = f"of {name!r:.60} "
    talk.check(job, JOB)
    if job["id"] != name:
        raise talk.wrong(f"{talk.subject}has a job with the id {job['id']!r:.60}")
    workload = name.partition("!")[0]
    if workload not in talk.profiles:
        raise talk.wrong(f"{talk.subject}is of the workload {workload!r:.60}; known are {', '.join(talk.profiles)}")
    if talk.profiles[workload] and job["profile"] not in talk.profiles[workload]:
        raise talk.wrong(f"{talk.subject}has the profile {job['profile']!r:.60}, which {workload!r:.60} lacks")


def call_of(talk: Conversation, data: Any) -> float | None:
    """See `Words`; a call says only that it is one."""
    return heapq.heappop(talk.dates) if talk.dates else None


def notified(talk: Conversation, data: Any) -> None:
    """NOTIFY."""
    talk.check(data, {"type": STRING})
    kind = data["type"]
    if kind in NOTIFICATIONS:
        if kind.startswith("event_"):
            talk.not_after(EXTERNAL_EVENTS)
        NOTIFICATIONS[kind](talk, data)
    elif talk.knows_all_external:
        raise talk.wrong(f"is of type {kind!r:.60}; Batsim 4 sends {', '.join(NOTIFICATIONS)}")


NOTIFICATIONS = {
    "no_more_static_job_to_submit": Conversation.no_more_jobs,
    "no_more_external_event_to_occur": Conversation.no_more_external_events,
    "event_machine_unavailable": Conversation.withdraw,
    "event_machine_available": Conversation.restore,
}
WORDS_4 = Words(
    version="Batsim 4",
    type_field="type",
    data_field="data",
    state_field="job_state",
    begins="SIMULATION_BEGINS",
    begin=begin,
    handled={
        "JOB_SUBMITTED": Conversation.submitted,
        "JOB_COMPLETED": Conversation.completed,
        "JOB_KILLED": Conversation.jobs_killed,
        "REQUESTED_CALL": Conversation.called,
        "NOTIFY": notified,
        "FROM_JOB_MSG": lambda talk, data: None,  # it changes no decision
        "ADD_RESOURCES": Conversation.restore,
        "REMOVE_RESOURCES": Conversation.withdraw,
        "SIMULATION_ENDS": Conversation.end,
        "RESOURCE_STATE_CHANGED": Conversation.unrequested,
        "ANSWER": Conversation.unrequested,
    },
    job_of=job_of,
    call_of=call_of,
    note_call=lambda talk, name, date_s: heapq.heappush(talk.dates, date_s),
    said={
        Execute: ("EXECUTE_JOB", lambda start: {"job_id": start.job, "alloc": start.machines}),
        Reject: ("REJECT_JOB", lambda rejected: {"job_id": rejected.job}),
        Kill: ("KILL_JOB", lambda kill: {"job_ids": kill.jobs}),
        CallAt: ("CALL_ME_LATER", lambda call: {"timestamp": call.date_s}),
        Register: (
            "REGISTER_JOB",
            lambda new: {"job_id": new.job, "job": {name: new.raw[name] for name in new.raw if name != EXTRA_FIELD}},
        ),
        Registering: ("NOTIFY", lambda _: {"type": "registration_finished"}),
    },
    acknowledged_fields=("submit_s", "walltime_s", "procs", "profile"),
)
