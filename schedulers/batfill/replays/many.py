"""Many whole replays at once, one summary each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from batfill.base.host import cpu_count, thread_pool
from batfill.base.sums import mean_of
from batfill.model.jobs import Jobs
from batfill.model.metrics import TAU_S, bounded_slowdown
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from batfill.model.policy import Policy

Item = TypeVar("Item")
Made = TypeVar("Made")
Measure = Callable[[NDArray[np.float64]], NDArray[np.float64]]
BLOCK = 1 << 15  # jobs that `measure_policies` replays together, so that their keys and starts stay in the cache


def mean_bsld(jobs: Jobs, size: int, tau_s: float = TAU_S) -> Measure:
    """A measure for `measure_policies`: the mean bounded slowdown of the jobs that ran; 0 if none did."""
    ran = jobs.procs <= size
    submit_s, runtime_s = jobs.submit_s[ran], np.minimum(jobs.runtime_s, jobs.walltime_s)[ran]

    def measure(start_s: NDArray[np.float64]) -> NDArray[np.float64]:
        if not ran.any():
            return np.zeros(len(start_s))
        start_s = start_s if ran.all() else start_s[:, ran]
        return np.array([mean_of(row) for row in bounded_slowdown(start_s - submit_s, runtime_s, tau_s)])

    return measure


def in_threads(
    function: Callable[[Item], Made],
    items: Iterable[Item],
    advance: Callable[[int], None] = lambda _: None,
    threads: int | None = None,
) -> list[Made]:
    """The results for these items, in their order, by default with a thread per processor; `advance` gets 1 each."""
    found = []
    with thread_pool(threads or cpu_count()) as pool:
        for made in pool.map(function, items):
            found.append(made)
            advance(1)
    return found


def measure_policies(
    jobs: Jobs,
    size: int,
    policies: Sequence[Policy],
    *,
    backfill: Policy | None = None,
    threshold_s: float = np.inf,
    measure: Measure | None = None,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """A measure of the schedule under each policy, shape (n_policies,): by default mean bounded slowdown, tau 10 s.

    Args:
        jobs: the workload.
        size: the machine's processors.
        policies: the queue orders.
        backfill: the order of backfill candidates; None for the queue's own.
        threshold_s: Theta.
        measure: returns a figure per row of start times, (n_policies, n_jobs), nan for a rejected job.
        threads: by default one per processor. The result does not depend on it.

    Every thread has one replay, which runs its policies in blocks, compiled and without Python's global lock.
    """
    measure = measure or mean_bsld(jobs, size)
    threads = max(1, min(threads or cpu_count(), len(policies)))
    at_once = max(1, min(BLOCK // max(len(jobs), 1), -(-len(policies) // threads)))
    blocks = [slice(first, first + at_once) for first in range(0, len(policies), at_once)]
    results = np.zeros(len(policies))

    left = iter(blocks)  # a thread that finishes one takes the next

    def work(_: int) -> None:
        run = EngineReplay(jobs, size, Rules(policies[0]))
        for block in left:
            start_s = run.starts_under(policies[block], backfill=backfill, threshold_s=threshold_s)
            results[block] = measure(start_s)

    try:
        in_threads(work, range(threads if policies else 0), threads=threads)
    finally:  # after a failure or interrupt, no blocks are left
        for _ in left:
            pass
    return results
