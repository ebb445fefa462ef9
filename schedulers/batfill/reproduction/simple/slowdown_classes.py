"""Shares of the jobs by bounded slowdown: Figure 3 of the CCGrid 2019 paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict
from batfill.reproduction.simple.resampled import NAMES, POLICIES, ResampledParameters, described, resampled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.reproduction.grids import Grid
    from batfill.reproduction.task import Task

CLASSES = {
    "1": "share_bsld_1",
    "1 to 10": "share_bsld_10",
    "10 to 100": "share_bsld_100",
    "above 100": "share_bsld_above",
}
AT_ONCE, WAITED = "more jobs at once under SAF than FCFS (points)", "fewer jobs above 100 under SAF (times)"
FCFS, SAF = NAMES.index("FCFS"), NAMES.index("SAF")
EXCEPTION = ("SPF", "1 to 10")  # the paper's own
Parameters = ResampledParameters


def compute(task: Task, parameters: ResampledParameters) -> Outcome:
    """The largest differences between FCFS and SAF, then the shares in %, a row per policy and class."""
    found = resampled(task, parameters)
    shares = {choice: {grid.label: shares_of(grid) for grid in grids} for choice, grids in found.items()}
    first = next(iter(shares.values()))
    worse = [
        f"{label}, {policy}, {name}"
        for label, each in first.items()
        for policy, values in zip(NAMES, each, strict=True)
        for c, name in enumerate(CLASSES)
        if (values[c] < each[FCFS][c] if c == 0 else values[c] > each[FCFS][c] and (policy, name) != EXCEPTION)
    ]
    return Outcome(
        tables=tuple(table_of(choice, each) for choice, each in shares.items()),
        verdicts={"all-classes": Verdict(not worse, f"not so: {'; '.join(worse)}" if worse else "so for every log")},
        charts=tuple(
            Chart(
                f"classes-{label}",
                "shares",
                ("policy", *CLASSES),
                tuple((name, *values) for name, values in zip(NAMES, each.tolist(), strict=True)),
                x="share of the jobs (%)",
            )
            for label, each in first.items()
        ),
        notes=described(found),
    )


def shares_of(grid: Grid) -> NDArray[np.float64]:
    """Means over the samples in %, shape (n_policies, n_classes)."""
    return np.array(
        [
            [100 * np.mean([row[column] for row in grid.of(policy)]) for column in CLASSES.values()]
            for policy in POLICIES
        ]
    )


def table_of(choice: str, shares: dict[str, NDArray[np.float64]]) -> Table:
    """A column per log, after the largest."""
    at_once = [float(each[SAF][0] - each[FCFS][0]) for each in shares.values()]
    fewer = [float(each[FCFS][-1] / each[SAF][-1]) if each[SAF][-1] else None for each in shares.values()]
    rows: dict[str, tuple[float | None, ...]] = {
        AT_ONCE: (max(at_once), *at_once),
        WAITED: (max((each for each in fewer if each is not None), default=None), *fewer),
    }
    for k, policy in enumerate(NAMES):
        for c, name in enumerate(CLASSES):
            rows[f"{policy}, bsld {name} (%)"] = (None, *(float(each[k][c]) for each in shares.values()))
    return Table(("largest", *shares), tuple(rows), tuple(rows.values()), choice)
