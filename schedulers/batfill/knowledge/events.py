"""What happens to the jobs, passed on to a knowledge in the order of time and not before it is asked for a verdict."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from batfill.knowledge import SubmittedJob
from batfill.knowledge.classifier import Classifier
from batfill.knowledge.forest import load_forest_code

if TYPE_CHECKING:
    from batfill.knowledge import Judgement, Knowledge


class EventQueue:
    """Stands between a host and its knowledge: ends may be added in any order, also ahead of time."""

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self.ends: list[
            tuple[float, int, float, bool, SubmittedJob]
        ] = []  # heap of (end, row, ran, whether killed, job)

    def started(self, job: SubmittedJob, start_s: float) -> None:
        """A try of this job starts, or started, then."""
        self.knowledge.started(job, start_s)

    def add_end(self, job: SubmittedJob, end_s: float, ran_s: float, *, killed: bool) -> None:
        """A try of this job ends, or ended, then; it ran whole or was killed at the divider."""
        heappush(self.ends, (end_s, job.row, ran_s, killed, job))

    def catch_up(self, now_s: float) -> None:
        """Pass on what ended before, and renew what is due, in the order of time."""
        self.renew_if_due(now_s)
        self.deliver(now_s)
        self.knowledge.renew(now_s)

    def renew_if_due(self, now_s: float) -> None:
        """Renew the knowledge as a whole if it is time; then it makes no difference how much later this is called."""
        while (due_s := self.knowledge.renewal_s()) <= now_s:
            self.deliver(due_s)
            self.knowledge.renew(due_s)

    def deliver(self, before_s: float) -> None:
        """Pass on the tries that ended before this instant."""
        while self.ends and self.ends[0][0] < before_s:
            end_s, _, ran_s, killed, job = heappop(self.ends)
            if killed:
                self.knowledge.killed(job, ran_s)
            else:
                self.knowledge.ended(job, ran_s, end_s)


class KnowledgeByName:
    """A knowledge beside a scheduler that hears of jobs one at a time, by name: judges them by what ended before."""

    def __init__(self, knowledge: Knowledge) -> None:
        if isinstance(knowledge, Classifier) and knowledge.settings.learns:
            load_forest_code()  # before there are messages to answer
        self.knowledge = knowledge
        self.events = EventQueue(knowledge)
        self.jobs: dict[str, SubmittedJob] = {}  # that wait or run
        self.start_s: dict[str, float] = {}
        self.submitted = 0
        self.now_s = -math.inf  # of the last judgement

    def judge(
        self, name: str, submit_s: float, walltime_s: float, procs: int, *, user: int, killable: bool
    ) -> Judgement:
        """What to make of a job that is submitted now."""
        if submit_s > self.now_s:
            self.events.catch_up(submit_s)
            self.now_s = submit_s
        job = SubmittedJob(self.submitted, submit_s, walltime_s, procs, user, killable)
        self.submitted += 1
        self.jobs[name] = job
        return self.knowledge.judge(job)

    @property
    def dividers_s(self) -> tuple[float, ...]:
        """The knowledge's dividers in force."""
        return self.knowledge.dividers_s

    def at(self, now_s: float) -> None:
        """It is `now_s`, and all ends before are added: begin what the next judgement may need."""
        self.events.renew_if_due(now_s)

    def started(self, name: str, now_s: float) -> None:
        """A try begins."""
        self.start_s[name] = now_s
        self.events.started(self.jobs[name], now_s)

    def ended(self, name: str, now_s: float, again: str | None = None) -> None:
        """A try has ended; `again` is the name of the next one where it was killed at the divider."""
        job = self.jobs.pop(name)
        self.events.add_end(job, now_s, now_s - self.start_s.pop(name), killed=again is not None)
        if again is not None:
            self.jobs[again] = job
