"""Scores to heuristics: weighted least squares on monomials of p, q and r (Table 1 of the 2023 regression study)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from statsmodels.regression.linear_model import WLS  # type: ignore[import-untyped]
from statsmodels.stats.outliers_influence import variance_inflation_factor  # type: ignore[import-untyped]

from batfill.policy_files import Term

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.tuning.proxy import Scores

Weights = Literal["pq", "pq2"]
Powers = tuple[int, int, int]  # of p, q, r

# Each function has the terms of those before it, too.
FUNCTIONS: dict[str, tuple[Powers, ...]] = {}
FUNCTIONS["lin"] = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
FUNCTIONS["qdr"] = (*FUNCTIONS["lin"], (2, 0, 0), (0, 2, 0), (0, 0, 2), (1, 1, 0))
FUNCTIONS["cub"] = (*FUNCTIONS["qdr"], (3, 0, 0), (0, 3, 0), (0, 0, 3), (2, 1, 0), (1, 2, 0))
FUNCTIONS["qua"] = (*FUNCTIONS["cub"], (4, 0, 0), (0, 4, 0), (0, 0, 4), (3, 1, 0), (2, 2, 0), (1, 3, 0))

# Above this a feature is all but a combination of the others, and its coefficient means little.
HIGH_VIF = 10.0


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


def fit(scores: Scores, name: str, weights: Weights = "pq") -> Fit:
    """The coefficients of FUNCTIONS[name] that minimize the weighted sum of squared errors of the scores.

    Args:
        scores: of the proxy problem.
        name: lin, qdr, cub or qua.
        weights: a squared error counts p q times, or (p q)^2 times as equation 5 and the published code have it. A job
            of no run time counts as one of one second.
    """
    powers = FUNCTIONS[name]
    p, q, r = scores.runtime_s, scores.procs, scores.submit_s
    design = np.column_stack([p**a * q**b * r**c for a, b, c in powers])
    # Columns reach 1e20: in units of their largest value the normal equations stay solvable.
    unit = np.abs(design).max(axis=0)
    unit[unit == 0] = 1.0
    area = np.maximum(p, 1.0) * q
    area /= area.mean()
    with warnings.catch_warnings(), np.errstate(divide="ignore"):
        warnings.simplefilter("ignore")  # a factor that is large or infinite says so itself, see `multicollinear`
        result = WLS(scores.score, design / unit, weights=area if weights == "pq" else area**2).fit()
        vif = np.array([variance_inflation_factor(design / unit, i) for i in range(1, len(powers))])
    coefficients = result.params / unit
    terms = tuple((float(value), *exponents) for value, exponents in zip(coefficients, powers, strict=True))
    return Fit(
        name=name,
        terms=terms,
        standard_errors=np.asarray(result.bse / unit),
        mae=float(np.abs(design @ coefficients - scores.score).mean()),
        vif=vif,
        warnings=tuple(multicollinear(powers[1:], vif)),
    )


def multicollinear(powers: tuple[Powers, ...], vif: NDArray[np.float64]) -> list[str]:
    """A line for the terms whose variance is inflated beyond HIGH_VIF; none where all is well."""
    bad = [(term, factor) for term, factor in zip(powers, vif, strict=True) if not factor <= HIGH_VIF]
    if not bad:
        return []
    (a, b, c), worst = max(bad, key=lambda entry: entry[1])
    return [
        f"{len(bad)} of {len(vif)} terms have a variance inflation factor above {HIGH_VIF:g} "
        f"(most: p^{a} q^{b} r^{c}, {worst:.3g}): features are multicollinear, and coefficients unstable"
    ]
