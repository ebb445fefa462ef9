"""Shares of the jobs by bounded slowdown: Figure 3 of the CCGrid 2019 paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict
from batfill.reproduction.simple.resampled import NAMES, POLICIES, ResampledParameters, described, resampled

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

CLASSES = {
    "1": "share_bsld_1",
    "1 to 10": "share_bsld_10",
    "10 to 100": "share_bsld_100",
    "above 100": "share_bsld_above",
}
AT_ONCE, WAITED = "more jobs at once under SAF than FCFS (points)", "fewer jobs above 100 under SAF (times)"
Parameters = ResampledParameters


def compute(task: Task, parameters: ResampledParameters) -> Outcome:
    """The largest differences between FCFS and SAF, then the shares in %, a row per policy and class."""
    shares: dict[str, list[list[float]]] = {}  # by log: a row per policy
    charts, notes = [], []
    for grid in resampled(task, parameters):
        shares[grid.label] = [
            [100 * float(np.mean([row[column] for row in grid.of(policy)])) for column in CLASSES.values()]
            for policy in POLICIES
        ]
        rows = tuple((name, *values) for name, values in zip(NAMES, shares[grid.label], strict=True))
        head = ("policy", *CLASSES)
        charts.append(Chart(f"classes-{grid.label}", "shares", head, rows, x="share of the jobs (%)"))
        notes.append(described(grid))
    fcfs, spf, saf = (NAMES.index(name) for name in ("FCFS", "SPF", "SAF"))
    at_once = {label: s[saf][0] - s[fcfs][0] for label, s in shares.items()}
    fewer = {label: s[fcfs][-1] / s[saf][-1] if s[saf][-1] else float("inf") for label, s in shares.items()}
    values = {AT_ONCE: [max(at_once.values()), *at_once.values()], WAITED: [max(fewer.values()), *fewer.values()]}
    for k, policy in enumerate(NAMES):
        for c, name in enumerate(CLASSES):
            values[f"{policy}, bsld {name} (%)"] = [float("nan"), *(s[k][c] for s in shares.values())]
    worse = [
        f"{label}, {policy}, {name}"
        for label, s in shares.items()
        for k, policy in enumerate(NAMES)
        for c, name in enumerate(CLASSES)
        if (c == 0 and s[k][c] < s[fcfs][c]) or (c > 0 and s[k][c] > s[fcfs][c] and (k, c) != (spf, 1))
    ]
    return Outcome(
        tables=(Table(("largest", *shares), tuple(values), tuple(map(tuple, values.values()))),),
        verdicts={"all-classes": Verdict(not worse, f"not so: {'; '.join(worse)}" if worse else "so for every log")},
        charts=tuple(charts),
        notes=tuple(notes),
    )
