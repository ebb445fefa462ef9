"""A replay's schedule as Batsim's result files: which machines each job had, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill import outputs
from batfill.allocation import IdleMachines, Intervals, as_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from batfill.outputs import JobRecord, ScheduleTotals
    from batfill.replay import Schedule

WALLTIME_REACHED = "COMPLETED_WALLTIME_REACHED"
KILLED = "COMPLETED_KILLED"


def write_batsim_files(schedule: Schedule, prefix: Path, *, simulate_s: float) -> ScheduleTotals:
    """Write <prefix>_jobs.csv, <prefix>_machine_states.csv and <prefix>_schedule.csv.

    `simulate_s` is the wall-clock time of the replay, which had no other scheduler to wait for.
    """
    rows = Tries(schedule)
    totals = outputs.write_jobs_csv(beside(prefix, "jobs"), rows.records())
    with outputs.machine_states_csv(beside(prefix, "machine_states")) as write:
        for date_s, computing in rows.computing():
            write((date_s, schedule.size - computing, computing))
    times = rows.machine_times()
    outputs.write_schedule_csv(
        beside(prefix, "schedule"),
        totals,
        machines=schedule.size,
        times=times,
        scheduling_s=0.0,
        simulation_s=simulate_s,
    )
    return totals


def beside(prefix: Path, what: str) -> Path:
    """The file <prefix>_<what>.csv."""
    return prefix.with_name(f"{prefix.name}_{what}.csv")


class Tries:
    """Every try of every job in the order of their starts, with the machines it had."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.row = schedule.order
        # The log names a killed job twice: the first time is the try that was killed.
        first = np.zeros(len(self.row), bool)
        first[np.unique(self.row, return_index=True)[1]] = True
        self.killed = first & schedule.requeued[self.row]
        self.start_s = np.where(self.killed, schedule.first_try_s[self.row], schedule.start_s[self.row])
        self.ran_s = np.where(self.killed, schedule.divider_s[self.row], schedule.runtime_s[self.row])
        self.end_s = self.start_s + self.ran_s
        self.by_end = np.argsort(self.end_s, kind="stable")
        self.machines = self.allocate()

    def allocate(self) -> list[Intervals]:
        """The machines of each try: at each start the idle ones with the lowest ids."""
        idle = IdleMachines([(0, self.schedule.size - 1)])
        procs = self.schedule.jobs.procs
        machines: list[Intervals] = []
        ended = 0
        for row, start_s in zip(self.row.tolist(), self.start_s.tolist(), strict=True):
            while ended < len(machines) and self.end_s[self.by_end[ended]] <= start_s:
                idle.give(machines[self.by_end[ended]])
                ended += 1
            machines.append(idle.take(int(procs[row])))
        return machines

    def records(self) -> Iterator[JobRecord]:
        """A record per try and per rejected job, as they ended."""
        jobs = self.schedule.jobs
        killed = self.schedule.killed
        rejected = np.flatnonzero(self.schedule.rejected)
        dates = np.concatenate([self.end_s, jobs.submit_s[rejected]])
        for i in np.argsort(dates, kind="stable").tolist():
            row = int(self.row[i]) if i < len(self.row) else int(rejected[i - len(self.row)])
            again = i < len(self.row) and not self.killed[i] and self.schedule.requeued[row]
            walltime_s = float(jobs.walltime_s[row])
            asked = (
                f"{jobs.ids[row]}#1" if again else str(jobs.ids[row]),
                "w0",
                f"delay{jobs.runtime_s[row]:.15g}",
                float(jobs.submit_s[row]),
                int(jobs.procs[row]),
                walltime_s if np.isfinite(walltime_s) else -1.0,
            )
            if i >= len(self.row):
                yield outputs.JobRecord(*asked, outputs.REJECTED)
                continue
            state = KILLED if self.killed[i] else WALLTIME_REACHED if killed[row] else outputs.SUCCESS
            ran_s = max(float(self.ran_s[i]), outputs.NULL_EXECUTION_S)
            yield outputs.JobRecord(*asked, state, float(self.start_s[i]), ran_s, as_text(self.machines[i]))

    def computing(self) -> Iterator[tuple[float, int]]:
        """(date, machines that compute from then on), at every date where that number changes."""
        procs = self.schedule.jobs.procs[self.row]
        dates, where = np.unique(np.concatenate([self.start_s, self.end_s]), return_inverse=True)
        change = np.bincount(where, weights=np.concatenate([procs, -procs]), minlength=len(dates))
        computing = np.cumsum(change).astype(np.int64)
        changed = np.diff(computing, prepend=0) != 0
        yield from zip(dates[changed].tolist(), computing[changed].tolist(), strict=True)

    def machine_times(self) -> outputs.MachineTimes:
        """Machine-seconds per state, each machine counted up to its last change, as Batsim does."""
        last_s = np.zeros(self.schedule.size)
        for i in self.by_end.tolist():
            for first, last in self.machines[i]:
                last_s[first : last + 1] = self.end_s[i]
        computing_s = float((self.ran_s * self.schedule.jobs.procs[self.row]).sum())
        return outputs.MachineTimes(computing_s, float(last_s.sum()) - computing_s)
