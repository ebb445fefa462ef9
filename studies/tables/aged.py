"""Aged orders and first tries against SAF with a threshold on later weeks: docs/results/first-tries.md and tuning.md.

`python -m studies.tables.aged LOG... > tables.md`;
each log is replayed whole, from an empty machine: long waits last longer than a week, so it is not cut. Its first half
of weeks chooses the aged order with the lowest mean bounded slowdown whose longest wait is no longer than that of SAF
with a threshold, and all are compared on the second half: the order chosen, one chosen again each week, one that is not
tuned, and the preset first tries. What the choices would have done is one replay each, under SAF until the first half
is over, and from then on under what was chosen.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import batfill as bf
from batfill.base.version import __version__
from batfill.model.jobs import DAY_S, HOUR_S
from batfill.model.metrics import bounded_slowdown, long_waits
from batfill.model.policy import POLICIES, Policy, aged
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from batfill.replays.many import in_threads
from batfill_lab.search.periods import training_of
from batfill_pages.stats import BETTER, WORSE, holm, paired
from studies.papers.page import markdown
from studies.tables.common import MARKS, by_name, longest, progress

TAU_S, SEED = 60, 0
THRESHOLDS_S = (72_000, 200_000)  # of SAF, the baseline
POINTS = 64  # orders searched beside UNTUNED
C_S = (3_600.0, 1_000_000.0)  # the range of c, evenly on a log scale
MARGIN = 0.125  # exponents are drawn from this far beyond [0, 1] and cut, so that a tenth each is 0 and 1
UNTUNED = aged(50_000, 1 / 3, 0)  # what to use without a search: SPF, softened by the cube root and by age
TRIES = "first tries"
ALL = "all logs"


class Order(NamedTuple):
    """A queue's order and its threshold."""

    policy: Policy
    threshold_s: float = math.inf

    @property
    def rules(self):
        """The queue's rules under it."""
        return Rules(self.policy, threshold_s=self.threshold_s)

    @property
    def name(self):
        """For the tables."""
        name = self.policy.name.replace(UNTUNED.name, "aged:50000,1/3,0")
        return name + ("" if math.isinf(self.threshold_s) else f", threshold {self.threshold_s:g}")


class Figures(NamedTuple):
    """A schedule's figures as known at some instant."""

    mean_bsld: float
    max_wait_s: float


class Log(NamedTuple):
    """One log's choices against one baseline."""

    lines: dict[str, tuple]  # of each choice: the sums of bounded slowdowns by testing week, long waits, what it is
    base: np.ndarray  # the baseline's sums
    waits: dict[str, float]  # and its long waits
    with_jobs: np.ndarray  # the weeks that have any
    orders: list[Figures]  # all that were searched, each throughout the log
    throughout: Figures  # the baseline, throughout the log


class Weeks:
    """The jobs of a log that fit its machine, and the weeks, or other periods, in which they are submitted."""

    def __init__(self, workload, days):
        """Cut the time from the first submission into periods; the later half of them, `starts_s`, is for testing."""
        self.size = workload.size
        self.jobs = workload.select(workload.jobs.procs <= self.size)
        self.period = np.asarray(self.jobs.submit_s // (days * DAY_S), np.int64)
        n = int(self.period[-1]) + 1
        self.n_training = training_of(n, None)
        self.starts_s = [i * days * DAY_S for i in range(self.n_training, n)]
        self.tested = np.bincount(self.period)[self.n_training :]  # jobs

    def course(self, order):
        """What is known of an order, used throughout, at the beginning of each testing week, and at last in the end."""
        start_s = replay_jobs(self.jobs, self.size, order.rules).start_s
        return [figures_until(self.jobs, start_s, until_s) for until_s in (*self.starts_s, math.inf)]

    def starts_ahead(self, run, ahead):
        """All jobs' starts, if the replay goes on under `ahead`, an order for each testing week."""
        run, last = run.fork(), None
        for order, end_s in zip(ahead, [*self.starts_s[1:], math.inf], strict=True):
            if order != last:
                run.queue.change_rules(order.rules)
                last = order
            run.advance(before(end_s))
        return run.schedule().start_s

    def tested_on(self, start_s):
        """The sum of the bounded slowdowns in each testing week, and the long waits of all jobs submitted in them."""
        wait_s = start_s - self.jobs.submit_s
        runtime_s = np.minimum(self.jobs.runtime_s, self.jobs.walltime_s)
        costs = np.bincount(self.period, bounded_slowdown(wait_s, runtime_s, TAU_S))[self.n_training :]
        return costs, long_waits(wait_s[self.jobs.submit_s >= self.starts_s[0]])


def before(instant_s):
    """The last instant before this one, whose own jobs then meet the new rules; inf stays."""
    return instant_s if math.isinf(instant_s) else math.nextafter(instant_s, -math.inf)


def orders_searched(threshold_s):
    """UNTUNED and POINTS aged orders that cover the family evenly, each without the threshold and with it.

    An additive recurrence with the powers of the generalised golden ratio, from a random start: any first points of it
    are spread evenly. Source: Roberts, "The Unreasonable Effectiveness of Quasirandom Sequences", 2018 (R_3).
    """
    golden = 1.2207440846057596  # the root of x^4 = x + 1
    start = np.random.default_rng(SEED).random(3)
    share = (start + np.arange(POINTS)[:, None] * golden ** -np.arange(1.0, 4.0)) % 1
    low, high = np.log(C_S)
    c_s = np.exp(low + share[:, 0] * (high - low)).round()
    exponents = np.clip(share[:, 1:] * (1 + 2 * MARGIN) - MARGIN, 0, 1).round(3)
    policies = [UNTUNED, *(aged(*point) for point in np.column_stack([c_s, exponents]).tolist())]
    return [Order(policy, seconds) for policy in policies for seconds in (math.inf, threshold_s)]


def figures_until(jobs, start_s, until_s):
    """The figures of the jobs submitted before `until_s`, at least one; one that has not started has waited until then.

    The run time of a job that has not ended is taken from the log, the one thing not known at that instant.
    """
    known = slice(0, int(np.searchsorted(jobs.submit_s, until_s)))
    wait_s = np.minimum(start_s[known], until_s) - jobs.submit_s[known]
    runtime_s = np.minimum(jobs.runtime_s, jobs.walltime_s)[known]
    return Figures(float(bounded_slowdown(wait_s, runtime_s, TAU_S).mean()), float(wait_s.max()))


def chosen(figures, base):
    """The index of the lowest mean of those below the baseline's whose longest wait is no longer; None if none is."""
    able = [i for i, one in enumerate(figures) if one.max_wait_s <= base.max_wait_s and one.mean_bsld < base.mean_bsld]
    return min(able, key=lambda i: figures[i].mean_bsld, default=None)


def with_tries(workload):
    """The starts of all jobs that fit the machine, under first tries."""
    schedule = bf.replay(workload, preset="first-tries").schedule
    return schedule.start_s[~schedule.rejected]


def lines_of(weeks, threshold_s, tried_s):
    """Every choice against SAF with this threshold on one log."""
    saf, orders = Order(POLICIES["saf"], threshold_s), orders_searched(threshold_s)
    base, *known = in_threads(weeks.course, [saf, *orders])
    places = [chosen(figures, at_base) for *figures, at_base in zip(*known, base, strict=True)]
    *ahead, _ = [saf if place is None else orders[place] for place in places]  # the last one knows the whole log
    used, n = len(set(ahead)), len(ahead)
    choices = {
        "trained": ([ahead[0]] * n, "saf" if places[0] is None else ahead[0].name),
        "walk forward": (ahead, f"{used} order{'s' * (used > 1)}"),
        "untuned": ([Order(UNTUNED)] * n, ""),
    }
    run = EngineReplay(weeks.jobs, weeks.size, saf.rules)
    run.advance(before(weeks.starts_s[0]))
    lines = {name: (*weeks.tested_on(weeks.starts_ahead(run, line)), what) for name, (line, what) in choices.items()}
    lines[TRIES] = *weeks.tested_on(tried_s), ""
    costs, waits = weeks.tested_on(weeks.starts_ahead(run, [saf] * n))
    waits["mean_bsld"] = costs.sum() / weeks.tested.sum()
    return Log(lines, costs, waits, weeks.tested > 0, [course[-1] for course in known], base[-1])


def figures_of(path, days):
    """By threshold: the lines of one log."""
    workload, began = bf.read(path), time.perf_counter()
    weeks, tried_s = Weeks(workload, days), with_tries(workload)
    found = {threshold_s: lines_of(weeks, threshold_s, tried_s) for threshold_s in THRESHOLDS_S}
    progress(f"{path.name}: {time.perf_counter() - began:.0f} s")
    return found


def front_of(orders, most):
    """At most `most` points of the front by longest wait, evenly along it."""
    kept = []
    for order in sorted(orders, key=lambda order: (order.max_wait_s, order.mean_bsld)):
        if not kept or order.mean_bsld < kept[-1].mean_bsld:
            kept.append(order)
    places = np.unique(np.linspace(0, len(kept) - 1, most).round().astype(int))
    return [kept[place] for place in places]


def comparisons(found):
    """Every comparison by threshold, log and choice, and its p-value corrected for all of them.

    Over all logs a choice's ratio is the mean of its ratios: each log's sums are divided by its baseline's total.
    """
    pairs = {}
    for threshold_s in THRESHOLDS_S:
        logs = {log: by_threshold[threshold_s] for log, by_threshold in found.items()}
        names = list(next(iter(logs.values())).lines)
        sums = {
            log: (np.array([one.lines[name][0][one.with_jobs] for name in names]), one.base[one.with_jobs])
            for log, one in logs.items()
        }
        shares = [(costs / base.sum(), base / base.sum()) for costs, base in sums.values()]
        sums[ALL] = np.hstack([costs for costs, _ in shares]), np.hstack([base for _, base in shares])
        for log, (costs, base) in sums.items():
            for name, one in zip(names, paired(costs, base, seed=SEED), strict=True):
                pairs[threshold_s, log, name] = one
    return dict(zip(pairs, zip(pairs.values(), holm([one.p for one in pairs.values()]), strict=True), strict=True))


def print_tables(paths, days):
    """Print the tables."""
    found = {log: figures_of(path, days) for log, path in by_name(paths).items()}
    pairs, columns = comparisons(found), [*found, ALL]
    print(
        f"<!-- studies.tables.aged, batfill {__version__}, seed {SEED}, tau {TAU_S} s; {len(pairs)} comparisons -->\n"
    )
    for threshold_s in THRESHOLDS_S:
        logs = {log: by_threshold[threshold_s] for log, by_threshold in found.items()}
        its = [f"{one.waits['mean_bsld']:.1f}; {longest(one.waits)}" for one in logs.values()]
        rows = [("its slowdown and waits", *its, "")]
        for name in next(iter(logs.values())).lines:
            cells = []
            for log in columns:
                one, p = pairs[threshold_s, log, name]
                verdict = (BETTER if one.value < 1 else WORSE) if p <= 1 - one.level else None
                cell = f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f}){MARKS.get(verdict, '')}"
                if log != ALL:
                    _, waits, what = logs[log].lines[name]
                    cell += f"; {longest(waits)}" + (f"; {what}" if what else "")
                cells.append(cell)
            rows.append((name, *cells))
        print(markdown((f"against saf, threshold {threshold_s}", *columns), rows), end="\n\n")
    rows = []
    for log, by_threshold in found.items():
        one = by_threshold[THRESHOLDS_S[-1]]
        points = [one.throughout, *front_of(one.orders, 6)]
        base, *front = (f"{point.mean_bsld:.1f}, {point.max_wait_s / HOUR_S:.0f}" for point in points)
        rows.append((log, base, "; ".join(front)))
    print(markdown(("log", f"saf, threshold {THRESHOLDS_S[-1]}", "the front in hindsight"), rows))


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logs", type=Path, nargs="+", help="logs in any format that batfill reads")
    parser.add_argument("--days", type=float, default=7, help="length of a period (default 7)")
    given = parser.parse_args()
    print_tables(given.logs, given.days)


if __name__ == "__main__":
    main()
