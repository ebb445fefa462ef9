"""How good the estimates of starts are: each against the replay's own start, of all jobs that wait at 40 instants.

    python benchmarks/estimates.py                  # four logs, FCFS and SAF + 72,000 s
    python benchmarks/estimates.py LOG              # a log of one's own

A line has the share of the starts within the intervals of `bf.when`, the median distance of a start from what was
expected, the median length of an interval, and the time that an instant takes. Then as many jobs that had to wait are
left out of the log, and asked for (`submit`) at their submission.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from logs import CTC, PLACES, Log, LogMissing

import batfill as bf
from batfill_site.starts.forecast import FORKS
from batfill_site.starts.when import when_in_replay

NAMED = (
    Log("KTH-SP2", "KTH-SP2-1996-2.1-cln.swf.gz", 100),
    CTC,
    Log("SDSC-SP2", "SDSC-SP2-1998-4.2-cln.swf.gz", 128),
    Log("HPC2N", "HPC2N-2002-2.2-cln.swf.gz", 240),
)
SETTINGS = {"fcfs": {}, "saf + 72,000": {"policy": "saf", "threshold_s": 72_000}}
INSTANTS, ASKED = 40, 100


def score(workload, options, seed):
    """A line of the table."""
    start_s, submit_s = bf.replay(workload, **options).schedule.start_s, workload.jobs.submit_s
    true_s, found = dict(zip(workload.jobs.ids.tolist(), start_s.tolist(), strict=True)), []
    run, began = bf.Replay(workload, **options), time.process_time()
    instants = np.random.default_rng(seed).uniform(submit_s[len(submit_s) // 20], submit_s[-1], INSTANTS)
    for at_s in np.sort(instants).tolist():
        for row in bf.when(run.run(until_s=at_s)):
            real_s = true_s[row["job_id"]]
            within = row["from_s"] <= real_s <= row["to_s"]
            found.append((within, abs(row["start_s"] - real_s) / 60, (row["to_s"] - row["from_s"]) / 3600))
    seconds = (time.process_time() - began) / INSTANTS
    off_min, long_h = np.median(found, axis=0)[1:]
    held = f"{np.mean(found, axis=0)[0]:.0%} of {len(found):,} starts within"
    return f"{held}, off by {off_min:.0f} min, intervals of {long_h:.1f} h (medians), {seconds:.2f} s an instant"


def asked(workload, options, seed):
    """The same of jobs that are left out and asked for, and how many are expected otherwise if they are queued."""
    schedule, jobs, found = bf.replay(workload, **options).schedule, workload.jobs, []
    waited = np.flatnonzero(schedule.start_s > jobs.submit_s)
    chosen = np.random.default_rng(seed).choice(waited[waited > len(jobs) // 20], ASKED, replace=False)
    queued = bf.Replay(workload, **options)
    for row in np.sort(chosen).tolist():
        at_s, real_s = float(jobs.submit_s[row]), schedule.start_s[row]
        text = f"procs={jobs.procs[row]},time={jobs.expected_s[row]}s,user={jobs.user[row]}"
        without = bf.Replay(jobs.select(np.arange(len(jobs)) != row), **options).run(until_s=at_s)
        queued.run(until_s=at_s)
        one = when_in_replay(without, None, text, FORKS, 0, at_s)[0]
        own = when_in_replay(queued, jobs.ids[row], None, FORKS, 0, at_s)[0]
        within, off_min = one["from_s"] <= real_s <= one["to_s"], abs(one["start_s"] - real_s) / 60
        found.append((within, off_min, (one["to_s"] - one["from_s"]) / 3600, one["start_s"] != own["start_s"]))
    off_min, long_h = np.median(found, axis=0)[1:3]
    held = f"{np.mean(found, axis=0)[0]:.0%} of {len(found):,} starts within"
    other = f"{int(np.sum(found, axis=0)[3])} expected otherwise if queued"
    return f"{held}, off by {off_min:.0f} min, intervals of {long_h:.1f} h (medians); {other}"


def main():
    """Print the table, a line at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    for log in chosen.logs or NAMED:
        try:
            name, workload = (log.name, bf.read(log.path)) if isinstance(log, Log) else (log, bf.read(log))
        except LogMissing as error:
            print(f"{log.name}: {error}; looked in {', '.join(map(str, filter(None, PLACES)))}")
            continue
        for setting, options in SETTINGS.items():
            print(f"{name}, {setting}: {score(workload, options, chosen.seed)}", flush=True)
            print(f"{name}, {setting}, asked for: {asked(workload, options, chosen.seed)}", flush=True)


if __name__ == "__main__":
    main()
