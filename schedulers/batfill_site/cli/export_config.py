"""`batfill export-config`."""

from __future__ import annotations

from typing import Any

import click

from batfill.cli.parameters import JSON, Choice, command, scheduler_options
from batfill.model.options import SCHEDULING


@command("export-config", heading="configuration")
@click.argument("system", metavar="SYSTEM", type=Choice(["slurm", "oar", "pbs", "flux"]))
@scheduler_options(*SCHEDULING)
@click.option("--approximate", is_flag=True, help="Accept a configuration that lacks a part of what the options say.")
@JSON
def export_config(system: Any, options: dict[str, Any], approximate: bool, as_json: bool) -> int:
    """Print the batch system configuration nearest to a policy.

    It says how the configuration differs. SYSTEM is slurm, oar, pbs or flux. The exit status is 3 if the configuration
    lacks a part of what the options say, and `--approximate` is not given.
    """
    from batfill.base.files import json_text
    from batfill.cli import say
    from batfill.model.options import arguments_of
    from batfill_site.config.systems import site_config

    found = site_config(system, **arguments_of(options)).usable()
    print(json_text(found.as_dict()) if as_json else found.as_text())
    lacking = found.lacking(accepted=approximate)
    return say(lacking, 3) if lacking else 0
