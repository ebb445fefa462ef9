"""Which machines a job gets: the idle ones with the lowest ids, in every host."""

from __future__ import annotations

from bisect import bisect_left

Intervals = list[tuple[int, int]]  # ascending, disjoint, both ends included, as Batsim writes them


class IdleMachines:
    """The idle machines as intervals of ids."""

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
        """Let these machines, none of them idle, be idle."""
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
