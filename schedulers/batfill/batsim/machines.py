"""The machines: which of them a job gets, and while a simulation runs, who computes, who is gone, and for how long."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

IDLE, COMPUTING, UNAVAILABLE = 0, 1, 2
Intervals = list[tuple[int, int]]  # ascending, disjoint, both ends included, as Batsim writes them
INTERVALS = re.compile(r"\s*\d+(-\d+)?( +\d+(-\d+)?)*\s*")


class MachineTimes(NamedTuple):
    """Machine-seconds spent in each state, each machine counted up to its last change of state, as Batsim does."""

    computing_s: float = 0.0
    idle_s: float = 0.0
    unavailable_s: float = 0.0


class Machines:
    """The state of every machine, by resource id. Methods take dates in seconds, which must not decrease.

    Work is done on whole sets of machines at once: a job on 80,000 machines costs a few array operations.
    """

    def __init__(self, n_compute: int, n_storage: int, *, share_compute: bool, share_storage: bool) -> None:
        n = n_compute + n_storage
        self.size = n
        self._state = np.full(n, IDLE, np.uint8)
        self._since = np.zeros(n)  # the date of each machine's last change
        self._jobs = np.zeros(n, np.int32)
        self._exclusive = np.r_[np.full(n_compute, not share_compute), np.full(n_storage, not share_storage)]
        # Batsim counts compute machines only, and yet lets storage machines change the counts.
        self._count = np.array([n_compute, 0, 0])
        self._spent = np.zeros(3)

    @property
    def idle(self) -> int:
        """How many machines wait."""
        return int(self._count[IDLE])

    @property
    def computing(self) -> int:
        """How many machines compute."""
        return int(self._count[COMPUTING])

    @property
    def times(self) -> MachineTimes:
        """Machine-seconds per state, up to each machine's last change."""
        return MachineTimes(*(float(self._spent[state]) for state in (COMPUTING, IDLE, UNAVAILABLE)))

    def obstacle(self, machines: MachineSet) -> str | None:
        """Why a job cannot start on these machines, if it cannot."""
        part = machines.part
        busy = (self._jobs[part] > 0) & self._exclusive[part]
        if busy.any():
            return f"machine {machines.ids()[np.argmax(busy)]} already runs a job"
        gone = self._state[part] == UNAVAILABLE
        return f"machine {machines.ids()[np.argmax(gone)]} is unavailable" if gone.any() else None

    def start(self, machines: MachineSet, date: float) -> None:
        """A job starts on these machines."""
        self._jobs[machines.part] += 1
        self._enter(machines.part, COMPUTING, date)

    def end(self, machines: MachineSet, date: float) -> None:
        """A job ends on these machines; those that became unavailable meanwhile stay so."""
        part = machines.part
        self._jobs[part] -= 1
        freed = (self._jobs[part] == 0) & (self._state[part] != UNAVAILABLE)
        self._enter(part if freed.all() else machines.ids()[freed], IDLE, date)

    def withdraw(self, machines: MachineSet, date: float) -> str | None:
        """These machines become unavailable, their jobs run on; says which one cannot."""
        gone = self._state[machines.part] == UNAVAILABLE
        if gone.any():
            return f"machine {machines.ids()[np.argmax(gone)]} is unavailable already"
        self._enter(machines.part, UNAVAILABLE, date)
        return None

    def restore(self, machines: MachineSet, date: float) -> str | None:
        """These machines become available again; says which one cannot."""
        there = self._state[machines.part] != UNAVAILABLE
        if there.any():
            return f"machine {machines.ids()[np.argmax(there)]} is available already"
        computing = self._jobs[machines.part] > 0
        self._enter(machines.ids()[computing], COMPUTING, date)
        self._enter(machines.ids()[~computing], IDLE, date)
        return None

    def _enter(self, part: slice | NDArray[np.intp], state: int, date: float) -> None:
        """These machines change to this state."""
        before = self._state[part]
        self._spent += np.bincount(before, weights=date - self._since[part], minlength=3)
        self._count -= np.bincount(before, minlength=3)
        self._count[state] += before.size
        self._state[part] = state
        self._since[part] = date


class MachineSet(NamedTuple):
    """A set of machines, in Batsim's notation and as an index into arrays."""

    text: str  # "0-3 7": ascending, touching intervals joined
    size: int
    part: slice | NDArray[np.intp]

    def ids(self) -> NDArray[np.intp]:
        """The resource ids, ascending."""
        return np.arange(self.part.start, self.part.stop) if isinstance(self.part, slice) else self.part


def machine_set(text: str, n_machines: int) -> MachineSet:
    """The machines of "0-3 7", checked against how many there are.

    Raises:
        ValueError: it is not such a list, it is empty, or a machine does not exist; the message says which.
    """
    if not INTERVALS.fullmatch(text):
        raise ValueError(f'{text!r} is not a list of machines such as "0-3 7"')
    bounds = [[int(bound) for bound in part.split("-")] for part in text.split()]
    joined: list[list[int]] = []
    for interval in sorted(bounds):
        first, last = interval[0], interval[-1]
        if first > last:
            raise ValueError(f"{first}-{last} in {text!r} ends before it begins")
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    highest = joined[-1][1]
    if highest >= n_machines:
        raise ValueError(f"machine {highest} does not exist, the platform has 0-{n_machines - 1}")
    canonical = " ".join(str(a) if a == b else f"{a}-{b}" for a, b in joined)
    size = sum(b - a + 1 for a, b in joined)
    if len(joined) == 1:
        return MachineSet(canonical, size, slice(joined[0][0], highest + 1))
    return MachineSet(canonical, size, np.concatenate([np.arange(a, b + 1) for a, b in joined]))


class IdleMachines:
    """The idle machines as intervals of ids; a job gets those with the lowest ids, in every host."""

    def __init__(self, intervals: Intervals) -> None:
        self.first = [first for first, _ in intervals]
        self.last = [last for _, last in intervals]

    def __len__(self) -> int:
        return sum(self.last) - sum(self.first) + len(self.first)

    def take(self, procs: int) -> Intervals:
        """Take the `procs` idle machines with the lowest ids. There must be that many."""
        taken: Intervals = []
        whole = 0  # intervals taken to their end
        for first, last in zip(self.first, self.last, strict=True):
            size = last - first + 1
            if size > procs:
                if procs:
                    taken.append((first, first + procs - 1))
                    self.first[whole] = first + procs
                break
            taken.append((first, last))
            procs -= size
            whole += 1
        del self.first[:whole], self.last[:whole]
        return taken

    def give(self, intervals: Intervals) -> None:
        """Make these machines idle; none of them is."""
        for first, last in intervals:
            i = bisect_left(self.first, first)
            joins_left = i > 0 and self.last[i - 1] == first - 1
            joins_right = i < len(self.first) and self.first[i] == last + 1
            if joins_left and joins_right:
                self.last[i - 1] = self.last[i]
                del self.first[i], self.last[i]
            elif joins_left:
                self.last[i - 1] = last
            elif joins_right:
                self.first[i] = first
            else:
                self.first.insert(i, first)
                self.last.insert(i, last)

    def withdraw(self, machine: int) -> bool:
        """Take this very machine away; returns whether it was idle."""
        i = bisect_left(self.last, machine)
        if i == len(self.first) or self.first[i] > machine:
            return False
        first, last = self.first[i], self.last[i]
        parts = [(first, machine - 1)] * (first < machine) + [(machine + 1, last)] * (machine < last)
        self.first[i : i + 1] = [part[0] for part in parts]
        self.last[i : i + 1] = [part[1] for part in parts]
        return True


def as_text(intervals: Intervals) -> str:
    """The machines as Batsim writes them: "0-3 7"."""
    return " ".join(f"{first}-{last}" if first < last else str(first) for first, last in intervals)
