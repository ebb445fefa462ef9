"""The machines of a replay's tries, beside those that a set of idle machines gives try by try."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batfill.batsim_files.allocation import lowest_idle
from batfill.batsim_files.machines import IdleMachines

SIZE = 24


@st.composite
def tries_that_fit(draw):
    """Processors, starts and ends, in the order of the starts."""
    tries, now_s = [], 0
    for procs, lasts_s, gap_s in draw(st.lists(st.tuples(st.integers(1, SIZE), st.integers(0, 9), st.integers(0, 2)))):
        now_s += gap_s
        while sum(q for q, _, end_s in tries if end_s > now_s) + procs > SIZE:
            now_s += 1
        tries.append((procs, now_s, now_s + lasts_s))
    return tries


def one_by_one(tries, by_end):
    idle, given_s, ended, machines = IdleMachines([(0, SIZE - 1)]), np.zeros(SIZE), set(), []
    for i, (procs, start_s, _) in enumerate(tries):
        for k in by_end:
            if k < i and k not in ended and tries[k][2] <= start_s:
                idle.give(machines[k])
                ended.add(k)
        machines.append(idle.take(procs))
    for k in by_end:
        for first, last in machines[k]:
            given_s[first : last + 1] = tries[k][2]
    return machines, given_s.tolist()


def both(tries):
    procs, start_s, end_s = (np.array([each[place] for each in tries], kind) for place, kind in enumerate("qdd"))
    by_end = np.argsort(end_s, kind="stable")
    machines, freed_s = lowest_idle(procs, start_s, end_s, by_end, SIZE)
    unused = [0.0] * (SIZE - len(freed_s))  # the highest machines, of which no try can need one
    found = [machines.of(i) for i in range(len(tries))], freed_s.tolist() + unused
    return found, one_by_one(tries, by_end.tolist())


@given(tries_that_fit())
def test_tries_get_the_machines_that_are_taken_and_given_back_one_by_one(tries):
    found, expected = both(tries)
    assert found == expected


def test_a_try_may_get_more_intervals_than_there_is_room_for_at_first():
    # Every second machine is freed at 1; the try at 2 takes all twelve, where two a try were expected.
    found, expected = both([*((1, 0, 1 + 8 * (i % 2)) for i in range(SIZE)), *[(12, 2 + i, 3 + i) for i in range(6)]])
    assert found == expected
    assert found[0][SIZE] == [(i, i) for i in range(0, SIZE, 2)]
