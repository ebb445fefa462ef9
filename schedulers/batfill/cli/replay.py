"""`batfill replay`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from batfill.cli import learning, ordering


def replay(
    workload: Annotated[Path, typer.Argument(help="An SWF log (plain, .gz, .xz, .bz2) or a Batsim JSON workload.")],
    procs: Annotated[
        int | None, typer.Option(help="The machine's processors; by default what the workload says.", min=1)
    ] = None,
    policy: Annotated[str, typer.Option(help="The queue's order; see `batfill policies`.")] = "fcfs",
    backfill: ordering.Backfill = "same",
    threshold: ordering.Threshold = None,
    divider: ordering.Divider = None,
    knowledge: learning.Knowledge = "user",
    kill: learning.Kill = False,
    bound: learning.Bound = False,
    levels: learning.Levels = None,
    regime: learning.Regime = None,
    divider_rule: learning.DividerRule = None,
    cut: learning.Cut = None,
    train: learning.Train = None,
    train_lag: learning.TrainLag = None,
    max_waste: learning.MaxWaste = None,
    max_kill_share: learning.MaxKillShare = None,
    seed: learning.Seed = None,
    tau: Annotated[float, typer.Option(help="The bound of the bounded slowdown, in seconds.")] = 10.0,
    overrun: Annotated[
        Literal["keep", "kill"],
        typer.Option(
            help="A log's job that ran longer than it asked for: `keep` its run time, or `kill` it at its limit."
        ),
    ] = "keep",
    out: Annotated[Path | None, typer.Option(help="Write PREFIX_jobs.csv and its kin, as Batsim does.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run one policy over a whole workload in the compiled engine, and print its figures."""
    from batfill.cli import warn
    from batfill.cli.progress import progress
    from batfill.compiled import announce_compilation
    from batfill.engine import advance
    from batfill.experiment import replay_file

    announce_compilation(advance)
    options: dict[str, object] = {"policy": policy, "backfill": backfill, "threshold": threshold, "divider": divider}
    options |= learning.chosen(
        knowledge=None if knowledge == "user" else knowledge,
        kill=kill,
        bound=bound,
        levels=levels,
        regime=regime,
        divider_rule=divider_rule,
        cut=cut,
        train=train,
        train_lag=train_lag,
        max_waste=max_waste,
        max_kill_share=max_kill_share,
        seed=seed,
    )
    with progress("jobs judged") as judged:
        report = replay_file(workload, options, procs=procs, tau_s=tau, overrun=overrun, out=out, advance=judged)
    if as_json:  # the table has them
        warn(report.workload.warnings)
    print(report.as_json() if as_json else report.as_text())
