"""A replay whose scheduler learns, and how well: prediction quality and the cost of kills.

The replay stops before each submission, reports what has ended, and gets the new jobs judged.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.tables import ReadOnly
from batfill.engine.records import AWAY
from batfill.learn import SubmittedJob
from batfill.learn.classifier import Classifier
from batfill.learn.events import EventQueue
from batfill.learn.predictor import make
from batfill.model.metrics import width_class
from batfill.replays.engine_replay import EngineReplay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from batfill.learn import Judgement, Knowledge
    from batfill.model.jobs import Clock, Jobs
    from batfill.model.options import Options
    from batfill.model.schedule import Schedule


class LearningReplay:
    """One replay from start to end, driven by a predictor."""

    def __init__(
        self,
        run: EngineReplay,
        knowledge: Knowledge,
        *,
        kill: bool = False,
        bound: bool = False,
        killable: NDArray[np.bool_] | None = None,
        widest_try: int | None = None,
        own: bool = False,
    ) -> None:
        """`run` is at its beginning, made with `learns`, the predictor's `outlived`; do not use `knowledge` again.

        `kill`: kill small jobs at the divider and requeue them as large. `bound`: expect a job that will be killed at
        the divider to end there at the latest. `killable`: (n_jobs,), by default all. `widest_try`: wider jobs count as
        large, whatever the predictor says of them; None for no limit. `own`: a user's predictor, whose judgements are
        checked.
        """
        assert kill or not bound
        assert run.queue.rules.outlived or not knowledge.outlived
        self.run, self.knowledge, self.kill, self.bound, self.own = run, knowledge, kill, bound, own
        table, n_jobs = run.table, len(run.table)
        may_be = np.ones(n_jobs, bool) if killable is None else killable
        self.widest_try = run.size if widest_try is None else widest_try
        may_be = may_be & (table.procs <= self.widest_try)
        columns = (table.submit_s, table.expected_s, table.procs, table.user, may_be, table.asked_s, table.ids)
        self.jobs = [
            SubmittedJob(row, *job) for row, job in enumerate(zip(*(c.tolist() for c in columns), strict=True))
        ]
        self.duration_s = run.events.duration_s.tolist()  # for the ends; no predictor sees them
        self.events = EventQueue(knowledge)
        self.seen_starts = self.seen_kills = 0
        self.begun_s: dict[int, float] = {}  # by row: the last start noted
        self.undecided: list[tuple[float, int, float]] = []  # heap of (date, row, start): tries that may be spared then
        self.small = np.zeros(n_jobs, bool)
        self.probability = np.full(n_jobs, np.nan)
        self.divider_s = np.full(n_jobs, np.inf)

    def finish(self, advance: Callable[[int], None] = lambda _: None) -> Learned:
        """Run to the end; `advance` gets the number of jobs since its last call, rejected ones included."""
        fits = ~self.run.rejected
        for first, beyond in instants(self.run.table.submit_s):
            advance(beyond - first)
            if not fits[first:beyond].any():  # rejected jobs trigger no retraining
                continue
            self.go_before(self.jobs[first].submit_s)
            self.learn(self.jobs[first].submit_s)
            self.judge(first, beyond)
        self.go_before(math.inf)
        return Learned(self.knowledge, self.run.schedule(), self.small, self.probability, self.divider_s)

    def go_before(self, until_s: float) -> None:
        self.run.advance(np.nextafter(until_s, -math.inf))

    def learn(self, now_s: float) -> None:
        self.watch_kills()
        self.watch_starts()
        self.watch_spared()
        self.events.catch_up(now_s)
        if self.kill:
            self.run.queue.change_divider(self.knowledge.divider_s, bound=self.bound)

    def watch_kills(self) -> None:
        kills = self.run.kills
        for row, start_s, ran_s, *_ in kills[self.seen_kills :].tolist():
            self.note_start(row, start_s)
            self.events.add_end(self.jobs[row], start_s + ran_s, ran_s, killed=True)
        self.seen_kills = len(kills)

    def watch_starts(self) -> None:
        """Report the tries that have started and not been killed, with their ends unless they will be killed."""
        run, tries = self.run, self.run.tries
        for row in dict.fromkeys(tries["row"][self.seen_starts :].tolist()):
            if run.queue.jobs["section"][row] != AWAY:
                continue
            start_s, ran_s = float(run.queue.jobs["start_s"][row]), self.duration_s[row]
            self.note_start(row, start_s)
            divider_s = run.queue.kill_after_s(row)
            if not divider_s < ran_s:
                self.events.add_end(self.jobs[row], start_s + ran_s, ran_s, killed=False)
            elif run.queue.rules.spares:
                heappush(self.undecided, (start_s + divider_s, row, start_s))
        self.seen_starts = len(tries)

    def watch_spared(self) -> None:
        """Report the tries that have gone on at their dividers, with their ends."""
        queue = self.run.queue
        while self.undecided and self.undecided[0][0] <= self.run.now_s:
            _, row, start_s = heappop(self.undecided)
            if queue.jobs["start_s"][row] == start_s:  # otherwise it was killed
                ran_s = self.duration_s[row]
                self.events.add_end(self.jobs[row], start_s + ran_s, ran_s, killed=False)

    def note_start(self, row: int, start_s: float) -> None:
        if self.begun_s.get(row) != start_s:
            self.begun_s[row] = start_s
            self.knowledge.started(self.jobs[row], start_s)

    def judge(self, first: int, beyond: int) -> None:
        for row in range(first, beyond):
            job = self.jobs[row]
            if self.run.rejected[row]:
                continue
            verdict = self.knowledge.judge(job)
            expected_s = verdict.expected_s if verdict.key_expected_s is None else verdict.key_expected_s
            if self.own and not 0 < expected_s <= job.expected_s:
                raise BatfillError(
                    f"option predict: {self.knowledge.name} expects {expected_s:g} s of job {self.run.table.ids[row]}; "
                    "give more than 0 s, and at most its limit"
                )
            self.small[row], self.probability[row] = verdict.small, verdict.probability
            self.divider_s[row] = self.knowledge.divider_s
            self.apply(job, verdict)

    def apply(self, job: SubmittedJob, verdict: Judgement) -> None:
        small = verdict.small and job.procs <= self.widest_try
        killable = self.kill and job.killable
        self.run.queue.classify(
            job.row, small, killable=killable, expected_s=verdict.expected_s, key_expected_s=verdict.key_expected_s
        )


def instants(submit_s: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """The rows of each submission instant, as (first, last + 1)."""
    firsts = np.flatnonzero(np.diff(submit_s, prepend=-1.0)).tolist()
    yield from zip(firsts, [*firsts, len(submit_s)][1:], strict=True)


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of jobs by predicted and true class, and the quality of the probabilities, which no cut changes."""

    true_small: int
    false_small: int
    true_large: int
    false_large: int
    auc: float | None = None  # see `auc_of`; None without probabilities
    brier: float | None = None  # mean squared difference of probability and class (1 small, 0 large); Brier 1950

    @classmethod
    def of(
        cls,
        judged: NDArray[np.bool_],
        small: NDArray[np.bool_],
        probability: NDArray[np.float64] | None = None,
    ) -> Confusion:
        """From the jobs judged small, the jobs that were, and the probabilities of it, each of shape (n_jobs,).

        Without probabilities, or with one missing (nan), `auc` and `brier` are None.
        """
        counts = (judged & small, judged & ~small, ~judged & ~small, ~judged & small)
        found = cls(*(int(count.sum()) for count in counts))
        if probability is None or not len(probability) or np.isnan(probability).any():
            return found
        return replace(found, auc=auc_of(probability, small), brier=float(((probability - small) ** 2).mean()))

    @property
    def jobs(self) -> int:
        return self.true_small + self.false_small + self.true_large + self.false_large

    def rates(self) -> dict[str, float | None]:
        """The paper's rates, equations (1) to (3) and Table 6; None if the denominator is zero.

        The two false rates are relative to the predicted class, as in Table 6: FL / (FL + TL) and FS / (FS + TS).
        """
        right = self.true_small + self.true_large
        return {
            "accuracy": share_of(right, self.jobs),
            "precision": share_of(self.true_small, self.true_small + self.false_small),
            "recall": share_of(self.true_small, self.true_small + self.false_large),
            "false_large_rate": share_of(self.false_large, self.false_large + self.true_large),
            "false_small_rate": share_of(self.false_small, self.false_small + self.true_small),
        }

    def as_dict(self) -> dict[str, Any]:
        return {"jobs": self.jobs, **asdict(self), **self.rates()}


def auc_of(probability: NDArray[np.float64], small: NDArray[np.bool_]) -> float | None:
    """The probability that a small job has a higher value than a large one, ties half; None without both.

    It is the area under the receiver operating characteristic, from ranks in O(n log n). No value is nan. Source:
    Hanley and McNeil, Radiology 1982.
    """
    n_small = int(small.sum())
    n_large = len(small) - n_small
    if not n_small or not n_large:
        return None
    _, where, counts = np.unique(probability, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[where]  # from 1; equal values share the mean of their ranks
    return float((ranks[small].sum() - n_small * (n_small + 1) / 2) / (n_small * n_large))


def share_of(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def kills_by_width(schedule: Schedule) -> list[dict[str, float]]:
    return kills_by(schedule, width_class(schedule.jobs.procs), "procs_up_to", lambda width: 1 << width)


def kills_by_user(schedule: Schedule) -> list[dict[str, float]]:
    table = kills_by(schedule, schedule.jobs.user, "user", lambda user: user)
    return sorted((row for row in table if row["kills"]), key=lambda row: (-row["kills"], row["user"]))


def kills_by(schedule: Schedule, group: NDArray[np.int64], name: str, label: Any) -> list[dict[str, float]]:
    """A row per group: jobs, kills, kills per job, processor-seconds wasted and used, waste over use."""
    ran, killed, procs = ~schedule.rejected, schedule.kills["row"], schedule.jobs.procs
    tries = np.bincount(killed, minlength=len(procs))
    wasted = np.bincount(killed, weights=schedule.kills["ran_s"] * procs[killed], minlength=len(procs))
    used = schedule.runtime_s * procs + wasted
    groups, where = np.unique(group[ran], return_inverse=True)
    jobs, kills, wasted_s, used_s = (
        np.bincount(where, weights=column[ran], minlength=len(groups))
        for column in (np.ones(len(procs)), tries, wasted, used)
    )
    return [
        {
            name: label(int(groups[i])),
            "jobs": int(jobs[i]),
            "kills": int(kills[i]),
            "kill_share": float(kills[i] / jobs[i]),
            "wasted_proc_s": float(wasted_s[i]),
            "waste": float(wasted_s[i] / used_s[i]) if used_s[i] > 0 else 0.0,
        }
        for i in range(len(groups))
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Learned(ReadOnly):
    """A schedule, and the judgement of each job at its submission; columns of shape (n_jobs,), read-only."""

    knowledge: Knowledge  # which judged the jobs
    schedule: Schedule
    small: NDArray[np.bool_]
    probability: NDArray[np.float64]  # nan if there was none
    divider_s: NDArray[np.float64]  # in force at the submission; inf if there was none

    def confusion(self) -> Confusion:
        """Of the jobs judged by a forest (without one, while a divider was in force), by the divider of that time."""
        judged = np.isfinite(self.probability)
        if not judged.any():
            judged = np.isfinite(self.divider_s) & ~self.schedule.rejected
        small = self.schedule.runtime_s < self.divider_s
        return Confusion.of(self.small[judged], small[judged], self.probability[judged])

    def as_dict(self) -> dict[str, Any]:
        learned: dict[str, Any] = {"knowledge": self.knowledge.name}
        if isinstance(self.knowledge, Classifier):
            settings = self.knowledge.settings
            learned |= {"regime": settings.study.regime, "divider_rule": settings.study.divider_rule}
            learned |= {"seed": settings.seed, "trained": self.knowledge.trained}
        if self.knowledge.classifies:
            learned |= {"divider_at_end_s": self.knowledge.divider_s}
            learned |= self.confusion().as_dict()
        learned = {name: None if value in (math.inf, -math.inf) else value for name, value in learned.items()}
        if not len(self.schedule.kills):
            return {"learned": learned}
        killed = {"kills_by_width": kills_by_width(self.schedule), "kills_by_user": kills_by_user(self.schedule)}
        return {"learned": learned, **killed}

    def as_text(self) -> str:
        text = self.knowledge.name
        if isinstance(self.knowledge, Classifier):
            settings = self.knowledge.settings
            rule, trained = settings.study.divider_rule, self.knowledge.trained
            text += f" (divider rule {rule}, seed {settings.seed}, trained {trained} times)"
        if self.knowledge.classifies:
            found = self.confusion()
            shown = [f"{name} {rate:.1%}" for name, rate in found.rates().items() if rate is not None]
            scores = {"AUC": found.auc, "Brier score": found.brier}
            shown += [f"{name} {score:.3f}" for name, score in scores.items() if score is not None]
            text += f", divider {self.knowledge.divider_s:g} s: {', '.join(shown)}"
        return text


def replay_learning(
    jobs: Jobs, size: int, options: Options, clock: Clock | None, advance: Callable[[int], None]
) -> Learned:
    knowledge = make(options, jobs, clock)
    rules = replace(options.rules, divider_s=knowledge.divider_s, outlived=knowledge.outlived, bound=False)
    return LearningReplay(
        EngineReplay(jobs, size, rules, learns=True),
        knowledge,
        kill=options.kills,
        bound=options.bound,
        killable=jobs.killable,
        widest_try=options.widest_try(size),
        own=options.own is not None,
    ).finish(advance)
