"""The promise of first tries: what the preset has over FCFS at most, and whether it holds on a log.

One replay says little: moving every submission by up to a minute moves the longest wait by up to a fifth. So each
figure is a mean over several seeds. Each seed moves the submissions differently, and both schedulers are replayed. The
promise is for a log at its own load: logs that had no part in it broke it with a tenth more load
(`docs/results/first-tries.md`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.base.sums import mean_of
from batfill.model.jobs import HOUR_S, table_in_order
from batfill.model.metrics import bounded_slowdown, long_waits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.model.jobs import Jobs
    from batfill.model.schedule import Schedule

TAU_S, OTHER_TAU_S = 60.0, 10.0
MOVED_S = 60  # a seed moves each submission by up to this
SEEDS = tuple(range(5))

BUSY_BSLD = 3.0  # the ratios are promised where FCFS's mean bounded slowdown is above this
OVERLOADED_S = 8.0 * HOUR_S  # nothing is promised where its mean wait is this or longer
QUIET_S = 10.0  # on a quieter log: how much longer the mean wait is at most, in seconds
SHORT_JOBS = 20_000  # with fewer jobs a single rush decides on the waits: only slowdown and waste are promised
BUSY, SHORT, QUIET, OVERLOADED = "busy", "short", "quiet", "overloaded"


class Figures(NamedTuple):
    """What is measured of a replay. Times in seconds."""

    bsld: float  # mean bounded slowdown, tau 60 s
    bsld_10: float  # the same, tau 10 s
    wait: float  # mean wait
    large: float  # that of jobs that ran for at least the log's median
    p999: float  # the 99.9 % quantile of the waits
    longest: float
    waste: float  # share of the processor time used that killed tries took
    kills: int


WORDS = {
    "bsld": "mean bsld, tau 60",
    "bsld_10": "mean bsld, tau 10",
    "wait": "mean wait",
    "large": "large jobs' mean wait",
    "p999": "99.9 % wait",
    "longest": "longest wait",
    "waste": "processor time wasted",
    "kills": "kills",
}
RATIOS = Figures._fields[:6]  # those stated over FCFS's
MOST = {"bsld": 0.85, "wait": 1.00, "large": 1.10, "p999": 1.15, "longest": 1.25, "waste": 0.01}  # on a busy log
PROMISED = {BUSY: tuple(MOST), SHORT: ("bsld", "waste"), QUIET: (), OVERLOADED: ()}  # of MOST


def figures_of(schedule: Schedule) -> Figures:
    """The figures of a replay of which at least one job ran."""
    ran = ~schedule.rejected
    wait_s, runtime_s = (schedule.start_s - schedule.jobs.submit_s)[ran], schedule.runtime_s[ran]
    found, longest = schedule.summary(TAU_S), long_waits(wait_s)
    return Figures(
        bsld=found.mean_bsld,
        bsld_10=mean_of(bounded_slowdown(wait_s, runtime_s, OTHER_TAU_S)),
        wait=found.mean_wait_s,
        large=mean_of(wait_s[runtime_s >= np.median(runtime_s)]),
        p999=longest["p999_wait_s"],
        longest=longest["max_wait_s"],
        waste=found.wasted,
        kills=found.requeued,
    )


@dataclass(frozen=True, slots=True)
class Check:
    """A scheduler beside FCFS on the same jobs; both (n_seeds, n_figures), columns as in `Figures`."""

    figures: NDArray[np.float64]
    base: NDArray[np.float64]
    jobs: int

    @property
    def kind(self) -> str:
        """What kind of log that is: it decides on what is promised."""
        mean = Figures(*self.base.mean(axis=0))
        if mean.wait >= OVERLOADED_S:
            return OVERLOADED
        return QUIET if mean.bsld <= BUSY_BSLD else SHORT if self.jobs < SHORT_JOBS else BUSY

    @property
    def ratios(self) -> NDArray[np.float64]:
        """The figures, those of RATIOS over FCFS's; 0 over 0 is 1."""
        found, n = self.figures.copy(), len(RATIOS)
        with np.errstate(divide="ignore", invalid="ignore"):
            over = self.figures[:, :n] / self.base[:, :n]
        found[:, :n] = np.where(self.base[:, :n] == self.figures[:, :n], 1.0, over)
        return found

    @property
    def promised(self) -> dict[str, float]:
        """What the mean ratios are at most, by figure."""
        return {name: MOST[name] for name in PROMISED[self.kind]}

    @property
    def longer_s(self) -> float:
        """How much longer than under FCFS the mean wait is."""
        return float((self.figures - self.base).mean(axis=0)[Figures._fields.index("wait")])

    @property
    def broken(self) -> dict[str, str]:
        """By figure, what breaks the promise: `99.9 % wait 1.190 > 1.15`; empty if it is kept or there is none."""
        if self.kind == QUIET:
            return {"wait": f"mean wait {self.longer_s:.1f} s longer"} if self.longer_s > QUIET_S else {}
        ratios = Figures(*self.ratios.mean(axis=0))
        return {
            name: f"{WORDS[name]} {getattr(ratios, name):.3f} > {most:.2f}"
            for name, most in self.promised.items()
            if getattr(ratios, name) > most
        }


def moved(jobs: Jobs, seed: int) -> Jobs:
    """The jobs with every submission moved by up to a minute either way, and all by one more, so that none is < 0."""
    by_s = np.random.default_rng([seed, MOVED_S]).integers(0, 2 * MOVED_S + 1, len(jobs))
    columns = {column.name: getattr(jobs, column.name) for column in fields(jobs)}
    columns["submit_s"] = jobs.submit_s + by_s
    return table_in_order("moved jobs", **columns)
