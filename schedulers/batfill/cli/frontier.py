"""`batfill frontier`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from batfill.cli import learning


def frontier(
    workload: Annotated[Path, typer.Argument(help="An SWF log, Parquet, or a Batsim JSON workload.")],
    procs: Annotated[
        int | None, typer.Option(help="The machine's processors; by default what the workload says.", min=1)
    ] = None,
    policy: Annotated[str, typer.Option(help="Orders of the queue, separated by commas.")] = "fcfs,spf",
    cuts: Annotated[
        str, typer.Option(help="Probabilities from which a job counts as small, separated by commas.")
    ] = "0,0.1,0.2,0.35,0.5,0.75",
    protected: Annotated[
        str, typer.Option(help="Shares of the jobs that must not be killed, separated by commas.")
    ] = "0",
    levels: Annotated[
        list[str] | None,
        typer.Option(help="As of `batfill replay`; given several times, each is tried [default: 0.5]."),
    ] = None,
    regime: learning.Regime = None,
    divider_rule: learning.DividerRule = None,
    train: learning.Train = None,
    train_lag: learning.TrainLag = None,
    seed: learning.Seed = None,
    tau: Annotated[float, typer.Option(help="The bound of the bounded slowdown, in seconds.", min=1e-9)] = 60.0,
    out: Annotated[Path | None, typer.Option(help="Write frontier.csv, .svg and .json into this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what killing small jobs buys: mean bounded slowdown against wasted work, for an administrator to choose."""
    import json

    from batfill.cli import warn
    from batfill.cli.progress import progress
    from batfill.knowledge import frontier as library
    from batfill.workloads import read_workload
    from batfill.workloads.swf import known_size

    further = learning.chosen(regime=regime, divider_rule=divider_rule, train=train, train_lag=train_lag, seed=seed)
    grid = library.shares("cuts", cuts), library.shares("protected", protected)
    policies, several = policy.split(","), levels or ["0.5"]
    read = read_workload(workload, procs=procs)
    size = known_size(workload, read.procs)
    warn(read.warnings)
    replays = len(policies) * (1 + len(several) * (1 + len(grid[0]) * len(grid[1])))
    with progress("replays", replays) as advance:
        points = library.frontier(
            read,
            size,
            policies,
            grid[0],
            levels=several,
            protected=grid[1],
            learning=further,
            tau_s=tau,
            advance=advance,
        )
    told = library.provenance(read, size, tau, further)
    if out is not None:
        library.write_frontier(points, out, told)
    print(
        json.dumps({**told, "points": [p.as_dict() for p in points]}, indent=1) if as_json else library.as_text(points)
    )
