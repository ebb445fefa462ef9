"""A run's progress on a terminal's standard error, and silence anywhere else."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from batfill.batsim.runner.watch import Reading


@contextmanager
def live_display() -> Iterator[Callable[[Reading], None] | None]:
    """A function that shows a reading in place of the one before; None where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=None)
        yield lambda reading: bar.update(
            task, description=described(reading), completed=reading.done, total=reading.total
        )


def described(reading: Reading) -> str:
    """The simulated date and the queue's length, as far as they are known."""
    parts = ["simulating"]
    if reading.date_s is not None:
        days, second_s = divmod(int(reading.date_s), 86400)
        parts.append(f"day {days} {timedelta(seconds=second_s)}")
    if reading.waiting is not None:
        parts.append(f"{reading.waiting} waiting")
    return ", ".join(parts)
