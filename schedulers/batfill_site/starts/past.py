"""What the past says of run times: each user's last ones, a record that grows as jobs end, and draws from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.base.kernels import F8, I8, Array, entry, kernel, outlined, record
from batfill.model.jobs import DAY_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

LAST = 64  # jobs of a user that are remembered
OF_ALL = 512  # jobs of all users that are remembered, of which
QUANTILES = 16  # quantiles stand beside a user's own jobs,
OTHERS_WEIGHT = 1 / 16  # each with this weight,
REQUEST_WEIGHT = 1 / 64  # and the whole request with this one, where a user's last job weighs
ALIKE = 10.0  # times more for an equal request, and for equal processors,
HALF_LIFE = 8.0  # and half as much after so many of the user's jobs
# A job about which nothing is known but that it has run for t runs for x t with a chance of 1 / x.
UNKNOWN_S = 60.0  # is added to t, so that this also holds for a job that has just begun
MOST_TIMES = 100.0
NEVER_S = 10 * 365 * DAY_S  # until a job ends of which nothing is known, or starts that needs processors which are away
JOB_SO_FAR = np.dtype(
    [
        ("submit_s", "f8"),
        ("request_s", "f8"),  # p~; inf for none
        ("runtime_s", "f8"),  # nan until it has ended
        ("procs", "i8"),
        ("user", "i8"),  # counted from 0,
        ("known_user", "u1"),  # and whether it is known who that is
        ("small", "u1"),  # at its submission,
        ("killable", "u1"),  # as this
    ]
)


@record(Array(F8, 2, read=True), Array(F8, 2, read=True), Array(F8, 2, read=True), Array(I8, read=True))
class Kept(NamedTuple):
    """The last jobs of each user; of those by number n, job n stands in column n % LAST."""

    runtime_s: NDArray[np.float64]  # (users, LAST)
    request_s: NDArray[np.float64]
    procs: NDArray[np.float64]
    ended: NDArray[np.int64]  # (users,)  how many have ended


@record(I8, F8, F8, F8)
class Wanted(NamedTuple):
    """The jobs whose run times are drawn."""

    user: NDArray[np.int64]  # (n,)
    request_s: NDArray[np.float64]
    procs: NDArray[np.float64]
    ran_s: NDArray[np.float64]  # for how long each has run already; it ends later


@kernel
def rescaled(runtime_s: float, request_s: float, wanted_s: float) -> float:
    """A run time under one request as one under another: the same share of it, if both are known."""
    if request_s == np.inf or wanted_s == np.inf:
        return min(runtime_s, wanted_s)
    return runtime_s / request_s * wanted_s


@kernel
def put(values: NDArray[np.float64], weights: NDArray[np.float64], n: int, value: float, weight: float) -> None:
    """Insert a value into the first n, which are sorted."""
    place = n
    while place > 0 and values[place - 1] > value:
        values[place], weights[place] = values[place - 1], weights[place - 1]
        place -= 1
    values[place], weights[place] = value, weight


@entry(Kept, Wanted, Array(F8, 2, read=True), Array(F8, 2, read=True), Array(F8, 2), Array(F8, 2))
@outlined
def draw(
    kept: Kept,
    wanted: Wanted,
    of_all: NDArray[np.float64],
    chances: NDArray[np.float64],
    scratch: NDArray[np.float64],
    drawn_s: NDArray[np.float64],
) -> None:
    """Draw run times: quantiles of the user's last ones, the others', and the request, longer than it has run.

    Where none of these is known, the longer a job has run, the longer it runs on.

    Args:
        kept: the users' last jobs.
        wanted: the jobs.
        of_all: float64 (2, QUANTILES), all users' shares of requests, and their run times.
        chances: float64 (forks, n), which quantile each fork draws of each job, from 0 to below 1.
        scratch: float64 (2, LAST + QUANTILES + 1), changed.
        drawn_s: float64 (forks, n), receives the run times.
    """
    values, weights = scratch[0], scratch[1]
    for job in range(len(wanted.user)):
        user, request_s, procs, ran_s = wanted.user[job], wanted.request_s[job], wanted.procs[job], wanted.ran_s[job]
        n, total = 0, 0.0
        ended = kept.ended[user]
        for age in range(min(ended, LAST)):
            place = (ended - 1 - age) % LAST
            value = rescaled(kept.runtime_s[user, place], kept.request_s[user, place], request_s)
            weight = 0.5 ** (age / HALF_LIFE)
            if kept.request_s[user, place] == request_s:
                weight *= ALIKE
            if kept.procs[user, place] == procs:
                weight *= ALIKE
            if value > ran_s:
                put(values, weights, n, value, weight)
                n, total = n + 1, total + weight
        for place in range(of_all.shape[1]):
            value = of_all[1, place] if request_s == np.inf else of_all[0, place] * request_s
            if value > ran_s:
                put(values, weights, n, value, OTHERS_WEIGHT)
                n, total = n + 1, total + OTHERS_WEIGHT
        bounded = ran_s < request_s < np.inf
        if n == 0 and not bounded:
            for fork in range(len(chances)):
                times = min(1 / (1 - chances[fork, job]), MOST_TIMES)
                drawn_s[fork, job] = (ran_s + UNKNOWN_S) * times - UNKNOWN_S
            continue
        put(values, weights, n, request_s if bounded else 2 * ran_s + UNKNOWN_S, REQUEST_WEIGHT)
        n, total = n + 1, total + REQUEST_WEIGHT
        for fork in range(len(chances)):
            below, place = weights[0], 0
            while place < n - 1 and below <= chances[fork, job] * total:
                place += 1
                below += weights[place]
            drawn_s[fork, job] = values[place]


class Past:
    """The jobs submitted so far by row, and the run times of those that have ended."""

    def __init__(self, jobs: NDArray[np.void], submitted: int = 0) -> None:
        """`jobs`, JOB_SO_FAR (capacity,): of a row, only the run time is read before its job is submitted: nan."""
        self.jobs, self.submitted = jobs, submitted
        users = int(jobs["user"].max(initial=0)) + 1
        self.kept = Kept._make([*(np.zeros((users, LAST)) for _ in range(3)), np.zeros(users, np.int64)])
        self.all = np.full((2, OF_ALL), np.nan)
        self.ends = 0
        self.quantiles = np.empty((2, 0))  # of `all`,
        self.quantiles_at = -1  # when so many had ended

    def ended(self, rows: Iterable[int], runtime_s: Iterable[float]) -> None:
        """Record the run times of jobs that have ended, in order of their ends."""
        jobs, kept = self.jobs, self.kept
        for row, ran_s in zip(rows, runtime_s, strict=True):
            jobs["runtime_s"][row] = ran_s
            user, request_s = jobs["user"][row], jobs["request_s"][row]
            place = kept.ended[user] % LAST
            kept.runtime_s[user, place], kept.request_s[user, place] = ran_s, request_s
            kept.procs[user, place] = jobs["procs"][row]
            kept.ended[user] += 1
            self.all[:, self.ends % OF_ALL] = ran_s / request_s if request_s < np.inf else np.nan, ran_s
            self.ends += 1

    def drawn_s(
        self, rows: NDArray[np.intp], ran_s: NDArray[np.float64], chances: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Run times of these jobs, shape (forks, n), by the quantiles `chances`; each is longer than `ran_s`, (n,).

        While no run time is known at all, a job without a request does not end.
        """
        jobs = self.jobs[rows]
        wanted = Wanted(jobs["user"].copy(), jobs["request_s"].copy(), jobs["procs"].astype(np.float64), ran_s)
        drawn_s = np.empty(chances.shape)
        draw(self.kept, wanted, self.of_all(), chances, np.empty((2, LAST + QUANTILES + 1)), drawn_s)
        if not self.ends:
            drawn_s[:, np.isinf(wanted.request_s)] = NEVER_S
        return drawn_s

    def of_all(self) -> NDArray[np.float64]:
        """The quantiles of all users' shares and run times, for `draw`."""
        if self.quantiles_at == self.ends:
            return self.quantiles
        found, parts = np.empty((2, QUANTILES)), (np.arange(QUANTILES) + 0.5) / QUANTILES
        for values, out, unknown in zip(self.all, found, (parts, 0 * parts), strict=True):
            known = np.sort(values[~np.isnan(values)])
            # Where none is known, any share of a request is as likely; a run time of 0 is none.
            out[:] = known[(parts * len(known)).astype(np.int64)] if len(known) else unknown
        self.quantiles, self.quantiles_at = found, self.ends
        return found
