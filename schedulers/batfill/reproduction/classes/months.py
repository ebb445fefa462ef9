"""Month by month with and without classification: Figure 7 of the 2022 study of small jobs first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.jobs import DAY_S
from batfill.reproduction.classes.runs import BASE, IDEMPOTENT, Jobs, Replays, Runs, runs_of, shown
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.reproduction.task import Task

MONTH_S = 30 * DAY_S


class Parameters(Replays):
    """Nothing beside the replays."""


def compute(task: Task, parameters: Parameters) -> Outcome:
    """The share of the months whose mean bounded slowdown falls, in per cent: a row per policy, a column per log."""
    found = [runs_of(task, label, parameters) for label in task.logs]
    pairs = {(runs.label, policy): months(runs, policy) for runs in found for policy in runs.policies}
    falls = {key: 100 * float((after < before).mean()) for key, (before, after) in pairs.items()}
    rows = tuple(tuple(falls.get((runs.label, policy)) for runs in found) for policy in parameters.policies)
    told = ", ".join(f"{label} {shown(policy)} {share:.0f} %" for (label, policy), share in falls.items())
    counts = (f"{runs.label} {len(pairs[runs.label, runs.policies[0]][0])}" for runs in found)
    return Outcome(
        (Table(tuple(runs.label for runs in found), tuple(shown(policy) for policy in parameters.policies), rows),),
        {"most": Verdict(min(falls.values()) > 50, f"months that fall: {told}")},
        tuple(chart(runs, pairs) for runs in found),
        (f"Months are 30 days; jobs count where they were submitted. Months with jobs: {', '.join(counts)}.",),
    )


def months(runs: Runs, policy: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The monthly means of the base and of classification with killing, shape (n_months,) each; months with jobs."""
    before, after = (monthly(runs.jobs(policy, scenario)) for scenario in (BASE, IDEMPOTENT))
    return before, after


def monthly(jobs: Jobs) -> NDArray[np.float64]:
    """The mean bounded slowdown of the jobs submitted in each month."""
    month = (jobs.submit_s // MONTH_S).astype(np.int64)
    count = np.bincount(month)
    return np.asarray((np.bincount(month, weights=jobs.bsld)[count > 0]) / count[count > 0])


def chart(runs: Runs, pairs: dict[tuple[str, str], tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Chart:
    """A mark per month and policy: below the diagonal classification is better."""
    rows = []
    for k, policy in enumerate(runs.policies):
        for before, after in zip(*pairs[runs.label, policy], strict=True):
            marks: list[float | None] = [None] * len(runs.policies)
            marks[k] = float(after)
            rows.append((float(before), *marks))
    return Chart(
        runs.label,
        "points",
        ("base", *(shown(policy) for policy in runs.policies)),
        tuple(rows),
        "month's mean bsld, base",
        "classification-idempotent",
        log_x=True,
        log_y=True,
    )
