"""From a log to a policy file, and how its functions do on windows of the log: what `batfill fit` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.errors import BatfillError, WorkloadError
from batfill.policies import POLICIES, Policy
from batfill.policy_files import FORMAT, polynomial
from batfill.replay import mean_bsld
from batfill.tuning.costs import Setting, costs
from batfill.tuning.no_backfill import replay_without_backfilling
from batfill.tuning.proxy import Shuffle, score_jobs
from batfill.tuning.regression import FUNCTIONS, Fit, Weights, fit
from batfill.tuning.results import document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.jobs import Workload
    from batfill.tuning.weeks import Periods

# Table 6 of the study.
RIVALS = ("fcfs", "spf", "saf", "wfp3", "unicef", "f2")


def fit_heuristics(
    workload: Workload,
    *,
    seed: int = 0,
    tuples: int = 441,
    permutations: int = 256_000,
    how: Shuffle = "fair",
    weights: Weights = "pq",
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[dict[str, Any], list[Fit]]:
    """A policy file's content and the fits in it; the arguments are those of `score_jobs` and `fit`.

    Raises:
        WorkloadError: the machine's size is not known, or the log is too short.
    """
    if workload.procs is None:
        raise WorkloadError(f"{workload.name}: does not say how many processors the machine has; give --procs N")
    scores = score_jobs(
        workload.jobs, workload.procs, seed=seed, tuples=tuples, permutations=permutations, how=how, advance=advance
    )
    fits = [fit(scores, name, weights) for name in FUNCTIONS]
    firsts = scores.firsts.reshape(tuples, -1).mean(axis=0)
    content = document(
        "fit",
        seed=seed,
        given={"tuples": tuples, "permutations": permutations, "shuffle": how, "weights": weights},
        source={
            "source": workload.name,
            "source_sha256": workload.digest,
            "procs": workload.procs,
            "warnings": list(workload.warnings),
        },
        results={
            "format": FORMAT,
            "functions": {found.name: found.as_dict() for found in fits},
            "scored_jobs": len(scores.score),
            # 1 everywhere for a fair shuffle: how often the i-th submitted job came first, over its fair share.
            "came_first": firsts / firsts.mean(),
        },
    )
    return content, fits


def check_asked(evaluate: bool, **of_windows: float | None) -> None:
    """Only an evaluation has windows.

    Raises:
        BatfillError: something is said of them where there is none.
    """
    said = [name for name, value in of_windows.items() if value is not None]
    if said and not evaluate:
        raise BatfillError(f"--{said[0]}: says something of the windows of --evaluate; add it, or leave this out")


def policies_of(fits: Sequence[Fit]) -> list[Policy]:
    """The fitted functions as policies."""
    return [polynomial(found.name, found.terms, "regression on scores of the proxy problem") for found in fits]


def evaluate(
    windows: Periods, policies: Sequence[Policy], *, advance: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Each policy's mean bounded slowdown on each window, with backfilling in the queue's order and without any.

    `advance` is told of windows done, twice for each.
    """
    compared = [*policies, *(POLICIES[name] for name in RIVALS)]
    setting = Setting(backfill=None)
    without = np.empty((len(compared), len(windows)))
    for column, jobs in enumerate(windows.tables):
        start_s = np.array([replay_without_backfilling(jobs, windows.procs, policy).start_s for policy in compared])
        without[:, column] = mean_bsld(jobs, windows.procs)(start_s)
        advance(1)
    backfilled = costs(windows, compared, setting, advance=advance)
    names = [policy.name for policy in compared]
    return {
        "windows": windows.provenance(),
        "without_backfilling": by_policy(names, without),
        "with_backfilling": by_policy(names, backfilled),
    }


def by_policy(names: Sequence[str], costs_by_window: NDArray[np.float64]) -> dict[str, Any]:
    """Median, quartiles, mean and all values of each policy."""
    quartiles = np.quantile(costs_by_window, [0.25, 0.5, 0.75], axis=1)
    return {
        name: {
            "median": quartiles[1, i],
            "lower_quartile": quartiles[0, i],
            "upper_quartile": quartiles[2, i],
            "mean": costs_by_window[i].mean(),
            "mean_bsld": costs_by_window[i],
        }
        for i, name in enumerate(names)
    }


def coefficient_rows(fits: Sequence[Fit]) -> list[dict[str, Any]]:
    """What a reader wants of each fit first: the weights of the plain p, q, r, the error, the worst factor."""
    return [
        {
            "policy": found.name,
            "p": f"{found.terms[1][0]:.3g}",
            "q": f"{found.terms[2][0]:.3g}",
            "r": f"{found.terms[3][0]:.3g}",
            "mae": f"{found.mae:.3g}",
            "max vif": f"{found.vif.max():.3g}",
        }
        for found in fits
    ]


def evaluation_rows(evaluation: dict[str, Any]) -> list[dict[str, Any]]:
    """Medians over the windows, best first with backfilling."""
    rows = [
        {
            "policy": name,
            "median without backfilling": evaluation["without_backfilling"][name]["median"],
            "with": figures["median"],
        }
        for name, figures in evaluation["with_backfilling"].items()
    ]
    return sorted(rows, key=lambda row: (row["with"], row["policy"]))
