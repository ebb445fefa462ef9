"""How good a prediction must be: the second table of docs/results/predictions.md.

`python -m studies.tables.noise [LOG...] [--seeds 3] [--jobs 2] [--csv replays.csv] > noise.md`; without a LOG, the six
logs of `studies.tables.common` in $BATFILL_TRACES or the cache of `batfill workload fetch`.

SAF with a threshold of 2 days; each log whole (of CEA-Curie the first 60,000 jobs), each seed moves each submission by
up to a minute. A file predicts of each job its run time times exp(sigma z), with z from a normal distribution. A ratio
is that of the bounded slowdowns to those with requests, by week, over the seeds, corrected for what is compared.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from batfill.base.files import csv_text
from batfill.model.metrics import TAU_S
from batfill.model.options import ALL, ORDER, Options
from batfill.replays.replay import simulate
from batfill_pages.stats import paired
from studies.papers.page import markdown
from studies.tables.common import (
    by_name,
    by_week,
    made_by,
    parser_of,
    ratio,
    replay_all,
    summed,
    waits_of,
    write_replays,
)
from studies.tables.first_tries import logs_at_hand
from studies.tables.urgent import Task
from studies.tables.variants import Variant

PLAIN = {"policy": "saf", "threshold": "2d"}
SIGMAS = {"true run time": 0.0, "1.6 times off": 0.5, "2.7 times off": 1.0, "7.4 times off": 2.0}
CHOICES = [(how, use) for how in SIGMAS for use in (ORDER, ALL)]


def replayed(task):
    """The weeks' slowdowns and the longest wait with requests, and by choice."""
    jobs = task.variant.replica(task.seed)
    z = np.random.default_rng(task.seed).normal(size=len(jobs))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.csv"
        predicted = [np.maximum(jobs.runtime_s, 1) * np.exp(sigma * z) for sigma in SIGMAS.values()]
        path.write_text(csv_text([["job", *SIGMAS], *zip(jobs.ids.tolist(), *predicted, strict=True)]))
        given = {(how, use): {"predict": f"{path},column={how}", "predict-for": use} for how, use in CHOICES}
        return {choice: figures(jobs, {**PLAIN, **more}) for choice, more in {None: {}, **given}.items()}


def figures(jobs, options):
    """The weeks' bounded slowdowns, and the longest wait."""
    schedule, _ = simulate(jobs, jobs, Options.of(options))
    return by_week(schedule, TAU_S), float(waits_of(schedule).max())


def main(words):
    """Print the table."""
    given = parser_of(__doc__, logs="the six logs", of="log", seeds=3).parse_args(words)
    logs = by_name(given.logs or logs_at_hand())
    tasks = [Task(Variant(log, path), seed) for log, path in logs.items() for seed in range(given.seeds)]
    done = replay_all(replayed, tasks, given.jobs)
    cells = {}
    for log in logs:
        each = [found for task, found in zip(tasks, done, strict=True) if task.variant.log == log]
        sums = {choice: summed([found[choice][0] for found in each]) for choice in (None, *CHOICES)}
        longest = {choice: max(found[choice][1] for found in each) for choice in sums}
        pairs = paired(np.array([sums[choice] for choice in CHOICES]), sums[None], seed=0, together=True)
        for choice, one in zip(CHOICES, pairs, strict=True):
            cells[log, choice] = f"{ratio(one)}, {longest[choice] / longest[None]:.2f}"
    about = made_by("noise", words, logs)
    print("".join(f"<!-- {line} -->\n" for line in about))
    rows = [(f"{how}, {use}", *(cells[log, (how, use)] for log in logs)) for how, use in CHOICES]
    print(markdown(("predicted, used in", *logs), rows))
    csv = [("log", "seed", "choice", "bsld", "longest_s")]
    for task, found in zip(tasks, done, strict=True):
        for choice, (weeks, longest_s) in found.items():
            csv.append((task.variant.log, task.seed, " ".join(choice or ["request"]), weeks.sum(), longest_s))
    write_replays(given.csv, about, csv)


if __name__ == "__main__":
    main(sys.argv[1:])
