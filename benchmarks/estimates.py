"""How good the estimates of starts are: each against the replay's own start, from the state at the job's submission.

    python benchmarks/estimates.py                  # three logs and two generated ones, FCFS and SAF + 72,000 s
    python benchmarks/estimates.py --jobs 200 LOG   # a log of one's own

Of each log 600 jobs that wait, submitted after the first twentieth of it. Beside the estimates stands what requests
alone say: one fork in which all jobs run what they request, and none arrives. Besides, the intervals of `bf.when` are
scored on all jobs that wait at 40 instants.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from logs import CTC, PLACES, Log, LogMissing

import batfill as bf
from batfill_site.starts.ensemble import Draws, moment_of
from batfill_site.starts.when import ForecastOfReplay

NAMED = (
    Log("KTH-SP2", "KTH-SP2-1996-2.1-cln.swf.gz", 100),
    CTC,
    Log("SDSC-SP2", "SDSC-SP2-1998-4.2-cln.swf.gz", 128),
)
SETTINGS = (("fcfs", {}), ("saf + 72,000", {"policy": "saf", "threshold_s": 72_000}))
CLOSE_S = 600
INSTANTS = 40


def workloads(paths):
    """The workloads to score: those given, or three logs of the archive and two generated ones."""
    if paths:
        yield from (bf.read(path) for path in paths)
        return
    for log in NAMED:
        try:
            yield bf.read(log.path).stating(name=log.name)
        except LogMissing as error:
            print(f"{log.name}: {error}; looked in {', '.join(map(str, filter(None, PLACES)))}")
    for seed in (1, 2):
        yield bf.generate(jobs=20_000, procs=128, seed=seed).stating(name=f"generated, seed {seed}")


def by_requests(run, forecast, row):
    """When a job starts if every job runs what it requests, and none is submitted any more."""
    moment = moment_of(run.engine.queue, run.now_s)
    jobs = moment.jobs
    ran_s = np.where(moment.waits, 0.0, run.now_s - jobs["start_s"])
    request_s = run.workload.expected_s[moment.rows]
    durations = np.where(request_s > ran_s, request_s, ran_s + 1)[None]
    draws = Draws(durations, np.zeros((1, 0), np.intp), np.zeros((1, 0)), np.zeros((1, 0)))
    start_s, _ = forecast.ensemble.run(moment, forecast.past, moment.rows == row, draws, stops=False)
    return start_s[0][moment.rows == row][0]


def score(workload, options, jobs, seed):
    """A row of the table."""
    start_s, submit_s = bf.replay(workload, **options).schedule.start_s, workload.jobs.submit_s
    waiting = np.flatnonzero(start_s > submit_s)
    waiting = waiting[waiting >= len(submit_s) // 20]
    rows = np.sort(np.random.default_rng(seed).choice(waiting, min(jobs, len(waiting)), replace=False))
    run = bf.Replay(workload, **options)
    forecast, plain = ForecastOfReplay(run), []
    found, seconds = [], 0.0
    for row in rows.tolist():
        run.run(until_s=submit_s[row])
        began = time.process_time()
        forecast.follow()
        moment = moment_of(run.engine.queue, run.now_s)
        found.append(forecast.estimate(moment, moment.rows == row))
        seconds += time.process_time() - began
        plain.append(by_requests(run, forecast, row))
    true_s = start_s[rows]
    expected_s, from_s, to_s = (
        np.array([getattr(each, name)[0] for each in found]) for name in ("start_s", "from_s", "to_s")
    )
    inside, half = (from_s <= true_s) & (true_s <= to_s), len(rows) // 2
    return {
        "jobs": len(rows),
        **errors("requests", np.array(plain) - true_s),
        **errors("estimate", expected_s - true_s),
        "covered": f"{inside.mean():.1%}",
        "halves": f"{inside[:half].mean():.1%} {inside[half:].mean():.1%}",
        "covered at instants": "{:.0%} of {:,}".format(*at_instants(workload, options, start_s, seed)),
        "width h": f"{np.median(to_s - from_s) / 3600:.1f}",
        "ms": f"{seconds / len(rows) * 1000:.2f}",
    }


def at_instants(workload, options, start_s, seed):
    """The share of the starts within the intervals of `bf.when`, over all jobs that wait at instants, and how many."""
    submit_s, ids = workload.jobs.submit_s, workload.jobs.ids
    true_s, inside = dict(zip(ids.tolist(), start_s.tolist(), strict=True)), []
    run = bf.Replay(workload, **options)
    instants = np.random.default_rng(seed).uniform(submit_s[len(submit_s) // 20], submit_s[-1], INSTANTS)
    for at_s in np.sort(instants).tolist():
        found = bf.when(run.run(until_s=at_s))
        inside += [row["from_s"] <= true_s[row["job_id"]] <= row["to_s"] for row in found]
    return np.mean(inside), len(inside)


def errors(name, off_s):
    """The share within ten minutes, and the median error in minutes."""
    return {
        f"{name} within 10 min": f"{(abs(off_s) <= CLOSE_S).mean():.1%}",
        f"{name} median min": f"{np.median(abs(off_s)) / 60:.1f}",
    }


def main():
    """Print the table, a line at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*")
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    for workload in workloads(chosen.logs):
        for name, options in SETTINGS:
            row = score(workload, options, chosen.jobs, chosen.seed)
            print(f"{workload.name}, {name}: {', '.join(f'{key} {value}' for key, value in row.items())}", flush=True)


if __name__ == "__main__":
    main()
