"""Batsim 4's messages: the events that its scheduler reads, and those of an answer, read and written."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from batfill.base.errors import WorkloadError
from batfill.protocol.decisions import (
    AskEnergy,
    CallAt,
    ChangeState,
    Execute,
    Kill,
    Register,
    Registering,
    RegisterProfile,
    Reject,
    SetMetadata,
    WaitingTime,
)
from batfill.protocol.forms import (
    ANY,
    ARRAY,
    NUMBER,
    OBJECT,
    STRING,
    Date,
    Form,
    Ids,
    Procs,
    Report,
    Seconds,
    Version,
    form,
    kill_of,
    refuse_unused,
)
from batfill.workloads.batsim5_json import EXTRA_FIELD
from batfill.workloads.batsim_json import NO_WALLTIME

# What would end a row of the result file, for readers of any kind, or the text within it.
UNWRITABLE_TEXT = re.compile('["\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]')

# Objects inside the events that the scheduler reads.
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
WAITING_TIME = "estimate_waiting_time"  # what a query to the scheduler may request,
ENERGY = "consumed_energy"  # and one to the simulator
QUERIED = form("Queried", job_id=str, job=dict[str, Any])
RESOURCES = form("Resources", resources=str)


def _execute(job_id: str, machines: str, mapping: dict[str, Any] | None = None, **unused: Any) -> Execute:
    """EXECUTE_JOB: executors 0, 1, ... have places in {executor: place}; a place may be an integer or its digits."""
    refuse_unused(job_id, unused)
    if mapping is None:
        return Execute(job_id, machines)
    places: list[Any] = [mapping.get(str(executor)) for executor in range(len(mapping))]
    digits = [type(p) is str and p.isascii() and p.isdigit() and len(p) < 10 for p in places]
    return Execute(job_id, machines, [int(p) if d else p for p, d in zip(places, digits, strict=True)])


def _set_job_metadata(job_id: str, metadata: str) -> SetMetadata:
    """SET_JOB_METADATA."""
    if unwritable := UNWRITABLE_TEXT.search(metadata):
        raise WorkloadError(
            f"the metadata of job {job_id!r:.60} holds {unwritable[0]!r}, which its row of the csv file cannot: "
            f"{metadata!r:.60}"
        )
    return SetMetadata(job_id, metadata)


def _notify(kind: str) -> Registering:
    """NOTIFY."""
    if kind not in ("registration_finished", "continue_registration"):
        raise WorkloadError(f"{kind!r} is not known; known: registration_finished, continue_registration")
    return Registering(kind == "continue_registration")


def _query(requests: dict[str, Any]) -> AskEnergy:
    """QUERY."""
    if requests != {ENERGY: {}}:
        raise WorkloadError(f"requests {requests!r:.60}; only {{{ENERGY!r}: {{}}}} is answered here")
    return AskEnergy()


BATSIM_4 = Version(
    name="Batsim 4",
    type_field="type",
    data_field="data",
    reports={
        "SIMULATION_BEGINS": Report(
            "begin",
            form(
                "Begin",
                config=CONFIG,
                compute_resources=Ids,
                storage_resources=(Ids, []),
                profiles=dict[str, dict[str, msgspec.Raw]],
            ),
        ),
        "JOB_SUBMITTED": Report("submitted", form("Submitted", job_id=str, job=dict[str, Any])),
        "JOB_COMPLETED": Report(
            "completed", form("Completed", job_id=str, state=(str, msgspec.field(name="job_state")))
        ),
        "JOB_KILLED": Report("jobs_killed"),
        "REQUESTED_CALL": Report("called"),
        "NOTIFY": Report("notified", form("Notice", type=str, resources=(str, ""))),
        "FROM_JOB_MSG": Report("nothing"),
        "ADD_RESOURCES": Report("restore", RESOURCES),
        "REMOVE_RESOURCES": Report("withdraw", RESOURCES),
        "SIMULATION_ENDS": Report("end"),
        "QUERY": Report("asked", form("Query", requests=form("Requests", **{WAITING_TIME: QUERIED}))),
        "RESOURCE_STATE_CHANGED": Report("nothing"),
        "ANSWER": Report("answered"),
    },
    decisions={
        "EXECUTE_JOB": Form(
            Execute,
            {"job_id": STRING, "alloc": STRING},
            {"mapping": OBJECT, "storage_mapping": ANY, "additional_io_job": ANY},
            make=_execute,
            write=lambda start: {"job_id": start.job, "alloc": start.machines},
        ),
        "REJECT_JOB": Form(Reject, {"job_id": STRING}, write=lambda rejected: {"job_id": rejected.job}),
        "KILL_JOB": Form(Kill, {"job_ids": ARRAY}, make=kill_of, write=lambda kill: {"job_ids": kill.jobs}),
        "CALL_ME_LATER": Form(CallAt, {"timestamp": NUMBER}, write=lambda call: {"timestamp": call.date_s}),
        "REGISTER_JOB": Form(
            Register,
            {"job_id": STRING, "job": OBJECT},
            write=lambda new: {
                "job_id": new.job,
                "job": {name: new.raw[name] for name in new.raw if name != EXTRA_FIELD},
            },
        ),
        "REGISTER_PROFILE": Form(RegisterProfile, {"workload_name": STRING, "profile_name": STRING, "profile": OBJECT}),
        "SET_JOB_METADATA": Form(SetMetadata, {"job_id": STRING, "metadata": STRING}, make=_set_job_metadata),
        "CHANGE_JOB_STATE": Form(ChangeState, {"job_id": STRING, "job_state": STRING}),
        "NOTIFY": Form(Registering, {"type": STRING}, make=_notify, write=lambda _: {"type": "registration_finished"}),
        "QUERY": Form(AskEnergy, {"requests": OBJECT}, make=_query),
        "ANSWER": Form(
            WaitingTime,
            write=lambda found: {WAITING_TIME: {"job_id": found.job, "estimated_waiting_time": found.wait_s}},
        ),
    },
    unsupported={
        "SET_RESOURCE_STATE": "machines stay in their power states here; use Batsim itself",
        "ANSWER": "schedulers receive no queries here; use Batsim itself",
        "TO_JOB_MSG": "jobs receive no messages here; use Batsim itself",
    },
)
