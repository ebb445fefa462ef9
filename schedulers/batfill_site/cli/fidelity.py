"""`batfill fidelity`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from batfill.cli import command_line, note, offer, warn
from batfill.cli.parameters import (
    CANCELLED,
    FILE,
    JSON,
    NEW_FILE,
    OVERRUN,
    PROCS,
    UNREQUESTED,
    Checked,
    command,
    out_option,
    seed_option,
)
from batfill_site.cli.of_slurm import RUNS, require_one_kind, site_options


def machine_of(name: str, value: Any) -> str | int:
    from batfill_site.machine import machine_given

    return machine_given(name, value)


MACHINE = click.option(
    "--machine",
    type=Checked("log|header|n", machine_of, ("log", "header")),
    help="The machine: `log`, which the log's jobs ran on; `header`; or so many processors [default: log, but header "
    "with --procs].",
)


@command()
@click.argument("log", metavar="LOG", type=FILE)
@click.option("--fit/--no-fit", default=True, help="Also fit what the site does, and score it on the later jobs.")
@MACHINE
@PROCS
@OVERRUN
@UNREQUESTED
@CANCELLED
@site_options
@RUNS
@seed_option("what differs between the runs")
@out_option(
    "file", "Write the answer as one HTML page, or to a .json file in full.", example="fidelity.html", also=".json"
)
@click.option(
    "--calendar",
    type=NEW_FILE,
    help="Write the machine's steps and outages, as other commands take them with --calendar.",
)
@click.option("--details", is_flag=True, help="Also print all groups of jobs, all figures, and notes.")
@JSON
def fidelity(
    log: Path,
    fit: bool,
    machine: str | int | None,
    calendar: Path | None,
    site: dict[str, Any],
    runs: int,
    seed: int,
    out: Path | None,
    details: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """How far simulated waits are from those in a log, and why.

    Finds the machine that the jobs ran on, and what at the site explains the rest. The replay is FCFS with EASY
    backfilling. LOG is SWF with waits, or a cluster's accounting. With --slurm-conf the site's Slurm is modelled, and
    LOG is what `sacct -P` prints.
    """
    from batfill.base.files import write_text
    from batfill.base.words import things
    from batfill.model.limits.calendar import Calendar
    from batfill_site import fidelity as library

    require_one_kind(site, {"runs", "seed"}, {"log"})
    how |= {"seed": seed, "runs": runs, **site} if site else {"fit": fit, "machine": machine}
    found = library.fidelity(log, **how)
    if calendar is not None:
        its = found["calendar"]
        write_text(calendar, Calendar.of(its["windows"]).as_csv())
        whose = f"the jobs of {its['part']} alone" if its["part"] else "the log"
        words = " ".join(f"--{name} {value}" for name, value in its["options"].items())
        note(f"{calendar}: {things(len(its['windows']), 'window')}; replay {whose} with --calendar {calendar} {words}")
    if out is not None and ".html" in map(str.lower, out.suffixes):
        write_text(out, found.answer().as_page(command_line(), {str(log): found["input"]["source_sha256"]}))
        offer(out)
    elif out is not None:
        found.save(out)
    if as_json:  # the text has them
        warn(found["input"]["warnings"])
    print(found.as_json() if as_json else found.as_text(details=details))
