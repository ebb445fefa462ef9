"""`batfill export-config`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from batfill.cli import ordering

System = Literal["slurm", "oar", "pbs", "flux"]


def export_config(
    system: Annotated[System, typer.Argument(help="The batch system.")],
    policy: Annotated[str, typer.Option(help="The queue's order; see `batfill policies`.")] = "fcfs",
    backfill: ordering.Backfill = "same",
    threshold: ordering.Threshold = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the nearest configuration of a real batch system to a policy, and how near it is."""
    import json

    from batfill.siteconfig.systems import site_config

    found = site_config(system, policy, backfill=backfill, threshold_s=threshold)
    print(json.dumps(found.as_dict(), indent=1) if as_json else found.as_text())
