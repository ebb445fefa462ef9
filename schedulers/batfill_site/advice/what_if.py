"""The effect of other schedulers on a cluster's own log: for all jobs, and for groups of jobs and users."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.progress import patient_progress
from batfill.base.sums import mean_of
from batfill.model.limits.pools import Pools, rejected, wanted
from batfill.model.metrics import RUNTIME_BINS, TAU_S, bounded_slowdown, who_pays, width_bins
from batfill.model.options import OPTIONS, Options
from batfill.model.values import number_of, probability_of, seed_of, tau_of
from batfill.replays.found import ReadingOptions
from batfill.workloads.formats import read_once, source_of
from batfill_pages.comparison import Comparison, of_jobs
from batfill_site.advice.choices import (
    SHARED,
    THRESHOLDS_S,
    USUAL,
    Choice,
    beyond,
    choices,
    shared_of,
)
from batfill_site.advice.configuration import SYSTEMS
from batfill_site.advice.fill import answer_of
from batfill_site.advice.found import ChoiceFigures, JobGroup, Limit, WhatIf, advised, stated
from batfill_site.advice.payers import LIMITING, Cost, Payers, number_in_log, used_in_log
from batfill_site.advice.site_log import SiteLog
from batfill_site.fidelity import fidelity_of
from batfill_site.score import Whose, score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from batfill.model.jobs import Jobs
    from batfill.model.schedule import Schedule
    from batfill_pages.stats import Paired
    from batfill_site.score import Score

MAX_WAIT_GROWTH = 0.1  # allowed growth of the longest wait over fcfs's, as a share of it
MIN_GAIN = 0.05  # smallest relative reduction of the mean bounded slowdown that counts as a gain
LIMITS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)  # growths under which the advice is shown, beside the given one


def what_if(
    log: Jobs | str | Path,
    *,
    thresholds_s: Sequence[float] = THRESHOLDS_S,
    small_first: bool = True,
    max_wait_growth: float = MAX_WAIT_GROWTH,
    min_gain: float = MIN_GAIN,
    system: str | None = None,
    tau_s: float = TAU_S,
    seed: int = 0,
    **options: Any,
) -> WhatIf:
    """Replay the log under every choice of `choices`, and advise one.

    Args:
        log: a workload or a file, as for `read_workload`.
        thresholds_s: waiting times after which jobs come first.
        small_first: whether to include choices that put small jobs first.
        max_wait_growth: allowed growth of the longest wait over fcfs's, as a share of it.
        min_gain: the least relative reduction of the mean bounded slowdown that counts as better.
        system: advise only what this batch system can be configured for: slurm or pbs.
        tau_s: the bound of the bounded slowdown.
        seed: of the intervals.
        **options: procs, overrun, unrequested, cancelled: see `ReadingOptions`. And options of the scheduler that the
            choices share, named as in `replay`: `backfill` of all; `overdue` of those with a threshold; `divider`,
            `small_width`, `kill` and `bound` of those with small jobs first.

    Raises:
        BatfillError: an option is unusable, or no job of the log fits the machine.
    """
    how = ReadingOptions.taken_from(options)
    tau_of(tau_s)
    seed_of("seed", seed)
    number_of("max-wait-growth", max_wait_growth, 0, math.inf, "a share >= 0, as 10% or 0.1")
    probability_of("min-gain", min_gain)
    if system is not None and system not in SYSTEMS:
        raise BatfillError(f"option system: {system!r} is none of {', '.join(SYSTEMS)}; choose one")
    shared = shared_of(options, SHARED)
    tried = choices(thresholds_s, small_first, shared)
    withheld = beyond(system, tried)
    read = read_once(log, **how.reading)
    workload, jobs, size = how.jobs(read)
    limits, fitting = {name: shared[name] for name in LIMITING if shared.get(name)}, jobs
    wide = len(workload.jobs) - len(jobs)
    workload = workload.with_read(Options.of(tried[0].options).fields)
    if shared.get("pool"):  # whatever the order, the same jobs run
        pools = Pools.of("pool", shared["pool"]).on(size)
        jobs = jobs.select(~rejected(jobs, size, pools, wanted(pools, jobs)))
        if not len(jobs):
            raise BatfillError(f"option pool: every job wants more than there is of {shared['pool']}; give more")
    source = source_of(read, **how.reading)
    with patient_progress("choices", len(tried) + bool(limits) + 1) as advance:
        counted = ~jobs.is_cancelled
        schedules = [choice.replay(jobs, workload, advance).of(counted) for choice in tried]
        unlimited = tried[0].without(limits).replay(jobs, workload, advance).of(counted) if limits else schedules[0]
        jobs, fitting = jobs.select(counted), fitting.select(~fitting.is_cancelled)
        grade = fidelity_of(source)
        advance(1.0)
    comparison = of_jobs(
        tuple(choice.name for choice in tried),
        jobs.submit_s,
        np.array([bounded_slowdown(schedule.wait_s, schedule.runtime_s, tau_s) for schedule in schedules]),
        np.array([schedule.wait_s for schedule in schedules]),
    )
    outcomes = [
        outcome_of(choice, bsld, schedule, schedules[0])
        for choice, bsld, schedule in zip(tried, comparison.bsld, schedules, strict=True)
    ]
    pairs = comparison.against(range(len(tried)), seed)
    offered = [k for k in range(1, len(tried)) if k not in withheld]
    growths = (*sorted({*LIMITS, max_wait_growth}), None)
    settings = {
        **workload.choices,
        "thresholds_s": sorted(set(thresholds_s)),
        "small_first": small_first,
        **{
            OPTIONS[name].argument: shared.get(name, usual) if any(choice.takes(name) for choice in tried) else None
            for name, usual in USUAL.items()
        },
        "max_wait_growth": max_wait_growth,
        "min_gain": min_gain,
        "system": system,
        "tau_s": tau_s,
        "seed": seed,
    }
    groups = [
        group_of(by, name, comparison, jobs.submit_s, rows, seed)
        for by, name, rows in groups_of(jobs, size)
        if rows.any()
    ]
    known = grade.plain is not None
    logged, logged_bsld, whose = logged_figures(unlimited, tau_s) if known else (None, None, None)
    return WhatIf(
        workload,
        settings,
        comparison,
        outcomes,
        pairs,
        groups,
        [limit_of(growth, outcomes, pairs, offered, min_gain) for growth in growths],
        growths.index(max_wait_growth),
        withheld,
        grade,
        SiteLog.of(source, wide, Options.of(tried[0].options).fields),
        answer_of,
        logged=logged,
        logged_bsld=logged_bsld,
        logged_whose=whose,
        cost=cost_of(stated(limits), fitting, schedules[0], unlimited, tau_s, seed) if limits else None,
    )


def limit_of(
    growth: float | None,
    outcomes: Sequence[ChoiceFigures],
    pairs: Mapping[int, Sequence[Paired | None]],
    offered: Sequence[int],
    min_gain: float,
) -> Limit:
    longest_s = math.inf if growth is None else (1 + growth) * outcomes[0].max_wait_s
    taken, equals = advised(outcomes, pairs, longest_s, min_gain, offered)
    by_slowdown, _ = advised(outcomes, pairs, longest_s, min_gain, offered, by_waits=False)
    return Limit(growth, longest_s, taken, equals, by_slowdown)


def logged_figures(first: Schedule, tau_s: float) -> tuple[Score, float, Whose] | tuple[None, None, None]:
    """The score of this schedule, its jobs' mean bounded slowdown in the log, and whose wait was the longest there."""
    jobs, waited_s = first.jobs, first.jobs.waited_s
    if waited_s is None or np.isnan(waited_s).all():
        return None, None, None
    known, most = ~np.isnan(waited_s), int(np.nanargmax(waited_s))
    bsld = mean_of(bounded_slowdown(waited_s[known], first.runtime_s[known], tau_s))
    user = int(jobs.user[most])
    whose = Whose(number_in_log(jobs.ids[most]), user if user >= 0 else None)
    return score(jobs.submit_s[known], waited_s[known], first.wait_s[known]), bsld, whose


def cost_of(limits: dict[str, str], jobs: Jobs, under: Schedule, without: Schedule, tau_s: float, seed: int) -> Cost:
    """What limits cost the scheduler of these two schedules, of those of the jobs that the limits allow."""
    waits, runs = (np.array([getattr(one, name) for one in (without, under)]) for name in ("wait_s", "runtime_s"))
    both = of_jobs(("without", "under"), under.jobs.submit_s, bounded_slowdown(waits, runs, tau_s), waits)
    (longer,) = both.paired([waits[1] - waits[0]], seed)
    figures = mean_of(waits[0]), float(waits[0].max()), mean_of(both.bsld[0])
    left_out, used = len(jobs) - len(under.jobs), used_in_log(under, jobs)
    return Cost(limits, *figures, longer, Payers.of(under, without), left_out, used, under.rushed())


def outcome_of(choice: Choice, bsld: NDArray[np.float64], schedule: Schedule, first: Schedule) -> ChoiceFigures:
    jobs, wait_s = schedule.jobs, schedule.wait_s
    waits = who_pays(wait_s, runtime_s=first.runtime_s, procs=jobs.procs, user=jobs.user, base_wait_s=first.wait_s)
    options, figures = Options.of(choice.options), schedule.summary()
    by_class = {row["class"]: row for row in waits["waits_by_class"]}
    large = by_class["large"]  # there is one: the median is no larger than the longest run
    return ChoiceFigures(
        **choice._asdict(),
        mean_bsld=mean_of(bsld),
        mean_wait_s=mean_of(wait_s),
        p99_wait_s=float(np.quantile(wait_s, 0.99)),
        max_wait_s=float(wait_s.max()),
        payers=Payers.of(schedule, first),
        overdue=None if math.isinf(options.threshold_s) else int((wait_s > options.threshold_s).sum()),
        kills=figures.requeued,
        wasted=figures.wasted,
        small_mean_wait_s=by_class["small"]["mean_wait_s"] if "small" in by_class else None,
        large_mean_wait_s=large["mean_wait_s"],
        large_p999_wait_s=large["p999_wait_s"],
        large_max_wait_s=large["max_wait_s"],
        large_delayed=large["delayed"],
        large_mean_delay_s=large["mean_delay_s"],
        waits=waits,
    )


def groups_of(jobs: Jobs, size: int) -> list[tuple[str, str, NDArray[np.bool_]]]:
    widths, lengths = width_bins(size), RUNTIME_BINS
    return [
        *(("processors", one.name, one.holds(jobs.procs)) for one in widths),
        *(("ran for", one.name, one.holds(jobs.runtime_s)) for one in lengths),
    ]


def group_of(
    by: str, name: str, comparison: Comparison, submit_s: NDArray[np.float64], rows: NDArray[np.bool_], seed: int
) -> JobGroup:
    waits = comparison.wait_s[:, rows]
    part = of_jobs(comparison.names, submit_s[rows], comparison.bsld[:, rows], waits)
    mean, longest = float(comparison.wait_s[0][rows].mean()), waits.max(axis=1).tolist()
    return JobGroup(by, name, int(rows.sum()), mean, longest, part.differences(seed))
