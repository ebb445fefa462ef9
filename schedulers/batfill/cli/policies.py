"""The list of policies, and the batch system configuration nearest to one of them."""

from __future__ import annotations

from typing import Any

import click

from batfill.cli.parameters import JSON, command, scheduler_options
from batfill.model.options import SCHEDULING


@command()
@JSON
def policies(as_json: bool) -> None:
    """List every policy: name, formula, whether its order changes while jobs wait, and source.

    r is the submission time, p~ the requested time (walltime), q the processors, w the waiting time; lowest key first,
    ties by r, then by job id. Presets, which set several options, follow.
    """
    from itertools import groupby

    from batfill.base.files import json_text
    from batfill.base.tables import in_columns
    from batfill.base.words import wrapped
    from batfill.model.options import PRESETS
    from batfill.model.policy import listing

    rows = listing()
    if as_json:
        print(json_text(rows))
        return
    head = ("name", "key, lowest first", "order")
    print(in_columns([head, *((row["name"], row["formula"], row["order"]) for row in rows)], range(len(head))))
    print("\nsources")
    for source, same in groupby(rows, lambda row: row["source"]):
        print(wrapped(f"{', '.join(row['name'] for row in same)}: {source}", "  "))
    for name, preset in PRESETS.items():
        if preset.values:
            words = " ".join(f"--{option} {value}" for option, value in preset.values.items())
            print(wrapped(f"\n--preset {name}: {preset.words}\n  {words}", "  "))


@command("export-config")
@click.argument("system", type=click.Choice(["slurm", "oar", "pbs", "flux"]))
@scheduler_options(*SCHEDULING)
@click.option("--approximate", is_flag=True, help="Accept a configuration that lacks a part of what the options say.")
@JSON
def export_config(system: Any, options: dict[str, Any], approximate: bool, as_json: bool) -> int:
    """Print the batch system configuration nearest to a policy, and how it differs.

    SYSTEM is slurm, oar, pbs or flux. The exit status is 3 if the configuration lacks a part of what the options say,
    and `--approximate` is not given.
    """
    from batfill.base.files import json_text
    from batfill.cli import say
    from batfill.model.options import arguments_of
    from batfill.reports.siteconfig import site_config

    found = site_config(system, **arguments_of(options)).usable()
    print(json_text(found.as_dict()) if as_json else found.as_text())
    lacking = found.lacking(accepted=approximate)
    return say(lacking, 3) if lacking else 0
