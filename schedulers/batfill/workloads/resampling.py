"""Makes new logs from an old one by weeks: shuffles whole weeks, or draws each user's weeks separately."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from batfill.base.errors import WorkloadError
from batfill.base.version import __version__
from batfill.model.jobs import WEEK_S
from batfill.workloads.swf_log import FIELD, SwfLog

if TYPE_CHECKING:
    from numpy.typing import NDArray

ResamplingMethod = Literal["users", "weeks"]
ProfileWeeks = Literal["all", "span", "active"]

MOST_WEEKS = 10_000  # two centuries; more is a mistake in the submission times


def resample(
    log: SwfLog,
    seed: int,
    *,
    sample: int = 0,
    method: ResamplingMethod = "users",
    weeks: int | None = None,
    profile_weeks: ProfileWeeks = "all",
) -> SwfLog:
    """A new log of `weeks` weeks of the old one's jobs; equal arguments give equal logs.

    "users" is Algorithm 1 of the CCGrid 2019 paper: for each new week and each user, the jobs that this user submitted
    in one week of the log, drawn at random. "weeks" is the bandit paper's method: the log's weeks in random order, each
    used once before any is reused. A job keeps its second of the week. Waiting times, preceding jobs and think times
    belong to the old schedule and become unknown; jobs are renumbered by submission.

    Args:
        log: any log; rows without a submission time are left out.
        seed: seed of all random draws.
        sample: index of the sample for this seed.
        method: see above.
        weeks: number of weeks; by default the log's, whose first and last may be incomplete.
        profile_weeks: the weeks to draw a user's from: "all" weeks of the log, including those without a job, which
            keeps the mean load (the paper does not say); those from the user's first job to the last ("span"); or those
            with a job ("active").

    Raises:
        WorkloadError: no row has a submission time, or the number of weeks is below 1.
    """
    rows = log.rows[log["submit_s"] >= 0]
    if not len(rows):
        raise WorkloadError("no row has a submission time; there is nothing to resample")
    submit_s = rows[:, FIELD["submit_s"]]
    week = (submit_s // WEEK_S).astype(np.int64)
    week -= week.min()
    n_weeks = int(week.max()) + 1 if weeks is None else weeks
    if not 1 <= n_weeks <= MOST_WEEKS:
        raise WorkloadError(f"{n_weeks} weeks; request 1 or more, or fix the submission times")
    rng = np.random.default_rng([seed, sample])
    if method == "weeks":
        taken, new_week = _shuffled_weeks(week, n_weeks, rng)
    else:
        taken, new_week = _user_weeks(rows[:, FIELD["user"]], week, n_weeks, profile_weeks, rng)
    if not len(taken):
        raise WorkloadError(f"no job falls into the {n_weeks} weeks drawn; request more weeks")
    made = rows[taken]
    made[:, FIELD["submit_s"]] = new_week * WEEK_S + made[:, FIELD["submit_s"]] % WEEK_S
    order = np.argsort(made[:, FIELD["submit_s"]], kind="stable")
    made = made[order]
    assumed_s = None if log.assumed_s is None else log.assumed_s[log["submit_s"] >= 0][taken][order]
    made[:, FIELD["job"]] = np.arange(1, len(made) + 1)
    for name in ("wait_s", "preceding_job", "think_s"):
        made[:, FIELD[name]] = -1
    how = f"method {method}" + (f", profile weeks {profile_weeks}" if method == "users" else "")
    note = f"resampled by batfill {__version__}, {how}, {n_weeks} weeks, seed {seed}, sample {sample}"
    return log.renewed(made, note, assumed_s=assumed_s)


def _shuffled_weeks(
    week: NDArray[np.int64], n_weeks: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The drawn rows, and the new week of each."""
    there = int(week.max()) + 1
    order = np.concatenate([rng.permutation(there) for _ in range(-(-n_weeks // there))])[:n_weeks]
    return _rows_of(week, order, np.arange(n_weeks))


def _user_weeks(
    user: NDArray[np.float64],
    week: NDArray[np.int64],
    n_weeks: int,
    profile_weeks: ProfileWeeks,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The drawn rows, and the new week of each; users draw in the order of their numbers."""
    there = int(week.max()) + 1
    users, of_user = np.unique(user, return_inverse=True)
    drawn = np.empty((len(users), n_weeks), np.int64)
    if profile_weeks == "all":
        drawn[:] = rng.integers(there, size=drawn.shape)
    else:
        active = np.unique(of_user * there + week)  # sorted by user, then week
        first = np.searchsorted(active, np.arange(len(users) + 1) * there)
        for u in range(len(users)):
            choice = active[first[u] : first[u + 1]] % there
            if profile_weeks == "span":
                choice = np.arange(choice[0], choice[-1] + 1)
            drawn[u] = choice[rng.integers(len(choice), size=n_weeks)]
    group = (np.arange(len(users))[:, None] * there + drawn).ravel()
    return _rows_of(of_user * there + week, group, np.tile(np.arange(n_weeks), len(users)))


def _rows_of(
    group: NDArray[np.int64], wanted: NDArray[np.int64], label: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of each wanted group in turn, with the label of the request they answer."""
    by_group = np.argsort(group, kind="stable")
    members, starts = np.unique(group[by_group], return_index=True)
    sizes = np.diff(np.append(starts, len(group)))
    place = np.minimum(np.searchsorted(members, wanted), len(members) - 1)
    size = np.where(members[place] == wanted, sizes[place], 0)
    within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    return by_group[np.repeat(starts[place], size) + within], np.repeat(label, size)
