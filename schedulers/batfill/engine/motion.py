"""How keys move with the wait, and the two keys that kernels compute, for policies too."""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import kernel

FIXED, BY_EXPECTED, BY_SECOND = range(3)  # whether keys move, and the unit of the wait in which they rise
# The p~ of a job without walltime in a key, which keeps formulas finite; the longest time of a job table.
UNLIMITED_S = 1e12
SHORTEST_S = 1.0  # the least p~ of an aged order, which divides by its powers


@kernel
def to_go_first(n):  # of whole numbers, and compiled of one
    """How many of n overdue jobs go first, the oldest, where not all do."""
    return np.maximum(4, (n + 1) // 2)


@kernel
def mixed_key(a, b, c, d, f, r, p, q):  # of arrays, and compiled of one job
    """A mixed policy's key at submission without e, its weight on (w + p~) / p~; -r replaces w."""
    return a * q + b * p - c * r + d * (p / q) + f * (p * q)


@kernel
def aged_size(p, q, alpha, beta):  # of arrays, and compiled of one job
    """The size of a job in an aged order."""
    return np.power(np.maximum(p, SHORTEST_S), alpha) * np.power(q * 1.0, beta)
