"""What keeps jobs from starving, and what it costs: the tables of docs/results/guards.md.

`python -m studies.tables.guards LOG... > tables.md`;
twenty-five minutes of one processor for six logs. Each log is replayed
whole, from an empty machine, under orders with a threshold, aged orders, and both beside first tries (every job is
tried for one divider and killed there: `--small all --kill always`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import batfill as bf
from batfill.base.version import __version__
from batfill.model.jobs import HOUR_S
from batfill.model.metrics import long_waits, on_front
from studies.papers.page import markdown
from studies.tables.common import by_name, progress, waits_of

TAU_S = 60
THRESHOLDS_S = (None, 72_000, 200_000)
ORDERS = ("fcfs", "spf", "saf")
THIRD = "0.33333333333333331"
AGED = (
    f"aged:50000,{THIRD},{THIRD}",
    f"aged:50000,{THIRD},0",
    "aged:20000,0.5,0.5",
    "aged:50000,0.5,0.5",
    "aged:100000,0.5,0.5",
)
TRIES = {"small": "all", "kill": "always"}


def choices():
    """Each choice by its name in the tables: the policy and the options."""
    found = {}
    for tries in ({}, TRIES):
        kind = ", first tries" if tries else ""
        for policy in ORDERS:
            for seconds in THRESHOLDS_S:
                guard = "" if seconds is None else f", threshold {seconds}"
                found[f"{policy}{guard}{kind}"] = policy, {"threshold_s": seconds, **tries}
                if tries and seconds is not None:
                    large = {"threshold_s": seconds, "overdue_before": "large", **tries}
                    found[f"{policy}{guard}{kind}, large"] = policy, large
        for policy in AGED:
            short = policy.replace(THIRD, "1/3")
            found[f"{short}{kind}"] = policy, tries
    return found


def guard_figures(path, policy, options):
    """Mean bounded slowdown, mean wait, 99.9 % quantile and longest wait in hours, and the share of wasted work."""
    run = bf.replay(path, policy, tau_s=TAU_S, **options)
    waits = long_waits(waits_of(run.schedule))
    hours = (run.figures.mean_wait_s, waits["p999_wait_s"], waits["max_wait_s"])
    return run.figures.mean_bsld, *(seconds / HOUR_S for seconds in hours), run.figures.wasted


def on_a_front(found):
    """Whether no other choice beats it in mean bounded slowdown and 99.9 % wait, or slowdown and longest wait."""
    bsld, _, p999, longest, _ = np.array(list(found.values())).T
    return dict(zip(found, (on_front(bsld, p999) | on_front(bsld, longest)).tolist(), strict=True))


def main(paths):
    """Print the tables."""
    logs = by_name(paths)
    cells = {}
    for log, path in logs.items():
        progress(log)
        workload = bf.read(path)
        found = {name: guard_figures(workload, *choice) for name, choice in choices().items()}
        front = on_a_front(found)
        cells[log] = {
            name: f"{'**' * front[name]}{bsld:.1f}{'**' * front[name]}; {mean:.1f}, {p999:.0f}, {longest:.0f}"
            + (f"; {waste:.1%}" if waste else "")
            for name, (bsld, mean, p999, longest, waste) in found.items()
        }
    print(f"<!-- studies/tables/guards.py, batfill {__version__}, seed 0, tau {TAU_S} s -->\n")
    print(markdown(("", *logs), [(name, *(cells[log][name] for log in logs)) for name in choices()]))


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
