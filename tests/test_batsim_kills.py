"""When a kill takes effect in the embedded simulator: recordings of the real Batsim, 4.2.0 and 5.0.0-rc2."""

from __future__ import annotations

import csv
import json
import lzma
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from batfill.batsim.platform import read_platform
from batfill.batsim.simulation import Simulation
from batfill.batsim.wire import SimulationSettings, SimulationStopped
from batfill.batsim.wire4 import Wire4
from batfill.batsim.wire5 import Wire5
from batfill.workloads.batsim_json import load_document
from command import batfill
from small_runs import document, job, machines

ROOT = Path(__file__).parents[1]
RECORDED = Path(__file__).parent / "data" / "kills"


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a file of recordings."""
    with lzma.open(RECORDED / f"{name}.csv.xz", "rt") as file:
        return list(csv.DictReader(file))


# One job


class Killer:
    """A scheduler, under either protocol, that starts each job at its submission and kills the first as a row says."""

    def __init__(self, row: dict[str, str]) -> None:
        self.how, self.after = row["kill"], float(row["dated_at_start_plus"])
        self.newer = row["batsim"].startswith("5")
        self.careful = "no kill sent" in row["what_the_scheduler_saw"]
        self.seen: list[str] = []
        self.start = 0.0
        self.ended = False

    def __call__(self, text: bytes) -> bytes:
        message = json.loads(text.rstrip(b"\0"))
        now, decisions = message["now"], []
        for event in message["events"]:
            kind = event["event_type" if self.newer else "type"]
            decisions += self._decisions(kind, event["event" if self.newer else "data"], now)
        events = [
            {"timestamp": date, "event_type": kind, "event": data}
            if self.newer
            else {"timestamp": date, "type": kind, "data": data}
            for date, kind, data in decisions
        ]
        return json.dumps({"now": max([now, *(date for date, _, _ in decisions)]), "events": events}).encode()

    def _decisions(self, kind: str, data: dict[str, Any], now: float) -> list[tuple[float, str, dict[str, Any]]]:
        """What follows from one event: dates, types and data."""
        about = data.get("job_id", data.get("job_ids", ""))
        shown = kind[:14] if self.newer else kind
        if kind in ("JOB_SUBMITTED", "JobSubmittedEvent"):
            if about == "w0!1":
                self.start = now
                return [self._execute(now, about, "0"), *self._first_move(now)]
            self.seen.append(f"{now:g}:{shown}({about} )")
            return [*self._at_once(now, "to a submission"), self._execute(now, about, "1")]
        if kind in ("JOB_COMPLETED", "JobCompletedEvent"):
            self.ended |= about == "w0!1"
            self.seen.append(f"{now:g}:{shown}({about} {data['job_state' if not self.newer else 'state'][:24]})")
        elif kind in ("JOB_KILLED", "JobsKilledEvent"):
            made = data["progresses" if self.newer else "job_progress"]
            self.seen.append(f"{now:g}:{shown}({about} ) progress {len(made)}")
        elif kind in ("REQUESTED_CALL", "RequestedCallEvent"):
            self.seen.append(f"{now:g}:{shown}")
            return self._at_once(now, "to a call") if "immediate" in self.how else [self._kill(self.start + self.after)]
        return []

    def _first_move(self, now: float) -> list[tuple[float, str, dict[str, Any]]]:
        if "in the reply that starts" in self.how:
            return [self._kill(now + self.after)]
        if "to a call" in self.how:
            return [self._call(now, now + (self.after if "immediate" in self.how else 5))]
        return []

    def _at_once(self, now: float, occasion: str) -> list[tuple[float, str, dict[str, Any]]]:
        if occasion not in self.how:
            return []
        if self.careful and self.ended:
            self.seen.append("(already complete: no kill sent)")
            return []
        self.seen.append("KILL sent")
        return [self._kill(now)]

    def _kill(self, date: float) -> tuple[float, str, dict[str, Any]]:
        return date, "KillJobsEvent" if self.newer else "KILL_JOB", {"job_ids": ["w0!1"]}

    def _call(self, now: float, date: float) -> tuple[float, str, dict[str, Any]]:
        when = {"call_me_later_id": "c", "when_type": "OneShot", "when": {"time": int(date)}}
        return (now, "CallMeLaterEvent", when) if self.newer else (now, "CALL_ME_LATER", {"timestamp": date})

    def _execute(self, now: float, name: str, host: str) -> tuple[float, str, dict[str, Any]]:
        placed = {
            "executor_placement_type": "PredefinedExecutorPlacementStrategyWrapper",
            "executor_placement": {"strategy": "SpreadOverHostsFirst"},
        }
        if self.newer:
            return now, "ExecuteJobEvent", {"job_id": name, "allocation": {"host_allocation": host, **placed}}
        return now, "EXECUTE_JOB", {"job_id": name, "alloc": host}


ONE_JOB = [row for row in rows("one-job") if row["profile"] == "delay"]


@pytest.mark.parametrize("row", ONE_JOB, ids=lambda row: " ".join(list(row.values())[:6]))
def test_one_job_is_killed_when_batsim_kills_it_and_a_kill_that_aborts_batsim_is_refused(row):
    limits = {"walltime": float(row["walltime"])} if row["walltime"] else {}
    start = 0 if row["start"] == "0.000000" else 5
    jobs = [job("1", start, **limits)]
    if row["other_submission"]:
        jobs.append(job("2", float(row["other_submission"]), profile="five"))
    scheduler, ended = Killer(row), {}
    simulation = Simulation(
        machines(2),
        {"w0": document(*jobs, five=5)},
        scheduler,
        settings=SimulationSettings(),
        wire=Wire5() if scheduler.newer else Wire4(),
        on_job_end=lambda record: ended.setdefault(record.job_id, record),
    )
    if row["exit"] == "0":
        simulation.run()
        killed = ended["1"]
        times = (killed.starting_time, killed.finish_time, killed.execution_time)
        assert [f"{time_s:.6f}" for time_s in times] == [row["start"], row["end"], row["ran"]]
        assert killed.final_state == row["state"]
    else:
        with pytest.raises(SimulationStopped, match=r"KILL_JOB|KillJobsEvent.*'w0!1' has ended"):
            simulation.run()
    # Within an instant the order of events is open.
    assert sorted(scheduler.seen) == sorted(row["what_the_scheduler_saw"].split("; "))


def test_computations_were_killed_like_delays_but_for_those_whose_walltime_is_their_run_time():
    """So the rows of delays, which are simulated, stand for all others but these."""
    by_case = defaultdict(list)
    for row in rows("one-job"):
        by_case[tuple(value for name, value in row.items() if name not in ("profile", "state"))].append(row)
    assert len(ONE_JOB) * 2 == len(rows("one-job")) == 78
    alone = [case[0] for case in by_case.values() if len({row["state"] for row in case}) != 1 or len(case) != 2]
    assert {row["walltime"] for row in alone} == {"10"}


# Two schedulers of batsched


class Batsched:
    """batsched's `killer` for a delay, or its `killer2` for none.

    Both start one job a message, the first of their queue, on the first machines. `killer` kills it so many seconds
    later; `killer2` first kills whatever runs, takes all machines for free, and starts the job 5 s later.
    """

    def __init__(self, n_machines: int, delay_s: float | None) -> None:
        self.delay_s = delay_s
        self.idle = set(range(n_machines))
        self.held: dict[str, list[int]] = {}
        self.queue: list[tuple[str, int]] = []

    def __call__(self, text: bytes) -> bytes:
        message = json.loads(text)
        date, events = message["now"], []
        for event in message["events"]:
            data = event["data"]
            if event["type"] == "JOB_SUBMITTED":
                self.queue.append((data["job_id"], data["job"]["res"]))
            elif event["type"] == "JOB_COMPLETED":
                self.idle.update(self.held.pop(data["job_id"]))

        def decide(kind: str, data: dict[str, Any]) -> None:
            events.append({"timestamp": date, "type": kind, "data": data})

        if self.queue and self.delay_s is None and self.held:
            decide("KILL_JOB", {"job_ids": list(self.held)})
            self.idle.update(*self.held.values())
            self.held = {name: [] for name in self.held}
            date += 5
        if self.queue and self.queue[0][1] <= len(self.idle):
            name, res = self.queue.pop(0)
            self.held[name] = sorted(self.idle)[:res]
            self.idle.difference_update(self.held[name])
            decide("EXECUTE_JOB", {"job_id": name, "alloc": " ".join(map(str, self.held[name]))})
            if self.delay_s is not None:
                date += self.delay_s
                decide("KILL_JOB", {"job_ids": [name]})
        return json.dumps({"now": date, "events": events}).encode()


def differing(log: str, name: str, delay_s: float | None, workload: Path) -> list[Any]:
    """The jobs whose start, end, state or machines differ from the recorded ones."""
    ended: dict[str, tuple[str, ...]] = {}

    def end(record):
        times = f"{record.starting_time:.6f}", f"{record.finish_time:.6f}"
        ended[record.job_id] = *times, record.final_state, str(record.allocated_resources)

    platform = read_platform(ROOT / "platforms" / ("sample.xml" if log == "sample" else "kth-sp2.xml"))
    scheduler = Batsched(len(platform.compute), delay_s)
    Simulation(
        platform,
        {"w0": load_document(workload)},
        scheduler,
        settings=SimulationSettings(),
        wire=Wire4(),
        on_job_end=end,
    ).run()
    columns = [f"{name} {column}" for column in ("starting_time", "finish_time", "final_state", "allocated_resources")]
    theirs = {row["job_id"]: tuple(row[column] for column in columns) for row in rows(log)}
    assert ended.keys() == theirs.keys()
    return [(job_id, ended[job_id], row) for job_id, row in theirs.items() if ended[job_id] != row]


KILLERS = pytest.mark.parametrize(("name", "delay_s"), [*((f"killer-{d}", d) for d in (0, 10, 30)), ("killer2", None)])


@KILLERS
def test_a_scheduler_that_kills_gets_every_start_end_and_state_of_the_real_batsim_on_the_sample(name, delay_s):
    assert differing("sample", name, delay_s, ROOT / "workloads" / "sample.json") == []


@pytest.mark.slow
@KILLERS
def test_and_on_the_first_5000_jobs_of_kth_sp2(name, delay_s, archive_log, tmp_path):
    log, made = archive_log("KTH-SP2-1996-2.1-cln.swf.gz"), tmp_path / "kth.json"
    assert batfill("workload", "convert", log, "--overrun", "kill", "--jobs", "0:5000", "--out", made).status == 0
    assert differing("kth", name, delay_s, made) == []
