"""Online selection on resampled logs, compared with each policy used throughout: the work of `batfill select`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.errors import BatfillError, WorkloadError
from batfill.jobs import WEEK_S
from batfill.options import SAME
from batfill.policy import POLICIES, Policy
from batfill.processes import no_bar
from batfill.replays import Schedule, replay, thread_pool
from batfill.tuning.online import select_online, selection_and_site
from batfill.tuning.results import Found, document
from batfill.workloads.formats import source_of
from batfill.workloads.resampling import resample
from batfill.workloads.swf import workload_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.jobs import JobTable, Workload
    from batfill.processes import Bar
    from batfill.tuning.bandits import Method
    from batfill.tuning.feedback import Site
    from batfill.tuning.online import Selection
    from batfill.workloads.swf_log import SwfLog


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """A log as it is, or resampled by whole weeks; sample k of a seed does not depend on how many are drawn."""

    path: Path | str  # the file, or the name of a generated workload
    digest: str
    log: SwfLog
    procs: int
    warnings: tuple[str, ...]  # see `Workload.warnings`; for the whole log
    resampled: bool
    weeks: int | None  # length of a sample; None for the log's
    seed: int

    @classmethod
    def of(
        cls, log: Workload | str | Path, *, procs: int | None, resampled: bool, weeks: int | None, seed: int
    ) -> Samples:
        """The samples of a log.

        Raises:
            BatfillError: the log cannot be read, its machine's size is not known, or an option does nothing.
        """
        if weeks is not None and not resampled:
            raise BatfillError("--weeks: only samples differ in length from the log; add --samples, or leave it out")
        source = source_of(log, procs=procs)
        workload = workload_of(source.where, source.log, procs=source.procs)
        if workload.procs is None:
            raise WorkloadError(f"{source.where}: does not say how many processors the machine has; give --procs N")
        return cls(source.where, source.digest, source.log, workload.procs, workload.warnings, resampled, weeks, seed)

    def jobs(self, sample: int) -> JobTable:
        """The jobs of one sample."""
        log = self.log
        if self.resampled:
            log = resample(log, self.seed, sample=sample, method="weeks", weeks=self.weeks)
        return workload_of(self.path, log, procs=self.procs).jobs

    def provenance(self) -> dict[str, Any]:
        """The input, for result files."""
        return {
            "source": Path(self.path).name,
            "source_sha256": self.digest,
            "resampled": "weeks" if self.resampled else None,
            "weeks": self.weeks,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """Online selection on one log."""

    chosen: NDArray[np.int64]  # (n_periods,)  index of each period's policy
    ratios: NDArray[np.float64]  # (n_periods,)  mean wait of all jobs submitted so far over that under EASY-FCFS
    pure: NDArray[np.float64]  # (n_policies,)  each policy's mean wait over that under EASY-FCFS, if used throughout

    @property
    def ratio(self) -> float:
        """The ratio for the whole log."""
        return float(self.ratios[-1])


def course(jobs: JobTable, selection: Selection, site: Site, sample: int) -> Course:
    """Select online on one log, and compare with each policy used throughout."""

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


def select(
    log: Workload | str | Path,
    method: Method = "full",
    *,
    procs: int | None = None,
    policies: str | Sequence[str] = "ten",
    period_s: float = WEEK_S,
    lambda_: float | None = None,
    alpha: float | None = None,
    epsilon: float | None = None,
    gamma: float | None = None,
    noise: float | str | None = None,
    backfill: Policy | str | None = None,
    threshold_s: float | None = None,
    samples: int = 0,
    weeks: int | None = None,
    seed: int = 0,
    bar: Bar = no_bar,
) -> Found:
    """Select the policy after each period, from the past periods, and compare waits with EASY-FCFS.

    Args:
        log: a workload or a file, as for `read_workload`.
        method: replay each past period under all policies, exactly ("full") or with errors ("noisy"); or learn only
            from the policy used, by "epsilon-greedy", "ucb1" or "exp3".
        procs: the machine's size; by default the log's.
        policies: "ten", "twelve", names separated by commas, or a sequence of names.
        period_s: Delta, the time between choices.
        lambda_: full, noisy: factor by which a period's weight falls with each later period; 0.9 by default.
        alpha: full, noisy: 1, the default, weights periods by their jobs, 0 equally.
        epsilon: epsilon-greedy: probability of a random choice; 0.1 by default.
        gamma: exp3: probability of a random choice; 0.1 by default.
        noise: noisy: "walltime", the default, replays with requested times; a number spreads run times.
        backfill: the order of backfilling; the queue's own by default.
        threshold_s: jobs that have waited longer come first.
        samples: number of resamplings by weeks; 0 uses the log as it is.
        weeks: length of a sample; the log's by default.
        seed: of the samples, the noise and the choices.
        bar: makes progress bars.

    Returns:
        The content of the result file; a row for online selection and for each policy used throughout.

    Raises:
        BatfillError: the log or an option cannot be used.

    Examples:
        >>> from batfill.workloads import generate_workload
        >>> found = select(generate_workload(jobs=300, procs=32, seed=1), policies=["fcfs", "saf"], period_s=7200)
        >>> sorted(found.to_pandas()["policy"])
        ['chosen online', 'fcfs', 'saf']
    """
    own = {"lambda": lambda_, "alpha": alpha, "epsilon": epsilon, "gamma": gamma, "noise": noise}
    named = policies if isinstance(policies, str) else ";".join(policies)
    given = {"select": method, "policies": named, "period": period_s, **own, "select-seed": seed}
    logs = Samples.of(log, procs=procs, resampled=samples > 0, weeks=weeks, seed=seed)
    selection, site = selection_and_site(given, logs.procs, SAME if backfill is None else backfill, threshold_s)
    n_logs = max(samples, 1)
    with bar("logs", n_logs) as advance:
        content = compare_online(logs.jobs, n_logs, selection, site, source=logs.provenance(), advance=advance)
    return Found(content, rows_of(content))


def compare_online(
    logs: Callable[[int], JobTable],
    samples: int,
    selection: Selection,
    site: Site,
    *,
    source: dict[str, Any],
    advance: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """The result file of online selection on `samples` logs; `logs` gives the k-th, `source` describes them."""

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
    """Mean waits relative to EASY-FCFS with their bands, and the policies chosen; below 1 is better."""
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
    """The mean, and the band from the 10th to the 90th percentile."""
    low, high = np.quantile(values, [0.1, 0.9])
    return {"mean": float(np.mean(values)), "p10": float(low), "p90": float(high)}


def rows_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Online selection among the policies used throughout, best first."""
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
    """The share of periods in which a policy was chosen; None if the name is not a policy."""
    shares = [period["shares"].get(name) for period in found["by_period"]]
    return None if None in shares else float(np.mean(shares))
