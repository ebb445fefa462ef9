"""The tree of commands. A command's file is imported when it is called: `batfill --help` must answer at once."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

# In the order of the help; each line is how the command's own help begins.
COMMANDS = {
    "run": "Run one experiment, simulator and scheduler, as robin would, print its figures and write a page about it.",
    "replay": "Run one policy over a whole workload in the compiled engine, and print its figures.",
    "schedule": "Run the scheduler for the Batsim that connects.",
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
    "export-config": "Print the configuration of a batch system that comes nearest to a policy, and what differs.",
}
# The files of the commands that share one; the others have a file of their own name.
COMMAND_FILES = {"run": "batsim", "schedule": "batsim", "platform": "batsim", "export-config": "policies"}


class Commands(click.Group):
    """The commands of COMMANDS, each from its file."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"batfill.cli.{COMMAND_FILES.get(cmd_name, name)}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List them with their first lines, and import none."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl([(name, shortened(line, width)) for name, line in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """The commands and options that begin so; no command is imported for it."""
        from click.shell_completion import CompletionItem

        named = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]


def shortened(line: str, width: int) -> str:
    """The line, cut at a word and marked where it is too long."""
    if len(line) <= width:
        return line
    return line[: line.rindex(" ", 0, width - 3)].rstrip(",;:") + "..."


def say_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the version and stop, where it is wanted."""
    if wanted:
        from batfill import __version__

        print(f"batfill {__version__}")
        context.exit()


def completion(context: click.Context, parameter: click.Parameter, shell: str | None) -> None:
    """Print or install a shell's completion, and stop."""
    if shell is not None:
        from batfill.cli import completion as scripts

        print(scripts.script(shell) if parameter.name == "show_completion" else scripts.install(shell))
        context.exit()


def completion_option(name: str, what: str) -> Any:
    """An option that takes a shell; without a value, the shell in use."""
    return click.option(
        name,
        type=click.Choice(["auto", "bash", "zsh", "fish"]),
        is_flag=False,
        flag_value="auto",
        metavar="[bash|zsh|fish]",
        expose_value=False,
        is_eager=True,
        callback=completion,
        help=f"{what} the completion of this or the given shell, and exit.",
    )


@click.group(
    "batfill",
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
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
