"""Batsim 5's messages: the handshake, the events that its scheduler reads, and those of an answer that it writes.

The scheduler is an "external decision component" there. Members that nothing but its newest form has are read if they
are there, and never sent.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from batfill.protocol.decisions import CallAt, Execute, Kill, Notify, Register, Reject
from batfill.protocol.forms import Date, Event, Ids, Procs, Seconds, Version, form
from batfill.workloads.batsim5_json import EXTRA_FIELD
from batfill.workloads.batsim_json import NO_WALLTIME

# The handshake: a text after its length, answered with flags and a message whose one event is the hello.
LENGTH = struct.Struct("=I")  # the flags have the same form
JSON_FLAG = 2
PROTOCOL_VERSION = "1.0.0"
PREDEFINED = "PredefinedExecutorPlacementStrategyWrapper"
# Batsim requires a placement of a job's processes on its hosts; for delays it changes nothing.
PLACED = {"executor_placement_type": PREDEFINED, "executor_placement": {"strategy": "SpreadOverHostsFirst"}}

# Objects inside the events.
EXTERNAL = form("External", data=(str, ""))


def handshake_text(frame: bytes) -> str | None:
    """The text of a simulation's first frame, the handshake; None if the frame is something else."""
    if len(frame) < LENGTH.size or LENGTH.unpack_from(frame)[0] != len(frame) - LENGTH.size:
        return None
    return frame[LENGTH.size :].decode(errors="replace")


def milliseconds_from(date_s: float) -> int:
    """The first whole millisecond that is not before this date."""
    time = math.ceil(date_s * 1000)  # which the product's rounding may put one too low or too high
    if time / 1000 < date_s:
        return time + 1
    return time - 1 if (time - 1) / 1000 >= date_s else time


def _call(requested: CallAt) -> dict[str, Any]:
    """CallMeLaterEvent, but for its id; a fraction of a millisecond is rounded up."""
    date_s = requested.timestamp
    when: dict[str, Any] = {"time": int(date_s), "time_unit": "Second"}
    if date_s != int(date_s):
        when = {"time": milliseconds_from(date_s), "time_unit": "Millisecond"}
    return {"call_me_later_id": "", "when_type": "OneShot", "when": when}


def _job(new: Register) -> dict[str, Any]:
    """RegisterJobEvent; Batsim takes the date of the registration for the job's submission."""
    job = {"resource_request": new.job["res"], "profile_id": new.job["profile"]}
    if new.job["walltime"] != NO_WALLTIME:
        job["walltime"] = new.job["walltime"]
    if EXTRA_FIELD in new.job:
        job[EXTRA_FIELD] = new.job[EXTRA_FIELD]
    return {"job_id": new.job_id, "job": job}


BATSIM_5 = Version(
    name="Batsim 5",
    type_field="event_type",
    data_field="event",
    events={
        "SimulationBeginsEvent": Event("begin", form("Begin", computation_hosts=Ids, storage_hosts=(Ids, []))),
        "JobSubmittedEvent": Event(
            "submitted",
            form(
                "Submitted",
                job_id=str,
                submission_time=Date,
                job=form(
                    "Job",
                    resource_request=Procs,
                    profile_id=str,
                    walltime=(Seconds | None, None),
                    extra_data=(str | None, None),
                ),
            ),
        ),
        "JobCompletedEvent": Event("completed", form("Completed", job_id=str, state=str)),
        "JobsKilledEvent": Event("nothing"),
        "RequestedCallEvent": Event("called"),
        "AllStaticJobsHaveBeenSubmittedEvent": Event("no_more_jobs"),
        "AllStaticExternalEventsHaveBeenInjectedEvent": Event("nothing"),
        "ExternalEventOccurredEvent": Event("occurred", form("Occurred", external_event=(EXTERNAL, EXTERNAL()))),
        "SimulationEndsEvent": Event("end"),
        "HostsTurnedOnOffEvent": Event("nothing"),
        "HostsPStateChangedEvent": Event("nothing"),
    },
    said={
        Execute: (
            "ExecuteJobEvent",
            lambda start: {"job_id": start.job_id, "allocation": {"host_allocation": start.alloc, **PLACED}},
        ),
        Reject: ("RejectJobEvent", None),
        Kill: ("KillJobsEvent", None),
        CallAt: ("CallMeLaterEvent", _call),
        Register: ("RegisterJobEvent", _job),
        Notify: ("FinishRegistrationEvent", lambda _: {}),
    },
    exact_dates=False,
    suffix=b"\0",
)
