"""Shell completion of every command and option: click's scripts, and where each shell looks for them."""

from __future__ import annotations

import os
from pathlib import Path

import click

VARIABLE = "_BATFILL_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
# A zsh that has not loaded its completion lacks `compdef`, which click's script calls at its end.
ZSH_FIRST = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"


def script(shell: str) -> str:
    """The script that completes `batfill` in this shell; "auto" means the user's shell.

    Raises:
        click.UsageError: the shell is unknown.
    """
    from click.shell_completion import get_completion_class

    name = shell_in_use() if shell == "auto" else shell
    found = get_completion_class(name)
    assert found is not None
    made = found(click.Command("batfill"), {}, "batfill", VARIABLE)  # the script contains only the program's name
    # `source` checks bash's version by starting any bash it finds, and warns on stderr.
    text = made.source_template % made.source_vars()
    return (ZSH_FIRST if name == "zsh" else "") + text.strip("\n")


def install(shell: str) -> str:
    """Install the completion script for this shell's future sessions; returns a line describing what was done.

    fish finds the file by itself; for the others, a line in the start-up file reads it, added once.

    Raises:
        BatfillError: a file cannot be written.
    """
    from batfill.base.files import make_folder, write_text

    name = shell_in_use() if shell == "auto" else shell
    home = Path.home()
    if name == "fish":
        path = folder("XDG_CONFIG_HOME", ".config") / "fish" / "completions" / "batfill.fish"
        start = None
    else:
        path = folder("XDG_DATA_HOME", ".local/share") / "batfill" / f"completion.{name}"
        start = home / ".bashrc" if name == "bash" else Path(os.environ.get("ZDOTDIR") or home) / ".zshrc"
    make_folder(path.parent)
    write_text(path, script(name) + "\n")
    if start is not None:
        line = f'[ -r "{path}" ] && . "{path}"  # completion of batfill'
        before = start.read_text() if start.exists() else ""
        if line not in before.splitlines():
            write_text(start, before + ("" if before.endswith("\n") or not before else "\n") + line + "\n")
    where = f", which {start} reads" if start else ""
    return f"{name}: completion in {path}{where}; open a new shell"


def shell_in_use() -> str:
    """The user's shell, by $SHELL.

    Raises:
        click.UsageError: it is not one of SHELLS.
    """
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(f"$SHELL is {name!r}, none of {', '.join(SHELLS)}; name one, as --show-completion bash")
    return name


def folder(variable: str, usual: str) -> Path:
    """A folder of the XDG base directory specification."""
    return Path(os.environ.get(variable) or Path.home() / usual)
