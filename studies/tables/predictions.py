"""Whether predicted run times make better schedules: the tables of docs/results/predictions.md.

`python -m studies.tables.predictions LOG... > tables.md`;
half an hour of one processor for six logs. EASY with SAF and a
threshold of 2 days, each log whole and from an empty machine, with the user's request, two predictors of the package,
gradient boosting, and the true run time; each in all of the decision, and in the queue's order alone.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import deque
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from batfill.base.version import __version__
from batfill.learn import Judgement, Knowledge
from batfill.learn.estimates import OrderOnly
from batfill.learn.habits import NO_CLOCK
from batfill.learn.predictor import make
from batfill.model.jobs import HOUR_S, WEEK_S
from batfill.model.metrics import TAU_S, long_waits
from batfill.model.options import ALL, LEARNED, ORDER, REQUEST, RUNTIME, Options
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay
from batfill.replays.learning import LearningReplay
from batfill.workloads import read_workload
from batfill_pages.stats import paired
from studies.papers.page import markdown
from studies.tables.common import MARKS, by_name, by_week, longest, progress, waits_of

POLICY, THRESHOLD = "saf", "2d"
BOOSTING = "boosting"
LATEST = 20_000  # jobs to learn from
NONE_YET = -1.0  # an earlier run time that does not exist


class Earlier:
    """Run times of ended jobs that have something in common."""

    def __init__(self):
        self.last = deque(maxlen=3)  # the newest first
        self.number, self.total_s = 0, 0.0

    def add(self, runtime_s):
        """Add a job."""
        self.last.appendleft(runtime_s)
        self.number += 1
        self.total_s += runtime_s

    def newest(self, n):
        """The newest `n` run times."""
        return [*self.last, NONE_YET, NONE_YET, NONE_YET][:n]


class Boosting(Knowledge):
    """Run times by gradient-boosted trees, trained at each week's end on the last 20,000 jobs that have ended.

    They learn the logarithm of the run time. The features come from Tsafrir et al., TPDS 2007 (the mean of the user's
    last two run times), Gaussier et al., SC 2015 (the last three, the user's mean), and Zrigui et al., JPDC 2022
    (earlier jobs of the same user and request).
    """

    name = BOOSTING
    outlived = True

    def __init__(self, seed, clock):
        """`seed`: of the trees' validation; `clock`: gives hours and days, or None."""
        self.seed, self.clock = seed, clock or NO_CLOCK
        self.earlier = {}  # by (user), (user, request), (user, request, procs)
        self.seen = {}  # features at submission, by row, until the job ends
        self.known = deque(maxlen=LATEST)  # features and log run time
        self.trees = None
        self.next_s = WEEK_S

    def judge(self, job):
        """The trees' run time, between a second and the request; the request before the first training."""
        features = self.seen[job.row] = self.features(job)
        if self.trees is None:
            return Judgement(job.most_s, small=False)
        predicted_s = math.exp(self.trees.predict([features])[0])
        return Judgement(min(max(predicted_s, 1.0), job.most_s), small=False)

    def features(self, job):
        """Of a job submitted now; times in seconds."""
        of_user, of_request, alike = (self.earlier.get(key, Earlier()) for key in groups_of(job))
        date = self.clock.date(job.submit_s)
        return [
            job.known_request_s,
            job.procs,
            date.hour,
            date.weekday(),
            *of_user.newest(3),
            sum(of_user.newest(2)) / 2 if of_user.number > 1 else NONE_YET,
            of_user.total_s / of_user.number if of_user.number else NONE_YET,
            *of_request.newest(2),
            *alike.newest(2),
        ]

    def ended(self, job, runtime_s, end_s):
        """Add it to its user's earlier jobs, and to the training data."""
        for key in groups_of(job):
            self.earlier.setdefault(key, Earlier()).add(runtime_s)
        self.known.append((self.seen.pop(job.row), math.log(max(runtime_s, 1.0))))

    def renew(self, now_s):
        """Train at a week's end."""
        if now_s < self.next_s:
            return
        self.next_s = (now_s // WEEK_S + 1) * WEEK_S
        if self.known:
            features, log_s = zip(*self.known, strict=True)
            self.trees = HistGradientBoostingRegressor(random_state=self.seed).fit(features, log_s)

    def renewal_s(self):
        """The end of the week."""
        return self.next_s


def groups_of(job):
    """What the job may have in common with earlier ones."""
    return (job.user,), (job.user, job.known_request_s), (job.user, job.known_request_s, job.procs)


def schedule_of(workload, knowledge, predictions, seed):
    """The schedule with a predictor, and the seconds that it took."""
    boosts = knowledge == BOOSTING
    chosen = {} if boosts or knowledge == REQUEST else {"predict": knowledge, "predict-for": predictions}
    options = Options.of({"policy": POLICY, "threshold": THRESHOLD, **chosen})
    began_s = time.perf_counter()
    if boosts:
        known = Boosting(seed, workload.clock)
        known = OrderOnly(known) if predictions == ORDER else known
    else:
        known = make(options, workload.jobs, workload.clock)
    run = EngineReplay(
        workload.jobs,
        workload.size,
        Rules(options.policy, threshold_s=options.threshold_s, outlived=known.outlived),
        learns=True,
    )
    schedule = LearningReplay(run, known).finish().schedule
    return schedule, time.perf_counter() - began_s


def figures_of(schedule):
    """Bounded slowdowns by week of submission, and the longest waits."""
    figures = schedule.summary(TAU_S)
    means = {"mean_s": figures.mean_wait_s, "bsld": figures.mean_bsld}
    return by_week(schedule, TAU_S), {**means, **long_waits(waits_of(schedule))}


def tables(logs, seeds):
    """Replay all, and print."""
    choices = [(REQUEST, ALL)]
    for knowledge in (*LEARNED, RUNTIME, BOOSTING):
        for predictions in (ALL, ORDER):
            choices += [(knowledge, predictions)]
    weekly, figures, took_s = {}, {}, {}
    for log, path in logs.items():
        workload = read_workload(path)
        for choice in choices:
            progress(f"{log} {' '.join(choice)}")
            runs = [schedule_of(workload, *choice, seed) for seed in (range(seeds) if BOOSTING in choice else (0,))]
            found = [figures_of(schedule) for schedule, _ in runs]
            weekly[log, choice] = np.mean([costs for costs, _ in found], axis=0)
            figures[log, choice] = {name: np.mean([each[name] for _, each in found]) for name in found[0][1]}
            took_s[log, choice] = np.mean([seconds for _, seconds in runs])
    print(f"<!-- studies/tables/predictions.py, batfill {__version__}, seeds 0 to {seeds - 1} of boosting -->\n")
    others, head = choices[1:], "run time known, used in"
    print(f"Mean bounded slowdowns over those with the request, 95 % intervals, and p; corrected for {len(others)}:\n")
    compared = {
        log: week_pairs(weekly[log, (REQUEST, ALL)], [weekly[log, choice] for choice in others]) for log in logs
    }
    # Each log weighs the same: its weeks are shares of what it costs with the request.
    whole = {log: weekly[log, (REQUEST, ALL)].sum() for log in logs}
    joined = [np.concatenate([weekly[log, choice] / whole[log] for log in logs]) for choice in choices]
    compared["all"] = week_pairs(joined[0], joined[1:])
    rows = [
        (", ".join(choice), *(comparison_cell(one[i]) for one in compared.values())) for i, choice in enumerate(others)
    ]
    print(markdown((head, *compared), rows))

    for title, show in (
        ("Mean bounded slowdown", lambda log, choice: f"{figures[log, choice]['bsld']:.2f}"),
        ("Mean wait, hours", lambda log, choice: f"{figures[log, choice]['mean_s'] / HOUR_S:.2f}"),
        ("99.9 % quantile of the wait and longest wait, hours", lambda log, choice: longest(figures[log, choice])),
        ("Seconds of one processor", lambda log, choice: f"{took_s[log, choice]:.0f}"),
    ):
        rows = [(", ".join(choice), *(show(log, choice) for log in logs)) for choice in choices]
        print(f"\n{title}:\n\n{markdown((head, *logs), rows)}")


def week_pairs(base, costs):
    """Comparisons by week."""
    weeks = base > 0
    return paired(np.array([each[weeks] for each in costs]), base[weeks], seed=0)


def comparison_cell(one):
    """A comparison in a cell, marked if it is beyond chance after the correction."""
    return f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f}), {one.p:.4f}{MARKS.get(one.verdict, '')}"


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logs", type=Path, nargs="+", help="logs in the standard workload format")
    parser.add_argument("--seeds", type=int, default=3, help="of boosting, from 0 (default 3): costs are their means")
    given = parser.parse_args()
    tables(by_name(given.logs), given.seeds)


if __name__ == "__main__":
    main()
