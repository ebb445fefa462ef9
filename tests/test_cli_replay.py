"""`batfill replay`: figures on stdout, files on demand."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from batfill.base.version import __version__
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from batfill.workloads import read_workload
from command import batfill, json_result, result

SAMPLE = Path(__file__).parents[1] / "workloads" / "sample.json"
FIGURES = ("jobs", "rejected", "killed", "backfilled", "makespan_s", "utilisation", "mean_wait_s", "max_wait_s")
FIGURES += ("mean_bsld", "mean_pp_bsld", "read_s", "simulate_s")


def test_json_has_the_figures_and_what_is_needed_to_repeat_them():
    report = json_result("replay", SAMPLE, "--policy", "saf", "--threshold", 7200, "--backfill", "spf")
    workload = read_workload(SAMPLE)
    rules = Rules(policy_named("saf"), backfill=policy_named("spf"), threshold_s=7200.0)
    again = replay_jobs(workload.jobs, 64, rules).summary()
    assert report.items() >= again.as_dict().items()
    assert set(FIGURES) <= report.keys()
    said = {name: report[name] for name in ("workload", "workload_sha256", "procs")}
    said |= {name: report["options"][name] for name in ("policy", "backfill", "threshold")}
    assert said == {
        "workload": "sample.json",
        "workload_sha256": workload.digest,
        "procs": 64,
        "policy": "saf",
        "backfill": "spf",
        "threshold": 7200.0,
    }
    assert (report["version"], report["engine"]) == (__version__, "batfill replay")


def small_first(tmp_path):
    """One processor; the first job is small and runs for longer than a divider of 20 s."""
    jobs = [
        {"id": "1", "subtime": 0, "res": 1, "walltime": 40, "profile": "30", "class": "small"},
        {"id": "2", "subtime": 1, "res": 1, "walltime": 40, "profile": "10", "class": "small"},
        {"id": "3", "subtime": 2, "res": 9, "walltime": 40, "profile": "10"},
        {"id": "4", "subtime": 3, "res": 1, "walltime": 10, "profile": "30"},
    ]
    profiles = {str(s): {"type": "delay", "delay": s} for s in (10, 30)}
    path = tmp_path / "small.json"
    path.write_text(json.dumps({"nb_res": 1, "jobs": jobs, "profiles": profiles}))
    return path


def test_a_divider_kills_and_requeues_small_jobs(tmp_path):
    path = small_first(tmp_path)
    for options, requeued in ((["--divider", 20], 1), (["--divider", 30], 0)):
        done = batfill("replay", path, "--small", "class", *options, "--json")
        assert json.loads(done.out)["requeued"] == requeued
        assert "1 of 4 jobs (25.0 %), 64.3 % of the work, are wider than the machine's 1 processors" in done.err
    assert json.loads(batfill("replay", path, "--json").out)["requeued"] == 0
    assert (
        "requeued     1 tries killed (28.57% of the work)"
        in result("replay", path, "--small", "class", "--divider", "20", "--kill", "always").splitlines()
    )


def test_out_writes_batsims_files(tmp_path):
    words = ("--small", "class", "--divider", "20", "--kill", "always")
    result("replay", small_first(tmp_path), *words, "--out", tmp_path / "out")
    written = {f"out_{name}" for name in ("jobs.csv", "schedule.csv", "machine_states.csv", "run.json")}
    assert {path.name for path in tmp_path.iterdir()} == {"small.json"} | written
    with (tmp_path / "out_jobs.csv").open() as lines:
        jobs = list(csv.DictReader(lines))
    told = ("job_id", "final_state", "starting_time", "finish_time", "waiting_time", "allocated_resources")
    assert [tuple(job[name] for name in told) for job in jobs] == [
        ("3", "REJECTED", "", "", "", ""),
        ("1", "COMPLETED_KILLED", "0.000000", "20.000000", "0.000000", "0"),
        ("2", "COMPLETED_SUCCESSFULLY", "20.000000", "30.000000", "19.000000", "0"),
        ("1#1", "COMPLETED_SUCCESSFULLY", "30.000000", "60.000000", "30.000000", "0"),
        ("4", "COMPLETED_WALLTIME_REACHED", "60.000000", "70.000000", "57.000000", "0"),
    ]
    header, totals = (tmp_path / "out_schedule.csv").read_text().splitlines()
    columns = dict(zip(header.split(","), totals.split(","), strict=True))
    assert (columns["makespan"], columns["nb_jobs"], columns["nb_jobs_killed"]) == ("70.000000", "5", "2")
    states = (tmp_path / "out_machine_states.csv").read_text().splitlines()
    assert states[1:] == ["0,0,0,0,0,1", "70,0,0,0,1,0"]


def test_the_same_input_and_options_give_the_same_bytes(tmp_path):
    options = ("--policy", "unicef", "--threshold", 3600)
    reports = [json_result("replay", SAMPLE, *options, "--out", tmp_path / "made" / name) for name in ("one", "two")]
    for report in reports:
        del report["read_s"], report["simulate_s"]
    assert reports[0] == reports[1]
    for what in ("jobs", "machine_states"):
        assert (tmp_path / "made" / f"one_{what}.csv").read_bytes() == (
            tmp_path / "made" / f"two_{what}.csv"
        ).read_bytes()


def test_results_may_be_written_again(tmp_path):
    for policy in ("fcfs", "saf"):
        result("replay", SAMPLE, "--policy", policy, "--out", tmp_path / "out")
    assert len(list(tmp_path.iterdir())) == 4
    assert json.loads((tmp_path / "out_run.json").read_text())["options"]["policy"] == "saf"
