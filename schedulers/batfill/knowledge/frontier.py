"""What kills buy: slowdown against wasted work, over levels, cuts, and shares of protected jobs."""

from __future__ import annotations

import math
import time
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from batfill import __version__
from batfill.errors import BatfillError
from batfill.jobs import data_frame
from batfill.knowledge.learning import confusion, replay_learning
from batfill.metrics import TAU_S
from batfill.options import Learning, Options, of_arguments, tau_of
from batfill.processes import Remaining, rough_duration, spread
from batfill.workloads import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    import pandas as pd

    from batfill.jobs import Overrun, Unrequested, Workload
    from batfill.options import DividerRule, Regime

NO_KNOWLEDGE = {"knowledge": "user"}
PERFECT = {"knowledge": "class-clairvoyant", "kill": True, "bound": True}


@dataclass(frozen=True, slots=True)
class Point:
    """One replay of the grid."""

    policy: str
    knowledge: str  # user, class-clairvoyant, or classifier
    levels: str | None  # the dividers' shares of the run times
    cut: float | None
    protected: float  # share of the jobs, drawn by the seed, that must not be killed
    kills: int
    kill_share: float
    waste: float  # share of the processor-seconds used
    accuracy: float | None
    mean_bsld: float
    mean_wait_s: float
    gain: float  # 1 - mean bsld / mean bsld of the same policy under EASY with requested times

    def as_dict(self) -> dict[str, Any]:
        """As a dict by column."""
        return {name: getattr(self, name) for name in POINT_COLUMNS}


POINT_COLUMNS = Point.__slots__
OF_FOREST = ("regime", "divider-rule", "train", "train-lag", "seed")  # the options that all points share


@dataclass(frozen=True, slots=True)
class Trial:
    """A replay of the grid that is still to run."""

    workload: Workload
    size: int
    policy: str
    chosen: dict[str, Any]  # the options other than the policy
    protected: float
    seed: int
    tau_s: float

    @property
    def knowledge(self) -> str:
        """The kind of replay; replays of one kind cost about the same."""
        return str(self.chosen["knowledge"])


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a frontier after a replay has ended."""

    point: Point
    done: int  # replays
    of: int
    elapsed_s: float
    left_s: float | None  # None until the cost of every kind of replay is known

    def as_text(self) -> str:
        """One line: the replay, its mean bounded slowdown, time elapsed and time left."""
        point = self.point
        protected = None if point.protected == 0 else point.protected
        details = {"levels": point.levels, "cut": point.cut, "protected": protected}
        text = "".join(f" {name} {value}" for name, value in details.items() if value is not None)
        left = "time left unknown" if self.left_s is None else f"about {rough_duration(self.left_s)} left"
        return (
            f"{self.done} of {self.of}: {point.policy} {point.knowledge}{text}: "
            f"mean bsld {point.mean_bsld:,.3f}; {rough_duration(self.elapsed_s)} elapsed, "
            f"{'done' if self.done == self.of else left}"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Frontier:
    """What killing small jobs buys: a point per replay."""

    points: list[Point]
    provenance: dict[str, Any]  # everything needed to repeat it

    def as_text(self) -> str:
        """A table to read."""
        return as_text(self.points)

    __repr__ = as_text

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.provenance, "points": [point.as_dict() for point in self.points]}

    def to_pandas(self) -> pd.DataFrame:
        """A row per replay. Needs pandas."""
        about = {name: self.provenance[name] for name in ("workload", "options")}
        return data_frame([point.as_dict() for point in self.points], **about)


def frontier(
    log: Workload | str | Path,
    *,
    procs: int | None = None,
    policies: Sequence[str] = ("fcfs", "spf"),
    cuts: Sequence[float] = (0, 0.1, 0.2, 0.35, 0.5, 0.75),
    protected: Sequence[float] = (0.0,),
    levels: Sequence[str] = ("0.5",),
    regime: Regime | None = None,
    divider_rule: DividerRule | None = None,
    train: Literal["week", "drift"] | None = None,
    train_lag_s: float | None = None,
    seed: int | None = None,
    tau_s: float = TAU_S,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    workers: int = 1,
    report: Callable[[Progress], None] = lambda _: None,
) -> Frontier:
    """Replay every combination of policy, levels, cut and protected share, plus no knowledge and perfect knowledge.

    Args:
        log: a workload or a file, as for `read_workload`.
        procs: the machine's size; by default the log's.
        policies: names of queue orders.
        cuts: probabilities from which a job counts as small.
        protected: shares of the jobs that must not be killed.
        levels: values of the option `levels` to try.
        regime: of the classifier, as the next three; see the options' table.
        divider_rule: see the options' table.
        train: see the options' table.
        train_lag_s: see the options' table; in seconds.
        seed: of the classifier and of the protected jobs.
        tau_s: the bound of the bounded slowdown.
        overrun: see `read_workload`.
        unrequested: see `read_workload`.
        workers: processes for the replays; the points do not depend on it. With 1 they run in this process; a script
            that uses more must call this below `if __name__ == "__main__":`.
        report: called after each replay.

    Raises:
        BatfillError: the log or an option cannot be used; scikit-learn is not installed.
    """
    workload, size = opened(log, procs=procs, overrun=overrun, unrequested=unrequested)
    learning = {
        "regime": regime,
        "divider_rule": divider_rule,
        "train": train,
        "train_lag_s": train_lag_s,
        "seed": seed,
    }
    further = {name: value for name, value in of_arguments(learning).items() if value is not None}
    points = points_of(
        workload,
        size,
        policies,
        cuts,
        levels=levels,
        protected=protected,
        further=further,
        tau_s=tau_of(tau_s),
        workers=workers,
        report=report,
    )
    lists = {"policy": policies, "cuts": cuts, "protected": protected, "levels": levels}
    return Frontier(points, provenance(workload, size, tau_s, further, **lists))


def points_of(
    workload: Workload,
    size: int,
    policies: Sequence[str],
    cuts: Sequence[float],
    *,
    levels: Sequence[str],
    protected: Sequence[float],
    further: dict[str, Any],
    tau_s: float,
    workers: int,
    report: Callable[[Progress], None],
) -> list[Point]:
    """The points of a frontier; `further` are the classifier's options, the other arguments those of `frontier`."""
    seed = further.get("seed", 0)
    grid = list(grid_of(policies, cuts, levels, protected, further))
    for policy, chosen, _ in grid:
        Options.of({"policy": policy, **chosen}).learning.require_libraries()  # reject mistakes before anything runs
    trials = [Trial(workload, size, policy, chosen, share, seed, tau_s) for policy, chosen, share in grid]
    counts: dict[str, float] = {}
    for trial in trials:
        counts[trial.knowledge] = counts.get(trial.knowledge, 0) + 1
    remaining = Remaining(counts, min(workers, len(trials)), known=False)
    began = time.perf_counter()
    bsld: dict[str, float] = {}  # of each policy under EASY with requested times, once known
    found: dict[int, Point] = {}

    with closing(answers(trials, workers)) as ended:
        for place, answer in ended:
            if isinstance(answer, BaseException):
                raise answer
            point, took_s = answer
            found[place] = point
            if point.knowledge == NO_KNOWLEDGE["knowledge"]:
                bsld[point.policy] = point.mean_bsld
            remaining.ended(trials[place].knowledge, 1, took_s)
            elapsed_s = time.perf_counter() - began
            report(Progress(point, len(found), len(trials), elapsed_s, remaining.seconds()))
    ordered = (found[place] for place in range(len(trials)))
    return [replace(point, gain=1 - point.mean_bsld / bsld[point.policy]) for point in ordered]


def grid_of(
    policies: Sequence[str],
    cuts: Sequence[float],
    levels: Sequence[str],
    protected: Sequence[float],
    further: dict[str, Any],
) -> Iterator[tuple[str, dict[str, Any], float]]:
    """(policy, other options, protected share) of every replay, in the order of the results."""
    for policy in policies:
        yield policy, dict(NO_KNOWLEDGE), 0.0
        for dividers in levels:
            yield policy, {**PERFECT, "levels": dividers}, 0.0
            for cut, share in product(cuts, protected):
                chosen = {"knowledge": "classifier", "kill": True, "bound": True, "levels": dividers, "cut": cut}
                yield policy, {**chosen, **further}, share


def answers(trials: Sequence[Trial], workers: int) -> Generator[tuple[int, Any]]:
    """(index in `trials`, result of `tried` or an exception) of each, as they end."""
    if workers > 1:
        yield from spread(tried, trials, workers)
    else:
        for place, trial in enumerate(trials):
            yield place, tried(trial)


def tried(trial: Trial) -> tuple[Point, float]:
    """The point of this replay, its gain still nan, and the seconds it took."""
    began = time.perf_counter()
    options = Options.of({"policy": trial.policy, **trial.chosen})
    workload = trial.workload
    killable = np.random.default_rng(trial.seed).random(len(workload.jobs)) >= trial.protected
    jobs = replace(workload.jobs, killable=killable)
    schedule, report = replay_learning(jobs, trial.size, options, workload.clock, lambda _: None)
    figures = schedule.summary(trial.tau_s)
    point = Point(
        policy=trial.policy,
        knowledge=options.learning.knowledge,
        levels=trial.chosen.get("levels"),
        cut=trial.chosen.get("cut"),
        protected=trial.protected,
        kills=figures.requeued,
        kill_share=figures.requeued / max(figures.jobs - figures.rejected, 1),
        waste=figures.wasted,
        accuracy=confusion(report.learned).rates()["accuracy"] if options.learning.kill else None,
        mean_bsld=figures.mean_bsld,
        mean_wait_s=figures.mean_wait_s,
        gain=math.nan,
    )
    return point, time.perf_counter() - began


def provenance(
    workload: Workload, size: int, tau_s: float, learning: dict[str, Any], **lists: Sequence[Any]
) -> dict[str, Any]:
    """Everything needed to repeat a frontier: every option, default or not; `lists` are the options that vary."""
    chosen = Learning.of({"knowledge": "classifier", **learning}).settings.as_dict()
    return {
        "workload": workload.name,
        "workload_sha256": workload.digest,
        "workload_notes": list(workload.notes),
        "warnings": list(workload.warnings),
        "procs": size,
        "tau_s": tau_s,
        "options": {
            **{name: list(values) for name, values in lists.items()},
            **{name: chosen[name] for name in OF_FOREST},
            "procs": size,
            "tau": tau_s,
            "overrun": workload.overrun,
            "unrequested": workload.unrequested,
        },
        "version": __version__,
    }


def as_text(points: list[Point]) -> str:
    """A table to read."""
    lines = [
        f"{'policy':8}{'knowledge':19}{'levels':>15}{'cut':>5}{'protected':>11}{'kills':>9}{'of jobs':>9}{'waste':>8}"
        f"{'mean bsld':>11}{'gain':>8}"
    ]
    for p in points:
        cut = "-" if p.cut is None else f"{p.cut:g}"
        lines.append(
            f"{p.policy:8}{p.knowledge:19}{p.levels or '-':>15}{cut:>5}{p.protected:>11.0%}{p.kills:>9,}"
            f"{p.kill_share:>9.1%}{p.waste:>8.2%}"
            f"{p.mean_bsld:>11.3f}{p.gain:>8.1%}"
        )
    return "\n".join(lines)


def shares_in(name: str, text: str) -> list[float]:
    """Comma-separated numbers from 0 to 1.

    Raises:
        BatfillError: the text is something else.
    """
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0 <= value <= 1 for value in values):
        raise BatfillError(f"option {name}: {text!r} is not a list of numbers from 0 to 1; try 0,0.2,0.5")
    return values
