"""Small simulations, driven from inside the process by a function that decides."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batfill.batsim_files.platform import Platform, PlatformHost
from batfill.batsim_files.replayed import Tries
from batfill.batsim_files.results import JobRecord
from batfill.model.jobs import SMALL, Jobs
from batfill.model.schedule import Schedule
from batfill.model.states import try_name
from batfill.simulator.simulation import Simulation
from batfill.simulator.wire import SimulationSettings
from batfill.workloads.batsim_json import BatsimDocument

Message = dict[str, Any]
Decision = tuple[Any, ...]  # (type, data) or (type, data, date)
DYNAMIC = SimulationSettings(dynamic_jobs=True)
REUSE = SimulationSettings(dynamic_jobs=True, reuse_profiles=True)


def machines(n: int, n_storage: int = 0) -> Platform:
    compute, storage = (
        tuple(PlatformHost(f"{kind}{i}", (1e9,), {"role": role}, {}) for i in range(count))
        for kind, count, role in (("node", n, ""), ("disk", n_storage, "storage"))
    )
    return Platform(compute, storage, "master_host")


def starts_by_name(schedule: Schedule) -> dict[str, float]:
    """The start of every try of a replay, by the name that it has under Batsim."""
    tries = Tries(schedule)
    named = zip(tries.row.tolist(), tries.number.tolist(), tries.start_s.tolist(), strict=True)
    return {try_name(schedule.jobs.ids[row], number): start_s for row, number, start_s in named}


def starts_of_oracle(oracle: Any) -> dict[str, float]:
    """The start of every try of an oracle's run, likewise."""
    starts: dict[str, float] = {}
    tries: Counter[int] = Counter()
    for seq, start_s, _, _ in oracle.kills:
        starts[try_name(oracle.table.ids[seq], tries[seq])] = start_s
        tries[seq] += 1
    ran = [job for job in oracle.jobs if not math.isnan(job.start)]
    return starts | {try_name(oracle.table.ids[job.seq], tries[job.seq]): job.start for job in ran}


def as_workload(jobs: Jobs) -> dict[str, Any]:
    """A job table as the jobs and profiles of a Batsim workload."""
    listed = []
    times = jobs.submit_s, jobs.runtime_s, jobs.walltime_s, jobs.expected_s
    rows = zip(jobs.ids, *(column.tolist() for column in (*times, jobs.procs, jobs.job_class, jobs.user)), strict=True)
    for name, submit_s, runtime_s, walltime_s, expected_s, procs, job_class, user in rows:
        job = {"id": name, "subtime": submit_s, "res": procs, "profile": f"{runtime_s:g}"}
        job |= {"walltime": walltime_s} if walltime_s < math.inf else {}
        job |= {"expected_time": expected_s} if expected_s < walltime_s else {}
        job |= {"class": "small"} if job_class == SMALL else {}
        listed.append(job | ({"user_id": user} if user >= 0 else {}))
    if jobs.amounts is not None:
        for job, amounts in zip(listed, jobs.amounts.tolist(), strict=True):
            job["resources"] = dict(zip(jobs.amounts.dtype.names or (), amounts, strict=True))
    return {"jobs": listed, "profiles": {f"{p:g}": {"type": "delay", "delay": p} for p in set(jobs.runtime_s.tolist())}}


def job(identifier: str, subtime: float = 0, res: int = 1, profile: str = "ten", **fields: Any) -> dict[str, Any]:
    return {"id": identifier, "subtime": subtime, "res": res, "profile": profile, **fields}


def document(*jobs: dict[str, Any], **profiles: float | dict[str, Any]) -> BatsimDocument:
    """A workload of these jobs; profiles are `ten` (seconds) and those given, by their delay or whole."""
    whole = {k: p if isinstance(p, dict) else {"type": "delay", "delay": p} for k, p in {"ten": 10, **profiles}.items()}
    return BatsimDocument(Path("w.json"), 4, list(jobs), whole, "")


@dataclass
class Outcome:
    messages: list[Message] = field(default_factory=list)
    records: list[JobRecord] = field(default_factory=list)
    states: list[tuple[float, int, int]] = field(default_factory=list)
    simulation: Simulation | None = None

    @property
    def told(self) -> list[list[tuple[float, str]]]:
        """Of each message after the first, the dates and types of its events."""
        return [[(event["timestamp"], event["type"]) for event in m["events"]] for m in self.messages[1:]]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The data of all events of this type."""
        return [event["data"] for m in self.messages for event in m["events"] if event["type"] == kind]

    def states_of(self) -> dict[str, str]:
        return {record.job_id: record.final_state for record in self.records}


def simulate(
    workload: BatsimDocument | dict[str, BatsimDocument] | None,
    decide: Callable[[Message], Iterable[Decision]],
    *,
    platform: Platform | None = None,
    settings: SimulationSettings = SimulationSettings(),  # noqa: B008
    outcome: Outcome | None = None,
    **more: Any,
) -> Outcome:
    """Run to the end. What happens is put into `outcome`, for those who expect the run to be stopped."""
    outcome = outcome or Outcome()

    def exchange(text: bytes) -> bytes:
        message = json.loads(text)
        outcome.messages.append(message)
        now = message["now"]
        done = now
        events = []
        for kind, data, *date in decide(message):
            if kind == "THINK":
                done += data
            else:
                events.append({"timestamp": date[0] if date else now, "type": kind, "data": data})
        return json.dumps({"now": done, "events": events}).encode()

    workloads = workload if isinstance(workload, dict) else {"w0": workload} if workload else {}
    simulation = Simulation(
        platform or machines(4),
        workloads,
        exchange,
        settings=settings,
        on_job_end=outcome.records.append,
        on_machine_states=outcome.states.append,
        **more,
    )
    outcome.simulation = simulation
    simulation.run()
    return outcome


def ended_under(
    answer: Callable[[bytes], bytes],
    workload: BatsimDocument,
    platform: Platform,
    settings: SimulationSettings = SimulationSettings(),  # noqa: B008
) -> list[JobRecord]:
    """The jobs of a simulation, as they ended under a scheduler that answers messages."""
    ended: list[JobRecord] = []
    Simulation(platform, {"w0": workload}, answer, settings=settings, on_job_end=ended.append).run()
    return ended


def starts_under(*run: Any) -> dict[str, float]:
    """The start of every try in such a simulation, by its name."""
    return {r.job_id: r.starting_time for r in ended_under(*run) if r.final_state != "REJECTED"}


def execute(identifier: str, alloc: str = "0") -> Decision:
    return "EXECUTE_JOB", {"job_id": identifier, "alloc": alloc}


def call(date: float) -> Decision:
    return "CALL_ME_LATER", {"timestamp": date}


def think(seconds: float) -> Decision:
    """The reply comes so much later, in simulated time."""
    return "THINK", seconds


def kill(*identifiers: str) -> Decision:
    return "KILL_JOB", {"job_ids": list(identifiers)}


def register(identifier: str, **fields: Any) -> Decision:
    described = {"id": identifier, "subtime": 0, "res": 1, "profile": "ten", "walltime": -1, **fields}
    return "REGISTER_JOB", {"job_id": identifier, "job": described}


def add_profile(name: str, workload: str = "mine", **fields: Any) -> Decision:
    """A profile of this name, by default a delay of 3 s."""
    profile = fields or {"type": "delay", "delay": 3}
    return "REGISTER_PROFILE", {"workload_name": workload, "profile_name": name, "profile": profile}


FINISHED: Decision = ("NOTIFY", {"type": "registration_finished"})


def at(script: dict[float | str, list[Decision]]) -> Callable[[Message], list[Decision]]:
    """Decides by the script: at each date, once, in the first message of that date after SIMULATION_BEGINS.

    The key "begin" is the reply to SIMULATION_BEGINS.
    """
    left = dict(script)

    def decide(message: Message) -> list[Decision]:
        begins = message["events"][0]["type"] == "SIMULATION_BEGINS"
        return left.pop("begin" if begins else message["now"], [])

    return decide
