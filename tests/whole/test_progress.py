"""What shows while something takes long: a line on a terminal that vanishes, and what is printed stays whole."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

import batfill as bf
from batfill.base import progress as module
from batfill.base.progress import progress
from swf_text import row


class Terminal(io.StringIO):
    """Standard error that says it is a terminal."""

    def isatty(self):
        return True

    @property
    def lines(self):
        """What a person sees: the lines with text."""
        rows, y, x = {}, 0, 0
        for part in re.findall(r"\033\[A|.", self.getvalue(), re.DOTALL):
            if part == "\033[A":
                y -= 1
            elif part in "\r\n":
                y, x = y + (part == "\n"), 0
            else:
                rows[y] = f"{rows.get(y, '')[:x]:{x}}{part}{rows.get(y, '')[x + 1 :]}"
                x += 1
        return [text.rstrip() for _, text in sorted(rows.items()) if text.strip()]


class AtOnce:
    """A timer that does not wait."""

    def __init__(self, _, do):
        self.start = do

    def cancel(self):
        pass

    join = cancel


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "Timer", AtOnce)
    monkeypatch.setattr(module, "REDRAW_S", 0.0)
    return Terminal()


def test_a_bar_shows_label_and_steps_and_vanishes(terminal):
    with redirect_stderr(terminal), progress("weeks", 100) as weeks, progress("rows") as rows:
        weeks(25)
        rows(12_345)
        weeks_shown, rows_shown = terminal.lines
        assert weeks_shown.startswith("weeks:  25%|")
        assert "25/100" in weeks_shown
        assert rows_shown.startswith("rows: 12345it")
    assert terminal.lines == []


def test_what_a_command_prints_meanwhile_is_whole_and_above_the_bar(terminal, capsys):
    with redirect_stderr(module.harmless(terminal)), redirect_stdout(module.harmless(terminal)):
        with progress("a long label of many words", 2) as advance:
            advance(1)
            print("said", file=sys.stderr)
            print("found")
            advance(1)
            assert terminal.lines[:2] == ["said", "found"]
            assert terminal.lines[2].startswith("a long label of many words: 100%")
        assert terminal.lines == ["said", "found"]


def test_a_short_work_shows_nothing_and_a_long_one_is_announced_without_a_step():
    program = (
        "import time\nfrom batfill.base import progress\nprogress.PATIENCE_S = 0.2\n"
        "with progress.patient_progress('short'): pass\n"
        "with progress.patient_progress('long'): time.sleep(1)\n"
    )
    ours, its = pty.openpty()
    with os.fdopen(its) as terminal, os.fdopen(ours, "rb"):
        env = {**os.environ, "TERM": "xterm"}
        subprocess.run([sys.executable, "-c", program], stderr=terminal, env=env, check=True, timeout=60)
        assert os.read(ours, 1000).startswith(b"\rlong: 0it")


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_a_dumb_terminal_or_a_file_gets_nothing(terminal, monkeypatch, kind):
    monkeypatch.setenv("TERM", "dumb")
    with redirect_stderr(kind()) as shown, progress("rows") as advance:
        advance(7)
    assert shown.getvalue() == ""


CAMPAIGN = "workloads:\n- file: log.json\npolicies: [fcfs]\n"
# The public functions that can take long: a call of each, and a label that it shows.
LONG = {
    "read": (lambda log: bf.read("log.json"), "reading log.json"),
    "replay": (lambda log: bf.replay(log), "jobs"),
    "Replay": (lambda log: bf.Replay(log).run(), "replaying"),
    "replay_many": (lambda log: bf.replay_many(log, ["fcfs"]), "policies"),
    "report": (lambda log: bf.report(bf.replay(log)), "runs read and described"),
    "what_if": (lambda log: bf.what_if(log, thresholds_s=[3600], small_first=False), "choices"),
    "slurm": (lambda log: bf.slurm("sacct.txt", "slurm.conf", runs=5), "runs"),
    "campaign": (lambda log: bf.campaign("campaign.yaml", workers=1), "runs"),
    "tune": (lambda log: bf.tune(log, points=6, days=1, last=(1,)), "periods"),
    "fit": (lambda log: bf.fit(log, tuples=2, permutations=256), "tuples"),
    "select": (lambda log: bf.select(log), "logs"),
    "fidelity": (lambda log: bf.fidelity("log.swf"), "replays"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("long")
    bf.write(bf.generate(300, 16, seed=3), made / "log.json")
    (made / "campaign.yaml").write_text(CAMPAIGN)
    (made / "slurm.conf").write_text("NodeName=n[1-4] CPUs=2\nPartitionName=main Nodes=ALL\n")
    head = "JobID|Partition|Submit|Start|End|AllocCPUS|State"
    (made / "sacct.txt").write_text(f"{head}\n1|main|1700000000|1700000001|1700000002|2|COMPLETED\n")
    rows = (row(i, 600 * i, 3600, req_procs=16, req_time=3600, wait=3000 * i) for i in range(1, 101))
    (made / "log.swf").write_text("; MaxProcs: 16\n" + "".join(rows))
    return made


NEEDS = {"replay_many": "pandas", "campaign": "pydantic"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(*filter(None, [NEEDS.get(name)]))) for name in LONG]
)
def test_a_function_that_may_take_long_says_what_it_does(name, folder, terminal, monkeypatch):
    monkeypatch.chdir(folder)
    call, label = LONG[name]
    log = bf.read("log.json")
    with redirect_stderr(terminal):
        call(log)
    assert re.search(rf"\r{label}: +\d+(it|%)", terminal.getvalue())
    assert terminal.lines == []
