"""What each scenario gains over the same policy with users' requests: Figures 6 and 9 of the 2022 study.

The charts are the cumulative bounded slowdowns of Figure 6, a point for every hundredth of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from batfill.jobs import DAY_S
from batfill.reproduction.classes.runs import (
    BASE,
    BY_CLASS,
    BY_RUNTIME,
    CLASSIFIED,
    IDEMPOTENT,
    LABELS,
    Replays,
    Runs,
    bases,
    runs_of,
    shown,
)
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.reproduction.task import Task

Scenario = Literal["classification", "classification-idempotent", "class-clairvoyant", "runtime-clairvoyant"]
POINTS = 100
CLOSE = 1.2  # two are about equal when the worse is at most so many times the better
RANGES = {"fcfs": (33, 79), "spf": (3, 32), "saf": (10, 51)}  # of gains over the seven logs, in per cent


class Parameters(Replays):
    """Which scenarios are shown."""

    scenarios: Annotated[list[Scenario], Field(min_length=1)]


def compute(task: Task, parameters: Parameters) -> Outcome:
    """The gains in per cent, a row per policy and scenario and a column per log."""
    found = [runs_of(task, label, parameters) for label in task.logs]
    asked = [(policy, scenario) for policy in parameters.policies for scenario in parameters.scenarios]
    one = len(parameters.scenarios) == 1
    names = tuple(shown(policy) if one else f"{shown(policy)}, {scenario}" for policy, scenario in asked)
    values = tuple(
        tuple(runs.gain(policy, scenario) if policy in runs.policies else None for runs in found)
        for policy, scenario in asked
    )
    return Outcome(
        (Table(tuple(runs.label for runs in found), names, values),),
        verdicts(found),
        tuple(chart(runs) for runs in found),
        (bases(found),),
    )


def chart(runs: Runs) -> Chart:
    """The sum of the bounded slowdowns of the jobs that have ended, under every policy, base and classified."""
    pairs = [(policy, scenario) for policy in runs.policies for scenario in (BASE, IDEMPOTENT)]
    jobs = [runs.jobs(policy, scenario) for policy, scenario in pairs]
    at_s = np.linspace(0, max(each.end_s.max() for each in jobs), POINTS + 1)
    curves = []
    for each in jobs:
        order = np.argsort(each.end_s)
        sums = np.concatenate([[0.0], np.cumsum(each.bsld[order])])
        curves.append(sums[np.searchsorted(each.end_s[order], at_s, side="right")].tolist())
    head = tuple(f"{shown(policy)}{' classified' if scenario == IDEMPOTENT else ''}" for policy, scenario in pairs)
    rows = tuple(zip((at_s / DAY_S).tolist(), *curves, strict=True))
    return Chart(f"{runs.label}-cumulative", "lines", ("day", *head), rows, "day", "sum of bounded slowdowns")


def verdicts(found: Sequence[Runs]) -> dict[str, Verdict]:
    """On every policy and log that was run."""
    cases = [(runs, policy) for runs in found for policy in runs.policies]

    def compared(better: str, worse: str, *, times: float = 1.0, most: bool = False) -> Verdict:
        """Whether one scenario has less than so many times the slowdown of another, in all or in most cases."""
        not_so = [
            f"{runs.label} {shown(policy)} ({runs.mean(policy, better):.2f}, {runs.mean(policy, worse):.2f})"
            for runs, policy in cases
            if not runs.mean(policy, better) < times * runs.mean(policy, worse)
        ]
        evidence = f"so in {len(cases) - len(not_so)} of {len(cases)}"
        holds = 2 * len(not_so) < len(cases) if most else not not_so
        return Verdict(holds, evidence + (f"; not so: {', '.join(not_so)}" if not_so else ""))

    return {
        "reduces": compared(IDEMPOTENT, BASE),
        "without-killing": compared(CLASSIFIED, BASE, most=True),
        "killing": compared(IDEMPOTENT, CLASSIFIED, most=True),
        "close": compared(IDEMPOTENT, BY_CLASS, times=CLOSE),
        "class": compared(BY_CLASS, IDEMPOTENT),
        "runtime": compared(BY_RUNTIME, BY_CLASS),
        "order": order_of_bases(found),
        "ranges": ranges(cases),
    }


def order_of_bases(found: Sequence[Runs]) -> Verdict:
    """SAF and SPF about equal, then WFP, then FCFS; on the logs that were run under all of them."""
    told, holds = [], True
    for runs in found:
        if set(runs.policies) != set(LABELS):
            continue
        saf, spf, wfp, fcfs = (runs.mean(policy, BASE) for policy in ("saf", "spf", "wfp3", "fcfs"))
        holds &= max(saf, spf) <= CLOSE * min(saf, spf) and max(saf, spf) < wfp < fcfs
        told.append(f"{runs.label} SAF {saf:.1f}, SPF {spf:.1f}, WFP {wfp:.1f}, FCFS {fcfs:.1f}")
    return Verdict(holds and bool(told), "; ".join(told) or "no log was run under all four")


def ranges(cases: Sequence[tuple[Runs, str]]) -> Verdict:
    """The gains of classification with killing within the ranges over the paper's seven logs."""
    gains = {(runs.label, policy): runs.gain(policy, IDEMPOTENT) for runs, policy in cases if policy in RANGES}
    holds = all(RANGES[policy][0] <= gain <= RANGES[policy][1] for (_, policy), gain in gains.items())
    told = (f"{label} {shown(policy)} {gain:.0f} %" for (label, policy), gain in gains.items())
    return Verdict(holds, ", ".join(told))
