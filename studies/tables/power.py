"""What power caps and energy budgets cost: the tables of docs/results/power.md.

`python -m studies.tables.power [LOG...] [--seeds 3] [--jobs 2] [--csv replays.csv] > power.md`; without a LOG, the logs
of `SHOWN` in $BATFILL_TRACES or the cache of `batfill workload fetch`.

The watts are a model. An idle processor draws 100 W, and a job raises each of its processors by 25 to 100 W. Each seed
draws this once for each job, uniformly, and moves each submission by up to a minute.

A cap is a share of what the machine draws if all processors are busy, at the same hours of each day of the log's clock.
An energy budget is for 30 days, a share of what the jobs draw above the idle machine in these days without one; the
constant cap beside it has the same energy. Budgets begin every 60 days, each in a replay of its own that begins 30 days
before it on an empty machine. Figures are of the jobs submitted in the 60 days.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import NamedTuple

import numpy as np

from batfill.learn.habits import NO_CLOCK
from batfill.model.jobs import DAY_S, HOUR_S, WEEK_S
from batfill.model.limits.calendar import ANNOUNCED, Calendar, Window
from batfill.model.options import Options, of_arguments
from batfill.replays.replay import simulate
from batfill_pages.stats import holm, paired
from studies.papers.page import markdown
from studies.tables.common import LOGS, by_name, made_by, parser_of, ratio, replay_all, summed, write_replays
from studies.tables.first_tries import logs_at_hand, spread_cell
from studies.tables.variants import Variant

IDLE_W, MOST_W, LEAST_W = 100, 100, 25  # of an idle processor, and what a job adds to it at most and at least
FCFS, BY_DAY = "fcfs", "8 to 20 h"
SCHEDULERS = {
    FCFS: {},
    "saf, threshold 200000": {"policy": "saf", "threshold_s": 200_000},
    "saf": {"policy": "saf"},
}
HOURS = {"17 to 21 h": (17, 21), BY_DAY: (8, 20)}
CAPS, BUDGETS = (0.9, 0.8, 0.7, 0.6), (0.9, 0.8, 0.7)
NONE, KNOWN, UNKNOWN, ROUGH, WORST = "none", "announced", "not announced", "within 20 %", "busy watts"
CAP, BUDGET, HOLDS = "constant cap", "budget", "head-holds"
TAKES = {KNOWN: "watts", UNKNOWN: "watts", ROUGH: "estimate", WORST: f"{MOST_W}W"}  # of the pool
# The shares, the rules, which of them are compared, and of which is told what was drawn
BESIDE_KNOWN = ((KNOWN, NONE), (UNKNOWN, KNOWN), (ROUGH, KNOWN), (WORST, KNOWN))
CAPPED = CAPS, (NONE, *TAKES), BESIDE_KNOWN, (NONE, UNKNOWN, ROUGH)
BUDGETED = BUDGETS, (NONE, CAP, BUDGET, HOLDS), ((CAP, BUDGET), (HOLDS, BUDGET), (BUDGET, NONE)), (CAP, BUDGET, HOLDS)
MONTH_S, EVERY_S = 30 * DAY_S, 60 * DAY_S
SHOWN = ("KTH-SP2", "SDSC-SP2", "CTC-SP2", "HPC2N")


class Told(NamedTuple):
    """What is told of one replay, or of those of all months."""

    jobs: int
    left_out: tuple[int, float]  # jobs that fit no gap, and their share of the work
    waits_s: np.ndarray  # sums by week of submission, or by month
    longest_s: float
    drawn_j: float  # by jobs above the idle machine, in the capped time
    share: float  # of the capped time in which more than the cap was drawn, or of a budget that was drawn
    excess: float  # what was drawn more than the cap while it was more, over the cap


class Task(NamedTuple):
    """One replica of a log under the caps of some hours, or under budgets."""

    variant: Variant
    seed: int
    hours: str = ""

    @property
    def name(self):
        """The log, what is tried, and the seed."""
        return f"{self.variant.log}, {self.hours or 'budgets'}, seed {self.seed}"


def replayed(task):
    """What is told of each replay, by scheduler, share and rule."""
    workload = with_watts(task.variant.replica(task.seed), task.seed)
    return dict(capped(workload, task.hours) if task.hours else months(workload))


def with_watts(workload, seed):
    """The workload with what each job draws above idle, and an estimate of it, at most that of busy processors."""
    jobs, rng = workload.jobs, np.random.default_rng(seed)
    amounts = np.zeros(len(jobs), [("watts", "f8"), ("estimate", "f8")])
    amounts["watts"] = jobs.procs * rng.integers(LEAST_W, MOST_W + 1, len(jobs))
    amounts["estimate"] = np.minimum(amounts["watts"] * rng.uniform(0.8, 1.2, len(jobs)), jobs.procs * MOST_W)
    return replace(jobs, amounts=amounts)


def capped(workload, hours):
    """Each scheduler and cap, whole, without the jobs that fit no gap if they draw the most; by day FCFS alone."""
    jobs, (first, last) = workload.jobs, HOURS[hours]
    gap_s, work, full_w = (24 - last + first) * HOUR_S, jobs.procs * jobs.runtime_s, workload.size * MOST_W
    periods = daily(workload, first, last)
    measured = [(begin, end) for begin, end in periods if end <= jobs.submit_s[-1]]
    for share in CAPS:
        limit_w = int(share * workload.size * (IDLE_W + MOST_W)) - workload.size * IDLE_W
        fits = (jobs.walltime_s <= gap_s) | (jobs.procs * MOST_W <= limit_w)
        left_out = int((~fits).sum()), float(work[~fits].sum() / work.sum())
        fitting, rules = jobs.select(fits), {NONE: {}}
        for rule, takes in TAKES.items():
            calendar = windows(periods, full_w - limit_w, announced=rule != UNKNOWN)
            rules[rule] = {"pool": f"power={full_w}W@{takes}", "calendar": calendar}
        for name in SCHEDULERS if hours != BY_DAY else [FCFS]:
            for rule, more in rules.items():
                yield (name, share, rule), told(fitting, SCHEDULERS[name] | more, measured, limit_w, left_out)


def daily(workload, first, last):
    """The begin and the end of these hours of each day until two months after the log, in its seconds."""
    clock = workload.clock or NO_CLOCK
    days, began = int(workload.jobs.submit_s[-1] // DAY_S) + 60, clock.date(0.0).date()
    dates = [began + timedelta(day) for day in range(days)]
    found = [[clock.second(datetime.combine(date, time(hour), clock.zone)) for hour in (first, last)] for date in dates]
    return [(begin, end) for begin, end in found if begin >= 0]


def windows(periods, watts, *, announced=True):
    """The calendar of these periods, in which there are so many watts less."""
    known = ((begin, end, watts, None if announced else begin) for begin, end in periods)
    return Calendar(tuple(Window(ANNOUNCED, *one, pool="power", base="W") for one in known))


def months(workload):
    """Each scheduler and budget, the months together."""
    submit_s, full_w, found = workload.jobs.submit_s, workload.size * MOST_W, {}
    for begin in range(MONTH_S, int(submit_s[-1]) - EVERY_S, EVERY_S):
        near, end = (submit_s >= begin - MONTH_S) & (submit_s < begin + EVERY_S), begin + MONTH_S
        part, period = workload.select(near), [(begin, end)]
        for name, options in SCHEDULERS.items():
            free = told(part, options, period, full_w, from_s=begin)
            for share in BUDGETS:
                joules = max(int(share * free.drawn_j / MONTH_S), 1) * MONTH_S
                text, fall_w = f"{joules}J@{begin}..{end},watts=watts", full_w - joules // MONTH_S
                rules = {
                    CAP: {"pool": f"power={full_w}W@watts", "calendar": windows(period, fall_w)},
                    BUDGET: {"energy_budget": text},
                    HOLDS: {"energy_budget": f"{text},head-holds"},
                }
                each = {rule: told(part, options | more, period, full_w, from_s=begin) for rule, more in rules.items()}
                for rule, one in {NONE: free, **each}.items():
                    found.setdefault((name, share, rule), []).append(one._replace(share=one.drawn_j / joules))
    for key, each in found.items():
        jobs, _, waits_s, longest_s, drawn_j, shares, _ = zip(*each, strict=True)
        sums_s = np.concatenate(waits_s)
        yield key, Told(sum(jobs), (0, 0.0), sums_s, max(longest_s), sum(drawn_j), float(np.mean(shares)), 0.0)


def told(workload, options, periods, limit_w, left_out=(0, 0.0), from_s=None):
    """What is told of one replay; of jobs submitted from `from_s` on as one sum."""
    schedule, _ = simulate(workload.jobs, workload, Options.of(of_arguments(options)))
    counted = ~schedule.rejected & (workload.jobs.submit_s >= (from_s or 0))
    waits_s, weeks = schedule.start_s - workload.jobs.submit_s, workload.jobs.submit_s // WEEK_S
    sums = np.bincount(weeks[counted].astype(np.int64) * (from_s is None), waits_s[counted])
    dates, used_w, _ = schedule.over_time("power", workload.jobs.amounts["watts"].astype(np.int64))
    above_s, over_j = (within(dates, one, periods) for one in (used_w > limit_w, np.maximum(used_w - limit_w, 0)))
    share = above_s / sum(end - begin for begin, end in periods)
    excess = over_j / max(above_s, 1) / (limit_w + workload.size * IDLE_W)
    longest_s, drawn_j = float(waits_s[counted].max()), within(dates, used_w, periods)
    return Told(int(counted.sum()), left_out, sums, longest_s, drawn_j, share, excess)


def within(dates, values, periods):
    """The integral over these periods of a step function."""
    until = np.concatenate([[0.0], np.cumsum(np.diff(dates) * values[:-1])])
    begins, ends = np.transpose(periods)
    return float((np.interp(ends, dates, until) - np.interp(begins, dates, until)).sum())


def tables(found, name, shares, rules, pairs, drawing):
    """Of one scheduler, by log and share: waits, what is drawn, and ratios of mean waits."""
    keys = [((name, share, mine), (name, share, base)) for share in shares for mine, base in pairs]
    waits, drawn, ratios = [], [], []
    for log, replicas in found.items():
        for share in shares:
            each = {rule: [one[name, share, rule] for one in replicas] for rule in rules}
            left_out = "{:,}, {:.1%} of the work".format(*each[NONE][0].left_out)
            waits.append((log, f"{share:.0%}", *map(waits_cell, each.values())))
            drawn.append((log, f"{share:.0%}", left_out, *(drawn_cell(each[rule]) for rule in drawing)))
    for log, of_logs in [*((log, [each]) for log, each in found.items()), ("all", list(found.values()))]:
        cells = iter(map(ratio, compared(of_logs, keys)))
        ratios += [(log, f"{share:.0%}", *(next(cells) for _ in pairs)) for share in shares]
    heads = (rules, waits), (("left out", *drawing), drawn), (map(" over ".join, pairs), ratios)
    return "\n\n".join(markdown(("log", "share", *head), rows) for head, rows in heads)


def compared(of_logs, keys):
    """The waits with a key over those with another, for each pair and corrected for all; each log weighs the same."""
    found = []
    for mine, base in keys:
        sums = [[summed([each[key].waits_s for each in one]) for key in (mine, base)] for one in of_logs]
        costs, bases = (np.concatenate([one[k] / one[1].sum() for one in sums]) for k in (0, 1))
        found += paired(costs[None], bases, seed=0)
    return [replace(one, corrected_p=p) for one, p in zip(found, holm([one.p for one in found]), strict=True)]


def waits_cell(replicas):
    """The mean wait with the least and the most of the replicas, and the longest, in hours."""
    means_h = np.array([one.waits_s.sum() / one.jobs for one in replicas]) / HOUR_S
    return f"{spread_cell(means_h)}, {max(one.longest_s for one in replicas) / HOUR_S:,.0f}"


def drawn_cell(replicas):
    """The share of the time in which more than the cap was drawn and how much more, or of the budget."""
    share, excess = np.mean([(one.share, one.excess) for one in replicas], axis=0)
    return f"{share:.1%}" + f" by {excess:.1%}" * bool(excess)


def csv_rows(tasks, done):
    """A row for each replay, or for the months together."""
    yield "log", "hours", "seed", "scheduler", "share", "rule", *Told._fields
    for task, found in zip(tasks, done, strict=True):
        for key, one in found.items():
            one = one._replace(left_out=one.left_out[0], waits_s=float(one.waits_s.sum()))
            yield task.variant.log, task.hours or "budgets", task.seed, *key, *one


def main(words):
    """Print the tables."""
    given = parser_of(__doc__, logs="four logs", of="log", seeds=3).parse_args(words)
    logs = by_name(given.logs or [path for path in logs_at_hand() if LOGS[path.name] in SHOWN])
    variants, tried = [Variant(log, path) for log, path in logs.items()], (*HOURS, "")
    tasks = [Task(one, seed, hours) for hours in tried for one in variants for seed in range(given.seeds)]
    done = replay_all(replayed, tasks, given.jobs)
    print("<!--", *(about := made_by("power", words, logs, f"seeds 0 to {given.seeds - 1}")), "-->", sep="\n")
    for hours in tried:
        ours = [(task.variant.log, one) for task, one in zip(tasks, done, strict=True) if task.hours == hours]
        found = {log: [one for other, one in ours if other == log] for log in logs}
        for name in SCHEDULERS if hours != BY_DAY else [FCFS]:
            print(f"\n{name}, {hours or 'budgets'}:\n\n{tables(found, name, *(CAPPED if hours else BUDGETED))}")
    write_replays(given.csv, about, csv_rows(tasks, done))


if __name__ == "__main__":
    main(sys.argv[1:])
