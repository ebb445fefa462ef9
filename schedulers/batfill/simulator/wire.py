"""What the simulation says in Batsim 4's protocol: the data of its events, and the settings that the first states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from batfill.base.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from batfill.batsim_files.external_events import ExternalEvent
    from batfill.batsim_files.platform import Platform
    from batfill.simulator.catalogue import SimulatedJob
    from batfill.workloads.batsim_json import ProfileTask

Profiles = dict[str, dict[str, dict[str, Any]]]  # their descriptions, by workload and name

# Redis is never used, but schedulers read its fields.
REDIS = {"hostname": "127.0.0.1", "port": 6379, "prefix": "default"}


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """The settings of a simulation; the defaults are those of Batsim 4's options."""

    forward_profiles: bool = False  # with each submission
    dynamic_jobs: bool = False
    acknowledge: bool = False
    reuse_profiles: bool = False
    share_compute: bool = False
    share_storage: bool = True
    forward_unknown_events: bool = False
    sched_config: str = ""


class SimulationStopped(RunFailed):
    """The simulation cannot continue; the message says when, what, and why."""


def progress(task: ProfileTask, left_s: float) -> tuple[bytes, bool]:
    """A task's entry in `job_progress` after this many seconds, and whether its part that runs computes.

    For a sequence the entry has the place of that part, which counts on through the repetitions, and the part's own
    entry. Source: Batsim's description of JOB_KILLED and its source code.
    """
    name = orjson.dumps(task.profile)
    if not task.parts:
        share = min(left_s / task.run_s, 1.0) if task.run_s else 1.0
        return b'{"profile_name":%b,"progress":%.6f}' % (name, share), task.computes
    round_s = sum(part.run_s for part in task.parts)
    rounds = min(int(left_s // round_s), task.repeat - 1) if round_s else task.repeat - 1
    left_s -= rounds * round_s
    place = 0
    while place < len(task.parts) - 1 and left_s >= task.parts[place].run_s and not task.parts[place].ret:
        left_s -= task.parts[place].run_s
        place += 1
    entry, computes = progress(task.parts[place], left_s)
    index = rounds * len(task.parts) + place
    return b'{"profile_name":%b,"current_task_index":%d,"current_task":%b}' % (name, index, entry), computes


def simulation_begins(
    platform: Platform, settings: SimulationSettings, paths: dict[str, str], profiles: Profiles
) -> bytes:
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
    return orjson.dumps(data)


def job_submitted(job: SimulatedJob, *, with_profile: bool) -> bytes:
    profile = b',"profile":%b' % orjson.dumps(job.profile_raw) if with_profile else b""
    return b'{"job_id":%b,"job":%b%b}' % (job.id_json, orjson.dumps({**job.raw, "id": job.id}), profile)


def job_completed(job: SimulatedJob, return_code: int) -> bytes:
    assert job.machines
    values = (job.id_json, job.state.encode(), return_code, job.machines.text.encode())
    return b'{"job_id":%b,"job_state":"%b","return_code":%d,"alloc":"%b"}' % values


def jobs_killed(jobs: Sequence[SimulatedJob], entries: Mapping[bytes, bytes]) -> bytes:
    ids = b",".join([job.id_json for job in jobs])
    done = b",".join([b"%b:%b" % entry for entry in entries.items()])
    return b'{"job_ids":[%b],"job_progress":{%b}}' % (ids, done)


def external_event(happened: ExternalEvent) -> bytes:
    """NOTIFY of machines that change availability, or of what stands in its file."""
    if happened.machines is None:
        return happened.raw
    return orjson.dumps({"type": f"event_{happened.type}", "resources": happened.machines.text})
