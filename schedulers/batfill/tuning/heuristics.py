"""Heuristics learned by regression, as in the 2023 study: from a log to a policy file, and a test on its windows.

Weighted least squares on monomials of p, q and r (the study's Table 1) turns scores of the proxy problem (see `proxy`)
into coefficients. `batfill fit` does all of it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from batfill.engine import KILL
from batfill.engine.keys import key_at
from batfill.errors import BatfillError, WorkloadError
from batfill.jobs import data_frame
from batfill.policy import FILE_FORMAT, POLICIES, Policy, Term, polynomial
from batfill.processes import no_bar
from batfill.replays import Schedule, mean_bsld
from batfill.stats import least_squares, variance_inflation
from batfill.tuning.periods import Conditions, costs, read_periods
from batfill.tuning.proxy import Scores, Shuffle, score_jobs
from batfill.tuning.results import Found, document
from batfill.workloads import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from batfill.jobs import JobTable, Workload
    from batfill.processes import Bar
    from batfill.tuning.periods import Periods

Weights = Literal["pq", "pq2"]
Powers = tuple[int, int, int]  # of p, q, r

# Each function has the terms of the one before it, and more.
FUNCTIONS: dict[str, tuple[Powers, ...]] = {}
FUNCTIONS["lin"] = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
FUNCTIONS["qdr"] = (*FUNCTIONS["lin"], (2, 0, 0), (0, 2, 0), (0, 0, 2), (1, 1, 0))
FUNCTIONS["cub"] = (*FUNCTIONS["qdr"], (3, 0, 0), (0, 3, 0), (0, 0, 3), (2, 1, 0), (1, 2, 0))
FUNCTIONS["qua"] = (*FUNCTIONS["cub"], (4, 0, 0), (0, 4, 0), (0, 0, 4), (3, 1, 0), (2, 2, 0), (1, 3, 0))

# Above this a feature is all but a combination of the others, and its coefficient means little.
HIGH_VIF = 10.0
# Above this a feature is nearly a combination of the others, and its coefficient means little.
RIVALS = ("fcfs", "spf", "saf", "wfp3", "unicef", "f2")


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """One fitted function."""

    name: str
    terms: tuple[Term, ...]
    standard_errors: NDArray[np.float64]  # of the coefficients
    mae: float  # mean absolute error of the scores, equation 6
    vif: NDArray[np.float64]  # variance inflation factors, of all terms but the constant
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For policy files."""
        vif = [None, *self.vif.tolist()]
        return {
            "terms": [
                {"p": p, "q": q, "r": r, "coefficient": coefficient, "standard_error": error, "vif": inflation}
                for (coefficient, p, q, r), error, inflation in zip(
                    self.terms, self.standard_errors.tolist(), vif, strict=True
                )
            ],
            "mae": self.mae,
            "warnings": list(self.warnings),
        }


def fit_scores(scores: Scores, name: str, weights: Weights = "pq") -> Fit:
    """The coefficients of FUNCTIONS[name] that minimise the weighted sum of squared errors of the scores.

    Args:
        scores: of the proxy problem.
        name: lin, qdr, cub or qua.
        weights: a squared error weighs p q, or (p q)^2 as in equation 5 and the published code. A job without run time
            counts as one of one second.
    """
    powers = FUNCTIONS[name]
    p, q, r = scores.runtime_s, scores.procs, scores.submit_s
    design = np.column_stack([p**a * q**b * r**c for a, b, c in powers])
    # Columns reach 1e20; scaling by the largest value keeps the equations solvable.
    unit = np.abs(design).max(axis=0)
    unit[unit == 0] = 1.0
    area = np.maximum(p, 1.0) * q
    area /= area.mean()
    design_in_units = design / unit
    fitted, errors = least_squares(design_in_units, scores.score, area if weights == "pq" else area**2)
    vif = variance_inflation(design_in_units)
    coefficients = fitted / unit
    terms = tuple((float(value), *exponents) for value, exponents in zip(coefficients, powers, strict=True))
    return Fit(
        name=name,
        terms=terms,
        standard_errors=errors / unit,
        mae=float(np.abs(design @ coefficients - scores.score).mean()),
        vif=vif,
        warnings=tuple(multicollinear(powers[1:], vif)),
    )


def multicollinear(powers: tuple[Powers, ...], vif: NDArray[np.float64]) -> list[str]:
    """A warning if the variance of any term is inflated beyond HIGH_VIF; otherwise none."""
    bad = [(term, factor) for term, factor in zip(powers, vif, strict=True) if not factor <= HIGH_VIF]
    if not bad:
        return []
    (a, b, c), worst = max(bad, key=lambda entry: entry[1])
    return [
        f"{len(bad)} of {len(vif)} terms have a variance inflation factor above {HIGH_VIF:g} "
        f"(most: p^{a} q^{b} r^{c}, {worst:.3g}): features are multicollinear, and coefficients unstable"
    ]


class Fitted(Found):
    """The content of a policy file, with its functions as policies.

    Attributes:
        fits: the fitted functions.
        policies: the same by name, for `replay`.
    """

    def __init__(self, content: Mapping[str, Any], fits: Sequence[Fit]) -> None:
        super().__init__(content, coefficient_rows(fits))
        self.fits = fits
        self.policies = {policy.name: policy for policy in fitted_policies(fits)}

    def to_pandas(self) -> pd.DataFrame:
        """A row per term of each function: the powers of p, q and r, the coefficient and its standard error."""
        rows = [{"policy": found.name, **term} for found in self.fits for term in found.as_dict()["terms"]]
        return data_frame(rows, options=self["options"], input=self["input"])

    def evaluate(
        self,
        log: Workload | str | Path,
        *,
        procs: int | None = None,
        days: float = 15,
        count: int | None = None,
        bar: Bar = no_bar,
    ) -> Found:
        """Compare the functions with six known policies on a log's windows, with backfilling and without.

        Args:
            log: a workload or a file, as for `read_workload`.
            procs: the machine's size; by default the log's.
            days: length of a window.
            count: use only this many windows, from the first.
            bar: makes progress bars.

        Raises:
            BatfillError: the log is unusable.
        """
        windows = read_periods(log, procs=procs, days=days, align="first", boundary="submitted", count=count)
        with bar("windows", 2 * len(windows)) as advance:
            found = evaluate(windows, list(self.policies.values()), advance=advance)
        return Found(found, evaluation_rows(found))


def fit(
    log: Workload | str | Path,
    *,
    procs: int | None = None,
    tuples: int = 441,
    permutations: int = 256_000,
    shuffle: Shuffle = "fair",
    weights: Weights = "pq",
    seed: int = 0,
    bar: Bar = no_bar,
) -> Fitted:
    """Learn heuristics by regression on the scores of many random schedules.

    Args:
        log: a workload or a file, as for `read_workload`.
        procs: the machine's size; by default the log's.
        tuples: number of subtraces to score.
        permutations: number of orders of each.
        shuffle: every order equally likely ("fair"), or biased as in the "published" code.
        weights: a squared error weighs p q ("pq"), or (p q)^2 as published ("pq2").
        seed: of the subtraces and the orders.
        bar: makes progress bars.

    Returns:
        The content of the policy file; `save` writes it, for `replay(log, "lin@FILE")`, and `policies` holds its
        functions.

    Raises:
        WorkloadError: the log is unreadable or too short, or the machine's size is unknown.

    Examples:
        >>> from batfill.experiment import replay
        >>> fitted = fit("workloads/sample.json", tuples=3, permutations=64)
        >>> list(fitted.policies), len(fitted.to_pandas())
        (['lin', 'qdr', 'cub', 'qua'], 44)
        >>> replay("workloads/sample.json", fitted.policies["lin"]).figures.jobs
        800
    """
    workload, _ = opened(log, procs=procs)
    with bar("tuples", tuples) as advance:
        return Fitted(
            *fit_heuristics(
                workload,
                seed=seed,
                tuples=tuples,
                permutations=permutations,
                how=shuffle,
                weights=weights,
                advance=advance,
            )
        )


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
    """A policy file's content and the fits in it; the arguments are those of `score_jobs` and `fit_scores`.

    Raises:
        WorkloadError: the machine's size is unknown, or the log is too short.
    """
    if workload.procs is None:
        raise WorkloadError(f"{workload.name}: does not say how many processors the machine has; give --procs N")
    scores = score_jobs(
        workload.jobs, workload.procs, seed=seed, tuples=tuples, permutations=permutations, how=how, advance=advance
    )
    fits = [fit_scores(scores, name, weights) for name in FUNCTIONS]
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
            "format": FILE_FORMAT,
            "functions": {found.name: found.as_dict() for found in fits},
            "scored_jobs": len(scores.score),
            # The share of the orders that the i-th submitted job began, relative to a fair share: 1 for a fair shuffle.
            "came_first": firsts / firsts.mean(),
        },
    )
    return content, fits


def check_window_options(evaluate: bool, **of_windows: float | None) -> None:
    """Refuse window options without an evaluation.

    Raises:
        BatfillError: one is given.
    """
    given = [name for name, value in of_windows.items() if value is not None]
    if given and not evaluate:
        raise BatfillError(f"--{given[0]}: applies to the windows of --evaluate; add it, or leave this out")


def fitted_policies(fits: Sequence[Fit]) -> list[Policy]:
    """The fitted functions as policies."""
    return [polynomial(found.name, found.terms, "regression on scores of the proxy problem") for found in fits]


def replay_without_backfilling(jobs: JobTable, size: int, policy: Policy) -> Schedule:
    """The schedule of list scheduling, one half of the study's comparison: simple and slow, for small windows.

    At every submission or end, the queue's first job starts, repeatedly, until one does not fit. Policies see
    p~, or what is expected of jobs that may outlive it; jobs run min(p, walltime).
    """
    key, rise = (column.tolist() for column in policy.lines(jobs.submit_s, jobs.expected_s, jobs.procs))
    runtime_s = np.minimum(jobs.runtime_s, jobs.walltime_s)
    submit_s, expected_s, procs = jobs.submit_s.tolist(), jobs.expected_s.tolist(), jobs.procs.tolist()
    start_s = np.full(len(jobs), np.nan)
    waiting: list[tuple[float, float, int]] = []  # heap of (key, r, row); see `head` if keys move
    ends: list[tuple[float, int]] = []
    order: list[int] = []
    free, arrived = size, 0

    def moving_key(now_s: float, row: int) -> float:
        return float(key_at(now_s, key[row], rise[row], submit_s[row], expected_s[row]))  # type: ignore[no-untyped-call]

    def head(now_s: float) -> int:
        if not policy.moves:
            return 0
        return min(
            range(len(waiting)),
            key=lambda i: (moving_key(now_s, waiting[i][2]), *waiting[i][1:]),
        )

    while ends or arrived < len(jobs):
        next_s = submit_s[arrived] if arrived < len(jobs) else np.inf
        now_s = float(min(ends[0][0], next_s) if ends else next_s)
        while ends and ends[0][0] == now_s:
            free += heapq.heappop(ends)[1]
        while arrived < len(jobs) and submit_s[arrived] == now_s:
            if procs[arrived] <= size:
                heapq.heappush(waiting, (key[arrived], now_s, arrived))
            arrived += 1
        while waiting:
            first = head(now_s)
            row = waiting[first][2]
            if procs[row] > free:
                break
            waiting[first] = waiting[-1]
            waiting.pop()
            heapq.heapify(waiting)
            free -= procs[row]
            start_s[row] = now_s
            order.append(row)
            heapq.heappush(ends, (now_s + float(runtime_s[row]), procs[row]))
    return Schedule(
        jobs=jobs,
        size=size,
        start_s=start_s,
        backfilled=np.zeros(len(jobs), bool),
        kills=np.zeros(0, KILL),
        order=np.array(order, np.int64),
    )


def evaluate(
    windows: Periods, policies: Sequence[Policy], *, advance: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Each policy's mean bounded slowdown on each window, with backfilling in the queue's order and without any.

    `advance` is called with 1 per window, twice for each.
    """
    compared = [*policies, *(POLICIES[name] for name in RIVALS)]
    conditions = Conditions(backfill=None)
    without = np.empty((len(compared), len(windows)))
    for column, jobs in enumerate(windows.tables):
        start_s = np.array([replay_without_backfilling(jobs, windows.procs, policy).start_s for policy in compared])
        without[:, column] = mean_bsld(jobs, windows.procs)(start_s)
        advance(1)
    backfilled = costs(windows, compared, conditions, advance=advance)
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
    """The table to show: per fit the weights of the plain p, q, r, the error, the largest factor."""
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
    """Medians over the windows, sorted by those with backfilling."""
    rows = [
        {
            "policy": name,
            "median without backfilling": evaluation["without_backfilling"][name]["median"],
            "with": figures["median"],
        }
        for name, figures in evaluation["with_backfilling"].items()
    ]
    return sorted(rows, key=lambda row: (row["with"], row["policy"]))
