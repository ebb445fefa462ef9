"""A conservative plan that is kept from decision to decision, on machines: the rule of batsched's conservative_bf.

The docs' page on the semantics has the rules, under "Kept plans". Sets of machines are bits of an int, by machine id.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, NamedTuple

from batfill.base.errors import BatfillError
from batfill.model.limits.calendar import spans_of
from batfill.model.options import ALL, NO_SMALL, PRESETS, REQUEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from batfill.batsim_files.machines import Intervals
    from batfill.live.request import Request
    from batfill.model.limits.calendar import Calendar
    from batfill.model.options import Options


class Job(NamedTuple):
    """A job that waits; the queue's order is that of these tuples."""

    key: float
    name: str
    row: int
    length_s: float  # for which it is planned
    procs: int


class Place(NamedTuple):
    """What the plan holds for a job that waits or runs, or a window in which the machines run none."""

    begin_s: float
    end_s: float
    machines: int


class Timeline:
    """Which machines the plan leaves free, from the present on: those of `free[i]` from `dates_s[i]` to the next."""

    def __init__(self, machines: int) -> None:
        self.dates_s = [0.0]
        self.free = [machines]
        self.counts = [machines.bit_count()]  # of each step's

    def step(self, date_s: float) -> int:
        return bisect_left(self.dates_s, date_s)

    def advance(self, now_s: float) -> None:
        past = bisect_right(self.dates_s, now_s) - 1
        del self.dates_s[:past], self.free[:past], self.counts[:past]
        self.dates_s[0] = now_s

    def at(self, date_s: float) -> int:
        """The step that begins at this date, which is not past; it is split off if there is none."""
        i = self.step(date_s)
        if i == len(self.free) or self.dates_s[i] != date_s:
            self.dates_s.insert(i, date_s)
            self.free.insert(i, self.free[i - 1])
            self.counts.insert(i, self.counts[i - 1])
        return i

    def change(self, begin_s: float, end_s: float, machines: int, by: int) -> None:
        """Free these machines between two dates, neither of them past, if `by` is 1, or take them if it is -1."""
        if begin_s >= end_s:
            return
        first, last = self.at(begin_s), self.at(end_s)
        by *= machines.bit_count()
        for i in range(first, last):
            self.free[i] ^= machines
            self.counts[i] += by
        for i in (last, first):
            if i and self.free[i] == self.free[i - 1]:
                del self.dates_s[i], self.free[i], self.counts[i]

    def room(self, length_s: float, procs: int, n: int) -> Iterator[int]:
        """Which of the first n steps have `procs` machines, the same or not, free for so long within these steps."""
        dates_s, counts, i = self.dates_s, self.counts, 0
        while i < n:
            if counts[i] < procs:
                i += 1
                continue
            first = i
            while i < n and counts[i] >= procs:
                i += 1
            latest_s = dates_s[i] if i < n else math.inf
            while first < i and dates_s[first] + length_s <= latest_s:
                yield first
                first += 1

    def earliest(self, length_s: float, procs: int, usable: int, idle: int) -> tuple[float, int] | None:
        """The first date from which `procs` machines are free for so long, and all that are; None if there is none.

        `usable`: those that may be used; `idle`: those of them that run no job, which alone can be used at once.
        """
        hopeless = -1  # the last step from which there is no place
        for i in self.room(length_s, procs, len(self.free)):
            begin_s = self.dates_s[i]
            if i == 0:
                machines, _ = self.common(range(self.step(begin_s + length_s)), procs, idle)
                if machines:
                    return begin_s, machines
                begin_s = math.nextafter(begin_s, math.inf)
            if i > hopeless:
                machines, blocked = self.common(range(i, self.step(begin_s + length_s)), procs, usable)
                if machines:
                    return begin_s, machines
                _, hopeless = self.common(range(blocked, -1, -1), procs, usable)
        return None

    def common(self, steps: range, procs: int, machines: int) -> tuple[int, int]:
        """Those of the machines that are free in all of the steps; 0 if fewer than `procs`, and in which step first."""
        if machines.bit_count() < procs:
            return 0, steps.start
        for i in steps:
            left = machines & self.free[i]
            if left != machines:  # counting is what takes long on a wide machine
                machines = left
                if machines.bit_count() < procs:
                    return 0, i
        return machines, -1


class KeptPlan:
    """The places of the jobs that wait and run on one machine, and the rules by which they move."""

    def __init__(self, machines: Iterable[int], margin_s: float = 0.0, windows: Sequence[Place] = ()) -> None:
        """An empty plan, of jobs that may take `margin_s` longer; none runs in `windows`, which may overlap."""
        self.margin_s = margin_s
        self.usable = mask_of(machines)  # but for those that are unavailable
        self.busy = 0
        self.waiting: list[Job] = []  # in order
        self.new: list[Job] = []  # of these, the ones submitted since the last decision, as they were named
        self.places: dict[int, Place] = {}  # by row
        self.left: list[Place] = []  # by jobs that have ended since the last decision
        self.moves = False  # whether the next decision places all jobs again
        self.freed_s = self.freed_before_s = 0.0  # until when machines were freed in this pass, and in the last
        self.timeline = Timeline(self.usable)
        self.windows_end_s = sorted((window.end_s for window in windows), reverse=True)  # of those that have not ended
        self.called_s = -math.inf
        for begin_s, end_s, held in windows:
            for i in range(self.timeline.at(begin_s), self.timeline.at(end_s)):
                self.timeline.free[i] &= ~held
                self.timeline.counts[i] = self.timeline.free[i].bit_count()

    @staticmethod
    def check(options: Options) -> None:
        moves = options.policy.moves
        for name, is_wrong, why in (
            ("depth", options.depth != ALL, "holds a place for every job that waits; choose depth all"),
            ("tested", options.tested != ALL, "places every job that waits; choose tested all"),
            ("max-running", options.max_running is not None, "holds a place for every job; choose max-running none"),
            ("backfill-while", options.backfill_while is not None, "backfills no job; choose backfill-while none"),
            ("energy-budget", options.energy_budget is not None, "is of machines alone; choose energy-budget none"),
            ("pool", options.pool is not None, "is of machines alone; choose pool none"),
            ("policy", moves, "takes an order that stays as it is while jobs wait; choose another policy"),
            ("threshold", options.threshold_s < math.inf, "lets no job overtake; choose threshold none"),
            ("small", options.small != NO_SMALL, "has no first tries; choose small none"),
            ("urgent", options.urgent is not None, "stops no job and lets none overtake; choose urgent none"),
            ("predict", options.predict != REQUEST, "goes by requests; choose predict request"),
        ):
            if is_wrong:
                by = f" in place of the preset's {name}" * (name in PRESETS[options.preset].values)
                raise BatfillError(f"option plan: a kept plan {why}{by}, or leave plan out")

    def call_s(self) -> float:
        """The end of a window for which jobs wait, where a decision is needed, named once; inf if there is none."""
        if not self.waiting or not self.windows_end_s or self.called_s == self.windows_end_s[-1]:
            return math.inf
        self.called_s = self.windows_end_s[-1]
        return self.called_s

    def submit(self, row: int, request: Request, key: float) -> None:
        if request.expected_s < request.walltime_s:
            raise BatfillError(
                f"option plan: job {request.name} may outlive its request of {request.expected_s:g} s, which a kept "
                "plan relies on; convert the workload with --overrun keep or kill"
            )
        job = Job(key, request.name, row, request.expected_s + self.margin_s, request.procs)
        insort(self.waiting, job)
        self.new.append(job)

    def wait_s(self, request: Request, now_s: float) -> float:
        """For how long a job would wait that were submitted after the decision at `now_s`; inf if it has no place."""
        length_s, timeline = request.expected_s + self.margin_s, self.timeline
        timeline.advance(now_s)
        found = timeline.earliest(length_s, request.procs, self.usable, self.usable & ~self.busy)
        return math.inf if found is None else found[0] - now_s

    def end(self, row: int) -> None:
        place = self.places.pop(row)
        self.left.append(place)
        self.busy ^= place.machines
        self.moves = True

    def withdraw(self, machine: int) -> None:
        self.usable &= ~(1 << machine)
        self.moves, self.freed_s = True, math.inf

    def restore(self, machine: int) -> None:
        self.usable |= 1 << machine
        self.moves, self.freed_s = True, math.inf

    def decide(self, now_s: float) -> list[tuple[int, Intervals]]:
        timeline = self.timeline
        timeline.advance(now_s)
        while self.windows_end_s and self.windows_end_s[-1] <= now_s:
            self.windows_end_s.pop()
            self.moves |= len(self.waiting) > len(self.new)
        if self.moves:
            self.freed_before_s, self.freed_s = self.freed_s, math.nextafter(now_s, math.inf)
        for place in self.left:
            timeline.change(now_s, place.end_s, place.machines, 1)
            self.freed_s = max(self.freed_s, place.end_s)
        started = []
        for job in list(self.waiting) if self.moves else self.new:
            before = self.places.get(job.row)
            if before is not None:
                if self.stays(job, before):
                    continue
                timeline.change(max(before.begin_s, now_s), before.end_s, before.machines, 1)
            found = timeline.earliest(job.length_s, job.procs, self.usable, self.usable & ~self.busy)
            if found is None:
                self.places.pop(job.row, None)
                continue
            begin_s, machines = found[0], lowest(found[1], job.procs)
            place = self.places[job.row] = Place(begin_s, begin_s + job.length_s, machines)
            timeline.change(*place, -1)
            if before is not None and place != before:
                self.freed_s = max(self.freed_s, before.end_s)
            if begin_s == now_s:
                self.busy |= machines
                del self.waiting[bisect_left(self.waiting, job)]
                started.append((job.row, machines_of(machines)))
        self.new, self.left, self.moves = [], [], False
        return started

    def stays(self, job: Job, place: Place) -> bool:
        """Whether a job that waits would have the same place again, as far as numbers of free machines tell.

        Where nothing was freed since the job was placed, there is still no earlier place.
        """
        timeline, freed_s = self.timeline, max(self.freed_s, self.freed_before_s)
        if place.begin_s <= timeline.dates_s[0] or place.machines & ~self.usable:
            return False
        earlier = next(timeline.room(job.length_s, job.procs, timeline.step(place.begin_s)), None)
        if earlier is not None and timeline.dates_s[earlier] < freed_s:
            return False
        if freed_s <= place.begin_s:
            return True
        first = timeline.step(math.nextafter(place.begin_s, math.inf)) - 1
        lower = self.usable & ((1 << place.machines.bit_length()) - 1)
        return not timeline.common(range(first, timeline.step(place.end_s)), 1, lower)[0]


def windows_of(calendar: Calendar | None) -> list[Place]:
    return [
        Place(max(window.begin, 0.0), window.end, sum((2 << last) - (1 << first) for first, last in machines))
        for window in (() if calendar is None else calendar.windows)
        for machines in [spans_of("machines", window.machines)]
        if window.end > 0
    ]


def mask_of(machines: Iterable[int]) -> int:
    return sum(1 << machine for machine in machines)


def machines_of(mask: int) -> Intervals:
    return [(run.start(), run.end() - 1) for run in re.finditer("1+", f"{mask:b}"[::-1])]


def lowest(mask: int, n: int) -> int:
    """The n lowest bits of the mask, which has at least so many."""
    if mask.bit_count() == n:
        return mask
    below = bisect_left(range(mask.bit_length()), n, key=lambda i: (mask & ((1 << i) - 1)).bit_count())
    return mask & ((1 << below) - 1)
