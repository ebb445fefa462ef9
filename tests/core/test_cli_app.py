"""The list of commands is what the commands themselves say, though it imports none of them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from batfill.cli.app import app
from command import batfill, refusal
from swf_text import row

SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"


def program(*words, before="", **more):
    """The command in a process of its own; `before` is what the shell does with its streams."""
    command = shlex.join([sys.executable, "-m", "batfill", *words])
    return subprocess.run(["sh", "-c", f"{command} {before}"], stderr=subprocess.PIPE, text=True, timeout=60, **more)


def test_a_result_that_nobody_can_read_is_a_failure(tmp_path):
    for before in (">&-", ">&- <&-"):
        lost = program("policies", before=before)
        assert (lost.returncode, lost.stderr.count("\n")) == (1, 1)
        assert lost.stderr.startswith("batfill: standard output cannot be written")
    assert program("platform", "4", "--out", str(tmp_path / "p.xml"), before=">&-").returncode == 0


@pytest.mark.parametrize("words", ["policies --json", "replay --help", "replay {} --json", "batsim --help"])
def test_a_reader_that_has_read_enough_is_no_error(words):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "batfill", *words.format(SAMPLE).split()]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_notes_whose_reader_has_gone_end_no_work(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    (tmp_path / "log.swf").write_text(
        "; MaxProcs: 4\n" + "".join(row(k, 60 * k, 50, req_time=40) for k in range(1, 60))
    )
    command = [sys.executable, "-m", "batfill", "replay", "log.swf", "--out", "x"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=writer, cwd=tmp_path, text=True, timeout=60)
    os.close(writer)
    assert done.returncode == 0
    assert "jobs" in done.stdout
    assert (tmp_path / "x_jobs.csv").exists()


def test_an_interrupt_while_the_command_line_loads_is_a_line(tmp_path):
    (tmp_path / "typing.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    words = [sys.executable, "-m", "batfill", "policies"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "batfill: interrupted by SIGINT\n")


def test_a_choice_suggests_the_nearest():
    assert refusal("replay", "x", "--policy", "sfa").endswith("; did you mean 'saf'?")
    assert "; did you mean 'first-tries'?" in refusal("replay", "x", "--preset", "first-try")


@pytest.fixture
def taken(tmp_path, monkeypatch):
    """A log, a link of each kind to it, and a run, in the current folder; and the contents of all files."""
    monkeypatch.chdir(tmp_path)
    Path("log.swf").write_text("; MaxProcs: 4\n" + "".join(row(k, 60 * k, 50, req_time=60) for k in range(1, 60)))
    Path("own.json").write_text(
        '{"format": "batfill policies 1", "functions": {"own": {"terms": [{"coefficient": 1}]}}}'
    )
    os.link("log.swf", "hard.swf")
    Path("soft.swf").symlink_to("log.swf")
    assert batfill("replay", "log.swf", "--out", "runs/x").status == 0
    return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "words",
    [
        *(f"what-if log.swf --out {name}" for name in ("log.swf", "soft.swf", "hard.swf", "./runs/../log.swf")),
        "what-if soft.swf --out log.swf",
        "when log.swf --at 1h --out log.swf",
        "tune log.swf --out log.swf",
        "select log.swf --out log.swf",
        "fit log.swf --out log.swf",
        "fidelity log.swf --out log.swf",
        *(f"report runs --out runs/x_{name}" for name in ("jobs.csv", "schedule.csv", "run.json")),
        "report runs/x --out runs/x_jobs.csv",
        "replay log.swf --out page.html",
        "workload split log.swf --out weeks.swf.gz",
        "workload import slurm log.swf --out log.swf",
        "workload import slurm log.swf --out new.swf --key log.swf",
        "workload import slurm log.swf --out new.swf --key new.swf",
        "workload clean log.swf --out hard.swf",
        "workload clean log.swf --out soft.swf --flurries-from soft.swf",
        "workload scale log.swf --load 1 --out log.swf",
        "workload resample log.swf --out log.swf",
        "workload convert log.swf --out log.swf",
        "workload convert log.swf --out new.json --platform log.swf",
        "workload convert log.swf --out new.json --platform new.json",
        "tune log.swf --policy own@own.json --out own.json",
    ],
)
def test_no_command_overwrites_what_it_reads(taken, tmp_path, words):
    line = refusal(*words.split())
    page = "page.html is no file here, but a prefix; give page; then `batfill report page` makes a page"
    said = "the command needs; name another file", "as HTML; name it *.html", page, "weeks.swf.gz is no file here"
    assert any(each in line for each in said)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == taken


def test_a_sample_does_not_overwrite_the_log_that_it_is_made_of(taken, tmp_path):
    Path("log.swf").rename("log-001.swf")
    assert "log-001.swf" in refusal("workload", "resample", "log-001.swf", "--samples", "3", "--out", "log.swf")
    assert not Path("log-000.swf").exists()


@pytest.mark.parametrize(
    ("option", "begun", "known"),
    [
        ("policy", "la", ["laf"]),
        ("backfill", "sa", ["same", "saf"]),
        ("unrequested", "qu", ["queue"]),
    ],
)
def test_a_shell_completes_what_an_option_takes(option, begun, known):
    command = app.get_command(click.Context(app), "replay")
    param = next(param for param in command.params if param.name == option)
    assert [item.value for item in param.type.shell_complete(click.Context(command), param, begun)] == known
