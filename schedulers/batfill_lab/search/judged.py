"""Choices against what is in use, over the same periods: the same words and figures in every result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.progress import patient_progress
from batfill.base.tables import cell
from batfill.base.words import duration
from batfill.model.values import function_of, seed_of
from batfill.replays.found import ReadingOptions
from batfill_pages.stats import BETTER, comparison_warnings, paired, undecided

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from batfill_lab.processes import Bar
    from batfill_pages.stats import Paired

WAITS = ("p999_wait_s", "max_wait_s")  # what `long_waits` finds of every choice


TOO_FEW = "too few for an interval"
GROWTH = 0.1  # of the longest wait, above which a recommendation says what else there is


@dataclass(frozen=True, kw_only=True)
class Seeded(ReadingOptions):
    """What studies with random numbers take, too."""

    seed: int = 0  # of everything random: intervals, samples, and what is searched or fitted
    bar: Bar | None = None  # makes progress bars; by default one appears after two seconds

    def __post_init__(self) -> None:
        seed_of("seed", self.seed)
        function_of("bar", self.bar)

    def progress(self, label: str, total: float) -> AbstractContextManager[Callable[[float], None]]:
        return (self.bar or patient_progress)(label, total)


def comparison_cells(found: Mapping[str, Any] | None) -> dict[str, Any]:
    """The cells of a comparison, from `Paired.as_dict`: the interval, the corrected p-value and the verdict."""
    if found is None:
        return {"from": None, "to": None, "p": None, "verdict": ""}
    return {"from": found["low"], "to": found["high"], "p": found["corrected_p"], "verdict": found["verdict"]}


def rows_over(
    sums: Sequence[Mapping[str, Any]],
    found: Mapping[str, Any],
    baseline: str,
    figures: Mapping[str, str],
    *,
    ratio: str,
    take: str | None = None,
) -> list[dict[str, Any]]:
    """The table of a study: every choice with its figures, its long waits, and its comparison with the baseline.

    `sums` has a row per choice, in the order to show, and `figures` the fields to show by name; the last is the cost
    compared. `ratio`: the name of the cost over the baseline's. `take`: the choice recommended, if it has a column.
    """
    *_, cost = figures.values()
    [base] = [row[cost] for row in sums if row["policy"] == baseline]
    return [
        {
            "policy": row["policy"],
            **{name: row[figure] for name, figure in figures.items()},
            ratio: row[cost] / base,
            **{name: row[name] for name in reversed(WAITS)},
            **comparison_cells(found.get(row["policy"])),
            **({} if take is None else {"recommended": "yes" if row["policy"] == take else ""}),
        }
        for row in sums
    ]


def judged(
    costs: Mapping[str, NDArray[np.float64]],
    waits: Mapping[str, Mapping[str, float]],
    baseline: str,
    *,
    seed: int,
    over: str,
    what: str,
    periods: str,
) -> dict[str, Any]:
    """Every choice against the baseline by its costs in the same periods, all compared at once, and what to use.

    `costs` are (n_periods,), `waits` as `long_waits` gives them; both have the baseline, too. `over` is the name of the
    comparisons in result files, `what` that of the cost, `periods` what the periods are called.
    """
    base = costs[baseline]
    names = [name for name in costs if name != baseline]
    compared = dict(zip(names, paired(np.array([costs[name] for name in names]), base, seed=seed), strict=True))
    return {
        over: {name: one.as_dict() for name, one in compared.items()},
        "recommendation": recommendation(compared, waits, baseline, what=what, periods=f"{len(base)} {periods}"),
        "warnings": list(comparison_warnings(compared, len(base), periods)) if compared else [],
    }


def recommendation(
    compared: Mapping[str, Paired], waits: Mapping[str, Mapping[str, float]], baseline: str, *, what: str, periods: str
) -> dict[str, Any]:
    """What to use, and how sure that is, by every choice `compared` with the baseline.

    `take`: the choice with the least cost among those better beyond chance, or the baseline, also if there are too few
    periods to decide. `text`: a sentence that begins with the choice and its longest wait. `waits` are as of `judged`;
    `periods` has their number and name.
    """
    if not compared:
        return {"take": baseline, "text": f"stay with {baseline}: there is nothing to gain over it"}
    family = "1 comparison" if len(compared) == 1 else f"{len(compared)} comparisons"
    better = {name: one for name, one in compared.items() if one.verdict == BETTER}
    name, best = min((better or compared).items(), key=lambda entry: entry[1].value)
    ends = f"{best.level:.0%} interval {cell(best.low)} to {cell(best.high)}" if best.bounded else TOO_FEW
    figures = (
        f"{cell(best.value)} of {what} of {baseline} on {periods}, {ends}, "
        f"p {best.corrected_p:.2g} after the correction for {family}"
    )
    later = waits[name].get("day_longer")
    shown = (
        f"longest wait {duration(waits[name]['max_wait_s'])}, {baseline} {duration(waits[baseline]['max_wait_s'])}"
        f"{'' if later is None else f'; {later:.2%} of the jobs wait a day longer than under {baseline}'}; {figures}; "
        f"99.9 % wait at most {duration(waits[name]['p999_wait_s'])}, "
        f"{baseline} {duration(waits[baseline]['p999_wait_s'])}"
    )
    if too_few := undecided([*compared.values()], periods.partition(" ")[2]):
        text = f"cannot decide, so stay with {baseline}: {too_few}; the nearest is {name} ({shown})"
        return {"take": baseline, "text": text}
    if better:
        return {"take": name, "text": f"take {name}: {shown}{within_limit(better, name, waits, baseline)}"}
    why = "nothing compared is better" + (" beyond chance" if best.value < best.null else "")
    return {"take": baseline, "text": f"stay with {baseline}: {why}; the nearest is {name} ({shown})"}


def within_limit(
    better: Mapping[str, Paired], best: str, waits: Mapping[str, Mapping[str, float]], baseline: str
) -> str:
    """If the best choice lets some job wait much longer: what else is better beyond chance; "" if it does not."""

    def within(name: str) -> bool:
        return waits[name]["max_wait_s"] <= (1 + GROWTH) * waits[baseline]["max_wait_s"]

    if within(best):
        return ""
    able = [name for name in better if within(name)]
    other = min(able, key=lambda name: better[name].value, default=None)
    limit = f"a longest wait at most {GROWTH:.0%} above that of {baseline}"
    return f". With {limit}: " + (f"{other}, {cell(better[other].value)}" if other else f"stay with {baseline}")
