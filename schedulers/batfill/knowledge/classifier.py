"""Small or large, learned online from the jobs that have ended: a random forest, trained anew every week.

Source: Zrigui et al., JPDC 2022. What they decoupled from the simulation is one of three regimes here; in none of them
is anything known of a job before it has ended in the simulation at hand.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Literal

import numpy as np

from batfill.knowledge import Job, Plain, Verdict
from batfill.knowledge.budget import Budget
from batfill.knowledge.features import NAMES, NO_CLOCK, RECORD, History, matrix
from batfill.knowledge.forest import Forest, grown_beside
from batfill.knowledge.median import RollingMedian
from batfill.workloads.clock import WEEK_S, Clock

if TYPE_CHECKING:
    from concurrent.futures import Future

Regime = Literal["decoupled", "weekly", "fresh"]
DividerRule = Literal["known", "week"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How the classifier learns; every result names them."""

    regime: Regime = "fresh"  # decoupled: lags, shares, divider and forest of the last week's end; weekly: lags and
    # shares as of now; fresh: the divider, too
    divider_rule: DividerRule = (
        "known"  # the median run time of all known jobs, or of those that ended in the last week
    )
    cut: float = 0.5  # the probability from which a job counts as small; at 0 all do, and nothing but the divider is
    # learned
    seed: int = 0
    on_drift: bool = False  # train when the errors grow and every fourth week, instead of every week
    train_lag_s: float = 0.0  # from the end of what a forest has learned from to its first judgement
    max_waste: float = math.inf  # limits that move the cut, see `Budget`
    max_kill_share: float = math.inf

    def __post_init__(self) -> None:
        assert 0 <= self.cut <= 1
        assert self.regime != "fresh" or self.divider_rule == "known", "a week's median is renewed with the week"


class Classifier(Plain):
    """The small/large classifier."""

    classifies = True

    def __init__(self, settings: Settings | None = None, clock: Clock | None = None) -> None:
        """Know nothing; `clock` gives the log's own hours and days."""
        self.settings = settings or Settings()
        self.name = f"classifier-{self.settings.regime}"
        self.history = History(clock or NO_CLOCK)
        self.median = RollingMedian()
        self.divider_s = math.inf
        self.forest: Forest | None = None
        self.coming: deque[tuple[float, Future[Forest]]] = deque()  # (when in force, forest), ascending
        self.cut = self.settings.cut
        self.budget = Budget(self.settings.max_waste, self.settings.max_kill_share)
        self.learns = self.settings.cut > 0 or self.budget.limited
        self.drift = Drift()
        self.next_s: float = WEEK_S
        self.trained = 0
        self.judged: dict[int, tuple[list[float], bool]] = {}  # by row: record and verdict, until the job ends
        self.running: list[tuple[float, int, Job]] = []  # heap of (start, row, job): tries, also some that have ended
        self.ended_since: list[tuple[Job, float, list[float]]] = []  # since `learn`: run times and records
        self.runtime_s = np.zeros(0)  # of the jobs before, in the order of their ends
        self.records = np.zeros((0, RECORD))

    def judge(self, job: Job) -> Verdict:
        """Small if the forest says so with a probability of `cut`; large while there is no forest."""
        while self.coming and self.coming[0][0] <= job.submit_s:
            self.forest = self.coming.popleft()[1].result()
            self.trained += 1
        place = self.history.place(job)
        probability = math.nan
        if self.forest:
            probability = self.forest.probability(self.history.features(place, self.divider_s))
        if self.budget.limited:
            self.cut = self.budget.moved(self.cut)
        small = self.divider_s < math.inf and (not self.learns or probability >= self.cut)
        small = small and (not self.budget.limited or self.budget.takes(job, self.divider_s))
        self.judged[job.row] = place.record(), small
        return Verdict(job.walltime_s, small, probability)

    def started(self, job: Job, start_s: float) -> None:
        """If it runs long enough, its class will be known before its end."""
        if self.settings.regime != "decoupled":
            heappush(self.running, (start_s, job.row, job))

    def ended(self, job: Job, runtime_s: float, end_s: float) -> None:
        """One more job to learn from."""
        record, small = self.judged.pop(job.row)
        self.budget.settle(job, runtime_s, killed=False)
        self.ended_since.append((job, runtime_s, record))
        if self.settings.regime != "decoupled":
            self.history.add(job, runtime_s)
        self.median.add(runtime_s)
        if self.forest is not None:
            self.drift.add(wrong=small != (runtime_s < self.divider_s))

    def killed(self, job: Job, ran_s: float) -> None:
        """It is not small, and costs what it ran; its run time is not known before its end."""
        self.budget.settle(job, ran_s, killed=True)
        if self.settings.regime != "decoupled":
            self.history.outlasted(job)

    def renew(self, now_s: float) -> None:
        """At a week's end, or when due, train; under fresh information the divider is that of now."""
        if now_s >= self.next_s or (self.drift.found and self.settings.on_drift):
            self.learn(now_s)
        if self.settings.regime == "fresh":
            self.divider_s = self.median.value
        while self.running and self.running[0][0] + self.divider_s <= now_s:
            _, row, job = heappop(self.running)
            if row in self.judged:  # it has not ended
                self.history.outlasted(job)

    def renewal_s(self) -> float:
        """The week's end."""
        return self.next_s

    def learn(self, now_s: float) -> None:
        """Take over what this week has shown."""
        period_s = 4 * WEEK_S if self.settings.on_drift else WEEK_S
        self.next_s = (now_s // WEEK_S) * WEEK_S + period_s
        if not self.ended_since:
            return
        jobs, runtime_s, records = zip(*self.ended_since, strict=True)
        self.ended_since.clear()
        if self.settings.regime == "decoupled":
            for job, ran_s in zip(jobs, runtime_s, strict=True):
                self.history.add(job, ran_s)
        self.divider_s = self.median.value if self.settings.divider_rule == "known" else float(np.median(runtime_s))
        self.runtime_s = np.concatenate([self.runtime_s, runtime_s])
        self.records = np.concatenate([self.records, records])
        if self.learns:
            self.train(now_s)
        self.drift = Drift()

    def train(self, now_s: float) -> None:
        """Begin to grow a forest from all jobs known, which comes into force when the lag has passed."""
        divider_s, records, series = self.divider_s, self.records, self.history.series()
        small = self.runtime_s < divider_s
        if 0 < small.sum() < len(small):
            seed = self.settings.seed + self.trained + len(self.coming)
            forest = grown_beside(lambda: Forest(matrix(records, series, divider_s), small, seed))
            self.coming.append((now_s + self.settings.train_lag_s, forest))

    @property
    def importances(self) -> dict[str, float]:
        """What each feature contributes to the forest in force (decrease of Gini impurity, summing to 1)."""
        return {} if self.forest is None else dict(zip(NAMES, self.forest.importances.tolist(), strict=True))


class Drift:
    """Whether the last jobs' errors are more than those before them, since the training, explain.

    The test is DDM's (Gama et al., SBIA 2004), three standard deviations of a binomial, against a window of the last
    jobs instead of all since the training, whose mean is slow.
    """

    WINDOW = 200  # jobs
    DEVIATIONS = 3.0

    def __init__(self) -> None:
        self.recent: deque[bool] = deque()
        self.recent_errors = 0
        self.before = 0  # jobs
        self.errors_before = 0

    def add(self, *, wrong: bool) -> None:
        """One more job's class is known."""
        self.recent.append(wrong)
        self.recent_errors += wrong
        if len(self.recent) > self.WINDOW:
            oldest = self.recent.popleft()
            self.recent_errors -= oldest
            self.errors_before += oldest
            self.before += 1

    @property
    def found(self) -> bool:
        """Whether there are `DEVIATIONS` more errors in the window than the rate before it lets expect."""
        if self.before < self.WINDOW:
            return False
        rate = self.errors_before / self.before
        expected = rate * self.WINDOW
        return self.recent_errors > expected + self.DEVIATIONS * math.sqrt(max(expected, 1.0) * (1 - rate))
