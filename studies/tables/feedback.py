"""What remains of a policy's gain when users react: the tables of docs/results/feedback.md.

`python -m studies.tables.feedback [LOG...] [--seeds 9] [--jobs 2] [--csv replays.csv] > feedback.md`; without a LOG,
the five archive logs of `SHOWN` in $BATFILL_TRACES or the cache of `batfill workload fetch`.

Each log is replayed whole, with requests raised to the run times: open, and closed with the dependencies of the log's
own ends. Each seed moves every think time of a closed replay by up to a minute, but not below 0, equally for all
policies. A ratio is that of the mean bounded slowdown to that of FCFS under the same feedback and seed, as the mean
over the seeds, with the least and the most.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batfill.model.feedback import Follows, feedback_of
from batfill.model.jobs import DAY_S, HOUR_S
from batfill.model.metrics import TAU_S
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import follows_of, replay_jobs
from batfill.workloads import opened
from studies.papers.page import markdown
from studies.tables.common import LOGS, by_name, made_by, parser_of, replay_all, write_replays
from studies.tables.first_tries import logs_at_hand

FEEDBACKS = ("none", "after:20min", "after:1h", "after:8h", "sessions")
POLICIES = {
    "fcfs": ("fcfs", np.inf),
    "saf + 72,000": ("saf", 72_000),
    "spf + 72,000": ("spf", 72_000),
    "spf": ("spf", np.inf),
}
SHOWN = ("KTH-SP2", "CTC-SP2", "SDSC-SP2", "SDSC-BLUE", "HPC2N")
JITTER_S = 60
FIGURES = ("bsld", "wait", "longest", "last submission", "last end", "jobs a day")


class Task(NamedTuple):
    """One log under one feedback, with each seed."""

    log: str
    path: Path
    feedback: str
    seeds: int

    @property
    def name(self):
        """The log and the feedback."""
        return f"{self.log}, {self.feedback}"


def jittered(follows, seed):
    """The same with each think time moved by up to a minute."""
    by_s = np.random.default_rng(seed).integers(-JITTER_S, JITTER_S + 1, len(follows.think_s))
    return Follows(follows.preceding, np.where(follows.preceding >= 0, np.maximum(follows.think_s + by_s, 0), 0.0))


def replayed(task):
    """The share of jobs that follow others, and the figures by seed and policy, as FIGURES."""
    workload, size = opened(task.path)
    wanted = None if task.feedback == "none" else feedback_of("feedback", task.feedback)
    follows = follows_of(wanted, workload.jobs, size, task.log)
    share = 0.0 if follows is None else float((follows.preceding >= 0).mean())
    seeds = [None] if follows is None else [jittered(follows, seed) for seed in range(task.seeds)]
    return share, [
        {name: figures_of(workload.jobs, size, one, *how) for name, how in POLICIES.items()} for one in seeds
    ]


def figures_of(jobs, size, follows, policy, threshold_s):
    """The figures of one replay."""
    schedule = replay_jobs(jobs, size, Rules(policy_named(policy), threshold_s=threshold_s), follows=follows)
    found = schedule.summary(TAU_S)
    ends = float(schedule.submit_s.max()), float(np.nanmax(schedule.end_s))
    return (found.mean_bsld, found.mean_wait_s, found.max_wait_s, *ends, found.jobs / found.makespan_s * DAY_S)


def over_fcfs(seeds, name):
    """The ratio of the mean bounded slowdown to FCFS's: the mean over the seeds, and the least and the most."""
    each = [one[name][0] / one["fcfs"][0] for one in seeds]
    spread_of = f" ({min(each):.2f} to {max(each):.2f})" if len(each) > 1 else ""
    return f"{np.mean(each):.2f}{spread_of}"


def ratios(found, log):
    """A row per policy: its ratio under each feedback."""
    return [
        (log, name, *(over_fcfs(found[log, feedback][1], name) for feedback in FEEDBACKS))
        for name in list(POLICIES)[1:]
    ]


def absolute(found, log):
    """A row per feedback and policy: the figures, as means over the seeds."""
    rows = []
    for feedback in FEEDBACKS:
        share, seeds = found[log, feedback]
        for name in POLICIES:
            bsld, wait, longest, submit_s, end_s, a_day = np.mean([one[name] for one in seeds], axis=0)
            waits = f"{wait / HOUR_S:.2f}", f"{longest / HOUR_S:,.0f}"
            ends = f"{submit_s / HOUR_S:,.1f}", f"{end_s / HOUR_S:,.1f}", f"{a_day:.2f}"
            rows.append((log, feedback, f"{share:.0%}", name, f"{bsld:.1f}", *waits, *ends))
    return rows


def main(words):
    """Print the tables."""
    parser = parser_of(__doc__, logs="five archive logs", of="closed replay", seeds=9)
    given = parser.parse_args(words)
    logs = by_name(given.logs or [path for path in logs_at_hand() if LOGS.get(path.name) in SHOWN])
    tasks = [Task(log, path, feedback, given.seeds) for log, path in logs.items() for feedback in FEEDBACKS]
    done = replay_all(replayed, tasks, given.jobs)
    found = {(task.log, task.feedback): one for task, one in zip(tasks, done, strict=True)}
    setting = f"seeds 0 to {given.seeds - 1}, think times moved by up to {JITTER_S} s, tau {TAU_S:g} s"
    about = made_by("feedback", words, logs, setting)
    print("<!--", *about, "-->", sep="\n")
    table = markdown(("log", "policy", *FEEDBACKS), [row for log in logs for row in ratios(found, log)])
    print(f"\nMean bounded slowdown over that of FCFS under the same feedback:\n\n{table}")
    columns = ("log", "feedback", "jobs that follow", "policy", "bsld", "mean wait (h)", "longest (h)")
    columns += ("last submission (h)", "last end (h)", "jobs a day")
    table = markdown(columns, [row for log in logs for row in absolute(found, log)])
    print(f"\nThe figures behind, as means over the seeds:\n\n{table}")
    rows = [
        (log, feedback, seed, name, *figures)
        for (log, feedback), (_, seeds) in sorted(found.items())
        for seed, one in enumerate(seeds)
        for name, figures in one.items()
    ]
    write_replays(given.csv, about, [("log", "feedback", "seed", "policy", *FIGURES), *rows])


if __name__ == "__main__":
    main(sys.argv[1:])
