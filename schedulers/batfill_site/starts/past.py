"""What was known of a machine's jobs at an instant, and what that says of run times and arrivals to come."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from batfill.model.jobs import DAY_S

AGES = np.arange(64)  # of a user's last jobs, which are remembered
OF_ALL = 512  # jobs of all users that are remembered, of which
QUANTILES = 16  # quantiles stand beside a user's own jobs,
OTHERS_WEIGHT = 1 / 16  # each with this weight,
REQUEST_WEIGHT = 1 / 64  # and the whole request with this one, where a user's last job weighs
ALIKE = 10.0  # times more for an equal request, and for equal processors,
HALF_LIFE = 8.0  # and half as much after so many of the user's jobs
# A job about which nothing is known but that it has run for t runs for x t with a chance of 1 / x.
UNKNOWN_S = 60.0  # is added to t, so that this also holds for a job that has just begun
MOST_TIMES = 100.0
NEVER_S = 10 * 365 * DAY_S  # until a job ends of which nothing is known


class Past(NamedTuple):
    """The jobs submitted up to an instant, by age, as far as they had gone by then; columns of shape (n_jobs,)."""

    now_s: float
    submit_s: NDArray[np.float64]
    request_s: NDArray[np.float64]  # inf for none
    procs: NDArray[np.int64]
    user: NDArray[np.int64]
    able: NDArray[np.bool_]  # whether it may start at all
    start_s: NDArray[np.float64]  # nan for those that wait
    end_s: NDArray[np.float64]  # nan for those that wait or run

    def at(self, now_s: float) -> Self:
        n = int(np.searchsorted(self.submit_s, now_s, side="right"))
        columns: list[Any] = [column[:n] for column in self[1:]]
        columns[-2:] = (np.where(dates <= now_s, dates, np.nan) for dates in columns[-2:])
        return type(self)(now_s, *columns)

    @property
    def alive(self) -> NDArray[np.intp]:
        return np.flatnonzero(np.isnan(self.end_s) & (self.able | ~np.isnan(self.start_s)))

    @property
    def ended(self) -> NDArray[np.intp]:
        return np.argsort(self.end_s, kind="stable")[: int(np.isfinite(self.end_s).sum())]

    def drawn_s(self, rows: NDArray[np.intp], chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Run times of these jobs, shape (forks, n), longer than they have run; `chances` are quantiles, (forks, n).

        They are from what the user's last jobs ran of their requests, from that of others, and from the whole request.
        Where none of these is known, the longer a job has run, the longer it runs on; while no run time is known at
        all, a job without a request does not end.
        """
        ran_s = np.nan_to_num(self.now_s - self.start_s[rows])
        request_s, ended = self.request_s[rows], self.ended
        values, weights = (
            np.concatenate(parts, axis=1)
            for parts in zip(self.of_user(rows, ended), self.of_all(request_s, ended), strict=True)
        )
        weights[~(values > ran_s[:, None])] = 0.0
        bounded = (ran_s < request_s) & (request_s < np.inf)
        unknown = ~weights.any(axis=1) & ~bounded
        last_s = np.where(bounded, request_s, 2 * ran_s + UNKNOWN_S)
        values = np.column_stack([values, last_s])
        weights = np.column_stack([weights, np.full(len(rows), REQUEST_WEIGHT)])
        order = np.argsort(values, axis=1, kind="stable")
        below = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
        place = np.empty(chances.shape, np.intp)
        for job, (upto, last) in enumerate(zip(below, np.argmax(below == below[:, -1:], axis=1), strict=True)):
            place[:, job] = np.minimum(np.searchsorted(upto, chances[:, job] * upto[-1], side="right"), last)
        drawn_s = np.take_along_axis(values, order, axis=1)[np.arange(len(rows)), place]
        times = np.minimum(1 / (1 - chances), MOST_TIMES)
        drawn_s = np.where(unknown, (ran_s + UNKNOWN_S) * times - UNKNOWN_S, drawn_s)
        return drawn_s if len(ended) else np.where(np.isinf(request_s), NEVER_S, drawn_s)

    def of_user(self, rows: NDArray[np.intp], ended: NDArray[np.intp]) -> tuple[NDArray[np.float64], ...]:
        """What the users' last jobs would run under these jobs' requests, and their weights, (n, AGES) each."""
        by_user = ended[np.argsort(self.user[ended], kind="stable")]
        first, last = (np.searchsorted(self.user[by_user], self.user[rows], side) for side in ("left", "right"))
        place = last[:, None] - 1 - AGES
        own = place >= first[:, None]
        other = np.append(by_user, 0)[np.where(own, place, -1)]
        wanted_s, request_s = self.request_s[rows, None], self.request_s[other]
        run_s = np.where(own, self.end_s[other] - self.start_s[other], 0.0)
        alike = (request_s == wanted_s) * 1 + (self.procs[other] == self.procs[rows, None])
        unlimited = np.isinf(request_s) | np.isinf(wanted_s)
        share = np.where(unlimited, 0.0, run_s / request_s) * np.where(unlimited, 0.0, wanted_s)
        return np.where(unlimited, np.minimum(run_s, wanted_s), share), own * 0.5 ** (AGES / HALF_LIFE) * ALIKE**alike

    def of_all(self, request_s: NDArray[np.float64], ended: NDArray[np.intp]) -> tuple[NDArray[np.float64], ...]:
        """Quantiles of what all users' last jobs ran of their requests, or at all, and weights, (n, QUANTILES) each."""
        last, parts = ended[-OF_ALL:], (np.arange(QUANTILES) + 0.5) / QUANTILES
        run_s, limit_s = self.end_s[last] - self.start_s[last], self.request_s[last]

        def quantiles(values: NDArray[np.float64], otherwise: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.sort(values)[(parts * len(values)).astype(int)] if len(values) else otherwise

        limited = np.isfinite(limit_s)
        share = quantiles(run_s[limited] / limit_s[limited], parts)  # where none is known, any is as likely
        wanted_s = np.where(np.isfinite(request_s), request_s, 0.0)[:, None]
        found = np.where(np.isinf(request_s)[:, None], quantiles(run_s, 0 * parts), share * wanted_s)
        return found, np.full(found.shape, OTHERS_WEIGHT)

    def arrivals(self, days: list[int], span_s: float) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The rows of the jobs of so many `days` ago, which come again on the days to come, and when they do.

        Those submitted at the instant itself do not come again.
        """
        rows, dates_s = [np.zeros(0, np.intp)], [np.zeros(0)]
        usable = (self.able | ~np.isnan(self.start_s)) & (self.submit_s < self.now_s)
        for ahead, ago in enumerate(days):
            edges = self.now_s - ago * span_s, self.now_s - (ago - 1) * span_s
            first, last = np.searchsorted(self.submit_s, edges, side="right")
            rows.append(first + np.flatnonzero(usable[first:last]))
            dates_s.append(self.submit_s[rows[-1]] + (ago + ahead) * span_s)
        return np.concatenate(rows), np.concatenate(dates_s)
