"""`batfill policies`."""

from __future__ import annotations

import click

from batfill.cli.parameters import JSON


@click.command()
@JSON
def policies(as_json: bool) -> None:
    """List every policy: name, formula, whether its order changes while jobs wait, and source.

    r is the submission time, p~ the requested time (walltime), q the processors, w the waiting time; lowest key first,
    ties by r, then by job id.
    """
    import json

    from batfill.policies import listing

    rows = listing()
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    names = max(len(str(row["name"])) for row in rows)
    formulas = max(len(str(row["formula"])) for row in rows)
    print(f"{'name':{names}}  {'key, lowest first':{formulas}}  order    source")
    for row in rows:
        print(f"{row['name']:{names}}  {row['formula']:{formulas}}  {row['order']:7}  {row['source']}")
