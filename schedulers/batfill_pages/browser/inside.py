"""batfill inside a browser: what the worker calls. It shows the pages of commands, and errors in their words."""

from __future__ import annotations

import io
import os
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import batfill as bf
from batfill.base import progress
from batfill.base import version as version  # the worker sets `DOCUMENTATION`
from batfill.base.words import duration
from batfill.cli import main
from batfill.model.jobs import share_text

FOLDER = Path("/home/logs")
sys.path.append(str(Path(bf.__file__).parents[1] / "zones.zip"))  # the package tzdata
# The home page's orders: name, options, and the same for `replay`.
ORDERS: list[tuple[str, str, dict[str, Any]]] = [
    ("First come, first served", "--policy fcfs", {"policy": "fcfs"}),
    ("Shortest first", "--policy spf", {"policy": "spf"}),
    ("Smallest area first", "--policy saf", {"policy": "saf"}),
    ("Smallest area first, 24 h threshold", "--policy saf --threshold 24h", {"policy": "saf", "threshold_s": 86_400}),
    ("A short first try for narrow jobs", "--preset first-tries", {"preset": "first-tries"}),
]


def call(name: str, *given: str) -> dict[str, Any]:
    """Call a function of this module; a user's mistake is an answer, too."""
    FOLDER.mkdir(exist_ok=True)
    os.chdir(FOLDER)
    try:
        return dict(globals()[name](*given))
    except bf.BatfillError as error:
        return {"failed": error.on_command_line}


def run(line: str) -> str:
    """Run a command; returns what it prints, unless its status is not 0."""
    out, err = io.StringIO(), io.StringIO()
    words = sys.argv[:] = shlex.split(line)  # pages name the command
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main(words[1:])
    except SystemExit as ended:
        if ended.code:
            raise bf.BatfillError(err.getvalue().removeprefix("batfill: ").strip()) from None
    return err.getvalue() + out.getvalue()


def reading(procs: str, unrequested: str) -> dict[str, Any]:
    """The visitor's choices for `read` and `replay`; "" and "refuse" are none."""
    found: dict[str, Any] = {"procs": int(procs)} if procs else {}
    return found | ({} if unrequested == "refuse" else {"unrequested": unrequested})


def take(name: str, procs: str, unrequested: str) -> dict[str, Any]:
    """Read the log in this file, and say what was read and left out; Slurm's accounting is imported first."""
    log, commands, text = name, [], ""
    with Path(name).open("rb") as file:
        if b"JobID" in (head := file.readline(10_000)) and b"|" in head:
            log = f"{name}.swf"
            commands = [shlex.join(["batfill", "workload", "import", "slurm", name, "--out", log])]
            text = run(*commands)
    workload = bf.read(log, **reading(procs, unrequested))
    text += "\n".join(f"{label:12} {value}" for label, value in workload.rows())
    summary = f"{workload.name}: {len(workload.jobs):,} jobs"
    return {"log": log, "procs": workload.size, "summary": summary, "text": text, "commands": commands}


def orders(log: str, procs: str, unrequested: str) -> dict[str, Any]:
    """The log's figures under five orders, as texts, and which jobs are wider than the machine."""
    rows: list[dict[str, Any]] = []
    workload, longest_s, wider = bf.read(log, **reading(procs, unrequested)), 0.0, ""
    for name, words, given in ORDERS:
        if progress.told is not None:
            progress.told("orders replayed", len(rows), len(ORDERS))
        found = bf.replay(workload, **given).figures
        if found.rejected:
            left_out = share_text(found.rejected, len(workload.jobs))
            wider = f"{left_out} ask for more than {workload.size:,} processors: they are left out of all figures."
        longest_s = longest_s or found.max_wait_s
        pays = found.max_wait_s > 2 * longest_s
        waits = [duration(found.mean_wait_s), "▲ " * pays + duration(found.max_wait_s)]
        slowdown = f"{found.mean_bsld:,.{0 if found.mean_bsld >= 10 else 1}f}"
        rows.append({"name": name, "words": words, "pays": pays, "cells": [*waits, slowdown]})
    return {"rows": rows, "wider": wider}


def page(which: str, log: str, procs: str, unrequested: str, growth: str, order: str) -> dict[str, Any]:
    """A page, and the commands that write it: what-if, a run under an order, or the comparison of all orders."""
    options = reading(procs, unrequested).items()
    of_log = " ".join([shlex.quote(log), *(f"--{name} {value}" for name, value in options)])
    commands = [f"batfill what-if {of_log} --max-wait-growth {growth} --out what-if.html"]
    if which != "what-if":
        chosen = [words for _, words, _ in ORDERS if which == "comparison" or words == order]
        names = [f"runs/{words.replace('--', '').replace(' ', '-')}" for words in chosen]
        pairs = zip(chosen, names, strict=True)
        commands = [f"batfill replay {of_log} {words} --out {name}/out" for words, name in pairs]
        commands.append(f"batfill report {' '.join(names)} --out {which}.html")
    for line in commands:
        run(line)
    written = Path(f"{which}.html")
    return {"name": written.name, "html": written.read_text(encoding="utf-8"), "commands": commands}
