"""How much of a sweep continuous integration does: enough that no value is left out, and the rest under mark `long`."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from itertools import combinations, product
from typing import Any

import pytest

# How many times as many random cases hypothesis tries: `make test-slow` tries eight times as many.
THOROUGH = int(os.environ.get("BATFILL_EXAMPLES", "1"))
LATER = partial(pytest.param, marks=[pytest.mark.slow, pytest.mark.long])  # a case whose claim others show, too
COMPILED = partial(pytest.param, marks=pytest.mark.compiled)  # a case that reaches no further line as plain Python


def examples(usual: int) -> int:
    """How many random cases a test tries."""
    return usual * THOROUGH


def sweep(together: int = 1, /, **values: list[Any]) -> tuple[str, list[Any]]:
    """The arguments of `pytest.mark.parametrize` for the product of these values.

    Most of a product repeats what others show. As many cases as it takes for every `together` values of different
    parameters to occur are run everywhere; all others have the marks `slow` and `long`.

    Args:
        together: 1 for each value once, 2 for each pair of values.
        values: by the parameter's name; one may be a `pytest.param` with marks of its own.
    """
    places = [range(len(given)) for given in values.values()]
    left = list(product(*places))
    wanted = {part for case in left for part in parts(case, together)}
    pairs = {part for case in left for part in parts(case, 2)}
    chosen: Counter[tuple[int, int]] = Counter()
    everywhere = set()

    def shown(case: tuple[int, ...]) -> tuple[int, int, int]:
        """What this case adds, most wanted first: what has to occur, other pairs of values, rare values."""
        return (
            len(parts(case, together) & wanted),
            len(parts(case, 2) & pairs),
            -sum(chosen[value] for value in enumerate(case)),
        )

    while wanted:
        best = max(left, key=shown)
        everywhere.add(best)
        chosen.update(enumerate(best))
        wanted -= parts(best, together)
        pairs -= parts(best, 2)
    return ", ".join(values), [parameters(values, case, everywhere=case in everywhere) for case in left]


def parts(case: tuple[int, ...], size: int) -> set[tuple[tuple[int, int], ...]]:
    """Every choice of `size` of a case's (parameter, value) pairs."""
    return set(combinations(enumerate(case), size))


def parameters(values: dict[str, list[Any]], case: tuple[int, ...], *, everywhere: bool) -> Any:
    """One case as pytest takes it."""
    given = [of_one[place] for of_one, place in zip(values.values(), case, strict=True)]
    marks = [] if everywhere else [pytest.mark.slow, pytest.mark.long]
    plain = []
    for value in given:
        if isinstance(value, type(pytest.param())):
            marks += value.marks
            plain += value.values
        else:
            plain.append(value)
    return pytest.param(*plain, marks=marks)
