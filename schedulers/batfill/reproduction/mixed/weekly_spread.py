"""How the weekly mean bounded slowdown of pure policies is spread: Figure 1 of the 2019 study of mixed policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.reproduction.mixed.periods import NAMES, PeriodParameters, Weekly, described, weekly_costs
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict, box_chart

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

Parameters = PeriodParameters


def compute(task: Task, parameters: PeriodParameters) -> Outcome:
    """Means over weeks, a row per policy and a column per log, with boxes of the weeks."""
    found = list(weekly_costs(task, parameters))
    means = np.array([each.costs.mean(axis=1) for each in found]).T
    ranking = [[NAMES[k] for k in np.argsort(each.costs.mean(axis=1), kind="stable")] for each in found]
    best = [f"{each.label} {', '.join(order[:3])}" for each, order in zip(found, ranking, strict=True)]
    place = [order.index("FCFS") + 1 for order in ranking]
    return Outcome(
        tables=(Table(tuple(each.label for each in found), NAMES, tuple(map(tuple, means.tolist()))),),
        verdicts={
            "saf-first": Verdict(all(order[0] == "SAF" for order in ranking), "; ".join(best)),
            "short-first": Verdict(
                all(set(order[:3]) == {"SAF", "SPF", "LEXP"} for order in ranking), f"the best three: {'; '.join(best)}"
            ),
            "fcfs-late": Verdict(
                all(at > len(NAMES) / 2 for at in place),
                ", ".join(f"{each.label}: place {at} of 12" for each, at in zip(found, place, strict=True)),
            ),
        },
        charts=tuple(boxes(each) for each in found),
        notes=tuple(described(each.label, each.periods) for each in found),
    )


def boxes(weekly: Weekly) -> Chart:
    """A box per policy, sorted by the mean."""
    order = np.argsort(weekly.costs.mean(axis=1), kind="stable")
    samples = {NAMES[k]: weekly.costs[k] for k in order}
    return box_chart(f"weekly-{weekly.label}", samples, y="weekly mean bsld", log_y=True)
