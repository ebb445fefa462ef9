"""The effect of other schedulers on a cluster's own log: for all jobs, and for groups of jobs and users."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.progress import patient_progress
from batfill.base.sums import mean_of
from batfill.base.words import things
from batfill.model.jobs import WEEK_S, Jobs
from batfill.model.limits.pools import Pools, rejected, wanted
from batfill.model.metrics import TAU_S, bounded_slowdown
from batfill.model.options import OPTIONS, Options
from batfill.model.values import number_of, probability_of, seed_of, tau_of
from batfill.replays.found import ReadingOptions
from batfill.workloads.formats import read_once, source_of
from batfill.workloads.swf import job_rows
from batfill_pages.comparison import Comparison, of_jobs
from batfill_pages.words import id_in_log, submission_dates
from batfill_site.advice.choices import SHARED, THRESHOLDS_S, USUAL, Choice, choices, shared_of
from batfill_site.advice.configuration import SYSTEMS, configuration
from batfill_site.advice.fill import answer_of
from batfill_site.advice.found import (
    ADVICE,
    CHOSEN,
    MACHINE_FILE,
    REFERENCE,
    ChoiceFigures,
    JobGroup,
    Limit,
    Period,
    WhatIf,
    advised,
    gains,
    row_of,
    stated,
)
from batfill_site.advice.payers import LIMITING, STOPPING, Cost, Kind, Payers, kinds_of, load_of, used_in_log, work_of
from batfill_site.fidelity import SiteLog, fidelity_of
from batfill_site.machine import machine_or_stated
from batfill_site.score import Score, Whose, score

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from batfill.model.schedule import Schedule
    from batfill_pages.stats import Paired
    from batfill_site.advice.payers import Pairing

MAX_WAIT_GROWTH = 0.1  # allowed growth of the longest wait over fcfs's, as a share of it
MIN_GAIN = 0.05  # smallest relative reduction of the mean bounded slowdown that counts as a gain
# Weeks of a period, and from which on periods are long; the oldest one has at least this part of it.
LONG, SHORT, FEWEST_FOR_LONG, LEAST_PART = 52, 13, 78, 0.25
FEWEST_OF_PERIOD = 300  # jobs
LIMITS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)  # growths under which the advice is shown, beside the given one


def what_if(
    log: Jobs | str | Path,
    *,
    thresholds_s: Sequence[float] = THRESHOLDS_S,
    small_first: bool = True,
    max_wait_growth: float = MAX_WAIT_GROWTH,
    min_gain: float = MIN_GAIN,
    system: str | None = None,
    machine: str | int | None = None,
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
        machine: log, the machine that the log's jobs ran on, with what the site did on it; header, the one that its
            header states; or a number of processors. By default log, but header with `procs` or a calendar, which
            state it.
        tau_s: the bound of the bounded slowdown.
        seed: of the intervals.
        **options: procs, overrun, unrequested, cancelled: see `ReadingOptions`. And options of the scheduler that the
            choices share, named as in `replay`: `backfill` of all; `predict` and `predict_for` of those that are
            neither fcfs nor first tries; `overdue` of those with a threshold; `divider`,
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
    given = shared_of(options, SHARED)
    machine = machine_or_stated(machine, how.procs, given.get("calendar"))
    tried = choices(thresholds_s, small_first, given)  # rejects mistakes before anything is read
    limits = {name: given[name] for name in LIMITING if given.get(name)}
    read = read_once(log, **how.reading)
    workload, _, _ = how.jobs(read)
    source = source_of(read, **how.reading)
    stops = "urgent" in limits and "preempt" in limits
    with patient_progress("choices", len(tried) + bool(limits) + stops + 1) as advance:
        near = fidelity_of(source, machine).without(given)
        advance(1.0)
        shared = {**near.options, **given}
        if "calendar" in near.options and "calendar" not in given:
            shared["calendar"] = replace(shared["calendar"], name=MACHINE_FILE)
        tried = choices(thresholds_s, small_first, shared)
        reasons = [configuration(system, choice.options)[1] if system else "" for choice in tried]
        withheld = {k: why for k, why in enumerate(reasons) if why}
        at, size, fields = rows_of(workload, source), near.part.size, Options.of(tried[0].options).fields
        rows = near.machine.rows(near.part)[at]
        if not rows.any():
            raise BatfillError(f"{workload.where}: no job fits {things(size, 'processor')}; give a larger --machine")
        site = SiteLog.of(source, len(workload), int((near.machine.wide & near.part.rows)[at].sum()), fields)
        workload = workload.with_read(fields).stating(size=size)
        jobs = fitting = workload.select(rows)
        workload = workload if (rows == (workload.procs <= size)).all() else jobs  # else it says what does not fit
        at = at[rows]
        if limits.get("pool"):  # whatever the order, the same jobs run
            pools = Pools.of("pool", shared["pool"]).on(size)
            able = ~rejected(jobs, size, pools, wanted(pools, jobs))
            if not able.any():
                raise BatfillError(f"option pool: every job wants more than there is of {shared['pool']}; give more")
            jobs, at = jobs.select(able), at[able]
        ran = ~jobs.is_cancelled
        group = source.log["group"][job_rows(Path(source.where), source.log).row][at[ran]].astype(np.int64)
        schedules = [choice.replay(jobs, workload, advance).of(ran) for choice in tried]
        unlimited = tried[0].without(limits).replay(jobs, workload, advance).of(ran) if limits else schedules[0]
        alone = tried[0].without(STOPPING).replay(jobs, workload, advance).of(ran) if stops else None
        jobs, fitting = jobs.select(ran), fitting.select(~fitting.is_cancelled)
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
        "machine": machine,
        "max_wait_growth": max_wait_growth,
        "min_gain": min_gain,
        "system": system,
        "tau_s": tau_s,
        "seed": seed,
    }

    def over(rows: NDArray[np.bool_]) -> WhatIf:
        of = [one.of(rows) for one in (*schedules, unlimited)]
        first, kinds = of[0], kinds_of(of[0].jobs, size, group[rows])
        comparison = of_jobs(
            tuple(choice.name for choice in tried),
            first.submit_s,
            np.array([bounded_slowdown(one.wait_s, one.runtime_s, tau_s) for one in of[:-1]]),
            np.array([one.wait_s for one in of[:-1]]),
        )
        pairing = partial(comparison.paired, seed=seed)
        outcomes = [
            outcome_of(choice, bsld, schedule, first, kinds, pairing)
            for choice, bsld, schedule in zip(tried, comparison.bsld, of, strict=False)
        ]
        pairs = comparison.against(range(len(tried)), seed)
        groups = [
            group_of(by, kind.name(k), comparison, first.submit_s, kind.of == k, seed)
            for by, kind in kinds.items()
            if kind.names
            for k in np.unique(kind.of).tolist()
        ]
        begun = fitting.select(fitting.submit_s >= first.submit_s[0])
        logged = (None, None, None) if near.plain is None else logged_figures(of[-1], tau_s)
        return WhatIf(
            workload,
            settings,
            comparison,
            outcomes,
            pairs,
            pairing([wait_s - comparison.wait_s[0] for wait_s in comparison.wait_s[1:]]),
            groups,
            [limit_of(growth, outcomes, pairs, offered, min_gain) for growth in growths],
            growths.index(max_wait_growth),
            withheld,
            near,
            site,
            answer_of,
            *logged,
            cost_of(stated(limits), begun, first, of[-1], alone and alone.of(rows), tau_s, seed, kinds)
            if limits
            else None,
        )

    whole = over(np.ones(len(jobs), bool))
    periods = periods_of(whole, unlimited)
    return replace(led(whole, periods, over), periods=periods)


def led(whole: WhatIf, periods: Sequence[Period], over: Callable[[NDArray[np.bool_]], WhatIf]) -> WhatIf:
    """The answer of the newest period, if that decides, and against the whole log's advice; else the whole log's.

    It is against it if the advice is beyond the limit there, does not gain over fcfs, or another one gains over it.
    """
    mine, min_gain = whole.limit.advised, whole.settings["min_gain"]
    if whole.undecided or not periods or periods[-1].advised == mine:
        return whole
    newest = over(periods[-1].rows)
    found, taken = newest.outcomes, newest.limit.advised
    holds = newest.allowed(newest.limit, mine) and (not mine or gains(found, None, 0, mine, min_gain))
    may_be_chance = not taken and periods[-1].advised
    if newest.undecided or may_be_chance or (holds and not gains(found, newest.bsld, mine, taken, min_gain)):
        return whole
    return replace(newest, whole=whole)


def periods_of(whole: WhatIf, unlimited: Schedule) -> list[Period]:
    """The advice in each period of 13 or 52 weeks, counted back from the log's end.

    A gain counts even if it may be chance. The advice of the whole log stays where it is as good as a period's.
    """
    submit_s, waited_s, found = unlimited.submit_s, unlimited.jobs.waited_s, list[Period]()
    weeks, mine = (submit_s[-1] - submit_s[0]) / WEEK_S, whole.limit.advised
    unit = LONG if weeks >= FEWEST_FOR_LONG else SHORT
    length_s = unit * WEEK_S
    number = max(int(weeks * WEEK_S / length_s + 1 - LEAST_PART), 1)
    ago = np.minimum((submit_s[-1] - submit_s) // length_s, number - 1)
    known = np.zeros(len(ago), bool) if whole.logged is None or waited_s is None else ~np.isnan(waited_s)
    for rows in (ago == k for k in range(number - 1, -1, -1)):
        if number == 1 or rows.sum() < FEWEST_OF_PERIOD:
            continue
        waits, bsld = whole.comparison.wait_s[:, rows], whole.comparison.bsld[:, rows]
        outcomes = [
            o._replace(mean_bsld=mean_of(bsld[k]), mean_wait_s=mean_of(waits[k]), max_wait_s=float(waits[k].max()))
            for k, o in enumerate(whole.outcomes)
        ]
        limit = limit_of(whole.limit.growth, outcomes, None, whole.offered, whole.settings["min_gain"])
        taken = mine if mine in (limit.advised, *limit.equals) else limit.advised
        there = rows & known
        logged_s = waited_s[there].sum() if waited_s is not None else 0.0
        ratio = float(unlimited.wait_s[there].sum() / logged_s) if logged_s else None
        figures = [row_of(role, outcomes, k) for role, k in ((CHOSEN, taken), (ADVICE, mine), (REFERENCE, 0))]
        ends, clock = submit_s[rows][[0, -1]], whole.workload.clock
        weeks_from_1 = "weeks {:.0f} to {:.0f}".format(*((ends - submit_s[0]) // WEEK_S + 1))
        dates = submission_dates(ends, clock).removeprefix("submitted ") if clock else weeks_from_1
        found.append(Period(f"{unit} weeks", rows, dates, ratio, taken, figures))
    return found if len(found) > 1 else []


def rows_of(jobs: Jobs, source: Jobs) -> NDArray[np.intp]:
    """The rows that these jobs, or what was selected of them, have in the source that was read again."""
    if len(jobs) == len(source):
        return np.arange(len(jobs))
    rows = {id_in_log(name): row for row, name in enumerate(source.ids.tolist())}
    return np.array([rows[id_in_log(name)] for name in jobs.ids.tolist()])


def limit_of(
    growth: float | None,
    outcomes: Sequence[ChoiceFigures],
    pairs: Mapping[int, Sequence[Paired | None]] | None,
    offered: Sequence[int],
    min_gain: float,
) -> Limit:
    longest_s = math.inf if growth is None else (1 + growth) * outcomes[0].max_wait_s
    return Limit(growth, longest_s, *advised(outcomes, pairs, longest_s, min_gain, offered))


def logged_figures(first: Schedule, tau_s: float) -> tuple[Score | None, Whose | None, float | None]:
    jobs, waited_s = first.jobs, first.jobs.waited_s
    if waited_s is None or np.isnan(waited_s).all():
        return None, None, None
    known, most = ~np.isnan(waited_s), int(np.nanargmax(waited_s))
    near = score(jobs.submit_s[known], waited_s[known], first.wait_s[known], jobs.procs[known])
    bsld = float(bounded_slowdown(waited_s[known], jobs.runtime_s[known], tau_s).mean())
    return near, Whose.of(jobs, most), bsld


def cost_of(
    limits: dict[str, str],
    jobs: Jobs,
    under: Schedule,
    without: Schedule,
    alone: Schedule | None,
    tau_s: float,
    seed: int,
    kinds: Mapping[str, Kind],
) -> Cost:
    """What limits cost the scheduler of these two schedules, of those of the jobs that the limits allow."""
    waits, runs = (np.array([getattr(one, name) for one in (without, under)]) for name in ("wait_s", "runtime_s"))
    both = of_jobs(("without", "under"), under.jobs.submit_s, bounded_slowdown(waits, runs, tau_s), waits)
    (longer,) = both.paired([waits[1] - waits[0]], seed)
    payers = Payers.of(under, without, kinds, partial(both.paired, seed=seed))
    left_out, used = len(jobs) - len(under.jobs), used_in_log(under, jobs)
    figures, by_priority = three_of(without, tau_s), three_of(alone, tau_s) if alone else None
    (load, enough), work = load_of(under), work_of(under.jobs) or 1.0
    left_work = 1 - work / (work_of(jobs) or 1.0)
    undone = [work_of(one.jobs, one.submit_s[-1] - one.start_s) / work for one in (under, without)]
    left = left_out, left_work, undone
    return Cost(limits, *figures, longer, payers, enough, *left, used, load, under.rushed(), by_priority)


def three_of(one: Schedule, tau_s: float) -> tuple[float, float, float]:
    return mean_of(one.wait_s), float(one.wait_s.max()), mean_of(bounded_slowdown(one.wait_s, one.runtime_s, tau_s))


def outcome_of(
    choice: Choice,
    bsld: NDArray[np.float64],
    schedule: Schedule,
    first: Schedule,
    kinds: Mapping[str, Kind],
    pairing: Pairing,
) -> ChoiceFigures:
    wait_s, options, figures = schedule.wait_s, Options.of(choice.options), schedule.summary()
    return ChoiceFigures(
        **choice._asdict(),
        mean_bsld=mean_of(bsld),
        mean_wait_s=mean_of(wait_s),
        max_wait_s=float(wait_s.max()),
        whose=Whose.of(schedule.jobs, int(np.argmax(wait_s))),
        payers=Payers.of(schedule, first, kinds, pairing),
        overdue=None if math.isinf(options.threshold_s) else int((wait_s > options.threshold_s).sum()),
        kills=figures.requeued,
        wasted=figures.wasted,
    )


def group_of(
    by: str, name: str, comparison: Comparison, submit_s: NDArray[np.float64], rows: NDArray[np.bool_], seed: int
) -> JobGroup:
    waits = comparison.wait_s[:, rows]
    part = of_jobs(comparison.names, submit_s[rows], comparison.bsld[:, rows], waits)
    mean, longest = float(comparison.wait_s[0][rows].mean()), waits.max(axis=1).tolist()
    return JobGroup(by, name, int(rows.sum()), mean, longest, part.differences(seed))
