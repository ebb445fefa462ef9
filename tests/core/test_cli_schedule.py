"""`batfill schedule`: the plug-in over ZeroMQ, and how it ends."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from socket import AF_UNIX
from socket import socket as plain_socket

import pytest
import zmq

from batfill.live import serve
from batfill.live.conversation import Conversation4
from command import COMPILING, batfill, conversed, free_port, refusal, result
from plugin import as_message, begins, completed, event, submitted

ROOT = Path(__file__).parents[2]
END = event("SIMULATION_ENDS")


@contextmanager
def socket_of(kind):
    with zmq.Context() as context, context.socket(kind) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        yield socket


@contextmanager
def scheduled(*command):
    """The process of this scheduler, and a function that tells it a message and returns its reply."""
    port = free_port()
    command = [*command, "-s", f"tcp://127.0.0.1:{port}"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
        socket_of(zmq.REQ) as socket,
    ):
        socket.connect(f"tcp://127.0.0.1:{port}")

        def tell(now, *events):
            socket.send(as_message(now, *events))
            assert socket.poll(180_000), "no answer"
            return json.loads(socket.recv())["events"]

        try:
            yield process, tell
        finally:
            process.kill()


def ended(process):
    """Exit status and both streams; without the lines about compilation and about where it listens."""
    out, err = process.communicate(timeout=60)
    usual = COMPILING, "batfill: listening on tcp://127.0.0.1:"
    return process.returncode, out, [line for line in err.splitlines() if not line.startswith(usual)]


BATFILL = [sys.executable, "-m", "batfill", "schedule"]


def test_it_schedules_until_the_simulation_ends_and_says_nothing():
    with scheduled(*BATFILL, "--policy", "saf") as (process, tell):
        tell(0, begins(range(2)))
        assert [decision["type"] for decision in tell(0, submitted("1", 0, 9, 2))] == ["EXECUTE_JOB"]
        assert tell(5, completed("1")) == []
        assert tell(5, END) == []
        assert ended(process) == (0, "", [])


def test_rejected_jobs_are_said_on_stderr():
    with scheduled(*BATFILL) as (process, tell):
        tell(0, begins(range(2)))
        tell(0, submitted("1", 0, 9, 3))
        tell(0, END)
        assert ended(process) == (
            0,
            "",
            [
                "batfill: WARNING: w0!1 requests 3 of 2 machines: rejected; further such jobs are only counted",
                "batfill: WARNING: 1 jobs were rejected: they request more machines than there are",
            ],
        )


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--timeout", "200"), 1, "batfill: Batsim has not sent a message for 200 ms; end it if it still runs"),
        (
            ("--small", "class", "--divider", "60", "--kill", "always"),
            2,
            "start Batsim with --enable-dynamic-jobs --enable-profile-reuse",
        ),
    ],
)
def test_a_simulation_that_cannot_go_on_ends_it_with_one_line(options, status, said):
    (ended, out, (line,)), answers = conversed([as_message(0, begins(range(2)))], *options)
    assert (ended, out) == (status, "")
    assert said in line
    assert (b"SCHEDULER_GAVE_UP" in answers[-1]) == (status == 2)  # Batsim would wait for ever


def test_without_a_simulator_it_ends_after_its_timeout():
    began = time.monotonic()
    (status, out, (line,)), _ = conversed([], "--timeout", "500")
    assert (status, out, line[:38]) == (1, "", "batfill: no simulator has sent a messa")
    assert 0.5 <= time.monotonic() - began < 5


@pytest.mark.parametrize("transport", ["tcp", "ipc"])
def test_a_simulator_that_is_killed_is_noticed(tmp_path, monkeypatch, transport):
    assert serve.RETURN_S + 2 * serve.LOOK_S < 10
    monkeypatch.setattr(serve, "RETURN_S", 0.2)
    monkeypatch.setattr(serve, "LOOK_S", 0.1)
    endpoint = f"ipc://{tmp_path}/socket" if transport == "ipc" else f"tcp://127.0.0.1:{free_port()}"
    files = ["-p", ROOT / "platforms" / "sample.xml", "-w", ROOT / "workloads" / "sample.json", "-e", tmp_path / "out"]
    command = [sys.executable, "-m", "batfill", "batsim", *files, "-s", endpoint, "-q"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as simulator:
        answer = Conversation4.answer

        def last(talk, message):
            if talk.messages == 5:
                simulator.kill()
            return answer(talk, message)

        monkeypatch.setattr(Conversation4, "answer", last)
        done = batfill("schedule", "-s", endpoint)
    assert done.status == 1
    assert done.err.splitlines()[1:] == [
        "batfill: Batsim is gone before the end of the simulation; see why in its own output"
    ]


def test_the_plug_in_notices_a_simulator_that_is_gone_although_it_would_wait_for_ever():
    pytest.importorskip("batsim")
    port = free_port()
    command = [Path(sys.executable).with_name("pybatsim"), "batfill/scheduler", "-s", f"tcp://127.0.0.1:{port}"]
    with subprocess.Popen([*command, "-t", "0", "-v", "error"], stderr=subprocess.PIPE, text=True) as process:
        with socket_of(zmq.REQ) as simulator:
            simulator.connect(f"tcp://127.0.0.1:{port}")
            simulator.send(as_message(0, begins(range(2))))
            assert simulator.poll(180_000), "no answer"
            simulator.recv()
        try:
            assert ended(process) == (1, None, [f"batfill: {serve.GONE}"])
        finally:
            process.kill()


def test_the_port_in_use_is_named():
    with socket_of(zmq.REP) as socket:
        endpoint = f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"
        line = refusal("schedule", "--socket", endpoint)
    assert line.startswith(f"socket {endpoint}: Address already in use")
    assert "give another with --socket" in line


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("nowhere", "socket nowhere: Invalid argument"),
        ("tcp://127.0.0.1:99999", "socket tcp://127.0.0.1:99999: a port is a number from 1 to 65535"),
        ("tcp://127.0.0.1:0", "socket tcp://127.0.0.1:0: a port is a number from 1 to 65535"),
        ("tcp://[::1]:99999", "socket tcp://[::1]:99999: a port is a number from 1 to 65535"),
    ],
)
def test_an_endpoint_that_cannot_be_bound_is_refused(endpoint, said):
    assert refusal("schedule", "--socket", endpoint).startswith(said)


def test_an_ipc_endpoint_removes_nothing_but_a_socket_that_a_process_left(tmp_path):
    file, left, used = (tmp_path / name for name in ("file", "left", "used"))
    file.write_text("mine")
    for path in (file, tmp_path):
        assert refusal("schedule", "-s", f"ipc://{path}").startswith(f"socket ipc://{path}: {path} exists and is no")
    assert file.read_text() == "mine"
    with plain_socket(AF_UNIX) as here, plain_socket(AF_UNIX) as gone:
        here.bind(str(used))
        here.listen()
        assert refusal("schedule", "-s", f"ipc://{used}").startswith(f"socket ipc://{used}: another process listens")
        gone.bind(str(left))
    done = batfill("schedule", "-s", f"ipc://{left}", "--timeout", "1")
    assert (done.status, done.err.splitlines()[0]) == (1, f"batfill: listening on ipc://{left}")


@pytest.mark.parametrize("before", [[], [as_message(0, begins(range(2)))]])
def test_a_message_in_several_parts_ends_it_with_one_line_and_status_2(before):
    (status, out, (line,)), answers = conversed([*before, [b"{", b"}", b""]])
    assert (status, out) == (2, "")
    assert line == "batfill: a message has 3 parts instead of one; is it Batsim that is connected?"
    assert not before or b"SCHEDULER_GAVE_UP" in answers[-1]


@pytest.mark.parametrize("host", ["batfill", "pybatsim"])
def test_with_the_embedded_simulator_it_makes_the_replays_schedule(tmp_path, host):
    options = {"policy": "saf", "threshold": 36_000}
    if host == "batfill":
        command = [*BATFILL, *(word for name, value in options.items() for word in (f"--{name}", str(value)))]
    else:
        pybatsim = str(Path(sys.executable).with_name("pybatsim"))
        command = [pybatsim, "batfill/scheduler", "-t", "0", "-v", "warning", "-o", json.dumps(options)]
    workload = ROOT / "workloads" / "sample.json"
    with scheduled(*command) as (process, _):
        endpoint = process.args[-1]
        simulator = ["batsim", "-p", ROOT / "platforms" / "sample.xml", "-w", workload, "-s", endpoint, "-q"]
        result(*simulator, "-e", tmp_path / "out")
        assert ended(process)[0] == 0

    result("replay", workload, "--policy", "saf", "--threshold", 36_000, "--out", tmp_path / "replay")
    rows = []
    for name in ("out", "replay"):
        with (tmp_path / f"{name}_jobs.csv").open() as lines:
            rows.append({row["job_id"]: (row["starting_time"], row["finish_time"]) for row in csv.DictReader(lines)})
    assert rows[0] == rows[1]
    assert len(rows[0]) == 800
