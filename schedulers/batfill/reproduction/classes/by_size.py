"""What small and large jobs get of the classification: Figure 8 of the 2022 study of small jobs first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.reproduction.classes.runs import BASE, IDEMPOTENT, Replays, Runs, runs_of, shown
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

SIZES = ("small", "large")


class Parameters(Replays):
    """Nothing beside the replays."""


def compute(task: Task, parameters: Parameters) -> Outcome:
    """The change of the mean bounded slowdown in per cent: a row per policy and size, a column per log."""
    found = [runs_of(task, label, parameters) for label in task.logs]
    means = {
        (runs.label, policy, size): means_of(runs, policy, size)
        for runs in found
        for policy in runs.policies
        for size in SIZES
    }
    change = {key: 100 * (after / before - 1) for key, (before, after) in means.items()}
    asked = [(policy, size) for policy in parameters.policies for size in SIZES]
    rows = tuple(tuple(change.get((runs.label, *key)) for runs in found) for key in asked)

    def told(of_size: str) -> str:
        changed = ((key, value) for key, value in change.items() if key[2] == of_size)
        return ", ".join(f"{label} {shown(policy)} {value:+.0f} %" for (label, policy, _), value in changed)

    return Outcome(
        (
            Table(
                tuple(runs.label for runs in found), tuple(f"{shown(policy)}, {size}" for policy, size in asked), rows
            ),
        ),
        {
            "small": Verdict(
                all(value < 0 for (*_, size), value in change.items() if size == "small"), f"small: {told('small')}"
            ),
            "large": Verdict(
                all(value <= 15 for (*_, size), value in change.items() if size == "large"), f"large: {told('large')}"
            ),
        },
        tuple(chart(runs, means) for runs in found),
        tuple(f"{runs.label}: small is below {runs.divider_s:g} s, the median of the whole log." for runs in found),
    )


def means_of(runs: Runs, policy: str, size: str) -> tuple[float, float]:
    """The mean bounded slowdown of the log's small or large jobs, in the base and with classification and killing."""
    jobs = [runs.jobs(policy, scenario) for scenario in (BASE, IDEMPOTENT)]
    before, after = (each.bsld[(each.runtime_s < runs.divider_s) == (size == "small")].mean() for each in jobs)
    return float(before), float(after)


def chart(runs: Runs, means: dict[tuple[str, str, str], tuple[float, float]]) -> Chart:
    """A mark per policy for the small jobs, and one for the large: below the diagonal classification is better."""
    rows: list[tuple[float | None, ...]] = []
    for policy in runs.policies:
        small, large = (means[runs.label, policy, size] for size in SIZES)
        rows += [(small[0], small[1], None), (large[0], None, large[1])]
    return Chart(
        runs.label,
        "points",
        ("base", *SIZES),
        tuple(rows),
        "mean bsld, base",
        "classification-idempotent",
        log_x=True,
        log_y=True,
    )
