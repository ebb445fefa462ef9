"""The command `batfill batsched`: batsched's own command line, for studies and programs that execute batsched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.cli import note
from batfill.cli.parameters import FILE, SECONDS, Checked, Choice, command
from batfill.model.batsched import (
    DELAY_S,
    ENDPOINT,
    USUAL,
    VERSION,
    counterpart,
    variant_options_in,
    variant_options_of,
)

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = {"debug": "DEBUG", "info": "WARNING", "quiet": "ERROR", "silent": "CRITICAL"}


def say_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print batsched's version, which programs read, and whose this one is."""
    if wanted:
        from batfill.base.version import __version__

        print(f"{VERSION} (batfill {__version__})")
        context.exit()


@command()
@click.option("--variant", "-v", default=USUAL, help="The scheduler.")
@click.option("--queue_order", "-o", default="fcfs", help="The order of its queue.")
@click.option("--rjms_delay", "-d", type=SECONDS, default=f"{DELAY_S:g}", help="How much longer a job is planned.")
@click.option("--policy", "-p", default="basic", help="How it selects machines.")
@click.option("--socket-endpoint", "-s", default=ENDPOINT, help="The address to listen on.")
@click.option(
    "--variant_options", type=Checked("json", variant_options_of), default="{}", help="Options of the scheduler alone."
)
@click.option("--variant_options_filepath", type=FILE, help="A file of them.")
@click.option("--verbosity", type=Choice(list(LEVELS)), default="info", help="What it logs; debug: every message.")
@click.option(
    "--call_make_decisions_on_single_nop",
    type=Choice(["1"]),
    default="1",
    expose_value=False,
    hidden=True,  # its name is too long for the page on a phone
    help="Decide after each message.",
)
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=say_version, help="Print it.")
def batsched(
    socket_endpoint: str,
    verbosity: str,
    variant: str,
    queue_order: str,
    rjms_delay: float,
    policy: str,
    variant_options: dict[str, Any],
    variant_options_filepath: Path | None,
) -> None:
    """Take batsched's command line, and start the same jobs.

    A scheduler or an option for which there is no counterpart is refused with the reason. A link called batsched that
    points to batfill is this command, so that a program which executes batsched needs no change.
    """
    import logging

    from batfill.live.serve import serve

    options = counterpart(
        variant,
        order=queue_order,
        delay_s=rjms_delay,
        policy=policy,
        variant_options=variant_options_in(variant_options_filepath) if variant_options_filepath else variant_options,
    )
    logging.basicConfig(format="batfill: %(levelname)s: %(message)s", level=LEVELS[verbosity])
    words = " ".join(f"--{name} {value}" for name, value in options.items())
    note(f"for batsched -v {variant}: batfill schedule {words}")
    serve(options, socket_endpoint)
