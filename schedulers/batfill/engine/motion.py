"""How keys move with the wait, and the two keys that kernels compute: for policies too, so it loads no compiler."""

from __future__ import annotations

import numpy as np

FIXED, BY_EXPECTED, BY_SECOND = range(3)  # whether keys move, and the unit of the wait in which they rise
# The p~ of a job without walltime in a key, which keeps formulas finite; the longest time of a job table.
UNLIMITED_S = 1e12
SHORTEST_S = 1.0  # the least p~ of an aged order, which divides by its powers


def mixed_key(a, b, c, d, f, r, p, q):  # of arrays, and compiled of one job
    """A mixed policy's key at submission without e, its weight on (w + p~) / p~; -r replaces w."""
    return a * q + b * p - c * r + d * (p / q) + f * (p * q)


def aged_size(p, q, alpha, beta):  # of arrays, and compiled of one job
    """The size of a job in an aged order."""
    return np.power(np.maximum(p, SHORTEST_S), alpha) * np.power(q * 1.0, beta)
