"""The referee for EASY schedulers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from batfill.cli import note
from batfill.cli.parameters import JSON, NEW_FOLDER, POSITIVE_SECONDS, command

if TYPE_CHECKING:
    from pathlib import Path


@command()
@click.argument("scheduler_command", required=False)
@click.option("--list", "listing", is_flag=True, help="List the workloads and the known variants, and exit.")
@click.option("--workload", "workloads", multiple=True, metavar="NAME", help="Run this one; may be repeated.")
@click.option(
    "--timeout",
    "timeout_s",
    type=POSITIVE_SECONDS,
    default="120",
    help="The longest wait for the scheduler to listen, and for each reply, a duration.",
)
@click.option(
    "--limit",
    "limit_s",
    type=POSITIVE_SECONDS,
    default="900",
    help="The longest time for all workloads together, a duration.",
)
@click.option(
    "--keep", type=NEW_FOLDER, metavar="FOLDER", help="Keep workloads, platforms, messages and logs in this folder."
)
@JSON
def conformance(
    scheduler_command: str | None,
    listing: bool,
    workloads: tuple[str, ...],
    timeout_s: float,
    limit_s: float,
    keep: Path | None,
    as_json: bool,
) -> int:
    """Say which variant of EASY a Batsim scheduler is.

    Also says where it breaks the protocol. SCHEDULER_COMMAND starts the scheduler, in bash; {port}, {endpoint} and
    $BATSIM_PORT stand for where it has to listen: 'batsched -v easy_bf -s {endpoint}'. Exits with 0 if it is a known
    variant, 1 if it is none or breaks the protocol.
    """
    from batfill.base.files import json_text
    from batfill.base.version import __version__
    from batfill.base.words import wrapped
    from batfill_lab.conformance import listed
    from batfill_lab.conformance.cases import CASES

    if listing:
        named = listed()
        parts = (
            "\n".join(wrapped(f"{name:33}{line}", " " * 33) for name, line in part.items()) for part in named.values()
        )
        print(json_text(named) if as_json else "\n\n".join(parts))
        return 0

    from batfill.base.progress import progress
    from batfill_lab.conformance.session import DEFAULT_PORT, examine, require_known, takes_port

    if scheduler_command is None:
        raise click.UsageError("give the command that starts the scheduler, in quotes, or --list")
    require_known(workloads)
    if not takes_port(scheduler_command):
        note(f"the scheduler has to listen on port {DEFAULT_PORT}: its command has no {{port}} or {{endpoint}}")
    with progress("workloads", len(workloads) or len(CASES), lines=True) as advance:
        verdict = examine(
            scheduler_command, workloads=workloads, timeout_s=timeout_s, limit_s=limit_s, keep=keep, advance=advance
        )
    if as_json:
        print(json_text({"batfill": __version__, "command": scheduler_command, **verdict.as_dict()}))
    else:
        print(verdict.as_text())
    return 0 if verdict.conforms else 1
