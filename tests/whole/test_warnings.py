"""Requests that are missing or raised are never replaced without a word: every host and every result says so."""

from __future__ import annotations

import html
import json
import re
import socket

import pytest

import batfill as bf
from batfill.batsim_files.platform import homogeneous_platform
from batfill.workloads import read_workload
from batfill.workloads.formats import load_log
from batfill.workloads.swf_log import write_log
from command import batfill
from swf_text import row

DAY_S = 86_400
LIMITS = "simulation-timeout: 60\nready-timeout: 10\nsuccess-timeout: 10\nfailure-timeout: 5\n"
SAID = "20 of 60 jobs (33.3 %) have no requested time"
STATED = ("--unrequested", "runtime")
REFUSED = (
    f"{SAID}; say what stands in for it with --unrequested runtime, none, SECONDS, queue or user-max "
    "(in Python and campaigns: unrequested)"
)
HOSTS = {
    "replay": [],
    "replay fcfs": ["--policy", "fcfs", "--backfill", "saf"],
    "what-if": ["--no-small-first"],
    "select": ["--policies", "fcfs,spf"],
    "select samples": ["--policies", "fcfs,spf", "--samples", "2"],
    "tune": ["--points", "6", "--boundary", "submitted", "--training", "1", "--last", "1"],
    "fit": ["--tuples", "2", "--permutations", "40", "--training", "2"],
}


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


def results_of(*arguments):
    """What a command prints as JSON, with warnings or without."""
    done = batfill(*arguments, "--json")
    assert done.status == 0, done.err
    return json.loads(done.out)


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
            [f"{without} of 100 jobs ({without}.0 %) have no requested time"] if warned else []
        )
        assert noted == (["1 of 100 jobs changed: requested time unknown, the run time taken"] if without == 1 else [])


def test_replay_and_what_if_warn_beside_their_figures_and_in_json(log, tmp_path):
    page = tmp_path / "page.html"
    for command in (["replay", log, *STATED], ["what-if", log, *STATED, "--no-small-first", "--out", page]):
        text = batfill(*command)
        assert text.status == 0
        assert re.search(f"arning:? +{re.escape(SAID[:10])}|^Cannot tell: ", text.out, re.MULTILINE)
        assert SAID in " ".join(text.out.split())
        done = batfill(*command, "--json")
        assert f"batfill: warning: {SAID}" in done.err
        (warning,) = json.loads(done.out)["warnings"]
        assert warning.startswith(SAID)
    assert SAID in page.read_text().replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize("name", ["select", "tune"])
def test_every_other_host_of_logs_warns_on_stderr_and_in_its_result(log, name):
    done = batfill(name, log, *HOSTS[name], *STATED, "--json")
    assert done.status == 0, done.err
    assert f"batfill: warning: {SAID}" in done.err
    (warning,) = json.loads(done.out)["input"]["warnings"]
    assert warning.startswith(SAID)


def test_a_converted_workload_keeps_the_warning_and_a_log_made_of_it_the_gap(log, tmp_path):
    made, again, part = (tmp_path / name for name in ("made.json", "again.json", "part.json"))
    done = batfill("workload", "convert", log, "--out", made)
    assert f"batfill: warning: {SAID}" in done.err
    assert [text.partition(":")[0] for text in read_workload(made).warnings] == [SAID]
    assert f"batfill: warning: {SAID}" in batfill("workload", "convert", made, "-o", again).err
    batfill("workload", "convert", made, "-o", part, "--jobs", "10:40")
    assert read_workload(part).warnings[0].startswith("10 of 30 jobs (33.3 %)")
    back = tmp_path / "back.swf"
    write_log(load_log(made), back)
    assert load_log(back)["requested_s"].tolist() == load_log(log)["requested_s"].tolist()
    assert read_workload(back).warnings == read_workload(log).warnings


def experiment(log, folder, *choice):
    """A descriptor that runs the log, converted with this choice, without a scheduler's decision."""
    assert batfill("workload", "convert", log, "--out", folder / "w.json", *choice).status == 0
    (folder / "p.xml").write_text(homogeneous_platform(8))
    batcmd = f"${{BATSIM:-batsim}} -p {folder}/p.xml -w {folder}/w.json -e {folder}/out/x --no-sched"
    (folder / "d.yaml").write_text(f"batcmd: {batcmd}\noutput-dir: {folder}/out\nschedcmd: ''\n{LIMITS}")
    return folder / "d.yaml"


def test_a_run_warns_of_what_its_scheduler_has_not_read_and_of_options_that_did_nothing(log, tmp_path):
    path = experiment(log, tmp_path, *STATED)
    workload = json.loads((tmp_path / "w.json").read_text())
    for place, job in enumerate(workload["jobs"]):
        job |= {"licences": 1 + place // 10, "gpus": 2}
    (tmp_path / "w.json").write_text(json.dumps(workload))
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    schedcmd = f"batfill schedule --pool licences=1 --pool tokens=2 -s tcp://127.0.0.1:{port}"
    text = path.read_text().replace("--no-sched", f"-s tcp://localhost:{port}")
    path.write_text(text.replace("schedcmd: ''", f"schedcmd: {schedcmd}"))
    done = batfill("run", path, "--simulator", "embedded")
    assert done.status == 0, done.err
    warned = json.loads((tmp_path / "out" / "run.json").read_text())["warnings"]
    assert [line for line in warned if "requested time" not in line] == [
        "not modelled: the field gpus of 60 jobs",
        "50 jobs were rejected: they request more licences than there is",
        "option pool did nothing: no job has a field tokens above 0; name another, or what a processor takes, or "
        "leave it out",
    ]
    assert all(f"batfill: warning: {line}" in done.err for line in warned)


# Refused unless it is stated what stands in


@pytest.mark.parametrize("host", HOSTS)
def test_a_log_without_requests_is_refused_in_a_line_that_names_the_choices(log, host):
    done = batfill(host.split()[0], log, *HOSTS[host])
    assert (done.status, done.out, done.err) == (2, "", f"batfill: {log}: {REFUSED}\n")


def test_a_converted_workload_is_refused_unless_its_conversion_made_the_choice(log, tmp_path):
    refused = f"{tmp_path}/w.json: {REFUSED.replace('say what stands in for it with', 'convert it again with')}\n"
    done = batfill("run", experiment(log, tmp_path), "--simulator", "embedded")
    assert (done.status, done.err) == (2, f"batfill: {refused}")
    batsim = ["batsim", "-p", tmp_path / "p.xml", "-w", tmp_path / "w.json", "-e", tmp_path / "y", "--no-sched"]
    done = batfill(*batsim)
    assert done.status != 0
    assert refused in done.err
    assert batfill("replay", tmp_path / "w.json").status == 2
    assert batfill("replay", tmp_path / "w.json", *STATED).status == 0
    done = batfill("replay", tmp_path / "w.json", "--unrequested", "none")
    assert (done.status, done.err) == (
        2,
        f"batfill: {tmp_path}/w.json: its walltimes were made with unrequested refuse; convert its log with none\n",
    )
    assert batfill("workload", "convert", tmp_path / "w.json", "-o", tmp_path / "x.json", *STATED).status == 0
    stated = results_of("replay", tmp_path / "x.json")
    assert stated["options"]["unrequested"] == "runtime"


@pytest.mark.parametrize("choice", ["runtime", "none", "5400", "queue", "user-max"])
def test_each_choice_is_replayed_and_stated_and_a_conversion_runs_the_same(log, tmp_path, choice):
    log.write_text(log.read_text().replace("; MaxProcs: 8", "; MaxProcs: 8\n; MaxRuntime: 7200"))
    direct = results_of("replay", log, "--policy", "saf", "--unrequested", choice)
    assert batfill("workload", "convert", log, "-o", tmp_path / "w.json", "--unrequested", choice).status == 0
    converted = results_of("replay", tmp_path / "w.json", "--policy", "saf")
    for found in (direct, converted):
        assert str(found["options"]["unrequested"]) == choice
        said = [text for text in found["warnings"] if text.startswith(SAID)]
        assert len(said) == 1
        assert all("run time stands in" in text or f"(unrequested {choice})" in text for text in said)
    raised, again = (
        [text for text in found["warnings"] if "raised to their run time" in text] for found in (direct, converted)
    )
    assert raised == again
    assert len(raised) == (choice in ("5400", "queue", "user-max"))
    # Batsim ends a job with p = p~ there, so the conversion's walltimes may be a second longer.
    assert converted["mean_wait_s"] == pytest.approx(direct["mean_wait_s"], rel=0.1)
    tuned = results_of("tune", log, *HOSTS["tune"], "--unrequested", choice)["input"]
    selected = results_of("select", log, *HOSTS["select"], "--unrequested", choice)["input"]
    fitted = results_of("fit", log, *HOSTS["fit"], "--unrequested", choice)["input"]
    assert {str(found["unrequested"]) for found in (tuned, selected, fitted)} == {choice}


def test_jobs_wider_than_the_machine_are_said_wherever_they_are_left_out(tmp_path):
    path, page = tmp_path / "log.swf", tmp_path / "page.html"
    path.write_text(
        "; MaxProcs: 4\n"
        + "".join(row(k, 9000 * k, 600, req_procs=5 if k == 9 else 4, req_time=600) for k in range(99))
    )
    said = "1 of 99 jobs (1.0 %), 1.3 % of the work, are wider than the machine's 4 processors"
    assert said in " ".join(batfill("what-if", path, "--no-small-first", "--out", page).out.split())
    assert said in html.unescape(page.read_text()).replace("\u00a0", " ")
    assert json.loads(batfill("what-if", path, "--no-small-first", "--json").out)["warnings"][0].startswith(said)
    assert bf.compare(*(bf.replay(path, name) for name in ("fcfs", "saf"))).attrs["warnings"][0].startswith(said)
    assert json.loads(batfill("workload", "describe", path, "--json").out)["warnings"][0].startswith(said)
    converted = batfill("workload", "convert", path, "--out", tmp_path / "w.json").err
    assert "1 of 99 jobs (1.0 %) are wider than the machine's 4 processors: schedulers reject them" in converted


def test_an_overload_is_said(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(
        "; MaxProcs: 4\n" + "".join(row(k, 86_400 * k, 90_000, req_procs=4, req_time=90_000) for k in (0, 1, 2))
    )
    (said,) = bf.read(path).warnings
    assert said.startswith("the jobs offer 1.56 times the work that 4 processors can do")
