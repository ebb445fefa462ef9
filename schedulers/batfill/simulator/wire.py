"""The simulation's end of Batsim's protocol: what it reports, in the words of either version, and what it reads.

`Wire4` and `Wire5` write one function an event. A reply is read by the form that `protocol/` gives its messages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import orjson

from batfill.base.errors import RunFailed
from batfill.base.files import refuse_doubles
from batfill.model.jobs import LONGEST_S
from batfill.protocol.batsim4 import BATSIM_4
from batfill.protocol.batsim5 import BATSIM_5, HELLO, JSON_FLAG, LENGTH
from batfill.protocol.forms import (
    BOOLEAN,
    MESSAGE,
    OBJECT,
    RESOLUTION_S,
    FormError,
    Version,
    check_fields,
    parsed,
    shown_type,
)
from batfill.workloads.batsim5_json import EXTRA_FIELD, NEW_TYPES, STRATEGY, STRATEGY_OF, extra_of, extra_text
from batfill.workloads.batsim_json import NO_WALLTIME, repeat_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from batfill.batsim_files.external_events import ExternalEvent
    from batfill.batsim_files.platform import Platform, PlatformHost
    from batfill.simulator.catalogue import Progress, SimulatedJob

Profiles = dict[str, dict[str, dict[str, Any]]]  # their descriptions, by workload and name

# Redis is never used, but schedulers read its fields.
REDIS = {"hostname": "127.0.0.1", "port": 6379, "prefix": "default"}

NO_HELLO = "Batsim did not receive an answer to its Hello message"  # tools look for Batsim's words
KILL_FEATURE = "forward_profiles_on_jobs_killed"
FORMER_FEATURE = "forward_unknown_external_events"


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """The settings of a simulation; the defaults are those of Batsim 4's options."""

    forward_profiles: bool = False  # with each submission
    forward_profiles_first: bool = False  # all in the first message, in which Batsim 4 always has them
    dynamic_jobs: bool = False
    acknowledge: bool = False
    reuse_profiles: bool = False
    share_compute: bool = False
    share_storage: bool = True
    forward_unknown_events: bool = False
    sched_config: str = ""


class Feature(NamedTuple):
    """A setting that Batsim 4 has on its command line, and Batsim 5 in the scheduler's hello."""

    setting: str  # of `SimulationSettings`
    hello: str
    option: str = ""  # "" for none


FEATURES = (
    Feature("dynamic_jobs", "dynamic_registration", "--enable-dynamic-jobs"),
    Feature("reuse_profiles", "profile_reuse", "--enable-profile-reuse"),
    Feature("acknowledge", "acknowledge_dynamic_jobs", "--acknowledge-dynamic-jobs"),
    Feature("forward_profiles", "forward_profiles_on_job_submission", "--forward-profiles-on-submission"),
    Feature("forward_profiles_first", "forward_profiles_on_simulation_begins"),
)


class SimulationStopped(RunFailed):
    """The simulation cannot continue; the message says when, what, and why."""


class Asked(NamedTuple):
    """One event of a reply."""

    date: float
    type: str
    data: dict[str, Any]
    where: tuple[int, int]  # the number of the message that the reply answers, and the place in the reply's events


class Reply(NamedTuple):
    """The scheduler's reply: its events, and the date from which it accepts the next message."""

    now: float
    events: list[Asked]


class _Wire:
    """What both versions share. Dates are seconds."""

    version: ClassVar[Version]
    end: ClassVar[bytes] = b""  # bytes that may follow a reply
    refuses_past: ClassVar[bool] = True  # a reply that is dated before its message; otherwise it counts now
    # What `event` takes after the date: all static jobs are submitted, all external events have happened.
    no_more_jobs: ClassVar[tuple[str, bytes]]
    no_more_external_events: ClassVar[tuple[str, bytes]]
    notices_alone: ClassVar[bool]  # the end of the static submissions has its own message, unless all are at date 0
    begins_with_submissions: ClassVar[bool]  # if several files bring events, the first message has those of date 0, too
    profiles_until_last_job: ClassVar[bool]  # a profile stays until the last of its jobs has ended, not the first
    # In words: how registrations are enabled, how profiles are reused, what ends registrations.
    to_register: ClassVar[str]
    to_reuse: ClassVar[str]
    end_of_registration: ClassVar[str]

    def read_reply(self, text: bytes, number: int, now: float) -> Reply:
        """The scheduler's reply to the message of this number and date, checked for its form.

        Raises:
            FormError: it is not a message, or is dated before `now` where that is no date.
        """
        text = text.rstrip(self.end)
        reply = parsed(text)
        check_fields(reply, MESSAGE)
        try:
            refuse_doubles(text, reply)
        except ValueError as error:
            raise FormError(f"{error}; send it once") from None
        done, asked = reply["now"], []
        if done < 0:
            raise FormError(f"has {done} as its 'now', which is not a date from 0 on")
        if done > LONGEST_S:
            raise FormError(f"has {done} as its 'now'; batfill's limit is {LONGEST_S:g} s, 30,000 years")
        last: float = 0
        for place, item in enumerate(reply["events"]):
            kind: Any = item.get(self.version.type_field) if type(item) is dict else None
            where = f"has events[{place}]{f' ({shown_type(kind)})' if type(kind) is str else ''}, which "
            check_fields(item, self.version.event, where=where)
            date = item["timestamp"]
            if not last <= date <= done:
                since = f"that of the previous event, {last}," if place else "0"
                raise FormError(
                    f"{where}has the timestamp {date}, which is not a date from {since} to the reply's 'now', {done}"
                )
            last = date
            asked.append(Asked(float(date), kind, item[self.version.data_field], (number, place)))
        if done < now - RESOLUTION_S and self.refuses_past:
            raise FormError(f"has the date {done:.6f} as its 'now', which is in the past")
        return Reply(float(done) if self.refuses_past else max(float(done), now), asked)


def _progress_4(made: Progress) -> bytes:
    """A job's entry in `job_progress`: for a sequence, the place of its current part and that part's own entry.

    Source: Batsim's description of JOB_KILLED and its source code. The place counts on through the repetitions.
    """
    text = b'{"profile_name":%b,"progress":%.6f}' % (orjson.dumps(made.profile), made.share)
    for step in reversed(made.way):
        place = step.repetition * step.n_parts + step.part
        text = b'{"profile_name":%b,"current_task_index":%d,"current_task":%b}' % (
            orjson.dumps(step.profile),
            place,
            text,
        )
    return text


class Wire4(_Wire):
    """The wire of Batsim 4. Dates have six decimals, as in Batsim, so that they survive the round trip."""

    version = BATSIM_4
    no_more_jobs = "notified", b'{"type":"no_more_static_job_to_submit"}'
    no_more_external_events = "notified", b'{"type":"no_more_external_event_to_occur"}'
    notices_alone = False
    begins_with_submissions = False
    profiles_until_last_job = False
    to_register = "run with --enable-dynamic-jobs"
    to_reuse = "run with --enable-profile-reuse"
    end_of_registration = "NOTIFY registration_finished"

    def message(self, now: float, events: Sequence[bytes]) -> bytes:
        """The message that carries these events."""
        return b'{"now":%.6f,"events":[%b]}' % (now, b",".join(events))

    def event(self, date: float, means: str, data: bytes = b"{}") -> bytes:
        """The event with this meaning; `data` is a JSON object."""
        return b'{"timestamp":%.6f,"type":"%b","data":%b}' % (date, self.version.type_of[means], data)

    def simulation_begins(
        self, platform: Platform, settings: SimulationSettings, paths: dict[str, str], profiles: Profiles
    ) -> bytes:
        """The first event: machines, settings, and each workload's path and profiles."""
        n_compute = len(platform.compute)
        resources = [
            {
                "id": number,
                "name": host.name,
                "state": "idle",
                "properties": host.properties,
                "zone_properties": host.zone_properties,
            }
            for number, host in enumerate(platform.machines)
        ]
        data = {
            "nb_resources": len(resources),
            "nb_compute_resources": n_compute,
            "nb_storage_resources": len(platform.storage),
            "allow_compute_sharing": settings.share_compute,
            "allow_storage_sharing": settings.share_storage,
            "config": {
                "redis-enabled": False,
                **{f"redis-{key}": value for key, value in REDIS.items()},
                "profiles-forwarded-on-submission": settings.forward_profiles,
                "dynamic-jobs-enabled": settings.dynamic_jobs,
                "dynamic-jobs-acknowledged": settings.acknowledge,
                "profile-reuse-enabled": settings.reuse_profiles,
                "sched-config": settings.sched_config,
                "forward-unknown-events": settings.forward_unknown_events,
            },
            "compute_resources": resources[:n_compute],
            "storage_resources": resources[n_compute:],
            "workloads": paths,
            "profiles": profiles,
        }
        return self.event(0.0, "begin", orjson.dumps(data))

    def job_submitted(self, date: float, job: SimulatedJob, *, with_profile: bool) -> bytes:
        """A job was submitted: the job with all the user's fields, and the id with the workload's name."""
        profile = b',"profile":%b' % orjson.dumps(job.profile_raw) if with_profile else b""
        description = orjson.dumps({**job.raw, "id": job.id})
        return self.event(date, "submitted", b'{"job_id":%b,"job":%b%b}' % (job.id_json, description, profile))

    def job_completed(self, date: float, job: SimulatedJob, return_code: int) -> bytes:
        """A job ended in its state."""
        assert job.machines
        data = b'{"job_id":%b,"job_state":"%b","return_code":%d,"alloc":"%b"}'
        values = (job.id_json, job.state.encode(), return_code, job.machines.text.encode())
        return self.event(date, "completed", data % values)

    def jobs_killed(
        self, date: float, jobs: Sequence[SimulatedJob], progress: Sequence[tuple[SimulatedJob, Progress]]
    ) -> bytes:
        """The jobs of one request to kill, and the progress of those that ran."""
        ids = b",".join([job.id_json for job in jobs])
        done = b",".join([b"%b:%b" % (job.id_json, _progress_4(made)) for job, made in progress])
        return self.event(date, "jobs_killed", b'{"job_ids":[%b],"job_progress":{%b}}' % (ids, done))

    def requested_call(self, date: float, call_id: str, *, last: bool) -> bytes:
        """A requested call."""
        return self.event(date, "called")

    def external_event(self, date: float, event: ExternalEvent) -> bytes:
        """An external event: machines that change availability, or what stands in its file."""
        if event.machines is None:
            return self.event(date, "notified", event.raw)
        changed = {"type": f"event_{event.type}", "resources": event.machines.text}
        return self.event(date, "notified", orjson.dumps(changed))


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
        "pstate": host.pstate,
        "pstate_count": len(host.speeds),
        "state": "IDLE",
        "properties": _pairs(host.properties),
        "zone_properties": _pairs(host.zone_properties),
        "core_count": host.cores,
        "computation_speed": host.speeds,
    }


def _profile(workload: str, name: str, raw: dict[str, Any]) -> dict[str, Any]:
    """A profile, as messages describe it."""
    if raw["type"] == "composed":
        parts = [f"{workload}!{part}" for part in raw["seq"]]
        content: dict[str, Any] = {"repetition_count": repeat_of(raw), "profile_ids": parts}
    elif raw["type"] in STRATEGY_OF:
        amounts = {"computation_amount": float(raw["cpu"]), "communication_amount": 0.0}
        content = amounts | {STRATEGY: STRATEGY_OF[raw["type"]]}
    else:
        content = {"delay": float(raw["delay"])}
    described = {"id": f"{workload}!{name}", "profile_type": NEW_TYPES[raw["type"]], "profile": content}
    return described | ({EXTRA_FIELD: extra_text(raw[EXTRA_FIELD])} if EXTRA_FIELD in raw else {})


def _progress_5(workload: str, made: Progress) -> bytes:
    """How far a job had come: the part that ran, inside the sequences around it."""
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


class Wire5(_Wire):
    """The wire of Batsim 5.

    Members whose names are not known for sure are not sent: `profiles` of JobsKilledEvent, and of SimulationBeginsEvent
    the external events' files and Batsim's version.

    Args:
        arguments: the command line, which the first message repeats.
        context: the execution context, JSON.
    """

    version = BATSIM_5
    end = b"\0 \t\r\n"
    refuses_past = False
    no_more_jobs = "no_more_jobs", b"{}"
    no_more_external_events = "no_more_external_events", b"{}"
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
        """The message that carries these events; a NUL follows."""
        return b'{"now": %b,"events": [%b]}\0' % (number(now), b",".join(events))

    def event(self, date: float, means: str, data: bytes = b"{}") -> bytes:
        """The event with this meaning; `data` is a JSON object."""
        return b'{"timestamp": %b,"event_type": "%b","event": %b}' % (number(date), self.version.type_of[means], data)

    def simulation_begins(
        self, platform: Platform, settings: SimulationSettings, paths: dict[str, str], profiles: Profiles
    ) -> bytes:
        """The first event: machines, and the workloads' paths."""
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
        return self.event(0.0, "begin", orjson.dumps(data))

    def job_submitted(self, date: float, job: SimulatedJob, *, with_profile: bool) -> bytes:
        """A job was submitted; the user's fields are a text."""
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
            date, "submitted", data % (job.id_json, orjson.dumps(described), number(job.subtime), profile)
        )

    def job_completed(self, date: float, job: SimulatedJob, return_code: int) -> bytes:
        """A job ended in its state; the return code is unsigned."""
        data = b'{"job_id": %b,"state": "%b","return_code": %d}'
        return self.event(date, "completed", data % (job.id_json, job.state.encode(), return_code % 2**32))

    def jobs_killed(
        self, date: float, jobs: Sequence[SimulatedJob], progress: Sequence[tuple[SimulatedJob, Progress]]
    ) -> bytes:
        """The jobs of one request to kill, and the progress of those that ran."""
        ids = b",".join([job.id_json for job in jobs])
        made = [(job.id_json, _progress_5(job.owner, how_far)) for job, how_far in progress]
        done = b",".join([b'{"job_id": %b,"wrapper": %b}' % pair for pair in made])
        return self.event(date, "jobs_killed", b'{"job_ids": [%b],"progresses": [%b]}' % (ids, done))

    def requested_call(self, date: float, call_id: str, *, last: bool) -> bytes:
        """A requested call; `last`: of a periodic one that ends."""
        data = b'{"call_me_later_id": %b,"last_periodic_call": %b}'
        return self.event(date, "called", data % (orjson.dumps(call_id), b"true" if last else b"false"))

    def external_event(self, date: float, event: ExternalEvent) -> bytes:
        """An external event happened."""
        return self.event(date, "occurred", event.raw)


Wire = Wire4 | Wire5


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
    answer = exchange(LENGTH.pack(len(content)) + content)
    try:
        return _hello(answer)
    except FormError as error:
        raise SimulationStopped(f"the scheduler's answer to the handshake {error}") from None


def _hello(answer: bytes) -> tuple[SimulationSettings, list[str]]:
    """The settings and remarks of `handshake`, from the scheduler's answer."""
    if len(answer) < LENGTH.size:
        raise FormError(f"has {len(answer)} bytes; it begins with 4 bytes of flags ({NO_HELLO})")
    (flags,) = LENGTH.unpack_from(answer)
    if not flags & JSON_FLAG:
        raise FormError(f"has the flags {flags}, for binary messages; only JSON is spoken here, flags {JSON_FLAG}")
    events = Wire5().read_reply(answer[LENGTH.size :], 0, 0.0).events
    if [event.type for event in events] != ["EDCHelloEvent"]:
        shown = ", ".join(shown_type(event.type) for event in events) or f"none ({NO_HELLO})"
        raise FormError(f"needs one event, EDCHelloEvent, and has {shown:.200}")
    hello = events[0].data
    check_fields(hello, HELLO, {"scheduling_constraints": OBJECT}, "its hello ")
    known = [feature.hello for feature in FEATURES]
    wanted = hello["requested_simulation_features"]
    check_fields(wanted, {}, dict.fromkeys((*known, KILL_FEATURE, FORMER_FEATURE), BOOLEAN), "its features ")
    if wanted.get(FORMER_FEATURE):
        raise FormError(f"asks for {FORMER_FEATURE}, which Batsim 5 no longer has; leave it out")
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
