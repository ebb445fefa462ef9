"""`batfill export-config`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.cli.parameters import FILE, JSON, OVERRUN, PROCS, UNREQUESTED, Choice, command, scheduler_options
from batfill.model.options import NAMES

if TYPE_CHECKING:
    from pathlib import Path


@command("export-config", heading="configuration")
@click.argument("system", metavar="SYSTEM", type=Choice(["slurm", "oar", "pbs", "flux"]))
@scheduler_options(*NAMES)
@click.option("--approximate", is_flag=True, help="Accept a configuration that lacks a part of what the options say.")
@click.option(
    "--on",
    metavar="LOG",
    type=FILE,
    help="Run Slurm's files over this log in a model of Slurm, and compare their figures with a replay's.",
)
@PROCS
@OVERRUN
@UNREQUESTED
@JSON
def export_config(
    system: Any, options: dict[str, Any], approximate: bool, on: Path | None, as_json: bool, **how: Any
) -> int:
    """Print the batch system configuration nearest to a policy.

    It says how the configuration differs. SYSTEM is slurm, oar, pbs or flux. The exit status is 3 if the configuration
    lacks a part of what the options say, and `--approximate` is not given.
    """
    from batfill.base.files import json_text
    from batfill.cli import say
    from batfill.model.options import arguments_of
    from batfill_site.config.systems import site_config

    found = site_config(system, on=on, **how, **arguments_of(options)).usable()
    print(json_text(found.as_dict()) if as_json else found.as_text())
    lacking = found.lacking(accepted=approximate)
    return say(lacking, 3) if lacking else 0
