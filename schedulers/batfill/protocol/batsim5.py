"""Batsim 5's messages: the handshake, the events that its scheduler reads, and those of an answer, read and written.

The scheduler is an "external decision component" there. It is checked as strictly as Batsim 5.0.0-rc2 checks it: its
parser refuses unknown members, missing ones, and values of other types. Members that nothing but its newest form has
are read if they are there, and never sent.
"""

from __future__ import annotations

import math
import struct
from functools import partial
from typing import Any

from batfill.base.errors import WorkloadError
from batfill.protocol.decisions import (
    CallAt,
    CallEvery,
    Execute,
    ForceStop,
    Kill,
    Register,
    Registering,
    RegisterProfile,
    Reject,
    StopCalls,
)
from batfill.protocol.forms import (
    ARRAY,
    BOOLEAN,
    INTEGER,
    NUMBER,
    OBJECT,
    OPTIONAL_NUMBER,
    STRING,
    Date,
    Fields,
    Form,
    FormError,
    Ids,
    Procs,
    Report,
    Seconds,
    Version,
    check_fields,
    form,
    kill_of,
    parts_of_id,
    read_one_of,
    refuse_unused,
)
from batfill.workloads.batsim5_json import EXTRA_FIELD, NEW_TYPES
from batfill.workloads.batsim_json import NO_WALLTIME

# The handshake: a text after its length, answered with flags and a message whose one event is the hello.
LENGTH = struct.Struct("=I")  # the flags have the same form
JSON_FLAG = 2
PROTOCOL_VERSION = "1.0.0"
HELLO: Fields = {
    "batprotocol_version": STRING,
    "decision_component_name": STRING,
    "decision_component_version": STRING,
    "decision_component_commit": STRING,
    "requested_simulation_features": OBJECT,
}

UNITS_MS = {"Second": 1000, "Millisecond": 1}
STRATEGIES = ("SpreadOverHostsFirst", "FillOneHostCoresFirst")
PREDEFINED = "PredefinedExecutorPlacementStrategyWrapper"
# Batsim requires a placement of a job's processes on its hosts; for delays it changes nothing.
PLACED = {"executor_placement_type": PREDEFINED, "executor_placement": {"strategy": STRATEGIES[0]}}
SEQUENCE, DELAY = NEW_TYPES["composed"], NEW_TYPES["delay"]

# Objects inside the events.
EXTERNAL = form("External", data=(str, ""))
JOB: Fields = {"resource_request": INTEGER, "profile_id": STRING}
REGISTERED_JOB: Fields = {"walltime": OPTIONAL_NUMBER, EXTRA_FIELD: STRING, "rigid": BOOLEAN}
ALLOCATION: Fields = {"host_allocation": STRING, "executor_placement_type": STRING, "executor_placement": OBJECT}


def handshake_text(frame: bytes) -> str | None:
    """The text of a simulation's first frame, the handshake; None if the frame is something else."""
    if len(frame) < LENGTH.size or LENGTH.unpack_from(frame)[0] != len(frame) - LENGTH.size:
        return None
    return frame[LENGTH.size :].decode(errors="replace")


# A job's start


def _by_strategy(strategy: str = STRATEGIES[0]) -> None:
    """No mapping: Batsim places the executors."""
    if strategy not in STRATEGIES:
        raise FormError(f"has the strategy {strategy!r:.60}; known: {', '.join(STRATEGIES)}")


PLACEMENTS = {
    PREDEFINED: Form(_by_strategy, {}, {"strategy": STRING}),
    "CustomExecutorToHostMapping": Form(list, {"mapping": ARRAY}),
}


def _execute(job_id: str, allocation: dict[str, Any], **unused: list[Any]) -> Execute:
    """ExecuteJobEvent."""
    refuse_unused(job_id, [name for name, given in unused.items() if given])
    check_fields(allocation, ALLOCATION, where="its allocation ")
    machines, kind, placement = (allocation[name] for name in ALLOCATION)
    mapping = read_one_of(PLACEMENTS, "executor_placement_type", kind, placement, "its executor_placement ")
    return Execute(job_id, machines, mapping)


# Calls


def milliseconds_from(date_s: float) -> int:
    """The first whole millisecond that is not before this date."""
    time = math.ceil(date_s * 1000)  # which the product's rounding may put one too low or too high
    if time / 1000 < date_s:
        return time + 1
    return time - 1 if (time - 1) / 1000 >= date_s else time


def _written_call(requested: CallAt) -> dict[str, Any]:
    """CallMeLaterEvent; a fraction of a millisecond is rounded up."""
    date_s = requested.date_s
    when: dict[str, Any] = {"time": int(date_s), "time_unit": "Second"}
    if date_s != int(date_s):
        when = {"time": milliseconds_from(date_s), "time_unit": "Millisecond"}
    return {"call_me_later_id": requested.id, "when_type": "OneShot", "when": when}


def _milliseconds(name: str, value: int, unit: str, least: int) -> int:
    """A date or a period in its unit, which is at least so large."""
    if unit not in UNITS_MS:
        raise FormError(f"has the time_unit {unit!r:.60}; known: {', '.join(UNITS_MS)}")
    return _at_least(least, name, value) * UNITS_MS[unit]


def _at_least(least: int, name: str, value: int) -> int:
    """The value of this member, unless it is below 0 or 1."""
    if value < least:
        raise FormError(f"has {value} as its {name!r}, which is not {'above' if least else 'at least'} 0")
    return value


def _one_shot(time: int, time_unit: str = "Second") -> CallAt:
    """A call at a date, at once if it is past."""
    return CallAt(_milliseconds("time", time, time_unit, 0) / 1000, refuse_past=False)


def _periodic(
    period: int, mode_type: str, mode: dict[str, Any], time_unit: str = "Second", offset: int = 0
) -> CallEvery:
    """Calls at the multiples of a period."""
    if offset:
        raise WorkloadError(f"the offset of a periodic call is {offset}; Batsim 5 takes 0 only")
    times = read_one_of(MODES, "mode_type", mode_type, mode, "its mode ")
    return CallEvery(_milliseconds("period", period, time_unit, 1), times)


MODES = {
    "Infinite": Form(lambda: None),
    "FinitePeriodNumber": Form(partial(_at_least, 1, "nb_periods"), {"nb_periods": INTEGER}),
}
CALLS = {
    "OneShot": Form(_one_shot, {"time": INTEGER}, {"time_unit": STRING}),
    "Periodic": Form(
        _periodic,
        {"period": INTEGER, "mode_type": STRING, "mode": OBJECT},
        {"time_unit": STRING, "offset": INTEGER},
    ),
}


def _call_me_later(call_id: str, kind: str, when: dict[str, Any]) -> CallAt | CallEvery:
    """CallMeLaterEvent."""
    call: CallAt | CallEvery = read_one_of(CALLS, "when_type", kind, when, "its when ")
    return call._replace(id=call_id)


# Registrations


def _written_job(new: Register) -> dict[str, Any]:
    """RegisterJobEvent; Batsim takes the date of the registration for the job's submission."""
    job = {"resource_request": new.raw["res"], "profile_id": new.raw["profile"]}
    if new.raw["walltime"] != NO_WALLTIME:
        job["walltime"] = new.raw["walltime"]
    return {"job_id": new.job, "job": job | _extra(new.raw)}


def _register_job(job_id: str, job: dict[str, Any]) -> Register:
    """RegisterJobEvent."""
    check_fields(job, JOB, REGISTERED_JOB, "its job ")
    if not job.get("rigid", True):
        raise WorkloadError(f"job {job_id!r} is not rigid; here each job runs on as many hosts as it requests")
    workload, name = parts_of_id("job", job_id)
    owner, separator, profile = job["profile_id"].rpartition("!")
    raw = {"id": name, "res": job["resource_request"], "profile": profile}
    walltime = job.get("walltime")
    if walltime is not None and walltime >= 0:
        raw["walltime"] = walltime
    return Register(job_id, raw | _extra(job), owner if separator else workload, submitted_now=True)


def _extra(given: dict[str, Any]) -> dict[str, Any]:
    """The user's further data of a job or a profile, if any."""
    return {key: given[key] for key in (EXTRA_FIELD,) if key in given}


def _register_profile(given: dict[str, Any]) -> RegisterProfile:
    """RegisterProfileEvent."""
    check_fields(
        given, {"id": STRING, "profile_type": STRING, "profile": OBJECT}, {EXTRA_FIELD: STRING}, "its profile "
    )
    kind, content = given["profile_type"], given["profile"]
    workload, name = parts_of_id("profile", given["id"])
    if kind == DELAY:
        check_fields(content, {"delay": NUMBER}, where="its delay ")
        raw: dict[str, Any] = {"type": "delay", "delay": content["delay"]}
    elif kind == SEQUENCE:
        check_fields(content, {"repetition_count": INTEGER, "profile_ids": ARRAY}, where="its sequence ")
        parts = [part.removeprefix(f"{workload}!") if type(part) is str else part for part in content["profile_ids"]]
        raw = {"type": "composed", "repeat": content["repetition_count"], "seq": parts}
    else:
        raise WorkloadError(f"profile {given['id']!r} is a {kind!r:.60}; simulated are {DELAY} and {SEQUENCE}")
    return RegisterProfile(workload, name, raw | _extra(given))


BATSIM_5 = Version(
    name="Batsim 5",
    type_field="event_type",
    data_field="event",
    reports={
        "SimulationBeginsEvent": Report("begin", form("Begin", computation_hosts=Ids, storage_hosts=(Ids, []))),
        "JobSubmittedEvent": Report(
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
        "JobCompletedEvent": Report("completed", form("Completed", job_id=str, state=str)),
        "JobsKilledEvent": Report("jobs_killed"),
        "RequestedCallEvent": Report("called"),
        "AllStaticJobsHaveBeenSubmittedEvent": Report("no_more_jobs"),
        "AllStaticExternalEventsHaveBeenInjectedEvent": Report("no_more_external_events"),
        "ExternalEventOccurredEvent": Report("occurred", form("Occurred", external_event=(EXTERNAL, EXTERNAL()))),
        "SimulationEndsEvent": Report("end"),
        "HostsTurnedOnOffEvent": Report("nothing"),
        "HostsPStateChangedEvent": Report("nothing"),
    },
    decisions={
        "ExecuteJobEvent": Form(
            Execute,
            {"job_id": STRING, "allocation": OBJECT},
            {"profile_allocation_override": ARRAY, "storage_placement": ARRAY},
            make=_execute,
            write=lambda start: {"job_id": start.job, "allocation": {"host_allocation": start.machines, **PLACED}},
        ),
        "RejectJobEvent": Form(Reject, {"job_id": STRING}, write=lambda rejected: {"job_id": rejected.job}),
        "KillJobsEvent": Form(
            Kill,
            {"job_ids": ARRAY},
            make=partial(kill_of, refuse_repeats=True),
            write=lambda kill: {"job_ids": kill.jobs},
        ),
        "CallMeLaterEvent": Form(
            CallAt,
            {"call_me_later_id": STRING, "when_type": STRING, "when": OBJECT},
            make=_call_me_later,
            write=_written_call,
        ),
        "StopCallMeLaterEvent": Form(StopCalls, {"call_me_later_id": STRING}),
        "RegisterJobEvent": Form(Register, {"job_id": STRING, "job": OBJECT}, make=_register_job, write=_written_job),
        "RegisterProfileEvent": Form(RegisterProfile, {"profile": OBJECT}, make=_register_profile),
        "FinishRegistrationEvent": Form(Registering, make=partial(Registering, False), write=lambda _: {}),
        "ForceSimulationStopEvent": Form(ForceStop),
    },
    unsupported={
        **dict.fromkeys(
            ("TurnOnOffHostsEvent", "ChangeHostsPStateEvent"), "power states are not simulated here; use Batsim itself"
        ),
        **dict.fromkeys(
            ("CreateProbeEvent", "StopProbeEvent", "TriggerProbeEvent", "ResetProbeEvent"),
            "there are no probes here; use Batsim itself",
        ),
        "EDCHelloEvent": "it belongs into the answer to the handshake",
    },
    exact_dates=False,
    suffix=b"\0",
)
