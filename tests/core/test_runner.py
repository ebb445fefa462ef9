"""`batfill run` on processes that fail in every way we know of: it ends, says why, and leaves nothing running."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from contextlib import suppress

import pytest

import fake_processes
from batfill.base.errors import BatfillError
from batfill.batsim_files.platform import homogeneous_platform
from batfill.runner import batcmd, pair, sessions, setting
from batfill.runner.experiment import run
from sweeps import LATER

LIMIT_S = 30


def waited(until):
    """Wait until this is true; fails if it is not in time."""
    deadline = time.monotonic() + LIMIT_S
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Experiment:
    """A descriptor in a folder of its own, and what becomes of it."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.tag = uuid.uuid4().hex
        with socket.create_server(("localhost", 0)) as free:
            self.port = free.getsockname()[1]
        (folder / "bin").mkdir()
        fake_processes.write_program(folder / "bin/batsim", fake_processes.SIMULATOR)
        fake_processes.write_program(folder / "bin/scheduler", fake_processes.SCHEDULER)
        (folder / "p.xml").touch()
        jobs = [{"id": str(i), "res": 1} for i in range(5)]
        (folder / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": {}}))
        self.keys = {
            "batcmd": f"batsim -p p.xml -w w.json -e out/x -s tcp://localhost:{self.port}",
            "output-dir": "out",
            "schedcmd": f"scheduler tcp://*:{self.port}",
            "simulation-timeout": 10,
            "ready-timeout": 1,
            "success-timeout": 1,
            "failure-timeout": 0.2,
        }

    def write(self, **keys):
        keys = {**self.keys, **{name.replace("_", "-"): value for name, value in keys.items()}}
        path = self.folder / "expe.yaml"
        path.write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in keys.items()))
        return path.relative_to(self.folder)

    def run(self, *, batsim="", sched="", simulator="auto", say=lambda line: None, **keys):
        self.monkeypatch.setenv("FAKE_BATSIM", batsim)
        self.monkeypatch.setenv("FAKE_SCHED", sched)
        return run(self.write(**keys), simulator=simulator, say=say)

    def started(self, *, batsim="", sched="", **env):
        """The command in another process."""
        return subprocess.Popen(
            [sys.executable, "-m", "batfill", "run", str(self.write())],
            env={**os.environ, "FAKE_BATSIM": batsim, "FAKE_SCHED": sched, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def go(self):
        """End what a fake process waits for."""
        (self.folder / "go").touch()

    def wait_for(self, log, text=""):
        """Wait until this file of the output has this text, or any."""
        path = self.folder / "out" / log
        waited(lambda: path.exists() and path.read_text() and text in path.read_text())

    def record(self):
        return json.loads((self.folder / "out/run.json").read_text())

    def left_over(self):
        return fake_processes.processes_with("BATFILL_TEST", self.tag)


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    folder = tmp_path / "a folder"
    folder.mkdir()
    made = Experiment(folder, monkeypatch)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("BATSIM", raising=False)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("BATFILL_TEST", made.tag)
    monkeypatch.setattr(sessions, "TERM_GRACE_S", 0.3)
    monkeypatch.setattr(batcmd, "LEAST_CONTEXT_TIMEOUT_S", 1.0)
    monkeypatch.setattr(pair, "LEAST_PATIENCE_S", 0.2)
    yield made
    assert made.left_over() == []


@pytest.fixture(autouse=True)
def limit():
    """A test that hangs fails."""

    def too_long(number, frame):
        raise TimeoutError(f"the test took more than {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_without_bash_there_is_no_run(experiment, monkeypatch):
    monkeypatch.setenv("PATH", str(experiment.folder / "bin"))
    with pytest.raises(BatfillError, match=r"^bash is not on PATH"):
        experiment.run()


@pytest.mark.parametrize("record", ["[" * 5000, '{"jobs_csv": 5}', '{"jobs_csv": "a\\u0000b"}', "[]"])
def test_a_damaged_record_of_the_run_before_is_no_obstacle(experiment, record):
    (experiment.folder / "out").mkdir()
    (experiment.folder / "out/run.json").write_text(record)
    assert experiment.run().status == 0


@pytest.mark.parametrize("content", [None, "{", "[1, 2]"])
def test_a_file_of_options_that_pybatsim_could_not_read_is_refused_before_anything_starts(experiment, content):
    fake_processes.write_program(experiment.folder / "bin/pybatsim", fake_processes.SCHEDULER)
    experiment.keys["schedcmd"] = f"pybatsim easyBackfill -s tcp://*:{experiment.port} -O options.json"
    if content is not None:
        (experiment.folder / "options.json").write_text(content)
    with pytest.raises(BatfillError, match=r"schedcmd: options file options\.json: .*; give a JSON object$"):
        experiment.run()


def test_a_run_that_goes_well_gives_figures_and_robins_files(experiment):
    outcome = experiment.run()
    assert (outcome.status, outcome.reason, outcome.notes) == (0, "", ())
    assert outcome.figures["jobs"] == 5
    assert outcome.figures["mean_wait_s"] == 5.0
    assert outcome.figures["utilisation"] == 5 * 20 / (4 * 25)
    assert (experiment.folder / "out/cmd/batsim.bash").read_text() == experiment.keys["batcmd"]
    assert (experiment.folder / "out/cmd/sched.bash").read_text() == experiment.keys["schedcmd"]
    assert "fake batsim starts" in (experiment.folder / "out/log/batsim.log").read_text()
    assert "fake scheduler starts" in (experiment.folder / "out/log/sched.out.log").read_text()
    assert (experiment.folder / "out/log/sched.err.log").read_text().startswith("+ scheduler")


def test_the_word_batsim_starts_the_command_in_the_variable(experiment):
    (experiment.folder / "bin/batsim").rename(experiment.folder / "bin/another")
    experiment.monkeypatch.setenv("BATSIM", "env another")
    assert experiment.run().status == 0
    assert experiment.record()["simulator"] == "environment"
    assert experiment.record()["simulator_command"].startswith("env another -p p.xml")


def test_links_that_split_instants_are_warned_of_under_batsim_alone(experiment):
    jobs = [{"id": str(i), "res": 1, "profile": "d"} for i in range(5)]
    profiles = {"d": {"type": "delay", "delay": 20}}
    (experiment.folder / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
    (experiment.folder / "p.xml").write_text(homogeneous_platform(4, bandwidth="10Gbps"))
    outcome = experiment.run()
    assert [warning.partition(", so ")[0] for warning in outcome.warnings] == [
        "p.xml: links take time (<cluster> compute: bw 10Gbps)"
    ]
    assert experiment.record()["warnings"] == list(outcome.warnings)
    assert (experiment.run(batsim="is embedded").warnings, experiment.record()["warnings"]) == ((), [])


@pytest.mark.parametrize(
    ("does", "reason", "log"),
    [
        ({"sched": "exits at once"}, "the scheduler ended with status 1 after", "sched.err.log"),
        ({"sched": "dies mid-way"}, "the scheduler ended with status 139 (SIGSEGV) after", "sched.out.log"),
        ({"sched": "fails mid-way"}, "the scheduler ended with status 1 after", "sched.err.log"),
        ({"batsim": "exits at once"}, "the simulator ended with status 1 after", "batsim.log"),
        ({"batsim": "dies mid-way"}, "the simulator ended with status 134 (SIGABRT) after", "batsim.log"),
    ],
)
def test_a_process_that_dies_ends_the_run_with_2(experiment, does, reason, log):
    outcome = experiment.run(**does)
    assert outcome.status == 2
    assert outcome.reason.startswith(reason)
    assert f"out/log/{log}" in outcome.reason
    assert outcome.figures == {}
    assert experiment.record()["reason"] == outcome.reason


HANGS = r"^the simulation-timeout of 0\.7 s was reached: 0 of 5 jobs had ended"
UNRUN = "2 of 5 jobs were never executed (3, 4), although the simulator ended with status 0"
UNHEARD = "the scheduler never listened on port PORT"


@pytest.mark.parametrize(
    ("does", "timeouts", "status", "reason"),
    [
        ({"batsim": "hangs"}, {"simulation_timeout": 0.7}, 1, HANGS),
        ({"batsim": "is deaf"}, {"simulation_timeout": 0.7}, 1, HANGS),
        ({"sched": "never binds"}, {"simulation_timeout": 0.7}, 1, UNHEARD),
        ({"sched": "is deaf"}, {"simulation_timeout": 0.7}, 1, UNHEARD),
        ({"sched": "hangs mid-way"}, {"simulation_timeout": 1.0}, 1, "jobs had ended"),
        ({"sched": "hangs mid-way in a group of its own"}, {"simulation_timeout": 1.0}, 1, "jobs had ended"),
        (
            {"sched": "leaves early"},
            {"success_timeout": 0.3, "failure_timeout": 30},
            2,
            r"the simulator did not stop within the success-timeout of 0\.3 s",
        ),
        ({"sched": "miscounts"}, {}, 2, "submitted 3, scheduled 2$"),
        ({"batsim": "leaves jobs"}, {}, 2, f"^{re.escape(UNRUN)}"),
        ({"batsim": "is cut off"}, {}, 2, r"out/x_jobs\.csv:7: cut off"),
    ],
)
def test_a_run_that_hangs_or_goes_wrong_fails_with_its_reason(experiment, does, timeouts, status, reason):
    outcome = experiment.run(**does, **timeouts)
    assert outcome.status == status
    assert re.search(reason.replace("PORT", str(experiment.port)), outcome.reason)


def test_a_scheduler_on_another_port_is_refused_with_both_ports(experiment):
    with pytest.raises(BatfillError) as refused:
        experiment.run(schedcmd="scheduler tcp://*:1")
    assert str(refused.value) == (
        f"expe.yaml: schedcmd names tcp://*:1, and batcmd connects to tcp://localhost:{experiment.port}; "
        "write one port in both"
    )


def test_a_scheduler_that_is_slow_to_listen_is_waited_for_with_a_hint(experiment):
    hints = []

    def say(line):
        hints.append(line)
        experiment.go()

    assert experiment.run(sched="binds late", say=say, ready_timeout=0.2).status == 0
    (hint,) = hints
    assert hint == (
        f"nothing listens on port {experiment.port} yet, to which the simulator connects; "
        "waiting until the simulation-timeout of 10 s"
    )


def test_children_in_groups_of_their_own_are_ended_too(experiment):
    schedcmd = f"timeout 60 sleep 60 & scheduler tcp://*:{experiment.port}"
    assert experiment.run(schedcmd=schedcmd).status == 0  # the fixture looks for what is left


def test_a_port_in_use_is_waited_for_and_then_refused(experiment):
    with socket.create_server(("localhost", experiment.port)):
        outcome = experiment.run(ready_timeout=0.3)
    assert outcome.status == 1
    assert outcome.reason.startswith(f"port {experiment.port} is in use for longer than the ready-timeout of 0.3 s")
    assert experiment.run().status == 0


def test_two_runs_do_not_share_an_output_folder(experiment):
    first = experiment.started(sched="hangs mid-way")
    experiment.wait_for("log/sched.out.log", "starts")
    experiment.monkeypatch.setattr(setting, "TERM_GRACE_S", 0)
    outcome = experiment.run()
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=LIMIT_S)
    assert outcome.status == 1
    assert "another run writes there" in outcome.reason
    assert first.returncode == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_ends_its_processes_and_exits_with_3(experiment, number):
    process = experiment.started(sched="hangs mid-way")
    experiment.wait_for("log/batsim.log", "fake batsim starts")
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 3
    assert out == ""
    assert err == f"batfill: interrupted by {number.name}; every process of the run was ended\n"
    assert experiment.record()["exit"] == 3


def test_a_second_run_shows_nothing_of_the_first(experiment):
    assert experiment.run().status == 0
    stale = experiment.folder / "out/x_schedule.trace"
    stale.touch()
    assert experiment.run(sched="exits at once").status == 2
    assert not stale.exists()
    assert not (experiment.folder / "out/x_jobs.csv").exists()
    assert "figures" not in experiment.record()


@pytest.mark.parametrize("failure", [{"sched": "exits at once"}, {"batcmd": "batsim -w none.json -e out/x"}])
def test_a_run_that_fails_removes_the_report_of_the_one_before(experiment, failure):
    assert experiment.run().status == 0
    page = experiment.folder / "out/report.html"
    page.touch()
    with suppress(BatfillError):
        assert experiment.run(**failure).status != 0
    assert experiment.record()["exit"] != 0
    assert not page.exists()
    assert not (experiment.folder / "out/x_jobs.csv").exists()


def test_results_named_by_a_record_are_not_removed_outside_of_its_folder(experiment):
    elsewhere = experiment.folder / "out_jobs.csv"
    elsewhere.touch()
    (experiment.folder / "out").mkdir()
    (experiment.folder / "out/run.json").write_text('{"jobs_csv": "out/../out_jobs.csv"}')
    assert experiment.run(batsim="hangs when asked").status == 1
    assert elsewhere.exists()


@pytest.mark.parametrize(
    ("batsim", "sched"),
    [
        ("", "hangs mid-way in a group of its own"),
        LATER("is deaf", ""),
        ("waits at its end", ""),
        ("hangs when asked", ""),
    ],
)
def test_a_runner_that_is_killed_takes_its_processes_results_and_temporary_folder_with_it(experiment, batsim, sched):
    scratch = experiment.folder / "tmp"
    scratch.mkdir()
    process = experiment.started(batsim=batsim, sched=sched, TMPDIR=str(scratch))
    there = {"waits at its end": "x_schedule.csv", "hangs when asked": "log/batsim.log"}
    experiment.wait_for(there.get(batsim, "log/sched.out.log"))
    time.sleep(0.2)
    process.kill()
    process.communicate()
    waited(lambda: experiment.left_over() == [])
    assert list(scratch.iterdir()) == []
    assert sorted(path.name for path in (experiment.folder / "out").iterdir()) == ["cmd", "log"]
    assert experiment.run().status == 0


def test_a_run_waits_for_the_end_of_one_that_was_killed(experiment):
    process = experiment.started(batsim="is deaf")
    experiment.wait_for("log/batsim.log", "fake batsim starts")
    experiment.monkeypatch.setattr(setting, "TERM_GRACE_S", LIMIT_S)
    process.kill()
    assert experiment.run().status == 0
    process.communicate()
