"""When a kill takes effect in the embedded simulator: recordings of the real Batsim 4.2.0."""

from __future__ import annotations

import csv
import json
import lzma
from pathlib import Path
from typing import Any

import msgspec
import pytest

from batfill.batsim_files.platform import read_platform
from batfill.protocol.batsim4 import BATSIM_4
from batfill.protocol.decisions import CallAt, Decision, Execute, Kill
from batfill.simulator.simulation import Simulation
from batfill.simulator.wire import SimulationSettings, SimulationStopped
from batfill.workloads.batsim_json import load_document
from command import batfill
from small_runs import document, ended_under, job, machines

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).parents[1] / "data" / "kills"


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a file of recordings."""
    with lzma.open(RECORDED / f"{name}.csv.xz", "rt") as file:
        return list(csv.DictReader(file))


# One job


class Killer:
    """A scheduler that starts each job at its submission and kills the first as a row says."""

    def __init__(self, row: dict[str, str]) -> None:
        self.how, self.after = row["kill"], float(row["dated_at_start_plus"])
        self.careful = "no kill sent" in row["what_the_scheduler_saw"]
        self.seen: list[str] = []
        self.start = 0.0
        self.ended = False

    def __call__(self, text: bytes) -> bytes:
        message = json.loads(text)
        now, events = message["now"], []
        for event in message["events"]:
            for date, decision in self._decisions(event["type"], event["data"], now):
                events.append({"timestamp": date, "type": BATSIM_4.said[type(decision)][0], "data": decision})
        done = max([now, *(event["timestamp"] for event in events)])
        return msgspec.json.encode({"now": done, "events": events})

    def _decisions(self, kind: str, data: dict[str, Any], now: float) -> list[tuple[float, Decision]]:
        """What follows from one event, with dates."""
        about = data.get("job_id", data.get("job_ids", ""))
        if kind == "JOB_SUBMITTED":
            if about == "w0!1":
                self.start = now
                return [(now, Execute(about, "0")), *self._first_move(now)]
            self.seen.append(f"{now:g}:{kind}({about} )")
            return [*self._at_once(now, "to a submission"), (now, Execute(about, "1"))]
        if kind == "JOB_COMPLETED":
            self.ended |= about == "w0!1"
            self.seen.append(f"{now:g}:{kind}({about} {data['job_state'][:24]})")
        elif kind == "JOB_KILLED":
            self.seen.append(f"{now:g}:{kind}({about} ) progress {len(data['job_progress'])}")
        elif kind == "REQUESTED_CALL":
            self.seen.append(f"{now:g}:{kind}")
            return self._at_once(now, "to a call") if "immediate" in self.how else [(self.start + self.after, KILL)]
        return []

    def _first_move(self, now: float) -> list[tuple[float, Decision]]:
        if "in the reply that starts" in self.how:
            return [(now + self.after, KILL)]
        if "to a call" in self.how:
            return [(now, CallAt(now + (self.after if "immediate" in self.how else 5)))]
        return []

    def _at_once(self, now: float, occasion: str) -> list[tuple[float, Decision]]:
        if occasion not in self.how:
            return []
        if self.careful and self.ended:
            self.seen.append("(already complete: no kill sent)")
            return []
        self.seen.append("KILL sent")
        return [(now, KILL)]


KILL = Kill(["w0!1"])
ONE_JOB = [row for row in rows("one-job") if row["profile"] == "delay" and row["batsim"].startswith("4")]


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
        on_job_end=lambda record: ended.setdefault(record.job_id, record),
    )
    if row["exit"] == "0":
        simulation.run()
        killed = ended["1"]
        times = (killed.starting_time, killed.finish_time, killed.execution_time)
        assert [f"{time_s:.6f}" for time_s in times] == [row["start"], row["end"], row["ran"]]
        assert killed.final_state == row["state"]
    else:
        with pytest.raises(SimulationStopped, match=r"KILL_JOB.*'w0!1' has ended"):
            simulation.run()
    # Within an instant the order of events is open.
    assert sorted(scheduler.seen) == sorted(row["what_the_scheduler_saw"].split("; "))


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
    platform = read_platform(ROOT / "platforms" / ("sample.xml" if log == "sample" else "kth-sp2.xml"))
    scheduler = Batsched(len(platform.compute), delay_s)
    ended = {
        r.job_id: (f"{r.starting_time:.6f}", f"{r.finish_time:.6f}", r.final_state, str(r.allocated_resources))
        for r in ended_under(scheduler, load_document(workload), platform)
    }
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
