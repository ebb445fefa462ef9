"""What kills buy and who pays: slowdown, wasted work and waits, over cuts, and shares of protected jobs."""

from __future__ import annotations

import math
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.processes import Remaining, no_bar, spread
from batfill.base.progress import patient_progress
from batfill.base.tables import Keyed, data_frame, in_columns, text_html
from batfill.base.version import __version__
from batfill.base.words import duration, wrapped
from batfill.model.metrics import TAU_S, class_figures, long_waits, on_front, who_pays
from batfill.model.options import SHARED_BY_ALL, SHARED_BY_TRIES, Options, as_line, shared_of
from batfill.model.policy import digests, policy_named
from batfill.model.values import number_or_text, probability_of, tau_of
from batfill.replays.learning import confusion, replay_learning
from batfill.search.results import ReadingOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from batfill.model.jobs import Workload

NO_KNOWLEDGE = {"small": "none"}
PERFECT = {"small": "perfect"}
SHARED = (*SHARED_BY_ALL, *SHARED_BY_TRIES, "seed")


@dataclass(frozen=True, slots=True)
class Point:
    """One replay of the grid."""

    policy: str
    small: str  # none, perfect, all (cut 0), or forest
    cut: float | None
    protected: float  # share of the jobs, drawn by the seed, that must not be killed
    kills: int
    kill_share: float
    waste: float  # share of the processor-seconds used
    accuracy: float | None
    auc: float | None  # see `replays.learning.Confusion`
    brier: float | None
    mean_bsld: float
    mean_wait_s: float
    p999_wait_s: float
    max_wait_s: float
    # From here on by comparison with the other points, once all are known.
    gain: float = math.nan  # 1 - mean bsld / mean bsld of the base: the same policy with no small jobs first
    front: bool = False  # whether no point without perfect knowledge is better in mean bsld or longest wait, and as
    # good in the other; False for perfect knowledge
    small_mean_wait_s: float | None = None  # of jobs that ran for less than the median; None without any
    large_mean_wait_s: float = math.nan  # of the others, as are the next ones
    large_p999_wait_s: float = math.nan
    large_max_wait_s: float = math.nan
    large_delayed: float = math.nan  # the share that waits over an hour longer than in the base
    large_mean_delay_s: float | None = None  # how much longer these wait; None without any
    waits: dict[str, Any] = field(default_factory=dict)  # see `metrics.who_pays`

    def as_dict(self) -> dict[str, Any]:
        """As a dict by column."""
        return {name: getattr(self, name) for name in POINT_COLUMNS}

    @property
    def choice(self) -> str:
        """The replay in words."""
        details = {"cut": self.cut, "protected": self.protected or None}
        text = "".join(f" {name} {value}" for name, value in details.items() if value is not None)
        return f"{self.policy} {self.small}{text}"

    def as_line(self) -> str:
        """The replay, its mean bounded slowdown, and its longest wait."""
        return f"{self.choice}: mean bsld {self.mean_bsld:,.3f}, longest wait {duration(self.max_wait_s)}"

    def whole(self) -> dict[str, Any]:
        """The columns, and the waits by class, width and user: for JSON."""
        return {**self.as_dict(), **self.waits}


POINT_COLUMNS = tuple(column.name for column in fields(Point) if column.name != "waits")


class Trial(NamedTuple):
    """A replay of the grid that is still to run."""

    workload: Workload
    size: int
    chosen: dict[str, Any]  # the options
    protected: float
    seed: int
    tau_s: float

    @property
    def options(self) -> Options:
        """The options in force, on the machine and the jobs that fit it."""
        jobs = self.workload.jobs
        return Options.of(self.chosen).on(self.workload, jobs.select(jobs.procs <= self.size))

    @property
    def knowledge(self) -> str:
        """The kind of replay; replays of one kind cost about the same."""
        return str(self.chosen["small"])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Frontier(Keyed):
    """What killing small jobs buys: a point per replay."""

    points: list[Point]
    provenance: dict[str, Any]  # everything needed to repeat it

    def as_text(self) -> str:
        """A table to read."""
        made = self.provenance
        head = ("policy and small", "kills", "of jobs", "waste", "mean bsld", "gain", "longest wait")
        waits = ("small jobs' wait", "large jobs' wait", "99.9 % wait", "delayed")
        rows = [
            (
                p.choice,
                *(f"{p.kills:,}", f"{p.kill_share:.1%}", f"{p.waste:.2%}", f"{p.mean_bsld:.3f}", f"{p.gain:.1%}"),
                duration(p.max_wait_s),
                "-" if p.small_mean_wait_s is None else duration(p.small_mean_wait_s),
                *(duration(p.large_mean_wait_s), duration(p.large_p999_wait_s), f"{p.large_delayed:.1%}"),
            )
            for p in self.points
        ]
        options = as_line({name: made["options"][name] for name in (*SHARED_BY_ALL, *SHARED_BY_TRIES)})
        below = (
            f"{made['workload']} on {made['procs']:,} processors, tau {made['tau_s']:g} s, {options}",
            "the waits of small and large jobs are means, small jobs being those that ran for less than "
            f"{duration(made['small_below_s'])}, the median; of the large ones also the 99.9 % quantile, and the share "
            "that waits over an hour longer than with small none",
        )
        return "\n".join([in_columns([(*head, *waits), *rows], (0,)), "", *map(wrapped, below)])

    __repr__ = as_text

    def _repr_html_(self) -> str:
        """The table, for notebooks."""
        return text_html(self.as_text())

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.provenance, "points": [point.whole() for point in self.points]}

    def to_pandas(self) -> pd.DataFrame:
        """A row per replay. Needs pandas."""
        about = {name: self.provenance[name] for name in ("workload", "options")}
        return data_frame([point.as_dict() for point in self.points], **about)


def frontier(
    log: Workload | str | Path,
    *,
    policies: Sequence[str] = ("fcfs", "spf"),
    cuts: Sequence[float] = (0, 0.1, 0.2, 0.35, 0.5, 0.75),
    protected: Sequence[float] = (0.0,),
    tau_s: float = TAU_S,
    workers: int = 1,
    report: Callable[[str], None] | None = None,
    **options: Any,
) -> Frontier:
    """Replay every combination of policy, cut and protected share, plus no small jobs and perfect knowledge.

    The first point of each policy, without small jobs, is its base.

    Args:
        log: a workload or a file, as for `read_workload`.
        policies: names of queue orders.
        cuts: probabilities from which a job counts as small.
        protected: shares of the jobs that must not be killed.
        tau_s: the bound of the bounded slowdown.
        workers: processes for the replays; the points do not depend on it. With 1 they run in this process; a script
            that uses more must call this below `if __name__ == "__main__":`.
        report: called with a line after each replay; None shows a progress bar after two seconds.
        **options: procs, overrun, unrequested: see `ReadingOptions`. Options of the scheduler that the replays share,
            named as in `replay`: `backfill`, `threshold_s` and `overdue` of all; `overdue_before`, `divider`,
            `small_width`, `kill` and `bound` of those with small jobs first; `seed` of those with a forest. The seed
            also draws the protected jobs.

    Raises:
        BatfillError: the log or an option cannot be used; scikit-learn is not installed.
    """
    workload, _, size = ReadingOptions.taken_from(options).jobs(log)
    further = shared_of(options, SHARED)
    trials = [
        Trial(workload, size, chosen, share, further.get("seed", 0), tau_of(tau_s))
        for chosen, share in grid_of(policies, cuts, protected, further)
    ]
    for trial in trials:
        trial.options.require_libraries()  # reject mistakes before anything runs
    remaining = Remaining(Counter(trial.knowledge for trial in trials), min(workers, len(trials)), known=False)
    began = time.perf_counter()
    found: dict[int, tuple[Point, NDArray[np.float64]]] = {}
    shown = patient_progress("replays", len(trials)) if report is None else no_bar("replays")
    with shown as advance, closing(answers(trials, workers)) as ended:
        for place, answer in ended:
            if isinstance(answer, BaseException):
                raise answer
            *found[place], took_s = answer
            remaining.ended(trials[place].knowledge, 1, took_s)
            advance(1)
            if report is not None:
                left_s, elapsed = remaining.seconds(), duration(time.perf_counter() - began, up=True)
                left = "time left unknown" if left_s is None else f"about {duration(left_s, up=True)} left"
                left = "done" if len(found) == len(trials) else left
                report(f"{len(found)} of {len(trials)}: {found[place][0].as_line()}; {elapsed} elapsed, {left}")
    points = compared_points(workload, size, *zip(*(found[place] for place in range(len(trials))), strict=True))
    lists = {"policy": policies, "cuts": cuts, "protected": protected}
    return Frontier(points, frontier_provenance(workload, size, tau_s, further, points, **lists))


def compared_points(
    workload: Workload, size: int, points: Sequence[Point], waits_s: Sequence[NDArray[np.float64]]
) -> list[Point]:
    """The points with their columns of comparison; `waits_s` of the jobs that fit the machine, shape (n_fit,) each."""
    jobs = workload.jobs.select(workload.jobs.procs <= size)
    runtime_s = np.minimum(jobs.runtime_s, jobs.walltime_s)
    able = np.array([point.small != PERFECT["small"] for point in points])
    front = np.zeros(len(points), bool)
    front[able] = on_front(*np.array([(point.mean_bsld, point.max_wait_s) for point in points])[able].T)
    bases = {point.policy: k for k, point in enumerate(points) if point.small == NO_KNOWLEDGE["small"]}
    whole = []
    for point, wait_s, unbeaten in zip(points, waits_s, front.tolist(), strict=True):
        base = bases[point.policy]
        waits = who_pays(wait_s, runtime_s=runtime_s, procs=jobs.procs, user=jobs.user, base_wait_s=waits_s[base])
        gain = 1 - point.mean_bsld / points[base].mean_bsld
        whole.append(replace(point, gain=gain, front=unbeaten, **class_figures(waits), waits=waits))
    return whole


def grid_of(
    policies: Sequence[str],
    cuts: Sequence[float],
    protected: Sequence[float],
    further: dict[str, Any],
) -> Iterator[tuple[dict[str, Any], float]]:
    """(options, protected share) of every replay, in the order of the results; `further` are the options in SHARED."""
    of_all = {name: value for name, value in further.items() if name in SHARED_BY_ALL}
    of_tries = {name: value for name, value in further.items() if name != "seed"}
    for policy in policies:
        yield {"policy": policy, **NO_KNOWLEDGE, **of_all}, 0.0
        yield {"policy": policy, **PERFECT, **of_tries}, 0.0
        for cut, share in product(cuts, protected):
            forest = {"small": "forest", "cut": cut, **further}
            yield {"policy": policy, **(forest if cut > 0 else {"small": "all", **of_tries})}, share


def answers(trials: Sequence[Trial], workers: int) -> Generator[tuple[int, Any]]:
    """(index in `trials`, result of `tried` or an exception) of each, as they end."""
    if workers > 1:
        yield from spread(tried, trials, workers)
    else:
        for place, trial in enumerate(trials):
            yield place, tried(trial)


def tried(trial: Trial) -> tuple[Point, NDArray[np.float64], float]:
    """The point of this replay, not compared yet; the waits of the jobs that fit the machine; the seconds it took."""
    began = time.perf_counter()
    options, workload = trial.options, trial.workload
    killable = np.random.default_rng(trial.seed).random(len(workload.jobs)) >= trial.protected
    jobs = replace(workload.jobs, killable=killable)
    schedule, report = replay_learning(jobs, trial.size, options, workload.clock, lambda _: None)
    figures = schedule.summary(trial.tau_s)
    quality = confusion(report.learned) if options.kills else None
    wait_s = schedule.wait_s[~schedule.rejected]
    longest = long_waits(wait_s)
    point = Point(
        policy=trial.chosen["policy"],
        small=options.small,
        cut=0 if options.small == "all" else trial.chosen.get("cut"),
        protected=trial.protected,
        kills=figures.requeued,
        kill_share=figures.requeued / max(figures.jobs - figures.rejected, 1),
        waste=figures.wasted,
        accuracy=quality.rates()["accuracy"] if quality else None,
        auc=quality.auc if quality else None,
        brier=quality.brier if quality else None,
        mean_bsld=figures.mean_bsld,
        mean_wait_s=figures.mean_wait_s,
        p999_wait_s=longest["p999_wait_s"],
        max_wait_s=longest["max_wait_s"],
    )
    return point, wait_s, time.perf_counter() - began


def frontier_provenance(
    workload: Workload,
    size: int,
    tau_s: float,
    further: dict[str, Any],
    points: Sequence[Point],
    **lists: Sequence[Any],
) -> dict[str, Any]:
    """Everything needed to repeat a frontier: every option, default or not; `lists` are the options that vary."""
    options = Options.of({"small": "forest", **further})
    chosen = options.as_dict()
    read = {"overrun": workload.overrun, "unrequested": workload.unrequested}
    return {
        "workload": workload.name,
        "workload_sha256": workload.digest,
        "workload_notes": list(workload.notes),
        "warnings": list(workload.warnings),
        "procs": size,
        "tau_s": tau_s,
        "small_below_s": points[0].waits["small_below_s"],
        "options": {
            **{name: list(each) for name, each in lists.items()},
            **chosen,
            "procs": size,
            "tau": tau_s,
            **read,
        },
        **digests([*(policy_named(name) for name in lists["policy"]), options.backfill]),
        **options.calendar_digest,
        "version": __version__,
    }


def shares_in(name: str, text: str) -> list[float]:
    """Comma-separated shares of the whole, as for `probability_of`.

    Raises:
        BatfillError: the text is something else.
    """
    return [probability_of(name, number_or_text(word.strip())) for word in text.split(",")]
