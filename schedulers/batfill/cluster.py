"""A cluster scheduled live: jobs come and go one at a time, and `decide` says who starts where.

What the compiled replay knows in advance comes piecemeal here, but the queue and the pass are the same. It speaks no
protocol; `scheduler` adapts it to pybatsim.
"""

from __future__ import annotations

import math
from bisect import bisect
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.allocation import IdleMachines, Intervals
from batfill.easy import (
    AWAY,
    JOB,
    STARTED,
    Rules,
    demote,
    dequeue,
    dividers_of,
    easy_pass,
    enqueue_at,
    finish,
    overdue,
    place_in_level,
    running_room,
    scratch_room,
)
from batfill.knowledge.corrections import correct
from batfill.waiting import OVERDUE, clear, enlarged, has_room, waiting_room

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from batfill.options import Options

# Neighbours in `seq`, so that a job which arrives late for its place can be put between two others.
GAP = 1 << 20
FIRST_ROOM = 1024


class Start(NamedTuple):
    """A job to start now."""

    job: str
    machines: Intervals
    kill_at_s: float  # when it is to be killed and requeued, if it still runs; inf for never


class Cluster:
    """The waiting and the running jobs of one cluster, under one set of options."""

    def __init__(self, machines: Iterable[int], options: Options) -> None:
        """An empty cluster of these machine ids."""
        ids = sorted(machines)
        policy, backfill = options.policy, options.backfill or options.policy
        self.size = len(ids)
        self.policy, self.backfill = policy, backfill
        self.bound = options.learning.bound
        levels = len(options.learning.settings.levels)
        self.dividers = dividers_of([options.divider_s] * levels)  # where they are learned: none yet
        self.outlived = options.learning.outlived
        self.rules = Rules(
            policy.kind,
            policy.weight,
            options.backfill is None,
            backfill.kind,
            backfill.weight,
            options.threshold_s,
        )
        self.idle = IdleMachines(intervals_of(ids))
        self.away: set[int] = set()  # machines that may not be used now

        self.jobs = np.zeros(FIRST_ROOM, JOB)
        self.scratch = scratch_room(FIRST_ROOM)
        self.waiting = waiting_room(self.size, levels)
        self.running = running_room(self.size, self.size)
        self.started = np.zeros(self.size, STARTED)
        self.names: list[str] = []  # by row
        self.rows: dict[str, int] = {}  # of the jobs that wait or run
        self.machines: dict[int, Intervals] = {}  # by row, of the running jobs
        self.start_s = np.zeros(FIRST_ROOM)  # by row
        self.divider_s = np.zeros(FIRST_ROOM)  # in force when its last try started
        self.walltime_s = np.zeros(FIRST_ROOM)
        self.corrections = np.zeros(FIRST_ROOM, np.int64)  # of expected run times that were outlived
        self.by_age: list[tuple[float, str, int]] = []  # (submission, id, row), ascending
        self.looked_at = 0  # how many of these have been looked at for being overdue
        self.small_left = 0  # jobs that may still be killed and requeued

    def submit(
        self,
        job: str,
        submit_s: float,
        walltime_s: float,
        procs: int,
        *,
        level: int | None = None,
        killable: bool = False,
        expected_s: float | None = None,
    ) -> bool:
        """Let a job wait. False: it can never run and is not taken.

        Args:
            job: its name.
            submit_s: when it was submitted.
            walltime_s: p~; inf where it has none.
            procs: q.
            level: of a small job, from 1 on; None for a large one.
            killable: whether a small job is killed at its level's divider.
            expected_s: the run time to expect; by default p~.
        """
        if not 1 <= procs <= self.size:
            return False
        row = len(self.names)
        if row == len(self.jobs):
            self.jobs, self.start_s, self.divider_s, self.walltime_s, self.corrections = (
                np.concatenate([column, np.zeros_like(column)])
                for column in (self.jobs, self.start_s, self.divider_s, self.walltime_s, self.corrections)
            )
            self.scratch = scratch_room(len(self.jobs))
        self.names.append(job)
        self.rows[job] = row
        age = (submit_s, job, row)
        entry = self.jobs[row]
        expected_s = walltime_s if expected_s is None else expected_s
        self.walltime_s[row] = walltime_s
        entry["submit_s"], entry["procs"] = submit_s, procs
        columns = np.array([submit_s]), np.array([expected_s]), np.array([procs])
        entry["key"] = self.policy.fixed_key(*columns)[0]
        entry["backfill_key"] = entry["key"] if self.rules.backfill_same else self.backfill.fixed_key(*columns)[0]
        large = len(self.dividers) + 1
        place_in_level(self.jobs, row, self.dividers, level or large, int(killable), float(expected_s))
        entry["section"] = AWAY
        if not self.by_age or age > self.by_age[-1]:
            entry["seq"] = GAP + (self.jobs[self.by_age[-1][2]]["seq"] if self.by_age else 0)
            self.by_age.append(age)
        else:
            self.put_between(age)
        self.small_left += int(entry["killable"])
        self.wait(row, int(entry["level"]))
        return True

    def put_between(self, age: tuple[float, str, int]) -> None:
        """Give a job that arrives after younger ones its `seq` between its neighbours."""
        place = bisect(self.by_age, age)
        self.by_age.insert(place, age)
        above = int(self.jobs[self.by_age[place + 1][2]]["seq"])
        below = int(self.jobs[self.by_age[place - 1][2]]["seq"]) if place else 0
        self.jobs[age[2]]["seq"] = (above + below) // 2
        if place < self.looked_at:  # its older neighbours were looked at already: look at it, too
            self.looked_at = place
        if above - below < 2:
            self.renumber()

    def renumber(self) -> None:
        """Space every job's `seq` anew, and order the waiting ones by it."""
        for place, (_, _, row) in enumerate(self.by_age):
            self.jobs[row]["seq"] = (place + 1) * GAP
        clear(self.waiting)
        for _, _, row in self.by_age:
            if (section := int(self.jobs[row]["section"])) != AWAY:
                self.wait(row, section)

    def wait(self, row: int, section: int | np.int64) -> None:
        """Put the job into a section of the queue."""
        if not has_room(self.waiting):
            self.waiting = enlarged(self.waiting)
        # What holds of the keys from a job's submission on holds now, too.
        enqueue_at(self.jobs[row]["submit_s"], section, self.waiting, self.running, self.jobs, self.rules, row)

    def requeue(self, job: str, now_s: float, name: str) -> None:
        """Let a job that was killed wait again, with its first submission time, under a new name."""
        row = self.rows.pop(job)
        self.rows[name] = row
        self.names[row] = name
        late = overdue(now_s, self.jobs[row]["submit_s"], self.rules.threshold_s)
        self.wait(row, OVERDUE if late else int(self.jobs[row]["level"]))

    def end(self, job: str, *, again: bool = False) -> None:
        """Give back the machines of a job that has ended; `again` if it was killed and goes on in the next level."""
        row = self.rows[job]
        entry = self.jobs[row]
        finish(self.running, row, self.start_s[row] + entry["estimate_s"])
        self.idle.give(without(self.machines.pop(row), self.away))
        self.small_left -= int(entry["killable"])
        if again:
            demote(self.jobs, row, self.dividers, self.divider_s[row], self.walltime_s[row])
            self.small_left += int(entry["killable"])
        else:
            del self.rows[job]

    def renew_dividers(self, dividers_s: Sequence[float]) -> None:
        """Kill the small jobs that start from now on at these, and bound by them what is expected of them."""
        dividers = dividers_of(dividers_s, bound=self.bound)
        if (dividers == self.dividers).all():
            return
        self.dividers = dividers
        if not self.bound:
            return
        for row in self.rows.values():
            entry = self.jobs[row]
            section = int(entry["section"])
            if section != AWAY and entry["killable"]:
                dequeue(self.waiting, self.running, self.jobs, self.rules, row)
                place_in_level(self.jobs, row, dividers, int(entry["level"]), 1, self.walltime_s[row])
                self.wait(row, section)

    def decide(self, now_s: float) -> list[Start]:
        """Start what EASY starts now, each on the idle machines with the lowest ids."""
        while self.looked_at < len(self.by_age):
            submit_s, _, row = self.by_age[self.looked_at]
            if not overdue(now_s, submit_s, self.rules.threshold_s):
                break
            if self.jobs[row]["section"] not in (AWAY, OVERDUE):
                dequeue(self.waiting, self.running, self.jobs, self.rules, row)
                self.wait(row, OVERDUE)
            self.looked_at += 1
        if self.outlived:
            running = self.running
            correct(now_s, running.jobs, running.state, self.jobs, self.start_s, self.walltime_s, self.corrections)
        n, _ = easy_pass(now_s, self.waiting, self.running, self.jobs, self.rules, self.scratch, self.started)
        return [self.place(row, now_s) for row in self.started["row"][:n].tolist()]

    def place(self, row: int, now_s: float) -> Start:
        """Give a starting job its machines."""
        entry = self.jobs[row]
        self.machines[row] = self.idle.take(int(entry["procs"]))
        self.start_s[row] = now_s
        if not entry["killable"]:
            return Start(self.names[row], self.machines[row], math.inf)
        divider_s = self.divider_s[row] = self.dividers["divider_s"][entry["level"] - 1]
        # A job whose walltime ends it by then needs no kill.
        kill_at_s = now_s + float(divider_s) if divider_s < self.walltime_s[row] else math.inf
        return Start(self.names[row], self.machines[row], kill_at_s)

    def withdraw(self, machines: Iterable[int]) -> None:
        """Use these machines no more; a job that runs on one of them runs on, and does not give it back."""
        for machine in set(machines) - self.away:
            self.away.add(machine)
            if self.idle.withdraw(machine):
                self.running.state["free"] -= 1
            else:
                self.change_release(machine, -1)

    def restore(self, machines: Iterable[int]) -> None:
        """These machines may be used again."""
        for machine in set(machines) & self.away:
            self.away.remove(machine)
            if not self.change_release(machine, 1):
                self.idle.give([(machine, machine)])
                self.running.state["free"] += 1

    def change_release(self, machine: int, by: int) -> bool:
        """Change by one what the job on this machine will give back; returns whether a job runs there."""
        for row, machines in self.machines.items():
            if any(first <= machine <= last for first, last in machines):
                running = self.running.jobs[: self.running.state["jobs"][0]]
                running["procs"][running["row"] == row] += by
                return True
        return False


def intervals_of(ids: list[int]) -> Intervals:
    """Ascending ids as intervals."""
    intervals: Intervals = []
    for machine in ids:
        if intervals and intervals[-1][1] == machine - 1:
            intervals[-1] = (intervals[-1][0], machine)
        else:
            intervals.append((machine, machine))
    return intervals


def without(intervals: Intervals, away: set[int]) -> Intervals:
    """The intervals without the machines that are away."""
    if not away:
        return intervals
    return intervals_of([m for first, last in intervals for m in range(first, last + 1) if m not in away])
