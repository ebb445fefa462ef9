"""`batfill policies`."""

from __future__ import annotations

from batfill.cli.parameters import JSON, command


@command()
@JSON
def policies(as_json: bool) -> None:
    """List every policy: name, formula, and source.

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
