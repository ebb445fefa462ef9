"""The fitted polynomials of one log: Tables 3 to 5 of the 2023 study of regression heuristics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.reproduction.heuristics.proxy_scores import TITLES, Fitting, fits_of
from batfill.reproduction.outcome import Outcome, Table, Value, Verdict
from batfill.tuning.heuristics import FUNCTIONS, HIGH_VIF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.reproduction.task import Task
    from batfill.tuning.heuristics import Fit, Powers


TERMS = FUNCTIONS["qua"]


class Parameters(Fitting):
    """Nothing beside the fits."""


def compute(task: Task, parameters: Parameters) -> Outcome:
    """Coefficients for every choice, and factors, which depend on none; a row per term. Verdicts are on the first."""
    ((label, _),) = task.logs.items()
    found = {choice: fits_of(task, label, choice, parameters) for choice in parameters.choices}
    first = next(iter(found.values()))
    return Outcome(
        (*(coefficients(fits, choice) for choice, fits in found.items()), factors(first)),
        verdicts(first),
        notes=(f"{32 * parameters.tuples[label]:,} scored jobs. Verdicts are on {parameters.choices[0]}.",),
    )


def coefficients(fits: Sequence[Fit], choice: str) -> Table:
    """Of all four functions."""
    rows: list[tuple[Value, ...]] = [
        tuple(found.terms[i][0] if i < len(found.terms) else None for found in fits) for i in range(len(TERMS))
    ]
    return Table(tuple(TITLES[found.name] for found in fits), tuple(map(monomial, TERMS)), tuple(rows), choice)


def factors(fits: Sequence[Fit]) -> Table:
    """The variance inflation factors of all terms but the constant."""
    rows: list[tuple[Value, ...]] = [
        tuple(float(found.vif[i]) if i < len(found.vif) else None for found in fits) for i in range(len(TERMS) - 1)
    ]
    return Table(tuple(f"VIF {TITLES[found.name]}" for found in fits), tuple(map(monomial, TERMS[1:])), tuple(rows))


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
