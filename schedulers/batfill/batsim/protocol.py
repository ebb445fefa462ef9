"""Batsim's JSON messages: writes events to the scheduler, and checks the form of its replies.

A function for an event returns its bytes; a message is a list of events. Dates have six decimals, as in Batsim, so that
they survive the round trip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import orjson

from batfill.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from batfill.batsim.platform import Platform


# Redis is never used, but schedulers read its fields.
REDIS = {"hostname": "127.0.0.1", "port": 6379, "prefix": "default"}


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """The settings of a simulation, sent to the scheduler; the defaults are those of Batsim's options."""

    forward_profiles: bool = False
    dynamic_jobs: bool = False
    acknowledge: bool = False
    reuse_profiles: bool = False
    share_compute: bool = False
    share_storage: bool = True
    forward_unknown_events: bool = False
    sched_config: str = ""

    def config(self) -> dict[str, Any]:
        """The `config` of SIMULATION_BEGINS."""
        return {
            "redis-enabled": False,
            **{f"redis-{key}": value for key, value in REDIS.items()},
            "profiles-forwarded-on-submission": self.forward_profiles,
            "dynamic-jobs-enabled": self.dynamic_jobs,
            "dynamic-jobs-acknowledged": self.acknowledge,
            "profile-reuse-enabled": self.reuse_profiles,
            "sched-config": self.sched_config,
            "forward-unknown-events": self.forward_unknown_events,
        }


class SimulationStopped(RunFailed):
    """The simulation cannot continue; the message says when, what, and why."""


class Decision(NamedTuple):
    """One event of a reply."""

    date: float
    type: str
    data: dict[str, Any]


class Reply(NamedTuple):
    """The scheduler's reply: its decisions, and the date from which it accepts the next message."""

    now: float
    decisions: list[Decision]


def message(now: float, events: Iterable[bytes]) -> bytes:
    """The message that carries these events."""
    return b'{"now":%.6f,"events":[%b]}' % (now, b",".join(events))


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
            "config": settings.config(),
            "compute_resources": resources[:n_compute],
            "storage_resources": resources[n_compute:],
            "workloads": paths,
            "profiles": profiles,
        }
    )


def job_submitted(date: float, job_id: bytes, description: bytes, profile: bytes | None) -> bytes:
    """JOB_SUBMITTED; all arguments but the date are JSON values; `profile` is None unless profiles are forwarded."""
    forwarded = b"" if profile is None else b',"profile":%b' % profile
    return event(date, b"JOB_SUBMITTED", b'{"job_id":%b,"job":%b%b}' % (job_id, description, forwarded))


def job_completed(date: float, job_id: bytes, state: str, return_code: int, machines: str) -> bytes:
    """JOB_COMPLETED."""
    return event(
        date,
        b"JOB_COMPLETED",
        b'{"job_id":%b,"job_state":"%b","return_code":%d,"alloc":"%b"}'
        % (job_id, state.encode(), return_code, machines.encode()),
    )


def job_killed(date: float, job_ids: Sequence[bytes], progress: Iterable[tuple[bytes, str, float]]) -> bytes:
    """JOB_KILLED: every job of the request, and (id, profile, share of its work done) of those that ran."""
    done = b",".join(
        b'%b:{"profile_name":%b,"progress":%.6f}' % (job_id, orjson.dumps(profile), share)
        for job_id, profile, share in progress
    )
    return event(date, b"JOB_KILLED", b'{"job_ids":[%b],"job_progress":{%b}}' % (b",".join(job_ids), done))


def notify(date: float, kind: str, machines: str | None = None) -> bytes:
    """NOTIFY, with these machines if any."""
    about = {} if machines is None else {"resources": machines}
    return event(date, b"NOTIFY", orjson.dumps({"type": kind, **about}))


def read_reply(text: bytes) -> Reply:
    """The scheduler's reply, checked for its form.

    Raises:
        SimulationStopped: it is not a message.
    """

    def wrong(what: str) -> SimulationStopped:
        return SimulationStopped(f"the scheduler's reply {what}: {_start(text)}")

    try:
        reply = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise wrong(f"is not JSON ({error})") from None
    if not isinstance(reply, dict):
        raise wrong("is not an object")
    now, events = reply.get("now"), reply.get("events")
    if not _is_number(now):
        raise wrong("has no number 'now'")
    if not isinstance(events, list):
        raise wrong("has no array 'events'")
    decisions = []
    for place, item in enumerate(events):
        where = f"has in events[{place}]"
        if not isinstance(item, dict):
            raise wrong(f"{where} no object")
        date, kind, data = item.get("timestamp"), item.get("type"), item.get("data")
        if not _is_number(date):
            raise wrong(f"{where} no number 'timestamp'")
        if date > now:
            raise wrong(f"{where} the timestamp {date}, later than its 'now' {now}")
        if not isinstance(kind, str):
            raise wrong(f"{where} no string 'type'")
        if not isinstance(data, dict):
            raise wrong(f"{where} ({kind}) no object 'data'")
        decisions.append(Decision(float(date), kind, data))
    return Reply(float(now), decisions)


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether this JSON value is a number."""
    return type(value) is float or type(value) is int


def _start(text: bytes) -> str:
    """The beginning of a message, on one line."""
    shown = " ".join(text[:200].decode(errors="replace").split())
    return shown if len(text) <= 200 else f"{shown}..."
