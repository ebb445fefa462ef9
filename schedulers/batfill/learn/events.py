"""Starts and ends of jobs, delivered to a predictor in order of time, just before its next judgement."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from batfill.learn import SubmittedJob
from batfill.learn.classifier import Classifier
from batfill.learn.forest import load_forest_code

if TYPE_CHECKING:
    from batfill.learn import Judgement, Knowledge


class EventQueue:
    """A queue between host and predictor: ends may be added in any order and ahead of time."""

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self.coming: list[tuple[float, int, bool, float, SubmittedJob]] = []  # heap of (date, row, killed, ran, job)

    def add_end(self, job: SubmittedJob, end_s: float, ran_s: float, *, killed: bool) -> None:
        heappush(self.coming, (end_s, job.row, killed, ran_s, job))

    def catch_up(self, now_s: float) -> None:
        """Deliver all that happened before `now_s` and do the retraining due, in order of time."""
        self.renew_if_due(now_s)
        self.deliver(now_s)
        self.knowledge.renew(now_s)

    def renew_if_due(self, now_s: float) -> None:
        """Retrain if due; calling this later than needed changes nothing."""
        while (due_s := self.knowledge.renewal_s()) <= now_s:
            self.deliver(due_s)
            self.knowledge.renew(due_s)

    def deliver(self, before_s: float) -> None:
        while self.coming and self.coming[0][0] < before_s:
            date_s, _, killed, ran_s, job = heappop(self.coming)
            if killed:
                self.knowledge.killed(job, ran_s)
            else:
                self.knowledge.ended(job, ran_s, date_s)


class KnowledgeByName:
    """A predictor for a host that reports jobs one at a time, by name."""

    def __init__(self, knowledge: Knowledge) -> None:
        if isinstance(knowledge, Classifier):
            load_forest_code()  # before there are messages to answer
        self.knowledge = knowledge
        self.events = EventQueue(knowledge)
        self.jobs: dict[str, SubmittedJob] = {}  # waiting or running
        self.start_s: dict[str, float] = {}
        self.submitted = 0
        self.now_s = -math.inf  # of the last judgement

    def judge(
        self,
        name: str,
        submit_s: float,
        expected_s: float,
        procs: int,
        *,
        user: int,
        killable: bool,
        request_s: float,
    ) -> Judgement:
        if submit_s > self.now_s:
            self.events.catch_up(submit_s)
            self.now_s = submit_s
        job = SubmittedJob(self.submitted, submit_s, expected_s, procs, user, killable, request_s, name)
        self.submitted += 1
        self.jobs[name] = job
        return self.knowledge.judge(job)

    @property
    def divider_s(self) -> float:
        return self.knowledge.divider_s

    def at(self, now_s: float) -> None:
        """Do at `now_s` what the next judgement may need, such as training; all earlier ends are added."""
        self.events.renew_if_due(now_s)

    def started(self, name: str, now_s: float) -> None:
        self.start_s[name] = now_s
        self.knowledge.started(self.jobs[name], now_s)

    def ended(self, name: str, now_s: float, again: str | None = None) -> None:
        """A try has ended; `again` names the next try if this one was killed at the divider."""
        job = self.jobs.pop(name)
        self.events.add_end(job, now_s, now_s - self.start_s.pop(name), killed=again is not None)
        if again is not None:
            self.jobs[again] = job
