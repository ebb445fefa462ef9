"""The tree of commands. A command's file is imported when called, so that `batfill --help` answers at once."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from batfill.base.errors import nearest
from batfill.base.words import WIDTH

# In the order of the help; each line also begins the command's own help.
COMMANDS = {
    "run": "Run one experiment, simulator and scheduler, as robin would, print its figures and write a report.",
    "replay": "Run one policy over a whole workload, and print its figures.",
    "schedule": "Run the scheduler for the Batsim that connects.",
    "batsim": "The embedded simulator under the options of Batsim 4.2, or 5 (see `batfill batsim --help`).",
    "conformance": "Say which variant of EASY a Batsim scheduler is, and where it breaks the protocol.",
    "policies": "List every policy: name, formula, whether its order changes while jobs wait, and source.",
    "platform": "Print the SimGrid platform of a cluster of N equal hosts, as Batsim reads it.",
    "workload": "Read, describe, clean, split, resample, scale, generate, fetch, import and convert workloads.",
    "tune": "Search mixed policies on a log's weeks, and test the result on the weeks that follow.",
    "fit": "Learn heuristics by regression on scores of random schedules, test them, and save them as policies.",
    "select": "Select the policy after each period, from the past periods.",
    "campaign": "Run a grid of replays, resume it where it stopped, and store one row per run.",
    "reproduce": "Reproduce tables and figures of the papers, and compare the papers' numbers with ours.",
    "report": "Write a self-contained HTML page about these runs.",
    "what-if": "What other schedulers would have done to waiting and slowdown on a cluster's own log.",
    "when": "When the waiting jobs are expected to start, and why they do not start now.",
    "fidelity": "How far simulated waits are from those in a log, and what at the site explains the difference.",
    "export-config": "Print the batch system configuration nearest to a policy, and how it differs.",
}
# Files that hold several commands; every other command has a file of its name.
COMMAND_FILES = {"run": "batsim", "schedule": "batsim", "platform": "batsim", "export-config": "policies"}


class Group(click.Group):
    """Commands in the order of their definition; a name that is none is answered with the nearest."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments begin with, and the others."""
        name, known = args[0], self.list_commands(ctx)
        if not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            suggested = nearest(name.lower().replace("_", "-"), known) or f"; known are {', '.join(known)}"
            raise click.UsageError(f"No such command {name!r}{suggested}", ctx)
        return super().resolve_command(ctx, args)


class Commands(Group):
    """The commands of COMMANDS, loaded from their files."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"batfill.cli.{COMMAND_FILES.get(cmd_name, name)}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands with their first lines, importing none."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl([(name, shortened(line, width)) for name, line in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """The commands and options that begin with `incomplete`; imports no command."""
        from click.shell_completion import CompletionItem

        named = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]


def shortened(line: str, width: int) -> str:
    """The line, cut at a word with a mark if it is too long."""
    if len(line) <= width:
        return line
    return line[: line.rindex(" ", 0, width - 3)].rstrip(",;:") + "..."


def say_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the version and exit, if requested."""
    if wanted:
        from batfill.base.version import __version__

        print(f"batfill {__version__}")
        context.exit()


def completion(context: click.Context, parameter: click.Parameter, shell: str | None) -> None:
    """Print or install a shell's completion and exit."""
    if shell is not None:
        from batfill.cli import completion as scripts

        print(scripts.script(shell) if parameter.name == "show_completion" else scripts.install(shell))
        context.exit()


def completion_option(name: str, what: str) -> Any:
    """An option that takes a shell; without a value, the user's."""
    return click.option(
        name,
        type=click.Choice(["auto", "bash", "zsh", "fish"]),
        is_flag=False,
        flag_value="auto",
        metavar="[bash|zsh|fish]",
        expose_value=False,
        is_eager=True,
        callback=completion,
        help=f"{what} the completion for the current or the given shell, and exit.",
    )


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
@completion_option("--install-completion", "Install")
@completion_option("--show-completion", "Print")
@click.pass_context
def app(context: click.Context) -> None:
    """EASY-backfilling schedulers for Batsim, and a compiled engine that replays the same decisions."""
    if context.invoked_subcommand is None:
        print(context.get_help())
