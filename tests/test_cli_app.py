"""The list of commands is what the commands themselves say, though it imports none of them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from batfill.cli.app import COMMANDS, app
from batfill.model.options import OPTIONS, in_force
from command import batfill

SAMPLE = Path(__file__).parents[1] / "workloads" / "sample.json"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_line_of_the_help_is_how_the_command_describes_itself(name):
    described = app.get_command(click.Context(app), name).callback.__doc__
    assert " ".join(described.split()).startswith(COMMANDS[name].removesuffix("."))


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_at_its_default_is_accepted_where_it_has_no_effect(name):
    default = OPTIONS[name].default
    stated = {} if default is None else {name: default}
    assert in_force(stated) == in_force({})


@pytest.mark.parametrize(
    "words",
    [
        "replay {} --kill needed --small-width 100% --cut 50% --predict-for order",
        "what-if {} --no-small-first --kill needed --small-width 1",
        "tune {} --days 1 --last 1 --points 6 --evaluations 1000",
        "select {} --policies fcfs,saf --method ucb1 --lambda 0.9 --noise walltime",
    ],
)
def test_defaults_may_be_written_out(words):
    assert batfill(*words.format(SAMPLE).split()).status == 0


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


def test_an_interrupt_while_the_command_line_loads_is_a_line(tmp_path):
    (tmp_path / "typing.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    words = [sys.executable, "-m", "batfill", "policies"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "batfill: interrupted by SIGINT\n")


@pytest.mark.parametrize("words", [["replay", "missing.swf"], ["tune", str(SAMPLE)], ["what-if", "missing.swf"]])
def test_a_refusal_is_one_line(words):
    refused = program(*words)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr


def test_the_help_of_replay_is_one_screen():
    assert len(batfill("replay", "--help").out.splitlines()) <= 60
