"""One study of mixed policies from a log's file to its result file: what `batfill tune` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from batfill.errors import BatfillError
from batfill.policies import policy_named
from batfill.tuning.costs import PURE, Setting
from batfill.tuning.coverage import POINTS, Coverage
from batfill.tuning.evolution import EVALUATIONS, Evolution
from batfill.tuning.maps import draw_maps
from batfill.tuning.results import document
from batfill.tuning.space import Features, Space
from batfill.tuning.study import Search, Study, study

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from batfill.tuning.weeks import Periods

Method = Literal["coverage", "xnes"]
Units = Literal["typical", "plain"]


def tune(
    periods: Periods,
    setting: Setting,
    *,
    method: Method = "coverage",
    features: Features = 3,
    units: Units = "typical",
    points: int | None = None,
    evaluations: int | None = None,
    seed: int = 0,
    training: int | None = None,
    last: Sequence[int] = (1, 4),
    policies: Sequence[str] = PURE,
    baseline: str = "saf",
    maps: Path | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """The result file of a study; see `study` for its lines.

    Args:
        periods: where to search and to test.
        setting: backfilling and threshold.
        method: look up every point of a grid ("coverage", 3 features only), or "xnes".
        features: how many are weighed.
        units: of the features, see `Space`; what is typical is what the training periods say.
        points: of the grid, at least; None for POINTS.
        evaluations: of xNES, per question; None for EVALUATIONS.
        seed: of xNES and the bootstrap.
        training: how many periods w*train learns from; None for half.
        last: how many periods back each walk forward looks.
        policies: names of the policies that are compared as they are.
        baseline: the one of them that all others are compared with.
        maps: a folder for one map of the search space per period (coverage only).
        advance: told of progress, in `steps_of` steps.

    Raises:
        BatfillError: the choices do not go together, or there are too few periods.
    """
    n = len(periods)
    n_training = n // 2 if training is None else training
    longest = max(last, default=1)
    if not 0 < longest <= n_training < n:
        raise BatfillError(
            f"{n} periods are too few to train on {n_training} and look {longest} back; "
            "give a longer log, another --training, or shorter --last"
        )
    if baseline not in policies:
        raise BatfillError(f"the baseline {baseline} is not among the policies compared; add --policy {baseline}")
    if method == "coverage" and features != 3:
        raise BatfillError("a grid over 6 features is too large; take --method xnes, or --features 3")
    other, name = (evaluations, "evaluations") if method == "coverage" else (points, "points")
    if other is not None:
        raise BatfillError(f"--{name}: --method {method} has no such number; leave it out, or take the other method")
    if maps is not None and method != "coverage":
        raise BatfillError("only a grid can be drawn; leave --maps out, or take --method coverage")

    space = Space.scaled(features, periods.part(0, n_training)) if units == "typical" else Space.of(features)
    search: Search
    if method == "coverage":
        search = Coverage(periods, setting, space, points or POINTS, advance)
    else:
        search = Evolution(periods, setting, space, seed, evaluations or EVALUATIONS)
    done = study(
        periods,
        setting,
        search,
        pure=[policy_named(name) for name in policies],
        n_training=n_training,
        last=last,
        advance=(lambda _: None) if method == "coverage" else advance,
    )
    if maps is not None and isinstance(search, Coverage):
        draw_maps(search, periods, maps)
    return document(
        "tune",
        seed=seed,
        given={**setting.as_dict(), **search.as_dict(), "training": n_training, "last": list(last)},
        source=periods.provenance(),
        results=results_of(done, periods, baseline, seed),
    )


def results_of(done: Study, periods: Periods, baseline: str, seed: int) -> dict[str, Any]:
    """Sums, comparisons, the policies found, and every period's cost."""
    found = ("w*", "w*train")
    return {
        "sums": done.sums(),
        "baseline": baseline,
        "testing_over_baseline": done.against(policy_named(baseline).name, seed=seed),
        "trained": done.lines["w*train"].policies[0],
        "by_period": [
            {
                "period": number,
                "jobs": len(jobs),
                "mean_bsld": {name: line.costs[i] for name, line in done.lines.items()},
                "policies": {
                    name: line.policies[i]
                    for name, line in done.lines.items()
                    if name in found or None in line.policies
                },
            }
            for i, (number, jobs) in enumerate(zip(periods.numbers, periods.tables, strict=True))
        ],
    }


def rows_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """What a reader wants first: every line's sums, and its testing sum over the baseline's with the interval."""
    column = f"testing/{found['baseline']}"
    itself = {"ratio": 1.0, "low": None, "high": None, "verdict": ""}
    rows = []
    for row in found["sums"]:
        ratio = found["testing_over_baseline"].get(row["policy"], itself)
        told = {column: ratio["ratio"], "from": ratio["low"], "to": ratio["high"], "": ratio["verdict"]}
        rows.append({**row, **told})
    return rows


def width_of(days: float | None, months: bool) -> float | Literal["month"]:
    """How long a period is: so many days, calendar months, or by default a week.

    Raises:
        BatfillError: both are asked for.
    """
    if months and days is not None:
        raise BatfillError("--days and --months are two lengths of one period; leave one of them out")
    return "month" if months else 7 if days is None else days


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Whole numbers above 0 separated by commas.

    Raises:
        BatfillError: it is something else.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) > 0 for word in words):
        raise BatfillError(f"{option} {text!r} is not a list of whole numbers above 0; try 1,4")
    return tuple(int(word) for word in words)


def steps_of(method: Method, n_periods: int, last: Sequence[int]) -> int:
    """How many steps `tune` tells of: a period of a grid, or a search of xNES."""
    return n_periods if method == "coverage" else n_periods + 1 + sum(n_periods - k for k in last if k > 1)
