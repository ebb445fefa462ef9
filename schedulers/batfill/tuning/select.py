"""Online choice on many resampled logs, compared with each policy used throughout: what `batfill select` does."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.errors import BatfillError, WorkloadError
from batfill.files import digest
from batfill.options import SAME
from batfill.policy import POLICIES, Policy
from batfill.replays import Schedule, replay, thread_pool
from batfill.tuning.online import select_online
from batfill.tuning.results import document
from batfill.workloads.formats import load_log
from batfill.workloads.resampling import resample
from batfill.workloads.swf import workload_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from batfill.jobs import JobTable
    from batfill.tuning.feedback import Site
    from batfill.tuning.online import Selection
    from batfill.workloads.swf_log import SwfLog


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """A log as it is, or resampled by whole weeks; the k-th sample of a seed is the same however many are made."""

    path: Path
    log: SwfLog
    procs: int
    warnings: tuple[str, ...]  # see `Workload.warnings`; of the whole log
    resampled: bool
    weeks: int | None  # of a sample; None for as many as the log has
    seed: int

    @classmethod
    def of(cls, path: Path, *, procs: int | None, resampled: bool, weeks: int | None, seed: int) -> Samples:
        """The samples of a log's file.

        Raises:
            BatfillError: the log cannot be read, its machine's size is not known, or an option does nothing.
        """
        if weeks is not None and not resampled:
            raise BatfillError("--weeks: only samples have another length than the log; add --samples, or leave it out")
        log = load_log(path)
        workload = workload_of(path, log, procs=procs)
        if workload.procs is None:
            raise WorkloadError(f"{path}: does not say how many processors the machine has; give --procs N")
        return cls(path, log, workload.procs, workload.warnings, resampled, weeks, seed)

    def jobs(self, sample: int) -> JobTable:
        """The jobs of one of them."""
        log = self.log
        if self.resampled:
            log = resample(log, self.seed, sample=sample, method="weeks", weeks=self.weeks)
        return workload_of(self.path, log, procs=self.procs).jobs

    def provenance(self) -> dict[str, Any]:
        """What result files say of the input."""
        return {
            "source": self.path.name,
            "source_sha256": digest(self.path),
            "resampled": "weeks" if self.resampled else None,
            "weeks": self.weeks,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """One log, chosen for online."""

    chosen: NDArray[np.int64]  # (n_periods,)  place of each period's policy
    ratios: NDArray[np.float64]  # (n_periods,)  mean wait of all jobs submitted so far over that under EASY-FCFS
    pure: NDArray[np.float64]  # (n_policies,)  each policy's mean wait over that under EASY-FCFS, if used throughout

    @property
    def ratio(self) -> float:
        """The whole log's."""
        return float(self.ratios[-1])


def course(jobs: JobTable, selection: Selection, site: Site, sample: int) -> Course:
    """Choose online on one log, and compare with each policy used throughout."""

    def throughout(policy: Policy) -> Schedule:
        return replay(jobs, site.size, policy, backfill=site.backfill, threshold_s=site.threshold_s)

    fcfs = waits(throughout(POLICIES["fcfs"]))
    selector = selection.selector(site, sample)
    ours = waits(select_online(jobs, selector, selection.period_s))
    last = np.maximum(np.ceil(jobs.submit_s / selection.period_s).astype(np.int64) - 1, 0)  # the period of a submission
    n_periods = int(last[-1]) + 1
    so_far = np.searchsorted(last, np.arange(n_periods), side="right") - 1
    waited, baseline = np.cumsum(ours)[so_far], np.cumsum(fcfs)[so_far]
    ratios = np.divide(waited, baseline, out=np.ones(n_periods), where=baseline > 0)
    total = fcfs.sum() or 1.0
    pure = np.array([waits(throughout(policy)).sum() / total for policy in selection.policies])
    return Course(np.array(selector.chosen[:n_periods]), ratios, pure)


def waits(schedule: Schedule) -> NDArray[np.float64]:
    """Every job's wait in seconds, 0 for a rejected one."""
    return np.nan_to_num(schedule.start_s - schedule.jobs.submit_s)


def compare_online(
    logs: Callable[[int], JobTable],
    samples: int,
    selection: Selection,
    site: Site,
    *,
    source: dict[str, Any],
    advance: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """The result file of choosing online on `samples` logs; `logs` gives the k-th, `source` says what they are."""

    def work(sample: int) -> Course:
        return course(logs(sample), selection, site, sample)

    courses = []
    with thread_pool(len(os.sched_getaffinity(0))) as pool:
        for done in pool.map(work, range(samples)):
            courses.append(done)
            advance(1)
    names = [policy.name for policy in selection.policies]
    return document(
        "select",
        seed=selection.seed,
        given={
            **selection.as_dict(),
            "backfill": site.backfill.name if site.backfill else SAME,
            "threshold": site.threshold_s,
        },
        source={**source, "procs": site.size, "samples": samples},
        results=results_of(courses, names),
    )


def results_of(courses: Sequence[Course], names: Sequence[str]) -> dict[str, Any]:
    """Mean waits over EASY-FCFS's with their bands, and who was chosen when; below 1 is better."""
    n_periods = max(len(one.chosen) for one in courses)
    shares, ratios = [], []
    for period in range(n_periods):
        there = [one for one in courses if period < len(one.chosen)]
        counts = np.bincount([one.chosen[period] for one in there], minlength=len(names))
        shares.append(dict(zip(names, (counts / len(there)).tolist(), strict=True)))
        ratios.append(band([float(one.ratios[period]) for one in there]))
    return {
        "wait_over_fcfs": band([one.ratio for one in courses]),
        "throughout": {name: band([float(one.pure[i]) for one in courses]) for i, name in enumerate(names)},
        "by_period": [
            {"period": i, "wait_over_fcfs": ratio, "shares": share}
            for i, (ratio, share) in enumerate(zip(ratios, shares, strict=True))
        ],
    }


def band(values: Sequence[float]) -> dict[str, float]:
    """Their mean, and the band from the tenth to the ninetieth percentile."""
    low, high = np.quantile(values, [0.1, 0.9])
    return {"mean": float(np.mean(values)), "p10": float(low), "p90": float(high)}


def rows_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """What a reader wants first: the chooser among the policies used throughout, best first."""
    lines = {"chosen online": found["wait_over_fcfs"], **found["throughout"]}
    rows = [
        {
            "policy": name,
            "wait/fcfs": line["mean"],
            "p10": line["p10"],
            "p90": line["p90"],
            "share": mean_share(found, name),
        }
        for name, line in lines.items()
    ]
    return sorted(rows, key=lambda row: (row["wait/fcfs"], row["policy"]))


def mean_share(found: dict[str, Any], name: str) -> float | None:
    """In which part of the periods a policy was chosen; None for what is not a policy."""
    shares = [period["shares"].get(name) for period in found["by_period"]]
    return None if None in shares else float(np.mean(shares))
