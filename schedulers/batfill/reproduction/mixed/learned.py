"""w*, w*train and wgreedy beside pure policies: Table 2, Figures 3 and 15 of the 2019 study of mixed policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from batfill.policies import PURE, policy_named
from batfill.reproduction.mixed.coverage import Units, coverage_of, space_of
from batfill.reproduction.mixed.periods import NAMES, PeriodParameters, described
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict
from batfill.schema import Count, Text
from batfill.tuning.tune import study
from batfill.workloads.splitting import Boundary

if TYPE_CHECKING:
    from collections.abc import Callable

    from batfill.reproduction.task import Task
    from batfill.tuning.periods import Periods
    from batfill.tuning.tune import Study

LEARNED = ("w*", "w*train", "wgreedy")
FAR = 0.9  # "far better" is at most so many times the other
WEEK = 2.5  # what the paper says of one week
LIKE = 1.2  # "comparable" is at most so many times the other
ALIKE = 5.0  # FCFS, SAF and w* are alike in a week where their slowdowns are so near; the figure goes up to 75


class Parameters(PeriodParameters):
    """The grid, and the periods that are learned from."""

    units: Annotated[list[Units], Field(min_length=1)]  # of the weights; each is a choice
    other_boundaries: list[Boundary] = Field(default_factory=list)  # further choices, with the first units
    points: Count = 10_002
    training: dict[Text, Count] = Field(default_factory=dict)  # half for a log that is not named


def compute(task: Task, parameters: Parameters) -> Outcome:
    """Sums over the training and the testing periods of every log, under every choice."""
    plans = [(units, parameters.boundary) for units in parameters.units]
    plans += [(parameters.units[0], boundary) for boundary in parameters.other_boundaries]
    tables, charts, notes = [], [], []
    first: dict[str, Study] = {}  # under the first choice, which the verdicts are about
    for units, boundary in plans:
        choice = ", ".join(([boundary] if parameters.other_boundaries else []) + [f"{units} units"])
        taken = parameters.model_copy(update={"boundary": boundary})
        columns: dict[str, list[float | None]] = {}
        for label, path in task.logs.items():
            periods = taken.periods(label, path)
            n_training = parameters.training.get(label, len(periods) // 2)
            space = space_of(units, periods, n_training)
            search = coverage_of(task, label, periods, taken.setting, space, parameters.points)
            pure = [policy_named(name) for name in PURE]
            done = study(periods, taken.setting, search, pure=pure, n_training=n_training, last=(1,))
            columns |= sums(done, f"{label}, " if len(task.logs) > 1 else "")
            if (units, boundary) == plans[0]:
                first[label] = done
                charts.append(chart_of(label, done, periods))
            notes.append(f"{choice}: {described(label, periods)}")
        names = (*LEARNED, *NAMES)
        tables.append(Table(tuple(columns), names, tuple(zip(*columns.values(), strict=True)), choice))
    notes.append("The first period has none before it; it is missing from wgreedy's sum.")
    return Outcome(tuple(tables), verdicts(first), tuple(charts), tuple(notes))


def sums(done: Study, prefix: str) -> dict[str, list[float | None]]:
    """The two columns of a log."""
    lines = [done.lines[name].costs for name in (*LEARNED, *PURE)]
    n = done.n_training
    return {
        f"{prefix}Training": [float(np.nansum(line[:n])) for line in lines],
        f"{prefix}Testing": [float(line[n:].sum()) for line in lines],
    }


def chart_of(label: str, done: Study, periods: Periods) -> Chart:
    """The lines of Figure 3."""
    names = ("FCFS", "SAF", "w*train", "wgreedy", "w*")
    lines = [done.lines[name.lower()].costs.tolist() for name in names]
    finite = [[None if np.isnan(value) else value for value in line] for line in lines]
    rows = tuple(zip(periods.numbers, *finite, strict=True))
    word = "month" if periods.choices["days"] == "month" else "week"
    return Chart(f"by-{word}-{label}", "lines", (word, *names), rows, x=f"{word} of the log", y="mean bsld", log_y=True)


def verdicts(studies: dict[str, Study]) -> dict[str, Verdict]:
    """What the paper says of its Figure 3, by log."""
    judged = {label: measures(done) for label, done in studies.items()}

    def of(name: str, holds: Callable[[float], bool], words: str) -> Verdict:
        return Verdict.of({label: values[name] for label, values in judged.items()}, holds, words)

    return {
        "star-better": of("star", lambda ratio: ratio < FAR, "{:.2f} times the sum of the best pure policy"),
        "star-week": of("week", lambda ratio: ratio >= WEEK, "up to {:.2f} times less than that week's best"),
        "trained-second": of("place", lambda place: place <= 2, "place {:.0f} of 13 in testing"),
        "trained-like-saf": of("trained", lambda r: 1 / LIKE <= r <= LIKE, "{:.2f} times SAF's sum in testing"),
        "greedy-poor": of("greedy", lambda ratio: ratio > 1, "{:.2f} times SAF's sum"),
        "half-calm": of(
            "calm", lambda share: 0.25 <= share <= 0.75, f"FCFS, SAF and w* within {ALIKE:g} in {{:.0%}} of the weeks"
        ),
    }


def measures(done: Study) -> dict[str, float]:
    """The numbers behind the statements, for one log."""
    n = done.n_training
    pure = np.array([done.lines[name].costs for name in PURE])
    star, trained, greedy, saf = (done.lines[name].costs for name in (*LEARNED, "saf"))
    shown = np.array([done.lines["fcfs"].costs, saf, star])
    return {
        "star": float(star.sum() / pure.sum(axis=1).min()),
        "week": float((pure.min(axis=0) / star).max()),
        "place": float(1 + (pure[:, n:].sum(axis=1) < trained[n:].sum()).sum()),
        "trained": float(trained[n:].sum() / saf[n:].sum()),
        "greedy": float(greedy[1:].sum() / saf[1:].sum()),  # the first period has none before it
        "calm": float((np.ptp(shown, axis=0) <= ALIKE).mean()),
    }
