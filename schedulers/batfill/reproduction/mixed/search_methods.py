"""xNES over three and over six features beside the grid, week by week: Figure 5 of the 2019 study of mixed policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from batfill.campaign.config import Count, Seed
from batfill.reproduction.mixed.coverage import Units, coverage_of, space_of
from batfill.reproduction.mixed.kept import kept_array
from batfill.reproduction.mixed.periods import PeriodParameters, described
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict
from batfill.tuning import evolution
from batfill.tuning.costs import Setting, costs
from batfill.tuning.evolution import Evolution
from batfill.tuning.space import Features, Space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.reproduction.task import Task
    from batfill.tuning.weeks import Periods

FEATURES: tuple[Features, Features] = (3, 6)
NAMES = ("w*3", "xnes3", "xnes6")
ALIKE = 1.02  # results within 2 % are "the same"
NEAR = 1.10  # "the differences are minor"


class Parameters(PeriodParameters):
    """The grid, and how far xNES may look."""

    units: Units = "plain"
    points: Count = 10_002
    evaluations: Annotated[int, Field(ge=1)] = 1000  # per week
    seed: Seed = 0


def compute(task: Task, parameters: Parameters) -> Outcome:
    """The sums over the weeks of what each method finds, a row per method and a column per log."""
    found: dict[str, NDArray[np.float64]] = {}
    charts, notes = [], []
    for label, path in task.logs.items():
        periods = parameters.periods(label, path)
        space = space_of(parameters.units, periods, len(periods))
        grid = coverage_of(task, label, periods, parameters.setting, space, parameters.points).costs.min(axis=0)
        found[label] = np.array([grid, *(evolved(task, label, periods, parameters, n) for n in FEATURES)])
        rows = tuple(zip(periods.numbers, *found[label].tolist(), strict=True))
        head = ("week", *NAMES)
        charts.append(Chart(f"methods-{label}", "lines", head, rows, x="week of the log", y="mean bsld", log_y=True))
        notes.append(described(label, periods))
    sums = np.array([costs_.sum(axis=1) for costs_ in found.values()]).T
    return Outcome(
        tables=(Table(tuple(found), NAMES, tuple(map(tuple, sums.tolist()))),),
        verdicts=verdicts(found),
        charts=tuple(charts),
        notes=tuple(notes),
    )


def evolved(
    task: Task, label: str, periods: Periods, parameters: Parameters, features: Features
) -> NDArray[np.float64]:
    """What xNES finds for every week, shape (n_weeks,)."""
    space = Space.of(features) if parameters.units == "plain" else Space.scaled(features, periods)
    search = Evolution(periods, parameters.setting, space, parameters.seed, parameters.evaluations)

    def searched() -> NDArray[np.float64]:
        result = np.empty(len(periods))
        with task.bar(f"weeks of {label}, {features} features", len(periods)) as advance:
            for i in range(len(periods)):
                week = periods.part(i, i + 1)
                result[i] = costs(week, [search.best(i, i + 1)], parameters.setting)[0, 0]
                advance(1)
        return result

    asked = {**parameters.setting.as_dict(), **search.as_dict(), "seed": parameters.seed}
    return kept_array(task.folder / "xnes", periods, asked, (costs, Setting, Space, evolution), searched)


def verdicts(found: dict[str, NDArray[np.float64]]) -> dict[str, Verdict]:
    """The paper's three observations."""

    def each(write: str, values: list[float]) -> str:
        return ", ".join(f"{label}: {write.format(value)}" for label, value in zip(found, values, strict=True))

    same = [float((abs(np.log(c[1] / c[0])) <= np.log(ALIKE)).mean()) for c in found.values()]
    beyond = [float(c[1].sum() / c[0].sum()) for c in found.values()]
    six = [float(c[2].sum() / c[1].sum()) for c in found.values()]
    return {
        "same-as-grid": Verdict(
            all(share > 0.5 for share in same),
            each(f"{{:.0%}} of the weeks within {ALIKE - 1:.0%}", same),
        ),
        "near-grid": Verdict(
            all(ratio < NEAR for ratio in beyond), each("xnes3 over the grid, in sum: {:.3f}", beyond)
        ),
        "six-little-better": Verdict(
            all(0.9 < ratio <= 1 for ratio in six), each("xnes6 over xnes3, in sum: {:.3f}", six)
        ),
    }
