"""When waiting jobs start: runs of a model from the present state, whose past instants calibrate the intervals.

Each run, a fork, draws once for each user from which quantile of the past its jobs' run times are taken, since a user's
jobs run long or short together. For each day to come it takes the arrivals of one of the last days. Then the model
decides: a pool's engine, or the model of a site's Slurm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from batfill.model.jobs import DAY_S
from batfill.replays.many import in_threads
from batfill_site.starts.past import NEVER_S, Past

FORKS = 21
DAYS = 7  # the last days whose arrivals come again
DAYS_AHEAD = 16  # days to come whose arrivals are drawn
MORE = 4  # times more days of arrivals if they do not suffice
SHARE = 0.8  # of the starts lie within the intervals
OUTSIDE = (1 - SHARE) / 2  # on each side
WIDENED = 0.2  # logarithm of the factor by which intervals are wider than the forks', if too few starts are known
MARGIN, MARGIN_S = 0.05, 60.0  # added to the forks' spread, as a share of the time until the start, and besides
FEWEST_STARTS = 20  # past starts from which on an interval is said to hold so many
INSTANTS, HINDCAST_FORKS = 24, 11  # in the past, on which intervals are calibrated, and the forks of each
LAST = 1000  # submissions among which the instants are
LEAST = 0.05  # an interval is not narrower than so much of the forks'

# One fork: the starts of jobs that wait, run or come, (n,), by its number, their rows in the past, submissions and run
# times; the first so many of them are known at the instant.
Fork = Callable[[int, NDArray[np.intp], NDArray[np.float64], NDArray[np.float64], int], NDArray[np.float64]]
# What makes forks from an instant: of what is known then, how many, and what they draw from.
Machine = Callable[[Past, int, np.random.Generator], Fork]


class Found(NamedTuple):
    """Estimates of jobs, each (n,); dates are in seconds."""

    rows: NDArray[np.intp]  # in the past
    start_s: NDArray[np.float64]
    from_s: NDArray[np.float64]
    to_s: NDArray[np.float64]


def starts(past: Past, machine: Machine, forks: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The rows of the waiting jobs, and their starts in each fork, (forks, n); nan for one that never starts."""
    random, alive = np.random.default_rng([seed, int(past.now_s * 1000)]), past.alive
    age_s = past.now_s - float(past.submit_s[0]) if len(past.submit_s) else 0.0
    span_s = min(DAY_S, age_s)
    days = random.integers(1, int(min(max(1, age_s // DAY_S), DAYS)) + 1, (forks, DAYS_AHEAD))
    fork = machine(past, forks, random)
    # Users in the order of their first jobs: a job more, the last, leaves what is drawn for the others as it is.
    _, first, of_job = np.unique(past.user[alive], return_index=True, return_inverse=True)
    # A fork in each of as many equal parts of the chances: with few forks the median is then less of a gamble.
    drawn = random.random((len(first), 2, forks))[np.argsort(np.argsort(first))]
    chances = (np.argsort(drawn[:, 0], axis=1) + drawn[:, 1]) / forks
    drawn_s = past.drawn_s(alive, chances[of_job].T)
    waits, known = np.isnan(past.start_s[alive]), len(alive)
    found, left, ahead = np.full(drawn_s.shape, np.nan), np.arange(forks), 1
    usual_s = np.where(np.isnan(past.end_s), np.minimum(past.request_s, NEVER_S), past.end_s - past.start_s)

    def run(k: int) -> NDArray[np.float64]:
        coming, dates_s = past.arrivals(days[k, : ahead if span_s else 0].tolist(), span_s)
        run_s = usual_s.copy()
        run_s[alive] = drawn_s[k]
        rows = np.concatenate([alive, coming])
        return fork(k, rows, np.concatenate([past.submit_s[alive], dates_s]), run_s[rows], known)[:known]

    while len(left) and waits.any():
        found[left] = in_threads(run, left.tolist())
        sure_s = past.now_s + ahead * DAY_S  # later starts lack arrivals; a shorter past comes again but once
        late = ~(found[left][:, waits] <= sure_s).all(axis=1)
        left, ahead = left[late] if ahead < DAYS_AHEAD else left[:0], min(MORE * ahead, DAYS_AHEAD)
    return alive[waits], found[:, waits]


def estimated(past: Past, machine: Machine, forks: int, seed: int, widened: NDArray[np.float64]) -> Found:
    """The medians, and intervals from the lowest to the highest tenth, stretched by the exponentials of `widened`."""
    rows, start_s = starts(past, machine, forks, seed)
    start_s = np.sort(np.where(np.isnan(start_s), past.now_s + NEVER_S, start_s), axis=0)
    if not len(rows):
        return Found(rows, *(np.zeros(0),) * 3)
    middle_s = np.quantile(start_s, 0.5, axis=0)
    away_s = start_s - middle_s
    stretched_s = middle_s + away_s * np.where(away_s < 0, *np.exp(widened))
    margin_s = MARGIN * (middle_s - past.now_s) + MARGIN_S
    lower_s, upper_s = np.quantile(stretched_s, (OUTSIDE, 1 - OUTSIDE), axis=0)
    from_s = np.maximum(lower_s - np.exp(widened[0]) * margin_s, past.now_s)
    to_s = upper_s + np.exp(widened[1]) * margin_s
    if not len(past.ended) and np.isinf(past.request_s[past.alive]).any():
        from_s[:] = past.now_s  # in the forks jobs without a request do not end, which they may at any time
    unknown = middle_s - past.now_s >= NEVER_S / 2
    return Found(rows, *(np.where(unknown, np.nan, column) for column in (middle_s, from_s, to_s)))


def calibrated(past: Past, machine: Machine, forks: int, seed: int) -> tuple[NDArray[np.float64], int]:
    """How far intervals must be widened, as logarithms of factors, and on how many past starts that rests.

    Each interval of a past instant is `middle` - x to `middle` + y in the forks; of the jobs that waited at these
    instants, a tenth started before `middle` - a x, and a tenth after `middle` + b y. These a and b stretch the
    intervals.
    """
    # Before all jobs are known, the machine looks emptier than it was.
    before = (past.submit_s >= np.fmin.reduce(past.end_s, initial=np.inf)) & (past.submit_s < past.now_s)
    since = np.flatnonzero(before)[-LAST:]
    instants = past.submit_s[since[np.linspace(0, len(since) - 1, min(INSTANTS, len(since))).astype(int)]]
    away, seen = [np.zeros((3, 0))], set()
    for at_s in instants.tolist():
        found = estimated(past.at(at_s), machine, min(forks, HINDCAST_FORKS), seed, np.zeros(2))
        rows, middle_s, from_s, to_s = Found._make(column[~np.isnan(found.start_s)] for column in found)
        sides_s = np.minimum(from_s - middle_s, -1), np.maximum(to_s - middle_s, 1)
        begun = ~np.isnan(past.start_s[rows])
        start_s = np.where(begun, past.start_s[rows], past.now_s)  # or later
        away.append(np.array([*((start_s - middle_s) / sides_s), begun]))
        seen.update(rows[begun].tolist())
    early, late, begun = np.concatenate(away, axis=1)
    if len(seen) < FEWEST_STARTS:
        return np.full(2, WIDENED), len(seen)
    known_early = early[(begun > 0) | (early <= 0)]  # what may still start early is left out
    sides = quantile_of(known_early, known_early < np.inf), quantile_of(late, begun > 0)
    return np.log(np.maximum(sides, LEAST)), len(seen)


def quantile_of(values: NDArray[np.float64], known: NDArray[np.bool_]) -> float:
    """The value that all but `OUTSIDE` do not exceed; those that are not known are larger (Kaplan and Meier 1958)."""
    order = np.lexsort((~known, values))
    left = np.cumprod(1 - known[order] / np.arange(len(values), 0, -1))
    few = left <= OUTSIDE + 1e-9
    return float(values[order][np.argmax(few) if few.any() else -1])
