"""What more than one reservation buys: the tables of docs/results/depth.md.

`python -m studies.tables.depth [LOG...] [--seeds 5] [--jobs 2] [--csv replays.csv] [--figure depth.svg] > depth.md`;
without a LOG, the six logs of `studies.tables.common` in $BATFILL_TRACES or the cache of `batfill workload fetch`.

Each log is replayed whole (of CEA-Curie the first 60,000 jobs) under three schedulers at each depth, with several
seeds, which move each submission by up to a minute. A ratio is that of a figure to the same scheduler's with one
reservation on the same jobs, as the mean over the seeds, with the least and the most; an interval is that of
`paired` over weeks, whose costs are summed over the seeds, corrected for the six depths. The last table bounds the
number of jobs that are tested.
"""

from __future__ import annotations

import sys
import time
from typing import NamedTuple

import numpy as np

from batfill.model.jobs import HOUR_S, WEEK_S
from batfill.model.options import Options, of_arguments
from batfill.replays.replay import simulate
from batfill_pages.palette import LIGHT, REST
from batfill_pages.stats import paired
from studies.papers.page import markdown
from studies.tables.common import (
    by_name,
    by_week,
    in_a_folder,
    made_by,
    parser_of,
    ratio,
    replay_all,
    summed,
    waits_of,
    write_replays,
)
from studies.tables.first_tries import Task, logs_at_hand, spread_cell
from studies.tables.first_tries_figures import DRAWN, save
from studies.tables.promise import TAU_S, figures_of
from studies.tables.variants import Variant

DEPTHS = (1, 0, 2, 4, 8, 16, "all")
SCHEDULERS = {
    "fcfs": {},
    "saf, threshold 200000": {"policy": "saf", "threshold_s": 200_000},
    "first tries": {"preset": "first-tries"},
}
TESTED = (32, 100, 500)
MARKS = ("o-", "s-", "D-", "^-", "v-", "P-")  # of the figure
WIDE = 1 / 4  # of the machine: wider jobs are wide
RATIOS = ("bsld", "mean wait", "99.9 %", "longest", "wide jobs'", "processor time")
WEEKLY = ("bsld", "mean wait")


class Replay(NamedTuple):
    """What is told of one replay."""

    jobs: int
    figures: tuple[float, ...]  # as RATIOS
    weekly: tuple[np.ndarray, ...]  # as WEEKLY: sums by week of submission
    mean_wait_s: float


def settings_of(depths, tested):
    """By scheduler, depth and number of tested jobs: arguments of a replay."""
    return {
        (name, depth, most): {**options, "depth": depth, "tested": most}
        for name, options in SCHEDULERS.items()
        for depth in depths
        for most in tested
        if most == "all" or name == "fcfs"
    }


def replayed(task):
    """What is told of the replica, by setting."""
    workload = task.variant.replica(task.seed)
    return {key: told(workload, Options.of(of_arguments(given))) for key, given in task.settings.items()}


def told(workload, options):
    """What is told of one replay."""
    began_s = time.process_time()
    schedule, _ = simulate(workload.jobs, workload, options)
    took_s = time.process_time() - began_s
    found = figures_of(schedule)
    ran = ~schedule.rejected
    wait_s, wide = waits_of(schedule), schedule.jobs.procs[ran] > WIDE * workload.size
    weeks = (schedule.jobs.submit_s[ran] // WEEK_S).astype(np.int64)
    wide_s = float(wait_s[wide].mean()) if wide.any() else 0.0
    figures = (found.bsld, found.wait, found.p999, found.longest, wide_s, took_s)
    return Replay(int(ran.sum()), figures, (by_week(schedule, TAU_S), np.bincount(weeks, wait_s)), found.wait)


def depth_table(found, name):
    """Each log at each depth under one scheduler."""
    rows = []
    for log, replicas in found.items():
        base = [each[name, 1, "all"] for each in replicas]
        over = [depth for depth in DEPTHS if depth != 1]
        intervals = [paired_over_weeks(replicas, name, over, place) for place in range(len(WEEKLY))]
        for k, depth in enumerate(over):
            mine = [each[name, depth, "all"] for each in replicas]
            columns = ratios_of(mine, base).T
            cells = [ratio(of_weeks[k]) for of_weeks in intervals]
            rows.append((log, str(depth), *cells, *(spread_cell(column) for column in columns[len(WEEKLY) :])))
    return markdown(("log", "depth", *RATIOS), rows)


def ratios_of(mine, base):
    """(n_seeds, n_figures): the figures over those of the base, which are 1 where both are 0."""
    over, under = (np.array([one.figures for one in each]) for each in (mine, base))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(over == under, 1.0, over / under)


def paired_over_weeks(replicas, name, depths, place):
    """Each depth against one reservation, over weeks."""

    def sums(depth):
        return summed([one[name, depth, "all"].weekly[place] for one in replicas])

    return paired(np.array([sums(depth) for depth in depths]), sums(1), seed=0)


def base_table(found):
    """What the ratios are over: each log and scheduler with one reservation."""
    rows = []
    for log, replicas in found.items():
        for name in SCHEDULERS:
            bsld, wait, p999, longest, wide, _ = np.mean([each[name, 1, "all"].figures for each in replicas], axis=0)
            hours = [f"{seconds / HOUR_S:.2f} h" for seconds in (wait, p999, longest, wide)]
            rows.append((log, f"{replicas[0][name, 1, 'all'].jobs:,}", name, f"{bsld:.1f}", *hours))
    return markdown(("log", "jobs", "scheduler", *RATIOS[:-1]), rows)


def tested_table(found):
    """The mean bounded slowdown where few jobs are tested, under FCFS."""
    rows = [
        (log, str(depth), *(f"{np.mean([each['fcfs', depth, most].figures[0] for each in replicas]):.1f}"
                       for most in (*TESTED, "all")))
        for log, replicas in found.items()
        for depth in (1, "all")
    ]  # fmt: skip
    return markdown(("log", "depth", *(f"{most} tested" for most in TESTED), "all"), rows)


def depth_figure(found):
    """Mean wait, longest wait and wide jobs' wait under FCFS over those with one reservation, by depth."""
    from matplotlib.figure import Figure

    figure, in_order = Figure(figsize=(7.4, 2.9), layout="constrained"), [1, *DEPTHS[2:]]
    titles = {"mean wait": "mean wait", "longest": "longest wait", "wide jobs'": "wide jobs' mean wait"}
    for axes, (column, title) in zip(figure.subplots(1, len(titles), sharey=True), titles.items(), strict=True):
        for k, (log, replicas) in enumerate(found.items()):
            base = [each["fcfs", 1, "all"] for each in replicas]
            over = [ratios_of([each["fcfs", depth, "all"] for each in replicas], base) for depth in in_order]
            line = [each[:, RATIOS.index(column)].mean() for each in over]
            axes.plot(range(len(line)), line, MARKS[k % len(MARKS)], color=LIGHT[k % len(LIGHT)], label=log, ms=4)
        axes.axhline(1, color=REST[0], linewidth=0.8, zorder=0)
        axes.set_xticks(range(len(in_order)), [str(depth) for depth in in_order])
        axes.set(xlabel="reservations", title=title)
    figure.axes[0].set_ylabel("over EASY's (one reservation)")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(found), fontsize=7)
    return figure


def csv_rows(tasks, done):
    """A row for each replay."""
    yield "log", "seed", "scheduler", "depth", "tested", "jobs", *RATIOS
    for task, found in zip(tasks, done, strict=True):
        for key, one in found.items():
            yield task.variant.log, task.seed, *key, one.jobs, *one.figures


def main(words):
    """Print the tables."""
    parser = parser_of(__doc__, logs="the six logs", of="log", seeds=5)
    parser.add_argument("--figure", type=in_a_folder, help="draw FCFS's ratios to this SVG file")
    given = parser.parse_args(words)
    if given.figure:
        import matplotlib as mpl
    logs = by_name(given.logs or logs_at_hand())
    settings = settings_of(DEPTHS, ("all",)) | settings_of((1, "all"), TESTED)
    tasks = [Task(Variant(log, path), seed, settings) for log, path in logs.items() for seed in range(given.seeds)]
    done = replay_all(replayed, tasks, given.jobs)
    found = {log: [one for task, one in zip(tasks, done, strict=True) if task.variant.log == log] for log in logs}
    setting = f"seeds 0 to {given.seeds - 1}, tau {TAU_S:g} s; wide: more than {WIDE:g} of the machine"
    about = made_by("depth", words, logs, setting)
    print("<!--", *about, "-->", sep="\n")
    print(f"\nWith one reservation:\n\n{base_table(found)}")
    for name in SCHEDULERS:
        print(f"\n{name}, over one reservation:\n\n{depth_table(found, name)}")
    print(f"\nFCFS's mean bounded slowdown by the number of jobs tested:\n\n{tested_table(found)}")
    if given.figure:
        with mpl.rc_context(DRAWN):
            save(depth_figure(found), given.figure)
    write_replays(given.csv, about, csv_rows(tasks, done))


if __name__ == "__main__":
    main(sys.argv[1:])
