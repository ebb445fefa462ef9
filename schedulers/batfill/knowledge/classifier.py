"""Small or large, learned online from ended jobs: a random forest, retrained every week.

Source: Zrigui et al., JPDC 2022. Their decoupled learning is one of three regimes here. In no regime is anything known
of a job before it has ended in the current simulation.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.jobs import WEEK_S, Clock
from batfill.knowledge import Judgement, Plain, SubmittedJob
from batfill.knowledge.features import FEATURE_NAMES, NO_CLOCK, RECORD, History, matrix
from batfill.knowledge.forest import Forest, grown_beside
from batfill.knowledge.quantiles import dividers_of, quantiles
from batfill.options import EXPECTED, Geometric, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

STEP = 0.0005  # change of the cut per job; ten times that makes it swing from end to end, and gains less


class Classifier(Plain):
    """The small/large classifier."""

    classifies = True

    def __init__(self, settings: Settings | None = None, clock: Clock | None = None) -> None:
        """Start without data; `clock` gives the log's hours and days."""
        self.settings = settings or Settings()
        self.name = f"classifier-{self.settings.regime}"
        self.history = History(clock or NO_CLOCK)
        self.quantiles = dividers_of(self.settings.levels, self.settings.seed)
        self.dividers_s = self.quantiles.values
        # One per divider, because the features contain the classes of earlier jobs by that divider.
        self.forests: list[Forest | None] = [None for _ in self.dividers_s]
        self.coming: deque[tuple[float, Future[list[Forest | None]]]] = deque()  # (when in force, forests), ascending
        self.cut = self.settings.cut
        self.budget = Budget(
            self.settings.max_waste, self.settings.max_kill_share, expected=self.settings.limits == EXPECTED
        )
        self.settings.require_libraries()
        self.drift = Drift()
        self.next_s: float = WEEK_S
        self.trained = 0
        self.judged: dict[int, tuple[list[float], bool]] = {}  # by row: record and verdict, until the job ends
        # Heap of (start, row, number, job): tries, possibly ended.
        self.running: list[tuple[float, int, int, SubmittedJob]] = []
        self.starts: Counter[int] = Counter()  # by row, until the job ends
        self.kills: Counter[int] = Counter()
        self.ended_since: list[tuple[SubmittedJob, float, list[float]]] = []  # since `learn`: run times and records
        self.runtime_s = np.zeros(0)  # of earlier jobs, in order of their ends
        self.records = np.zeros((0, RECORD))

    def judge(self, job: SubmittedJob) -> Judgement:
        """Small if a forest gives at least `cut`, at the first such level; large before the first training."""
        while self.coming and self.coming[0][0] <= job.submit_s:
            grown = self.coming.popleft()[1].result()
            self.forests = [new or old for new, old in zip(grown, self.forests, strict=True)]
            self.trained += 1
        place = self.history.place(job)
        chances = [
            forest.probability(self.history.features(place, divider_s)) if forest else math.nan
            for forest, divider_s in zip(self.forests, self.dividers_s, strict=True)
        ]
        if self.budget.limited:
            self.cut = self.budget.moved(self.cut)
        large = len(chances) + 1
        level = next(
            (k for k, chance in enumerate(chances, 1) if not self.settings.learns or chance >= self.cut), large
        )
        small = level < large and self.divider_s < math.inf
        if small and self.budget.limited:
            beyond = [self.beyond(k, chance) for k, chance in enumerate(chances)][level - 1 :]
            small = self.budget.takes(job, self.dividers_s[level - 1 :], beyond)
        self.judged[job.row] = place.record(), small
        return Judgement(job.walltime_s, small, chances[-1], level)

    def beyond(self, level: int, chance: float) -> float:
        """The probability of reaching a divider, counted from 0; without a forest, the share of the known jobs."""
        if not math.isnan(chance):
            return 1 - chance
        return float((self.runtime_s >= self.dividers_s[level]).mean()) if len(self.runtime_s) else 1.0

    def started(self, job: SubmittedJob, start_s: float) -> None:
        """Track the try: once it has run longer than the divider, the job is known to be large."""
        if self.settings.regime != "decoupled":
            self.starts[job.row] += 1
            heappush(self.running, (start_s, job.row, self.starts[job.row], job))

    def ended(self, job: SubmittedJob, runtime_s: float, end_s: float) -> None:
        """Add the job to the training data."""
        record, small = self.judged.pop(job.row)
        del self.starts[job.row], self.kills[job.row]
        self.budget.settle(job, runtime_s, killed=False)
        self.ended_since.append((job, runtime_s, record))
        if self.settings.regime != "decoupled":
            self.history.add(job, runtime_s)
        self.quantiles.add(runtime_s)
        if any(self.forests):
            self.drift.add(wrong=small != (runtime_s < self.divider_s))

    def killed(self, job: SubmittedJob, ran_s: float) -> None:
        """The job is not small, and `ran_s` is wasted; its run time is unknown until it ends."""
        self.budget.settle(job, ran_s, killed=True)
        self.kills[job.row] += 1
        # A job killed at one divider may still be shorter than the next.
        if self.settings.regime != "decoupled" and all(divider_s <= ran_s for divider_s in self.dividers_s[1:]):
            self.history.outlasted(job)

    def spared(self, job: SubmittedJob) -> None:
        """The job is not small either, as `renew` finds by the time it has run; it is no longer at risk."""
        self.budget.spare(job)

    def renew(self, now_s: float) -> None:
        """Retrain at a week's end or when due; with fresh information also update the dividers."""
        if now_s >= self.next_s or (self.drift.found and self.settings.on_drift):
            self.learn(now_s)
        if self.settings.regime == "fresh":
            self.dividers_s = self.quantiles.values
        while self.running and self.running[0][0] + self.divider_s <= now_s:
            _, row, number, job = heappop(self.running)
            if row in self.judged and self.kills[row] < number:  # it has not ended
                self.history.outlasted(job)

    def renewal_s(self) -> float:
        """The end of the week."""
        return self.next_s

    def learn(self, now_s: float) -> None:
        """Add the ended jobs to the training data, set the dividers and retrain."""
        period_s = 4 * WEEK_S if self.settings.on_drift else WEEK_S
        self.next_s = (now_s // WEEK_S) * WEEK_S + period_s
        if not self.ended_since:
            return
        jobs, runtime_s, records = zip(*self.ended_since, strict=True)
        self.ended_since.clear()
        if self.settings.regime == "decoupled":
            for job, ran_s in zip(jobs, runtime_s, strict=True):
                self.history.add(job, ran_s)
        levels = self.settings.levels
        if self.settings.divider_rule == "known" or isinstance(levels, Geometric):
            self.dividers_s = self.quantiles.values
        else:
            self.dividers_s = quantiles(runtime_s, levels)
        self.runtime_s = np.concatenate([self.runtime_s, runtime_s])
        self.records = np.concatenate([self.records, records])
        if self.settings.learns:
            self.train(now_s)
        self.drift = Drift()

    def train(self, now_s: float) -> None:
        """Start training forests on all known jobs; they judge once the training lag has passed."""
        records, series = self.records, self.history.series()
        classes = [(divider_s, self.runtime_s < divider_s) for divider_s in self.dividers_s]
        of_both = [0 < small.sum() < len(small) for _, small in classes]
        if not any(of_both):
            return
        seed = self.settings.seed + self.trained + len(self.coming)

        def grow() -> list[Forest | None]:
            return [
                Forest(matrix(records, series, divider_s), small, seed) if both else None
                for (divider_s, small), both in zip(classes, of_both, strict=True)
            ]

        self.coming.append((now_s + self.settings.train_lag_s, grown_beside(grow)))

    @property
    def importances(self) -> dict[str, float]:
        """Importance of each feature in the last divider's forest in force (decrease of impurity, summing to 1)."""
        forest = self.forests[-1]
        return {} if forest is None else dict(zip(FEATURE_NAMES, forest.importances.tolist(), strict=True))


class Drift:
    """Drift: the error rate of the last 200 jobs exceeds the earlier rate since training by three sigma.

    This is the test of DDM (Gama et al., SBIA 2004), three standard deviations of a binomial, on a sliding window
    instead of the mean since training, which reacts slowly.
    """

    WINDOW = 200  # jobs
    DEVIATIONS = 3.0

    def __init__(self) -> None:
        self.recent: deque[bool] = deque()
        self.recent_errors = 0
        self.before = 0  # jobs
        self.errors_before = 0

    def add(self, *, wrong: bool) -> None:
        """Add a job whose class is now known."""
        self.recent.append(wrong)
        self.recent_errors += wrong
        if len(self.recent) > self.WINDOW:
            oldest = self.recent.popleft()
            self.recent_errors -= oldest
            self.errors_before += oldest
            self.before += 1

    @property
    def found(self) -> bool:
        """Whether the window has over `DEVIATIONS` standard deviations more errors than the earlier rate predicts."""
        if self.before < self.WINDOW:
            return False
        rate = self.errors_before / self.before
        expected = rate * self.WINDOW
        return self.recent_errors > expected + self.DEVIATIONS * math.sqrt(max(expected, 1.0) * (1 - rate))


class Try(NamedTuple):
    """A try under way or to come that may be killed."""

    proc_s: float  # wasted if it is
    chance: float  # of that, as it is counted


@dataclass(slots=True)
class Budget:
    """Keeps wasted work and kills per job below an administrator's limits, by moving the cut.

    A job is taken as small only if what was lost, what is counted for the small jobs in the system, and what is counted
    for this one stay within the limits. Strictly, every try that may be killed counts in full, so the limits hold
    whatever happens. By expectation each counts with its probability of being killed. Whatever the probabilities are
    worth, the kills then exceed their limit by `margin_kills` at most, the tries that could be killed when a job was
    taken less what was counted for them, and the waste by `margin_proc_s`; what is lost counts in full from then on, so
    the next jobs pay for it.

    The cut falls below the limits and rises near them: the budget goes to the jobs that are most likely small.
    """

    max_waste: float = math.inf  # processor-seconds of killed tries over all processor-seconds used
    max_kill_share: float = math.inf  # killed tries over jobs that have ended
    expected: bool = False
    used_proc_s: float = 0.0
    wasted_proc_s: float = 0.0
    ended: int = 0
    kills: int = 0
    spared: int = 0  # tries that went on at their dividers
    tries: dict[int, list[Try]] = field(default_factory=dict)  # by row, of the small jobs in the system
    counted_proc_s: float = 0.0  # for these tries
    counted_kills: float = 0.0
    worst_proc_s: float = 0.0  # if all of them are killed
    worst_kills: int = 0
    margin_proc_s: float = 0.0  # the most by which the worst exceeded what was counted, when a job was taken
    margin_kills: float = 0.0

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.max_waste < math.inf or self.max_kill_share < math.inf

    def spent(self, more_proc_s: float = 0.0, more_kills: float = 0.0) -> float:
        """The used share of the scarcer budget (1 is all), including what is counted and this much more."""
        wasted = self.wasted_proc_s + self.counted_proc_s + more_proc_s
        kills = self.kills + self.counted_kills + more_kills
        shares = [
            value / (most * whole) if most * whole > 0 else math.inf
            for value, most, whole in (
                (wasted, self.max_waste, self.used_proc_s),
                (kills, self.max_kill_share, float(self.ended)),
            )
            if most < math.inf
        ]
        return max(shares, default=0.0)

    def moved(self, cut: float) -> float:
        """The cut for the next job."""
        return min(max(cut + (STEP if self.spent() > 0.9 else -STEP), 0.0), 1.0)

    def takes(self, job: SubmittedJob, dividers_s: Sequence[float], beyond: Sequence[float]) -> bool:
        """Whether the limits allow this job to be tried up to these dividers; if so, its tries are counted.

        Args:
            job: the job.
            dividers_s: of its tries, ascending.
            beyond: the probability that the job reaches each divider.
        """
        chances = self.chances(beyond)
        tries = [
            Try(divider_s * job.procs, chance)
            for divider_s, chance in zip(dividers_s, chances, strict=True)
            if job.killable and divider_s < job.walltime_s
        ]
        if not tries:
            return True
        if self.spent(sum(a.proc_s * a.chance for a in tries), sum(a.chance for a in tries)) > 1:
            return False
        self.count(job, tries)
        self.margin_proc_s = max(self.margin_proc_s, self.worst_proc_s - self.counted_proc_s)
        self.margin_kills = max(self.margin_kills, self.worst_kills - self.counted_kills)
        return True

    def chances(self, beyond: Sequence[float]) -> list[float]:
        """The probability that each try is killed: that the job reaches the divider, and is killed at all up to it.

        Of the tries at their dividers the share killed so far is expected, as if one more had been: all of them unless
        a kill rule spares some.
        """
        if not self.expected:
            return [1.0] * len(beyond)
        share = (self.kills + 1) / (self.kills + self.spared + 1)
        # Each forest is trained by itself, so a later divider may seem easier to reach than an earlier one.
        return [reached * share**number for number, reached in enumerate(accumulate(beyond, min), 1)]

    def count(self, job: SubmittedJob, tries: list[Try]) -> None:
        """Replace the tries of the job that may still be killed."""
        before = self.tries.pop(job.row, [])
        for sign, those in ((-1, before), (1, tries)):
            self.counted_proc_s += sign * sum(a.proc_s * a.chance for a in those)
            self.counted_kills += sign * sum(a.chance for a in those)
            self.worst_proc_s += sign * sum(a.proc_s for a in those)
            self.worst_kills += sign * len(those)
        if tries:
            self.tries[job.row] = tries

    def settle(self, job: SubmittedJob, ran_s: float, *, killed: bool) -> None:
        """A try has ended, or was killed, which makes the job's next kills likelier."""
        first, *later = self.tries.get(job.row) or [Try(0.0, 1.0)]
        likelier = [Try(a.proc_s, min(a.chance / first.chance, 1.0) if first.chance > 0 else 1.0) for a in later]
        self.count(job, likelier if killed else [])
        self.used_proc_s += ran_s * job.procs
        if killed:
            self.wasted_proc_s += ran_s * job.procs
            self.kills += 1
        else:
            self.ended += 1

    def spare(self, job: SubmittedJob) -> None:
        """A try goes on at its divider, and the job is not killed any more."""
        self.count(job, [])
        self.spared += 1
