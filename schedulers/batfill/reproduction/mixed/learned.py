"""w*, w*train and wgreedy beside pure policies: Table 2, Figures 3 and 15 of the 2019 study of mixed policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from batfill.campaign.config import Count, Text
from batfill.policies import policy_named
from batfill.reproduction.mixed.coverage import Units, coverage_of, space_of
from batfill.reproduction.mixed.periods import NAMES, PeriodParameters, described
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict
from batfill.tuning.costs import PURE
from batfill.tuning.study import study
from batfill.workloads.splitting import Boundary

if TYPE_CHECKING:
    from batfill.reproduction.task import Task
    from batfill.tuning.study import Study
    from batfill.tuning.weeks import Periods

LEARNED = ("w*", "w*train", "wgreedy")
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
    """What the paper says of its Figure 3, log by log."""
    far, ahead, trained, like_saf, greedy, calm = [], [], [], [], [], []
    for label, done in studies.items():
        n = done.n_training
        pure = np.array([done.lines[name].costs for name in PURE])
        line = {name: done.lines[name].costs for name in LEARNED}
        best_pure = float(pure.sum(axis=1).min())
        far.append((label, float(line["w*"].sum()) / best_pure))
        ahead.append((label, float((pure.min(axis=0) / line["w*"]).max())))
        testing = sorted([*pure[:, n:].sum(axis=1).tolist(), float(line["w*train"][n:].sum())])
        trained.append((label, testing.index(float(line["w*train"][n:].sum())) + 1))
        saf = done.lines["saf"].costs
        like_saf.append((label, float(line["w*train"][n:].sum() / saf[n:].sum())))
        greedy.append((label, float(line["wgreedy"][1:].sum() / saf[1:].sum())))
        shown = np.array([done.lines["fcfs"].costs, saf, line["w*"]])
        calm.append((label, float((np.ptp(shown, axis=0) <= ALIKE).mean())))
    return {
        "star-better": Verdict(
            all(ratio < 0.9 for _, ratio in far),
            ", ".join(f"{label}: {ratio:.2f} times the sum of the best pure policy" for label, ratio in far),
        ),
        "star-week": Verdict(
            all(ratio >= 2 for _, ratio in ahead),
            ", ".join(f"{label}: up to {ratio:.2f} times less than that week's best" for label, ratio in ahead),
        ),
        "trained-second": Verdict(
            all(place <= 2 for _, place in trained),
            ", ".join(f"{label}: place {place} of 13 in testing" for label, place in trained),
        ),
        "trained-like-saf": Verdict(
            all(1 / LIKE <= ratio <= LIKE for _, ratio in like_saf),
            ", ".join(f"{label}: {ratio:.2f} times SAF's sum in testing" for label, ratio in like_saf),
        ),
        "greedy-poor": Verdict(
            all(ratio > 1 for _, ratio in greedy),
            ", ".join(f"{label}: {ratio:.2f} times SAF's sum" for label, ratio in greedy),
        ),
        "half-calm": Verdict(
            all(0.25 <= share <= 0.75 for _, share in calm),
            ", ".join(
                f"{label}: FCFS, SAF and w* within {ALIKE:g} in {share:.0%} of the weeks" for label, share in calm
            ),
        ),
    }
