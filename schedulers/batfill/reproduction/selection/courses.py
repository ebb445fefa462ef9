"""Waits under three ways of choosing over EASY-FCFS's: Figures 1 and 2 of the 2017 study of online policy selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from batfill.jobs import DAY_S
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict
from batfill.reproduction.selection.selected import TITLES, Choosing, best_throughout, selected
from batfill.schema import Text

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

BEST = "best policy throughout"
POINTS = 120  # of a chart, at most
AS_GOOD = 1.05  # "recovers" is a wait of at most so many times that of the best policy throughout


class Parameters(Choosing):
    """Several lengths of a period stand side by side; charts and verdicts are those of the one in `period`."""

    periods: Annotated[dict[Text, float], Field(min_length=1)]  # by their labels


def compute(task: Task, parameters: Parameters) -> Outcome:
    """Mean waits at the log's end over EASY-FCFS's, means over the resamplings; a column per log."""
    tables, charts = [], []
    shown: dict[str, dict[str, float]] = {}
    for name, period in parameters.periods.items():
        how = parameters.model_copy(update={"period": period})
        found = {label: {title: selected(task, label, m, how) for m, title in TITLES.items()} for label in task.logs}
        ratios = {label: ratios_of(by_method) for label, by_method in found.items()}
        rows = (*TITLES.values(), BEST)
        values = tuple(tuple(ratios[label][row] for label in ratios) for row in rows)
        tables.append(Table(tuple(ratios), rows, values, name))
        if period == parameters.period:
            shown = ratios
            charts = [chart(label, by_method, period) for label, by_method in found.items()]
    counts = (f"{label} {parameters.fewer.get(label, parameters.samples)}" for label in task.logs)
    best = (f"{label} {best_throughout(next(iter(by_method.values())))[0]}" for label, by_method in found.items())
    notes = (f"Resamplings by weeks: {', '.join(counts)}.", f"Best policy throughout: {', '.join(best)}.")
    return Outcome(tuple(tables), verdicts(shown), tuple(charts), notes)


def ratios_of(by_method: dict[str, Any]) -> dict[str, float]:
    """At the end of the log: of each method, and of the policy that hindsight would have used throughout."""
    ratios = {title: float(found["wait_over_fcfs"]["mean"]) for title, found in by_method.items()}
    return {**ratios, BEST: best_throughout(next(iter(by_method.values())))[1]}


def chart(label: str, by_method: dict[str, Any], period: float) -> Chart:
    """The course: mean over the resamplings, and the band from the 10th to the 90th percentile."""
    courses = [found["by_period"] for found in by_method.values()]
    step = -(-len(courses[0]) // POINTS)
    rows = [
        (
            (k + 1) * period / DAY_S,
            *(course[k]["wait_over_fcfs"][part] for course in courses for part in ("mean", "p10", "p90")),
        )
        for k in range(step - 1, min(map(len, courses)), step)
    ]
    head = ("day", *(part for title in by_method for part in (title, f"{title} p10", f"{title} p90")))
    return Chart(f"{label}-course", "bands", head, tuple(rows), "day", "mean wait / EASY-FCFS's")


def verdicts(ratios: dict[str, dict[str, float]]) -> dict[str, Verdict]:
    """On what the abstract says."""
    full, noisy, bandit = TITLES.values()

    def told(row: str) -> str:
        return ", ".join(f"{label} {found[row]:.3f}" for label, found in ratios.items())

    return {
        "half": Verdict(min(found[noisy] for found in ratios.values()) <= 0.5, f"NoisyFeedback: {told(noisy)}"),
        "hindsight": Verdict(
            all(found[noisy] <= AS_GOOD * found[BEST] for found in ratios.values()),
            f"NoisyFeedback: {told(noisy)}; best policy throughout: {told(BEST)}",
        ),
        "bandit": Verdict(min(found[bandit] for found in ratios.values()) <= 0.4, f"EpsilonGreedy: {told(bandit)}"),
        "noisy-as-full": Verdict(
            all(found[noisy] <= AS_GOOD * found[full] for found in ratios.values()),
            f"FullFeedback: {told(full)}; NoisyFeedback: {told(noisy)}",
        ),
    }
