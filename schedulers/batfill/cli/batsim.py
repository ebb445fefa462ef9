"""`batfill batsim`: the embedded Batsim. Its command line is Batsim's own, so click hands it on unread."""

from __future__ import annotations

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}, add_help_option=False
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def batsim(arguments: tuple[str, ...]) -> int:
    """The embedded simulator under Batsim 4.2's options and exit statuses (see `batfill batsim --help`)."""
    from batfill.batsim.command import main

    return main(list(arguments))
