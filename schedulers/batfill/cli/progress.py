"""What a command says while it works: that the engine compiles, and on a terminal how far it is."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from batfill.errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sized


def announce_compilation() -> None:
    """Say on standard error that the engine is compiled first, where that is still to come."""
    from batfill.engine.jit import announce_compilation
    from batfill.engine.loop import advance

    announce_compilation(advance)


@contextmanager
def progress(label: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """A function that moves the bar on by so many steps; without `total` the bar shows only what is done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda steps: bar.advance(task, steps)


@contextmanager
def download_progress(label: str) -> Iterator[tuple[Callable[[int | None], None], Callable[[int], None]]]:
    """Two functions: one says how many bytes will come and starts the bar anew, the other moves it on."""
    if not sys.stderr.isatty():
        yield (lambda _: None, lambda _: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield (
            lambda total: bar.reset(task, total=total),
            lambda amount: bar.advance(task, amount),
        )


@contextmanager
def count_on_interrupt(done: Sized, of_what: str) -> Iterator[None]:
    """When the block is interrupted, the command line says how many are done, and then these words."""
    try:
        yield
    except Interrupted as interrupted:
        interrupted.add_note(f"{len(done)} {of_what}")
        raise
