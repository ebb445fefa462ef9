"""Energy as Batsim's -E states it: what each job's hosts draw while it runs, and what all compute hosts have drawn."""

from __future__ import annotations

import re
from math import inf, isfinite
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.base.errors import PlatformError
from batfill.base.words import things

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from batfill.batsim_files.platform import Platform, PlatformHost
    from batfill.batsim_files.results import EnergyRow
    from batfill.simulator.catalogue import SimulatedJob
    from batfill.workloads.batsim_json import ProfileTask

WATTS = "wattage_per_state"  # the property of a host, see `HostWatts`; one text a power state, commas between them
NUMBER = r"\s*[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?\s*"
STATE = re.compile(f"({NUMBER}):(?:({NUMBER}):)?({NUMBER})")
STARTED, ENDED = "s", "e"
SAME_DATE_S = 1e-9


class HostWatts(NamedTuple):
    """What a host draws in its power state, as SimGrid reads "idle:busy" or "idle:least:busy"."""

    idle: float = 0.0
    least: float = 0.0  # when it computes at next to no speed; idle, unless it is given
    busy: float = 0.0  # when one core computes at full speed; in between, linear in the speed

    def above_idle(self, task: ProfileTask) -> float:
        """What the host draws more than while it is idle, if it runs this work of one part."""
        return self.least - self.idle + task.load * (self.busy - self.least) if task.computes else 0.0


class RunningWork:
    """What the hosts of a running job draw above their idle watts, part after part.

    As in SimGrid, at the start of a computation the meter of only one host is read. The others are charged at its watts
    from the last reading on, though they were idle: that of all meters, or the end of the job's computation before.
    """

    def __init__(self, job: SimulatedJob, watts: HostWatts) -> None:
        self.watts = watts
        self.above_j = 0.0
        self._unread = 1 - 1 / job.res  # the share of the hosts
        self._parts = job.task.leaves()
        self._part = next(self._parts)
        self._part_ends = job.start_date + self._part.run_s

    def draw(self, since: float, date: float) -> float:
        """The joules between these readings of all meters."""
        before, read = self.above_j, since
        while True:
            above_w, until = self.watts.above_idle(self._part), max(since, min(self._part_ends, date))
            self.above_j += above_w * (until - since)
            if self._part.computes:
                read = until
            since = until
            following = next(self._parts, None) if self._part_ends < date - SAME_DATE_S else None
            if following is None:
                return self.above_j - before
            self._part = following
            self._part_ends += following.run_s
            self.above_j += self._unread * self.watts.above_idle(following) * (since - read)


class EnergyMeter:
    """What the compute hosts have drawn since date 0, each in its power state and with one job at a time.

    A host draws its busy watts while a core computes at full speed, its idle watts while none does, during a delay too.
    In a `parallel` profile a host with fewer operations than the busiest computes at a part of its speed; the hosts'
    average counts, which is exact if they draw the same watts. `path`: the platform's, for messages.
    """

    def __init__(self, platform: Platform, path: Path) -> None:
        compute = {host.name for host in platform.compute}
        watts = [watts_of(host, path) if host.name in compute else HostWatts() for host in platform.machines]
        self._watts = np.array(watts)  # (n_machines, 3)
        self._all = HostWatts(*self._watts.sum(axis=0).tolist())
        # Called with a row at each start and end of a job that has machines.
        self.on_row: Callable[[EnergyRow], None] = lambda row: None
        # What is drawn above idle by the jobs of one part that run now, and all that was until the last reading.
        self._steady_w = self._above_j = 0.0
        self._steady: dict[SimulatedJob, HostWatts] = {}  # those jobs, and what their hosts draw together
        self._sequences: dict[SimulatedJob, RunningWork] = {}  # the others
        self._read_at = 0.0
        self._row_before = 0.0, 0.0  # its date and joules
        self._first_submission_j: float | None = None
        self._last_end_j: float | None = None

    @property
    def consumed_j(self) -> float:
        """What was drawn from the first submission of a workload's job to the last end; 0 if none has ended."""
        if self._last_end_j is None:
            return 0.0
        return self._last_end_j - (0.0 if self._first_submission_j is None else self._first_submission_j)

    def submitted(self, date: float) -> None:
        if self._first_submission_j is None:
            self._first_submission_j = self.read(date)

    def started(self, job: SimulatedJob, date: float) -> None:
        assert job.machines
        self._row(date, STARTED)
        watts = HostWatts(*self._watts[job.machines.part].sum(axis=0).tolist())
        if job.task.parts:
            self._sequences[job] = RunningWork(job, watts)
        else:
            self._steady[job] = watts
            self._steady_w += watts.above_idle(job.task)

    def ended(self, job: SimulatedJob, run_s: float, date: float) -> float:
        """A job ends after so many seconds; returns the joules that its machines drew meanwhile."""
        self._last_end_j = self._row(date, ENDED)
        if work := self._sequences.pop(job, None):
            return work.watts.idle * run_s + work.above_j
        watts = self._steady.pop(job)
        self._steady_w -= watts.above_idle(job.task)
        return (watts.idle + watts.above_idle(job.task)) * run_s

    def read(self, date: float) -> float:
        """Read the meters of all compute hosts: what they have drawn from date 0 to this date."""
        self._above_j += self._steady_w * (date - self._read_at)
        for work in self._sequences.values():
            self._above_j += work.draw(self._read_at, date)
        self._read_at = date
        return self._all.idle * date + self._above_j

    def _row(self, date: float, event: str) -> float:
        """Pass on the row of this event; returns what was drawn until then."""
        drawn_j, (date_before, drawn_before_j) = self.read(date), self._row_before
        passed_s = date - date_before
        watts = (drawn_j - drawn_before_j) / passed_s if passed_s > 0 else None
        self.on_row((date, drawn_j, event, self._all.least, watts))
        self._row_before = date, drawn_j
        return drawn_j


def watts_of(host: PlatformHost, path: Path) -> HostWatts:
    text = host.properties.get(WATTS)
    if text is None:
        raise PlatformError(
            f'{path}: host {host.name!r} has no {WATTS}, which --energy needs; add <prop id="{WATTS}" '
            'value="idle:busy"/> in watts'
        )
    states = []
    for state in text.split(","):
        found = STATE.fullmatch(state)
        idle, least, busy = (float(found[n] or found[1]) for n in (1, 2, 3)) if found else (inf,) * 3
        if not all(map(isfinite, (idle, least, busy))):
            raise PlatformError(
                f"{path}: host {host.name!r}: {WATTS} {text!r:.60} is not idle:busy in finite watts for each power "
                "state; write it like 100:200"
            )
        states.append(HostWatts(idle, least, least + (busy - least) / host.cores))
    if len(states) != len(host.speeds):
        raise PlatformError(
            f"{path}: host {host.name!r}: {WATTS} {text!r:.60} is for {things(len(states), 'power state')}, and the "
            f"host has {len(host.speeds)}, one for each speed; make them equal"
        )
    return states[host.pstate]
