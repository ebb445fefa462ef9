"""Heuristics learned by regression on a log's first windows, and tested on the windows that follow.

Weighted least squares on monomials of p, q and r turns scores of the proxy problem (see `proxy`) into coefficients: as
in the 2023 study ("plain"), or with the signs of the weights constrained ("signed"). `batfill fit` does all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.tables import as_table, data_frame
from batfill.base.words import wrapped
from batfill.model.jobs import DAY_S, LONGEST_S, refuse_cancelled
from batfill.model.metrics import long_waits
from batfill.model.policy import FILE_FORMAT, POLICIES, Policy, Term, polynomial
from batfill.model.values import number_from, number_of, one_of
from batfill.replays.found import Found, document
from batfill.workloads import opened
from batfill_lab.learning.proxy import N_QUEUED, Scores, Shuffle, score_jobs
from batfill_lab.learning.regression import least_squares, signed_least_squares, variance_inflation
from batfill_lab.search.judged import Seeded, judged, rows_over
from batfill_lab.search.periods import Conditions, costs_and_waits, read_periods
from batfill_pages.stats import CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from batfill.model.jobs import Jobs
    from batfill_lab.search.periods import Periods

Weights = Literal["pq", "pq2"]
Regression = Literal["signed", "plain"]
Powers = tuple[int, int, int]  # of p, q, r

# The study's functions: each has the terms of the one before it, and more.
FUNCTIONS: dict[str, tuple[Powers, ...]] = {}
FUNCTIONS["lin"] = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
FUNCTIONS["qdr"] = (*FUNCTIONS["lin"], (2, 0, 0), (0, 2, 0), (0, 0, 2), (1, 1, 0))
FUNCTIONS["cub"] = (*FUNCTIONS["qdr"], (3, 0, 0), (0, 3, 0), (0, 0, 3), (2, 1, 0), (1, 2, 0))
FUNCTIONS["qua"] = (*FUNCTIONS["cub"], (4, 0, 0), (0, 4, 0), (0, 0, 4), (3, 1, 0), (2, 2, 0), (1, 3, 0))

# The functions of a signed regression. A term with a power of r above 1 would make the order depend on where the clock
# starts; `area` has SAF, SPF and SQF as special cases.
SIGNED: dict[str, tuple[Powers, ...]] = {"area": (*FUNCTIONS["lin"], (1, 1, 0)), "lin": FUNCTIONS["lin"]}

# Above this a feature is nearly a combination of the others, and its coefficient means little.
HIGH_VIF = 10.0
BASELINE = "saf"


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """One fitted function."""

    name: str
    terms: tuple[Term, ...]
    standard_errors: NDArray[np.float64]  # of the coefficients, by tuple; nan if held at 0, or a signed fit's constant
    mae: float  # mean absolute error of the scores, equation 6
    vif: NDArray[np.float64]  # variance inflation factors, of all terms but the constant
    free: tuple[tuple[float, float], ...] = ()  # without signs, and errors

    def interval(self, i: int) -> tuple[float, float]:
        return ends(self.terms[i][0], float(self.standard_errors[i]))

    def held(self, i: int) -> bool:
        """Whether the i-th coefficient is held at 0, because the regression alone would give it the other sign."""
        return i > 0 and self.terms[i][0] == 0 and bool(np.isnan(self.standard_errors[i]))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is doubtful, a line each: multicollinear terms, and each weight whose sign is not determined."""
        powers = tuple((p, q, r) for _, p, q, r in self.terms[1:])
        unsure = []
        if all(self.held(i) for i in range(1, len(self.terms))):
            unsure.append("every weight is held at 0, so the order is that of submission; give more --tuples")
        for i, term in enumerate(powers, 1):
            low, high = self.interval(i)
            if low <= 0 <= high:
                unsure.append(
                    f"the sign of the weight on {monomial(term)} is not determined: {self.terms[i][0]:.3g}, "
                    f"{CONFIDENCE:.0%} interval {low:.3g} to {high:.3g}; give more --tuples, or a longer log"
                )
        return (*multicollinear(powers, self.vif), *unsure)

    def as_dict(self) -> dict[str, Any]:
        terms = []
        for i, (coefficient, p, q, r) in enumerate(self.terms):
            low, high = self.interval(i)
            term: dict[str, Any] = {
                "p": p,
                "q": q,
                "r": r,
                "coefficient": coefficient,
                "standard_error": float(self.standard_errors[i]),
                "low": low,
                "high": high,
                "vif": float(self.vif[i - 1]) if i else None,
            }
            if self.free:
                value, error = self.free[i - 1] if i else (np.nan, np.nan)
                low, high = ends(value, error)
                term |= {"held": self.held(i), "unsigned": value, "unsigned_low": low, "unsigned_high": high}
            terms.append(term)
        return {"terms": terms, "mixed": self.mixed, "mae": self.mae, "warnings": list(self.warnings)}

    @property
    def mixed(self) -> str | None:
        """The mixed policy with the same order, but for nearly equal keys, rounded differently; None without one."""
        weights = {(p, q, r): coefficient for coefficient, p, q, r in self.terms if (p, q, r) != (0, 0, 0)}
        b, a, c, f = (weights.pop(powers, 0.0) for powers in SIGNED["area"][1:])
        if any(weights.values()) or not any((a, b, c, f)):
            return None
        return "mixed:" + ",".join(f"{weight:.17g}" for weight in (a, b, 0.0 - c, 0.0, 0.0, f))


def ends(value: float, error: float) -> tuple[float, float]:
    width = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * error
    return value - width, value + width


def monomial(powers: Powers) -> str:
    """A term as text: p^2 q."""
    named = zip("pqr", powers, strict=True)
    return " ".join(f"{name}^{power}" if power > 1 else name for name, power in named if power)


def fit_scores(scores: Scores, name: str, weights: Weights = "pq", regression: Regression = "plain") -> Fit:
    """The coefficients that minimise the weighted sum of squared errors of the scores.

    A plain regression is the study's. A signed one differs in two ways. It compares jobs within their tuple only, as
    the scores of each tuple sum to 1 and a queue's order compares jobs that wait at the same time. And it allows no
    weight below 0 on p, q and p q, which would put larger jobs first, and none above 0 on r, which is the order of
    arrival. The proxy problem asks for the latter because an order that begins with a job not yet submitted waits for
    it; a real queue never does.

    The scores of a tuple depend on each other, so errors are by tuple, given the weights held at 0. They cover the draw
    of the tuples and of the orders, that is another seed. They do not cover another log of the same machine: all seeds
    draw from the same jobs, and tuples overlap.

    `name`: of FUNCTIONS, or of SIGNED for a signed regression. `weights`: a squared error weighs p q, or (p q)^2 as in
    equation 5 and the published code. A job without run time counts as one of one second.
    """
    signed = regression == "signed"
    powers = SIGNED[name] if signed else FUNCTIONS[name]
    p, q, r = scores.runtime_s, scores.procs, scores.submit_s
    design = np.column_stack([p**a * q**b * r**c for a, b, c in powers])
    # Columns reach 1e20; scaling by the largest value keeps the equations solvable.
    unit = np.abs(design).max(axis=0)
    unit[unit == 0] = 1.0
    area = np.maximum(p, 1.0) * q
    area /= area.mean()
    weight = area if weights == "pq" else area**2
    tuple_of = np.arange(len(p)) // N_QUEUED
    x = design / unit
    free: tuple[tuple[float, float], ...] = ()
    if signed:
        x, y = within(x, weight, tuple_of), within(scores.score[:, None], weight, tuple_of)[:, 0]
        unsigned, unsigned_errors = least_squares(x[:, 1:], y, weight, tuple_of)
        free = tuple(zip((unsigned / unit[1:]).tolist(), (unsigned_errors / unit[1:]).tolist(), strict=True))
        fitted, errors = np.zeros(len(powers)), np.full(len(powers), np.nan)
        fitted[1:] = signed_least_squares(x[:, 1:], y, weight, [-1 if c else 1 for _, _, c in powers[1:]])
        chosen = fitted != 0
        if chosen.any():
            _, errors[chosen] = least_squares(x[:, chosen], y, weight, tuple_of)
        fitted[0] = np.average(scores.score - design @ (fitted / unit), weights=weight)
        x[:, 0] = 1.0
    else:
        fitted, errors = least_squares(x, scores.score, weight, tuple_of)
    coefficients = fitted / unit
    return Fit(
        name=name,
        terms=tuple((float(value), *exponents) for value, exponents in zip(coefficients, powers, strict=True)),
        standard_errors=errors / unit,
        mae=float(np.abs(design @ coefficients - scores.score).mean()),
        vif=variance_inflation(x),
        free=free,
    )


def within(
    columns: NDArray[np.float64], weights: NDArray[np.float64], groups: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The columns, shape (n, k), minus their weighted means over the rows of the same group; groups count from 0."""
    total = np.bincount(groups, weights)
    means = np.column_stack([np.bincount(groups, weights * column) / total for column in columns.T])
    return np.asarray(columns - means[groups])


def multicollinear(powers: tuple[Powers, ...], vif: NDArray[np.float64]) -> list[str]:
    """A warning if the variance of any term is inflated beyond HIGH_VIF; otherwise none."""
    bad = [(term, factor) for term, factor in zip(powers, vif, strict=True) if not factor <= HIGH_VIF]
    if not bad:
        return []
    term, worst = max(bad, key=lambda entry: entry[1])
    return [
        f"{len(bad)} of {len(vif)} terms have a variance inflation factor above {HIGH_VIF:g} "
        f"(most: {monomial(term)}, {worst:.3g}): features are multicollinear, and coefficients unstable"
    ]


class Fitted(Found):
    """The content of a policy file, with its functions as policies.

    Attributes:
        fits: the fitted functions.
        policies: the same by name, for `replay`.
        held_out: the windows that nothing was fitted to; None if there are none.
    """

    def __init__(self, content: Mapping[str, Any], fits: Sequence[Fit], held_out: Periods | None) -> None:
        super().__init__(content, coefficient_rows(fits), content["recommendation"]["text"])
        self.fits, self.held_out = fits, held_out
        self.policies = {policy.name: policy for policy in fitted_policies(fits)}

    def as_text(self) -> str:
        """The coefficients, the validation, and the recommendation."""
        validation = self["validation"]
        shown = [] if validation is None else [as_table(fit_rows(validation)), *map(wrapped, validation["warnings"])]
        return "\n\n".join([as_table(self.rows), *shown, wrapped(self.remark)])

    __repr__ = as_text

    def to_pandas(self) -> pd.DataFrame:
        """A row per term of each function: the powers of p, q and r, the coefficient, its error and its interval."""
        rows = [{"policy": found.name, **term} for found in self.fits for term in found.as_dict()["terms"]]
        return data_frame(rows, options=self["options"], input=self["input"])


NOTHING_HELD_OUT = "every window was learned from, and none is left to test on; give shorter --days, or --training N"


@dataclass(frozen=True, kw_only=True)
class Windows(Seeded):
    """What `fit` takes, too."""

    days: float = 15  # length of a window
    count: int | None = None  # use only this many windows, from the first
    training: int | None = None  # learn from this many, from the first; by default half of them, or the only one

    def __post_init__(self) -> None:
        super().__post_init__()
        number_of("days", self.days, 1e-9, LONGEST_S / DAY_S, "a number of days > 0, as 15")
        for name in ("count", "training"):
            if (value := getattr(self, name)) is not None:
                number_from(name, value)


def fit(
    log: Jobs | str | Path,
    *,
    tuples: int = 4000,
    permutations: int = 4000,
    regression: Regression = "signed",
    shuffle: Shuffle = "fair",
    weights: Weights = "pq",
    **windows: Any,
) -> Fitted:
    """Learn heuristics by regression on the scores of many random schedules, and test them on later windows.

    The log is cut into windows from its first submission, those without jobs left out. The first ones are learned from;
    on the others each function is replayed with backfilling and compared with SAF.

    Args:
        log: a workload or a file, as for `read_workload`.
        tuples: number of subtraces to score. More of them determine the coefficients better, more permutations hardly.
        permutations: number of orders of each.
        regression: "signed", or "plain" as in the study; see `fit_scores`.
        shuffle: every order equally likely ("fair"), or biased as in the "published" code.
        weights: a squared error weighs p q ("pq"), or (p q)^2 as published ("pq2").
        **windows: days, count, training, seed, bar, procs, overrun, unrequested: see `Windows`. The scores are of run
            times, which only `overrun` "kill" changes.

    Returns:
        The content of the policy file; `save` writes it, for `replay(log, "area@FILE")`, or "@FILE" for the policy that
        is recommended, which is SAF if no function was better beyond chance. `policies` holds the functions.

    Raises:
        BatfillError: the log is unreadable or too short, the machine's size is unknown, or the windows are too few.

    Examples:
        >>> from batfill.replays.replay import replay
        >>> fitted = fit("workloads/sample.json", tuples=3, permutations=64, days=0.5)
        >>> list(fitted.policies), len(fitted.to_pandas()), fitted["recommendation"]["take"]
        (['area', 'lin'], 9, 'saf')
        >>> replay("workloads/sample.json", fitted.policies["area"]).figures.jobs
        800
    """
    tuples, permutations = number_from("tuples", tuples), number_from("permutations", permutations)
    for name, value, known in (("regression", regression, Regression), ("shuffle", shuffle, Shuffle)):
        one_of(name, value, get_args(known))
    one_of("weights", weights, get_args(Weights))
    how = Windows.of(**windows)
    cut = read_windows(log, days=how.days, count=how.count, **how.reading)
    n_training = max(len(cut) // 2, 1) if how.training is None else how.training
    if not 1 <= n_training <= len(cut):
        raise BatfillError(
            f"{cut.source}: {len(cut)} windows; choose --training from 1 to {len(cut)}, not {n_training}"
        )
    learned = cut.part(0, n_training)
    held_out = cut.part(n_training, len(cut)) if n_training < len(cut) else None
    workload, _ = opened(log, **how.reading)
    refuse_cancelled(workload, workload.where, "what is learned of run times")
    # Windows hold every job, so these are the jobs of the first ones; their tables begin at different seconds.
    jobs = workload.jobs.select(slice(0, sum(map(len, learned.tables))))
    drawn: dict[str, Any] = {"tuples": tuples, "permutations": permutations}
    with how.progress("tuples", tuples) as advance:
        scores = score_jobs(jobs, cut.procs, seed=how.seed, **drawn, how=shuffle, advance=advance)
    fits = [fit_scores(scores, name, weights, regression) for name in (SIGNED if regression == "signed" else FUNCTIONS)]
    validation = None
    advice: dict[str, Any] = {"take": None, "text": f"nothing is recommended: {NOTHING_HELD_OUT}"}
    if held_out is not None:
        with how.progress("windows", len(held_out)) as advance:
            validation = validate(held_out, fitted_policies(fits), seed=how.seed, advance=advance)
        advice = validation["recommendation"]
    firsts = scores.firsts.reshape(tuples, -1).mean(axis=0)
    given = {**drawn, "regression": regression, "shuffle": shuffle, "weights": weights, "days": how.days}
    content = document(
        "fit",
        seed=how.seed,
        given={**given, "training": n_training},
        source=cut.provenance(),
        results={
            "format": FILE_FORMAT,
            "functions": {found.name: found.as_dict() for found in fits},
            "recommendation": advice,
            "validation": validation,
            "learned_from": {
                "windows": list(learned.numbers),
                "jobs": len(jobs),
                "until_s": (learned.numbers[-1] + 1) * how.days * DAY_S,
            },
            "scored_jobs": len(scores.score),
            # The share of the orders that the i-th submitted job began, relative to a fair share: 1 for a fair shuffle.
            "came_first": firsts / firsts.mean(),
        },
    )
    return Fitted(content, fits, held_out)


def read_windows(log: Jobs | str | Path, *, days: float, count: int | None = None, **reading: Any) -> Periods:
    """The log's windows from its first submission, with all jobs submitted in each; the first `count` of them."""
    windows = read_periods(log, days=days, align="first", boundary="submitted", **reading)
    if count is not None and count > len(windows):
        raise BatfillError(f"{windows.source}: {count} windows requested, but only {len(windows)} hold jobs")
    return windows.part(0, len(windows) if count is None else count)


def fitted_policies(fits: Sequence[Fit]) -> list[Policy]:
    return [polynomial(found.name, found.terms, "regression on scores of the proxy problem") for found in fits]


BACKFILLED = Conditions(backfill=None)  # in the queue's order


def validate(
    windows: Periods, policies: Sequence[Policy], *, seed: int, advance: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Each policy and SAF on the windows, with backfilling, and what to use; `advance` is called once per window."""
    figures = by_policy(windows, [*policies, POLICIES[BASELINE]], advance)
    return {
        "windows": windows.provenance(),
        "with_backfilling": figures,
        **over_saf(figures, [policy.name for policy in policies], seed=seed),
    }


def by_policy(windows: Periods, policies: Sequence[Policy], advance: Callable[[int], None]) -> dict[str, Any]:
    """Each policy's costs over the windows, and its long waits over the jobs of all; `advance` as for `validate`."""
    costs, waits_s = costs_and_waits(windows, policies, BACKFILLED, advance=advance)
    quartiles = np.quantile(costs, [0.25, 0.5, 0.75], axis=1)
    return {
        policy.name: {
            "median": quartiles[1, i],
            "lower_quartile": quartiles[0, i],
            "upper_quartile": quartiles[2, i],
            "mean": costs[i].mean(),
            **long_waits(np.concatenate([waited[i] for waited in waits_s])),
            "mean_bsld": costs[i],
        }
        for i, policy in enumerate(policies)
    }


def over_saf(figures: Mapping[str, Any], names: Sequence[str], *, seed: int) -> dict[str, Any]:
    """The policies of these names against SAF by the costs of `by_policy`, all compared at once, and what to use."""
    costs = {name: figures[name]["mean_bsld"] for name in (*names, BASELINE)}
    words = {"what": "the sum of mean bounded slowdowns", "periods": "held-out windows"}
    return judged(costs, figures, BASELINE, seed=seed, over="over_saf", **words)


def coefficient_rows(fits: Sequence[Fit]) -> list[dict[str, Any]]:
    """The table to show: per fit the plain terms' weights and half their intervals, the error, the largest factor."""
    shown = [powers for powers in (*FUNCTIONS["lin"][1:], (1, 1, 0)) if any(powers in powers_of(each) for each in fits)]

    def weight(found: Fit, powers: Powers) -> str | None:
        if powers not in powers_of(found):
            return None
        i = powers_of(found).index(powers)
        if found.held(i):
            return "0 (held)"
        value = found.terms[i][0]
        return f"{value:.3g} ±{found.interval(i)[1] - value:.1g}"

    return [
        {
            "policy": found.name,
            **{monomial(powers): weight(found, powers) for powers in shown},
            "mae": f"{found.mae:.3g}",
            "max vif": f"{found.vif.max():.3g}",
        }
        for found in fits
    ]


def powers_of(found: Fit) -> list[Powers]:
    return [(p, q, r) for _, p, q, r in found.terms]


def fit_rows(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Costs on the held-out windows, from the least sum, and each function against SAF; `found` from `validate`."""
    sums = [{"policy": name, **each} for name, each in found["with_backfilling"].items()]
    return rows_over(
        sorted(sums, key=lambda row: (row["mean"], row["policy"])),
        found["over_saf"],
        BASELINE,
        {"held out: median": "median", "mean": "mean"},
        ratio=f"mean/{BASELINE}",
        take=found["recommendation"]["take"],
    )
