"""What pages show of pools, energy and gates: panels over time below the machine's, and the same in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.words import duration, percent, things
from batfill.model.limits.pools import rounded_text, scales, unit_for
from batfill_pages.steps import Steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.model.limits.pools import Pool
    from batfill_pages.uses import EnergyUse, PoolUse, Uses


def panels(uses: Uses, edges_s: NDArray[np.float64]) -> list[dict[str, Any]]:
    """The panels for the page's script, in bins between these dates: pools, energy, and the gate.

    A panel has a `name`, a `unit`, a `note`, and perhaps a `flag`: what should not have happened. It has amounts in
    bins (`mean`, and `most` at one time), the `limit` from dates on, and in `over` the bins in which more was in use,
    from what there was to what was used; or lines (`drawn` and `available` at `dates`); or `open` periods.
    """
    found = [pool_panel(use, edges_s) for use in uses.pools]
    if uses.energy is not None:
        found.append(energy_panel(uses.energy, edges_s))
    if (watts := uses.measured_w) is not None:
        scale, unit = unit_for(float(watts.level.max()), scales("W"))
        mean = rounded(watts.means(edges_s) / scale)
        note = f"{quantity(float(watts.total(watts.at_s[-1])), 'J')} in all"
        found.append({"name": "power measured", "unit": unit, "note": note, "mean": mean})
    if uses.open is not None:
        share = float(np.diff(uses.open).sum()) / (uses.span_s[1] - uses.span_s[0])
        note = f"allowed {percent(share)} of the time"
        found.append({"name": "backfilling", "unit": "", "note": note, "open": uses.open.tolist()})
    return found


def pool_panel(use: PoolUse, edges_s: NDArray[np.float64]) -> dict[str, Any]:
    """A pool's panel; `each` or the column `take` says what jobs take, in base units, of which `scale` are one."""
    scale, unit = unit_for(use.pool.capacity, scales(use.pool.base))
    most = use.used.most(edges_s)
    panel = {
        "name": use.pool.name,
        "unit": unit,
        "note": pool_text(use),
        "mean": rounded(use.used.means(edges_s) / scale),
        "most": rounded(most / scale),
        "scale": scale,
        **({"take": take_name(use.pool)} if use.pool.each is None else {"each": use.pool.each}),
    }
    if use.there is None:
        return panel
    there, capacity = use.there.level, use.pool.capacity
    changes = np.flatnonzero(np.diff(there, prepend=-1.0))
    over = np.maximum(use.used.level - there, 0.0)
    lowest = capacity - Steps(use.used.at_s, np.where(over > 0, capacity - there, 0.0)).most(edges_s)
    above = Steps(use.used.at_s, over).most(edges_s)
    highest = np.minimum(lowest + above, most)
    panel["limit"] = np.column_stack([use.there.at_s[changes], there[changes] / scale]).tolist()
    panel["over"] = [[k, lowest[k] / scale, highest[k] / scale] for k in np.flatnonzero(above).tolist()]
    return panel | ({"flag": f"{duration(use.figures.above_s)} above the cap"} if use.figures.above_s else {})


def take_name(pool: Pool) -> str:
    return f"take-{pool.name}"


def energy_panel(use: EnergyUse, edges_s: NDArray[np.float64]) -> dict[str, Any]:
    """The panel of a budget, from its begin to its end, as far as these are in the bins."""
    scale, unit = unit_for(use.budget.joules, scales("J"))
    dates_s = np.unique(edges_s.clip(*np.clip([use.budget.begin, use.budget.end], edges_s[0], edges_s[-1])))
    at_s = dates_s.clip(use.budget.begin, use.budget.end)
    available_j = use.budget.rate_w * (at_s - use.budget.begin)
    flag = {"flag": f"{duration(use.figures.above_s)} above the budget"} if use.figures.above_s else {}
    share = percent(use.figures.drawn_j / use.figures.budget_j)
    return {
        "name": "energy drawn",
        "unit": unit,
        "note": f"{quantity(use.figures.drawn_j, 'J')}, {share} of the budget of {quantity(use.figures.budget_j, 'J')}",
        "dates": dates_s.tolist(),
        "drawn": rounded((available_j - use.balance_j(at_s)) / scale),
        "available": rounded(available_j / scale),
        **flag,
    }


def rounded(values: NDArray[np.float64]) -> list[float]:
    return [float(f"{value:.5g}") for value in values.tolist()]


# In words


def quantity(amount: float, base: str) -> str:
    return rounded_text(amount, base, between="\N{NO-BREAK SPACE}")


def pool_text(use: PoolUse) -> str:
    """A pool's figures; of users only what fits each of them."""
    most, capacity = (quantity(amount, use.pool.base) for amount in (use.figures.most, use.pool.capacity))
    refused = f"; {things(use.figures.refused, 'job')} asked for more" if use.figures.refused else ""
    if use.figures.share is None:
        return f"{capacity} for each user, who used at most {most}{refused}"
    share = "" if use.there is None else f"{percent(use.figures.share)} in use, "
    return f"{share}at most {most} of {capacity}{refused}"


def in_words(uses: Uses) -> list[tuple[str, str]]:
    shown = panels(uses, np.array(uses.span_s))
    return [(one["name"], "; ".join(one[what] for what in ("note", "flag") if what in one)) for one in shown]


def caption_of(uses: Uses, each: str) -> str:
    """How the panels are to be read; `each`: the length of a bin in words."""
    limits = {use.there is not None for use in uses.pools if not use.pool.of_user}
    line = "; the line is what there is, orange what was used above it" if True in limits else ""
    unknown = "; the calendar is not known any more, so no line shows what there is" if False in limits else ""
    said = {
        f"Pools: the mean per {each}, lighter the most at one time{line}{unknown}": bool(uses.pools),
        "Energy: drawn since the budget begins; dashed, what had become available": uses.energy is not None,
        f"Power measured: by Batsim, the mean per {each}": uses.measured_w is not None,
        "Backfilling: blue when it is allowed": uses.open is not None,
    }
    return "".join(f" {words}." for words, shown in said.items() if shown)


def figures_of(uses: Uses) -> dict[str, str]:
    """The figures of pools and energy that are compared between runs, by name."""
    found = {}
    for use in uses.pools:
        if use.figures.share is None:
            found[f"{use.pool.name}, at most by one user"] = quantity(use.figures.most, use.pool.base)
        elif use.there is not None:
            found[f"{use.pool.name}, in use"] = percent(use.figures.share)
            found[f"{use.pool.name}, above the cap"] = duration(use.figures.above_s)
    if uses.energy is not None:
        found["energy drawn in the budget's period"] = quantity(uses.energy.figures.drawn_j, "J")
        found["share of the energy budget"] = percent(uses.energy.figures.drawn_j / uses.energy.figures.budget_j)
    if (watts := uses.measured_w) is not None:
        found["energy measured"] = quantity(float(watts.total(watts.at_s[-1])), "J")
    return found
