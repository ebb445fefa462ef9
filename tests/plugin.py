"""The scheduler under either host, with a function call where the network would be."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("batsim")

from batsim.batsim import Batsim

from batfill.base.errors import BatfillError
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation4
from batfill.scheduler import Scheduler, give_up
from batfill.simulator.wire import SimulationSettings
from batfill.workloads.batsim_json import BatsimDocument
from small_runs import machines, starts_under
from through5 import ACKNOWLEDGE, Through5

# The decisions that change what happens, as opposed to calls asked for and notifications.
DECISIVE = ("EXECUTE_JOB", "REJECT_JOB", "KILL_JOB", "REGISTER_JOB")


class Plugin:
    """Called with a message, as bytes, it answers: `batfill schedule`, or pybatsim, without their sockets.

    As "Batsim 5" it is `batfill schedule`, and the messages are translated into that version's.
    """

    host = "batfill"  # or "pybatsim", or "Batsim 5"

    def __init__(self, **options: Any) -> None:
        if self.host != "pybatsim":
            try:
                self.agent = Agent(options)
            except BatfillError as error:
                give_up(error.on_command_line)
            self.conversation: Any = Conversation4(self.agent) if self.host == "batfill" else None
        else:
            self.scheduler = Scheduler(options)
            self.agent = self.scheduler.agent
            self.pybatsim: Batsim | None = None

    def __call__(self, message: bytes) -> bytes:
        if self.host != "pybatsim":
            try:
                if self.conversation is None:  # Batsim 5's greeting says what version 4's first message does
                    config = json.loads(message)["events"][0]["data"]["config"]
                    text = ACKNOWLEDGE if config["dynamic-jobs-acknowledged"] else config["sched-config"]
                    self.conversation = Through5(self.agent, text)
                return self.conversation.answer(message)
            except BatfillError as error:
                give_up(error.on_command_line)
        self.asked = message
        if self.pybatsim is None:
            with patch("batsim.batsim.NetworkHandler", lambda wire, timeout: wire):
                self.pybatsim = Batsim(self.scheduler, self, 0)  # which reads the first message
        else:
            self.pybatsim.do_next_event()
        return self.reply

    # What pybatsim takes for its `NetworkHandler`

    timeout = 2000

    def recv(self, blocking: bool = False) -> Any:
        return json.loads(self.asked)

    def send(self, message: Any) -> None:
        self.reply = json.dumps(message).encode()

    def bind(self) -> None: ...

    def close(self) -> None: ...

    # The same, told in fewer words

    def begin(self, machines: int = 4, **config: Any) -> Plugin:
        """Let the simulation begin on these machines; `config` as in `begins`."""
        self(as_message(0.0, begins(range(machines), **config)))
        return self

    def tell(self, now: float, *events: dict[str, Any]) -> list[str]:
        """What it decides, in few words, when told these events at this date."""
        return [word for event in json.loads(self(as_message(now, *events)))["events"] if (word := in_words(event))]


def starts_of_plugin(
    document: BatsimDocument, size: int, *, kills: bool = False, acknowledge: bool = False, **options: Any
) -> dict[str, float]:
    """Start of every try by its name, as the plug-in and the embedded simulator make them."""
    settings = SimulationSettings(dynamic_jobs=kills, reuse_profiles=kills, acknowledge=acknowledge)
    return starts_under(Plugin(**options), document, machines(size), settings)


def assert_same_starts(ours: dict[str, float], theirs: dict[str, float]) -> None:
    different = [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)]
    assert not different, f"{len(different)} of {len(ours)} starts differ, that of {min(different)} among them"


def as_message(now: float, *events: dict[str, Any]) -> bytes:
    return json.dumps({"now": now, "events": [{"timestamp": now, **event} for event in events]}).encode()


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def begins(machines, storage=(), *, dynamic=False, acknowledge=False, reuse=None, unknown=False) -> dict[str, Any]:
    """SIMULATION_BEGINS with compute and storage resources of these ids."""
    compute, other = ([{"id": i, "name": str(i)} for i in ids] for ids in (machines, storage))
    return event(
        "SIMULATION_BEGINS",
        nb_resources=len(compute) + len(other),
        nb_compute_resources=len(compute),
        nb_storage_resources=len(other),
        allow_compute_sharing=False,
        allow_storage_sharing=True,
        compute_resources=compute,
        storage_resources=other,
        workloads={"w0": "made"},
        profiles={"w0": {"delay": {"type": "delay", "delay": 1}}},
        config={
            "redis-enabled": False,
            "redis-hostname": "",
            "redis-port": 0,
            "redis-prefix": "",
            "profiles-forwarded-on-submission": False,
            "dynamic-jobs-enabled": dynamic,
            "dynamic-jobs-acknowledged": acknowledge,
            "profile-reuse-enabled": dynamic if reuse is None else reuse,
            "forward-unknown-events": unknown,
            "sched-config": "",
        },
    )


def submitted(
    name: str, subtime: float, walltime: float | None, res: int, *, small: bool | None = None
) -> dict[str, Any]:
    job = {"id": f"w0!{name}", "subtime": subtime, "res": res, "profile": "delay"}
    if walltime is not None:
        job["walltime"] = walltime
    if small is not None:
        job["class"] = "small" if small else "large"
    return event("JOB_SUBMITTED", job_id=f"w0!{name}", job=job)


def completed(name: str, state: str = "COMPLETED_SUCCESSFULLY") -> dict[str, Any]:
    code = 0 if state == "COMPLETED_SUCCESSFULLY" else -1
    return event("JOB_COMPLETED", job_id=f"w0!{name}", job_state=state, return_code=code)


def killed(name: str, *, ran: bool = True) -> list[dict[str, Any]]:
    """A kill's answer: the job's end and the acknowledgement, or the latter alone where it had ended before."""
    progress = {f"w0!{name}": {"profile_name": "delay", "progress": 0.5}} if ran else {}
    answer = event("JOB_KILLED", job_ids=[f"w0!{name}"], job_progress=progress)
    return [completed(name, "COMPLETED_KILLED"), answer] if ran else [answer]


def notify(kind: str, **data: Any) -> dict[str, Any]:
    return event("NOTIFY", type=kind, **data)


def in_words(decision: dict[str, Any]) -> str:
    """A decision, as "start 1 on 0-3", "reject 1", "kill 1", "submit 1#1", "finished"; "" for a call asked for."""
    data = decision["data"]
    job = str(data.get("job_id", "")).removeprefix("w0!")
    kind = decision["type"]
    if kind == "EXECUTE_JOB":
        return f"start {job} on {data['alloc']}"
    if kind == "KILL_JOB":
        return "kill " + " ".join(name.removeprefix("w0!") for name in data["job_ids"])
    if kind == "REGISTER_JOB":
        return f"submit {job} of {data['job']['subtime']:g}"
    return {"REJECT_JOB": f"reject {job}", "NOTIFY": "finished", "CALL_ME_LATER": ""}[kind]
