"""Batsim's JSON messages: writes events to the scheduler, and checks the form of its replies.

A function for an event returns its bytes; a message is a list of events. Dates have six decimals, as in Batsim, so that
they survive the round trip.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from batfill.errors import RunFailed
from batfill.jobs import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from batfill.batsim.catalogue import Progress
    from batfill.batsim.platform import Platform

# The types of a field, and how messages call them; true is not a number.
INTEGER, NUMBER, STRING, ARRAY, OBJECT = (int,), (int, float), (str,), (list,), (dict,)
JSON_TYPES: dict[tuple[type, ...], str] = {
    INTEGER: "an integer",
    NUMBER: "a number",
    STRING: "a string",
    ARRAY: "an array",
    OBJECT: "an object",
}

PORT = re.compile(r"tcp://.+:(-?\d{1,18})")
HIGHEST_PORT = 65_535

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


class ReplyError(Exception):
    """A reply is not a message of Batsim's protocol; the text says what is wrong, and where in the reply."""


class Decision(NamedTuple):
    """One event of a reply."""

    date: float
    type: str
    data: dict[str, Any]
    where: tuple[int, int]  # the number of the message that the reply answers, and the place in the reply's events


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


def job_killed(date: float, job_ids: Sequence[bytes], progress: Iterable[tuple[bytes, Progress]]) -> bytes:
    """JOB_KILLED: every job of the request, and the progress of those that ran."""
    done = b",".join(b"%b:%b" % (job_id, _progress(made)) for job_id, made in progress)
    return event(date, b"JOB_KILLED", b'{"job_ids":[%b],"job_progress":{%b}}' % (b",".join(job_ids), done))


def _progress(made: Progress) -> bytes:
    """A job's entry in `job_progress`: for a sequence, the place of its current part and that part's own entry.

    Source: Batsim's description of JOB_KILLED and its source code. The place counts on through the repetitions.
    """
    text = b'{"profile_name":%b,"progress":%.6f}' % (orjson.dumps(made.profile), made.share)
    for profile, place in reversed(made.way):
        text = b'{"profile_name":%b,"current_task_index":%d,"current_task":%b}' % (orjson.dumps(profile), place, text)
    return text


def notify(date: float, kind: str, machines: str | None = None) -> bytes:
    """NOTIFY, with these machines if any."""
    about = {} if machines is None else {"resources": machines}
    return event(date, b"NOTIFY", orjson.dumps({"type": kind, **about}))


def read_reply(text: bytes, number: int) -> Reply:
    """The scheduler's reply to the message of this number, checked for its form.

    Raises:
        ReplyError: it is not a message.
    """
    try:
        reply = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ReplyError(f"is not JSON: {error}: {_start(text)}") from None
    now, events = needed(reply, "now", NUMBER), needed(reply, "events", ARRAY)
    if now > LONGEST_S:
        raise ReplyError(f"has the date {now:g} as its 'now', more than {LONGEST_S:g} s, 30,000 years")
    decisions = []
    last = -LONGEST_S
    date: Any
    for place, item in enumerate(events):
        fields: dict[str, Any] = item if type(item) is dict else {}
        date, kind, data = fields.get("timestamp"), fields.get("type"), fields.get("data")
        if not (type(date) in NUMBER and last <= date <= now and type(kind) is str and type(data) is dict):
            named = f" ({shown_type(kind)})" if type(kind) is str else ""
            raise ReplyError(f"has events[{place}]{named}, which {_wrong_with(item, last, now)}")
        last = date
        decisions.append(Decision(float(date), kind, data, (number, place)))
    return Reply(float(now), decisions)


def needed(holder: Any, name: str, kinds: tuple[type, ...]) -> Any:
    """The member of a JSON object that has this name; it must have one of these types, and true is not a number.

    Raises:
        ReplyError: there is none.
    """
    value = holder.get(name) if type(holder) is dict else None
    if type(value) in kinds:
        return value
    raise ReplyError(unfit(holder, name, kinds))


def unfit(holder: Any, name: str, kinds: tuple[type, ...]) -> str:
    """Why a JSON value has no member of this name and one of these types, in words."""
    found = "is not an object"
    if type(holder) is dict:
        found = f"has {holder[name]!r:.60}" if name in holder else "lacks it"
    return f"needs {name!r}, {JSON_TYPES[kinds]}, and {found}"


def _wrong_with(item: Any, last: float, now: float) -> str:
    """What makes this event of a reply unusable; `last` is the timestamp of the event before it."""
    try:
        date = needed(item, "timestamp", NUMBER)
        needed(item, "type", STRING)
        needed(item, "data", OBJECT)
    except ReplyError as error:
        return str(error)
    if date > now:
        return f"has the timestamp {date}, later than the reply's 'now' {now}"
    return f"has the timestamp {date}, before that of the previous event, {last}"


def refuse_port(endpoint: str) -> None:
    """Refuse a port that a TCP endpoint cannot have: ZeroMQ would silently use another.

    Raises:
        ValueError: the port, in words.
    """
    port = PORT.fullmatch(endpoint)
    if port and not 1 <= int(port[1]) <= HIGHEST_PORT:
        raise ValueError(f"{endpoint}: a port is a number from 1 to {HIGHEST_PORT}")


def shown_type(kind: str) -> str:
    """The type of an event, for one line of text."""
    return kind if kind.isidentifier() and len(kind) < 40 else f"{kind!r:.40}"


def _start(text: bytes) -> str:
    """The beginning of a message, on one line."""
    shown = repr(text[:100].decode(errors="replace"))
    return shown if len(text) <= 100 else f"{shown}..."
