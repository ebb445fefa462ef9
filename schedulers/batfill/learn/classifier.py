"""Small or large, learned online from ended jobs: a random forest, retrained every week.

Source: Zrigui et al., JPDC 2022. Their decoupled learning is one of two regimes here. In no regime is anything known
of a job before it has ended in the current simulation.
"""

from __future__ import annotations

import math
from collections import Counter
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from batfill.learn import Judgement, Knowledge, SubmittedJob
from batfill.learn.forest import Forest, grown_beside
from batfill.learn.habits import FEATURE_NAMES, NO_CLOCK, RECORD, History, matrix
from batfill.learn.quantiles import Divided
from batfill.model.jobs import WEEK_S, Clock
from batfill.model.options import Options

if TYPE_CHECKING:
    from concurrent.futures import Future


SMALL_FROM = 0.5  # a job is small from this probability on


class Classifier(Knowledge):
    """The small/large classifier."""

    classifies = True

    def __init__(self, settings: Options, clock: Clock | None = None) -> None:
        self.settings = settings
        self.name = f"classifier-{self.settings.study.regime}"
        self.history = History(clock or NO_CLOCK)
        self.divided = Divided(settings.divider)
        self.divider_s = self.divided.value
        self.forest: Forest | None = None
        self.growing: Future[Forest] | None = None  # judges from the next job on
        self.settings.require_libraries()
        self.next_s: float = WEEK_S
        self.trained = 0  # forests, with the one that grows
        self.judged: dict[int, list[float]] = {}  # by row: the record, until the job ends
        # Heap of (start, row, number, job): tries, possibly ended.
        self.running: list[tuple[float, int, int, SubmittedJob]] = []
        self.starts: Counter[int] = Counter()  # by row, until the job ends
        self.kills: Counter[int] = Counter()
        self.ended_since: list[tuple[SubmittedJob, float, list[float]]] = []  # since `learn`: run times and records
        self.runtime_s = np.zeros(0)  # of earlier jobs, in order of their ends
        self.records = np.zeros((0, RECORD))

    def judge(self, job: SubmittedJob) -> Judgement:
        """Small if the forest says so; large before the first training."""
        if self.growing is not None:
            self.forest, self.growing = self.growing.result(), None
        place = self.history.place(job)
        chance = math.nan
        if self.forest is not None:
            chance = self.forest.probability(self.history.features(place, self.divider_s))
        small = chance >= SMALL_FROM and self.divider_s < math.inf
        self.judged[job.row] = place.record()
        return Judgement(job.expected_s, small, chance)

    def started(self, job: SubmittedJob, start_s: float) -> None:
        """Track the try: once it has run longer than the divider, the job is known to be large."""
        if self.settings.study.regime != "decoupled":
            self.starts[job.row] += 1
            heappush(self.running, (start_s, job.row, self.starts[job.row], job))

    def ended(self, job: SubmittedJob, runtime_s: float, end_s: float) -> None:
        record = self.judged.pop(job.row)
        del self.starts[job.row], self.kills[job.row]
        self.ended_since.append((job, runtime_s, record))
        if self.settings.study.regime != "decoupled":
            self.history.add(job, runtime_s)
        self.divided.median.add(runtime_s)

    def killed(self, job: SubmittedJob, ran_s: float) -> None:
        """The job is not small; its run time is unknown until it ends."""
        self.kills[job.row] += 1
        if self.settings.study.regime != "decoupled":
            self.history.outlasted(job)

    def renew(self, now_s: float) -> None:
        """Retrain at a week's end; with fresh information also update the divider."""
        if now_s >= self.next_s:
            self.learn(now_s)
        if self.settings.study.regime == "fresh":
            self.divider_s = self.divided.value
        while self.running and self.running[0][0] + self.divider_s <= now_s:
            _, row, number, job = heappop(self.running)
            if row in self.judged and self.kills[row] < number:  # it has not ended
                self.history.outlasted(job)

    def renewal_s(self) -> float:
        return self.next_s

    def learn(self, now_s: float) -> None:
        self.next_s = (now_s // WEEK_S) * WEEK_S + WEEK_S
        if not self.ended_since:
            return
        jobs, runtime_s, records = zip(*self.ended_since, strict=True)
        self.ended_since.clear()
        if self.settings.study.regime == "decoupled":
            for job, ran_s in zip(jobs, runtime_s, strict=True):
                self.history.add(job, ran_s)
        known = self.settings.study.divider_rule == "known"
        self.divider_s = self.divided.value if known else float(np.median(runtime_s))
        self.runtime_s = np.concatenate([self.runtime_s, runtime_s])
        self.records = np.concatenate([self.records, records])
        self.train()

    def train(self) -> None:
        records, series, divider_s = self.records, self.history.series(), self.divider_s
        small = self.runtime_s < divider_s
        if small.all() or not small.any():
            return
        seed = self.settings.seed + self.trained

        def grow() -> Forest:
            return Forest(matrix(records, series, divider_s), small, seed)

        self.growing = grown_beside(grow)
        self.trained += 1

    @property
    def importances(self) -> dict[str, float]:
        """Importance of each feature in the forest in force (decrease of impurity, summing to 1)."""
        forest = self.forest
        return {} if forest is None else dict(zip(FEATURE_NAMES, forest.importances.tolist(), strict=True))
