"""Real runs of Slurm, and how far a run of the model is from one."""

from __future__ import annotations

import csv
import gzip
import math
import os
import re
from collections import defaultdict
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batfill_site.slurm.conf import read_site
from batfill_site.slurm.hosts import expand
from batfill_site.slurm.jobs import read_jobs
from batfill_site.slurm.site import GRACED, REQUEUED, RESUMED, SUSPENDED, Association, Clock, Site, SlurmJobs

OWN = Path(__file__).parent / "data" / "slurm"
PUBLIC = os.environ.get("BATFILL_SLURM")  # a folder with the public run's tables
# The second at which the public run began matters: plans are cut down to whole minutes of Unix time.
PUBLIC_BEGAN_S = 1_613_082_979
# This job of own-b ended 0.23 s before a main pass, which did not yet give its nodes to others; no log says why.
LATE_JOB, LATE_S = "66", 0.28
# What the log says of preempted jobs, in the order of site.REQUEUED and those after it.
HOW = ("requeued", "killed", "grace", "suspended", "resumed")
CLEANING_S = 0.011  # if the log does not say when nodes were clean
OVERHEAD_S = 0.07  # a job that sleeps runs so much longer
OWN_B_DECAY_S = 1795720931.804  # its passes' dates do not have the ticks


class Truth(NamedTuple):
    """A real run: what Slurm had, when it did, and when its passes were."""

    name: str
    site: Site
    jobs: SlurmJobs
    clock: Clock  # with the dates of the passes
    by: tuple[str, ...]  # which pass started each job; () if not known
    close_s: float  # differences up to this are of the dates, not of the decisions
    whole_s: bool  # dates are known in whole seconds
    earlier: tuple[tuple[int, float], ...] = ()  # the job and the start of each try that was preempted
    preempted: tuple[tuple[float, int, int, int], ...] = ()  # the first four fields of PREEMPTED

    def own_clock(self, number):
        """A clock without real dates: the phases and the delays of cycles are drawn, with `number` as the seed."""
        phase_s, cycle, tick = np.random.default_rng(number).random(3).tolist()
        first_s, s = float(self.jobs.submit_s[0]), self.site.settings
        return self.clock._replace(
            main_s=(), cycles_s=(), checks_s=(), phase_s=phase_s, first_cycle_s=first_s + cycle * s.bf_interval_s,
            first_decay_s=first_s - tick * s.calc_period_s, jitter_s=0.1, seed=number,
        )  # fmt: skip


class Distance(NamedTuple):
    """How far a run is from the truth."""

    off_s: np.ndarray  # of each start, first those of the last tries; nan for one that only one of them has
    same_nodes: np.ndarray
    same_pass: np.ndarray
    wrong: int  # of those that only one of them has preempted, suspended or resumed, for the same job within a second
    backfilled: int
    waits_s: np.ndarray
    true_waits_s: np.ndarray

    @property
    def mean_error_s(self):
        return float(np.nanmean(np.abs(self.off_s)))

    @property
    def correlation(self):
        return correlation(self.waits_s, self.true_waits_s)


def rows_of(path):
    """The rows of a table, packed or not."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as content:
        return list(csv.DictReader(content))


def recorded(folder, *, late=False):
    """The run in a folder such as own-a, packed or not, with the nodes of `LATE_JOB` freed late or not."""
    folder = Path(folder)

    def file(name):
        return next(iter(sorted(folder.glob(f"{name}*"))), None)

    said = [each for each in (file("accounts.txt"), file("qos.txt")) if each]
    site = read_site(folder / "slurm.conf", accounts=said, windows=file("windows.csv"))
    jobs, tries = read_jobs(file("sacct.txt")), {}
    for row in rows_of(file("jobs.csv")):
        tries.setdefault(row["id"], []).append(row)
    jobs = jobs.select([i for i, name in enumerate(jobs.ids) if tries[name][-1]["endms"]])  # others have no date
    rows, place = [tries[name][-1] for name in jobs.ids], {name: i for i, name in enumerate(jobs.ids)}
    earlier = tuple((i, float(row["startms"])) for i, name in enumerate(jobs.ids) for row in tries[name][:-1])
    # Who sleeps wakes at an end, not when nodes are clean.
    exact = "freedms" in rows[0] or ("cleanms" in rows[0] and not site.suspends)
    # Tasks of an array that waited for their turn, and jobs that were held, are eligible later than submitted.
    seen_s = np.array(
        [float(tries[name][0]["subms"] or row["endms"]) for name, row in zip(jobs.ids, rows, strict=True)]
    )
    start_s = np.array([float(row["startms"] or "nan") for row in rows])  # cancelled before
    left = np.isnan(start_s)
    leave_s = np.where(left, [float(row["endms"]) for row in rows], np.inf)
    freed_s = np.array([freed(row) if exact else float(row["endms"]) for row in rows])
    seen_s = seen_s - (0.0 if exact else 0.02)  # the log's line may come later than what it reports
    eligible_s = np.where(jobs.eligible_s > seen_s + 1, jobs.eligible_s, seen_s)
    freed_s = freed_s - (0.002 if exact else 0.0)  # the log's line comes after the pass that it allows
    run_s = np.where(left, jobs.limit_s, freed_s - start_s)
    run_s = run_s + LATE_S * (late & (np.array(jobs.ids) == LATE_JOB))
    run_s = np.array([asked_s(row) if row["state"] == "PREEMPTED" else s for row, s in zip(rows, run_s, strict=True)])
    given = rows_of(file("preempted.csv")) if file("preempted.csv") else ()
    preempted = tuple(
        (float(row["at"]), place[row["victim"]], place.get(row["preemptor"], -1), HOW.index(row["how"]))
        for row in given
    )
    slept_s = np.zeros(len(jobs))
    for at_s, row, _, how in preempted:
        slept_s[row] += {SUSPENDED: -at_s, RESUMED: at_s}.get(how, 0.0)
    jobs = replace(jobs, submit_s=seen_s, eligible_s=eligible_s, run_s=run_s, started_s=start_s, slept_s=slept_s)
    jobs = replace(jobs, leave_s=leave_s)
    dates = {kind: [] for kind in ("sched", "full", "bf", "tick", "limits")}
    for row in rows_of(file("cycles.csv")):
        dates[row["kind"]].append(float(row["at"]))
    clock = Clock(
        main_s=tuple(sorted(dates["sched"] + dates["full"])), full_s=tuple(dates["full"]), cycles_s=tuple(dates["bf"]),
        checks_s=tuple(dates["limits"]), overhead_s=0.0, cleaning_s=0.0 if exact else 0.014,
        first_decay_s=dates["tick"][0] - site.settings.calc_period_s if dates["tick"] else OWN_B_DECAY_S,
    )  # fmt: skip
    title = folder.name + late * f", job {LATE_JOB}'s nodes freed {LATE_S} s late"
    return Truth(title, site, jobs, clock, tuple(row["by"] for row in rows), 1.0, False, earlier, preempted)


def freed(row):
    return float(row.get("freedms") or row.get("cleanms") or float(row["endms"]) + CLEANING_S * ("cleanms" in row))


def asked_s(row):
    """How long a job that was killed would have run."""
    return float(row["run"]) + OVERHEAD_S


def own(name, *, late=False):
    """One of our own runs, such as `a` or `tasks`."""
    return recorded(OWN / f"own-{name}", late=late)


def public(folder):
    """The public run in this folder, which is not part of the project."""
    folder = Path(folder)
    site = read_site(folder / "slurm.conf", slurm_version="17.11")
    said = (folder / "associations.txt").read_text()
    accounts = re.findall(r"account name=(\w+) Fairshare=(\d+)", said)
    users = re.findall(r"user name=(\w+) DefaultAccount=(\w+)", said)
    associations = [Association(name, shares=int(shares)) for name, shares in accounts]
    associations += [Association(name, user) for user, name in users]
    rows = rows_of(folder / "jobs.csv")

    def number(key):
        return np.array([int(row[key]) for row in rows])

    def text(key):
        return tuple(row[key] for row in rows)

    per_node, memory_per_node = number("tasks_per_node"), number("mem_per_node_mb")
    jobs = SlurmJobs.of(
        (number("submit_s") + PUBLIC_BEGAN_S).astype(float), ids=text("id"), limit_s=number("limit_s"),
        run_s=number("sleep_s").astype(float), cpus=number("tasks"), nodes=-(-number("tasks") // per_node),
        cpus_per_node=per_node, memory_per_cpu_mb=np.where(memory_per_node > 0, 0, number("mem_per_cpu_mb")),
        memory_per_node_mb=memory_per_node, gpus_per_node=number("gpus"), constraint=text("constraint"),
        partition=("normal",) * len(rows), qos=("normal",) * len(rows), account=text("account"), user=text("user"),
        started_s=(number("start_s") + PUBLIC_BEGAN_S).astype(float),
        ran_on=tuple(row["nodes"].replace("+", ",") for row in rows),
    )  # fmt: skip
    # sdiag gives whole seconds; the cycles were about half a second later. The controller was 8 s old.
    cycles_s = tuple(PUBLIC_BEGAN_S + float(row["at_s"]) + 0.5 for row in rows_of(folder / "cycles.csv"))
    clock = Clock(cycles_s=cycles_s, first_decay_s=PUBLIC_BEGAN_S - 8.0, arrival_s=0.7, phase_s=0.6)
    site = replace(site, associations=tuple(associations))
    return Truth("public", site, jobs, clock, (), 3.0, True)


def distance(truth, run):
    """How far the run is from the truth."""
    jobs, site = truth.jobs, truth.site
    start_s = np.floor(run.start_s) if truth.whole_s else run.start_s
    names = [
        sorted(site.nodes[i].name for i in run.at[run.first[k] : run.first[k + 1]].tolist()) for k in range(len(jobs))
    ]
    never = np.isnan(jobs.started_s) & np.isnan(start_s)
    requeued = run.preempted[run.preempted["how"] == REQUEUED][["job", "start_s"]].tolist()
    # The log does not say who was ended by a check of time limits.
    events = [((row, by, how), at_s) for at_s, row, by, how, *_ in run.preempted.tolist() if by >= 0 or how > GRACED]
    known = [((row, by, how), at_s) for at_s, row, by, how in truth.preempted]
    return Distance(
        off_s=np.array([*np.where(never, 0.0, start_s - jobs.started_s), *differences(truth.earlier, requeued)]),
        same_nodes=np.array([a == sorted(expand(b) if b else []) for a, b in zip(names, jobs.ran_on, strict=True)]),
        same_pass=np.array([("", "main", "bf")[a] == b for a, b in zip(run.by, truth.by, strict=False)]),
        wrong=sum(not abs(off_s) <= 1 for off_s in differences(known, events)),
        backfilled=int((run.by == 2).sum()),
        waits_s=(start_s - jobs.submit_s)[~np.isnan(jobs.started_s)],
        true_waits_s=(jobs.started_s - jobs.submit_s)[~np.isnan(jobs.started_s)],
    )


def differences(real, found):
    """Of (key, date) pairs: the differences of the dates of equal keys, in turn; nan where only one has a date."""
    dates = defaultdict(lambda: ([], []))
    for side, pairs in enumerate((real, found)):
        for key, date in pairs:
            dates[key][side].append(date)
    return [b - a for both in dates.values() for a, b in zip_longest(*both, fillvalue=math.nan)]


def correlation(a, b):
    """Spearman's rank correlation, with the mean rank for equal values."""

    def ranks(values):
        _, place, count = np.unique(np.round(values, 3), return_inverse=True, return_counts=True)
        return (np.cumsum(count) - (count - 1) / 2)[place]

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])
