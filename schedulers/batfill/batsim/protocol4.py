"""Batsim 4's JSON messages: the simulation's events on its wire, and the effect of each event of a reply.

Dates have six decimals, as in Batsim, so that they survive the round trip.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from batfill.batsim.protocol import (
    NUMBER,
    OBJECT,
    RESOLUTION_S,
    STRING,
    Reply,
    ReplyError,
    check_fields,
    job_ids_of,
    read_message,
    texts_of,
)
from batfill.errors import WorkloadError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from batfill.batsim.catalogue import Job, Progress
    from batfill.batsim.external_events import ExternalEvent
    from batfill.batsim.platform import Platform
    from batfill.batsim.protocol import SimulationSettings
    from batfill.batsim.simulation import Call, Simulation

# Redis is never used, but schedulers read its fields.
REDIS = {"hostname": "127.0.0.1", "port": 6379, "prefix": "default"}


# What would end a row of the result file, for readers of any kind, or the text within it.
UNWRITABLE_TEXT = re.compile('["\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]')


def event(date: float, kind: bytes, data: bytes = b"{}") -> bytes:
    """An event of this type; `data` is a JSON object."""
    return b'{"timestamp":%.6f,"type":"%b","data":%b}' % (date, kind, data)


def introduction(
    platform: Platform,
    settings: SimulationSettings,
    paths: dict[str, str],
    profiles: dict[str, dict[str, dict[str, Any]]],
) -> bytes:
    """The data of SIMULATION_BEGINS: machines, settings, and each workload's path and profiles."""
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
    return orjson.dumps(
        {
            "nb_resources": len(resources),
            "nb_compute_resources": n_compute,
            "nb_storage_resources": len(platform.storage),
            "allow_compute_sharing": settings.share_compute,
            "allow_storage_sharing": settings.share_storage,
            "config": _config(settings),
            "compute_resources": resources[:n_compute],
            "storage_resources": resources[n_compute:],
            "workloads": paths,
            "profiles": profiles,
        }
    )


def _config(settings: SimulationSettings) -> dict[str, Any]:
    """The `config` of SIMULATION_BEGINS."""
    return {
        "redis-enabled": False,
        **{f"redis-{key}": value for key, value in REDIS.items()},
        "profiles-forwarded-on-submission": settings.forward_profiles,
        "dynamic-jobs-enabled": settings.dynamic_jobs,
        "dynamic-jobs-acknowledged": settings.acknowledge,
        "profile-reuse-enabled": settings.reuse_profiles,
        "sched-config": settings.sched_config,
        "forward-unknown-events": settings.forward_unknown_events,
    }


def notify(date: float, kind: str, machines: str | None = None) -> bytes:
    """NOTIFY, with these machines if any."""
    about = {} if machines is None else {"resources": machines}
    return event(date, b"NOTIFY", orjson.dumps({"type": kind, **about}))


def _progress(made: Progress) -> bytes:
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


# The effects of a reply's events


def _execute_job(simulation: Simulation, data: dict[str, Any]) -> None:
    """Start a job on the given machines."""
    for field in ("storage_mapping", "additional_io_job"):
        if field in data:
            raise WorkloadError(
                f"job {data.get('job_id')!r:.60} has a {field}, which delay profiles do not use; leave it out"
            )
    check_fields(data, {"job_id": STRING, "alloc": STRING}, {"mapping": OBJECT})
    simulation.execute(data["job_id"], data["alloc"], _places(data["mapping"]) if "mapping" in data else None)


def _places(mapping: dict[str, Any]) -> list[Any]:
    """The place of each executor 0, 1, ... in {executor: place}; a place may be an integer or its digits."""
    places = [mapping.get(str(executor)) for executor in range(len(mapping))]
    return [int(p) if type(p) is str and p.isascii() and p.isdigit() and len(p) < 10 else p for p in places]


def _reject_job(simulation: Simulation, data: dict[str, Any]) -> None:
    """Reject a waiting job."""
    simulation.reject(*texts_of(data, "job_id"))


def _kill_job(simulation: Simulation, data: dict[str, Any]) -> None:
    """Kill running jobs; a second kill of the same job is not acknowledged."""
    simulation.kill(job_ids_of(data))


def _call_me_later(simulation: Simulation, data: dict[str, Any]) -> None:
    """Request a call at a date."""
    check_fields(data, {"timestamp": NUMBER})
    date = data["timestamp"]
    if date <= simulation.now:
        raise WorkloadError(f"the scheduler requests a call at {date:.6f}, which is not in the future")
    simulation.call_at(float(date))


def _register_job(simulation: Simulation, data: dict[str, Any]) -> None:
    """Add a job and submit it now."""
    check_fields(data, {"job_id": STRING, "job": OBJECT})
    simulation.register_job(data["job_id"], data["job"])


def _register_profile(simulation: Simulation, data: dict[str, Any]) -> None:
    """Add a profile."""
    check_fields(data, {"workload_name": STRING, "profile_name": STRING, "profile": OBJECT})
    simulation.register_profile(data["workload_name"], data["profile_name"], data["profile"])


def _set_job_metadata(simulation: Simulation, data: dict[str, Any]) -> None:
    """Attach a text to a job, for the result file."""
    job_id, metadata = texts_of(data, "job_id", "metadata")
    if unwritable := UNWRITABLE_TEXT.search(metadata):
        raise WorkloadError(
            f"the metadata of job {job_id!r:.60} holds {unwritable[0]!r}, which its row of the csv file cannot: "
            f"{metadata!r:.60}"
        )
    simulation.catalogue[job_id].metadata = metadata


def _change_job_state(simulation: Simulation, data: dict[str, Any]) -> None:
    """Declare that a job runs or has ended outside the simulated machines."""
    simulation.change_state(*texts_of(data, "job_id", "job_state"))


def _notify(simulation: Simulation, data: dict[str, Any]) -> None:
    """Set whether more jobs may be registered."""
    (kind,) = texts_of(data, "type")
    if kind not in ("registration_finished", "continue_registration"):
        raise WorkloadError(f"{kind!r} is not known; known: registration_finished, continue_registration")
    simulation.registering = kind == "continue_registration"
    if simulation.registering and not simulation.settings.dynamic_jobs:
        raise WorkloadError(f"registration cannot continue, since it is off; {Batsim4.to_register}")


class Batsim4:
    """The wire of Batsim 4."""

    decisions: Mapping[str, Callable[[Simulation, dict[str, Any]], None]] = {
        "EXECUTE_JOB": _execute_job,
        "REJECT_JOB": _reject_job,
        "KILL_JOB": _kill_job,
        "CALL_ME_LATER": _call_me_later,
        "REGISTER_JOB": _register_job,
        "REGISTER_PROFILE": _register_profile,
        "SET_JOB_METADATA": _set_job_metadata,
        "CHANGE_JOB_STATE": _change_job_state,
        "NOTIFY": _notify,
    }
    unsupported: Mapping[str, str] = {
        "SET_RESOURCE_STATE": "machines' power states need --energy, which is not simulated here; use Batsim itself",
        "QUERY": "the energy consumed needs --energy, which is not simulated here; use Batsim itself",
        "ANSWER": "schedulers receive no queries here; use Batsim itself",
        "TO_JOB_MSG": "jobs receive no messages here; use Batsim itself",
    }
    notices_alone = False
    begins_with_submissions = False
    profiles_until_last_job = False
    to_register = "run with --enable-dynamic-jobs"
    to_reuse = "run with --enable-profile-reuse"
    end_of_registration = "NOTIFY registration_finished"

    def message(self, now: float, events: Sequence[bytes]) -> bytes:
        """The message that carries these events."""
        return b'{"now":%.6f,"events":[%b]}' % (now, b",".join(events))

    def simulation_begins(
        self,
        platform: Platform,
        settings: SimulationSettings,
        paths: dict[str, str],
        profiles: dict[str, dict[str, dict[str, Any]]],
    ) -> bytes:
        """SIMULATION_BEGINS."""
        return event(0.0, b"SIMULATION_BEGINS", introduction(platform, settings, paths, profiles))

    def job_submitted(self, date: float, job: Job, *, with_profile: bool) -> bytes:
        """JOB_SUBMITTED: the job with all the user's fields, and the id with the workload's name."""
        profile = b',"profile":%b' % orjson.dumps(job.profile_raw) if with_profile else b""
        description = orjson.dumps({**job.raw, "id": job.id})
        return event(date, b"JOB_SUBMITTED", b'{"job_id":%b,"job":%b%b}' % (job.id_json, description, profile))

    def job_completed(self, date: float, job: Job, return_code: int) -> bytes:
        """JOB_COMPLETED."""
        assert job.machines
        return event(
            date,
            b"JOB_COMPLETED",
            b'{"job_id":%b,"job_state":"%b","return_code":%d,"alloc":"%b"}'
            % (job.id_json, job.state.encode(), return_code, job.machines.text.encode()),
        )

    def jobs_killed(self, date: float, jobs: Sequence[Job], progress: Sequence[tuple[Job, Progress]]) -> bytes:
        """JOB_KILLED."""
        ids = b",".join([job.id_json for job in jobs])
        done = b",".join([b"%b:%b" % (job.id_json, _progress(made)) for job, made in progress])
        return event(date, b"JOB_KILLED", b'{"job_ids":[%b],"job_progress":{%b}}' % (ids, done))

    def requested_call(self, date: float, call: Call, *, last: bool) -> bytes:
        """REQUESTED_CALL."""
        return event(date, b"REQUESTED_CALL")

    def no_more_jobs(self, date: float) -> bytes:
        """NOTIFY no_more_static_job_to_submit."""
        return notify(date, "no_more_static_job_to_submit")

    def no_more_external_events(self, date: float) -> bytes:
        """NOTIFY no_more_external_event_to_occur."""
        return notify(date, "no_more_external_event_to_occur")

    def external_event(self, date: float, event_: ExternalEvent) -> bytes:
        """NOTIFY: machines that change availability, or an event of another type as it stands in its file."""
        if event_.machines is None:
            return event(date, b"NOTIFY", event_.raw)
        return notify(date, f"event_{event_.type}", event_.machines.text)

    def simulation_ends(self, date: float) -> bytes:
        """SIMULATION_ENDS."""
        return event(date, b"SIMULATION_ENDS")

    def read_reply(self, text: bytes, number: int, now: float) -> Reply:
        """The reply to the message of this number and date, checked for its form.

        Raises:
            ReplyError: it is not a message, or is dated before `now`.
        """
        reply = read_message(text, number, "type", "data")
        if reply.now < now - RESOLUTION_S:
            raise ReplyError(f"has the date {reply.now:.6f} as its 'now', which is in the past")
        return reply
