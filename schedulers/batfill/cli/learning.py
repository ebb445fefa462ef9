"""The options of a scheduler that learns, the same in every command that has them."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Knowledge = Annotated[
    Literal["user", "easy++", "regression", "classifier", "runtime-clairvoyant", "class-clairvoyant"],
    typer.Option(help="What is known of run times: the request (`user`), a prediction, a class, or the truth."),
]
Kill = Annotated[
    bool,
    typer.Option(
        "--kill",
        help="Kill small jobs that still run at the divider; they go back, to the next level or as large ones.",
    ),
]
Bound = Annotated[
    bool, typer.Option("--bound", help="With --kill: expect a small job to end at the divider at the latest.")
]
Levels = Annotated[
    str | None,
    typer.Option(
        help="Shares of the run times known, separated by commas: small jobs are divided there, and go from each "
        "level to the next when they are killed [default: 0.5]."
    ),
]
Regime = Annotated[
    Literal["decoupled", "weekly", "fresh"] | None,
    typer.Option(
        help="How recent the classifier's information is: all of the last week's end, lags of now, or the divider "
        "of now, too [default: fresh]."
    ),
]
DividerRule = Annotated[
    Literal["known", "week"] | None,
    typer.Option(help="The divider is the median run time of all known jobs, or of the last week's [default: known]."),
]
Cut = Annotated[
    float | None,
    typer.Option(
        help="The probability from which a job counts as small [default: 0.5]; at 0 every job does.", min=0, max=1
    ),
]
Train = Annotated[
    Literal["week", "drift"] | None,
    typer.Option(help="Train the classifier every week, or when its errors grow [default: week]."),
]
TrainLag = Annotated[
    float | None,
    typer.Option(
        help="Seconds from a week's end until the forest trained on it judges: the plug-in trains meanwhile "
        "[default: 0].",
        min=0,
    ),
]
MaxWaste = Annotated[
    float | None,
    typer.Option(help="Keep killed tries below this share of the work: moves the cut.", min=0, max=1),
]
MaxKillShare = Annotated[
    float | None, typer.Option(help="Keep kills below this share of the jobs: moves the cut.", min=0, max=1)
]
Seed = Annotated[int | None, typer.Option(help="Seed of the classifier's forests [default: 0].", min=0)]


def chosen(**options: object) -> dict[str, object]:
    """The options that were given, by the names that the library has for them."""
    return {name.replace("_", "-"): value for name, value in options.items() if value not in (None, False)}
