"""What a user waits for: reading a log, a command's start, and the compilation after installation."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from engine import NO_COMPILER
from logs import BLUE, KTH
from table import Row, time_text
from timing import Case, Setting, by_turns, timed

from batfill.base.errors import RunFailed
from batfill.base.files import decompressed
from batfill.workloads import read_workload

READ_BAR, REPLAY_BAR, HELP_BAR, COLD_BAR_S = 6.0, 8.0, 1.5, 20.0
BATFILL = str(Path(sys.executable).with_name("batfill"))


def ran(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, run to its end."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    if done.returncode:
        raise RunFailed(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
    return done


def reading(setting: Setting) -> list[Row]:
    packed = BLUE.path
    case = f"read {BLUE.file}"
    read_workload(packed)
    contenders = {"ours": lambda: timed(lambda: read_workload(packed))}
    if setting.yardstick is not None:
        plain = setting.folder / "blue.swf"
        with decompressed(packed) as content:
            plain.write_bytes(content.read())
        contenders["C"] = partial(setting.yardstick.parse_s, plain)
    seconds = by_turns(setting.rounds, contenders)
    if setting.yardstick is None:
        return [Row(case, time_text(seconds["ours"]), NO_COMPILER, bar=READ_BAR)]
    c = f"C, unpacked {time_text(seconds['C'])}"
    return [Row(case, time_text(seconds["ours"]), c, seconds["ours"] / seconds["C"], READ_BAR)]


def beside_import(title: str, command: tuple[str, ...], modules: str, bar: float, setting: Setting) -> list[Row]:
    imports = (sys.executable, "-c", f"import {modules}")
    ran(*command)
    seconds = by_turns(
        setting.rounds,
        {"ours": lambda: timed(lambda: ran(*command)), "imports": lambda: timed(lambda: ran(*imports))},
    )
    beside = f"import {modules} {time_text(seconds['imports'])}"
    return [Row(title, time_text(seconds["ours"]), beside, seconds["ours"] / seconds["imports"], bar)]


def warm_replay(setting: Setting) -> list[Row]:
    command = (BATFILL, "replay", str(KTH.path))
    return beside_import(f"batfill replay {KTH.file}", command, "numpy", REPLAY_BAR, setting)


def cases() -> list[Case]:
    section = "commands"
    shown = partial(beside_import, "batfill --help", (BATFILL, "--help"), "click", HELP_BAR)
    return [
        Case(section, "reading", reading),
        Case(section, "warm replay", warm_replay),
        Case(section, "help", shown, quick=True),
    ]
