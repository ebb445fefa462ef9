"""Shells complete every command and option: asked as a shell asks, and in a real bash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli_options import commands

from command import batfill

VARIABLE = "_BATFILL_COMPLETE"
BIN = Path(sys.executable).parent
PATH = f"{BIN}:{os.environ['PATH']}"


def replied(*words):
    """What a real bash replies at a TAB behind these words."""
    program = f"""
        eval "$({VARIABLE}=bash_source batfill)"
        COMP_WORDS=({" ".join(f"'{word}'" for word in words)}); COMP_CWORD={len(words) - 1}
        _batfill_completion batfill; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    env = {**os.environ, "PATH": PATH}
    done = subprocess.run(["bash", "-c", program], env=env, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_a_real_bash_completes_commands_options_and_values():
    assert replied("batfill", "re") == ["replay", "report", "reproduce"]
    assert replied("batfill", "workload", "convert", "--pl") == ["--platform"]
    assert replied("batfill", "replay", "x.swf", "--overrun", "") == ["keep", "kill", "extend"]
    assert replied("batfill", "what-if", "--thr") == ["--threshold"]


@pytest.mark.parametrize("name", ["", "workload", *(name for name, _ in commands())])
def test_h_and_help_are_one(name):
    short, long = (batfill(*name.split(), option) for option in ("-h", "--help"))
    assert short == long
    assert short.status == 0
    assert short.out.lower().startswith(f"usage: batfill {name}".rstrip())
