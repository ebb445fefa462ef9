"""Energy as Batsim's -E states it: what each job's hosts draw while it runs, and what all compute hosts have drawn."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.base.errors import PlatformError

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


class HostWatts(NamedTuple):
    """What a host draws in a power state, as SimGrid reads "idle:busy" or "idle:least:busy"."""

    idle: float = 0.0
    least: float = 0.0  # when it computes at next to no speed; idle, unless it is given
    busy: float = 0.0  # at full speed; in between, linear in the speed

    def above_idle(self, task: ProfileTask) -> float:
        """What the host draws more than while it is idle, if it runs this work of one part."""
        return self.least - self.idle + task.load * (self.busy - self.least) if task.computes else 0.0


class EnergyMeter:
    """What the compute hosts have drawn since date 0, each in its first power state and with one job at a time.

    A host draws its busy watts while it computes at full speed, its idle watts while it does not, during a delay too.
    In a `parallel` profile a host with fewer operations than the busiest computes at a part of its speed; the hosts'
    average counts, which is exact if they draw the same watts.

    Args:
        platform: the machines.
        path: its file, for messages.

    Raises:
        PlatformError: a compute host does not say what it draws.
    """

    def __init__(self, platform: Platform, path: Path) -> None:
        compute = {host.name for host in platform.compute}
        watts = [watts_of(host, path) if host.name in compute else HostWatts() for host in platform.machines]
        self._watts = np.array(watts)  # (n_machines, 3)
        self._all = HostWatts(*self._watts.sum(axis=0).tolist())
        # Called with a row at each start and end of a job that has machines.
        self.on_row: Callable[[EnergyRow], None] = lambda row: None
        self._running: dict[SimulatedJob, HostWatts] = {}  # what its hosts draw together
        # What is drawn above idle: by the jobs of one part that run now, and until the row before by all such jobs and
        # by the sequences that have ended. Of a sequence that runs it changes from part to part.
        self._steady_w = self._above_j = 0.0
        self._sequences: dict[SimulatedJob, HostWatts] = {}  # those of `_running`; no set, whose order varies
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
        """A job of a workload is submitted."""
        if self._first_submission_j is None:
            self._first_submission_j = self._drawn_j(date)

    def started(self, job: SimulatedJob, date: float) -> None:
        """A job starts on its machines."""
        assert job.machines
        self._row(date, STARTED)
        watts = self._running[job] = HostWatts(*self._watts[job.machines.part].sum(axis=0).tolist())
        if job.task.parts:
            self._sequences[job] = watts
        else:
            self._steady_w += watts.above_idle(job.task)

    def ended(self, job: SimulatedJob, run_s: float, date: float) -> float:
        """A job ends after so many seconds; returns the joules that its machines drew meanwhile."""
        self._last_end_j = self._row(date, ENDED)
        watts = self._running.pop(job)
        above_j = joules_above_idle(job.task, run_s, watts)
        if job.task.parts:
            del self._sequences[job]
            self._above_j += above_j
        else:
            self._steady_w -= watts.above_idle(job.task)
        return watts.idle * run_s + above_j

    def _drawn_j(self, date: float) -> float:
        """What all compute hosts have drawn from date 0 to this date."""
        above_j = self._above_j + self._steady_w * (date - self._row_before[0])
        for job, watts in self._sequences.items():
            above_j += joules_above_idle(job.task, date - job.start_date, watts)
        return self._all.idle * date + above_j

    def _row(self, date: float, event: str) -> float:
        """Pass on the row of this event; returns what was drawn until then."""
        drawn_j, (date_before, drawn_before_j) = self._drawn_j(date), self._row_before
        passed_s = date - date_before
        watts = (drawn_j - drawn_before_j) / passed_s if passed_s > 0 else None
        self.on_row((date, drawn_j, event, self._all.least, watts))
        self._above_j += self._steady_w * passed_s
        self._row_before = date, drawn_j
        return drawn_j


def joules_above_idle(task: ProfileTask, run_s: float, watts: HostWatts) -> float:
    """The joules that the first `run_s` seconds of this work take above those of idle hosts.

    `watts` are those of all its hosts together.
    """
    if not task.parts:
        return run_s * watts.above_idle(task)
    round_s = sum(part.run_s for part in task.parts)
    rounds = min(int(run_s // round_s), task.repeat) if round_s else 0
    total_j = rounds * sum(joules_above_idle(part, part.run_s, watts) for part in task.parts) if rounds else 0.0
    left_s = run_s - rounds * round_s
    for part in task.parts:
        if left_s <= 0:
            break
        total_j += joules_above_idle(part, min(left_s, part.run_s), watts)
        left_s -= part.run_s
    return total_j


def watts_of(host: PlatformHost, path: Path) -> HostWatts:
    """What this host draws in its first power state.

    Raises:
        PlatformError: its property is missing, or has another form; the message begins with the platform's `path`.
    """
    text = host.properties.get(WATTS)
    if text is None:
        raise PlatformError(
            f'{path}: host {host.name!r} has no {WATTS}, which --energy needs; add <prop id="{WATTS}" '
            'value="idle:busy"/> in watts'
        )
    first, *_ = text.split(",")
    match = STATE.fullmatch(first)
    if not match:
        raise PlatformError(
            f"{path}: host {host.name!r}: {WATTS} {text!r:.60} does not begin with idle:busy watts; write it like "
            "100:200"
        )
    return HostWatts(float(match[1]), float(match[2] or match[1]), float(match[3]))
