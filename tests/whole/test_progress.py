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
from batfill.base.progress import patient_progress, progress, terminal_bar
from swf_text import row


class Terminal(io.StringIO):
    """Standard error that says it is a terminal; `lines` is what a person sees in the end."""

    def isatty(self):
        return True

    @property
    def lines(self):
        screen = []
        for line in self.getvalue().split("\n"):
            shown = ""
            for part in line.split("\r"):
                text, cleared, more = part.partition("\033[K")
                shown = text + more if cleared else text + shown[len(text) :]
            screen.append(shown)
        return screen


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


def test_a_bar_shows_label_steps_share_and_time_left_and_vanishes(terminal, monkeypatch):
    now = iter([0.0, 0.0, 25.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(now))
    with redirect_stderr(terminal), progress("weeks", 100) as advance:
        advance(25)
        assert terminal.lines == [f"weeks 25 of 100 [{'#' * 7}{'-' * 23}] 1:15 left"]
    assert terminal.lines == [""]


def test_without_a_known_total_the_steps_are_counted(terminal):
    with redirect_stderr(terminal), progress("rows") as advance:
        assert terminal.lines == ["rows ..."]
        advance(12_345)
        assert terminal.lines == ["rows 12,345"]


def test_what_is_printed_meanwhile_is_whole_and_above_the_bar(terminal):
    with redirect_stderr(terminal), redirect_stdout(terminal):
        with progress("a long label of many words", 2) as advance:
            advance(1)
            print("said", file=sys.stderr)
            print("found")
            advance(1)
            assert terminal.lines[:2] == ["said", "found"]
            assert terminal.lines[2].startswith("a long label of many words 2 of 2 [")
        assert terminal.lines == ["said", "found", ""]
        assert (sys.stdout, sys.stderr) == (terminal, terminal)


def test_a_bar_within_a_bar_leaves_nothing(terminal):
    with redirect_stderr(terminal), progress("outer", 2) as outer, progress("inner", 3) as inner:
        for advance in (outer, inner, outer):
            advance(1)
        assert terminal.lines[0].startswith("outer 2 of 2")
        assert len(terminal.lines) == 1
    assert terminal.lines == [""]


def test_a_bar_is_no_wider_than_the_terminal():
    ours, its = pty.openpty()
    with os.fdopen(its, "w") as terminal, os.fdopen(ours, "rb"):
        subprocess.run(["stty", "cols", "20"], stdin=terminal, check=True)
        bar = terminal_bar("steps", 10)
        bar.terminal = terminal
        bar.show(5)
        bar.close()
        assert os.read(ours, 1000).split(b"\033")[0] == b"\rsteps 5 of 10 [####"


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
        assert os.read(ours, 1000) == b"\rlong ...\033[K\r\033[K"


@pytest.mark.parametrize(("lines", "said"), [(False, ""), (True, "rows: ...\nrows: 7\n")])
def test_where_standard_error_is_no_terminal_there_are_lines_or_nothing(monkeypatch, lines, said):
    shown = io.StringIO()
    monkeypatch.setattr(module, "Timer", AtOnce)
    monkeypatch.setattr(module, "LINE_EVERY_S", 0.0)
    with redirect_stderr(shown), progress("rows", lines=lines) as advance:
        advance(7)
    assert shown.getvalue() == said


def test_a_dumb_terminal_gets_no_line_that_is_redrawn(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with redirect_stderr(terminal), progress("rows") as advance:
        advance(7)
    assert terminal.getvalue() == ""


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
# Those that take a second at most, or as long as the disk.
SHORT = {
    *("compare", "generate", "job_table", "when", "write"),
}


def test_every_function_is_one_that_may_take_long_or_one_that_cannot():
    named = {name for name in bf.__all__ if callable(getattr(bf, name)) and not isinstance(getattr(bf, name), type)}
    assert named | {"Replay"} == LONG.keys() | SHORT


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
    assert re.search(rf"\r{label} (\.\.\.|[\d,]+)", terminal.getvalue())
    assert terminal.lines[-1] == ""


def test_a_function_waits_two_seconds_before_it_says_so(terminal, monkeypatch):
    waits = []
    monkeypatch.setattr(module, "Timer", lambda wait_s, do: waits.append(wait_s) or AtOnce(wait_s, do))
    with redirect_stderr(terminal), patient_progress("weeks"):
        pass
    assert waits == [2.0]
