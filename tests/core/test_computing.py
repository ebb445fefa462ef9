"""Jobs that compute: their run times on hosts of one speed, where their profiles are read, and what is refused."""

from __future__ import annotations

import json
import re

import pytest

import batfill as bf
from batfill.base.errors import WorkloadError
from batfill.batsim_files.platform import homogeneous_platform, read_platform
from batfill.simulator.catalogue import Catalogue
from batfill.workloads import read_workload
from batfill.workloads.batsim_json import load_document
from command import batfill

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


def test_what_all_hosts_share_is_done_sooner_by_more_of_them(workload):
    path = workload(procs=4, profiles={"total": PROFILES["total"]})
    assert read_workload(path, speed=1e9).jobs.runtime_s.tolist() == [100]


def test_replays_and_reports_take_the_speed_or_the_platform_that_has_it(workload, tmp_path):
    path, platform = workload(walltime=150), tmp_path / "p.xml"
    platform.write_text(homogeneous_platform(4, speed="2Gf"))
    by_speed = batfill("replay", path, "--speed", "2Gf", "--json")
    assert (by_speed.status, json.loads(by_speed.out)["options"]["speed"]) == (0, 2e9)
    by_platform = batfill("replay", path, "--platform", platform, "--json")
    assert json.loads(by_platform.out)["makespan_s"] == json.loads(by_speed.out)["makespan_s"] < 400
    assert batfill("workload", "describe", path, "--speed", "2e9").status == 0


def test_a_saved_replay_keeps_the_speed(workload, tmp_path):
    run = bf.Replay(read_workload(workload(), speed=1e9), "fcfs").run("2min")
    run.save(tmp_path / "run.npz")
    assert bf.Replay.load(tmp_path / "run.npz").result().stated()["speed"] == 1e9


def test_conversion_keeps_computations_under_batsim_4s_names(workload, tmp_path):
    out = tmp_path / "new.json"
    assert batfill("workload", "convert", workload(), "--speed", "1Gf", "--overrun", "kill", "--out", out).status == 0
    made = json.loads(out.read_text())["profiles"]
    assert made["old"] == {**PROFILES["old"], "type": "parallel_homogeneous"}
    assert made["within"] == PROFILES["within"]
    assert read_workload(out, speed=1e9).jobs.runtime_s.tolist() == [100, 200, 200, 50, 7, 214, 221, 105]


def catalogue(path, speed):
    return Catalogue(
        {"w0": load_document(path)}, reuse_profiles=False, until_last_job=False, to_reuse="reuse it", speed=speed
    )


def test_a_killed_job_that_computes_reports_another_code_than_a_delay(workload):
    profiles = {name: PROFILES[name] for name in ("each", "delay", "both")}
    jobs = catalogue(workload(profiles=profiles), 1e9).static_jobs
    assert [(job.outcome()[0], job.killed_code) for job in jobs] == [(100, -2), (7, -1), (214, -2)]


def test_hosts_that_differ_or_have_several_cores_compute_under_batsim_alone(workload, tmp_path):
    with pytest.raises(
        WorkloadError, match="job 'w0!00': profile 'each' computes, and hosts are shared, or have several"
    ):
        catalogue(workload(), None)
    platform = tmp_path / "p.xml"
    platform.write_text(homogeneous_platform(4))
    assert read_platform(platform).speed == 1e9
    platform.write_text(homogeneous_platform(4).replace('speed="1Gf" bw', 'speed="1Gf" core="8" bw'))
    assert read_platform(platform).speed is None
    said = batfill("replay", workload(), "--platform", platform).err
    assert said == f"batfill: {platform}: its hosts differ or have several cores: jobs compute under Batsim only\n"


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
        ({"type": "parallel_homogeneous_total", "cpu": 0}, "cpu: 0 takes no time"),
        (
            {"type": "parallel", "cpu": [1e9, 1e9, 1e9]},
            r"jobs\[0\]: profile 'p' is for 3 hosts, and the job requests 2",
        ),
        (
            {"type": "parallel_homogeneous", "cpu": 1e23},
            r"jobs\[0\]: the run time of profile 'p': 99999999999999.98 is more",
        ),
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
        ((), r"w.json: jobs\[0\]: profile 'each' computes; give the hosts' speed, as --speed 1Gf"),
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


def test_a_speed_that_does_nothing_is_refused(workload, tmp_path):
    done = batfill("replay", workload(profiles={"delay": PROFILES["delay"]}), "--speed", "1Gf")
    assert (done.status, done.err.partition("w.json: ")[2]) == (
        2,
        "no job of it computes, so that a speed, or a platform, does nothing; leave it out\n",
    )


def test_fields_that_nothing_reads_are_named_once_with_their_number(workload):
    path = workload(profiles={"delay": PROFILES["delay"], "ends": PROFILES["ends"]}, bb=3, memory=1, user_id=4)
    assert read_workload(path).warnings == (
        "not modelled: the field bb of 1 job",
        "not modelled: the field memory of 1 job",
    )
