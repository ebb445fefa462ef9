"""Policies that were learned and saved: `lin@heuristics.json` is the function `lin` of that file.

A function is a sum of terms, coefficient x p^a q^b r^c, in which the requested time p~ stands for p: lowest first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.errors import PolicyError
from batfill.policies import Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

FORMAT = "batfill policies 1"
Term = tuple[float, int, int, int]  # coefficient, powers of p, q, r


def polynomial(name: str, terms: Sequence[Term], source: str) -> Policy:
    """The policy that orders by this polynomial."""

    def key(r: NDArray[np.float64], p: NDArray[np.float64], q: NDArray[np.int64]) -> NDArray[np.float64]:
        total = np.zeros(len(r))
        for coefficient, of_p, of_q, of_r in terms:
            total += coefficient * p**of_p * q.astype(np.float64) ** of_q * r**of_r
        return total

    return Policy(name, key, formula=" ".join(formula_of(term) for term in terms), source=source)


def formula_of(term: Term) -> str:
    """One term in words a reader knows: +2.5e-08 p~ q^2."""
    coefficient, *powers = term
    named = zip(("p~", "q", "r"), powers, strict=True)
    factors = [f"{name}^{power}" if power > 1 else name for name, power in named if power]
    return " ".join([f"{coefficient:+.6g}", *factors])


def policy_in_file(text: str) -> Policy:
    """The policy of NAME@FILE.

    Raises:
        PolicyError: the file cannot be read, is not a policy file, or has no function of that name.
    """
    name, _, file = text.strip().partition("@")
    name, path = name.lower(), Path(file)
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or "it is not JSON"
        raise PolicyError(f"policy {text}: {path} cannot be read ({what}); `batfill fit` writes such files") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise PolicyError(f"policy {text}: {path} is not a policy file ({FORMAT}); `batfill fit` writes such files")
    functions = content.get("functions")
    if not isinstance(functions, dict) or name not in functions:
        known = ", ".join(functions) if isinstance(functions, dict) else "none"
        raise PolicyError(f"policy {text}: {path} has no function {name!r}; it has {known}")
    try:
        terms = [term_of(term) for term in functions[name]["terms"]]
    except (KeyError, TypeError, ValueError):
        raise PolicyError(
            f"policy {text}: a term of {name!r} in {path} is not a finite coefficient with whole powers p, q, r >= 0"
        ) from None
    return polynomial(f"{name}@{path}", terms, str(content.get("made_by", path)))


def term_of(entry: Any) -> Term:
    """A term from its JSON object; ValueError, KeyError or TypeError where it is none."""
    powers = [entry.get(name, 0) for name in ("p", "q", "r")]
    if any(isinstance(power, bool) or not isinstance(power, int) or power < 0 for power in powers):
        raise ValueError(powers)
    coefficient = float(entry["coefficient"])
    if not np.isfinite(coefficient):
        raise ValueError(coefficient)
    return coefficient, powers[0], powers[1], powers[2]
