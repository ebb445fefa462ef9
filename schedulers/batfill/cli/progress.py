"""What a command shows while it works: progress bars, see `batfill.base.progress`."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from batfill.base.errors import Interrupted
from batfill.base.progress import on_terminal, terminal_bar
from batfill.base.progress import progress as progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sized


@contextmanager
def download_progress(label: str) -> Iterator[tuple[Callable[[int | None], None], Callable[[int], None]]]:
    """Two functions: the first sets the number of bytes and restarts the bar, the second advances it."""
    if not on_terminal():
        yield (lambda _: None, lambda _: None)
        return
    received = 0
    with closing(terminal_bar(label, None, megabytes)) as bar:

        def started(length: int | None) -> None:
            nonlocal received
            received, bar.total, bar.began = 0, length, time.monotonic()

        def advance(amount: int) -> None:
            nonlocal received
            received += amount
            bar.show(received)

        yield started, advance


def megabytes(done: float, total: float | None) -> str:
    """The bytes received, and of how many if that is known."""
    return f"{done / 1e6:.1f}" + (" MB" if total is None else f" of {total / 1e6:.1f} MB")


@contextmanager
def count_on_interrupt(done: Sized, of_what: str) -> Iterator[None]:
    """If the block is interrupted, the command line reports the number done, followed by these words."""
    try:
        yield
    except Interrupted as interrupted:
        interrupted.add_note(f"{len(done)} {of_what}")
        raise
