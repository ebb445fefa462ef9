"""xNES over three and over six features beside the grid, week by week: Figure 5 of the 2019 study of mixed policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from batfill.reproduction.mixed.coverage import Units, coverage_of, space_of
from batfill.reproduction.mixed.kept import kept_array
from batfill.reproduction.mixed.periods import PeriodParameters, described
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict
from batfill.schema import Count, Seed
from batfill.tuning import search as searches
from batfill.tuning.periods import Conditions, costs
from batfill.tuning.search import Evolution, Features

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.reproduction.task import Task
    from batfill.tuning.periods import Periods

FEATURES: tuple[Features, Features] = (3, 6)
NAMES = ("w*3", "xnes3", "xnes6")
ALIKE = 1.02  # results within 2 % are "the same"
NEAR = 1.10  # "the differences are minor"


class Parameters(PeriodParameters):
    """The grid, and how far xNES may look."""

    units: Annotated[list[Units], Field(min_length=1)]  # of the weights; each is a choice, statements are of the first
    points: Count = 10_002
    evaluations: Annotated[int, Field(ge=1)] = 1000  # per week
    seed: Seed = 0


def compute(task: Task, parameters: Parameters) -> Outcome:
    """The sums over the weeks of what each method finds, a row per method and a column per log."""
    logs = {label: parameters.periods(label, path) for label, path in task.logs.items()}
    found = {
        units: {label: searched(task, label, periods, parameters, units) for label, periods in logs.items()}
        for units in parameters.units
    }
    first = found[parameters.units[0]]
    return Outcome(
        tables=tuple(table_of(f"{units} units", each) for units, each in found.items()),
        verdicts=verdicts(first),
        charts=tuple(
            Chart(
                f"methods-{label}",
                "lines",
                ("week", *NAMES),
                tuple(zip(logs[label].numbers, *each.tolist(), strict=True)),
                x="week of the log",
                y="mean bsld",
                log_y=True,
            )
            for label, each in first.items()
        ),
        notes=tuple(described(label, periods) for label, periods in logs.items()),
    )


def table_of(choice: str, found: dict[str, NDArray[np.float64]]) -> Table:
    """The sums of one choice."""
    sums = np.array([each.sum(axis=1) for each in found.values()]).T.tolist()
    return Table(tuple(found), NAMES, tuple(map(tuple, sums)), choice)


def searched(task: Task, label: str, periods: Periods, parameters: Parameters, units: Units) -> NDArray[np.float64]:
    """What every method finds for every week, shape (n_methods, n_weeks)."""
    space = space_of(units, periods, len(periods) // 2)
    grid = coverage_of(task, label, periods, parameters.setting, space, parameters.points).costs.min(axis=0)
    return np.array([grid, *(evolved(task, label, periods, parameters, units, n) for n in FEATURES)])


def evolved(
    task: Task, label: str, periods: Periods, parameters: Parameters, units: Units, features: Features
) -> NDArray[np.float64]:
    """What xNES finds for every week, shape (n_weeks,)."""
    space = space_of(units, periods, len(periods) // 2, features)
    search = Evolution(periods, parameters.setting, space, parameters.seed, parameters.evaluations)

    def best_of_all() -> NDArray[np.float64]:
        result = np.empty(len(periods))
        with task.bar(f"weeks of {label}, {features} features", len(periods)) as advance:
            for i in range(len(periods)):
                week = periods.part(i, i + 1)
                result[i] = costs(week, [search.best(i, i + 1)], parameters.setting)[0, 0]
                advance(1)
        return result

    asked = {**parameters.setting.as_dict(), **search.as_dict(), "seed": parameters.seed}
    return kept_array(task.folder / "xnes", periods, asked, (costs, Conditions, searches), best_of_all)


def verdicts(found: dict[str, NDArray[np.float64]]) -> dict[str, Verdict]:
    """The paper's three observations."""
    same = {label: float((abs(np.log(c[1] / c[0])) <= np.log(ALIKE)).mean()) for label, c in found.items()}
    beyond = {label: float(c[1].sum() / c[0].sum()) for label, c in found.items()}
    six = {label: float(c[2].sum() / c[1].sum()) for label, c in found.items()}
    return {
        "same-as-grid": Verdict.of(same, lambda share: share > 0.5, f"{{:.0%}} of the weeks within {ALIKE - 1:.0%}"),
        "near-grid": Verdict.of(beyond, lambda ratio: ratio < NEAR, "xnes3 over the grid, in sum: {:.3f}"),
        "six-little-better": Verdict.of(six, lambda ratio: 0.9 < ratio <= 1, "xnes6 over xnes3, in sum: {:.3f}"),
    }
