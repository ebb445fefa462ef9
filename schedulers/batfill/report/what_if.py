"""What other schedulers would have made of a cluster's own log: for all jobs, and for each group of jobs and users."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill import __version__
from batfill.campaign.summary import options_text
from batfill.errors import BatfillError, WorkloadError
from batfill.experiment import simulate
from batfill.metrics import TAU_S, bounded_slowdown
from batfill.options import Options
from batfill.report.comparison import Comparison, Difference, of_jobs
from batfill.workloads import read_workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from batfill.jobs import JobTable, Workload
    from batfill.workloads.swf import Overrun

THRESHOLDS_H = (6.0, 12.0, 24.0, 48.0, 96.0)
CLASSIFIED = "small first"
TOLERANCE = 1.1  # the longest wait may grow by a tenth over fcfs
FEWEST_JOBS = 20  # of a user who is asked whether he loses, and of a group


class Outcome(NamedTuple):
    """What one choice of options came to. Waits in seconds."""

    name: str
    threshold_s: float | None
    mean_bsld: float
    mean_wait_s: float
    p99_wait_s: float
    max_wait_s: float
    losers: float  # share of the users with `FEWEST_JOBS` who wait longer than under the first choice, on average


class Group(NamedTuple):
    """Some of the jobs, and what each choice but the first would change for them."""

    name: str
    jobs: int
    mean_wait_s: float  # under the first choice
    differences: list[Difference]


@dataclass(frozen=True, slots=True, eq=False)
class WhatIf:
    """The answer. The first choice, which all are compared with, is fcfs."""

    workload: Workload
    tau_s: float
    seed: int
    comparison: Comparison
    outcomes: list[Outcome]
    groups: list[Group]
    advice: Outcome | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON: times in seconds."""
        return {
            "workload": self.workload.name,
            "workload_sha256": self.workload.digest,
            "workload_notes": list(self.workload.notes),
            "warnings": list(self.workload.warnings),
            "procs": self.workload.procs,
            "jobs": len(self.comparison.at),
            "tau_s": self.tau_s,
            "seed": self.seed,
            "outcomes": [outcome._asdict() for outcome in self.outcomes],
            "groups": [
                {
                    "name": group.name,
                    "jobs": group.jobs,
                    "mean_wait_s": group.mean_wait_s,
                    "differences": [
                        {**d._asdict(), "bsld": d.bsld._asdict(), "wait_s": d.wait_s._asdict()}
                        for d in group.differences
                    ],
                }
                for group in self.groups
            ],
            "advice": self.advice.name if self.advice else None,
            "version": __version__,
        }


def what_if(
    path: Path,
    *,
    procs: int | None = None,
    overrun: Overrun = "keep",
    thresholds_h: Sequence[float] = THRESHOLDS_H,
    small_first: bool = True,
    tau_s: float = TAU_S,
    seed: int = 0,
    advance: Callable[[int], None] = lambda _: None,
) -> WhatIf:
    """Replay the log under every choice of `choices`.

    Args:
        path: the log, in any format that `read_workload` knows.
        procs: the machine's size; None for what the log says.
        overrun: see `read_workload`.
        thresholds_h: waiting times in hours after which jobs come first.
        small_first: whether the classifier's choice is among them.
        tau_s: the bound of the bounded slowdown.
        seed: of the bootstrap and of the classifier.
        advance: is told of every choice that was replayed.

    Raises:
        BatfillError: the log or an option cannot be used, or no job of the log fits the machine.
    """
    if not tau_s > 0:
        raise BatfillError(f"--tau: {tau_s!r} is not a number of seconds > 0")
    if seed < 0:
        raise BatfillError(f"--seed: {seed} is not a whole number >= 0")
    if wrong := [hours for hours in thresholds_h if not 0 < hours < math.inf]:
        raise BatfillError(f"--threshold: {wrong[0]!r} is not a number of hours > 0")
    workload = read_workload(path, procs=procs, overrun=overrun)
    if workload.procs is None:
        raise WorkloadError(f"{path}: does not say how many processors the machine has; give --procs N")
    ran = workload.jobs.procs <= workload.procs
    if not ran.any():
        raise WorkloadError(f"{path}: no job fits {workload.procs} processors; give a larger --procs")
    jobs = workload.jobs.select(ran)
    given = choices(thresholds_h, small_first, seed)
    waits, bslds = [], []
    for choice in given:
        schedule, _ = simulate(jobs, workload, Options.of(choice))
        waits.append(schedule.start_s - jobs.submit_s)
        bslds.append(bounded_slowdown(waits[-1], schedule.runtime_s, tau_s))
        advance(1)
    names = tuple(name_of(choice) for choice in given)
    comparison = of_jobs(names, jobs.submit_s, np.array(bslds), np.array(waits))
    outcomes = [outcome_of(comparison, k, choice["threshold"], jobs.user) for k, choice in enumerate(given)]
    groups = [
        Group(
            name,
            int(rows.sum()),
            float(comparison.wait_s[0][rows].mean()),
            differences_of(comparison, jobs.submit_s, rows, seed),
        )
        for name, rows in groups_of(jobs, workload.procs)
        if rows.sum() >= FEWEST_JOBS
    ]
    return WhatIf(workload, tau_s, seed, comparison, outcomes, groups, advised(outcomes))


def choices(thresholds_h: Sequence[float], small_first: bool, seed: int) -> list[dict[str, Any]]:
    """The options of each choice, as `Options.of` takes them: fcfs, spf, saf, saf with thresholds, small first."""
    plain = [{"policy": policy, "backfill": "same", "threshold": None} for policy in ("fcfs", "spf", "saf")]
    bounded = [{**plain[-1], "threshold": 3600 * hours} for hours in sorted(set(thresholds_h))]
    learning = {**plain[0], "knowledge": "classifier", "seed": seed}
    return [*plain, *bounded, *([learning] if small_first else [])]


def name_of(choice: dict[str, Any]) -> str:
    """What the choice is called, with its threshold in hours."""
    if "knowledge" in choice:
        return CLASSIFIED
    text = options_text(choice["policy"], choice["backfill"], None, "user", None)
    return text if choice["threshold"] is None else f"{text}, threshold {choice['threshold'] / 3600:g} h"


def outcome_of(comparison: Comparison, k: int, threshold_s: float | None, user: NDArray[np.int64]) -> Outcome:
    """The figures of the k-th choice; `user` of each job, -1 where unknown."""
    wait_s = comparison.wait_s[k]
    users, where, jobs = np.unique(user, return_inverse=True, return_counts=True)
    longer = np.bincount(where, weights=wait_s - comparison.wait_s[0]) > 0
    asked = (jobs >= FEWEST_JOBS) & (users >= 0)
    return Outcome(
        name=comparison.names[k],
        threshold_s=threshold_s,
        mean_bsld=float(comparison.bsld[k].mean()),
        mean_wait_s=float(wait_s.mean()),
        p99_wait_s=float(np.quantile(wait_s, 0.99)),
        max_wait_s=float(wait_s.max()),
        losers=float(longer[asked].mean()) if asked.any() else 0.0,
    )


def advised(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The threshold with the lowest mean bsld among those that keep the longest wait within a tenth of fcfs's.

    None where every threshold lets somebody wait longer than that.
    """
    fcfs = outcomes[0]
    kept = [o for o in outcomes if o.threshold_s is not None and o.max_wait_s <= TOLERANCE * fcfs.max_wait_s]
    return min(kept, key=lambda o: o.mean_bsld, default=None)


def groups_of(jobs: JobTable, size: int) -> list[tuple[str, NDArray[np.bool_]]]:
    """Jobs by width, by time run, and by how much of all the work their user does."""
    q, p = jobs.procs, jobs.runtime_s
    found = [
        ("1 processor", q == 1),
        ("up to 1/16 of the machine", (q > 1) & (q <= size / 16)),
        ("up to 1/4 of the machine", (q > max(1, size / 16)) & (q <= size / 4)),
        ("wider", q > max(1, size / 4)),
        ("ran up to 10 min", p <= 600),
        ("ran up to 1 h", (p > 600) & (p <= 3600)),
        ("ran longer", p > 3600),
    ]
    users, where = np.unique(jobs.user, return_inverse=True)
    if users[0] >= 0 and len(users) >= 3:  # every job's user is known
        work = np.bincount(where, weights=p * q)
        most_first = np.argsort(-work, kind="stable")
        before = np.zeros(len(users))
        before[most_first] = np.cumsum(work[most_first]) - work[most_first]
        third = np.minimum(3 * before / max(work.sum(), 1), 2).astype(np.int64)[where]
        for k, words in enumerate(("the heaviest users", "users between", "the lightest users")):
            count = len(np.unique(jobs.user[third == k]))
            found.append((f"{words} ({count}, about a third of the work)", third == k))
    return found


def differences_of(
    comparison: Comparison, submit_s: NDArray[np.float64], rows: NDArray[np.bool_], seed: int
) -> list[Difference]:
    """What changes for these jobs."""
    return of_jobs(comparison.names, submit_s[rows], comparison.bsld[:, rows], comparison.wait_s[:, rows]).differences(
        seed
    )
