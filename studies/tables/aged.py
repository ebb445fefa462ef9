"""Aged orders and first tries against SAF with a threshold on later weeks: docs/results/first-tries.md and tuning.md.

`python -m studies.tables.aged LOG... > tables.md`;
each log is replayed whole, from an empty machine. On its first half of weeks `batfill tune --family aged` chooses an
order by the longest wait that SAF with a threshold has there, and all are compared on the second half: the order
chosen, one chosen again each week, one that is not tuned, and the preset first tries.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import batfill as bf
from batfill.base.stats import BETTER, WORSE, holm, paired
from batfill.base.version import __version__
from batfill.model.jobs import HOUR_S
from batfill.model.metrics import long_waits
from batfill.search.periods import Conditions
from batfill_lab.learning.aged import FORWARD, TRAINED, UNTUNED, Weeks
from studies.papers.page import markdown
from studies.tables.common import MARKS, by_name, longest, progress

TAU_S, SEED = 60, 0
THRESHOLDS_S = (72_000, 200_000)  # of SAF, the baseline
TRIES = "first tries"
ALL = "all logs"


class Log(NamedTuple):
    """One log's choices against one baseline."""

    lines: dict[str, tuple]  # of each choice: the sums of bounded slowdowns by testing week, long waits, what it is
    base: np.ndarray  # the baseline's sums
    waits: dict[str, float]  # and its long waits
    with_jobs: np.ndarray  # the weeks that have any
    orders: list[dict]  # all that were searched, each throughout the log
    throughout: dict[str, float]  # the baseline, throughout the log


def short(policy, threshold_s):
    """A choice's name in the tables."""
    name = policy.replace(UNTUNED.name, "aged:50000,1/3,0")
    return name + ("" if threshold_s is None else f", threshold {threshold_s:g}")


def with_tries(workload):
    """The starts of all jobs that fit the machine, under first tries."""
    schedule = bf.replay(workload, preset="first-tries").schedule
    return schedule.start_s[~schedule.rejected]


def lines_of(workload, threshold_s, tried_s, days):
    """Every choice against SAF with this threshold on one log."""
    found = bf.tune_aged(workload, threshold_s=threshold_s, tau_s=TAU_S, days=days, seed=SEED)
    ran = workload.jobs.procs <= workload.procs
    weeks = Weeks.of(workload.jobs.select(ran), workload.procs, days, None, Conditions.of("same", threshold_s, TAU_S))
    base_name, names = found["baseline"], {TRAINED: TRAINED, FORWARD: FORWARD, UNTUNED.name: "untuned"}
    costs = {name: np.array([week["sum_bsld"][name] for week in found["by_period"]]) for name in (base_name, *names)}
    waits = {row["policy"]: row for row in found["sums"]}
    order = found["trained"]
    what = {TRAINED: "saf" if order["stays"] else short(order["policy"], order["threshold"])}
    used = len({week["order"] for week in found["by_period"]})
    what[FORWARD] = f"{used} order{'s' * (used > 1)}"
    new = weeks.jobs.submit_s >= weeks.starts_s[0]
    lines = {label: (costs[name], waits[name], what.get(name, "")) for name, label in names.items()}
    lines[TRIES] = weeks.by_period(tried_s), long_waits((tried_s - weeks.jobs.submit_s)[new]), ""
    return Log(
        lines, costs[base_name], waits[base_name], weeks.tested > 0, found["orders"], found["baseline_throughout"]
    )


def figures_of(path, days):
    """By threshold: the lines of one log."""
    workload, began = bf.read(path), time.perf_counter()
    tried_s = with_tries(workload)
    found = {threshold_s: lines_of(workload, threshold_s, tried_s, days) for threshold_s in THRESHOLDS_S}
    progress(f"{path.name}: {time.perf_counter() - began:.0f} s")
    return found


def front_of(orders, most):
    """At most `most` points of the front by longest wait, evenly along it."""
    kept = []
    for order in sorted(orders, key=lambda order: (order["max_wait_s"], order["mean_bsld"])):
        if not kept or order["mean_bsld"] < kept[-1]["mean_bsld"]:
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
        base, *front = (f"{point['mean_bsld']:.1f}, {point['max_wait_s'] / HOUR_S:.0f}" for point in points)
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
