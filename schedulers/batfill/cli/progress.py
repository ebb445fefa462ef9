"""Progress bars on a terminal, which a command shows while it works."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from batfill.errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sized

LINE_EVERY_S = 5.0


@contextmanager
def progress(label: str, total: float | None = None, *, lines: bool = False) -> Iterator[Callable[[float], None]]:
    """A function that advances the bar by this many steps; without `total` the bar shows only the steps done.

    Where standard error is no terminal, it prints a line every five seconds if `lines` is set, and nothing otherwise.
    """
    if not sys.stderr.isatty():
        yield line_printer(label, total) if lines else lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda steps: bar.advance(task, steps)


def line_printer(label: str, total: float | None) -> Callable[[float], None]:
    """A function that counts steps and prints their number, at most every LINE_EVERY_S."""
    import time

    done, printed_s = 0.0, time.monotonic()

    def advance(steps: float) -> None:
        nonlocal done, printed_s
        done += steps
        if done != total and time.monotonic() - printed_s >= LINE_EVERY_S:
            printed_s = time.monotonic()
            print(f"{label}: {done:g}" + ("" if total is None else f" of {total:g}"), file=sys.stderr, flush=True)

    return advance


@contextmanager
def download_progress(label: str) -> Iterator[tuple[Callable[[int | None], None], Callable[[int], None]]]:
    """Two functions: the first sets the number of bytes and restarts the bar, the second advances it."""
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
    """If the block is interrupted, the command line reports the number done, followed by these words."""
    try:
        yield
    except Interrupted as interrupted:
        interrupted.add_note(f"{len(done)} {of_what}")
        raise
