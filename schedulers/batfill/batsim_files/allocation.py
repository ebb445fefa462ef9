"""The machines of every try of a run, as a replay gives them and as a file has them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.base.kernels import F8, I8, Array, entry, kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from batfill.batsim_files.machines import Intervals

NO_MACHINE = 10**18  # a number that is too large for one


class Allocation(NamedTuple):
    """The machines of every try as intervals of ids, both ends included: offset[i]:offset[i + 1] are those of try i."""

    offset: NDArray[np.int64]  # (n_tries + 1,)
    first: NDArray[np.int64]  # (n_intervals,)
    last: NDArray[np.int64]  # (n_intervals,)

    @classmethod
    def joined(cls, parts: Sequence[NDArray[np.object_]]) -> Allocation:
        """The machines of all tries, each in Batsim's notation such as "0-3 7", empty for none.

        Raises:
            ValueError: one of them is not in this notation.
        """
        text = "\n".join(["", *chain.from_iterable(parts), ""]).encode()
        if text.translate(None, b"0123456789- \n") or any(wrong in text for wrong in (b" -", b"\n-", b"- ", b"-\n")):
            raise ValueError("not digits, or a dash that is not between them")
        # Dashes and line ends become numbers that no machine has.
        number = np.fromstring(text.replace(b"-", b" -1 ").replace(b"\n", b" -2 "), np.int64, sep=" ")
        dash, end = number == -1, number == -2
        upper = np.roll(dash, 1)  # the number is the end of an interval
        if (upper & dash).any() or (dash[2:] & dash[:-2]).any() or (number >= NO_MACHINE).any():
            raise ValueError("an interval without two ends, or a number that is too large")
        lower = np.flatnonzero(~(dash | end | upper))
        last = np.where(dash[lower + 1], number[np.minimum(lower + 2, len(number) - 1)], number[lower])
        return cls(np.searchsorted(lower, np.flatnonzero(end)), number[lower], last)

    def rows(self, which: NDArray[np.int64]) -> Allocation:
        counts = np.diff(self.offset)[which]
        offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        interval = np.arange(offset[-1]) + np.repeat(self.offset[which] - offset[:-1], counts)
        return Allocation(offset, self.first[interval], self.last[interval])

    def of(self, i: int) -> Intervals:
        part = slice(self.offset[i], self.offset[i + 1])
        return list(zip(self.first[part].tolist(), self.last[part].tolist(), strict=True))


def lowest_idle(
    procs: NDArray[np.int64],
    start_s: NDArray[np.float64],
    end_s: NDArray[np.float64],
    by_end: NDArray[np.int64],
    size: int,
) -> tuple[Allocation, NDArray[np.float64]]:
    """The machines of each try, those with the lowest ids that are idle at its start, as `IdleMachines` has them.

    Args:
        procs: the tries' processors, (n_tries,), in the order of their starts.
        start_s: their starts.
        end_s: their ends.
        by_end: the tries in the order of their ends.
        size: the number of machines.

    Returns:
        The machines, and the end of the last try on each machine, (at most size,), 0 if it has none.
    """
    by_end = by_end.astype(np.int64)  # from `argsort`, whose numbers are shorter in a browser
    size = min(size, int(procs.sum()))  # a machine may be huge, and its lowest ids are taken
    idle, offset, freed_s = np.empty((2, size + 1), np.int64), np.empty(len(procs) + 1, np.int64), np.zeros(size)
    room, n = 2 * len(procs), -1
    while n < 0:
        first, last = np.empty(room, np.int64), np.empty(room, np.int64)
        n = allocate(procs, start_s, end_s, by_end, idle[0], idle[1], offset, first, last, freed_s)
        room *= 2
    return Allocation(offset, first[:n], last[:n]), freed_s


READ_I8, READ_F8 = Array(I8, read=True), Array(F8, read=True)


@entry(READ_I8, READ_F8, READ_F8, READ_I8, I8, I8, I8, I8, I8, F8, gives=int)
@kernel
def allocate(procs, start_s, end_s, by_end, idle_first, idle_last, offset, first, last, freed_s):
    """The number of intervals of all tries, or -1 if `first` and `last` are too short for them.

    Fills an `Allocation`, and in `freed_s` the end of the last try on each machine. `idle_first` and `idle_last`, int64
    (size + 1,), hold the idle intervals meanwhile, the lowest one at their end, where it is taken.
    """
    idle_first[0], idle_last[0], idle = 0, len(freed_s) - 1, 1
    offset[0] = ended = n = 0
    for i in range(len(procs)):
        # A try of length 0 may have ended by now without having been handled yet.
        while by_end[ended] < i and end_s[by_end[ended]] <= start_s[i]:
            idle = give_back(by_end[ended], end_s, idle_first, idle_last, idle, offset, first, last, freed_s)
            ended += 1
        need = procs[i]
        while need > 0:
            if n == len(first):
                return -1
            low, high = idle_first[idle - 1], idle_last[idle - 1]
            if high - low >= need:
                high = low + need - 1
                idle_first[idle - 1] = high + 1
            else:
                idle -= 1
            first[n], last[n] = low, high
            need -= high - low + 1
            n += 1
        offset[i + 1] = n
    for k in range(ended, len(procs)):
        idle = give_back(by_end[k], end_s, idle_first, idle_last, idle, offset, first, last, freed_s)
    return n


@kernel
def give_back(i, end_s, idle_first, idle_last, idle, offset, first, last, freed_s):
    """The number of idle intervals with those of try i, which are added to them."""
    for k in range(offset[i], offset[i + 1]):
        low, high = first[k], last[k]
        for machine in range(low, high + 1):
            freed_s[machine] = end_s[i]
        place = idle
        while place > 0 and idle_first[place - 1] < low:
            place -= 1
        above, below = place > 0 and idle_first[place - 1] == high + 1, place < idle and idle_last[place] == low - 1
        if above and below:
            idle_first[place - 1] = idle_first[place]
            idle -= 1
            for j in range(place, idle):
                idle_first[j], idle_last[j] = idle_first[j + 1], idle_last[j + 1]
        elif above:
            idle_first[place - 1] = low
        elif below:
            idle_last[place] = high
        else:
            for j in range(idle, place, -1):
                idle_first[j], idle_last[j] = idle_first[j - 1], idle_last[j - 1]
            idle_first[place], idle_last[place] = low, high
            idle += 1
    return idle
