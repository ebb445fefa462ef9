"""`batfill run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.cli.parameters import FILE, JSON

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("descriptor", type=FILE)
@click.option(
    "--simulator",
    type=click.Choice(["auto", "batsim", "embedded"]),
    default="auto",
    show_default=True,
    help="auto: what BATSIM says, else the batsim on PATH, else the embedded one.",
)
@JSON
def run(descriptor: Path, simulator: Any, as_json: bool) -> None:
    """Run one experiment, simulator and scheduler, as robin would, print its figures and write a page about it.

    Exits with 0 when both succeeded and every job ended, 1 when the run could not be set up or reached its
    simulation-timeout, 2 when a process failed or the descriptor cannot be used, 3 when interrupted.

    DESCRIPTOR is the experiment in YAML.
    """
    import json
    import shlex
    import sys

    from batfill.batsim.runner import run as run_experiment
    from batfill.batsim.runner.live import live_display
    from batfill.batsim.runner.summary import figures_as_text
    from batfill.cli import fail, warn

    with live_display() as show:
        outcome = run_experiment(descriptor, simulator=simulator, command=shlex.join(sys.argv), show=show)
    for note in outcome.notes:
        print(f"batfill: {note}", file=sys.stderr)
    warn(outcome.warnings)
    if outcome.status:
        fail(outcome.reason, outcome.status)
    whole = {**outcome.figures, "warnings": list(outcome.warnings)}
    print(json.dumps(whole, indent=1) if as_json else figures_as_text(outcome.figures))
    if outcome.results and not as_json:
        from batfill.errors import BatfillError
        from batfill.report import write_report

        try:
            (page,) = write_report([outcome.results], command=shlex.join(sys.argv))
            print(f"batfill: look at it in a browser: {page}", file=sys.stderr)
        except BatfillError as error:  # the run itself went well
            print(f"batfill: no report: {error}", file=sys.stderr)
