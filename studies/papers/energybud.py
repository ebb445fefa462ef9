"""The published energy budgets of Dutot et al. 2017 as their program keeps them, and what its four faults do.

The rules are those of easyEnergyBudget in pybatsim 3.2, said again, with processors that are counted. It is EASY with
a further test. A job's need is the joules above the budget's rate that the machine would draw in the period while the
job runs its request, if all that runs now went on until then.

    energyBud   a job starts if its need is at most what was saved, less what the head reserves
    reducePC    a job starts if it keeps the machine's watts within the rate, which the head's reservation lowers; the
                head also as under energyBud
    PC          a job starts if it keeps the machine's watts within the rate

A decision follows each single event, submissions first. What was saved is measured every few minutes. The faults:

    sign        what will be saved until the head's date is subtracted from what was saved, and not added
    gift        the need of a head may be below 0, and what it reserves then; others may spend that at once
    committed   joules that running jobs will draw after the tested job's end, or drew since the last measurement, are
                not set aside: several jobs start on the same savings
    watts       under PC a job behind the head may take the watts that the head needs at its date
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil, floor
from typing import Literal, NamedTuple, get_args

Mode = Literal["PC", "reducePC", "energyBud"]
Fault = Literal["sign", "gift", "committed", "watts"]
MODES: tuple[Mode, ...] = get_args(Mode)
FAULTS: tuple[Fault, ...] = get_args(Fault)
MARGIN_S = 1e-6  # before a computed date is rounded up


class Job(NamedTuple):
    """A job, in whole seconds."""

    submit_s: int
    runtime_s: int
    request_s: int  # at least the run time
    procs: int  # at most the machine's


class Watts(NamedTuple):
    """What a processor draws."""

    idle: float
    computing: float


@dataclass(frozen=True, slots=True)
class Limits:
    """A machine with a budget: joules become available at a rate from begin to end."""

    procs: int
    rate_w: float  # more than the machine draws without jobs
    begin_s: int
    end_s: int
    monitoring_s: int  # between two measurements
    estimated: Watts  # what is counted with
    real: Watts  # and measured


class Running(NamedTuple):
    """A running job, in the order of expected ends."""

    expected_s: int
    number: int  # of the start
    row: int


def published_starts(jobs: Sequence[Job], limits: Limits, mode: Mode, corrected: Collection[Fault] = ()) -> list[int]:
    """The start of each job in seconds, in the order of submissions, by the published rule without some faults."""
    return Published(jobs, limits, mode, corrected).run()


@dataclass(slots=True)
class Published:
    """The state of a run. Joules are sums since the first instant."""

    jobs: Sequence[Job]
    limits: Limits
    mode: Mode
    corrected: Collection[Fault]
    now_s: int = 0
    free: int = field(init=False)
    rate_w: float = field(init=False)  # in force: the head of reducePC lowers it
    saved: float = 0.0  # at the last measurement
    reserved: float = 0.0  # by the head, during a decision
    drawn: float = 0.0
    estimated: float = 0.0  # the same by estimates
    measured: tuple[int, float, float] | None = None  # the last measurement's date, and both sums then
    asks_end: bool = False  # whether a call at the end was asked for, as nothing ran
    waiting: list[int] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)
    ends: list[tuple[int, int, Running]] = field(default_factory=list)  # a heap by true ends and numbers
    calls: list[int] = field(default_factory=list)  # dates of measurements, in order
    starts: dict[int, int] = field(default_factory=dict)  # by row

    def __post_init__(self) -> None:
        self.free, self.rate_w, self.calls = self.limits.procs, self.limits.rate_w, [self.limits.begin_s]

    def run(self) -> list[int]:
        """Go on until all jobs have ended; their starts."""
        to_come = sorted(range(len(self.jobs)), key=lambda row: (-self.jobs[row].submit_s, -row))
        while to_come or self.waiting or self.running:
            coming = [self.jobs[row].submit_s for row in to_come[-1:]]
            self.go_on(min([*coming, *self.calls[:1], *(end_s for end_s, _, _ in self.ends[:1])]))
            while to_come and self.jobs[to_come[-1]].submit_s == self.now_s:
                self.waiting.append(to_come.pop())
                self.decide()
            ended = []
            while self.ends and self.ends[0][0] == self.now_s:
                ended.append(heappop(self.ends)[2])
            for one in ended:
                self.running.remove(one)
                self.free += self.jobs[one.row].procs
                self.decide()
            if self.calls and self.calls[0] == self.now_s:
                self.measure()
                self.decide()
        return [self.starts[row] for row in range(len(self.jobs))]

    def go_on(self, until_s: int) -> None:
        """Let time pass."""
        span_s = until_s - self.now_s
        self.drawn += self.watts(self.free, of=self.limits.real) * span_s
        self.estimated += self.watts(self.free) * span_s
        self.now_s = until_s

    def measure(self) -> None:
        """Measure what was saved since the last time."""
        at_s, drawn, _ = self.measured or (self.now_s, self.drawn, 0.0)
        self.saved += (self.now_s - at_s) * self.limits.rate_w - (self.drawn - drawn)
        self.measured = self.now_s, self.drawn, self.estimated
        self.calls = [call_s for call_s in self.calls if call_s != self.now_s]
        if self.now_s < self.limits.end_s:
            insort(self.calls, min(self.now_s + self.limits.monitoring_s, self.limits.end_s))

    def start(self, row: int) -> None:
        """Start a job now."""
        job = self.jobs[row]
        one = Running(self.now_s + job.request_s, len(self.starts), row)
        self.starts[row] = self.now_s
        self.free -= job.procs
        insort(self.running, one)
        heappush(self.ends, (self.now_s + job.runtime_s, one.number, one))

    # A decision

    @property
    def saves(self) -> bool:
        """Whether heads may spend what was saved."""
        return self.mode != "PC"

    def decide(self) -> None:
        """Start the jobs that may start now."""
        while self.waiting and self.jobs[self.waiting[0]].procs <= self.free:
            if not self.may_start(self.waiting[0], self.now_s, self.free, spends=self.saves):
                break
            self.start(self.waiting.pop(0))
        if len(self.waiting) > 1:
            head, *others = self.waiting
            self.backfill(others, head, self.head_date(head))
            self.reserved, self.rate_w = 0.0, self.limits.rate_w

    def backfill(self, others: list[int], head: int, date_s: int) -> None:
        """Start those of the other jobs that may start now, beside a head that is expected to start at a date."""
        first, limits = self.jobs[head], self.limits
        extra = self.free - first.procs
        extra += sum(self.jobs[one.row].procs for one in self.running if one.expected_s <= date_s)
        begin_s = max(self.now_s, limits.begin_s)
        if self.mode == "reducePC" and date_s > begin_s:
            self.rate_w -= self.reserved / (date_s - begin_s)
        capped = date_s < limits.end_s and date_s + first.request_s >= limits.begin_s
        if self.mode == "PC" and capped and "watts" in self.corrected:
            idle_w, computing_w = limits.estimated
            extra -= limits.procs - floor((limits.rate_w - limits.procs * idle_w) / (computing_w - idle_w))
        energy = self.mode == "energyBud"
        for row in others:
            job = self.jobs[row]
            if job.procs > self.free or not self.may_start(row, self.now_s, self.free, spends=energy, reserves=energy):
                continue
            if self.now_s + job.request_s > date_s:
                if job.procs > extra:
                    continue
                extra -= job.procs
            self.start(row)
            self.waiting.remove(row)

    def head_date(self, row: int) -> int:
        """When the first job that waits is expected to start; from now on it reserves the joules for that."""
        job, limits = self.jobs[row], self.limits
        if not self.running and self.now_s < limits.end_s and not self.asks_end:
            self.asks_end = True
            insort(self.calls, limits.end_s)
        before_s, free, until, fits_s = self.now_s, self.free, 0.0, None
        for one in self.running:
            above = self.above_rate(before_s, one.expected_s, self.watts(free))
            until += -above if "sign" in self.corrected else above
            free += self.jobs[one.row].procs
            before_s = one.expected_s
            if job.procs <= free:
                fits_s = fits_s or before_s
                if self.may_start(row, before_s, free, spends=self.saves, reserves=self.saves, until=until):
                    return before_s
        if not self.saves:
            return max(limits.end_s, fits_s or self.now_s)
        gain_w = self.rate_w - limits.procs * limits.estimated.idle
        latest_s, least_s = limits.end_s - job.request_s, max(before_s, limits.begin_s)
        watts, have = self.watts(free, job.procs), until + self.available
        span_s = latest_s - before_s
        if span_s >= 0 and self.may_start(row, latest_s, free, spends=True, until=until + gain_w * span_s):
            wait_s = (self.above_rate(latest_s, limits.end_s, watts) - have) / gain_w
        else:
            above_w = watts - self.rate_w
            wait_s = (above_w * (limits.end_s - least_s) - have) / (gain_w + above_w)
            wait_s = min(wait_s, limits.end_s - least_s)
        wait_s = ceil(wait_s + MARGIN_S)
        date_s = min(least_s + wait_s, limits.end_s)
        self.may_start(row, date_s, free, spends=True, reserves=True, until=until + gain_w * wait_s)
        return date_s

    # Energy

    def may_start(
        self, row: int, at_s: int, free: int, *, spends: bool, reserves: bool = False, until: float = 0.0
    ) -> bool:
        """Whether a job may start at a date by its watts, or by its joules if it may spend what was saved.

        `free` are the processors then, `until` what is expected to be saved until then. If it `reserves`, and its
        joules decide, they are set aside from then on.
        """
        job, limits = self.jobs[row], self.limits
        if at_s >= limits.end_s or at_s + job.request_s < limits.begin_s:
            return True
        if free < job.procs:
            return False
        watts = self.watts(free, job.procs)
        if self.mode != "energyBud":
            if watts <= self.rate_w:
                return True
            if not spends:
                return False
        need = self.need(job, at_s, watts)
        if need > until + self.available - self.reserved:
            return False
        if reserves:
            self.reserved += max(need, 0.0) if "gift" in self.corrected else need
        return True

    def need(self, job: Job, at_s: int, watts: float) -> float:
        """The joules above the rate for a job that starts at a date, when the machine then draws these watts."""
        if "committed" not in self.corrected:
            return self.above_rate(at_s, at_s + job.request_s, watts)
        ends = [(one.expected_s, self.jobs[one.row].procs) for one in self.running if one.expected_s > at_s]
        insort(ends, (at_s + job.request_s, job.procs))
        most = so_far = 0.0
        for end_s, procs in ends:
            so_far += self.above_rate(at_s, end_s, watts)
            most = max(most, so_far)
            watts -= procs * (self.limits.estimated.computing - self.limits.estimated.idle)
            at_s = end_s
        return most

    @property
    def available(self) -> float:
        """The joules that were saved."""
        if "committed" not in self.corrected or self.measured is None:
            return self.saved
        at_s, _, estimated = self.measured
        return self.saved + (self.now_s - at_s) * self.limits.rate_w - (self.estimated - estimated)

    def above_rate(self, start_s: int, end_s: int, watts: float) -> float:
        """The joules above the rate of a machine that draws these watts; only those of the period count."""
        return (watts - self.rate_w) * max(min(end_s, self.limits.end_s) - max(start_s, self.limits.begin_s), 0)

    def watts(self, free: int, more: int = 0, of: Watts | None = None) -> float:
        """What the machine draws with so many free processors, of which a job takes more."""
        idle_w, computing_w = of or self.limits.estimated
        return (self.limits.procs - free + more) * computing_w + (free - more) * idle_w
