"""The tree of commands. A command's file is imported when called, so that `batfill --help` answers at once."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from batfill.base.errors import nearest
from batfill.base.words import WIDTH

# By whom they are for, in the order of the help; each line also begins the command's own help.
HOUSES = {
    "Simulate": {
        "run": "Run one experiment as robin would, and report on it.",
        "replay": "Run one policy over a whole workload, and print figures.",
        "schedule": "Run the scheduler for the Batsim that connects.",
        "batsim": "The embedded simulator under the options of Batsim 4.",
        "batsched": "Take batsched's command line, and start the same jobs.",
        "policies": "List every policy: name, formula, and source.",
        "platform": "Print the SimGrid platform of a cluster of equal hosts.",
        "workload": "Import, fetch, generate, describe, change and write logs.",
        "report": "Write a self-contained HTML page about these runs.",
    },
    "Your site": {
        "what-if": "What other schedulers, or changes of slurm.conf, would have done with a site's log.",
        "when": "When waiting jobs are expected to start, and why not now.",
        "fidelity": "How far simulated waits are from those in a log, and why.",
    },
    "Research": {
        "tune": "Search mixed policies on a log's weeks, and test them.",
        "select": "Select the policy after each period, from the past periods.",
        "campaign": "Run a grid of replays, and resume it where it stopped.",
        "fit": "Learn policies by regression on random schedules.",
        "reproduce": "Reproduce papers' tables and figures, and compare numbers.",
    },
}
COMMANDS = {name: line for commands in HOUSES.values() for name, line in commands.items()}
# Where a command is that is not in the core, or not in a file of its name.
PLACES = {
    **dict.fromkeys(("run", "schedule", "platform"), "batfill.cli.batsim"),
    "policies": "batfill.cli.replay",
    "report": "batfill_pages.cli.report",
    **{name: f"batfill_site.cli.{name.replace('-', '_')}" for name in HOUSES["Your site"]},
    **{name: f"batfill_lab.cli.{name}" for name in HOUSES["Research"]},
}


class Group(click.Group):
    """Commands in the order of their definition; a name that is none is answered with the nearest."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = args[0], self.list_commands(ctx)
        if not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            suggested = nearest(name.lower().replace("_", "-"), known) or f"; known are {', '.join(known)}"
            raise click.UsageError(f"{name}: no such command{suggested}", ctx)
        return super().resolve_command(ctx, args)


class Commands(Group):
    """The commands of COMMANDS, loaded from their files."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(PLACES.get(cmd_name, f"batfill.cli.{name}")), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands by house with their first lines, importing none."""
        longest = max(map(len, COMMANDS))
        for house, commands in HOUSES.items():
            with formatter.section(house):
                formatter.write_dl([(name.ljust(longest), line) for name, line in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """The commands and options that begin with `incomplete`; imports no command."""
        from click.shell_completion import CompletionItem

        named = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]


def option_name(param: click.Parameter | None) -> str:
    """The option's name as typed, without dashes."""
    return max(param.opts, key=len).lstrip("-") if param else "value"


def named(param: click.Parameter) -> str:
    """The option or argument as the help names it."""
    return f"--{option_name(param)}" if isinstance(param, click.Option) else param.metavar or (param.name or "").upper()


def reworded(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption):
        known = nearest(error.option_name, error.possibilities or ())
        return f"{error.option_name}: no such option{known}"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return f"{named(error.param)} is missing"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"{named(error.param)}: {error.message}"
    if isinstance(error, click.BadOptionUsage):
        return f"{error.option_name}: {error.message.partition(' ')[2].partition(' ')[2].rstrip('.')}"
    if "unexpected extra argument" in error.message:
        extra = error.message.partition("(")[2].removesuffix(")")
        return f"{extra}: more than the command takes"
    return " ".join(error.format_message().split())


def say_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from batfill.base.version import __version__

        print(f"batfill {__version__}")
        context.exit()


@click.group(
    "batfill",
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": WIDTH},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=say_version,
    help="Print the version, and exit.",
)
@click.pass_context
def app(context: click.Context) -> None:
    """EASY-backfilling schedulers for Batsim, and a compiled engine that replays the same decisions."""
    if context.invoked_subcommand is None:
        print(context.get_help())
