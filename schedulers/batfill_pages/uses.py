"""What a run used beside processors over time: pools, and energy, from its jobs or as Batsim measured it."""

from __future__ import annotations

import csv
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl

import numpy as np

from batfill.batsim_files.results import JOBS_CSV_5
from batfill.model.limits.pools import Pool
from batfill.model.schedule import Drawn, Use
from batfill_pages.sample import span_s, taken, tries_of
from batfill_pages.steps import Steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.model.limits.energy import Budget
    from batfill_pages.runs import ReportedRun


class PoolUse(NamedTuple):
    """A pool over time, in its base units, from the first submission to the last end."""

    pool: Pool
    used: Steps
    there: Steps | None  # how much there is; None for a pool of users, or if its windows are not known any more
    figures: Use  # of a pool of users the most that one of them used, and no share


class EnergyUse(NamedTuple):
    """What was drawn of a budget."""

    budget: Budget
    drawn_w: Steps
    figures: Drawn

    def balance_j(self, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        drawn_j = self.drawn_w.total(at_s) - self.drawn_w.total(self.budget.begin)
        return np.asarray(self.budget.rate_w * (at_s - self.budget.begin) - drawn_j)


def amounts_of(run: ReportedRun, pool: Pool) -> NDArray[np.float64] | None:
    """What each try takes of a pool, (n_tries,); None if it is a field of jobs that the results do not have."""
    counts = np.where((run.facts.user >= 0) | (not pool.of_user), 1.0, 0.0)
    if pool.each is not None:
        return np.asarray(counts * pool.amount({}, run.procs))
    texts, place = np.unique(run.facts.takes.astype(str), return_inverse=True)
    stated = [{name: float(value) for name, value in parse_qsl(text)} for text in texts.tolist()]
    if not any(pool.reads in one for one in stated):
        return None
    return counts * np.array([pool.amount(one, 0) for one in stated], np.float64)[place]


def pools_used(run: ReportedRun) -> list[PoolUse]:
    found, tries, ran = [], tries_of(run), run.ran
    if not ran.any():
        return []
    span = span_s(run)
    for given in run.about.pools:
        pool = given.on(run.size)
        amounts = amounts_of(run, pool)
        if amounts is None:
            continue
        away = taken(run, pool.name)
        used = tries.using(amounts[ran], np.concatenate([span, away.at_s]))
        lasts_s, most, over_s, there = np.diff(used.at_s), used.level.max(), 0.0, None
        share = None if pool.of_user else 0.0
        if pool.of_user:
            of_each = (np.flatnonzero(tries.user == user) for user in np.unique(tries.user[tries.user >= 0]))
            rows = ((tries.start_s[k], tries.end_s[k], amounts[ran][k]) for k in of_each)
            most = max((Steps.of(*each).level.max() for each in rows), default=0.0)
        elif run.about.windows is not None:
            there = Steps(used.at_s, pool.capacity - away.at(used.at_s))
            over_s = float(lasts_s[(used.level > there.level)[:-1]].sum())
            (all_there,) = np.diff(there.total(span))
            share = float(used.total(span[1]) / all_there) if all_there > 0 else 0.0
        refused = np.flatnonzero(amounts > pool.capacity)
        first = str(run.ids[refused[0]]) if len(refused) else ""
        figures = Use(pool.name, pool.capacity, pool.base, share, int(most), over_s, len(refused), first)
        found.append(PoolUse(pool, used, there, figures))
    return found


def energy_used(run: ReportedRun) -> EnergyUse | None:
    """What was drawn of the run's budget; None without one, or if it is not known what jobs draw."""
    budget, tries = run.about.budget, tries_of(run)
    watts = None if budget is None or budget.pool is None else amounts_of(run, budget.pool)
    if budget is None or watts is None:
        return None
    begin_s, end_s = budget.begin, budget.end
    drawn_w = Steps.of(
        np.append(tries.start_s, begin_s),
        np.append(tries.end_s, max(end_s, *span_s(run))),
        np.append(watts[run.ran], budget.idle_w),
    )
    (drawn_j,) = np.diff(drawn_w.total([begin_s, end_s]))
    use = EnergyUse(budget, drawn_w, Drawn(budget.joules, float(drawn_j), 0.0))
    dates_s = np.unique(np.append(drawn_w.at_s, end_s).clip(begin_s, end_s))
    balance = use.balance_j(dates_s)
    before, after = balance[:-1], balance[1:]
    below = (-np.minimum(before, after) / np.maximum(np.abs(after - before), 1e-9)).clip(0, 1)  # share of the time
    above_s = float((below * np.diff(dates_s)).sum())
    return use._replace(figures=Drawn(budget.joules, float(drawn_j), above_s))


def measured_w(jobs_csv: Path) -> Steps | None:
    """The watts of all hosts that Batsim measured, from the run's other file; None if it is not there, or damaged."""
    path = Path(f"{str(jobs_csv).removesuffix(JOBS_CSV_5)}consumed_energy.csv")
    with suppress(OSError, ValueError, KeyError, TypeError, csv.Error), path.open(newline="") as stream:
        rows = [(0.0, "NA"), *((float(row["time"]), row["epower"]) for row in csv.DictReader(stream))]
        spans = [(begin, end, float(watts)) for (begin, _), (end, watts) in pairwise(rows) if watts != "NA"]
        return Steps.of(*np.array(spans).T)
    return None


class Uses(NamedTuple):
    """All that a run used beside processors, as far as it is known."""

    span_s: tuple[float, float]  # the run's
    pools: list[PoolUse]
    energy: EnergyUse | None
    measured_w: Steps | None
    open: NDArray[np.float64] | None  # (n_periods, 2)  when jobs may be backfilled, in the run; None for always


def uses_of(run: ReportedRun) -> Uses:
    span, gate = span_s(run), run.about.open
    periods = (
        np.array([(begin, np.inf if end is None else end) for begin, end in gate or ()]).reshape(-1, 2).clip(*span)
    )
    return Uses(
        span,
        pools_used(run),
        energy_used(run),
        measured_w(run.path),
        None if gate is None else periods[periods[:, 0] < periods[:, 1]],
    )
