"""The commands around Batsim: a whole run, its two processes separately, and the platform."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from batfill.cli import command_line, note, offer, say, warn
from batfill.cli.parameters import (
    FILE,
    JSON,
    MILLISECONDS,
    WHOLE,
    Choice,
    choice_option,
    command,
    link_options,
    out_option,
    scheduler_options,
)
from batfill.model.options import LIVE, NAMES

if TYPE_CHECKING:
    from pathlib import Path


@command()
@click.argument("descriptor", type=FILE)
@choice_option(
    "--simulator",
    choices=("auto", "batsim", "embedded"),
    help="auto: $BATSIM, else batsim on PATH, else the embedded one.",
)
@JSON
def run(descriptor: Path, simulator: Any, as_json: bool) -> None:
    """Run one experiment as robin would, and report on it.

    Starts the simulator and the scheduler, prints figures and writes a page. Exits with 0 if both succeeded and every
    job ended, 1 if the run could not be set up or reached its simulation-timeout, 2 if a process failed or the
    descriptor is unusable, 3 if interrupted.

    DESCRIPTOR is the experiment in YAML.
    """
    from batfill.base.files import json_text
    from batfill.base.tables import label_lines
    from batfill.model.metrics import figure_rows
    from batfill.runner.experiment import run as run_experiment
    from batfill.runner.pair import live_display

    with live_display() as show:
        outcome = run_experiment(descriptor, simulator=simulator, command=command_line(), show=show, say=note)
    for line in outcome.notes:
        note(line)
    warn(outcome.warnings)
    if outcome.status:
        sys.exit(say(outcome.reason, outcome.status))
    whole = {**outcome.figures, "warnings": list(outcome.warnings)}
    print(json_text(whole) if as_json else label_lines(figure_rows(outcome.figures)))
    if outcome.jobs_csv and not as_json:
        from batfill.base.doors import door
        from batfill.base.errors import BatfillError, RunFailed, on_command_line

        try:
            known = {outcome.jobs_csv: outcome.results}
            (page,) = door("write_report")([outcome.jobs_csv], known=known, command=command_line())
            offer(page)
        except (BatfillError, RunFailed) as error:  # the run itself succeeded
            note(f"no report: {on_command_line(error)}")


@command(heading="connection")
@scheduler_options(*NAMES, *LIVE)
@click.option(
    "--socket",
    "-s",
    default="tcp://127.0.0.1:28000",
    help="Address to listen on; tcp://*:28000, open to the network, for a Batsim on another machine or in a container.",
)
@click.option(
    "--timeout",
    "-t",
    type=MILLISECONDS,
    default=0,
    help="Exit if Batsim is silent for this many ms, or this duration; 0 for never.",
)
@click.option(
    "--verbosity",
    "-v",
    type=Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="warning",
    help="info logs every message.",
)
@click.option(
    "--protocol",
    type=Choice(["auto", "4", "5"]),
    default="auto",
    help="Batsim's major version; auto finds it out from the first message.",
)
def schedule(options: dict[str, Any], socket: str, timeout: int, verbosity: str, protocol: str) -> None:
    """Run the scheduler for the Batsim that connects."""
    import logging

    from batfill.live.serve import serve

    level = logging.getLevelName(verbosity.upper())
    assert isinstance(level, int)
    logging.basicConfig(format="batfill: %(levelname)s: %(message)s", level=level)
    serve(options, socket, timeout, protocol)


@command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def batsim(arguments: tuple[str, ...]) -> int:
    """The embedded simulator under the options of Batsim 4."""
    from batfill.simulator.command import main

    return main(list(arguments))  # the command line is Batsim's; click passes it through


@command()
@click.argument("hosts", metavar="N", type=WHOLE)
@link_options
@out_option("file", "Write to this file instead of standard output.", example="platform.xml")
@JSON
def platform(hosts: int, links: dict[str, str], out: Path | None, as_json: bool) -> None:
    """Print the SimGrid platform of a cluster of equal hosts.

    Batsim reads it. N hosts compute; the master host is one more. With another bandwidth or latency Batsim's own
    messages take time, and events of one second may reach the scheduler in several messages.
    """
    from batfill.base.files import json_text, write_text
    from batfill.batsim_files.platform import homogeneous_platform

    text = homogeneous_platform(hosts, **links)
    if out is not None:
        write_text(out, text)
    if as_json:
        print(json_text({"hosts": hosts, "file": str(out)} if out else {"hosts": hosts, "platform": text}))
    elif out is None:
        print(text, end="")
