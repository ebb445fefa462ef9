"""The tree of commands. A command's file is imported when it is called: `batfill --help` must answer at once."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

# In the order of the help; each line is how the command's own help begins.
COMMANDS = {
    "run": "Run one experiment, simulator and scheduler, as robin would, print its figures and write a page about it.",
    "replay": "Run one policy over a whole workload in the compiled engine, and print its figures.",
    "schedule": "Run the scheduler for the Batsim that connects: the plug-in under pybatsim, with sane defaults.",
    "batsim": "The embedded simulator under Batsim 4.2's options and exit statuses (see `batfill batsim --help`).",
    "policies": "List every policy: name, formula, whether its order changes while jobs wait, and source.",
    "platform": "Print the SimGrid platform of a cluster of N equal hosts, without latency, as Batsim reads it.",
    "workload": "Read, describe, clean, split, resample, scale, generate, fetch, import and convert workloads.",
    "classify": "Judge every job of a log small or large as an online scheduler could have, and say how good that was.",
    "frontier": "Show what killing small jobs buys: mean bounded slowdown against wasted work.",
    "tune": "Search mixed policies on a log's weeks, and test what was learned on the weeks that follow.",
    "fit": "Learn heuristics by regression on the scores of many random schedules, and save them as policies.",
    "select": "Choose the policy anew after each period by what the past has shown.",
    "campaign": "Run a grid of replays, resume it where it stopped, and store one row per run.",
    "reproduce": "Make tables and figures of the papers again, and print the papers' numbers beside ours.",
    "report": "Write one HTML page about these runs that needs no network.",
    "what-if": "What other schedulers would have done to waiting and slowdown on a cluster's own log.",
    "export-config": "Print the nearest configuration of a real batch system to a policy, and how near it is.",
}
PLAIN: Any = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}


class Commands(TyperGroup):
    """The commands of COMMANDS, each from the file of its name."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every name, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = import_module(f"batfill.cli.{name}")
        if hasattr(module, "app"):  # a tree of its own
            command = typer.main.get_command(module.app)
        else:
            alone = typer.Typer(**PLAIN)
            alone.command(cmd_name, **getattr(module, "REGISTRATION", {}))(getattr(module, name))
            command = typer.main.get_command(alone)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List them with their first lines, and import none."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl([(name, shortened(line, width)) for name, line in COMMANDS.items()])


def shortened(line: str, width: int) -> str:
    """The line, cut at a word and marked where it is too long."""
    if len(line) <= width:
        return line
    return line[: line.rindex(" ", 0, width - 3)].rstrip(",;:") + "..."


app = typer.Typer(
    name="batfill",
    cls=Commands,
    help="EASY-backfilling schedulers for Batsim, and a compiled engine that replays the same decisions.",
    invoke_without_command=True,
    **PLAIN,
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
