"""The tree of commands. Command files import only typer at their top: `batfill --help` must answer at once."""

from __future__ import annotations

from typing import Annotated

import typer

from batfill.cli.batsim import SETTINGS as BATSIM_SETTINGS
from batfill.cli.batsim import batsim
from batfill.cli.campaign import campaign
from batfill.cli.classify import classify
from batfill.cli.export_config import export_config
from batfill.cli.fit import fit
from batfill.cli.frontier import frontier
from batfill.cli.platform import platform
from batfill.cli.policies import policies
from batfill.cli.replay import replay
from batfill.cli.report import report
from batfill.cli.run import run
from batfill.cli.schedule import schedule
from batfill.cli.select import select
from batfill.cli.tune import tune
from batfill.cli.what_if import what_if
from batfill.cli.workload import app as workload

app = typer.Typer(
    name="batfill",
    help="EASY-backfilling schedulers for Batsim, and a compiled engine that replays the same decisions.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def say_version(asked: bool) -> None:
    """Print the version and stop, when asked to."""
    if asked:
        from batfill import __version__

        print(f"batfill {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=say_version)
    ] = False,
) -> None:
    """EASY-backfilling schedulers for Batsim, and a compiled engine that replays the same decisions."""
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command(context_settings=BATSIM_SETTINGS, add_help_option=False)(batsim)
app.command()(campaign)
app.command()(classify)
app.command()(fit)
app.command()(frontier)
app.command("export-config")(export_config)
app.command()(platform)
app.command()(policies)
app.command()(replay)
app.command()(report)
app.command()(run)
app.command()(schedule)
app.command()(select)
app.command()(tune)
app.command("what-if")(what_if)
app.add_typer(workload, name="workload")
