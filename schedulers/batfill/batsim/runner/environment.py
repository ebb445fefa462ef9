"""Which simulator a run uses, and the environment in which its commands find it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Literal, get_args

from batfill.errors import BatfillError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Asked = Literal["auto", "batsim", "embedded"]
Engine = Literal["batsim", "embedded", "environment"]  # the last: what the caller's variable BATSIM says

# This Python's own programs, which commands find although no virtual environment is activated. -P: a folder of the
# user's that happens to be called like a package must not hide it.
PROGRAMS = {
    "batfill": ["-P", "-m", "batfill"],
    "pybatsim": ["-P", "-m", "batsim.cmds.launcher"],
}
EMBEDDED = {"batsim": ["-P", "-m", "batfill", "batsim"]}


def choose_engine(asked: Asked, environ: Mapping[str, str]) -> Engine:
    """The simulator to use: the caller's BATSIM, else a batsim on PATH, else (for "auto") the embedded one.

    Raises:
        BatfillError: Batsim is asked for and not there, or there is no such simulator.
    """
    if asked not in get_args(Asked):
        raise BatfillError(f"simulator: {asked!r} is none of {', '.join(get_args(Asked))}")
    if asked == "embedded":
        return "embedded"
    if environ.get("BATSIM"):
        return "environment"
    if shutil.which("batsim", path=environ.get("PATH", os.defpath)):
        return "batsim"
    if asked == "batsim":
        raise BatfillError("batsim is not on PATH; install it, set BATSIM, or pass --simulator embedded")
    return "embedded"


def command_environment(engine: Engine, environ: Mapping[str, str], programs: Path) -> dict[str, str]:
    """The environment of a run's commands: `environ` with our programs first on PATH, written into `programs`.

    BATSIM becomes the word `batsim`, unless the caller's is used: bash splits an unquoted variable at every space, and
    a name that is found on PATH has none, wherever this Python lives.

    Raises:
        BatfillError: programs cannot be run from that folder.
    """
    for name, arguments in {**PROGRAMS, **(EMBEDDED if engine == "embedded" else {})}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *arguments])} "$@"\n')
        program.chmod(0o755)
        if not os.access(program, os.X_OK):
            raise BatfillError(f"{programs}: programs cannot be run there (mounted noexec?); set TMPDIR elsewhere")
    env = {**environ, "PATH": f"{programs}{os.pathsep}{environ.get('PATH', os.defpath)}"}
    if engine != "environment":
        env["BATSIM"] = "batsim"
    return env
