"""Writes a replay's schedule as Batsim's result files: the machines and final state of each job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.batsim_files import results
from batfill.batsim_files.allocation import lowest_idle
from batfill.batsim_files.machines import MachineTimes, intervals_text
from batfill.batsim_files.results import asked_of, metadata_text
from batfill.model.states import CANCELLED, FAILED, KILLED, REJECTED, SUCCESS, WALLTIME_REACHED, try_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from batfill.batsim_files.results import JobRecord, ScheduleTotals
    from batfill.model.schedule import Schedule


class Judged(NamedTuple):
    """The class a scheduler gave each job at its submission; columns of shape (n_jobs,)."""

    small: NDArray[np.bool_] | None  # None if jobs have no class
    probability: NDArray[np.float64]  # of being small; nan for none
    divider_s: NDArray[np.float64]  # in force at the submission; inf for none


def write_batsim_files(
    schedule: Schedule, prefix: Path, *, simulate_s: float, judged: Judged | None = None
) -> ScheduleTotals:
    """Write <prefix>_jobs.csv, <prefix>_machine_states.csv and <prefix>_schedule.csv, all of them or none.

    The wall-clock time `simulate_s` includes the scheduling; `judged` is for the column `metadata`.
    """
    rows = Tries(schedule, judged)
    with results.run_files(prefix) as files:
        for record in rows.records():
            files.job_ended(record)
        for date_s, computing in rows.computing():
            files.machines_changed((date_s, schedule.size - computing, computing))
        files.summarise(machines=schedule.size, times=rows.machine_times(), scheduling_s=0.0, simulation_s=simulate_s)
    return files.totals


def times_before(values: NDArray[np.int64]) -> NDArray[np.int64]:
    by_value = np.argsort(values, kind="stable")
    ordered = values[by_value]
    result = np.empty(len(values), np.int64)
    result[by_value] = np.arange(len(values)) - np.searchsorted(ordered, ordered)
    return result


def kept_before(kills: NDArray[np.void], kept_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """What tries before each of these had kept, which are in order of their jobs."""
    before = np.cumsum(kept_s) - kept_s
    return before - before[np.searchsorted(kills["row"], kills["row"])]


class Tries:
    """Every try of every job in start order, with its machines."""

    def __init__(self, schedule: Schedule, judged: Judged | None = None) -> None:
        self.schedule = schedule
        self.judged = judged
        self.row = schedule.order
        self.rejected = schedule.rejected  # computed at each access
        self.number = times_before(self.row)  # of the try among its job's
        kills = schedule.kills[np.argsort(schedule.kills["row"], kind="stable")]
        first, beyond = (np.searchsorted(kills["row"], self.row, side) for side in ("left", "right"))
        self.killed = self.number < beyond - first  # all of a job's tries but its last
        self.start_s, self.ran_s = schedule.start_s[self.row], (schedule.runtime_s - schedule.done_s)[self.row]
        kill = kills[(first + self.number)[self.killed]]
        self.start_s[self.killed], self.ran_s[self.killed] = kill["start_s"], kill["ran_s"]
        self.why = np.full(len(self.row), -1, np.int8)  # a try was stopped; -1 for one that was not
        self.why[self.killed] = kill["why"]
        self.kept_s = schedule.done_s[self.row]  # what earlier tries had done at the checkpoint where one began
        self.kept_s[self.killed] = kept_before(kills, schedule.kept_of(kills))[(first + self.number)[self.killed]]
        self.end_s = np.minimum(self.start_s + self.ran_s, schedule.jobs.cancel_s[self.row])
        self.by_end = np.argsort(self.end_s, kind="stable")
        self.procs = schedule.jobs.procs[self.row]
        self.fields = schedule.amounts_stated()
        self.machines, self.freed_s = lowest_idle(self.procs, self.start_s, self.end_s, self.by_end, schedule.size)

    def records(self) -> Iterator[JobRecord]:
        """A record per try and per job that is rejected, or leaves before a try, in the order they ended."""
        jobs = self.schedule.jobs
        killed, failed, left = self.schedule.killed, self.schedule.failed, self.schedule.left
        waiting = left & np.isnan(self.schedule.start_s)
        untried = np.flatnonzero(self.rejected | waiting)
        tries = np.bincount(self.row, minlength=len(jobs))
        dates = np.where(waiting, jobs.cancel_s, self.schedule.submit_s)[untried]
        dates = np.concatenate([self.end_s, dates])
        for i in np.argsort(dates, kind="stable").tolist():
            row = int(self.row[i]) if i < len(self.row) else int(untried[i - len(self.row)])
            number = int(self.number[i]) if i < len(self.row) else int(tries[row])
            walltime_s = float(jobs.walltime_s[row])
            request = (
                try_name(jobs.ids[row], number),
                "w0",
                f"delay{jobs.runtime_s[row]:.15g}",
                float(self.schedule.submit_s[row]),
                int(jobs.procs[row]),
                walltime_s if np.isfinite(walltime_s) else -1.0,
            )
            known = self.metadata(row, *((int(self.why[i]), float(self.kept_s[i])) if i < len(self.row) else (-1, 0.0)))
            if i >= len(self.row):
                yield results.JobRecord(*request, CANCELLED if waiting[row] else REJECTED, metadata=known)
                continue
            of_job = WALLTIME_REACHED if killed[row] else FAILED if failed[row] else SUCCESS
            of_job = CANCELLED if left[row] else of_job
            state = KILLED if self.killed[i] else of_job
            ran_s = max(float(self.ran_s[i]), results.NULL_EXECUTION_S)
            yield results.JobRecord(
                *request, state, float(self.start_s[i]), ran_s, intervals_text(self.machines.of(i)), known
            )

    def metadata(self, row: int, why: int, kept_s: float) -> str:
        """The metadata of a try of this job; only for the last try is it known whether it was backfilled."""
        jobs, judged = self.schedule.jobs, self.judged
        backfilled = (
            bool(self.schedule.backfilled[row]) if why < 0 and not np.isnan(self.schedule.start_s[row]) else None
        )
        asked_s = asked_of(float(jobs.asked_s[row]), float(jobs.walltime_s[row]))
        known: dict[str, Any] = {"urgent": jobs.urgent is not None and bool(jobs.urgent[row])}
        known |= {"why": why if why >= 0 else None, "kept_s": kept_s}
        if judged is not None:
            known |= {"probability": float(judged.probability[row]), "divider_s": float(judged.divider_s[row])}
            known["small"] = None if judged.small is None else bool(judged.small[row])
        takes = {name: float(values[row]) for name, values in self.fields.items() if values[row] >= 0}
        return metadata_text(user=int(jobs.user[row]), backfilled=backfilled, asked_s=asked_s, takes=takes, **known)

    def computing(self) -> Iterator[tuple[float, int]]:
        """(date, number of machines computing from then on), for every date at which that number changes."""
        dates, where = np.unique(np.concatenate([self.start_s, self.end_s]), return_inverse=True)
        change = np.bincount(where, weights=np.concatenate([self.procs, -self.procs]), minlength=len(dates))
        computing = np.cumsum(change).astype(np.int64)
        changed = np.diff(computing, prepend=0) != 0
        yield from zip(dates[changed].tolist(), computing[changed].tolist(), strict=True)

    def machine_times(self) -> MachineTimes:
        """Machine-seconds per state, each machine counted up to its last change, as Batsim does."""
        # Allocation starts from the lowest id, so machines above the highest one used never compute.
        used = self.machines.last.max(initial=-1) + 1
        computing_s = float((self.ran_s * self.procs).sum())
        return MachineTimes(computing_s, float(self.freed_s[:used].sum()) - computing_s)
