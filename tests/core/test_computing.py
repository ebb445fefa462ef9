"""Jobs that compute: their run times on hosts of one speed, where their profiles are read, and what is refused."""

from __future__ import annotations

import atexit
import csv
import json
import re
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path

import pytest

import batfill as bf
from batfill.base.errors import WorkloadError
from batfill.batsim_files.platform import homogeneous_platform, read_platform
from batfill.batsim_files.results import JOB_COLUMNS, job_row, run_files
from batfill.simulator.catalogue import Catalogue
from batfill.simulator.command_line import parse_arguments
from batfill.simulator.energy import EnergyMeter
from batfill.simulator.wire import progress
from batfill.workloads import read_workload
from batfill.workloads.batsim_json import load_document
from command import batfill
from golden import AsRecorded4, Played, key

PROFILES = {
    "each": {"type": "parallel_homogeneous", "cpu": 1e11, "com": 0},
    "old": {"type": "msg_par_hg", "cpu": 2e11, "com": 0},
    "total": {"type": "parallel_homogeneous_total", "cpu": 4e11, "com": 0},
    "hosts": {"type": "parallel", "cpu": [1e10, 5e10], "com": [0, 0, 0, 0]},
    "delay": {"type": "delay", "delay": 7},
    "both": {"type": "composed", "repeat": 2, "seq": ["each", "delay"]},
    "within": {"type": "composed", "seq": ["delay", "both"]},
    "fails": {"type": "composed", "repeat": 3, "seq": ["each", "ends"]},
    "ends": {"type": "delay", "delay": 5, "ret": 1},
}


@pytest.fixture
def workload(tmp_path):
    """Writes a workload of one job per profile, each of this width, and returns its path."""

    def write(procs=2, profiles=PROFILES, **fields):
        jobs = [
            {"id": f"{place:02}", "subtime": place, "res": procs, "profile": name, **fields}
            for place, name in enumerate(profiles)
            if name != "ends"
        ]
        path = tmp_path / "w.json"
        path.write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
        return path

    return write


def test_a_run_time_is_operations_by_speed(workload):
    log = read_workload(workload(), speed=1e9)
    # On two hosts: 1e11 each, 2e11 each, 4e11 of both, the longer of two, 7, 2 x 107, 7 + 214, and 100 + 5 once.
    assert log.jobs.runtime_s.tolist() == [100, 200, 200, 50, 7, 214, 221, 105]
    assert read_workload(workload(), speed=2e9).jobs.runtime_s.tolist() == [50, 100, 100, 25, 7, 114, 121, 55]


def test_replays_and_reports_take_the_speed_or_the_platform_that_has_it(workload, tmp_path):
    path, platform = workload(walltime=150), tmp_path / "p.xml"
    platform.write_text(homogeneous_platform(4, speed="2Gf"))
    by_speed = batfill("replay", path, "--speed", "2Gf", "--json")
    assert (by_speed.status, json.loads(by_speed.out)["options"]["speed"]) == (0, 2e9)
    by_platform = batfill("replay", path, "--platform", platform, "--json")
    assert json.loads(by_platform.out)["makespan_s"] == json.loads(by_speed.out)["makespan_s"] < 400
    assert batfill("workload", "describe", path, "--speed", "2e9").status == 0


def test_conversion_keeps_computations_under_batsim_4s_names(workload, tmp_path):
    out = tmp_path / "new.json"
    assert batfill("workload", "convert", workload(), "--speed", "1Gf", "--overrun", "kill", "--out", out).status == 0
    made = json.loads(out.read_text())["profiles"]
    assert made["old"] == {**PROFILES["old"], "type": "parallel_homogeneous"}
    assert made["within"] == PROFILES["within"]
    assert read_workload(out, speed=1e9).jobs.runtime_s.tolist() == [100, 200, 200, 50, 7, 214, 221, 105]


def catalogue(path, speed):
    return Catalogue({"w0": load_document(path)}, reuse_profiles=False, speed=speed)


def test_only_equal_speeds_time_jobs_on_one_core_in_the_power_state(workload, tmp_path):
    with pytest.raises(WorkloadError, match="job 'w0!00': profile 'each' computes, and hosts are shared, or differ"):
        catalogue(workload(), None)
    platform, cluster = tmp_path / "p.xml", 'speed="1Gf" bw'
    for changed, speed in (
        (cluster, 1e9),
        ('speed="1Gf" core="8" bw', 1e9),
        ('speed="0f,3Gf,1Gf" pstate="1" bw', 3e9),
    ):
        platform.write_text(homogeneous_platform(4).replace(cluster, changed))
        assert read_platform(platform).speed == speed
    other = '<host id="x" speed="2Gf"/>'
    platform.write_text(homogeneous_platform(4).replace('<zone id="master"', f'{other}<zone id="master"'))
    assert read_platform(platform).speed is None
    said = batfill("replay", workload(), "--platform", platform).err
    assert said.endswith("w.json: jobs[0]: profile 'each' computes; give the one speed of all hosts, as --speed 1Gf\n")
    assert batfill("replay", workload(profiles={"delay": PROFILES["delay"]}), "--platform", platform).status == 0


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (
            {"type": "parallel_homogeneous", "cpu": 1e9, "com": 5},
            r"com: a job of it communicates, and so runs under Bat",
        ),
        ({"type": "parallel", "cpu": [1, 1], "com": [0, 1, 0, 0]}, r"com: a job of it communicates"),
        ({"type": "parallel_homogeneous", "com": 0}, "cpu: nothing is not the operations of each host; give numbers"),
        ({"type": "parallel", "cpu": 7}, "cpu: 7 is not an array of the operations of each host"),
        ({"type": "parallel", "cpu": []}, r"cpu: \[\] is not an array"),
        ({"type": "parallel", "cpu": [1, -1]}, r"cpu: \[1, -1\] is not an array"),
        (
            {"type": "parallel", "cpu": [1e9, 1e9, 1e9]},
            r"jobs\[0\]: profile 'p' is for 3 hosts, and the job requests 2",
        ),
        (
            {"type": "parallel_homogeneous", "cpu": 1e23},
            r"the run time of profile 'p': 99999999999999.98 is more",
        ),
        ({"type": "parallel_homogeneous", "cpu": 1e308}, r"jobs\[0\]: the run time of profile 'p': 1e\+18 is more"),
        ({"type": "delay", "delay": 1e13}, r"jobs\[0\]: the run time of profile 'p': 10000000000000.0 is more"),
        ({"type": "send", "to": "x"}, "type: send runs under Batsim only; here run: delay, composed, parallel_homo"),
        ({"type": ["delay"]}, r"type: \['delay'\] is not supported"),
    ],
    ids=str,
)
def test_what_cannot_be_timed_is_refused_in_one_line(workload, profile, said):
    with pytest.raises(WorkloadError, match=said):
        read_workload(workload(profiles={"p": profile}), speed=1e9)


def test_a_profile_that_no_job_uses_may_need_the_network(tmp_path, workload):
    path = workload(profiles={"delay": PROFILES["delay"], "ends": PROFILES["ends"]})
    content = json.loads(path.read_text())
    content["profiles"] |= {"smpi": {"type": "smpi", "trace": "t"}, "com": {"type": "parallel_homogeneous", "com": 1}}
    path.write_text(json.dumps(content))
    assert read_workload(path).jobs.runtime_s.tolist() == [7]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), r"w.json: jobs\[0\]: profile 'each' computes; give the one speed of all hosts, as --speed 1Gf"),
        (("--speed", "fast"), "--speed: 'fast' is not a finite number of operations per second > 0, as 1e9 or 1Gf"),
        (("--speed", "0f"), "--speed: '0f' is not a finite number of operations per second > 0, as 1e9"),
        (("--speed", "1Gf", "--platform", "p.xml"), "--speed and --platform exclude each other; give one of them"),
    ],
)
def test_a_replay_says_what_it_needs(workload, words, said):
    done = batfill("replay", workload(), *words)
    assert done.status == 2
    assert done.err.count("\n") == 1
    assert re.search(said, done.err)


@pytest.mark.parametrize("name", ["w.json", "log.swf"])
def test_a_speed_that_does_nothing_is_ignored_with_a_line(name, workload, tmp_path):
    path = workload(profiles={"delay": PROFILES["delay"]}, walltime=60)
    if name == "log.swf":
        assert batfill("workload", "convert", path, "--out", tmp_path / name).status == 0
    done = batfill("replay", tmp_path / name, "--speed", "1Gf")
    assert (done.status, done.out.count("no job computes, so the hosts' speed does nothing")) == (0, 1)


def test_jobs_without_an_end_run_to_their_walltime_and_jobs_of_nothing_end_as_they_start(workload, tmp_path):
    profiles = {
        **{name: {"type": "parallel_homogeneous", "cpu": cpu} for name, cpu in (("endless", 1e22), ("huge", 1e308))},
        "never": {"type": "delay", "delay": 1e22},
        "often": {"type": "composed", "seq": ["huge", "never"], "repeat": 10**9},
        "nothing": {"type": "parallel", "cpu": [0, 0], "com": [0, 0, 0, 0]},
    }
    path = workload(profiles=profiles, walltime=50)
    run = bf.replay(path, speed=1e9)
    assert (run["end_s"] - run["start_s"]).tolist() == [50, 50, 50, 50, 0]
    assert run["state"].tolist() == ["ended at its walltime"] * 4 + ["completed"]
    jobs = catalogue(path, 1e9).static_jobs
    assert [job.outcome()[0] for job in jobs] == [50, 50, 50, 50, 0]
    shares = [json.loads(progress(job.task, 10.0)[0]) for job in jobs]
    assert shares[3].pop("current_task")["progress"] == shares[3]["current_task_index"] == 0
    assert [share.get("progress") for share in shares] == [0, 0, 0, None, 1]
    out = tmp_path / "out.json"
    assert batfill("workload", "convert", path, "--speed", "1Gf", "--overrun", "kill", "--out", out).status == 0
    refused = batfill("workload", "convert", path, "--speed", "1Gf", "--out", out)
    assert (refused.status, "raised above the run time (overrun kill keeps it)" in refused.err) == (2, True)


ENDS = {  # of a job with p = p~: in Batsim's terms, or in the replay's
    "each": ("COMPLETED_SUCCESSFULLY", "completed", 0),
    "delay": ("COMPLETED_WALLTIME_REACHED", "ended at its walltime", -1),
    "wrong": ("COMPLETED_FAILED", "failed", 3),
    "both": ("COMPLETED_WALLTIME_REACHED", "ended at its walltime", -1),
    "other": ("COMPLETED_SUCCESSFULLY", "completed", 0),
    "early": ("COMPLETED_FAILED", "failed", 3),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_job_that_ends_computing_at_its_walltime_ends_by_itself(name, workload, tmp_path):
    profiles = {
        **PROFILES,
        "wrong": {**PROFILES["each"], "ret": 3},
        "other": {"type": "composed", "repeat": 2, "seq": ["delay", "each"]},
        "early": {"type": "composed", "seq": ["wrong", "delay"]},
    }
    length = {"delay": 7, "both": 214, "other": 214}.get(name, 100)
    content = {"nb_res": 4, "profiles": profiles}
    content["jobs"] = [{"id": "a", "subtime": 0, "res": 2, "walltime": length, "profile": name}]
    path = tmp_path / "one.json"
    path.write_text(json.dumps(content))
    state, word, code = ENDS[name]
    assert catalogue(path, 1e9).static_jobs[0].outcome() == (length, state, code)
    run = bf.replay(path, speed=1e9)
    assert run["state"].tolist() == [word]
    run.to_batsim(tmp_path / "out")
    assert f",{int(code == 0)},{state}," in (tmp_path / "out_jobs.csv").read_text()
    stopped = bf.Replay(read_workload(path, speed=1e9))
    stopped.save(tmp_path / "run.npz")
    assert bf.Replay.load(tmp_path / "run.npz").run().result()["state"].tolist() == [word]


def test_a_delay_that_returns_another_code_than_0_has_failed(workload, tmp_path):
    path = workload(profiles={"delay": {**PROFILES["delay"], "ret": 1}})
    assert bf.replay(path)["state"].tolist() == ["failed"]
    assert batfill("workload", "convert", path, "--out", tmp_path / "log.swf").status == 0
    assert (tmp_path / "log.swf").read_text().split()[-8] == "0"  # the status


def test_close_ends_of_computing_jobs_are_counted_once(workload):
    profiles = {name: {"type": "parallel_homogeneous", "cpu": cpu} for name, cpu in (("a", 1e11), ("b", 9.90005e10))}
    profiles |= {"delay": {"type": "delay", "delay": 98}, "c": {"type": "parallel_homogeneous", "cpu": 2e11}}
    warnings = bf.replay(workload(procs=1, profiles=profiles), speed=1e9).as_dict()["warnings"]
    assert [line[:64] for line in warnings] == ["2 ends of computing jobs fell within a millisecond of another: B"]


# Recorded runs of Batsim 4.2.0: small ones of our own making, with -E, on 8 hosts.


@cache
def recordings() -> Path:
    """Where they are unpacked."""
    place = Path(tempfile.mkdtemp(prefix="computing-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    with tarfile.open(Path(__file__).parents[1] / "data" / "computing.tar.xz") as stored:
        stored.extractall(place, filter="data")
    return place


RECORDED = sorted(path.name for path in recordings().iterdir())
BY_COUNTS = [name for name in RECORDED if not re.search("kill|bf", name)]  # under EASY, nothing killed on request
# A kill at the very date at which a computation begins: Batsim charges the delay before, which was nothing.
ODD_ENERGY = {"killer": {"048"}}


def rows_of(text):
    return {row["job_id"]: row for row in csv.DictReader(text.splitlines())}


def without_progress(message):
    """Where the network takes time, the part that a killed job was in may be the one before."""
    return re.sub(rb'"job_progress":.*', b"", message)


@pytest.mark.parametrize("name", RECORDED)
def test_jobs_end_and_draw_energy_as_under_batsim(name, tmp_path):
    folder = recordings() / name
    lines = [line.partition(b'"msg":')[2][:-1] for line in (folder / "messages.jsonl").read_bytes().splitlines()]
    told, replies = lines[::2], iter(lines[1::2])
    words = json.loads((folder / "run.json").read_text())["batsim_options"].split()
    options = parse_arguments(["-p", str(folder / "platform.xml"), "-w", str(folder / "workload.json"), *words])
    platform = read_platform(options.platform)
    energy = EnergyMeter(platform, options.platform)
    documents = {"w0": load_document(options.workloads[0])}
    how = {"settings": options.settings, "energy": energy}
    run = Played(AsRecorded4, platform, documents, lambda message: next(replies), job_row, **how)
    run.simulation.expected = [list(map(key, json.loads(message)["events"])) for message in told]
    with run_files(tmp_path / "out", energy=True) as files:
        energy.on_row = files.energy_drawn
        run.simulation.run()
        times, pstates = run.simulation.machines.times, [host.pstate for host in platform.machines]
        files.summarise(machines=8, times=times, scheduling_s=0.0, simulation_s=0.0, pstates=pstates)

    content = without_progress if "finite" in name else json.loads
    assert list(map(content, run.told[1:])) == list(map(content, told[1:]))
    ours, theirs = rows_of("\n".join([JOB_COLUMNS, *run.rows])), rows_of((folder / "out_jobs.csv").read_text())
    assert ours.keys() == theirs.keys()
    odd = set()
    for job, row in theirs.items():
        for of in (row, ours[job]):
            of.pop("stretch")
        joules = [float(of.pop("consumed_energy") or 0) for of in (row, ours[job])]
        assert ours[job] == row
        odd |= set() if joules[0] == pytest.approx(joules[1], rel=1e-9, abs=1e-2) else {job}
    assert odd == ODD_ENERGY.get(name, set())
    drawn, expected = (
        [
            [float(row[column]) for column in ("time", "energy", "wattmin")]
            for row in csv.DictReader(file.read_text().splitlines())
        ]
        for file in (tmp_path / "out_consumed_energy.csv", folder / "out_consumed_energy.csv")
    )
    if not odd:
        assert drawn == [pytest.approx(row, rel=2e-5, abs=1e-2) for row in expected]
    stated = (folder / "out_pstate_changes.csv").read_text()
    assert (tmp_path / "out_pstate_changes.csv").read_text() == stated


@pytest.mark.parametrize("name", BY_COUNTS)
def test_a_replay_of_a_platform_has_batsims_starts_ends_and_states(name, tmp_path):
    folder = recordings() / name
    words = ("--platform", folder / "platform.xml", "--policy", "fcfs", "--out", tmp_path / "out", "--json")
    done = batfill("replay", folder / "workload.json", *words)
    assert done.status == 0
    ours, theirs = (rows_of(path.read_text()) for path in (tmp_path / "out_jobs.csv", folder / "out_jobs.csv"))
    columns = ("requested_time", "success", "final_state", "starting_time", "execution_time", "finish_time")
    off = {job for job, row in theirs.items() if [ours[job][c] for c in columns] != [row[c] for c in columns]}
    # There two jobs end in one second, which Batsim reported in two messages; the replay says that this may happen.
    assert len(off) == (2 if name == "initial-power-state" else 0)
    assert ("ends of computing jobs" in done.out) == bool(off)
