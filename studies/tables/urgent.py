"""What it costs that urgent jobs start at once: the tables of docs/results/urgent.md.

`python -m studies.tables.urgent [LOG...] [--seeds 3] [--jobs 2] [--csv replays.csv] > urgent.md`; without a LOG, the
six logs of `studies.tables.common` in $BATFILL_TRACES or the cache of `batfill workload fetch`.

Each log is replayed whole under FCFS (of CEA-Curie the first 60,000 jobs). Each seed moves each submission by up to a
minute and draws which jobs are urgent. Where processors are kept idle, other jobs hold at most the rest of them, and a
job wider than that runs alone. A ratio is that of the other jobs' mean wait to the one with priority only, over the
seeds; its interval is that of `paired` over weeks, corrected for what is compared on one log and share.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from batfill.model.jobs import HOUR_S, WEEK_S
from batfill.model.options import Options, of_arguments
from batfill.replays.replay import simulate
from batfill_pages.stats import paired
from studies.papers.page import markdown
from studies.tables.common import by_name, made_by, parser_of, ratio, replay_all, summed, write_replays
from studies.tables.first_tries import logs_at_hand
from studies.tables.variants import Variant

SHARES = (0.01, 0.05, 0.10)
PRIORITY, KEPT, LEAST = "priority only", "{:.0%} kept idle", {"preempt": "least-lost"}
IDLE = (0.05, 0.20)
WAYS = {
    PRIORITY: {},
    **{KEPT.format(idle): {"idle": idle} for idle in IDLE},
    "youngest": {"preempt": "youngest"},
    "least lost": LEAST,
    "after 10 min": {**LEAST, "preempt_exempt_s": 600},
    "checkpoint each hour": {**LEAST, "checkpoint": "1h"},
}


class Told(NamedTuple):
    """What is told of one replay: the fields of its `Rushed`, and the others' waits by week of submission."""

    rushed: object
    stopped: float  # the share of the other jobs
    weeks_s: np.ndarray


class Task(NamedTuple):
    """One replica of a log."""

    variant: Variant
    seed: int

    @property
    def name(self):
        """The log and the seed."""
        return f"{self.variant.log}, seed {self.seed}"


def replayed(task):
    """What is told of each replay, by share and way."""
    workload = task.variant.replica(task.seed)
    return {(share, way): told(workload, share, task.seed, **WAYS[way]) for share in SHARES for way in WAYS}


def told(workload, share, seed, idle=0.0, **options):
    """What is told of one replay in which so many processors are kept idle."""
    chosen, jobs = Options.of(of_arguments({"urgent": f"share:{share},seed={seed}", **options})), workload
    if idle:
        others = int((1 - idle) * workload.size)
        takes = np.where(chosen.urgent.rows(jobs, workload.name), 0, np.minimum(jobs.procs, others))
        jobs = replace(jobs, amounts=np.array(takes, [("others", "f8")]))
        chosen = replace(chosen, pool=Options.of(of_arguments({"pool": f"others={others}"})).pool)
    schedule, _ = simulate(jobs, jobs, chosen)
    rushed, other = schedule.rushed(), ~schedule.rejected & ~schedule.jobs.urgent
    weeks_s = np.bincount((jobs.submit_s[other] // WEEK_S).astype(np.int64), schedule.wait_s[other])
    return Told(rushed, rushed.stopped / other.sum(), weeks_s)


def table(found, share):
    """Each log and way at one share."""
    rows, over = [], [way for way in WAYS if way != PRIORITY]
    for log, replicas in found.items():
        sums = {way: summed([one[share, way].weeks_s for one in replicas]) for way in WAYS}
        ratios = paired(np.array([sums[way] for way in over]), sums[PRIORITY], seed=0, together=True)
        for way, cell in zip(WAYS, ["", *map(ratio, ratios)], strict=True):
            each = [one[share, way] for one in replicas]
            rows.append((log, way, *cells(each), cell))
    head = ("mean wait", "99 %", "in a minute", "others' mean wait", "longest", "stopped", "work lost", "over priority")
    return markdown(("log", "urgent jobs", *head), rows)


def cells(each):
    """What is shown of a way: means over the seeds, and the longest wait of all."""
    mean = {name: np.mean([getattr(one.rushed, name) for one in each]) for name in each[0].rushed.as_dict()}
    return (
        f"{mean['mean_wait_s']:,.0f} s",
        f"{mean['p99_wait_s']:,.0f} s",
        f"{mean['within_minute']:.1%}",
        f"{mean['others_mean_wait_s'] / HOUR_S:.2f} h",
        f"{max(one.rushed.others_max_wait_s for one in each) / HOUR_S:,.0f} h",
        f"{np.mean([one.stopped for one in each]):.1%}",
        f"{mean['lost']:.2%}",
    )


def csv_rows(tasks, done):
    """A row for each replay."""
    first = next(iter(done[0].values()))
    yield "log", "seed", "share", "way", "others stopped", *first.rushed.as_dict()
    for task, found in zip(tasks, done, strict=True):
        for key, one in found.items():
            yield task.variant.log, task.seed, *key, one.stopped, *one.rushed.as_dict().values()


def main(words):
    """Print the tables."""
    given = parser_of(__doc__, logs="the six logs", of="log", seeds=3).parse_args(words)
    logs = by_name(given.logs or logs_at_hand())
    tasks = [Task(Variant(log, path), seed) for log, path in logs.items() for seed in range(given.seeds)]
    done = replay_all(replayed, tasks, given.jobs)
    found = {log: [one for task, one in zip(tasks, done, strict=True) if task.variant.log == log] for log in logs}
    print("<!--", *(about := made_by("urgent", words, logs, f"seeds 0 to {given.seeds - 1}")), "-->", sep="\n")
    for share in SHARES:
        print(f"\n{share:.0%} urgent:\n\n{table(found, share)}")
    write_replays(given.csv, about, csv_rows(tasks, done))


if __name__ == "__main__":
    main(sys.argv[1:])
