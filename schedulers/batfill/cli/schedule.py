"""`batfill schedule`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from batfill.cli import learning, ordering


def schedule(
    policy: Annotated[
        str | None, typer.Option(help="The queue's order; see `batfill policies` [default: fcfs].")
    ] = None,
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
    select: Annotated[
        Literal["full", "noisy", "epsilon-greedy", "ucb1", "exp3"] | None,
        typer.Option(help="Choose the policy anew after each period; see `batfill select`."),
    ] = None,
    policies: Annotated[
        str | None, typer.Option(help="select: from `ten` [default], `twelve`, or names separated by commas.")
    ] = None,
    period: Annotated[float | None, typer.Option(help="select: seconds between choices [default: a week].")] = None,
    budget: Annotated[
        float | None, typer.Option(help="select: seconds to spend on each choice, or nothing is learned [default: 10].")
    ] = None,
    socket: Annotated[str, typer.Option("--socket", "-s", help="Where Batsim connects to.")] = "tcp://*:28000",
    timeout: Annotated[
        int, typer.Option("--timeout", "-t", help="Give up when Batsim is silent for this many ms; 0 for never.")
    ] = 0,
    verbosity: Annotated[
        str, typer.Option("--verbosity", "-v", help="debug, info, warning or error; info logs every message.")
    ] = "warning",
) -> None:
    """Run the scheduler for the Batsim that connects: the plug-in under pybatsim, with sane defaults."""
    import logging

    from batfill.errors import BatfillError
    from batfill.scheduler import serve

    level = logging.getLevelName(verbosity.upper())
    if not isinstance(level, int):
        raise BatfillError(f"--verbosity: {verbosity!r} is none of debug, info, warning, error")
    logging.basicConfig(format="batfill: %(levelname)s: %(message)s", level=level)
    # pybatsim warns once per acknowledged registration, and that dynamic jobs are enabled: both are as they should be.
    logging.getLogger("batsim").setLevel(max(level, logging.ERROR) if level >= logging.WARNING else level)
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
    chosen = {"select": select, "policies": policies, "period": period, "budget": budget}
    options |= {name: value for name, value in chosen.items() if value is not None}
    serve({name: value for name, value in options.items() if value is not None}, socket, timeout)
