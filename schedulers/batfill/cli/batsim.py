"""`batfill batsim`: the embedded Batsim. Its command line is Batsim's own, so typer hands it on unread."""

from __future__ import annotations

import typer

REGISTRATION = {
    "context_settings": {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False},
    "add_help_option": False,
}


def batsim(context: typer.Context) -> int:
    """The embedded simulator under Batsim 4.2's options and exit statuses (see `batfill batsim --help`)."""
    from batfill.batsim.command import main

    return main(context.args)
