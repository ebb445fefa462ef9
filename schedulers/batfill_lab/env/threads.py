"""Threads that step ranges of copies at once."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill_lab.env import copies as stepping

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class Started(NamedTuple):
    """Jobs that a step has started, each array of shape (n_started,)."""

    copy: NDArray[np.int64]
    wait_s: NDArray[np.float64]
    runtime_s: NDArray[np.float64]
    procs: NDArray[np.int64]


class Threads:
    """Threads, the caller's among them, each with its range of copies and its list of started jobs."""

    def __init__(self, copies: int, length: int, threads: int) -> None:
        """Start no thread yet; `length` is the number of an episode's jobs."""
        bounds = np.linspace(0, copies, min(threads, copies) + 1).astype(int).tolist()
        self.parts = [(low, high, new_fresh((high - low) * length)) for low, high in itertools.pairwise(bounds)]
        self.pool = ThreadPoolExecutor(len(self.parts) - 1) if len(self.parts) > 1 else None

    def run(self, part: Callable[[int, int, stepping.Fresh], None]) -> Started:
        """Run `part` on each range; returns the jobs that it has started."""
        others = [self.pool.submit(part, *each) for each in self.parts[1:]] if self.pool else []
        part(*self.parts[0])
        for other in others:
            other.result()
        lists = [[column[: fresh.used[0]] for column in fresh[:-1]] for _, _, fresh in self.parts]
        return Started(*map(np.concatenate, zip(*lists, strict=True)))

    def close(self) -> None:
        """End the threads."""
        if self.pool is not None:
            self.pool.shutdown()


def new_fresh(capacity: int) -> stepping.Fresh:
    """An empty list of started jobs."""
    return stepping.Fresh(
        copy=np.zeros(capacity, np.int64),
        wait_s=np.zeros(capacity),
        runtime_s=np.zeros(capacity),
        procs=np.zeros(capacity, np.int64),
        used=np.zeros(1, np.int64),
    )
