"""What users would have asked for: run time estimates drawn from Tsafrir's model and given to jobs they fit.

Source: D. Tsafrir, Y. Etsion, D. G. Feitelson, "Modeling user runtime estimates", JSSPP 2005, with the parameters of
its authors' program. People use few values, and round ones: twenty cover 89 % of the jobs, the longest first of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.errors import WorkloadError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MINUTE_S, HOUR_S = 60, 3600
HEAD = 20  # so many values are popular
HEAD_SHARE = 0.89  # of the jobs use one of them
# Popular in all four logs examined, beside the longest.
COMMON_S = tuple(m * MINUTE_S for m in (5, 10, 15, 20, 30)) + tuple(
    h * HOUR_S for h in (1, 2, 3, 4, 5, 6, 8, 10, 12, 18)
)
# Multiples of these, from the longest down, complete the popular values to twenty.
ROUND_S = tuple(h * HOUR_S for h in (200, 100, 50, 10, 5, 2, 1)) + tuple(m * MINUTE_S for m in (20, 10, 5))
# How many different values so many jobs use: (jobs, values), linear between.
VALUES_BY_JOBS = ((0, 0), (20, 10), (200, 20), (1_000, 35), (10_000, 90), (70_000, 340), (250_000, 565))
# Popularity rank of each popular value (the longest, then the others rising) on SDSC-SP2, CTC, KTH and SDSC-BLUE.
RANKS = (
    (3, 1, 4, 17, 13, 7, 8, 18, 2, 6, 16, 10, 5, 15, 14, 19, 11, 12, 9, 20),
    (1, 3, 4, 2, 12, 9, 8, 18, 6, 7, 11, 20, 16, 5, 14, 13, 10, 15, 17, 19),
    (1, 4, 10, 14, 20, 2, 3, 7, 12, 6, 19, 5, 18, 16, 9, 17, 15, 13, 8, 11),
    (1, 6, 5, 3, 7, 2, 18, 19, 4, 11, 20, 9, 10, 14, 13, 16, 15, 17, 8, 12),
)


class Estimates(NamedTuple):
    """A request per job, shape (n_jobs,), and how many were raised to the longest for want of long ones."""

    requested_s: NDArray[np.float64]
    raised: int


def estimates(runtime_s: NDArray[np.float64], rng: np.random.Generator, *, longest_s: float | None = None) -> Estimates:
    """Requests for these run times, none below its run time.

    Args:
        runtime_s: seconds, shape (n_jobs,).
        rng: where the randomness comes from.
        longest_s: the longest request the machine allows; by default the longest run time rounded up to hours.

    Raises:
        WorkloadError: `longest_s` is below an hour, or below a run time.
    """
    most = float(runtime_s.max())
    if longest_s is None:
        longest_s = max(HOUR_S * np.ceil(most / HOUR_S), HOUR_S)
    if longest_s < HOUR_S or longest_s < most:
        raise WorkloadError(
            f"a longest request of {longest_s:g} s; it must reach an hour and the longest run ({most:g} s)"
        )
    values, shares = distribution(len(runtime_s), int(longest_s), rng)
    counts = _shares_to_counts(shares, len(runtime_s))
    requests = np.sort(np.repeat(values, counts).astype(np.float64))[::-1]
    longest_first = np.argsort(-runtime_s, kind="stable")
    sorted_runtime_s = runtime_s[longest_first]
    short = requests < sorted_runtime_s
    requests = np.sort(np.where(short, longest_s, requests))[::-1]
    requested_s = np.empty(len(runtime_s))
    requested_s[longest_first] = _deal(requests, sorted_runtime_s, rng)
    return Estimates(requested_s, int(short.sum()))


def distribution(
    n_jobs: int, longest_s: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The values that `n_jobs` jobs use, in seconds, and the share of the jobs that uses each (they add up to 1)."""
    head = popular_values(longest_s)
    jobs, values = zip(*VALUES_BY_JOBS, strict=True)
    n_tail = max(round(float(np.interp(n_jobs, jobs, values))) - len(head), 0)
    tail = _rare_values(head, n_tail, longest_s)
    rank = np.arange(2, len(head) + 1)
    others = (14.0491 * np.exp(-0.177531 * rank) + 0.462513) / 100
    by_rank = np.sort(np.concatenate([[HEAD_SHARE - others.sum()], others]))[::-1]
    rare = rng.permutation(np.arange(HEAD + 1, HEAD + 1 + len(tail), dtype=np.float64) ** -2.267)
    rare *= (1 - HEAD_SHARE) / rare.sum() if len(tail) else 0
    shares = np.concatenate([by_rank[_popularity(len(head), rng) - 1], rare])
    return np.concatenate([head, tail]), shares / shares.sum()


def popular_values(longest_s: int) -> NDArray[np.int64]:
    """Up to twenty popular values: the longest, then the others rising."""
    chosen = {longest_s: None} | {value: None for value in COMMON_S if value < longest_s}
    candidates = (
        multiple for step in ROUND_S for multiple in range(longest_s // step * step, 0, -step) if multiple not in chosen
    )
    for value in candidates:
        if len(chosen) >= HEAD:
            break
        chosen[value] = None
    return np.array([longest_s, *sorted(set(chosen) - {longest_s})])


def _popularity(n_values: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A rank for each popular value, drawn among the ranks its place had in the four logs; the longest comes first."""
    last_place = {rank: max(log.index(rank) for log in RANKS) for rank in range(1, HEAD + 1)}
    free = set(range(2, HEAD + 1))
    ranks = [1]
    pool = [log[0] for log in RANKS]
    for place in range(1, HEAD):
        pool = [rank for rank in (*pool, *(log[place] for log in RANKS)) if rank in free]
        due = [rank for rank in sorted(free) if last_place[rank] <= place]
        # two draws, the more popular wins: popular ranks belong to short values
        rank = due[0] if due else min(pool[i] for i in rng.integers(len(pool), size=2))
        ranks.append(rank)
        free.remove(rank)
    kept = np.array(ranks[:n_values])
    return kept.argsort().argsort() + 1  # fewer than twenty values take the first ranks


def _rare_values(head: NDArray[np.int64], n_tail: int, longest_s: int) -> NDArray[np.int64]:
    """Unpopular values on whole minutes (or 10, 20, 30 s off where a minute is taken), denser among the short ones."""
    taken = set(head.tolist())
    bend = 1 + 12.1039 * float(n_tail + len(head)) ** -0.6026
    tail = []
    for place in range(1, n_tail + 1):
        x = place / n_tail
        minute = round((bend - 1) * x / (bend - x) * longest_s / MINUTE_S) * MINUTE_S
        for off in (0, 30, -30, 20, -20, 10, -10):
            value = minute + off
            if 0 < value < longest_s and value not in taken:
                taken.add(value)
                tail.append(value)
                break
    return np.array(tail, np.int64)


def _shares_to_counts(shares: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Whole numbers near shares x total that add up to it: the largest remainders are rounded up."""
    exact = shares * total
    counts = np.floor(exact).astype(np.int64)
    up = np.argsort(counts - exact, kind="stable")[: total - int(counts.sum())]
    counts[up] += 1
    return counts


def _deal(
    requests: NDArray[np.float64], runtime_s: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """A random request for each job among those that cover it; both come longest first, and request i covers run i."""
    left = requests.tolist()
    covers = np.searchsorted(-requests, -runtime_s, side="right").tolist()  # requests[:covers[j]] >= runtime_s[j]
    for job, draw in enumerate(rng.random(len(left)).tolist()):
        other = job + int(draw * (covers[job] - job))
        left[job], left[other] = left[other], left[job]
    return np.array(left)
