"""Batsim 4's JSON messages: the simulation's events on its wire, and the effect of each event of a reply.

Dates have six decimals, as in Batsim, so that they survive the round trip.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from batfill.base.errors import WorkloadError
from batfill.protocol import decisions
from batfill.simulator.wire import (
    ANY,
    ARRAY,
    NUMBER,
    OBJECT,
    STRING,
    Form,
    Wire,
    kill_of,
    refuse_unused,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.batsim_files.external_events import ExternalEvent
    from batfill.batsim_files.platform import Platform
    from batfill.simulator.catalogue import Progress, SimulatedJob
    from batfill.simulator.wire import Profiles, SimulationSettings

# Redis is never used, but schedulers read its fields.
REDIS = {"hostname": "127.0.0.1", "port": 6379, "prefix": "default"}

# What would end a row of the result file, for readers of any kind, or the text within it.
UNWRITABLE_TEXT = re.compile('["\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]')


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


def _execute(job_id: str, machines: str, mapping: dict[str, Any] | None = None, **unused: Any) -> decisions.Execute:
    """EXECUTE_JOB: executors 0, 1, ... have places in {executor: place}; a place may be an integer or its digits."""
    refuse_unused(job_id, unused)
    if mapping is None:
        return decisions.Execute(job_id, machines)
    places: list[Any] = [mapping.get(str(executor)) for executor in range(len(mapping))]
    digits = [type(p) is str and p.isascii() and p.isdigit() and len(p) < 10 for p in places]
    return decisions.Execute(job_id, machines, [int(p) if d else p for p, d in zip(places, digits, strict=True)])


def _set_job_metadata(job_id: str, metadata: str) -> decisions.SetMetadata:
    """SET_JOB_METADATA."""
    if unwritable := UNWRITABLE_TEXT.search(metadata):
        raise WorkloadError(
            f"the metadata of job {job_id!r:.60} holds {unwritable[0]!r}, which its row of the csv file cannot: "
            f"{metadata!r:.60}"
        )
    return decisions.SetMetadata(job_id, metadata)


def _notify(kind: str) -> decisions.Registering:
    """NOTIFY."""
    if kind not in ("registration_finished", "continue_registration"):
        raise WorkloadError(f"{kind!r} is not known; known: registration_finished, continue_registration")
    return decisions.Registering(kind == "continue_registration")


class Wire4(Wire):
    """The wire of Batsim 4."""

    type_field, data_field = "type", "data"
    forms: ClassVar = {
        "EXECUTE_JOB": Form(
            _execute,
            {"job_id": STRING, "alloc": STRING},
            {"mapping": OBJECT, "storage_mapping": ANY, "additional_io_job": ANY},
        ),
        "REJECT_JOB": Form(decisions.Reject, {"job_id": STRING}),
        "KILL_JOB": Form(kill_of, {"job_ids": ARRAY}),
        "CALL_ME_LATER": Form(decisions.CallAt, {"timestamp": NUMBER}),
        "REGISTER_JOB": Form(decisions.Register, {"job_id": STRING, "job": OBJECT}),
        "REGISTER_PROFILE": Form(
            decisions.RegisterProfile, {"workload_name": STRING, "profile_name": STRING, "profile": OBJECT}
        ),
        "SET_JOB_METADATA": Form(_set_job_metadata, {"job_id": STRING, "metadata": STRING}),
        "CHANGE_JOB_STATE": Form(decisions.ChangeState, {"job_id": STRING, "job_state": STRING}),
        "NOTIFY": Form(_notify, {"type": STRING}),
    }
    unsupported: ClassVar = {
        "SET_RESOURCE_STATE": "machines' power states need --energy, which is not simulated here; use Batsim itself",
        "QUERY": "the energy consumed needs --energy, which is not simulated here; use Batsim itself",
        "ANSWER": "schedulers receive no queries here; use Batsim itself",
        "TO_JOB_MSG": "jobs receive no messages here; use Batsim itself",
    }
    no_more_jobs = b"NOTIFY", b'{"type":"no_more_static_job_to_submit"}'
    no_more_external_events = b"NOTIFY", b'{"type":"no_more_external_event_to_occur"}'
    simulation_ends = b"SIMULATION_ENDS", b"{}"
    notices_alone = False
    begins_with_submissions = False
    profiles_until_last_job = False
    to_register = "run with --enable-dynamic-jobs"
    to_reuse = "run with --enable-profile-reuse"
    end_of_registration = "NOTIFY registration_finished"

    def message(self, now: float, events: Sequence[bytes]) -> bytes:
        """See `Wire`."""
        return b'{"now":%.6f,"events":[%b]}' % (now, b",".join(events))

    def event(self, date: float, kind: bytes, data: bytes = b"{}") -> bytes:
        """See `Wire`."""
        return b'{"timestamp":%.6f,"type":"%b","data":%b}' % (date, kind, data)

    def simulation_begins(
        self, platform: Platform, settings: SimulationSettings, paths: dict[str, str], profiles: Profiles
    ) -> bytes:
        """SIMULATION_BEGINS."""
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
        return self.event(0.0, b"SIMULATION_BEGINS", orjson.dumps(data))

    def job_submitted(self, date: float, job: SimulatedJob, *, with_profile: bool) -> bytes:
        """JOB_SUBMITTED: the job with all the user's fields, and the id with the workload's name."""
        profile = b',"profile":%b' % orjson.dumps(job.profile_raw) if with_profile else b""
        description = orjson.dumps({**job.raw, "id": job.id})
        return self.event(date, b"JOB_SUBMITTED", b'{"job_id":%b,"job":%b%b}' % (job.id_json, description, profile))

    def job_completed(self, date: float, job: SimulatedJob, return_code: int) -> bytes:
        """JOB_COMPLETED."""
        assert job.machines
        data = b'{"job_id":%b,"job_state":"%b","return_code":%d,"alloc":"%b"}'
        values = (job.id_json, job.state.encode(), return_code, job.machines.text.encode())
        return self.event(date, b"JOB_COMPLETED", data % values)

    def jobs_killed(
        self, date: float, jobs: Sequence[SimulatedJob], progress: Sequence[tuple[SimulatedJob, Progress]]
    ) -> bytes:
        """JOB_KILLED."""
        ids = b",".join([job.id_json for job in jobs])
        done = b",".join([b"%b:%b" % (job.id_json, _progress(made)) for job, made in progress])
        return self.event(date, b"JOB_KILLED", b'{"job_ids":[%b],"job_progress":{%b}}' % (ids, done))

    def requested_call(self, date: float, call_id: str, *, last: bool) -> bytes:
        """REQUESTED_CALL."""
        return self.event(date, b"REQUESTED_CALL")

    def external_event(self, date: float, event: ExternalEvent) -> bytes:
        """NOTIFY: machines that change availability, or an event of another type as it stands in its file."""
        if event.machines is None:
            return self.event(date, b"NOTIFY", event.raw)
        changed = {"type": f"event_{event.type}", "resources": event.machines.text}
        return self.event(date, b"NOTIFY", orjson.dumps(changed))
