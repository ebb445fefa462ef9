"""Several runs of one workload against each other: the same jobs, paired, and what differs beyond chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.metrics import bounded_slowdown
from batfill.report.runs import REFUSED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from batfill.report.runs import Run

WEEK_S, DAY_S = 7 * 24 * 3600.0, 24 * 3600.0
FEWEST_BLOCKS = 8
RESAMPLES = 10_000
CONFIDENCE = 0.95
CURVE_POINTS = 300


class Interval(NamedTuple):
    """A mean and the ends of its confidence interval."""

    mean: float
    low: float
    high: float


class Difference(NamedTuple):
    """A run against the first one, over the same jobs: this run's mean minus the first's."""

    name: str
    bsld: Interval
    wait_s: Interval
    better: float  # share of the jobs that wait less
    worse: float  # share of the jobs that wait more


class Rank(NamedTuple):
    """A run's place among the others."""

    name: str
    mean_bsld: float
    mean_wait_s: float
    best_in: int  # weeks in which its mean bounded slowdown is the lowest, ties included
    mean_rank: float  # of the weekly means; ties share a rank


class Box(NamedTuple):
    """How a run's weekly means are spread: the 5th, 25th, 50th, 75th and 95th percentiles."""

    name: str
    low: float
    quartile: float
    median: float
    upper_quartile: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Runs of the same jobs. Columns have a row per job that ran in all of them, in order of submission."""

    names: tuple[str, ...]  # (n_runs,)
    submit_s: NDArray[np.float64]  # (n_jobs,)
    bsld: NDArray[np.float64]  # (n_runs, n_jobs)
    wait_s: NDArray[np.float64]  # (n_runs, n_jobs)

    @property
    def weeks(self) -> NDArray[np.int64]:
        """Each job's week, counted from the first submission, shape (n_jobs,); weeks without a job are left out."""
        return self.blocks(WEEK_S)

    def blocks(self, length_s: float) -> NDArray[np.int64]:
        """Each job's block of this length."""
        since_s = self.submit_s - self.submit_s.min()
        return np.unique((since_s // length_s).astype(np.int64), return_inverse=True)[1]

    @property
    def weekly_bsld(self) -> NDArray[np.float64]:
        """The mean bounded slowdown of the jobs submitted in each week, shape (n_runs, n_weeks)."""
        weeks = self.weeks
        return np.array([np.bincount(weeks, weights=row) for row in self.bsld]) / np.bincount(weeks)

    def weekly_boxes(self) -> list[Box]:
        """A box per run, of its weekly mean bounded slowdowns."""
        spread = np.quantile(self.weekly_bsld, [0.05, 0.25, 0.5, 0.75, 0.95], axis=1)
        return [Box(name, *spread[:, k].tolist()) for k, name in enumerate(self.names)]

    def cumulative(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(dates, sums): the bsld of all jobs submitted until then, over the number of all jobs; ends at the mean."""
        at = np.unique(np.linspace(0, len(self.submit_s) - 1, CURVE_POINTS).astype(np.int64))
        return self.submit_s[at], (np.cumsum(self.bsld, axis=1) / len(self.submit_s))[:, at]

    def ranking(self) -> list[Rank]:
        """The runs, the lowest mean bounded slowdown first."""
        weekly = self.weekly_bsld
        lower = (weekly[:, None, :] > weekly[None, :, :]).sum(axis=1)
        tied = (weekly[:, None, :] == weekly[None, :, :]).sum(axis=1)
        ranks = lower + (tied + 1) / 2
        rows = [
            Rank(
                name,
                float(self.bsld[k].mean()),
                float(self.wait_s[k].mean()),
                int((lower[k] == 0).sum()),
                float(ranks[k].mean()),
            )
            for k, name in enumerate(self.names)
        ]
        return sorted(rows, key=lambda row: row.mean_bsld)

    @property
    def block_s(self) -> float:
        """How long the blocks of the bootstrap are: weeks, or days where there are few weeks."""
        return WEEK_S if int(self.weeks.max(initial=0)) + 1 >= FEWEST_BLOCKS else DAY_S

    def differences(self, seed: int) -> list[Difference]:
        """Every run but the first against the first.

        Neighbouring jobs wait for each other, so whole blocks of time are drawn, not jobs; the interval is the
        percentile bootstrap's. Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993.
        """
        blocks = self.blocks(self.block_s)
        jobs = np.bincount(blocks)
        drawn = np.random.default_rng(seed).multinomial(len(jobs), np.full(len(jobs), 1 / len(jobs)), RESAMPLES)
        drawn_jobs = drawn @ jobs

        def interval(values: NDArray[np.float64]) -> Interval:
            means = (drawn @ np.bincount(blocks, weights=values)) / drawn_jobs
            low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
            return Interval(float(values.mean()), float(low), float(high))

        found = []
        for k in range(1, len(self.names)):
            wait_s = self.wait_s[k] - self.wait_s[0]
            better, worse = float((wait_s < 0).mean()), float((wait_s > 0).mean())
            found.append(
                Difference(self.names[k], interval(self.bsld[k] - self.bsld[0]), interval(wait_s), better, worse)
            )
        return found


def comparisons(runs: Sequence[Run], tau_s: float) -> list[Comparison]:
    """A comparison for every workload of which there are several runs, in the order of their first runs."""
    groups: list[list[Run]] = []
    for run in runs:
        if group := next((group for group in groups if same_jobs(group[0], run)), None):
            group.append(run)
        else:
            groups.append([run])
    return [compared(group, tau_s) for group in groups if len(group) > 1 and group[0].final.any()]


def same_jobs(one: Run, other: Run) -> bool:
    """Whether the two ran the same workload: equal ids, submission times and widths."""
    a, b = one.attempt == 0, other.attempt == 0
    return bool(
        a.sum() == b.sum()
        and np.array_equal(one.submit_s[a], other.submit_s[b])
        and np.array_equal(one.procs[a], other.procs[b])
        and np.array_equal(one.ids[a], other.ids[b])
    )


def compared(runs: Sequence[Run], tau_s: float) -> Comparison:
    """The runs of one workload, over the jobs that none of them rejected."""
    refused: set[str] = set().union(*(run.ids[run.state == REFUSED] for run in runs))
    rows = [run.final & np.array([job not in refused for job in run.ids], bool) for run in runs]
    waits = np.array([run.wait_s[row] for run, row in zip(runs, rows, strict=True)])
    ran = [run.runtime_s[row] for run, row in zip(runs, rows, strict=True)]
    bsld = np.array([bounded_slowdown(wait_s, runtime_s, tau_s) for wait_s, runtime_s in zip(waits, ran, strict=True)])
    return Comparison(tuple(run.name for run in runs), runs[0].submit_s[rows[0]], bsld, waits)
