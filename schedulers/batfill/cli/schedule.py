"""`batfill schedule`."""

from __future__ import annotations

from typing import Any

import click

from batfill.cli.parameters import MILLISECONDS, POSITIVE_SECONDS, SECONDS, scheduler_options


@click.command()
@scheduler_options()
@click.option(
    "--select",
    type=click.Choice(["full", "noisy", "epsilon-greedy", "ucb1", "exp3"]),
    help="Choose the policy anew after each period; see `batfill select`.",
)
@click.option("--policies", help="select: from `ten`, `twelve`, or names separated by commas [default: ten].")
@click.option("--period", type=POSITIVE_SECONDS, help="select: the time between choices, a duration [default: 7d].")
@click.option(
    "--budget",
    type=SECONDS,
    help="select: the time to spend on each choice, a duration, or nothing is learned [default: 10].",
)
@click.option("--socket", "-s", default="tcp://*:28000", show_default=True, help="Where Batsim connects to.")
@click.option(
    "--timeout",
    "-t",
    type=MILLISECONDS,
    default=0,
    show_default=True,
    help="Give up when Batsim is silent for this many ms, or this duration; 0 for never.",
)
@click.option(
    "--verbosity",
    "-v",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="warning",
    show_default=True,
    help="info logs every message.",
)
def schedule(
    options: dict[str, Any],
    select: str | None,
    policies: str | None,
    period: float | None,
    budget: float | None,
    socket: str,
    timeout: int,
    verbosity: str,
) -> None:
    """Run the scheduler for the Batsim that connects: the plug-in under pybatsim, with sane defaults."""
    import logging

    from batfill.scheduler import serve

    level = logging.getLevelName(verbosity.upper())
    assert isinstance(level, int)
    logging.basicConfig(format="batfill: %(levelname)s: %(message)s", level=level)
    # pybatsim warns once per acknowledged registration, and that dynamic jobs are enabled: both are as they should be.
    logging.getLogger("batsim").setLevel(max(level, logging.ERROR) if level >= logging.WARNING else level)
    chosen = {"select": select, "policies": policies, "period": period, "budget": budget}
    serve({**options, **{name: value for name, value in chosen.items() if value is not None}}, socket, timeout)
