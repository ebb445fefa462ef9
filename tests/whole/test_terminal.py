"""What commands print for people: lines that fit, durations in words, and the longest wait beside every mean."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

import batfill as bf
from batfill.base.words import WIDTH
from batfill.cli.app import COMMANDS
from batfill.cli.workload import workload as workload_commands
from batfill.model.options import OPTIONS
from batfill.workloads import generate_workload
from command import batfill
from swf_text import row

SLOWER = 12  # the times between submissions of the generated log are multiplied by this: some weeks


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """An SWF log with the waits of a replay, and some jobs that ran longer than they requested."""
    work = generate_workload(jobs=700, procs=32, seed=5, load=2.0)
    run, jobs = bf.replay(work), work.jobs
    path, lines = tmp_path_factory.mktemp("log") / "generated.swf", []
    columns = jobs.submit_s, jobs.runtime_s, jobs.walltime_s, jobs.procs, jobs.user, run["start_s"] - run["submit_s"]
    for k, (submit_s, runtime_s, limit_s, procs, user, wait_s) in enumerate(zip(*columns, strict=True), start=1):
        limit_s = limit_s if k % 20 else runtime_s / 2 + 1
        whole = {"req_time": int(limit_s), "procs": procs, "req_procs": procs, "user": user, "wait": int(wait_s)}
        lines.append(row(k, int(SLOWER * submit_s), int(runtime_s), **whole))
    path.write_text("; MaxProcs: 32\n" + "".join(lines))
    return path


def bare_seconds(text):
    """Numbers of seconds above two minutes that are not the value of an option, as typed."""
    found = re.finditer(r"(?:([\w-]+) )?(?<![\w.,])(\d[\d,]*(?:\.\d+)?) s\b", text)
    names = {*OPTIONS, "tau"}
    return [each[0] for each in found if each[1] not in names and float(each[2].replace(",", "")) > 120]


def assert_fits(text, width=WIDTH):
    lines = text.splitlines()
    assert [line for line in lines if len(line) > width and len(line.split()) > 1] == []
    assert "\033" not in text


CAMPAIGN = """\
workloads:
  - file: {log}
policies: [fcfs, saf]
thresholds: [null, 200000]
"""
COMMAND_LINES = [
    "replay LOG",
    "replay LOG --preset first-tries",
    "tune LOG --days 3 --points 12 --last 1",
    "tune LOG --days 10 --points 12 --last 1 --training 2",
    "select LOG --period 2d",
    "select LOG --period 20d",
    "select LOG --samples 2 --weeks 2",
    "fit LOG --tuples 4 --permutations 64 --days 3",
    "fit LOG --tuples 4 --permutations 64 --days 10",
    "fidelity LOG",
    "when LOG --at 20d",
    "campaign CAMPAIGN --workers 1 --out OUT",
    "policies",
    "workload describe LOG",
    "workload clean LOG --out OUT.swf",
    "workload split LOG --out OUT",
    "workload resample LOG --samples 2 --out OUT.swf",
    "workload convert LOG --out OUT.json",
    "workload fetch",
    "reproduce --list",
]


@pytest.mark.needs("pydantic")
@pytest.mark.parametrize("line", COMMAND_LINES)
def test_what_a_command_prints_fits_and_says_durations_in_words(log, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)  # a path of pytest's is long where it has run often
    places = {"LOG": os.path.relpath(log), "OUT": "out", "CAMPAIGN": "campaign.yaml"}
    Path("campaign.yaml").write_text(CAMPAIGN.format(log=log))
    words = [re.sub("LOG|OUT|CAMPAIGN", lambda found: places[found[0]], word) for word in line.split()]
    done = batfill(*words)
    assert done.status == 0, done.err
    assert_fits(done.out)
    text = " ".join((done.out + done.err).split())
    assert bare_seconds(text) == []
    if re.search(r"mean wait|mean bsld|bounded slowdown|mean/saf|wait/fcfs", text) and not line.startswith("policies"):
        assert "longest" in text
    assert " - to -" not in text


@pytest.mark.parametrize(
    "command", [*sorted(COMMANDS.keys() - {"batsim"}), *(f"workload {name}" for name in workload_commands.commands)]
)
@pytest.mark.parametrize(("columns", "width"), [(80, 80), (200, WIDTH)])
def test_a_help_fits_the_terminal(monkeypatch, command, columns, width):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert_fits(batfill(*command.split(), "--help").out, width)


def on_terminal(words, columns, **streams):
    """What the command writes to a terminal of so many columns, behind the streams that `streams` names."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "batfill", *map(str, words)]
    with subprocess.Popen(command, **dict.fromkeys(streams["behind"], theirs)) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # nobody writes any more
            while part := os.read(ours, 65536):
                shown += part
        os.close(ours)
    assert process.returncode == 0
    return re.sub(r"\r.*?\033\[K", "", shown.decode().replace("\r\n", "\n"))  # without progress bars


def test_notes_are_broken_on_a_terminal_and_whole_in_a_pipe(log, tmp_path):
    words = ["workload", "convert", log, "--out", tmp_path / "x.json"]
    command = [sys.executable, "-m", "batfill", *map(str, words)]
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert max(map(len, piped.splitlines())) > WIDTH
    text = on_terminal(words, 0, behind=["stderr"])
    assert_fits(text, 80)  # what a terminal has that does not say
    assert " ".join(text.split()) == " ".join(piped.split())


@pytest.mark.parametrize("columns", [60, 80, 160])
@pytest.mark.parametrize("line", ["replay LOG", "policies", "workload describe LOG"])
def test_a_result_fits_the_terminal_that_shows_it(log, columns, line):
    text = on_terminal([log if word == "LOG" else word for word in line.split()], columns, behind=["stdout"])
    assert_fits(text, columns)
    assert line != "policies" or columns < 160 or max(map(len, text.splitlines())) > 80
