"""Jobs in an order of their own for a pass, as a heap: records.CANDIDATE, the first `size` of an array."""

from __future__ import annotations

from batfill.base.kernels import kernel
from batfill.engine.blocks import precedes


@kernel
def goes_first(candidates, jobs, i, j):
    """The sort rule: lowest rank first, then as in a section."""
    one, other = candidates[i], candidates[j]
    if one.rank != other.rank:
        return one.rank < other.rank
    return precedes(one.key, one.row, other.key, other.row, jobs)


@kernel
def swap(candidates, i, j):
    """Exchange two candidates."""
    one, other = candidates[i], candidates[j]
    one.key, other.key = other.key, one.key
    one.row, other.row = other.row, one.row
    one.rank, other.rank = other.rank, one.rank


@kernel
def sift(candidates, jobs, i, size):
    """Restore the heap of the first `size` candidates below place i."""
    while True:
        child = 2 * i + 1
        if child >= size:
            return
        if child + 1 < size and goes_first(candidates, jobs, child + 1, child):
            child += 1
        if not goes_first(candidates, jobs, child, i):
            return
        swap(candidates, i, child)
        i = child
