"""What a command shows while it works: progress bars, see `batfill.base.progress`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from batfill.base.errors import Interrupted
from batfill.base.progress import progress as progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sized


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
