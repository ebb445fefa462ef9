"""What jobs cancelled while they waited change: the table of docs/results/fidelity.md.

`python -m studies.tables.cancelled [LOG...]`; without a LOG, the logs of `studies.tables.common` at hand. Each log is
replayed without these jobs, with them, and with them ending as they start; the waits are those of the other jobs.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from batfill.base.words import percent
from batfill.model.jobs import HOUR_S
from batfill.replays.replay import replay
from batfill.workloads import read_workload
from studies.papers.page import markdown
from studies.tables.common import by_name, made_by, progress
from studies.tables.first_tries import logs_at_hand

ORDERS = {"fcfs": {"policy": "fcfs"}, "saf + 24 h": {"policy": "saf", "threshold_s": 24 * HOUR_S}}


def row_of(log, path):
    """The row of a log; none of a log without such jobs."""
    without, beside = (read_workload(path, cancelled=choice) for choice in ("drop", "wait"))
    left = beside.is_cancelled
    if not left.any():
        return []
    idle = replace(beside, runtime_s=np.where(left, 0.0, beside.runtime_s))
    logged_s, patient_s = without.waited_s[without.procs <= without.size], beside.cancel_after_s[left].sum()
    cells = [log, f"{left.sum():,} ({percent(left.mean())})", percent(patient_s / (patient_s + logged_s.sum()))]
    for order in ORDERS.values():
        found = [replay(one, **order) for one in (without, idle, beside)]
        waits_s = [one.figures.mean_wait_s for one in found]
        cells.append(", ".join(f"{wait_s / HOUR_S:.2f}" for wait_s in waits_s))
        cells.append(", ".join(f"{wait_s / logged_s.mean():.2f}" for wait_s in waits_s))
        schedule = found[-1].schedule
        gone = schedule.withdrawn()
        used = gone.used_proc_s / (schedule.runtime_s * beside.procs)[schedule.ended].sum()
        cells.append(f"{gone.ran:,}, {percent(used)}")
    return [cells]


def main(words):
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", type=Path, help="SWF files; by default the six logs")
    logs = by_name(parser.parse_args(words).logs or logs_at_hand())
    rows = []
    for log, path in logs.items():
        progress(log)
        rows += row_of(log, path)
    print("<!--", *made_by("cancelled", words, logs), "-->\n", sep="\n")
    of_order = [(f"{name}: hours", "of the logged", "started, their work") for name in ORDERS]
    print(markdown(("log", "cancelled", "of the waiting time", *of_order[0], *of_order[1]), rows))


if __name__ == "__main__":
    main(sys.argv[1:])
