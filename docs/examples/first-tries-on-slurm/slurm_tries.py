"""Decides on first tries in Slurm, and puts due and aging jobs forward; runs beside slurmctld as SlurmUser.

job_submit.lua sends new narrow jobs to the partition of tries, and notes on each job when it was submitted, its limit,
its place in the order and its partition. This looks at them every few seconds: a try at its divider is queued again in
its own partition if its processors are needed, and gets its own limit if they are not. Jobs that are due go first, and
where tries stand back they get none; their priority tells that they are due, so a restart forgets nothing. It takes
Python 3.9, and only the commands of Slurm; `--once` looks once and ends. The numbers are those of `--preset
first-tries`; TRY_S and AGE_S stand in job_submit.lua, too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from itertools import takewhile
from math import ceil, inf, isinf, log
from typing import NamedTuple

PARTITION: str = "first-try"
TRY_S: float = 120
ALWAYS: bool = False  # whether a try is queued again at its divider although its processors are not needed
THRESHOLD_S: float = 50_000  # jobs that have waited longer go first
HALF: bool = True  # whether only the older half of them does, at least 4
STAND_BACK: float = 32  # machines that waiting jobs request while tries stand back; inf if they never do
AGE_S: float = 20_000  # the place of a job that has waited for w seconds is higher by RISE * log(1 + w / AGE_S)
RISE: float = 14_000_000
EVERY_S: float = 15

TRIES, DUE = 1_000_000_000, 2_050_000_000  # the least site factor of a try, the largest of a job that goes first
ORIGIN_S = 1_735_689_600  # of the minutes that place jobs that go first: 2025-01-01
WAITS = ("Resources", "Priority", "None", "Nodes required")  # reasons of jobs that wait for processors
FIELDS = "JobArrayID:|,StateCompact:|,Reason:|,Partition:|,NumCPUs:|,TimeLimit:|,StartTime:|,RestartCnt:|,"


class Job(NamedTuple):
    """A waiting or running job."""

    id: str  # of tasks of an array 7_1, or 7_[2-9] together while they wait: 7 alone would be all of them
    reason: str
    tried: bool  # whether it is in the partition of tries
    cpus: int
    limit_s: float  # in force
    start_s: float  # inf while it waits
    restarts: int
    priority: int
    submit_s: float = inf  # from here on as noted at its submission
    own_limit_s: float = inf
    place: int = 0
    home: str = ""  # its partition; empty without a note

    @property
    def was_killed(self) -> bool:
        """Whether it was a try, and waits in the partition of tries although it gets no other."""
        return self.tried and self.restarts > 0


def slurm(*command: str) -> str | None:
    """What a command of Slurm prints, None if it fails; its complaints go to standard error."""
    environment = {**os.environ, "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def seconds(limit: str) -> float:
    """Of a time limit as 1-02:30:00, 30:00 or UNLIMITED."""
    days, _, clock = limit.rpartition("-")
    if not clock.replace(":", "").isdigit():
        return inf
    parts = [int(part) for part in clock.split(":")]
    hours, minutes, rest = [*parts, 0, 0][:3] if days else [0, 0, *parts][-3:]  # 1-12 is a day and 12 hours
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + rest


def plain(number: str) -> str:
    """The id of tasks as scontrol takes it: 7_[0-6:3%2] is 7_[0,3,6]."""
    steps = re.compile(r"(\d+)-(\d+):(\d+)")
    expanded = steps.sub(lambda at: ",".join(map(str, range(int(at[1]), int(at[2]) + 1, int(at[3])))), number)
    return re.sub(r"%\d+", "", expanded)


def tasks(number: str) -> int:
    """How many jobs wait under an id as `plain` writes it."""
    ranges = [part.partition("-") for part in number.partition("[")[2].rstrip("]").split(",")]
    return sum(int(last) - int(first) + 1 if last else 1 for first, _, last in ranges)


def job_of(row: str) -> Job:
    """The job of a line of squeue."""
    number, state, reason, partition, cpus, limit, start, restarts, priority, note = row.split("|", 9)
    start_s, limit_s = float(start) if state == "R" else inf, seconds(limit)
    seen = (plain(number), reason, partition == PARTITION, int(cpus), limit_s, start_s, int(restarts), int(priority))
    words = note.rstrip("|").split()
    if words[:1] != ["batfill"]:
        return Job(*seen, own_limit_s=limit_s)
    return Job(*seen, float(words[1]), float(words[2]), int(words[3]), words[4])


def outlook(waiting: list[Job], running: list[Job], free: int, now: float) -> tuple[set[str], float]:
    """The waiting jobs that could start now, each by itself, and when the first that could not is expected to."""
    able = [job.id for job in takewhile(lambda job: job.cpus <= free, waiting)]
    if len(able) == len(waiting):
        return set(able), now
    need, then, shadow_s = waiting[len(able)].cpus, free, inf
    for end_s, cpus in sorted((max(job.start_s + job.limit_s, now), job.cpus) for job in running):
        if then >= need and end_s > shadow_s:
            break
        then, shadow_s = then + cpus, end_s
    if then < need:
        then, shadow_s = need + free, inf
    fit = [job for job in waiting if job.cpus <= free and (now + job.limit_s <= shadow_s or job.cpus <= then - need)]
    return {*able, *(job.id for job in fit)}, shadow_s


def is_needed(job: Job, waiting: list[Job], running: list[Job], free: int, now: float) -> bool:
    """Whether a waiting job would start without this one, or the first would start later if this one goes on."""
    others = [other for other in running if other is not job]
    able, _ = outlook(waiting, running, free, now)
    without, sooner_s = outlook(waiting, others, free + job.cpus, now)
    _, later_s = outlook(waiting, [*others, job._replace(limit_s=job.own_limit_s)], free, now)
    return bool(without - able) or later_s > sooner_s


def decide(waiting: list[Job], running: list[Job], free: int, now: float) -> None:
    """Tries at their dividers are queued again or go on, the one with the least to lose first."""
    for job in sorted((job for job in running if job.tried), key=lambda job: (job.cpus, job.submit_s)):
        if now - job.start_s >= job.own_limit_s:
            slurm("scancel", job.id)
        elif now - job.start_s < TRY_S or job.limit_s >= job.own_limit_s:
            continue
        elif ALWAYS or is_needed(job, waiting, running, free, now):
            slurm("scontrol", "requeue", job.id)
            running, free = [other for other in running if other is not job], free + job.cpus
            able, _ = outlook(waiting, running, free, now)
            for other in [other for other in waiting if other.id in able]:
                if other.cpus <= free:
                    waiting, free = [later for later in waiting if later is not other], free - other.cpus
                    running = [*running, other._replace(start_s=now)]
        else:
            slurm("scontrol", "update", f"jobid={job.id}", f"timelimit={job.own_limit_s / 60:.0f}")
            running = [other._replace(limit_s=job.own_limit_s) if other is job else other for other in running]


def due_jobs(
    pending: list[Job], waiting: list[Job], sent: dict[str, int], cpus: tuple[int, int], now: float
) -> set[str]:
    """The jobs that go first: those overdue; where tries stand back, the head and a backlog too, until they start.

    `waiting` are the pending jobs that wait for processors, in their order; `cpus` are the idle ones, and all.
    """
    late = sorted((job for job in pending if now - job.submit_s > THRESHOLD_S), key=lambda job: job.submit_s)
    wanted = max(4, ceil(len(late) / 2)) if HALF else len(late)
    if isinf(STAND_BACK):
        return {job.id for job in late[:wanted]}
    free, size = cpus
    due = {job.id for job in pending if sent.get(job.id, job.priority) > 2 * TRIES and not job.was_killed}
    if free > 0 and waiting and not waiting[0].tried:
        due.add(waiting[0].id)
    missing = max(wanted - sum(job.id in due for job in late), 0)
    due.update([job.id for job in late if job.id not in due][:missing])
    if sum(job.cpus * tasks(job.id) for job in waiting) > STAND_BACK * size:
        due.update(job.id for job in waiting)
    return due


def order(pending: list[Job], due: set[str], sent: dict[str, int], now: float) -> dict[str, Job]:
    """Jobs whose place has moved get a new site factor; killed tries and due jobs leave the tries' partition.

    Returns them as they are then.
    """
    moved = {}
    for job in pending:
        leaves = job.was_killed or (job.tried and job.id in due and not isinf(STAND_BACK))
        place = min(job.place + int(RISE * log(1 + max(now - job.submit_s, 0) / AGE_S)), TRIES)
        factor = place + TRIES if job.tried and not leaves else place
        factor = DUE - int(job.submit_s - ORIGIN_S) // 60 if job.id in due else factor
        if leaves or abs(factor - sent.get(job.id, job.priority)) > RISE / 100:
            home = [f"partition={job.home}", f"timelimit={job.own_limit_s / 60:.0f}"] if leaves else []
            if slurm("scontrol", "update", f"jobid={job.id}", *home, f"sitefactor={factor}") is None:
                continue  # it has started, or the controller does not answer
            sent[job.id] = factor
            moved[job.id] = job._replace(priority=factor, limit_s=job.own_limit_s if leaves else job.limit_s)
    return moved


def look(sent: dict[str, int]) -> None:
    """One look at all jobs; `sent` keeps the site factors that were set."""
    rows = slurm("squeue", "-h", "-t", "PD,R", "-O", f"{FIELDS}PriorityLong:|,admin_comment:|")
    cpus = slurm("sinfo", "-h", "-o", "%C")  # allocated/idle/other/total
    if rows is None or cpus is None:
        return  # the controller does not answer
    free, size = (sum(int(row.split("/")[at]) for row in cpus.splitlines()) for at in (1, 3))
    now, jobs = time.time(), [job_of(row) for row in rows.splitlines()]
    pending = [job for job in jobs if job.start_s == inf and job.priority > 0]  # the others are held
    # No reason is known yet of a job that Slurm has not looked at, nor of one that was queued again just now.
    waiting = [job for job in pending if job.reason.startswith(WAITS) and not job.was_killed]
    waiting.sort(key=lambda job: (-job.priority, job.submit_s))
    noted = [job for job in pending if job.home]
    due = due_jobs(noted, [job for job in waiting if job.home], sent, (free, size), now)
    moved = order(noted, due, sent, now)  # before tries are killed, whose processors the first jobs are to take
    waiting = sorted((moved.get(job.id, job) for job in waiting), key=lambda job: (-job.priority, job.submit_s))
    decide(waiting, [job for job in jobs if job.start_s < inf], free, now)


if __name__ == "__main__":
    factors: dict[str, int] = {}
    look(factors)
    while "--once" not in sys.argv:
        time.sleep(EVERY_S)
        look(factors)
