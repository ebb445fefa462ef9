"""A log whose jobs have no requested time is never replayed without a word: every host and every result says so."""

from __future__ import annotations

import json

import pytest

from batfill.batsim.platform import homogeneous_platform
from batfill.workloads import read_workload
from batfill.workloads.formats import load_log
from batfill.workloads.generate import generate_log
from batfill.workloads.swf_log import write_log
from command import batfill
from swf_text import row

DAY_S = 86_400
LIMITS = "simulation-timeout: 60\nready-timeout: 10\nsuccess-timeout: 10\nfailure-timeout: 5\n"
SAID = "20 of 60 jobs (33.3%) have no requested time"


def swf(without, jobs=60):
    """A log of this many jobs, three a day; the first `without` of them have no requested time."""
    rows = (
        row(
            k + 1,
            k * DAY_S // 3 + k * k * 101 % 9000,
            60 + k * k * 7919 % 9000,
            req_procs=1 + k * k % 7,
            req_time=-1 if k < without else 9060 + k * 977 % 5000,
            user=k % 3,
        )
        for k in range(jobs)
    )
    return "; MaxProcs: 8\n" + "".join(rows)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(swf(20))
    return path


def test_a_workload_warns_when_more_than_one_job_in_a_hundred_has_no_request(tmp_path):
    path = tmp_path / "log.swf"
    for without, warned in ((0, False), (1, False), (2, True), (100, True)):
        path.write_text(swf(without, jobs=100))
        workload = read_workload(path)
        noted = [note for note in workload.notes if "requested time unknown" in note]
        assert [text.partition(":")[0] for text in workload.warnings] == (
            [f"{without} of 100 jobs ({without}.0%) have no requested time"] if warned else []
        )
        assert noted == (["1 of 100 jobs changed: requested time unknown, the run time taken"] if without == 1 else [])


def test_replay_and_what_if_warn_beside_their_figures_and_in_json(log, tmp_path):
    page = tmp_path / "page.html"
    for command in (["replay", log], ["what-if", log, "--no-small-first", "--out", page]):
        text = batfill(*command)
        assert text.status == 0
        assert SAID in text.out
        assert "arning" in next(line for line in text.out.splitlines() if SAID in line)
        done = batfill(*command, "--json")
        assert f"batfill: warning: {SAID}" in done.err
        (warning,) = json.loads(done.out)["warnings"]
        assert warning.startswith(SAID)
    assert SAID in page.read_text()


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (["classify"], ["warnings"]),
        (["frontier", "--policy", "spf", "--cuts", "0.5"], ["warnings"]),
        (["select", "--policies", "fcfs,spf"], ["input", "warnings"]),
        (["tune", "--points", "6", "--boundary", "submitted", "--training", "1", "--last", "1"], ["input", "warnings"]),
    ],
    ids=lambda value: value[0],
)
def test_every_other_host_of_logs_warns_on_stderr_and_in_its_result(log, command, place):
    done = batfill(command[0], log, *command[1:], "--json")
    assert done.status == 0, done.err
    assert f"batfill: warning: {SAID}" in done.err
    found = json.loads(done.out)
    for name in place:
        found = found[name]
    (warning,) = found
    assert warning.startswith(SAID)


def test_fit_warns_on_stderr_and_in_its_policy_file(tmp_path):
    path, out = tmp_path / "log.swf", tmp_path / "heuristics.json"
    made = generate_log(300, 64, 1)
    made["requested_s"][::3] = -1
    write_log(made, path)
    done = batfill("fit", path, "--tuples", 3, "--permutations", 40, "--out", out)
    assert done.status == 0
    said = "100 of 300 jobs (33.3%) have no requested time"
    assert f"batfill: warning: {said}" in done.err
    assert json.loads(out.read_text())["input"]["warnings"][0].startswith(said)


def test_a_converted_workload_keeps_the_warning_and_a_log_made_of_it_the_gap(log, tmp_path):
    made, again, part = (tmp_path / name for name in ("made.json", "again.json", "part.json"))
    done = batfill("workload", "convert", log, "--out", made)
    assert f"batfill: warning: {SAID}" in done.err
    assert [text.partition(":")[0] for text in read_workload(made).warnings] == [SAID]
    assert f"batfill: warning: {SAID}" in batfill("workload", "convert", made, "-o", again).err
    batfill("workload", "convert", made, "-o", part, "--jobs", "10:40")
    assert read_workload(part).warnings[0].startswith("10 of 30 jobs (33.3%)")
    back = tmp_path / "back.swf"
    write_log(load_log(made), back)
    assert load_log(back)["requested_s"].tolist() == load_log(log)["requested_s"].tolist()
    assert read_workload(back).warnings == read_workload(log).warnings


def test_a_log_with_all_requests_is_replayed_without_a_warning(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(swf(0))
    done = batfill("replay", path, "--json")
    assert (done.err, json.loads(done.out)["warnings"]) == ("", [])


def test_a_campaign_says_the_warning_and_keeps_it_for_its_report(log, tmp_path):
    campaign, out = tmp_path / "c.yaml", tmp_path / "results"
    campaign.write_text("workloads: [{file: log.swf}]\nwindows: {days: 7}\npolicies: [fcfs, spf]\n")
    done = batfill("campaign", campaign, "--out", out, "--workers", 1, "--json")
    assert done.status == 0, done.err
    assert f"batfill: warning: log.swf: {SAID}" in done.err
    (warning,) = json.loads(done.out)["warnings"]
    assert warning.startswith(f"log.swf: {SAID}")
    (source,) = json.loads((out / "provenance.json").read_text())["inputs"]
    assert source["warnings"][0].startswith(SAID)
    page = tmp_path / "page.html"
    assert batfill("report", out, "--out", page).status == 0
    assert SAID in page.read_text()


def test_run_warns_and_notes_it_in_run_json(log, tmp_path):
    batfill("workload", "convert", log, "--out", tmp_path / "w.json")
    (tmp_path / "p.xml").write_text(homogeneous_platform(8))
    prefix = tmp_path / "out" / "x"
    batcmd = f"${{BATSIM:-batsim}} -p {tmp_path}/p.xml -w {tmp_path}/w.json -e {prefix} --no-sched"
    (tmp_path / "d.yaml").write_text(f"batcmd: {batcmd}\noutput-dir: {tmp_path}/out\nschedcmd: ''\n{LIMITS}")
    done = batfill("run", tmp_path / "d.yaml", "--simulator", "embedded", "--json")
    assert done.status == 0, done.err
    assert f"batfill: warning: {SAID}" in done.err
    assert json.loads(done.out)["warnings"][0].startswith(SAID)
    assert json.loads((tmp_path / "out" / "run.json").read_text())["warnings"][0].startswith(SAID)
