"""Signals that ask a run to stop, noted while it can still clean up."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Which of STOPPING has arrived; None as long as none has."""

    def __init__(self) -> None:
        self.arrived: signal.Signals | None = None

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Remember the first. No exception: it could strike between a process's start and our knowing of it."""
        self.arrived = self.arrived or signal.Signals(number)


@contextmanager
def noted_interrupts() -> Iterator[Interrupts]:
    """Note STOPPING instead of dying of it, while the block lasts. Only the main thread can: elsewhere none arrives."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = {number: signal.signal(number, interrupts.note) for number in STOPPING}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
