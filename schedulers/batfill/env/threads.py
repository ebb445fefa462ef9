"""Threads that step ranges of copies at once."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from batfill import engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class Threads:
    """A pool of threads, each with its range of copies and its list of started jobs."""

    def __init__(self, copies: int, length: int, threads: int) -> None:
        """Start no thread yet; `length` is the number of an episode's jobs."""
        bounds = np.linspace(0, copies, min(threads, copies) + 1).astype(int).tolist()
        self.parts = [
            (low, high, engine.Fresh(*np.zeros((2, (high - low) * length), np.int64), np.zeros(1, np.int64)))
            for low, high in itertools.pairwise(bounds)
        ]
        self.pool = ThreadPoolExecutor(len(self.parts)) if len(self.parts) > 1 else None

    def run(self, part: Callable[[int, int, engine.Fresh], None]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Run `part` on each range; returns the jobs started: of each its copy, and its row there, (n_started,)."""
        if self.pool is None:
            part(*self.parts[0])
        else:
            for finished in [self.pool.submit(part, *each) for each in self.parts]:
                finished.result()
        used = [(fresh, fresh.used[0]) for _, _, fresh in self.parts]
        copy = np.concatenate([fresh.copy[:n] for fresh, n in used])
        return copy, np.concatenate([fresh.row[:n] for fresh, n in used])

    def close(self) -> None:
        """End the threads."""
        if self.pool is not None:
            self.pool.shutdown()
