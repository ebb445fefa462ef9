"""What a command meets outside of its input: signals, full devices, odd locales, pipes, and batfill's own mistakes."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from batfill.replays import replay as replaying
from command import COMPILING, batfill, json_result, refusal
from swf_text import row

BATFILL = [sys.executable, "-m", "batfill"]
LOG = "; MaxProcs: 4\n" + "".join(row(i, 10 * i, 50, procs=i % 4 + 1, req_time=60, user=i % 5) for i in range(1, 400))
CAUGHT = {signal.SIGINT, signal.SIGTERM}


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(LOG)
    return path


def run(*arguments, **options):
    """The command in a process of its own."""
    return subprocess.run([*BATFILL, *map(str, arguments)], capture_output=True, timeout=120, **options)


def lines_of(stderr):
    return [line for line in stderr.decode().splitlines() if not line.startswith(COMPILING)]


# Batfill's own mistakes


def test_a_bug_is_said_in_one_line_and_its_traceback_is_in_a_file(log, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise KeyError("of ours")

    monkeypatch.setattr(replaying, "replay", broken)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    done = batfill("replay", log, "--policy", "saf")
    assert (done.status, done.out) == (70, "")
    (line,) = done.err.splitlines()
    assert line.startswith("batfill: this is a bug in batfill (KeyError: 'of ours'); ")
    said = Path(line.rpartition(" ")[2]).read_text()
    assert "Traceback (most recent call last)" in said
    assert "KeyError: 'of ours'" in said
    assert f"command: batfill replay {log} --policy saf" in said
    assert re.search(r"^batfill \S+, Python \S+, .*\nnumpy ", said)


# Streams


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("command", [["policies", "--json"], ["replay", "LOG"], ["--version"], ["replay", "--help"]])
def test_a_full_device_as_standard_output_is_one_line(log, command):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*BATFILL, *(str(log) if word == "LOG" else word for word in command)],
            stdout=full, stderr=subprocess.PIPE, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert lines_of(done.stderr) == [
        "batfill: standard output cannot be written (No space left on device); free space, or redirect it"
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_a_failure_of_the_run_that_names_the_file():
    done = batfill("platform", 4, "--out", "/dev/full")
    assert (done.status, done.out) == (1, "")
    assert done.err == "batfill: /dev/full: cannot be written (No space left on device); free space there\n"


def limited(limit, *arguments):
    """The command in a process under this option of the shell's ulimit: its status and its line."""
    command = f'ulimit {limit}; exec "$0" "$@"'
    done = subprocess.run(["sh", "-c", command, *BATFILL, *map(str, arguments)], capture_output=True, timeout=120)
    (line,) = lines_of(done.stderr)
    return done.returncode, line


def test_a_process_without_memory_or_files_fails_in_one_line(log, tmp_path):
    status, line = limited("-f 0", "replay", log, "--out", tmp_path / "x")
    assert (status, line) == (
        1,
        f"batfill: {tmp_path}/x_jobs.csv: cannot be written (File too large); free space there",
    )
    descriptor = Path(__file__).parents[2] / "expe" / "sample_saf.yaml"
    for limit, command, said in [
        ("-f 0", ("run", descriptor), "no temporary folder can be made"),
        ("-v 60000", ("replay", log), "not enough memory"),
    ]:
        status, line = limited(limit, *command)
        assert (status, line.startswith(f"batfill: {said}")) == (1, True)


def test_standard_error_may_be_closed(log):
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" 2>&-', *BATFILL, "replay", log, "--json"], stdout=subprocess.PIPE, timeout=120
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["jobs"] == 399


def test_a_path_that_the_locale_cannot_say_keeps_its_bytes(tmp_path):
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    env = {**os.environ, **ascii_only}
    path = tmp_path / "journal-été.swf"
    path.write_text(LOG)
    for command in (["replay", path, "--out", tmp_path / "sortie-é"], ["replay", path, "--json"]):
        done = run(*command, env=env)
        assert (done.returncode, lines_of(done.stderr)) == (0, [])
    done = run("workload", "convert", path, "-o", tmp_path / "été.json", env=env)
    assert (done.returncode, done.stderr) == (0, f"{tmp_path}/été.json: 399 jobs, 4 processors\n".encode())
    assert batfill("replay", tmp_path / "été.json").status == 0
    done = run("replay", tmp_path / "ça", env=env)
    assert done.stderr.decode().endswith(f"{tmp_path}/ça: no such file or directory; check the path\n")


def test_no_control_character_of_a_log_or_a_path_reaches_a_terminal(tmp_path):
    path = tmp_path / "red\033[31m.swf"
    path.write_text(f"; Computer: \033]0;x\a\n; TimeZoneString: \x9b2J\n; UnixStartTime: 9\n{LOG}")
    for command in (["replay"], ["workload", "describe"], ["workload", "describe", "--json"], ["fidelity"]):
        for done in (batfill(*command, path), batfill(*command, f"{path}.not")):
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.out + done.err)
            assert r"\u001b[31m" in done.out + done.err
    told = json_result("workload", "describe", path)
    assert told["header"]["TimeZoneString"] == "\x9b2J"  # JSON has the same escapes


# Standard input


@pytest.mark.slow
def test_a_workload_comes_through_standard_input_and_pipes(log, tmp_path):
    figures = json_result("replay", log, "--policy", "saf")
    document = tmp_path / "w.json"
    assert batfill("workload", "convert", log, "-o", document).status == 0
    whole = json_result("replay", document, "--policy", "saf")
    contents = [(log.read_bytes(), figures), (gzip.compress(log.read_bytes()), figures), (document.read_bytes(), whole)]
    for name, (content, expected) in zip(("-", "/dev/stdin", "-"), contents, strict=True):
        done = run("replay", name, "--policy", "saf", "--json", input=content)
        assert (done.returncode, lines_of(done.stderr)) == (0, [])
        assert json.loads(done.stdout)["mean_wait_s"] == expected["mean_wait_s"]
    done = run("workload", "convert", "-", "-o", tmp_path / "piped.json", input=gzip.compress(LOG.encode()))
    assert done.returncode == 0
    assert json.loads((tmp_path / "piped.json").read_text())["jobs"] == json.loads(document.read_text())["jobs"]
    with log.open() as stdin:
        assert run("workload", "describe", "/dev/stdin", stdin=stdin).returncode == 0


# Files, all or none


def test_the_files_of_a_run_appear_all_or_none(log, tmp_path):
    for number in range(3):
        folder = tmp_path / str(number)
        name = ("jobs", "machine_states", "schedule")[number]
        (folder / f"out_{name}.csv").mkdir(parents=True)
        line = refusal("replay", log, "--out", folder / "out")
        assert line.startswith(f"{folder}/out_{name}.csv: cannot be written (Is a directory)")
        assert [path.name for path in folder.iterdir()] == [f"out_{name}.csv"]


def test_a_device_is_written_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    command = [*BATFILL, "platform", "4", "-o", str(tmp_path / "pipe")]
    with subprocess.Popen(command) as process:
        assert "<platform" in (tmp_path / "pipe").read_text()
    assert process.returncode == 0
    assert (tmp_path / "pipe").is_fifo()


# Interrupts


def heeds_signals(process):
    """Whether the process has its own handlers by now, or has ended."""
    if process.poll() is not None:  # until it is waited for, its file is there and names no handler
        return True
    try:
        caught = next(
            int(line.split()[1], 16)
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
            if line.startswith("SigCgt")
        )
    except (OSError, StopIteration):
        return True
    return all(caught >> (number - 1) & 1 for number in CAUGHT)


def interrupted(arguments, number, *, after_s=0.0, ready=None, cwd=None):
    """The command, signalled so long after its first line has run or `ready` holds; (status, lines on stderr)."""
    with subprocess.Popen(
        [*BATFILL, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=cwd
    ) as process:
        deadline = time.monotonic() + 60
        while not (heeds_signals(process) if ready is None else ready()) and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(after_s)
        process.send_signal(number)
        try:
            said = process.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail(f"{arguments} goes on after {number}")
    return process.returncode, lines_of(said)


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A log that takes long."""
    path = tmp_path_factory.mktemp("long") / "long.swf"
    rows = (row(i, 60 * i, 5000, procs=i % 64 + 1, req_time=6000, user=i % 9) for i in range(1, 60_000))
    path.write_text("; MaxProcs: 64\n" + "".join(rows))
    return path


@pytest.fixture
def commands(tmp_path, long):
    """Commands that take long, by name."""
    campaign = tmp_path / "campaign.yaml"
    campaign.write_text(
        f"workloads:\n  - file: {long}\npolicies: [fcfs, saf, wfp3, sexp]\nthresholds: [1000, 2000, 3000, 4000, 5000]\n"
    )
    return {
        "replay": ["replay", long, "--small", "forest", "--kill", "never", "--out", tmp_path / "made" / "out"],
        "campaign": ["campaign", campaign, "--out", tmp_path / "made", "--workers", 1],
        "tune": ["tune", long, "--last", 1, "--training", 2, "--out", tmp_path / "made"],
        "batsim": ["batsim", "-p", tmp_path / "p.xml", "-e", tmp_path / "out"],
        "convert": ["workload", "convert", long, "-o", tmp_path / "made.json.xz"],
        "schedule": ["schedule", "--socket", f"ipc://{tmp_path}/socket"],
    }


LATER = [pytest.param(after_s, marks=pytest.mark.slow) for after_s in (0.05, 1.0)]


LONG = [
    pytest.param("replay", marks=pytest.mark.needs("sklearn")),
    pytest.param("campaign", marks=pytest.mark.needs("pydantic")),
    "tune",
    "convert",
    "schedule",
]


@pytest.mark.parametrize("after_s", [0.0, *LATER])
@pytest.mark.parametrize("name", LONG)
def test_an_interrupt_at_any_moment_is_one_line_and_130(commands, tmp_path, name, after_s):
    status, said = interrupted(commands[name], signal.SIGINT, after_s=after_s)
    said = [line for line in said if not line.startswith("batfill: listening on ")]
    assert (status, len(said)) == (130, 1) or (name == "campaign" and status == 130), (status, said)
    assert said[-1].startswith("batfill: interrupted by SIGINT")
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix not in (".swf", ".yaml", ".lock")]
    assert not [path for path in left if path.name.endswith(".part") or path.name.startswith("made.json")]


def test_an_ignored_signal_stays_ignored(log):
    command = [*BATFILL, "replay", str(log), "--json"]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a process inherits what is ignored
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        for _ in range(20):
            process.send_signal(signal.SIGINT)
            time.sleep(0.02)
        assert json.loads(process.communicate(timeout=60)[0])["jobs"] == 399
    assert process.returncode == 0


@pytest.mark.parametrize("name", ["jobs.csv", "run.json", "schedule.csv"])
def test_files_made_of_a_prefix_overwrite_no_input(log, tmp_path, name):
    own = tmp_path / f"x_{name}"
    own.write_bytes(Path(log).read_bytes())
    before = own.read_bytes()
    assert f"is the file {own}" in refusal("replay", own, "--out", tmp_path / "x")
    calendar = tmp_path / "y_jobs.csv"
    calendar.write_text("kind,begin,end,processors\nannounced,100,200,1\n")
    assert "is the file" in refusal("replay", log, "--calendar", calendar, "--out", tmp_path / "y")
    done = batfill("batsim", "-p", own, "-w", "workloads/sample.json", "--no-sched", "-e", tmp_path / "x")
    assert (done.status, "is the file" in done.err) == (2, True)
    assert own.read_bytes() == before
