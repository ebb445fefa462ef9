"""Online selection on resampled logs, compared with each policy used throughout: the work of `batfill select`."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.errors import BatfillError, WorkloadError
from batfill.jobs import DAY_S, WEEK_S
from batfill.metrics import long_waits
from batfill.options import SAME
from batfill.policy import POLICIES, Policy
from batfill.progress import patient_progress
from batfill.replays import Schedule, replay, thread_pool
from batfill.stats import comparison_warnings, paired
from batfill.tuning.online import select_online, selection_and_site
from batfill.tuning.results import Found, comparison_cells, document, recommendation
from batfill.workloads.formats import replayable
from batfill.workloads.resampling import resample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.jobs import JobTable, Overrun, Unrequested, Workload
    from batfill.processes import Bar
    from batfill.tuning.bandits import Method
    from batfill.tuning.feedback import Site
    from batfill.tuning.online import Selection
    from batfill.workloads.formats import Source


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """A log as it is, or resampled by whole weeks; sample k of a seed does not depend on how many are drawn."""

    source: Source  # with the machine's size
    warnings: tuple[str, ...]  # see `Workload.warnings`; for the whole log
    resampled: bool
    weeks: int | None  # length of a sample; None for the log's
    seed: int

    @classmethod
    def of(
        cls,
        log: Workload | str | Path,
        *,
        procs: int | None,
        resampled: bool,
        weeks: int | None,
        seed: int,
        overrun: Overrun | None = None,
        unrequested: Unrequested | None = None,
    ) -> Samples:
        """The samples of a log.

        Raises:
            BatfillError: the log cannot be read, its machine's size is not known, too many of its jobs have no request,
                or an option does nothing.
        """
        if weeks is not None and not resampled:
            raise BatfillError("--weeks: only samples differ in length from the log; add --samples 10, or leave it out")
        source = replayable(log, procs=procs, overrun=overrun, unrequested=unrequested)
        workload = source.workload(source.log)
        if workload.procs is None:
            raise WorkloadError(f"{source.where}: does not say how many processors the machine has; give --procs N")
        return cls(source._replace(procs=workload.procs), workload.warnings, resampled, weeks, seed)

    @property
    def procs(self) -> int:
        """The machine's size."""
        assert self.source.procs is not None
        return self.source.procs

    def jobs(self, sample: int) -> JobTable:
        """The jobs of one sample."""
        log = self.source.log
        if self.resampled:
            log = resample(log, self.seed, sample=sample, method="weeks", weeks=self.weeks)
        return self.source.workload(log).jobs

    def provenance(self) -> dict[str, Any]:
        """The input, for result files."""
        return {
            "source": Path(self.source.where).name,
            "source_sha256": self.source.digest,
            "overrun": self.source.overrun,
            "unrequested": self.source.unrequested,
            "resampled": "weeks" if self.resampled else None,
            "weeks": self.weeks,
            "warnings": list(self.warnings),
        }


BASELINE = "fcfs"  # what all are compared with
ONLINE = "chosen online"


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """Online selection on one log."""

    chosen: NDArray[np.int64]  # (n_periods,)  index of each period's policy
    ratios: NDArray[np.float64]  # (n_periods,)  mean wait of all jobs submitted so far over that under EASY-FCFS
    pure: NDArray[np.float64]  # (n_policies,)  each policy's mean wait over that under EASY-FCFS, if used throughout
    # By BASELINE, ONLINE, and the policies used throughout:
    waited_s: dict[str, NDArray[np.float64]]  # (n_periods,)  the total wait of the jobs submitted in each period
    long: dict[str, dict[str, float]]  # see `long_waits`; `day_longer`: the jobs' share that waits a day longer than
    # under BASELINE

    @property
    def ratio(self) -> float:
        """The ratio for the whole log."""
        return float(self.ratios[-1])


def course(jobs: JobTable, selection: Selection, site: Site, sample: int) -> Course:
    """Select online on one log, and compare with each policy used throughout."""

    def throughout(policy: Policy) -> Schedule:
        return replay(jobs, site.size, policy, backfill=site.backfill, threshold_s=site.threshold_s)

    selector = selection.selector(site, sample)
    schedules = {
        BASELINE: throughout(POLICIES[BASELINE]),
        ONLINE: select_online(jobs, selector, selection.period_s),
        **{policy.name: throughout(policy) for policy in selection.policies},
    }
    waited = {name: waits(schedule) for name, schedule in schedules.items()}
    last = np.maximum(np.ceil(jobs.submit_s / selection.period_s).astype(np.int64) - 1, 0)  # the period of a submission
    n_periods = int(last[-1]) + 1
    so_far = np.searchsorted(last, np.arange(n_periods), side="right") - 1
    ours, baseline = (np.cumsum(waited[name])[so_far] for name in (ONLINE, BASELINE))
    ratios = np.divide(ours, baseline, out=np.ones(n_periods), where=baseline > 0)
    total = waited[BASELINE].sum() or 1.0
    by_period = {name: np.bincount(last, each, n_periods).astype(np.float64) for name, each in waited.items()}
    return Course(
        chosen=np.array(selector.chosen[:n_periods]),
        ratios=ratios,
        pure=np.array([waited[policy.name].sum() / total for policy in selection.policies]),
        waited_s=by_period,
        long={
            name: {
                **long_waits(waited[name][~schedule.rejected]),
                "day_longer": float((waited[name] - waited[BASELINE] > DAY_S)[~schedule.rejected].mean()),
            }
            for name, schedule in schedules.items()
        },
    )


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
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    bar: Bar | None = None,
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
        overrun: see `read_workload`.
        unrequested: see `read_workload`.
        bar: makes progress bars; by default one appears after two seconds.

    Returns:
        The content of the result file; a row for online selection and for each policy used throughout. The comparison
        with EASY-FCFS and the recommendation are those on the log as it is, with samples too.

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
    logs = Samples.of(
        log,
        procs=procs,
        resampled=samples > 0,
        weeks=weeks,
        seed=seed,
        overrun=overrun,
        unrequested=unrequested,
    )
    selection, site = selection_and_site(given, logs.procs, SAME if backfill is None else backfill, threshold_s)
    n_logs = max(samples, 1)
    itself = replace(logs, resampled=False).jobs(0) if samples else None
    with (bar or patient_progress)("logs", n_logs + (itself is not None)) as advance:
        content = compare_online(
            logs.jobs, n_logs, selection, site, itself=itself, source=logs.provenance(), advance=advance
        )
    advice = f"{'on the log as it is: ' * (itself is not None)}{content['recommendation']['text']}"
    return Found(content, rows_of(content), "\n".join([advice, *content["warnings"]]))


def compare_online(
    logs: Callable[[int], JobTable],
    samples: int,
    selection: Selection,
    site: Site,
    *,
    itself: JobTable | None = None,
    source: dict[str, Any],
    advance: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """The result file of online selection on `samples` logs; `logs` gives the k-th, `source` describes them.

    `itself` is the log as it is, on which all are compared with EASY-FCFS: resamplings of one log are not
    independent logs. By default it is the first of `logs`.
    """

    def work(sample: int) -> Course:
        jobs = logs(sample) if sample < samples or itself is None else itself
        return course(jobs, selection, site, sample)

    courses = []
    with thread_pool(len(os.sched_getaffinity(0))) as pool:
        for done in pool.map(work, range(samples + (itself is not None))):
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
        results={
            **results_of(courses[:samples], names),
            **comparison_of(courses[-1] if itself is not None else courses[0], selection.seed),
        },
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
        "long_waits": {name: over_samples(courses, name) for name in courses[0].long},
        "throughout": {name: band([float(one.pure[i]) for one in courses]) for i, name in enumerate(names)},
        "by_period": [
            {"period": i, "wait_over_fcfs": ratio, "shares": share}
            for i, (ratio, share) in enumerate(zip(ratios, shares, strict=True))
        ],
    }


def comparison_of(one: Course, seed: int) -> dict[str, Any]:
    """All choices against EASY-FCFS on one log, by the total waits of the jobs submitted in each period."""
    base = one.waited_s[BASELINE]
    names = [name for name in one.waited_s if name != BASELINE and base.any()]
    costs = np.array([one.waited_s[name] for name in names])
    found = dict(zip(names, paired(costs, base, seed=seed), strict=True))
    periods = f"{len(base)} periods"
    return {
        "over_fcfs": {name: each.as_dict() for name, each in found.items()},
        "recommendation": recommendation(found, one.long, BASELINE, what="the mean wait", periods=periods),
        "warnings": list(comparison_warnings(found, len(base), "periods")) if names else [],
    }


def over_samples(courses: Sequence[Course], name: str) -> dict[str, float]:
    """The long waits of a choice: the longest of all; of the 99.9 % quantiles and shares, the means."""
    found = [one.long[name] for one in courses]
    return {
        "p999_wait_s": float(np.mean([each["p999_wait_s"] for each in found])),
        "max_wait_s": max(each["max_wait_s"] for each in found),
        "day_longer": float(np.mean([each["day_longer"] for each in found])),
    }


def band(values: Sequence[float]) -> dict[str, float]:
    """The mean, and the band from the 10th to the 90th percentile."""
    low, high = np.quantile(values, [0.1, 0.9])
    return {"mean": float(np.mean(values)), "p10": float(low), "p90": float(high)}


def rows_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Online selection among the policies used throughout, best first.

    Of the log as it is, with the comparison with EASY-FCFS; of samples, with the band.
    """
    lines = {ONLINE: found["wait_over_fcfs"], **found["throughout"]}
    resampled = found["input"]["resampled"] is not None
    rows = [
        {
            "policy": name,
            "wait/fcfs": line["mean"],
            **(
                {"p10": line["p10"], "p90": line["p90"]}
                if resampled
                else comparison_cells(found["over_fcfs"].get(name))
            ),
            "share": mean_share(found, name),
            **found["long_waits"][name],
        }
        for name, line in lines.items()
    ]
    return sorted(rows, key=lambda row: (row["wait/fcfs"], row["policy"]))


def mean_share(found: dict[str, Any], name: str) -> float | None:
    """The share of periods in which a policy was chosen; None if the name is not a policy."""
    shares = [period["shares"].get(name) for period in found["by_period"]]
    return None if None in shares else float(np.mean(shares))
