"""Batsim 4's messages, those of both ends."""

from __future__ import annotations

from typing import Any

import msgspec

from batfill.protocol import decisions
from batfill.protocol.forms import Date, Event, Ids, Procs, Seconds, Version, form
from batfill.workloads.batsim_json import NO_WALLTIME

# Objects inside the simulation's events.
CONFIG = form(
    "Config",
    redis_enabled=bool,
    dynamic_jobs_enabled=bool,
    dynamic_jobs_acknowledged=bool,
    profile_reuse_enabled=bool,
    forward_unknown_events=(bool, False),
    sched_config=(str, ""),
    rename="kebab",
)
JOB = form("Job", subtime=Date, res=Procs, profile=str, walltime=(Seconds, NO_WALLTIME))  # and what the user added
SUBMITTED = form("Submitted", job_id=str, job=dict[str, Any])
QUERIED = form("Queried", job_id=str, job=dict[str, Any])
RESOURCES = form("Resources", resources=str)

DECISIONS = {
    "EXECUTE_JOB": Event("execute", decisions.Execute),
    "REJECT_JOB": Event("reject", decisions.Reject),
    "KILL_JOB": Event("kill", decisions.Kill),
    "CALL_ME_LATER": Event("call_at", decisions.CallAt),
    "REGISTER_JOB": Event("register", decisions.Register),
    "REGISTER_PROFILE": Event("register_profile", decisions.RegisterProfile),
    "SET_JOB_METADATA": Event("set_metadata", decisions.SetMetadata),
    "CHANGE_JOB_STATE": Event("change_state", decisions.ChangeState),
    "NOTIFY": Event("notify", decisions.Notify),
    "QUERY": Event("query", decisions.Query),
}
BATSIM_4 = Version(
    name="Batsim 4",
    type_field="type",
    data_field="data",
    events={
        "SIMULATION_BEGINS": Event(
            "begin",
            form(
                "Begin",
                config=CONFIG,
                compute_resources=Ids,
                storage_resources=(Ids, []),
                profiles=dict[str, dict[str, msgspec.Raw]],
            ),
        ),
        "JOB_SUBMITTED": Event("submitted", SUBMITTED),
        "JOB_COMPLETED": Event(
            "completed", form("Completed", job_id=str, state=(str, msgspec.field(name="job_state")))
        ),
        "JOB_KILLED": Event("nothing"),
        "REQUESTED_CALL": Event("called"),
        "NOTIFY": Event("notified", form("Notice", type=str, resources=(str, ""))),
        "FROM_JOB_MSG": Event("nothing"),
        "ADD_RESOURCES": Event("restore", RESOURCES),
        "REMOVE_RESOURCES": Event("withdraw", RESOURCES),
        "SIMULATION_ENDS": Event("end"),
        "QUERY": Event("asked", form("Query", requests=form("Requests", estimate_waiting_time=QUERIED))),
        "RESOURCE_STATE_CHANGED": Event("nothing"),
        "ANSWER": Event("nothing"),
    },
    said={event.data: (kind, None) for kind, event in DECISIONS.items()} | {decisions.Answer: ("ANSWER", None)},
)
