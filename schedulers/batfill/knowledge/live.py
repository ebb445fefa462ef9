"""A knowledge beside a scheduler that is told of jobs one at a time, by name."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from batfill.knowledge import Job
from batfill.knowledge.classifier import Classifier
from batfill.knowledge.diary import Diary
from batfill.knowledge.forest import load

if TYPE_CHECKING:
    from batfill.knowledge import Knowledge, Verdict


class Live:
    """Judges jobs at their submission by what ended before."""

    def __init__(self, knowledge: Knowledge) -> None:
        if isinstance(knowledge, Classifier) and knowledge.learns:
            load()  # before there are messages to answer
        self.knowledge = knowledge
        self.diary = Diary(knowledge)
        self.jobs: dict[str, Job] = {}  # that wait or run
        self.start_s: dict[str, float] = {}
        self.submitted = 0
        self.now_s = -math.inf  # of the last judgement

    def judge(self, name: str, submit_s: float, walltime_s: float, procs: int, *, user: int, killable: bool) -> Verdict:
        """What to make of a job that is submitted now."""
        if submit_s > self.now_s:
            self.diary.catch_up(submit_s)
            self.now_s = submit_s
        job = Job(self.submitted, submit_s, walltime_s, procs, user, killable)
        self.submitted += 1
        self.jobs[name] = job
        return self.knowledge.judge(job)

    def at(self, now_s: float) -> None:
        """It is `now_s`, and all that has ended was told: begin what the next judgement may need."""
        self.diary.renew_what_is_due(now_s)

    def started(self, name: str, now_s: float) -> None:
        """A try begins."""
        self.start_s[name] = now_s
        self.diary.started(self.jobs[name], now_s)

    def ended(self, name: str, now_s: float, again: str | None = None) -> None:
        """A try has ended; `again` is the name of the next one where it was killed at the divider."""
        job = self.jobs.pop(name)
        self.diary.note(job, now_s, now_s - self.start_s.pop(name), killed=again is not None)
        if again is not None:
            self.jobs[again] = job
