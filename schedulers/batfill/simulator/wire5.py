"""Batsim 5's JSON messages: the handshake, the simulation's events on its wire, and the events of a reply.

The scheduler is an "external decision component" there. It is checked as strictly as Batsim 5.0.0-rc2 checks it: its
parser refuses unknown members, missing ones, and values of other types. Members whose names are not known for sure are
not sent: `profiles` of JobsKilledEvent, and of SimulationBeginsEvent the external events' files and Batsim's version.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from batfill.base.errors import WorkloadError
from batfill.protocol import decisions
from batfill.simulator.catalogue import parts_of_id
from batfill.simulator.wire import (
    ARRAY,
    BOOLEAN,
    FEATURES,
    INTEGER,
    NUMBER,
    OBJECT,
    OPTIONAL_NUMBER,
    STRING,
    Fields,
    Form,
    ReplyError,
    SimulationSettings,
    SimulationStopped,
    Wire,
    check_fields,
    kill_of,
    read_one_of,
    refuse_unused,
    shown_type,
)
from batfill.workloads.batsim5_json import EXTRA_FIELD, NEW_TYPES, extra_of, extra_text
from batfill.workloads.batsim_json import NO_WALLTIME, repeat_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from batfill.batsim_files.external_events import ExternalEvent
    from batfill.batsim_files.platform import Platform, PlatformHost
    from batfill.simulator.catalogue import Progress, SimulatedJob
    from batfill.simulator.wire import Profiles

JSON_FLAG = 2
SMALLEST_ANSWER = 4  # bytes: the flags
NO_HELLO = "Batsim did not receive an answer to its Hello message"  # tools look for Batsim's words
KILL_FEATURE = "forward_profiles_on_jobs_killed"
FORMER_FEATURE = "forward_unknown_external_events"
HELLO: Fields = {
    "batprotocol_version": STRING,
    "decision_component_name": STRING,
    "decision_component_version": STRING,
    "decision_component_commit": STRING,
    "requested_simulation_features": OBJECT,
}
UNITS_MS = {"Second": 1000, "Millisecond": 1}
STRATEGIES = ("SpreadOverHostsFirst", "FillOneHostCoresFirst")
SEQUENCE, DELAY = NEW_TYPES["composed"], NEW_TYPES["delay"]


def handshake(exchange: Callable[[bytes], bytes], text: str) -> tuple[SimulationSettings, list[str]]:
    """Introduce the simulation to the scheduler.

    Args:
        exchange: sends a frame and returns the scheduler's.
        text: the initialisation text.

    Returns:
        the settings that its features make, and what is ignored of its answer, one line each.

    Raises:
        SimulationStopped: the answer is none of Batsim's protocol, or asks for something that is not simulated.
    """
    content = text.encode()
    answer = exchange(struct.pack("=I", len(content)) + content)
    try:
        return _hello(answer)
    except ReplyError as error:
        raise SimulationStopped(f"the scheduler's answer to the handshake {error}") from None


def _hello(answer: bytes) -> tuple[SimulationSettings, list[str]]:
    """The settings and remarks of `handshake`, from the scheduler's answer."""
    if len(answer) < SMALLEST_ANSWER:
        raise ReplyError(f"has {len(answer)} bytes; it begins with 4 bytes of flags ({NO_HELLO})")
    (flags,) = struct.unpack("=I", answer[:SMALLEST_ANSWER])
    if not flags & JSON_FLAG:
        raise ReplyError(f"has the flags {flags}, for binary messages; only JSON is spoken here, flags {JSON_FLAG}")
    events = Wire5().read_reply(answer[SMALLEST_ANSWER:], 0, 0.0).events
    if [event.type for event in events] != ["EDCHelloEvent"]:
        shown = ", ".join(shown_type(event.type) for event in events) or f"none ({NO_HELLO})"
        raise ReplyError(f"needs one event, EDCHelloEvent, and has {shown:.200}")
    hello = events[0].data
    check_fields(hello, HELLO, {"scheduling_constraints": OBJECT}, "its hello ")
    known = [feature.hello for feature in FEATURES]
    wanted = hello["requested_simulation_features"]
    check_fields(wanted, {}, dict.fromkeys((*known, KILL_FEATURE, FORMER_FEATURE), BOOLEAN), "its features ")
    if wanted.get(FORMER_FEATURE):
        raise ReplyError(f"asks for {FORMER_FEATURE}, which Batsim 5 no longer has; leave it out")
    remarks = []
    if wanted.get(KILL_FEATURE):
        remarks.append(f"{KILL_FEATURE} does nothing here: it is not known for sure where a kill's profiles stand")
    if "scheduling_constraints" in hello:
        remarks.append("the hello's scheduling_constraints are ignored, as by Batsim 5.0.0-rc2")
    settings = SimulationSettings(**{feature.setting: wanted.get(feature.hello, False) for feature in FEATURES})
    if settings.reuse_profiles and not settings.dynamic_jobs:
        remarks.append("profile_reuse does nothing without dynamic_registration")
        settings = replace(settings, reuse_profiles=False)
    return settings, remarks


# Messages to the scheduler


def number(value: float) -> bytes:
    """A JSON number with up to twelve decimals, at least one."""
    if value.is_integer():
        return b"%d.0" % value
    text = b"%.12f" % value
    shorter = text.rstrip(b"0")
    return shorter + b"0" if shorter.endswith(b".") else shorter


def _pairs(properties: Mapping[str, str]) -> list[dict[str, str]]:
    """Properties as a list; a host without a role has no such property."""
    return [{"key": key, "value": value} for key, value in properties.items() if (key, value) != ("role", "")]


def _host(place: int, host: PlatformHost) -> dict[str, Any]:
    """A host of this id, as the first message describes it."""
    return {
        "id": place,
        "name": host.name,
        "pstate": 0,
        "pstate_count": 1 + len(host.slower),
        "state": "IDLE",
        "properties": _pairs(host.properties),
        "zone_properties": _pairs(host.zone_properties),
        "core_count": host.cores,
        "computation_speed": [host.speed, *host.slower],
    }


def _profile(workload: str, name: str, raw: dict[str, Any]) -> dict[str, Any]:
    """A profile, as messages describe it."""
    if raw["type"] == "composed":
        parts = [f"{workload}!{part}" for part in raw["seq"]]
        content: dict[str, Any] = {"repetition_count": repeat_of(raw), "profile_ids": parts}
    else:
        content = {"delay": float(raw["delay"])}
    described = {"id": f"{workload}!{name}", "profile_type": NEW_TYPES[raw["type"]], "profile": content}
    return described | ({EXTRA_FIELD: extra_text(raw[EXTRA_FIELD])} if EXTRA_FIELD in raw else {})


def _progress(workload: str, made: Progress) -> bytes:
    """How far a job had come: the delay that ran, inside the sequences around it."""
    text = b'{"kill_progress_type": "KillProgressAtomicProfile","kill_progress": {"profile_id": %b,"progress": %b}}' % (
        orjson.dumps(f"{workload}!{made.profile}"),
        number(made.share),
    )
    for step in reversed(made.way):
        text = (
            b'{"kill_progress_type": "KillProgressSequentialProfile","kill_progress": {"profile_id": %b,'
            b'"current_repetition": %d,"current_task_index": %d,"current_task_progress": %b}}'
            % (orjson.dumps(f"{workload}!{step.profile}"), step.repetition, step.part, text)
        )
    return text


# The scheduler's replies


def _by_strategy(strategy: str = STRATEGIES[0]) -> None:
    """No mapping: Batsim places the executors."""
    if strategy not in STRATEGIES:
        raise ReplyError(f"has the strategy {strategy!r:.60}; known: {', '.join(STRATEGIES)}")


PLACEMENTS = {
    "PredefinedExecutorPlacementStrategyWrapper": Form(_by_strategy, {}, {"strategy": STRING}),
    "CustomExecutorToHostMapping": Form(list, {"mapping": ARRAY}),
}
ALLOCATION: Fields = {"host_allocation": STRING, "executor_placement_type": STRING, "executor_placement": OBJECT}


def _execute(job_id: str, allocation: dict[str, Any], **unused: list[Any]) -> decisions.Execute:
    """ExecuteJobEvent."""
    refuse_unused(job_id, [name for name, given in unused.items() if given])
    check_fields(allocation, ALLOCATION, where="its allocation ")
    machines, kind, placement = (allocation[name] for name in ALLOCATION)
    mapping = read_one_of(PLACEMENTS, "executor_placement_type", kind, placement, "its executor_placement ")
    return decisions.Execute(job_id, machines, mapping)


def _milliseconds(name: str, value: int, unit: str, least: int) -> int:
    """A date or a period in its unit, which is at least so large."""
    if unit not in UNITS_MS:
        raise ReplyError(f"has the time_unit {unit!r:.60}; known: {', '.join(UNITS_MS)}")
    return _at_least(least, name, value) * UNITS_MS[unit]


def _at_least(least: int, name: str, value: int) -> int:
    """The value of this member, unless it is below 0 or 1."""
    if value < least:
        raise ReplyError(f"has {value} as its {name!r}, which is not {'above' if least else 'at least'} 0")
    return value


def _one_shot(time: int, time_unit: str = "Second") -> decisions.CallAt:
    """A call at a date, at once if it is past."""
    return decisions.CallAt(_milliseconds("time", time, time_unit, 0) / 1000, refuse_past=False)


def _periodic(
    period: int, mode_type: str, mode: dict[str, Any], time_unit: str = "Second", offset: int = 0
) -> decisions.CallEvery:
    """Calls at the multiples of a period."""
    if offset:
        raise WorkloadError(f"the offset of a periodic call is {offset}; Batsim 5 takes 0 only")
    times = read_one_of(MODES, "mode_type", mode_type, mode, "its mode ")
    return decisions.CallEvery(_milliseconds("period", period, time_unit, 1), times)


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


def _call_me_later(call_id: str, kind: str, when: dict[str, Any]) -> decisions.CallAt | decisions.CallEvery:
    """CallMeLaterEvent."""
    call: decisions.CallAt | decisions.CallEvery = read_one_of(CALLS, "when_type", kind, when, "its when ")
    return call._replace(id=call_id)


def _register_job(job_id: str, job: dict[str, Any]) -> decisions.Register:
    """RegisterJobEvent."""
    optional: Fields = {"walltime": OPTIONAL_NUMBER, EXTRA_FIELD: STRING, "rigid": BOOLEAN}
    check_fields(job, {"resource_request": INTEGER, "profile_id": STRING}, optional, "its job ")
    if not job.get("rigid", True):
        raise WorkloadError(f"job {job_id!r} is not rigid; here each job runs on as many hosts as it requests")
    workload, name = parts_of_id("job", job_id)
    owner, separator, profile = job["profile_id"].rpartition("!")
    raw = {"id": name, "res": job["resource_request"], "profile": profile}
    walltime = job.get("walltime")
    if walltime is not None and walltime >= 0:
        raw["walltime"] = walltime
    return decisions.Register(job_id, raw | _extra(job), owner if separator else workload, submitted_now=True)


def _extra(given: dict[str, Any]) -> dict[str, Any]:
    """The user's further data of a job or a profile, if any."""
    return {key: given[key] for key in (EXTRA_FIELD,) if key in given}


def _register_profile(given: dict[str, Any]) -> decisions.RegisterProfile:
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
    return decisions.RegisterProfile(workload, name, raw | _extra(given))


class Wire5(Wire):
    """The wire of Batsim 5.

    Args:
        arguments: the command line, which the first message repeats.
        context: the execution context, JSON.
    """

    type_field, data_field = "event_type", "event"
    end = b"\0 \t\r\n"
    refuses_past = False
    forms: ClassVar = {
        "ExecuteJobEvent": Form(
            _execute,
            {"job_id": STRING, "allocation": OBJECT},
            {"profile_allocation_override": ARRAY, "storage_placement": ARRAY},
        ),
        "RejectJobEvent": Form(decisions.Reject, {"job_id": STRING}),
        "KillJobsEvent": Form(partial(kill_of, refuse_repeats=True), {"job_ids": ARRAY}),
        "CallMeLaterEvent": Form(_call_me_later, {"call_me_later_id": STRING, "when_type": STRING, "when": OBJECT}),
        "StopCallMeLaterEvent": Form(decisions.StopCalls, {"call_me_later_id": STRING}),
        "RegisterJobEvent": Form(_register_job, {"job_id": STRING, "job": OBJECT}),
        "RegisterProfileEvent": Form(_register_profile, {"profile": OBJECT}),
        "FinishRegistrationEvent": Form(partial(decisions.Registering, False)),
        "ForceSimulationStopEvent": Form(decisions.ForceStop),
    }
    unsupported: ClassVar = {
        **dict.fromkeys(
            ("TurnOnOffHostsEvent", "ChangeHostsPStateEvent"), "power states are not simulated here; use Batsim itself"
        ),
        **dict.fromkeys(
            ("CreateProbeEvent", "StopProbeEvent", "TriggerProbeEvent", "ResetProbeEvent"),
            "there are no probes here; use Batsim itself",
        ),
        "EDCHelloEvent": "it belongs into the answer to the handshake",
    }
    no_more_jobs = b"AllStaticJobsHaveBeenSubmittedEvent", b"{}"
    no_more_external_events = b"AllStaticExternalEventsHaveBeenInjectedEvent", b"{}"
    simulation_ends = b"SimulationEndsEvent", b"{}"
    notices_alone = True
    begins_with_submissions = True
    profiles_until_last_job = True
    to_register = "ask for dynamic_registration in the hello"
    to_reuse = "ask for profile_reuse in the hello"
    end_of_registration = "FinishRegistrationEvent"

    def __init__(self, arguments: Sequence[str] = (), context: str = "{}") -> None:
        self._arguments = list(arguments)
        self._context = context

    def message(self, now: float, events: Sequence[bytes]) -> bytes:
        """See `Wire`; a NUL follows."""
        return b'{"now": %b,"events": [%b]}\0' % (number(now), b",".join(events))

    def event(self, date: float, kind: bytes, data: bytes = b"{}") -> bytes:
        """See `Wire`."""
        return b'{"timestamp": %b,"event_type": "%b","event": %b}' % (number(date), kind, data)

    def simulation_begins(
        self, platform: Platform, settings: SimulationSettings, paths: dict[str, str], profiles: Profiles
    ) -> bytes:
        """SimulationBeginsEvent."""
        storage = set(platform.storage_ids)
        hosts = [_host(place, host) for place, host in enumerate(platform.machines)]
        forwarded: list[dict[str, Any]] = []
        if settings.forward_profiles_first:
            forwarded = [_profile(w, name, raw) for w, known in profiles.items() for name, raw in known.items()]
        data = {
            "host_number": len(hosts),
            "computation_host_number": len(platform.compute),
            "computation_hosts": [host for host in hosts if host["id"] not in storage],
            "storage_host_number": len(platform.storage),
            "storage_hosts": [host for host in hosts if host["id"] in storage],
            "batsim_arguments": self._arguments,
            "batsim_execution_context_json": self._context,
            "workloads": [{"name": name, "filename": path} for name, path in paths.items()],
            "profiles": forwarded,
        }
        return self.event(0.0, b"SimulationBeginsEvent", orjson.dumps(data))

    def job_submitted(self, date: float, job: SimulatedJob, *, with_profile: bool) -> bytes:
        """JobSubmittedEvent."""
        described = {
            "resource_request": job.res,
            "walltime": job.walltime if job.walltime != NO_WALLTIME else None,
            EXTRA_FIELD: extra_text(extra_of(job.id, job.raw)),
            "rigid": True,
            "profile_id": f"{job.owner}!{job.profile}",
        }
        profile = b""
        if with_profile:
            profile = b',"profile": %b' % orjson.dumps(_profile(job.owner, job.profile, job.profile_raw))
        data = b'{"job_id": %b,"job": %b,"submission_time": %b%b}'
        return self.event(
            date, b"JobSubmittedEvent", data % (job.id_json, orjson.dumps(described), number(job.subtime), profile)
        )

    def job_completed(self, date: float, job: SimulatedJob, return_code: int) -> bytes:
        """JobCompletedEvent; the return code is unsigned."""
        data = b'{"job_id": %b,"state": "%b","return_code": %d}'
        return self.event(date, b"JobCompletedEvent", data % (job.id_json, job.state.encode(), return_code % 2**32))

    def jobs_killed(
        self, date: float, jobs: Sequence[SimulatedJob], progress: Sequence[tuple[SimulatedJob, Progress]]
    ) -> bytes:
        """JobsKilledEvent."""
        ids = b",".join([job.id_json for job in jobs])
        made = [(job.id_json, _progress(job.owner, how_far)) for job, how_far in progress]
        done = b",".join([b'{"job_id": %b,"wrapper": %b}' % pair for pair in made])
        return self.event(date, b"JobsKilledEvent", b'{"job_ids": [%b],"progresses": [%b]}' % (ids, done))

    def requested_call(self, date: float, call_id: str, *, last: bool) -> bytes:
        """RequestedCallEvent."""
        data = b'{"call_me_later_id": %b,"last_periodic_call": %b}'
        return self.event(date, b"RequestedCallEvent", data % (orjson.dumps(call_id), b"true" if last else b"false"))

    def external_event(self, date: float, event: ExternalEvent) -> bytes:
        """ExternalEventOccurredEvent."""
        return self.event(date, b"ExternalEventOccurredEvent", event.raw)
