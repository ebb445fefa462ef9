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


def rows_of(log, path):
    """The rows of a log, one of each order; of a log without such jobs one that says so."""
    without, beside = (read_workload(path, cancelled=choice) for choice in ("drop", "wait"))
    left = beside.is_cancelled
    if not left.any():
        yield log, "none"
        return
    idle = replace(beside, runtime_s=np.where(left, 0.0, beside.runtime_s))
    waited_s, patient_s = without.waited_s.sum(), beside.cancel_after_s[left].sum()
    about = f"{left.sum():,} ({percent(left.mean())})", percent(patient_s / (patient_s + waited_s))
    for name, order in ORDERS.items():
        found = [replay(one, **order) for one in (without, idle, beside)]
        ratios = [one.figures.mean_wait_s / without.waited_s[without.procs <= without.size].mean() for one in found]
        waits = (f"{one.figures.mean_wait_s / HOUR_S:.2f}" for one in found)
        schedule = found[-1].schedule
        gone = schedule.withdrawn()
        used = gone.used_proc_s / (schedule.runtime_s * beside.procs)[schedule.ended].sum()
        texts = (f"{wait} ({ratio:.2f})" for wait, ratio in zip(waits, ratios, strict=True))
        yield log, *about, name, *texts, f"{gone.ran:,}", percent(used)
        log, about = "", ("", "")


def main(words):
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", type=Path, help="SWF files; by default the six logs")
    logs = by_name(parser.parse_args(words).logs or logs_at_hand())
    rows = []
    for log, path in logs.items():
        progress(log)
        rows += rows_of(log, path)
    print("<!--", *made_by("cancelled", words, logs), "-->\n", sep="\n")
    head = ("log", "cancelled", "of the waiting", "order", "without", "ending as they start", "with", "started", "work")
    print(markdown(head, [(*row, *[""] * (len(head) - len(row))) for row in rows]))


if __name__ == "__main__":
    main(sys.argv[1:])
