"""The simulation's end of Batsim 4's protocol: what it reports, one function an event, and what it reads.

A reply is read by the form that `protocol/` gives its messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from batfill.base.errors import RunFailed
from batfill.base.files import refuse_doubles
from batfill.model.jobs import LONGEST_S
from batfill.protocol.batsim4 import BATSIM_4
from batfill.protocol.forms import MESSAGE, RESOLUTION_S, FormError, check_fields, parsed, shown_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.batsim_files.external_events import ExternalEvent
    from batfill.batsim_files.platform import Platform
    from batfill.simulator.catalogue import Progress, SimulatedJob

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


class Wire4:
    """What the simulation says and reads. Dates are seconds, with six decimals, so that they survive the round trip."""

    def read_reply(self, text: bytes, number: int, now: float) -> Reply:
        """The scheduler's reply to the message of this number and date, checked for its form.

        Raises:
            FormError: it is not a message, or is dated before `now`.
        """
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
            kind: Any = item.get(BATSIM_4.type_field) if type(item) is dict else None
            where = f"has events[{place}]{f' ({shown_type(kind)})' if type(kind) is str else ''}, which "
            check_fields(item, BATSIM_4.event, where=where)
            date = item["timestamp"]
            if not last <= date <= done:
                since = f"that of the previous event, {last}," if place else "0"
                raise FormError(
                    f"{where}has the timestamp {date}, which is not a date from {since} to the reply's 'now', {done}"
                )
            last = date
            asked.append(Asked(float(date), kind, item[BATSIM_4.data_field], (number, place)))
        if done < now - RESOLUTION_S:
            raise FormError(f"has the date {done:.6f} as its 'now', which is in the past")
        return Reply(float(done), asked)

    def message(self, now: float, events: Sequence[bytes]) -> bytes:
        """The message that carries these events."""
        return b'{"now":%.6f,"events":[%b]}' % (now, b",".join(events))

    def event(self, date: float, means: str, data: bytes = b"{}") -> bytes:
        """The event with this meaning; `data` is a JSON object."""
        return b'{"timestamp":%.6f,"type":"%b","data":%b}' % (date, BATSIM_4.type_of[means], data)

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

    def requested_call(self, date: float) -> bytes:
        """A requested call."""
        return self.event(date, "called")

    def external_event(self, date: float, event: ExternalEvent) -> bytes:
        """An external event: machines that change availability, or what stands in its file."""
        if event.machines is None:
            return self.event(date, "notified", event.raw)
        changed = {"type": f"event_{event.type}", "resources": event.machines.text}
        return self.event(date, "notified", orjson.dumps(changed))
