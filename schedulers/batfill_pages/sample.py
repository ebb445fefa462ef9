"""What a page holds of a run with too many jobs: a stated sample of them, and curves over time of all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill_pages.steps import Steps

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from batfill_pages.runs import ReportedRun

SAMPLE_ROWS = 300_000  # tries of a run in a page: about 8 MB, opened in under a second
LONGEST = 1_000  # jobs with the longest waits in a sample, but at most a tenth of it
BINS = 20_000  # of time in the curves of all jobs: ten for each pixel of a chart


class Sample(NamedTuple):
    """The tries of a run that its page holds; a job is there with all of its tries."""

    rows: NDArray[np.int64]  # (n_rows,)  ascending
    drawn: NDArray[np.bool_]  # (n_rows,)  False for a job that is there for its long wait alone
    jobs: int
    of_jobs: int
    longest: int  # jobs whose waits are the longest, all of them in the sample
    seed: int


def sampled(run: ReportedRun, most_rows: int, seed: int) -> Sample | None:
    """A sample of the run's jobs with at most this number of tries; None if all fit.

    The jobs with the longest waits come first, earlier ones before others with the same wait; the others are drawn
    uniformly. Runs of the same jobs draw the same ones, except for the last few that fit.
    """
    if len(run) <= most_rows:
        return None
    tries = np.bincount(run.job)
    final = run.final
    wait_s = np.full(len(tries), -1.0)
    wait_s[run.job[final]] = run.wait_s[final]
    k = min(LONGEST, max(most_rows // 10, 1), len(tries))
    least_s = np.partition(wait_s, -k)[-k]
    longest = np.flatnonzero(wait_s >= least_s)
    longest = longest[np.argsort(-wait_s[longest], kind="stable")][:k]
    longest = longest[np.cumsum(tries[longest]) <= most_rows]
    kept = np.zeros(len(tries), bool)
    kept[longest] = True
    left = most_rows - int(tries[longest].sum())
    order = np.random.default_rng(seed).permutation(len(tries))
    more = np.cumsum(np.where(kept, 0, tries)[order])  # a job drawn that is there already takes no row
    drawn = np.zeros(len(tries), bool)
    drawn[order[: np.searchsorted(more, left, "right")]] = True
    kept |= drawn
    rows = np.flatnonzero(kept[run.job])
    return Sample(rows, drawn[run.job[rows]], int(kept.sum()), len(tries), len(longest), seed)


def only_rows(run: ReportedRun, rows: NDArray[np.int64]) -> ReportedRun:
    columns = ("workloads", "names", "ids", "submit_s", "start_s", "runtime_s", "walltime_s", "procs", "state")
    return replace(
        run,
        **{name: getattr(run, name)[rows] for name in (*columns, "attempt", "job")},
        machines=run.machines.rows(rows),
        facts=run.facts.rows(rows),
    )


def span_s(run: ReportedRun) -> tuple[float, float]:
    """The first submission and the last end of the tries that ran; 0 and 1 if no time passes."""
    ran = run.ran
    begin_s = float(run.submit_s[ran].min(initial=np.inf))
    end_s = float((run.start_s + run.runtime_s)[ran].max(initial=-np.inf))
    return (begin_s, end_s) if begin_s < end_s else (0.0, 1.0)


class Tries(NamedTuple):
    """When the tries that ran waited and ran, shape (n_tries,)."""

    since_s: NDArray[np.float64]  # the begin of the wait
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    procs: NDArray[np.int64]
    user: NDArray[np.int64]

    def waiting(self, also_s: ArrayLike) -> Steps:
        return Steps.of(self.since_s, self.start_s, np.ones(len(self.since_s)), also_s)

    def using(self, amounts: ArrayLike, also_s: ArrayLike) -> Steps:
        return Steps.of(self.start_s, self.end_s, amounts, also_s)


def tries_of(run: ReportedRun) -> Tries:
    """The tries that ran; a requeued job waits from the end of its previous try, which is in the row before."""
    ran = run.ran
    end_s = run.start_s + run.runtime_s
    # Files round dates to microseconds: a try that ends when another starts ends then.
    starts_s = np.append(np.unique(run.start_s[ran]), np.inf)
    next_s = starts_s[np.searchsorted(starts_s[:-1], end_s - 2e-6)]
    end_s = np.where(next_s - end_s < 2e-6, next_s, end_s)
    since_s = np.where(run.attempt > 0, np.roll(end_s, 1), run.submit_s)
    return Tries(since_s[ran], run.start_s[ran], end_s[ran], run.procs[ran], run.facts.user[ran])


def taken(run: ReportedRun, pool: str = "") -> Steps:
    """What a calendar's windows take of a pool, or of the processors, until the run's end."""
    begins_s, ends_s, amounts = (
        np.array([(begin, np.inf if end is None else end, amount) for begin, end, amount in run.about.windows_of(pool)])
        .reshape(-1, 3)
        .T.clip(max=[[span_s(run)[1]], [span_s(run)[1]], [np.inf]])
    )
    return Steps.of(begins_s, ends_s, amounts)


def out_of_use_proc_s(run: ReportedRun) -> float:
    """The processor-seconds that windows take and no job uses."""
    away, tries = taken(run), tries_of(run)
    used = tries.using(tries.procs, np.concatenate([span_s(run), away.at_s]))
    free = Steps(used.at_s, np.minimum(away.at(used.at_s), run.size - used.level))
    return float(np.diff(free.total(span_s(run)))[0])


def curves_of_all(run: ReportedRun, n_bins: int = BINS) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean utilisation, 0 to 1, and the mean number of waiting jobs in bins of `span_s`; shapes (n_bins,)."""
    edges_s, tries = np.linspace(*span_s(run), n_bins + 1), tries_of(run)
    return tries.using(tries.procs, edges_s).means(edges_s) / run.size, tries.waiting(edges_s).means(edges_s)
