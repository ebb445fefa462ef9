"""Machines are taken lowest id first and come back as the same set."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from batfill.allocation import IdleMachines, as_text

SIZE = 20


def ids(intervals):
    return {machine for first, last in intervals for machine in range(first, last + 1)}


def test_the_lowest_ids_are_taken_across_gaps():
    idle = IdleMachines([(0, 3), (6, 6), (9, 12)])
    assert idle.take(7) == [(0, 3), (6, 6), (9, 10)]
    assert (idle.first, idle.last) == ([11], [12])


def test_what_comes_back_joins_its_neighbours():
    idle = IdleMachines([(0, 1), (4, 5)])
    idle.give([(2, 3)])
    assert (idle.first, idle.last) == ([0], [5])


@pytest.mark.parametrize(
    ("machine", "left"), [(3, [(4, 6)]), (6, [(3, 5)]), (4, [(3, 3), (5, 6)]), (7, [(3, 6)]), (0, [(3, 6)])]
)
def test_one_machine_can_be_withdrawn_from_within_an_interval(machine, left):
    idle = IdleMachines([(3, 6)])
    assert idle.withdraw(machine) == (3 <= machine <= 6)
    assert list(zip(idle.first, idle.last, strict=True)) == left


def test_machines_are_written_as_batsim_writes_them():
    assert as_text([(0, 3), (7, 7), (9, 10)]) == "0-3 7 9-10"


class BesideASet(RuleBasedStateMachine):
    """The intervals against a plain set of ids."""

    def __init__(self):
        super().__init__()
        self.idle, self.plain, self.given = IdleMachines([(0, SIZE - 1)]), set(range(SIZE)), []

    @rule(data=st.data())
    def take(self, data):
        procs = data.draw(st.integers(0, len(self.plain)))
        taken = self.idle.take(procs)
        assert ids(taken) == set(sorted(self.plain)[:procs])
        assert all(a[1] < b[0] - 1 for a, b in pairwise(taken))
        self.plain -= ids(taken)
        self.given.append(taken)

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def give(self, data):
        back = self.given.pop(data.draw(st.integers(0, len(self.given) - 1)))
        self.idle.give(back)
        self.plain |= ids(back)

    @rule(machine=st.integers(0, SIZE - 1))
    def withdraw(self, machine):
        assert self.idle.withdraw(machine) == (machine in self.plain)
        self.plain.discard(machine)

    @invariant()
    def the_same_machines_are_idle(self):
        intervals = list(zip(self.idle.first, self.idle.last, strict=True))
        assert ids(intervals) == self.plain
        assert len(self.idle) == len(self.plain)
        assert all(a[1] < b[0] - 1 for a, b in pairwise(intervals))


TestBesideASet = BesideASet.TestCase
