"""What becomes of an expectation that a running job outlives."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

# What is added to an expectation that a job outlives, the first, second, ... time; then the last one again and again.
# Source: Tsafrir, Etsion, Feitelson, TPDS 2007, Section 4.
STEPS_S = np.array([60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000], np.float64)


@njit(cache=True, error_model="numpy", nogil=True)
def correct(
    now_s: float,
    running: NDArray[np.void],
    state: NDArray[np.void],
    jobs: NDArray[np.void],
    started_s: NDArray[np.float64],
    walltime_s: NDArray[np.float64],
    corrections: NDArray[np.int64],
) -> None:
    """Let every running job that was expected to have ended by `now_s` be expected later, at its walltime at most.

    Args:
        now_s: the instant of the next decision.
        running: easy.RUN, by expected end; put in order again.
        state: easy.MACHINE (1,).
        jobs: easy.JOB (n_jobs,); estimates are changed.
        started_s: when each job started, (n_jobs,).
        walltime_s: p~ (n_jobs,).
        corrections: how often each job's expectation was corrected, (n_jobs,).
    """
    n = state[0].jobs
    late = 0
    while late < n and running[late].end_s <= now_s:
        late += 1
    for place in range(late - 1, -1, -1):
        row = running[place].row
        limit_s = walltime_s[row]
        procs = running[place].procs
        start_s = started_s[row]
        estimate_s = jobs[row].estimate_s
        while start_s + estimate_s <= now_s and estimate_s < limit_s:
            estimate_s = min(estimate_s + STEPS_S[min(corrections[row], len(STEPS_S) - 1)], limit_s)
            corrections[row] += 1
        if estimate_s == jobs[row].estimate_s:
            continue
        jobs[row].estimate_s = estimate_s
        end_s = start_s + estimate_s
        state[0].settled = 0  # the reservation that was remembered may be another now
        while place + 1 < n and running[place + 1].end_s < end_s:
            running[place] = running[place + 1]
            place += 1
        running[place].end_s = end_s
        running[place].procs = procs
        running[place].row = row
