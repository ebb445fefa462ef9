"""`batfill export-config`."""

from __future__ import annotations

from typing import Any

import click

from batfill.cli.parameters import JSON, scheduler_options


@click.command("export-config")
@click.argument("system", type=click.Choice(["slurm", "oar", "pbs", "flux"]))
@scheduler_options("policy", "backfill", "threshold")
@JSON
def export_config(system: Any, options: dict[str, Any], as_json: bool) -> None:
    """Print the configuration of a batch system that comes nearest to a policy, and what differs.

    SYSTEM is slurm, oar, pbs or flux.
    """
    import json

    from batfill.siteconfig import site_config

    found = site_config(
        system,
        options.get("policy", "fcfs"),
        backfill=options.get("backfill"),
        threshold_s=options.get("threshold"),
    )
    print(json.dumps(found.as_dict(), indent=1) if as_json else found.as_text())
