"""A replay whose scheduler learns: it stops before each submission, is told what has ended, and judges the new jobs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from batfill.knowledge import Job
from batfill.knowledge.diary import Diary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from batfill.knowledge import Knowledge, Verdict
    from batfill.replay import Replay, Schedule


@dataclass(frozen=True, slots=True, eq=False)
class Driven:
    """A schedule, and what was made of each job at its submission; columns of shape (n_jobs,)."""

    schedule: Schedule
    small: NDArray[np.bool_]
    probability: NDArray[np.float64]  # nan where there was none
    divider_s: NDArray[np.float64]  # the last level's in force at the submission; inf where there was none


class Driver:
    """Drives one replay from its beginning to its end."""

    def __init__(
        self,
        run: Replay,
        knowledge: Knowledge,
        *,
        kill: bool = False,
        bound: bool = False,
        killable: NDArray[np.bool_] | None = None,
    ) -> None:
        """Prepare to drive.

        Args:
            run: a replay that stands at its beginning, made with `learns` and the knowledge's number of levels.
            knowledge: what to ask; it is used up.
            kill: whether small jobs are killed at their level's divider and go on in the next level, at last as large.
            bound: whether a job that will be killed at a divider is expected to end there at the latest.
            killable: whether each job may be killed, shape (n_jobs,); by default all.
        """
        assert kill or not bound
        assert len(run.queue.divider_s) == len(knowledge.dividers_s)
        self.run, self.knowledge, self.kill, self.bound = run, knowledge, kill, bound
        table, n_jobs = run.table, len(run.table)
        may_be = np.ones(n_jobs, bool) if killable is None else killable
        columns = (table.submit_s, table.walltime_s, table.procs, table.user, may_be)
        self.jobs = [Job(row, *job) for row, job in enumerate(zip(*(c.tolist() for c in columns), strict=True))]
        self.duration_s = run.events.duration_s.tolist()  # for the ends; no knowledge is given them
        self.diary = Diary(knowledge)
        self.seen_starts = self.seen_kills = 0
        self.begun_s: dict[int, float] = {}  # by row: the last start noted
        self.dividers_s: tuple[float, ...] = ()  # those that the replay knows
        self.small = np.zeros(n_jobs, bool)
        self.probability = np.full(n_jobs, np.nan)
        self.divider_s = np.full(n_jobs, np.inf)

    def drive(self, advance: Callable[[int], None] = lambda _: None) -> Driven:
        """Go to the end; `advance` is told of jobs judged."""
        fits = self.run.table.procs <= self.run.size
        for first, beyond in instants(self.run.table.submit_s):
            if not fits[first:beyond].any():  # what is rejected is no occasion to renew anything
                continue
            self.go_before(self.jobs[first].submit_s)
            self.learn(self.jobs[first].submit_s)
            self.judge(first, beyond)
            advance(beyond - first)
        self.go_before(math.inf)
        return Driven(self.run.schedule(), self.small, self.probability, self.divider_s)

    def go_before(self, until_s: float) -> None:
        """Handle all instants before this one, and be ready for it."""
        if not self.knowledge.outlived:
            self.run.advance(np.nextafter(until_s, -math.inf))
            return
        while (next_s := self.run.next_s) < until_s:
            self.run.correct(next_s)
            self.run.step()
        if until_s < math.inf:
            self.run.correct(until_s)

    def learn(self, now_s: float) -> None:
        """Let the knowledge know what it may, and the replay the divider."""
        self.watch_kills()
        self.watch_starts()
        self.diary.catch_up(now_s)
        if self.kill and self.dividers_s != self.knowledge.dividers_s:
            self.dividers_s = self.knowledge.dividers_s
            self.run.change_dividers(self.dividers_s, bound=self.bound)

    def watch_kills(self) -> None:
        """Note the tries that have been killed since the last time."""
        kills = self.run.kills
        for row, _, start_s, ran_s in kills[self.seen_kills :].tolist():
            self.note_start(row, start_s)
            self.diary.note(self.jobs[row], start_s + ran_s, ran_s, killed=True)
        self.seen_kills = len(kills)

    def watch_starts(self) -> None:
        """Note the tries that have started and not been killed, and when they will end unless they are killed yet."""
        run, tries = self.run, self.run.tries
        for row in dict.fromkeys(tries["row"][self.seen_starts :].tolist()):
            if run.queue.waits(row):
                continue
            start_s, ran_s = float(run.queue.jobs["start_s"][row]), self.duration_s[row]
            self.note_start(row, start_s)
            if not run.will_be_killed(row):
                self.diary.note(self.jobs[row], start_s + ran_s, ran_s, killed=False)
        self.seen_starts = len(tries)

    def note_start(self, row: int, start_s: float) -> None:
        """Note that a try begins, once."""
        if self.begun_s.get(row) != start_s:
            self.begun_s[row] = start_s
            self.diary.started(self.jobs[row], start_s)

    def judge(self, first: int, beyond: int) -> None:
        """Take down what is to be made of the jobs that are submitted at the next instant."""
        for row in range(first, beyond):
            job = self.jobs[row]
            if job.procs > self.run.size:
                continue
            verdict = self.knowledge.judge(job)
            self.small[row], self.probability[row] = verdict.small, verdict.probability
            self.divider_s[row] = self.knowledge.dividers_s[-1]
            self.take_down(job, verdict)

    def take_down(self, job: Job, verdict: Verdict) -> None:
        """Let the replay know of a job what the knowledge makes of it."""
        level = verdict.level if verdict.small else self.run.queue.large
        self.run.classify(job.row, level, killable=self.kill and job.killable, expected_s=verdict.expected_s)


def instants(submit_s: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """The rows of each submission instant, as (first, one beyond the last)."""
    firsts = np.flatnonzero(np.diff(submit_s, prepend=-1.0)).tolist()
    yield from zip(firsts, [*firsts, len(submit_s)][1:], strict=True)
