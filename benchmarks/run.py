"""Times batfill beside a plain C replay and other yardsticks, and checks every ratio against its bar: `make bench`."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import click
import commands
import depth
import engine
import environment
import memory
import messages
import numpy as np
import pair
import queues
import reporting
import wide
from logs import LOGS, LogMissing
from table import Row, as_text
from timing import Case, Setting
from yardstick import Yardstick, compiled

from batfill.base.errors import BatfillError, RunFailed
from batfill.base.files import digest, write_text
from batfill.base.progress import progress
from batfill.base.version import __version__


def machine() -> str:
    """The processor's model and how many there are."""
    found = [
        line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "name" in line
    ]
    return f"{found[0] if found else platform.machine()}, {len(found)} cores"


def provenance(yardstick: Yardstick | None, rounds: int, seed: int) -> list[str]:
    """What the figures depend on, one line each."""
    here = []
    for log in LOGS:
        try:
            here.append(f"{log.file} sha256 {digest(log.path)[:16]}")
        except LogMissing as missing:
            here.append(str(missing))
    return [
        f"machine   {machine()}",
        f"versions  batfill {__version__}, python {platform.python_version()}, "
        f"numpy {np.__version__}, {yardstick.compiler if yardstick else engine.NO_COMPILER}",
        f"date      {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load average {os.getloadavg()[0]:.2f} at the end",
        f"command   {shlex.join(sys.argv)}",
        f"measured  medians of {rounds}, by turns; seed {seed}",
        *(f"log       {line}" for line in here),
    ]


def chosen(quick: bool, only: str) -> list[Case]:
    """The cases asked for."""
    every = [
        case
        for part in (engine, depth, queues, wide, memory, commands, messages, pair, reporting, environment)
        for case in part.cases()
    ]
    return [case for case in every if (case.quick or not quick) and only in f"{case.section}: {case.title}"]


def measure(cases: list[Case], setting: Setting) -> dict[str, list[Row]]:
    """Every case's rows by section; a case whose log is missing says so."""
    sections: dict[str, list[Row]] = {}
    with progress("measuring", len(cases)) as step:
        for case in cases:
            rows = sections.setdefault(case.section, [])
            try:
                rows += case.run(setting)
            except LogMissing:
                rows.append(Row(case.title, "skipped: its log is not here"))
            step(1)
    return sections


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--out", "-o", type=click.Path(path_type=Path), help="Write the table to this file, too.")
@click.option("--quick", is_flag=True, help="Only the small cases: under half a minute.")
@click.option("--only", default="", help="Only the cases whose section or title has this in it.")
@click.option(
    "--rounds", type=click.IntRange(1), default=5, show_default=True, help="How many turns each contender has."
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Seed of the mixed policies' weights and of the messages' jobs.",
)
def main(out: Path | None, quick: bool, only: str, rounds: int, seed: int) -> None:
    """Print seconds, ratios and growth exponents; a MISSED bar is no failure, a start that differs from C's is."""
    try:
        text = suite(chosen(quick, only), out, rounds, seed)
    except (BatfillError, RunFailed) as failed:
        print(f"benchmarks: {failed.on_command_line if isinstance(failed, BatfillError) else failed}", file=sys.stderr)
        sys.exit(1 if isinstance(failed, RunFailed) else 2)
    print(text, end="")


def suite(cases: list[Case], out: Path | None, rounds: int, seed: int) -> str:
    """Measure the cases; the table, which is also written to `out`.

    Raises:
        BatfillError: there is no case to measure, or no folder to write to.
        RunFailed: a start differs from plain C's, or a command that is measured failed.
    """
    if not cases:
        raise BatfillError("--only: no case has this in its section or title; the table of a whole run shows them")
    if out is not None and not out.parent.is_dir():
        raise BatfillError(f"--out {out}: the folder {out.parent} does not exist; make it first")
    with tempfile.TemporaryDirectory() as folder:
        yardstick = compiled(Path(folder))
        sections = measure(cases, Setting(rounds, seed, Path(folder), yardstick))
    text = "\n".join([*provenance(yardstick, rounds, seed), "", as_text(sections)]) + "\n"
    if out is not None:
        write_text(out, text)
    return text


if __name__ == "__main__":
    main()
