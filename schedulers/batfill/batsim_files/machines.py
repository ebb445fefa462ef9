"""The machines: allocation to jobs, and in a simulation each machine's state and the time spent in it."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

IDLE, COMPUTING, UNAVAILABLE = 0, 1, 2
Intervals = list[tuple[int, int]]  # ascending, disjoint, both ends included, as Batsim writes them
INTERVALS = re.compile(r" *[0-9]{1,18}(-[0-9]{1,18})?( +[0-9]{1,18}(-[0-9]{1,18})?)* *")


class MachineTimes(NamedTuple):
    """Machine-seconds spent in each state, each machine counted up to its last change of state, as Batsim does."""

    computing_s: float = 0.0
    idle_s: float = 0.0
    unavailable_s: float = 0.0


class Machines:
    """The state of every machine, by resource id. Methods take dates in seconds, which must not decrease.

    Work is done on whole sets of machines at once: a job on 80,000 machines costs a few array operations.
    """

    def __init__(self, n: int, storage: Sequence[int] = (), *, share_compute: bool, share_storage: bool) -> None:
        """`storage`: the ids of the storage machines among the `n`; the others compute."""
        self.size = n
        self._state = np.full(n, IDLE, np.uint8)
        self._since = np.zeros(n)  # the date of each machine's last change
        self._jobs = np.zeros(n, np.int32)
        self._exclusive = np.full(n, not share_compute)
        self._exclusive[np.array(storage, np.intp)] = not share_storage
        self._shares = not self._exclusive.all()
        # Batsim starts from the number of compute machines, but storage machines change the counts too.
        self._count = [n - len(storage), 0, 0]
        self._spent = [0.0, 0.0, 0.0]

    @property
    def idle(self) -> int:
        return self._count[IDLE]

    @property
    def computing(self) -> int:
        return self._count[COMPUTING]

    @property
    def times(self) -> MachineTimes:
        """Machine-seconds per state, up to each machine's last change."""
        return MachineTimes(*(self._spent[state] for state in (COMPUTING, IDLE, UNAVAILABLE)))

    def exclusive(self, machines: MachineSet | None = None) -> int:
        """The number of machines that run one job at a time, among these or in all."""
        return int(self._exclusive[slice(None) if machines is None else machines.part].sum())

    def obstacle(self, machines: MachineSet) -> str | None:
        """Why a job cannot start on these machines; None if it can."""
        part = machines.part
        if not self._state[part].any():  # all are idle
            return None
        busy = (self._jobs[part] > 0) & self._exclusive[part]
        if busy.any():
            return f"machine {machines.ids()[np.argmax(busy)]} already runs a job"
        gone = self._state[part] == UNAVAILABLE
        return f"machine {machines.ids()[np.argmax(gone)]} is unavailable" if gone.any() else None

    def start(self, machines: MachineSet, date: float) -> None:
        part = machines.part
        if self._shares:
            self._jobs[part] += 1
            self._enter(part, COMPUTING, date)
        else:
            self._jobs[part] = 1
            self._change(part, machines.size, IDLE, COMPUTING, date)

    def end(self, machines: MachineSet, date: float) -> None:
        """End a job on these machines; those that became unavailable meanwhile stay unavailable."""
        part = machines.part
        if self._shares or self._count[UNAVAILABLE]:
            self._jobs[part] -= 1
            freed = (self._jobs[part] == 0) & (self._state[part] != UNAVAILABLE)
            self._enter(part if freed.all() else machines.ids()[freed], IDLE, date)
        else:
            self._jobs[part] = 0
            self._change(part, machines.size, COMPUTING, IDLE, date)

    def withdraw(self, machines: MachineSet, date: float) -> str | None:
        """Make these machines unavailable, while their jobs keep running; returns what prevents it, or None."""
        gone = self._state[machines.part] == UNAVAILABLE
        if gone.any():
            return f"machine {machines.ids()[np.argmax(gone)]} is already unavailable"
        self._enter(machines.part, UNAVAILABLE, date)
        return None

    def restore(self, machines: MachineSet, date: float) -> str | None:
        """Make these machines available again; returns what prevents it, or None."""
        there = self._state[machines.part] != UNAVAILABLE
        if there.any():
            return f"machine {machines.ids()[np.argmax(there)]} is already available"
        computing = self._jobs[machines.part] > 0
        self._enter(machines.ids()[computing], COMPUTING, date)
        self._enter(machines.ids()[~computing], IDLE, date)
        return None

    def _enter(self, part: slice | NDArray[np.intp], state: int, date: float) -> None:
        before = self._state[part]
        for old in (IDLE, COMPUTING, UNAVAILABLE):
            of_state = before == old
            if n := int(np.count_nonzero(of_state)):
                members = part if n == before.size else np.arange(self.size)[part][of_state]
                self._change(members, n, old, state, date)

    def _change(self, part: slice | NDArray[np.intp], n: int, old: int, new: int, date: float) -> None:
        """Set the state of these `n` machines, which were all in the state `old`."""
        self._spent[old] += float((date - self._since[part]).sum())
        self._count[old] -= n
        self._count[new] += n
        self._state[part] = new
        self._since[part] = date


class MachineSet(NamedTuple):
    """A set of machines, in Batsim's notation and as an index into arrays."""

    text: str  # "0-3 7": ascending, touching intervals joined
    size: int
    part: slice | NDArray[np.intp]

    def ids(self) -> NDArray[np.intp]:
        return np.arange(self.part.start, self.part.stop) if isinstance(self.part, slice) else self.part


def machine_set(text: str, n_machines: int) -> MachineSet:
    """The machines of a text such as "0-3 7", checked against the number of machines.

    Raises:
        ValueError: the text is not such a list, is empty, or names a machine that does not exist.
    """
    if not INTERVALS.fullmatch(text):
        raise ValueError(f'{text!r:.60} is not a list of machines such as "0-3 7"')
    bounds = []
    for part in text.split():
        low, _, high = part.partition("-")
        first, last = int(low), int(high or low)
        if first > last:
            raise ValueError(f"{first}-{last} in {text!r:.60} ends before it begins")
        bounds.append((first, last))
    bounds.sort()
    joined = bounds[:1]
    for first, last in bounds[1:]:
        if first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    highest = joined[-1][1]
    if highest >= n_machines:
        raise ValueError(f"machine {highest} does not exist, the platform has 0-{n_machines - 1}")
    canonical = intervals_text(joined)
    size = sum([b - a + 1 for a, b in joined])
    if len(joined) == 1:
        return MachineSet(canonical, size, slice(joined[0][0], highest + 1))
    return MachineSet(canonical, size, np.concatenate([np.arange(a, b + 1) for a, b in joined]))


class IdleMachines:
    """The idle machines as intervals of ids; every host allocates the lowest ids first."""

    def __init__(self, intervals: Intervals) -> None:
        self.first = [first for first, _ in intervals]
        self.last = [last for _, last in intervals]

    def __len__(self) -> int:
        return sum(self.last) - sum(self.first) + len(self.first)

    def intervals(self) -> Intervals:
        return list(zip(self.first, self.last, strict=True))

    def take(self, procs: int) -> Intervals:
        """Take the `procs` idle machines with the lowest ids; at least that many must be idle."""
        taken: Intervals = []
        whole = 0  # intervals taken completely
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

    def remove(self, intervals: Intervals) -> None:
        for first, last in intervals:
            i = bisect_left(self.last, first)
            whole = self.first[i], self.last[i]
            parts = [(whole[0], first - 1)] * (whole[0] < first) + [(last + 1, whole[1])] * (last < whole[1])
            self.first[i : i + 1] = [part[0] for part in parts]
            self.last[i : i + 1] = [part[1] for part in parts]

    def withdraw(self, machine: int) -> bool:
        """Remove this machine; returns whether it was idle."""
        i = bisect_left(self.last, machine)
        if i == len(self.first) or self.first[i] > machine:
            return False
        self.remove([(machine, machine)])
        return True


def intervals_of(ids: list[int]) -> Intervals:
    """The intervals that hold these ascending ids."""
    intervals: Intervals = []
    for machine in ids:
        if intervals and intervals[-1][1] == machine - 1:
            intervals[-1] = (intervals[-1][0], machine)
        else:
            intervals.append((machine, machine))
    return intervals


def intervals_text(intervals: Intervals) -> str:
    """The machines as Batsim writes them: "0-3 7"."""
    if len(intervals) == 1:
        first, last = intervals[0]
        return f"{first}-{last}" if first < last else str(first)
    return " ".join([f"{first}-{last}" if first < last else str(first) for first, last in intervals])
