"""The sorted blocks of running jobs beside a plain sorted list."""

from __future__ import annotations

import math
from bisect import insort

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.kernels import PLAIN
from batfill.engine import ends as module
from batfill.engine.ends import BLOCK, HALF, clear_ends, enlarged_ends, enter, listed, new_ends, next_end_s
from from_python import from_python
from sweeps import examples

leave, leave_next, next_end, released = map(
    from_python, (module.leave, module.leave_next, module.next_end, module.released)
)

MOST = 12 * BLOCK


class Plain:
    """The oracle: (end_s, row, procs) in one sorted list."""

    def __init__(self):
        self.jobs = []

    def released(self, need, free):
        """Add up one release after the other, and all at the last one's instant."""
        at_s = math.inf
        for end_s, _, procs in self.jobs:
            if free >= need and end_s > at_s:
                break
            free += procs
            if free >= need:
                at_s = end_s
        return at_s, free


def require_sound(ends, plain):
    """The same jobs in the same order, and a directory that is right."""
    assert listed(ends)[["end_s", "row", "procs"]].tolist() == plain.jobs
    used = int(ends.used["blocks"][0])
    blocks = ends.directory[:used]
    assert sorted(ends.directory["first"].tolist()) == list(range(0, len(ends.slots), BLOCK))
    assert (blocks["count"] <= BLOCK).all()
    if used > 1:
        assert (blocks["count"] > 0).all()
        assert (blocks["count"][1:] + blocks["count"][:-1].astype(int) > HALF).all()
    for place, block in enumerate(blocks):
        jobs = ends.slots[block["first"] : block["first"] + block["count"]]
        assert jobs["procs"].sum() == block["procs"]
        if place:
            before = blocks[place - 1]
            last = ends.slots[before["first"] + before["count"] - 1]
            assert (last["end_s"], last["row"]) > (jobs[0]["end_s"], jobs[0]["row"])


STEPS = st.lists(st.tuples(st.sampled_from(["in", "out", "next"]), st.integers(1, 400)), min_size=1, max_size=12)


@settings(max_examples=3 if PLAIN else examples(6), deadline=None, derandomize=PLAIN)
@given(
    steps=STEPS, seed=st.integers(0, 2**32), instants=st.sampled_from([1, 5, 300, 10**9]), first=st.integers(0, MOST)
)
def test_the_blocks_hold_what_a_sorted_list_holds(steps, seed, instants, first):
    rng = np.random.default_rng(seed)
    ends, plain = new_ends(MOST), Plain()
    outside = list(range(MOST))
    for what, times in [("in", first), *steps]:
        for _ in range(times):
            if what == "in" and outside:
                row = outside.pop(rng.integers(len(outside)))
                end_s, procs = float(rng.integers(instants)), int(rng.integers(1, 9))
                enter(ends, end_s, procs, np.uint32(row))
                insort(plain.jobs, (end_s, row, procs))
            elif what == "out" and plain.jobs:
                end_s, row, procs = plain.jobs.pop(rng.integers(len(plain.jobs)))
                assert leave(ends, end_s, np.uint32(row)) == procs
                outside.append(row)
            elif what == "next" and plain.jobs:
                end_s, row, _ = plain.jobs.pop(0)
                assert (next_end_s(ends), ends.slots["row"][next_end(ends)]) == (end_s, row)
                leave_next(ends)
                outside.append(row)
        require_sound(ends, plain)
        total, free = sum(procs for *_, procs in plain.jobs), int(rng.integers(0, 5))
        for need in {free + 1, free + 1 + int(rng.integers(total + 1)), free + total, free + total + 1} - {free}:
            assert released(ends, need, free) == plain.released(need, free)
    larger = enlarged_ends(ends, 2 * MOST)
    require_sound(larger, plain)
    clear_ends(larger)
    require_sound(larger, Plain())


def test_no_job_runs():
    ends = new_ends(5)
    assert next_end_s(ends) == math.inf
    assert len(listed(ends)) == 0
    assert released(ends, 3, 1) == (math.inf, 1)


@pytest.mark.compiled
def test_capacity_suffices_for_blocks_as_empty_as_they_may_be():
    """Blocks are split, then thinned until they nearly merge, and split again."""
    ends, plain = new_ends(MOST), Plain()
    rng = np.random.default_rng(1)
    for row in rng.permutation(MOST).tolist():
        enter(ends, float(row), 1, np.uint32(row))
        plain.jobs.append((float(row), row, 1))
    plain.jobs.sort()
    for end_s, row, _ in [job for job in plain.jobs if job[1] % BLOCK]:
        leave(ends, end_s, np.uint32(row))
    plain.jobs = [job for job in plain.jobs if not job[1] % BLOCK]
    require_sound(ends, plain)
    left = [row for row in range(MOST) if row % BLOCK]
    for row in left:
        enter(ends, 0.5, 1, np.uint32(row))
    plain.jobs = sorted([*plain.jobs, *((0.5, row, 1) for row in left)])
    require_sound(ends, plain)
    assert int(ends.used["blocks"][0]) <= len(ends.directory)


@pytest.mark.compiled
@pytest.mark.parametrize("need", [1, BLOCK, 3 * BLOCK + 1, 10 * BLOCK])
def test_all_releases_at_the_shadow_time_count_whatever_block_they_are_in(need):
    ends = new_ends(MOST)
    for row in range(10 * BLOCK):
        enter(ends, 60.0, 1, np.uint32(row))
    enter(ends, 61.0, 5, np.uint32(10 * BLOCK))
    assert released(ends, need, 0) == (60.0, 10 * BLOCK)
