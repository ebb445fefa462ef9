"""Variants of a log: parts of it, other loads, resampled weeks, bursts of one user, and small moves of submissions.

A variant is made of the jobs that ran. Every variant has one replica per seed: each seed moves every
submission by up to a minute, and has its own resampled weeks or burst.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batfill.model.jobs import DAY_S, HOUR_S
from batfill.workloads.formats import load_log
from batfill.workloads.swf import machine_size, runs, workload_of
from batfill.workloads.swf_log import FIELD
from batfill.workloads.times import resample, stretch
from studies.tables.promise import moved

LOADS = (0.4, 0.8, 0.9, 1.1, 1.2, 1.3)  # the times between submissions are divided by these
WEEKS = {"weeks": "weeks shuffled", "users": "users' weeks drawn"}  # the methods of `workload resample`

WHOLE = "whole"
HALVES = {"1st half": (0, 1 / 2), "2nd half": (1 / 2, 1)}
FIFTHS = {f"{name} fifth": (i / 5, (i + 1) / 5) for i, name in enumerate(("1st", "2nd", "3rd", "4th", "5th"))}
PARTS = {WHOLE: (0, 1), **HALVES, **FIFTHS}


class Burst(NamedTuple):
    """Many jobs of one user in a few days, from a quarter of the log on, each a hundredth of the machine wide."""

    days: int
    runtime_s: float  # on average, exponentially distributed from a second on; limited by the request
    more: float  # jobs over those of the log; 0: as many as take a share of the machine
    share: float = 0.0  # of the machine that they take while the burst lasts
    requested_s: float | None = None  # None: the log's median


BURSTS = {
    "short jobs": Burst(7, 5, more=1 / 3),
    "failing jobs": Burst(3, 1, more=1 / 2),
    "long jobs": Burst(14, 4 * HOUR_S, more=0, share=0.15, requested_s=12 * HOUR_S),
}


class Layout(NamedTuple):
    """What is made of a log."""

    parts: tuple[str, ...] = (WHOLE, *HALVES)  # as they are
    at_loads: tuple[str, ...] = (WHOLE,)  # at each load
    changed: str = WHOLE  # with weeks and bursts
    first: int | None = None  # only that many of its jobs


LAYOUTS = {
    "SDSC-BLUE": Layout(tuple(HALVES), tuple(HALVES), "1st half"),
    "HPC2N": Layout(tuple(HALVES), tuple(HALVES), "1st half"),
    "CEA-Curie": Layout(tuple(FIFTHS), tuple(FIFTHS), WHOLE, first=60_000),
}


class Variant(NamedTuple):
    """A part of a log, changed or not."""

    log: str  # its name in the tables
    path: Path
    part: str = WHOLE
    change: str = ""  # a load, a method of `WEEKS`, or one of `BURSTS`

    @property
    def name(self):
        """The variant in words."""
        load = f"load x {self.change}" if self.change in map(str, LOADS) else ""
        part = self.part if self.part != WHOLE or self.layout.first is None else f"first {self.layout.first:,} jobs"
        return ", ".join(filter(None, (part, load or WEEKS.get(self.change, self.change))))

    @property
    def layout(self):
        """That of its log."""
        return LAYOUTS.get(self.log, Layout())

    def replica(self, seed):
        """The workload of this seed."""
        log, procs = part_of(self.path, self.layout.first, self.part)
        rng = np.random.default_rng([seed, *self.name.encode()])
        if self.change in WEEKS:
            log = resample(log, seed, method=self.change)
        elif self.change in BURSTS:
            log = with_burst(log, procs, BURSTS[self.change], rng)
        elif self.change:
            log = stretch(log, 1 / float(self.change))
        return moved_workload(f"{self.log}, {self.name}, seed {seed}", log, procs, seed)


def variants_of(log, path):
    """All variants of a log."""
    layout = LAYOUTS.get(log, Layout())
    changes = [(part, "") for part in layout.parts]
    changes += [(part, str(load)) for part in layout.at_loads for load in LOADS]
    changes += [(layout.changed, change) for change in (*WEEKS, *BURSTS)]
    return [Variant(log, path, part, change) for part, change in changes]


@lru_cache(maxsize=2)
def part_of(path, first, part):
    """The jobs of a log that ran, the first ones if not all, this part of them; and the machine's size."""
    log = load_log(path)
    procs = machine_size(path, log)
    log = log.select(runs(log))
    log = log.select(np.argsort(log["submit_s"], kind="stable")[:first])
    begin, end = (round(share * len(log)) for share in PARTS[part])
    return log.select(slice(begin, end)), procs


def moved_workload(name, log, procs, seed):
    """The workload of a log, with its submissions moved by up to a minute, as the promise says."""
    return moved(workload_of(name, log, procs=procs), seed)


def with_burst(log, procs, burst, rng):
    """The log with a burst of a new user."""
    width = max(procs // 100, 1)
    n_more = round(burst.more * len(log) or burst.share * procs * burst.days * DAY_S / (width * burst.runtime_s))
    requested_s = burst.requested_s or float(np.median(log["requested_s"][log["requested_s"] > 0]))
    first_s = log["submit_s"][len(log) // 4]
    more = np.full((n_more, log.rows.shape[1]), -1.0)
    for name, column in {
        "job": log["job"].max() + 1 + np.arange(n_more),
        "submit_s": np.floor(np.sort(rng.uniform(first_s, first_s + burst.days * DAY_S, n_more))),
        "runtime_s": np.clip(np.ceil(rng.exponential(burst.runtime_s, n_more)), 1, requested_s),
        "procs": width,
        "requested_procs": width,
        "requested_s": requested_s,
        "user": log["user"].max() + 1,
    }.items():
        more[:, FIELD[name]] = column
    return log.renewed(np.concatenate([log.rows, more]), f"with a burst of {n_more} jobs")
