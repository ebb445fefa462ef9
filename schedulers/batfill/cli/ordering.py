"""The options that order, backfill and divide the queue, the same in every command that has them."""

from __future__ import annotations

from typing import Annotated

import typer

Backfill = Annotated[str, typer.Option(help="The order of backfilling: `same`, or a policy's.")]
Threshold = Annotated[
    float | None, typer.Option(help="Jobs that have waited longer than this many seconds come first.")
]
Divider = Annotated[
    float | None,
    typer.Option(
        help='Jobs whose field `class` is "small" come first, are killed after this many seconds, and go back to '
        "the queue as large ones."
    ),
]
