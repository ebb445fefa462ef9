"""Energy in the embedded simulator: the columns and the file of Batsim's -E, against the sum over jobs."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import orjson
import pytest

from batfill.batsim_files.platform import homogeneous_platform, read_platform
from batfill.simulator.command import main
from batfill.simulator.energy import EnergyMeter
from batfill.simulator.wire import SimulationSettings
from small_runs import at, call, document, execute, job, kill, simulate

SPEED, IDLE, BUSY, MACHINES = 1e9, 100.0, 180.0, 8
PROFILES = {
    "delay": {"type": "delay", "delay": 90},
    "each": {"type": "parallel_homogeneous", "cpu": 60e9, "com": 0},
    "total": {"type": "parallel_homogeneous_total", "cpu": 200e9, "com": 0},
    "uneven": {"type": "parallel", "cpu": [40e9, 10e9], "com": [0, 0, 0, 0]},
    "twice": {"type": "composed", "seq": ["each"], "repeat": 2},
    "mixed": {"type": "composed", "seq": ["delay", "each", "delay"], "repeat": 3},
    "fails": {"type": "composed", "seq": ["each", "bad", "each"]},
    "bad": {"type": "delay", "delay": 5, "ret": 1},
}
JOBS = [
    job("a", 3, 2, "delay"),
    job("b", 3, 1, "each"),
    job("c", 5, 4, "total"),
    job("d", 5, 2, "uneven"),
    job("e", 8, 3, "twice"),
    job("f", 9, 1, "mixed"),
    job("g", 10, 2, "each", walltime=25),
    job("h", 11, 5, "mixed", walltime=300),
    job("i", 11, 20, "each"),  # wider than the machine
    job("j", 12, 4, "fails"),
]
# The seconds in which each computes, of those that it runs: by hand.
BY_HAND = {
    "a": (90, 0),
    "b": (60, 60),
    "c": (50, 50),
    "d": (40, 40 * (1 + 0.25) / 2),  # its second host draws a quarter of what the first draws above idle
    "e": (120, 120),
    "f": (3 * 240, 3 * 60),
    "g": (25, 25),  # until it is killed
    "h": (300, 60),  # likewise: 90 + 60 + 90, and 60 s of the second round's delay
    "j": (65, 60),
}


def platform(folder: Path, watts: str | None = f"{IDLE:g}:{BUSY:g}") -> Path:
    """A platform whose hosts, the master too, draw these watts."""
    prop = f'<prop id="wattage_per_state" value="{watts}"/>' if watts is not None else ""
    text = homogeneous_platform(MACHINES, speed=f"{SPEED:g}")
    text = re.sub("<(cluster|host)( [^>]*)/>", rf"<\1\2>{prop}</\1>", text)
    path = folder / "platform.xml"
    path.write_text(text)
    return path


def run(folder: Path, *options: str, jobs=JOBS) -> dict[str, list[dict[str, str]]]:
    """The rows of every csv file of a run without a scheduler: each job on the first machines, one by one."""
    content = {"nb_res": MACHINES, "jobs": jobs, "profiles": PROFILES}
    (folder / "w.json").write_bytes(orjson.dumps(content))
    given = ["-p", f"{folder}/platform.xml", "-w", f"{folder}/w.json", "-e", f"{folder}/out", "--no-sched", "-q"]
    assert main([*given, *options]) == 0
    files = {path.stem.removeprefix("out_"): path for path in folder.glob("out_*.csv")}
    return {name: list(csv.DictReader(path.read_text().splitlines())) for name, path in files.items()}


def drawn_until(date: float, jobs: list[dict[str, str]]) -> float:
    """What all machines have drawn, second by second."""
    total = 0.0
    for second in range(round(date)):
        total += MACHINES * IDLE
        for row in jobs:
            ran = second - float(row["starting_time"])
            if 0 <= ran < float(row["execution_time"]):
                total += int(row["requested_number_of_resources"]) * (BUSY - IDLE) * share_at(row["profile"], ran)
    return total


def share_at(profile: str, ran: float) -> float:
    """Of its hosts' full speed, what they use at this second of its run."""
    if profile == "mixed":
        return 90 <= ran % 240 < 150
    return {"delay": 0.0, "uneven": 0.625, "fails": ran < 60}.get(profile, 1.0)


def test_each_job_draws_idle_watts_while_it_sleeps_and_busy_ones_while_it_computes(tmp_path):
    platform(tmp_path)
    jobs = run(tmp_path, "-E")["jobs"]
    for row in jobs:
        if row["final_state"] == "REJECTED":
            assert (row["job_id"], row["consumed_energy"]) == ("i", "")
            continue
        run_s, computing_s = BY_HAND[row["job_id"]]
        assert float(row["execution_time"]) == run_s
        joules = int(row["requested_number_of_resources"]) * (IDLE * run_s + (BUSY - IDLE) * computing_s)
        assert float(row["consumed_energy"]) == pytest.approx(joules, abs=1e-5)
    assert {row["final_state"] for row in jobs} >= {"COMPLETED_WALLTIME_REACHED", "COMPLETED_FAILED", "REJECTED"}


def test_the_series_is_what_all_hosts_drew_until_each_start_and_end(tmp_path):
    platform(tmp_path)
    files = run(tmp_path, "-E")
    ran = [row for row in files["jobs"] if row["final_state"] != "REJECTED"]
    series = files["consumed_energy"]
    starts, ends = (sorted(float(row[name]) for row in ran) for name in ("starting_time", "finish_time"))
    assert list(series[0]) == ["time", "energy", "event_type", "wattmin", "epower"]
    for event, dates in (("s", starts), ("e", ends)):
        assert [float(row["time"]) for row in series if row["event_type"] == event] == dates
    date, joules = 0.0, 0.0
    for row in series:
        now, drawn = float(row["time"]), drawn_until(float(row["time"]), ran)
        assert row["energy"] == f"{drawn:g}"
        assert row["wattmin"] == f"{MACHINES * IDLE:g}"
        assert row["epower"] == (f"{(drawn - joules) / (now - date):g}" if now > date else "NA")
        date, joules = now, drawn
    (totals,) = files["schedule"]
    assert float(totals["consumed_joules"]) == pytest.approx(drawn_until(ends[-1], ran) - 3 * MACHINES * IDLE)
    assert files["pstate_changes"] == [{"time": "0", "machine_id": f"0-{MACHINES - 1}", "new_pstate": "0"}]


def test_without_the_option_nothing_is_measured(tmp_path):
    platform(tmp_path)
    files = run(tmp_path)
    assert files.keys() == {"jobs", "schedule", "machine_states"}
    assert {row["consumed_energy"] for row in files["jobs"]} == {"-1.000000", ""}
    assert files["schedule"][0]["consumed_joules"] == "0.000000"


def test_a_job_killed_on_request_has_drawn_until_then_and_others_run_beside_it(tmp_path):
    meter = EnergyMeter(read_platform(platform(tmp_path)), Path("p.xml"))
    workload = document(job("a", 0, 2, "work"), job("b", 0, 1), work={"type": "parallel_homogeneous", "cpu": 50e9})
    script = {0: [execute("w0!a", "0-1"), execute("w0!b", "2"), call(4)], 4: [kill("w0!a")]}
    outcome = simulate(workload, at(script), energy=meter)
    assert {record.job_id: record.consumed_energy for record in outcome.records} == {"a": 2 * 4 * BUSY, "b": 10 * IDLE}
    assert meter.consumed_j == MACHINES * 10 * IDLE + 2 * 4 * (BUSY - IDLE)


def test_a_job_that_the_scheduler_runs_itself_draws_nothing(tmp_path):
    meter = EnergyMeter(read_platform(platform(tmp_path)), Path("p.xml"))
    state = lambda name: ("CHANGE_JOB_STATE", {"job_id": "w0!a", "job_state": name})  # noqa: E731
    script = {0: [state("RUNNING"), call(3)], 3: [state("COMPLETED_SUCCESSFULLY")]}
    outcome = simulate(document(job("a")), at(script), energy=meter, settings=SimulationSettings())
    assert (outcome.records[0].consumed_energy, meter.consumed_j) == (-1.0, 0.0)


@pytest.mark.parametrize("watts", ["100:180,90:120", " 100.0:180.0 , 0:0", "1e2:1.8e2", "100:130:180,1:2:3"])
def test_the_first_power_state_counts(tmp_path, watts):
    platform(tmp_path, watts)
    assert run(tmp_path, "--energy", jobs=JOBS[:2])["jobs"][1]["consumed_energy"] == f"{60 * BUSY:.6f}"


def test_of_three_watts_the_middle_ones_are_those_of_the_least_speed(tmp_path):
    platform(tmp_path, "100:120:180")
    files = run(tmp_path, "-E", jobs=[JOBS[3]])
    assert files["jobs"][0]["consumed_energy"] == f"{2 * 40 * (120 + 0.625 * 60):.6f}"
    assert {row["wattmin"] for row in files["consumed_energy"]} == {f"{MACHINES * 120}"}


@pytest.mark.parametrize(
    ("watts", "said"),
    [
        (
            None,
            'has no wattage_per_state, which --energy needs; add <prop id="wattage_per_state" value="idle:busy"/> .*',
        ),
        ("100", "wattage_per_state '100' does not begin with idle:busy watts; write it like 100:200"),
        ("100:180:", ".*does not begin with idle:busy watts.*"),
        ("-1:2", ".*does not begin with idle:busy watts.*"),
        ("1:2:3:4", ".*does not begin with idle:busy watts.*"),
    ],
)
def test_a_host_that_does_not_say_what_it_draws_is_refused(tmp_path, capsys, watts, said):
    path = platform(tmp_path, watts)
    given = ["-p", str(path), "-w", f"{tmp_path}/w.json", "-e", f"{tmp_path}/out", "--no-sched", "-q", "-E"]
    (tmp_path / "w.json").write_bytes(orjson.dumps({"nb_res": MACHINES, "jobs": JOBS, "profiles": PROFILES}))
    assert main(given) == 1
    assert re.fullmatch(f"batfill batsim: {path}: host 'node0':? {said}\n", capsys.readouterr().err)
    assert not list(tmp_path.glob("out*"))
