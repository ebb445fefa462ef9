"""A log cut into periods on which policies are compared, each starting with an empty machine, and their costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from batfill.base.errors import BatfillError, WorkloadError
from batfill.model.jobs import DAY_S, request_warnings
from batfill.model.kinds import SAME
from batfill.model.metrics import TAU_S
from batfill.model.options import Options
from batfill.model.policy import POLICIES
from batfill.model.rules import Rules
from batfill.model.values import finite, tau_of
from batfill.replays.engine_replay import EngineReplay
from batfill.replays.found import ReadingOptions
from batfill.replays.many import mean_bsld, measure_policies
from batfill.workloads.formats import part_of
from batfill.workloads.times import consecutive_windows, cut, windows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.model.jobs import Jobs
    from batfill.model.policy import Policy
    from batfill.workloads.times import Align, Boundary


@dataclass(frozen=True, slots=True, eq=False)
class Periods:
    """Consecutive periods of one log, by default weeks."""

    source: str  # the log's file name
    digest: str  # sha256 of its bytes as stored
    procs: int  # m
    numbers: tuple[int, ...]  # of the periods in the log, from 0, including empty ones
    tables: tuple[Jobs, ...]  # second 0 is the period's start; never empty
    choices: dict[str, Any]  # how they were read and cut

    def __len__(self) -> int:
        return len(self.tables)

    @property
    def warnings(self) -> tuple[str, ...]:
        return request_warnings(self.tables, self.choices.get("unrequested", "refuse"))

    def part(self, first: int, stop: int) -> Periods:
        numbers, tables = self.numbers[first:stop], self.tables[first:stop]
        return Periods(self.source, self.digest, self.procs, numbers, tables, self.choices)

    def provenance(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "source_sha256": self.digest,
            "procs": self.procs,
            "periods": list(self.numbers),
            "warnings": list(self.warnings),
            **self.choices,
        }


def training_of(n: int, training: int | None, longest: int = 1) -> int:
    """The number of training periods, of `n`: half of them by default; `longest`: the most that a choice looks back."""
    n_training = n // 2 if training is None else training
    if 0 < longest <= n_training < n:
        return n_training
    if n < 2:
        advice = "give a longer log, or a shorter --days"
    elif longest < n:
        advice = f"choose --training {longest if longest == n - 1 else f'from {longest} to {n - 1}'}"
    else:
        most = n_training if 0 < n_training < n else n // 2
        left_out = "leave --training out, and " if most != n_training else ""
        advice = f"{left_out}choose a --last of at most {most}, or a shorter --days"
    periods = "1 period is" if n == 1 else f"{n} periods are"
    look = f" and look {longest} back" if longest > 1 else ""
    raise BatfillError(f"{periods} too few to train on {n_training}{look}; {advice}")


def read_periods(
    log: Jobs | str | Path,
    *,
    days: float | Literal["month"] = 7,
    align: Align = "log",
    boundary: Boundary = "submit-finish",
    skip: int = 0,
    count: int | None = None,
    min_jobs: int = 1,
    **reading: Any,
) -> Periods:
    """Cut a log into periods of some days each, or calendar months; see `times.windows` for `align` and `boundary`.

    The default boundary, jobs submitted and finished in one period of the log, comes closest to the figures of the 2019
    study of mixed policies. After the first `skip` periods, `count` consecutive ones with at least `min_jobs` are
    taken, None for all. What stands in for requests is settled on the whole log.
    """
    source = ReadingOptions.of(**reading).source(log)
    where = source.where
    width_s: float | Literal["month"] = "month" if days == "month" else days * DAY_S
    found = windows(source.log, width_s, align=align, boundary=boundary)
    chosen = consecutive_windows(found, skip=skip, count=count, min_jobs=max(min_jobs, 1))
    kept = [(window.index, part_of(source, cut(source.log, window))) for window in chosen]
    size = kept[0][1].size
    if size is None:
        raise WorkloadError(f"{where}: does not say how many processors the machine has; give --procs N")
    choices: dict[str, Any] = {"days": days, "align": align, "boundary": boundary}
    choices |= {"overrun": source.overrun, "unrequested": source.unrequested}
    numbers, tables = tuple(number for number, _ in kept), tuple(workload.jobs for _, workload in kept)
    return Periods(Path(where).name, source.digest, size, numbers, tables, choices)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all policies compared on periods share. The default is the 2019 study's, without its threshold."""

    backfill: Policy | None = POLICIES["spf"]  # None for the queue's own order
    threshold_s: float = math.inf  # Theta
    tau_s: float = TAU_S

    @classmethod
    def of(cls, backfill: Policy | str | None, threshold: float | None, tau_s: float = TAU_S) -> Conditions:
        """The conditions, from options as the command line gives them; None for an option's default."""
        shared = Options.of({"backfill": backfill, "threshold": threshold})
        return cls(backfill=shared.backfill, threshold_s=shared.threshold_s, tau_s=tau_of(tau_s))

    def as_dict(self) -> dict[str, Any]:
        return {
            "backfill": self.backfill.name if self.backfill else SAME,
            "threshold": finite(self.threshold_s),
            "tau_s": self.tau_s,
        }


def costs(
    periods: Periods,
    policies: Sequence[Policy],
    conditions: Conditions,
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> NDArray[np.float64]:
    """The mean bounded slowdown, shape (n_policies, n_periods); `advance` is called with 1 after every period."""
    result = np.empty((len(policies), len(periods)))
    shared: dict[str, Any] = {"backfill": conditions.backfill, "threshold_s": conditions.threshold_s}
    for column, jobs in enumerate(periods.tables):
        measure = mean_bsld(jobs, periods.procs, conditions.tau_s)
        result[:, column] = measure_policies(jobs, periods.procs, policies, **shared, measure=measure)
        advance(1)
    return result


def costs_and_waits(
    periods: Periods,
    policies: Sequence[Policy],
    conditions: Conditions,
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """As `costs`, and by period the waits of the jobs that ran, each shape (n_policies, n_jobs), in seconds."""
    result, waits = np.empty((len(policies), len(periods))), []
    for column, jobs in enumerate(periods.tables):
        run = EngineReplay(jobs, periods.procs, Rules(policies[0]))
        start_s = run.starts_under(policies, backfill=conditions.backfill, threshold_s=conditions.threshold_s)
        result[:, column] = mean_bsld(jobs, periods.procs, conditions.tau_s)(start_s)
        waits.append((start_s - jobs.submit_s)[:, jobs.procs <= periods.procs])
        advance(1)
    return result, waits
