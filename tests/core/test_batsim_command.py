"""`batfill batsim` as a command: options, exit statuses, schedulers that vanish or keep silent, those of others."""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest
import zmq

from batfill.batsim_files.platform import homogeneous_platform
from batfill.simulator.command import main
from batfill.simulator.command_line import ArgumentsError, parse_arguments
from batfill.workloads.batsim_json import BatsimDocument
from command import free_port, scheduler
from golden import recording
from small_runs import document, execute, job

JOBS = document(job("a"), job("b", 1, 2, walltime=4), job("wide", 2, 9), job("c", 3))
DYNAMIC = ["--enable-dynamic-jobs", "--enable-profile-reuse"]
SCRIPTS = Path(sys.executable).parent


def write(folder: Path, workload: BatsimDocument = JOBS) -> list[str]:
    """The inputs of a run in this folder, as Batsim's options."""
    (folder / "platform.xml").write_text(homogeneous_platform(4))
    content = {"nb_res": workload.nb_res, "jobs": workload.jobs, "profiles": workload.profiles}
    (folder / "w.json").write_bytes(orjson.dumps(content))
    return ["-p", f"{folder}/platform.xml", "-w", f"{folder}/w.json", "-e", f"{folder}/out"]


def rows(folder: Path, what: str = "jobs") -> list[dict[str, str]]:
    with (folder / f"out_{what}.csv").open() as lines:
        return list(csv.DictReader(lines))


def reject_all(message):
    arrived = [event["data"] for event in message["events"] if event["type"] == "JOB_SUBMITTED"]
    return [("REJECT_JOB", {"job_id": data["job_id"]}) for data in arrived]


# The command line


def test_the_context_is_printed_for_programs_and_nothing_is_simulated(tmp_path, capsys):
    arguments = ["-p", "absent.xml", "-e", f"{tmp_path}/new/x", "-s", "tcp://there:1", "--dump-execution-context"]
    assert main(arguments) == 0
    context = json.loads(capsys.readouterr().out)
    assert context == {
        "socket_endpoint": "tcp://there:1",
        "redis_enabled": False,
        "redis_hostname": "127.0.0.1",
        "redis_port": 6379,
        "redis_prefix": "default",
        "export_prefix": f"{tmp_path}/new/x",
        "external_scheduler": True,
    }
    assert main([*arguments, "--no-sched"]) == 0
    assert json.loads(capsys.readouterr().out)["external_scheduler"] is False
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "the following arguments are required: -p/--platform (see batfill batsim --help)"),
        (["-p", "x", "--mmax", "-1"], "--mmax: -1 is below 0; 0 means no limit"),
        (["-p", "x", "--enable-profile-reuse"], "--enable-profile-reuse needs --enable-dynamic-jobs; add it"),
        (["-p", "x", "-r", "node1"], "--add-role-to-hosts: 'node1' is not of the form host1,host2:role"),
        (["-p", "x", "-s", "tcp://h:99999"], "--socket-endpoint: tcp://h:99999: a port is a number from"),
        (["-p", "x", "--sched-cfg-file", "absent"], "--sched-cfg-file: absent cannot be read"),
        (["-p", "x", "-E", "--enable-compute-sharing"], "--energy: what hosts draw that several jobs share is not"),
    ],
)
def test_bad_arguments_exit_with_255_and_one_line(arguments, complaint, capsys):
    assert main(arguments) == 255
    said = capsys.readouterr()
    assert said.out == ""
    assert complaint in said.err
    assert said.err.count("\n") == 1


def test_bad_inputs_exit_as_batsim_does_with_one_line_and_without_files(tmp_path, capsys):
    inputs = write(tmp_path)
    (tmp_path / "broken.json").write_text('{"nb_res": 4, "jobs": [{}], "profiles": {}}')
    (tmp_path / "events").write_text('{"type": "quake", "timestamp": 1}\n')
    for arguments, status, complaint in (
        ([*inputs, "-p", "absent.xml"], 1, "absent.xml: no such file or directory"),
        ([*inputs, "-m", "boss"], 1, "no host is called 'boss'"),
        ([*inputs, "--mmax", "5"], 1, "5 machines are requested and it describes 4"),
        ([*inputs, "-w", "absent.json"], 2, "absent.json: no such file or directory"),
        ([*inputs, "-w", f"{tmp_path}/broken.json"], 2, "broken.json: jobs[0].id: nothing is not a string"),
        ([*inputs, "--events", "absent"], 2, "absent: no such file or directory"),
        ([*inputs, "--events", f"{tmp_path}/events"], 2, "line 1: type 'quake' is not known"),
    ):
        assert main([*arguments, "--no-sched"]) == status
        said = capsys.readouterr().err
        assert complaint in said
        assert said.count("\n") == 1
    assert not list(tmp_path.glob("*out*"))


def test_the_scheduler_is_told_of_the_options(tmp_path):
    inputs = write(tmp_path)
    (tmp_path / "config").write_text('{"k": "v"}\n')
    (tmp_path / "events").write_text('{"type": "quake", "timestamp": 1}\n')
    told = {}

    def answer(message):
        if message["events"][0]["type"] == "SIMULATION_BEGINS":
            told.update(message["events"][0]["data"])
            return [("NOTIFY", {"type": "registration_finished"})]
        return reject_all(message)

    options = [*DYNAMIC, "--forward-profiles-on-submission", "--acknowledge-dynamic-jobs", "--mmax", "3"]
    options += ["--enable-compute-sharing", "--disable-storage-sharing"]
    options += ["--sched-cfg-file", f"{tmp_path}/config", "--events", f"{tmp_path}/events", "--forward-unknown-events"]
    with scheduler(answer) as endpoint:
        assert main([*inputs, *endpoint, *options, "-r", "node1:storage", "-q"]) == 0
    assert {key: value for key, value in told["config"].items() if not key.startswith("redis")} == {
        "profiles-forwarded-on-submission": True,
        "dynamic-jobs-enabled": True,
        "dynamic-jobs-acknowledged": True,
        "profile-reuse-enabled": True,
        "sched-config": '{"k": "v"}\n',
        "forward-unknown-events": True,
    }
    assert (told["allow_compute_sharing"], told["allow_storage_sharing"]) == (True, False)
    assert [host["name"] for host in told["compute_resources"]] == ["node0", "node2", "node3"]
    assert [(host["id"], host["name"]) for host in told["storage_resources"]] == [(3, "node1")]
    assert told["workloads"] == {"w0": f"{tmp_path}/w.json"}


@pytest.mark.parametrize(
    ("options", "remarks"),
    [
        (["--forward-unknown-events"], ["--forward-unknown-events does nothing without --events"]),
        (["--acknowledge-dynamic-jobs"], ["--acknowledge-dynamic-jobs does nothing without --enable-dynamic-jobs"]),
        (DYNAMIC, [f"{option} does nothing with --no-sched" for option in DYNAMIC]),
        (["--sched-cfg", "", "--sched-timeout", "0"], ["--sched-cfg does nothing", "--sched-timeout does nothing"]),
        (["--mmax", "3"], []),
    ],
)
def test_an_option_that_does_nothing_beside_the_others_is_named(options, remarks, tmp_path, capsys):
    assert main([*write(tmp_path), "--no-sched", *options]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "does nothing" in line]
    assert len(said) == len(remarks)
    assert all(map(str.__contains__, said, remarks))


# Runs


def test_without_a_scheduler_jobs_run_one_by_one(tmp_path, capsys):
    assert main([*write(tmp_path), "--no-sched", "--disable-machine-state-tracing", "--disable-schedule-tracing"]) == 0
    assert [(r["job_id"], r["final_state"], r["starting_time"], r["allocated_resources"]) for r in rows(tmp_path)] == [
        ("wide", "REJECTED", "", ""),
        ("a", "COMPLETED_SUCCESSFULLY", "0.000000", "0"),
        ("b", "COMPLETED_WALLTIME_REACHED", "10.000000", "0-1"),
        ("c", "COMPLETED_SUCCESSFULLY", "14.000000", "0"),
    ]
    assert not (tmp_path / "out_machine_states.csv").exists()
    said = capsys.readouterr()
    assert said.out == ""
    assert "w0: 4 jobs" in said.err
    assert "4 jobs, 2 successful, 1 rejected, makespan 24 s" in said.err


def test_a_scheduler_that_dies_is_noticed_and_what_there_is_is_written(tmp_path, capsys):
    def dies(message):
        if message["now"] == 2:
            return None
        return [execute("w0!a")] if message["events"][0]["data"].get("job_id") == "w0!a" else reject_all(message)

    started = time.monotonic()
    with scheduler(dies) as endpoint:
        assert main([*write(tmp_path), *endpoint, "-q"]) == 1
    assert time.monotonic() - started < 5
    assert "went away without an answer" in capsys.readouterr().err
    assert [(row["job_id"], row["final_state"]) for row in rows(tmp_path)] == [("b", "REJECTED")]
    assert rows(tmp_path, "schedule")[0]["nb_jobs"] == "1"
    assert not list(tmp_path.glob(".*"))  # no temporary file is left


def test_a_scheduler_that_is_not_there_or_keeps_silent_is_not_waited_for_for_ever(tmp_path, capsys, monkeypatch):
    inputs = write(tmp_path)
    assert main([*inputs, "-s", f"tcp://127.0.0.1:{free_port()}", "-q", "--sched-timeout", "0.2"]) == 1
    assert "cannot be reached for 0.2 s" in capsys.readouterr().err
    monkeypatch.setenv("BATFILL_SCHED_TIMEOUT", "0.3")
    with scheduler(lambda message: time.sleep(1)) as endpoint:
        assert main([*inputs, *endpoint, "-q"]) == 1
    assert "does not answer for 0.3 s" in capsys.readouterr().err
    monkeypatch.setenv("BATFILL_SCHED_TIMEOUT", "soon")
    with pytest.raises(ArgumentsError, match=r"\$BATFILL_SCHED_TIMEOUT: 'soon' is not a number of seconds"):
        parse_arguments(["-p", "x"])


def test_a_signal_stops_the_run_and_keeps_what_there_is(tmp_path):
    with zmq.Context() as context, context.socket(zmq.REP) as rep:
        rep.setsockopt(zmq.LINGER, 0)
        port = rep.bind_to_random_port("tcp://127.0.0.1")
        command = [sys.executable, "-m", "batfill", "batsim", *write(tmp_path), "-s", f"tcp://127.0.0.1:{port}", "-q"]
        environment = {**os.environ, "BATFILL_PROGRESS": str(tmp_path / "progress")}
        with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as process:
            assert rep.poll(20_000)
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=20)[1]
            assert said == b"batfill: interrupted by SIGTERM; stopped at date 0.000000; the results so far are kept\n"
        assert process.returncode == 128 + signal.SIGTERM
    assert rows(tmp_path) == []
    state = json.loads((tmp_path / "progress").read_text())
    assert state == {"date": 0.0, "jobs_done": 0, "jobs_total": 4, "waiting": 0}
    assert not list(tmp_path.glob(".*"))


def test_progress_is_written_while_the_run_lasts(tmp_path, monkeypatch):
    monkeypatch.setenv("BATFILL_PROGRESS", str(tmp_path / "progress"))
    seen = []

    def slow(message):
        if message["now"] == 2:
            time.sleep(0.6)
        if (tmp_path / "progress").exists():
            seen.append(json.loads((tmp_path / "progress").read_text()))
        return reject_all(message)

    with scheduler(slow) as endpoint:
        assert main([*write(tmp_path), *endpoint, "-q"]) == 0
    assert {"date": 3.0, "jobs_done": 3, "jobs_total": 4, "waiting": 1} in seen
    assert json.loads((tmp_path / "progress").read_text())["jobs_done"] == 4


# Schedulers of others


@pytest.mark.parametrize("name", ["fillerSched", "easyBackfill"])
def test_a_scheduler_of_pybatsims_own_runs_unchanged(name, tmp_path):
    pytest.importorskip("batsim", reason="needs the extra pybatsim")
    whole = json.loads(gzip.decompress((recording("fcfs").folder / "workload.json.gz").read_bytes()))
    (tmp_path / "w.json").write_text(json.dumps({**whole, "jobs": whole["jobs"][:300]}))
    (tmp_path / "platform.xml").write_text(homogeneous_platform(whole["nb_res"]))
    port = free_port()
    batsim = [sys.executable, "-m", "batfill", "batsim", "-p", "platform.xml", "-w", "w.json"]
    batsim += ["-s", f"tcp://localhost:{port}", "-q", "--sched-timeout", "60"]
    pybatsim = [SCRIPTS / "pybatsim", f"schedulers/{name}", "-s", f"tcp://*:{port}", "-o", "{}", "-t", "0"]
    pybatsim += ["-v", "warning"]
    with (
        (tmp_path / "pybatsim.log").open("w+") as log,  # it says too much for a pipe that nobody empties
        subprocess.Popen(pybatsim, cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT) as theirs,
        subprocess.Popen(batsim, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as ours,
    ):
        try:
            assert ours.communicate(timeout=90)[0] == b""
            assert theirs.wait(timeout=30) == 0
        finally:
            ours.kill()
            theirs.kill()
    assert ours.returncode == 0
    assert "complete: 300" in (tmp_path / "pybatsim.log").read_text()
    assert [row["final_state"] for row in rows(tmp_path)] == ["COMPLETED_SUCCESSFULLY"] * 300
