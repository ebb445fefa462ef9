"""Sets of machines and what happens to them, against one-machine-at-a-time bookkeeping."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from procset import ProcSet

from batfill.batsim_files.machines import IdleMachines, Machines, machine_set


@settings(deadline=None)
@given(st.sets(st.integers(0, 40), min_size=1))
def test_a_set_is_written_as_procset_writes_it(ids):
    machines = machine_set(" ".join(map(str, sorted(ids, key=str))), 41)
    assert machines.text == str(ProcSet(*ids))
    assert machines.size == len(ids)
    assert machines.ids().tolist() == sorted(ids)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not a list of machines"),
        ("a", "not a list of machines"),
        ("0,1", "not a list of machines"),
        ("-1", "not a list of machines"),
        ("3-1", "ends before it begins"),
        ("0-10", "machine 10 does not exist, the platform has 0-9"),
    ],
)
def test_what_is_no_set_of_the_platforms_machines_is_refused(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        machine_set(text, 10)


def fresh(n: int = 8, **sharing: bool) -> Machines:
    return Machines(n, **{"share_compute": False, "share_storage": True, **sharing})


def test_a_shared_machine_takes_another_job_and_is_idle_after_the_last():
    machines = fresh(share_compute=True)
    both = machine_set("0-1", 8)
    machines.start(both, 0.0)
    assert machines.obstacle(both) is None
    machines.start(both, 1.0)
    machines.end(both, 2.0)
    assert (machines.idle, machines.computing) == (6, 2)
    machines.end(both, 3.0)
    assert (machines.idle, machines.computing) == (8, 0)


def test_an_unavailable_machine_takes_no_job_and_its_own_job_runs_on():
    machines = fresh()
    machines.start(machine_set("0", 8), 0.0)
    assert machines.withdraw(machine_set("0-1", 8), 5.0) is None
    assert machines.obstacle(machine_set("1", 8)) == "machine 1 is unavailable"
    assert machines.withdraw(machine_set("1-2", 8), 5.0) == "machine 1 is already unavailable"
    machines.end(machine_set("0", 8), 7.0)
    assert (machines.idle, machines.computing) == (6, 0)
    assert machines.restore(machine_set("0-2", 8), 9.0) == "machine 2 is already available"
    assert machines.restore(machine_set("0-1", 8), 9.0) is None
    assert (machines.idle, machines.computing) == (8, 0)


def test_time_counts_up_to_each_machines_last_change():
    machines = fresh(3)
    job = machine_set("0-1", 3)
    machines.start(job, 10.0)
    machines.end(job, 30.0)
    assert machines.times == (40.0, 20.0, 0.0)  # machine 2 never changed, nothing of it counts
    machines.withdraw(machine_set("1-2", 3), 50.0)
    machines.restore(machine_set("2", 3), 60.0)
    assert machines.times == (40.0, 20.0 + 20.0 + 50.0, 10.0)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sets(st.integers(0, 9), min_size=1), st.integers(1, 5)), max_size=30))
def test_counts_and_times_agree_with_one_machine_at_a_time(steps):
    machines = fresh(10)
    runs: list[tuple[set[int], float]] = []  # jobs that run: machines, start
    last = [0.0] * 10
    computing_s = idle_s = date = 0.0
    for ids, wait in steps:
        date += wait
        for job in [job for job in runs if job[0] & ids]:
            runs.remove(job)
            machines.end(machine_set(" ".join(map(str, job[0])), 10), date)
            for i in job[0]:
                computing_s += date - last[i]
                last[i] = date
        machines.start(machine_set(" ".join(map(str, ids)), 10), date)
        runs.append((ids, date))
        for i in ids:
            idle_s += date - last[i]
            last[i] = date
        busy = set().union(*(job[0] for job in runs))
        assert (machines.idle, machines.computing) == (10 - len(busy), len(busy))
    assert machines.times == (computing_s, idle_s, 0.0)


# Idle machines: taken lowest id first, and back as the same set

SIZE = 20


def ids(intervals):
    return {machine for first, last in intervals for machine in range(first, last + 1)}


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
