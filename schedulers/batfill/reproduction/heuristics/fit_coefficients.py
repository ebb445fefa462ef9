"""The fitted polynomials of one log: Tables 3 to 5 of the 2023 study of regression heuristics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.reproduction.heuristics.proxy_scores import TITLES, Fitting, fits_of
from batfill.reproduction.outcome import Outcome, Table, Value, Verdict
from batfill.tuning.regression import FUNCTIONS, HIGH_VIF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.reproduction.task import Task
    from batfill.tuning.regression import Fit, Powers


class Parameters(Fitting):
    """Nothing beside the fits."""


def compute(task: Task, parameters: Parameters) -> Outcome:
    """Coefficients and variance inflation factors, a row per term, for every choice; verdicts are on the first."""
    ((label, _),) = task.logs.items()
    found = {choice: fits_of(task, label, choice, parameters) for choice in parameters.choices}
    return Outcome(
        tuple(table_of(fits, choice) for choice, fits in found.items()),
        verdicts(next(iter(found.values()))),
        notes=(f"{32 * parameters.tuples[label]:,} scored jobs. Verdicts are on {parameters.choices[0]}.",),
    )


def table_of(fits: Sequence[Fit], choice: str) -> Table:
    """All four functions."""
    titles = [TITLES[found.name] for found in fits]
    terms = FUNCTIONS["qua"]
    rows: list[tuple[Value, ...]] = []
    for i in range(len(terms)):
        there = [i < len(found.terms) for found in fits]
        coefficients = [found.terms[i][0] if is_in else None for found, is_in in zip(fits, there, strict=True)]
        factors = [float(found.vif[i - 1]) if is_in and i else None for found, is_in in zip(fits, there, strict=True)]
        rows.append((*coefficients, *factors))
    return Table((*titles, *(f"VIF {title}" for title in titles)), tuple(map(monomial, terms)), tuple(rows), choice)


def monomial(powers: Powers) -> str:
    """The term as the paper writes it: p^2q."""
    parts = [f"{name}^{power}" if power > 1 else name for name, power in zip("pqr", powers, strict=True) if power]
    return "".join(parts) or "1"


def verdicts(fits: Sequence[Fit]) -> dict[str, Verdict]:
    """On what the study says of signs, and of collinearity."""
    lin = fits[0]
    signs = {name: lin.terms[1 + i][0] for i, name in enumerate("pqr")}
    worst = {found.name: float(found.vif.max()) for found in fits}
    return {
        "lin": Verdict(
            signs["p"] > 0 and signs["q"] > 0 and signs["r"] < 0,
            "Lin: " + ", ".join(f"{name} {value:.3g}" for name, value in signs.items()),
        ),
        "collinear": Verdict(
            worst["lin"] < HIGH_VIF < min(worst["cub"], worst["qua"]) and worst["qdr"] < worst["cub"] < worst["qua"],
            "largest factors: " + ", ".join(f"{TITLES[name]} {factor:,.3g}" for name, factor in worst.items()),
        ),
    }
