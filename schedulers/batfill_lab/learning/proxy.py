"""The proxy problem of the 2023 study of regression heuristics: how much it pays to start a given job first.

A machine runs |S| jobs; |Q| more are scheduled in many random orders, each strictly in its order, without backfilling
and with true run times. A job's score is the share of the sum of all mean bounded slowdowns that comes from orders
beginning with it (equation 3): low is good. A job starts once it has been submitted, all jobs before it have started
and enough processors are free. The orders diverge when the last job of S has started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from batfill.base.errors import WorkloadError
from batfill.base.kernels import F8, I8, Array, entry, kernel
from batfill.model.metrics import TAU_S
from batfill.replays.many import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from batfill.model.jobs import Jobs

Shuffle = Literal["fair", "published"]
N_RUNNING, N_QUEUED = 16, 32  # |S|, |Q|
READ = Array(F8, read=True)


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scored jobs, |Q| per tuple, tuple by tuple; every column has shape (n_tuples * |Q|,)."""

    runtime_s: NDArray[np.float64]  # p
    procs: NDArray[np.float64]  # q
    submit_s: NDArray[np.float64]  # r    since the first submission of the tuple's S
    score: NDArray[np.float64]
    firsts: NDArray[np.int64]  # number of orders that began with it


@kernel
def place(order, ready_s, free, ends_s, ends_procs, n, submit_s, runtime_s, procs, start_s):  # type: ignore[no-untyped-def]
    """Start the jobs strictly in this order, the first not before `ready_s`; fills start_s and returns (free, n, last).

    ends_s, ends_procs: the n running jobs by end, with capacity for all; changed in place.
    """
    gone = 0
    now_s = ready_s
    for row in order:
        now_s = max(now_s, submit_s[row])
        while gone < n and (ends_s[gone] <= now_s or free < procs[row]):
            now_s = max(now_s, ends_s[gone])
            free += ends_procs[gone]
            gone += 1
        start_s[row] = now_s
        free -= procs[row]
        end_s = now_s + runtime_s[row]
        i = n
        while i > gone and ends_s[i - 1] > end_s:
            ends_s[i] = ends_s[i - 1]
            ends_procs[i] = ends_procs[i - 1]
            i -= 1
        ends_s[i] = end_s
        ends_procs[i] = procs[row]
        n += 1
    left = n - gone
    for i in range(left):
        ends_s[i] = ends_s[gone + i]
        ends_procs[i] = ends_procs[gone + i]
    return free, left, now_s


@kernel
def draw(state, below):  # type: ignore[no-untyped-def]
    """Next state of the SplitMix64 generator and a number in [0, below), uniform up to 2^-32."""
    state += np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return state, np.int64(((z >> np.uint64(32)) * np.uint64(below)) >> np.uint64(32))


@kernel
def shuffle(state, order, first, fair):  # type: ignore[no-untyped-def]
    """Fill `order` with first, first + 1, ... in random order; returns the generator's next state.

    Fair: every order is equally likely. Otherwise each place in turn is swapped with a random one, as published, which
    puts jobs submitted early at the front more often.
    """
    n = len(order)
    for i in range(n):
        order[i] = first + i
    for i in range(n - 1):
        state, other = draw(state, n - i if fair else n)
        if fair:
            other += i
        order[i], order[other] = order[other], order[i]
    if not fair:
        state, other = draw(state, n)
        order[n - 1], order[other] = order[other], order[n - 1]
    return state


@entry(int, int, int, int, int, float, READ, READ, Array(I8, read=True), F8, I8, Array(F8, 2), Array(I8, 2))
@kernel
def trials(n_trials, seed, fair, size, n_first, tau_s, submit_s, runtime_s, procs, sums, firsts, seconds, counts):  # type: ignore[no-untyped-def]
    """Sum the mean bounded slowdowns of random orders of the jobs after the first `n_first`, by the first job.

    sums, firsts: float64 and int64 (n_jobs - n_first,), zero on entry; seconds, counts: float64 and int64 (3, n_jobs),
    scratch space.
    """
    n_jobs = len(submit_s)
    ends_s, start_s, ends_procs = seconds[0], seconds[1], counts[0]
    order = counts[2, :n_first]
    for row in range(n_first):
        order[row] = row
    free0, running0, now0_s = place(order, 0.0, size, ends_s, ends_procs, 0, submit_s, runtime_s, procs, start_s)
    ends0_s, ends0_procs = seconds[2, :running0], counts[1, :running0]
    for i in range(running0):
        ends0_s[i], ends0_procs[i] = ends_s[i], ends_procs[i]
    order = counts[2, : n_jobs - n_first]
    state = np.uint64(seed)
    for _ in range(n_trials):
        state = shuffle(state, order, n_first, fair)
        for i in range(running0):
            ends_s[i], ends_procs[i] = ends0_s[i], ends0_procs[i]
        place(order, now0_s, free0, ends_s, ends_procs, running0, submit_s, runtime_s, procs, start_s)
        total = 0.0
        for row in order:
            slowdown = (start_s[row] - submit_s[row] + runtime_s[row]) / max(runtime_s[row], tau_s)
            total += max(slowdown, 1.0)
        sums[order[0] - n_first] += total / len(order)
        firsts[order[0] - n_first] += 1


def score_jobs(
    jobs: Jobs,
    size: int,
    *,
    seed: int,
    tuples: int = 441,
    permutations: int = 256_000,
    sizes: tuple[int, int] = (N_RUNNING, N_QUEUED),
    how: Shuffle = "fair",
    threads: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Scores:
    """The scores of the jobs of random subtraces; `advance` is called with 1 after each tuple.

    Jobs wider than the machine are left out. Tuples are of |S| and |Q| (`sizes`) consecutive jobs from a random start,
    and have this many `permutations` each. The shuffle is "fair", or the biased "published" one. The result does not
    depend on `threads`, by default one per processor.
    """
    jobs = jobs.select(jobs.procs <= size)
    running, queued = sizes
    length = running + queued
    if len(jobs) < length:
        raise WorkloadError(f"{len(jobs)} jobs fit the machine, but one tuple needs {length}; give a longer log")
    rng = np.random.default_rng(seed)
    first = rng.integers(len(jobs) - length + 1, size=tuples)
    seeds = rng.integers(2**63, size=tuples, dtype=np.uint64)
    sums, firsts = np.zeros((tuples, queued)), np.zeros((tuples, queued), np.int64)

    def rows(i: int) -> slice:
        return slice(first[i], first[i] + length)

    def columns(i: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        submit_s = jobs.submit_s[rows(i)]
        return submit_s - submit_s[0], jobs.runtime_s[rows(i)], jobs.procs[rows(i)]

    def work(i: int) -> None:
        scratch = np.empty((3, length)), np.empty((3, length), np.int64)
        fair = how == "fair"
        trials(permutations, int(seeds[i]), fair, size, running, TAU_S, *columns(i), sums[i], firsts[i], *scratch)

    in_threads(work, range(tuples), advance, threads)
    submit_s, runtime_s, procs = (
        np.concatenate([columns(i)[column][running:] for i in range(tuples)]).astype(np.float64) for column in range(3)
    )
    score = sums / sums.sum(axis=1, keepdims=True)
    return Scores(runtime_s, procs, submit_s, score.ravel(), firsts.ravel())
