"""`batfill export-config`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

System = Literal["slurm", "oar", "pbs", "flux"]


def export_config(
    system: Annotated[System, typer.Argument(help="The batch system.")],
    policy: Annotated[str, typer.Option(help="The queue's order; see `batfill policies`.")] = "fcfs",
    backfill: Annotated[str, typer.Option(help="The order of backfilling: `same`, or a policy's.")] = "same",
    threshold: Annotated[
        float | None, typer.Option(help="Jobs that have waited longer than this many seconds come first.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the nearest configuration of a real batch system to a policy, and how near it is."""
    import json

    from batfill.siteconfig.systems import site_config

    found = site_config(system, policy, backfill=backfill, threshold_s=threshold)
    print(json.dumps(found.as_dict(), indent=1) if as_json else found.as_text())
