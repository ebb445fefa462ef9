"""Online selection on resampled logs, compared with each policy used throughout: the work of `batfill select`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError, WorkloadError
from batfill.model.jobs import DAY_S, WEEK_S
from batfill.model.kinds import SAME
from batfill.model.metrics import long_waits
from batfill.model.policy import POLICIES, Policy
from batfill.model.schedule import Schedule
from batfill.replays.engine_replay import replay_jobs
from batfill.replays.found import Found, ReadingOptions, document
from batfill.replays.many import in_threads
from batfill.workloads.formats import part_of
from batfill.workloads.times import resample
from batfill_lab.online.selection import select_online, selection_and_site
from batfill_lab.search.judged import WAITS, Seeded, comparison_cells, judged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.model.jobs import Jobs
    from batfill_lab.online.choosers import Method
    from batfill_lab.online.feedback import Site
    from batfill_lab.online.selection import Selection


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """A log, and its resamplings by whole weeks; sample k of a seed does not depend on how many are drawn."""

    source: Jobs  # with the machine's size
    warnings: tuple[str, ...]  # see `Jobs.warnings`; for the whole log
    resampled: bool
    weeks: int | None  # length of a sample; None for the log's
    seed: int

    @classmethod
    def of(
        cls, log: Jobs | str | Path, reading: ReadingOptions, *, resampled: bool, weeks: int | None, seed: int
    ) -> Samples:
        if weeks is not None and not resampled:
            raise BatfillError("--weeks: only samples differ in length from the log; add --samples 10, or leave it out")
        source = reading.source(log)
        workload = part_of(source, source.log)
        if workload.size is None:
            raise WorkloadError(f"{source.where}: does not say how many processors the machine has; give --procs N")
        return cls(source, workload.warnings, resampled, weeks, seed)

    @property
    def procs(self) -> int:
        assert self.source.size is not None
        return self.source.size

    def jobs(self, sample: int | None) -> Jobs:
        """The jobs of one sample; None for the log as it is, as is each of one that is not resampled."""
        log = self.source.log
        if self.resampled and sample is not None:
            log = resample(log, self.seed, sample=sample, method="weeks", weeks=self.weeks)
        return part_of(self.source, log)

    def provenance(self) -> dict[str, Any]:
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
        return float(self.ratios[-1])


def course(jobs: Jobs, selection: Selection, site: Site, sample: int) -> Course:
    def throughout(policy: Policy) -> Schedule:
        return replay_jobs(jobs, site.size, site.under(policy))

    selector = selection.selector(site, sample)
    schedules = {
        BASELINE: throughout(POLICIES[BASELINE]),
        ONLINE: select_online(jobs, selector, selection.period_s),
        **{policy.name: throughout(policy) for policy in selection.policies},
    }
    # A rejected job does not wait.
    waited = {name: np.nan_to_num(schedule.start_s - jobs.submit_s) for name, schedule in schedules.items()}
    ran = ~schedules[BASELINE].rejected
    last = np.maximum(np.ceil(jobs.submit_s / selection.period_s).astype(np.int64) - 1, 0)  # the period of a submission
    n_periods = int(last[-1]) + 1
    so_far = np.searchsorted(last, np.arange(n_periods), side="right") - 1
    ours, baseline = (np.cumsum(waited[name])[so_far] for name in (ONLINE, BASELINE))
    total = waited[BASELINE].sum() or 1.0
    return Course(
        chosen=np.array(selector.chosen[:n_periods]),
        ratios=np.divide(ours, baseline, out=np.ones(n_periods), where=baseline > 0),
        pure=np.array([waited[policy.name].sum() / total for policy in selection.policies]),
        waited_s={name: np.bincount(last, each, n_periods).astype(np.float64) for name, each in waited.items()},
        long={
            name: {**long_waits(each[ran]), "day_longer": float((each - waited[BASELINE] > DAY_S)[ran].mean())}
            for name, each in waited.items()
        },
    )


@dataclass(frozen=True, kw_only=True)
class Choosing(Seeded):
    """What `select` takes, too; the options of choosers are for the methods named."""

    lambda_: float | None = None  # full, noisy: factor by which a period's weight falls with each later one; 0.9
    alpha: float | None = None  # full, noisy: 1, the default, weights periods by their jobs, 0 equally
    epsilon: float | None = None  # epsilon-greedy: probability of a random choice; 0.1 by default
    gamma: float | None = None  # exp3: probability of a random choice; 0.1 by default
    noise: float | str | None = None  # noisy: "walltime", the default, replays with requested times; a number spreads
    # run times
    backfill: Policy | str | None = None  # the order of backfilling; the queue's own by default
    threshold_s: float | None = None  # jobs that have waited longer come first


def select(
    log: Jobs | str | Path,
    method: Method = "full",
    *,
    policies: str | Sequence[str] = "ten",
    period_s: float = WEEK_S,
    samples: int = 0,
    weeks: int | None = None,
    **choosing: Any,
) -> Found:
    """Select the policy after each period, from the past periods, and compare waits with EASY-FCFS.

    Args:
        log: a workload or a file, as for `read_workload`.
        method: replay each past period under all policies, exactly ("full") or with errors ("noisy"); or learn only
            from the policy used, by "epsilon-greedy", "ucb1" or "exp3".
        policies: "ten", "twelve", names separated by commas, or a sequence of names.
        period_s: Delta, the time between choices.
        samples: number of resamplings by weeks; 0 uses the log as it is.
        weeks: length of a sample; the log's by default.
        **choosing: lambda_, alpha, epsilon, gamma, noise, backfill, threshold_s, seed, bar, procs, overrun,
            unrequested: see `Choosing`.

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
    how = Choosing.of(**choosing)
    own = {"lambda": how.lambda_, **{name: getattr(how, name) for name in ("alpha", "epsilon", "gamma", "noise")}}
    named = policies if isinstance(policies, str) else ";".join(policies)
    given = {"select": method, "policies": named, "period": period_s, **own, "seed": how.seed}
    logs = Samples.of(log, how, resampled=samples > 0, weeks=weeks, seed=how.seed)
    selection, site = selection_and_site(given, logs.procs, how.backfill, how.threshold_s)
    n_logs = max(samples, 1)
    itself = logs.jobs(None) if samples else None
    with how.progress("logs", n_logs + (itself is not None)) as advance:
        content = compare_online(
            logs.jobs, n_logs, selection, site, itself=itself, source=logs.provenance(), advance=advance
        )
    advice = f"{'on the log as it is: ' * (itself is not None)}{content['recommendation']['text']}"
    return Found(content, selection_rows(content), "\n".join([advice, *content["warnings"]]))


def compare_online(
    logs: Callable[[int], Jobs],
    samples: int,
    selection: Selection,
    site: Site,
    *,
    itself: Jobs | None = None,
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

    courses = in_threads(work, range(samples + (itself is not None)), advance)
    one = courses[0 if itself is None else -1]
    names = list(one.waited_s) if one.waited_s[BASELINE].any() else [BASELINE]  # nothing to gain if no job waits
    return document(
        "select",
        seed=selection.seed,
        given={
            **selection.as_dict(),
            "backfill": site.rules.backfill.name if site.rules.backfill else SAME,
            "threshold": site.rules.threshold_s,
        },
        source={**source, "procs": site.size, "samples": samples},
        results={
            **selection_results(courses[:samples], [policy.name for policy in selection.policies]),
            **judged(
                {name: one.waited_s[name] for name in names},
                one.long,
                BASELINE,
                seed=selection.seed,
                over="over_fcfs",
                what="the mean wait",
                periods="periods",
            ),
        },
    )


def selection_results(courses: Sequence[Course], names: Sequence[str]) -> dict[str, Any]:
    """Mean waits relative to EASY-FCFS with their bands, and the policies chosen; below 1 is better."""
    by_period = []
    for period in range(max(len(one.chosen) for one in courses)):
        there = [one for one in courses if period < len(one.chosen)]
        shares = np.bincount([one.chosen[period] for one in there], minlength=len(names)) / len(there)
        ratio = band([float(one.ratios[period]) for one in there])
        by_period.append(
            {"period": period, "wait_over_fcfs": ratio, "shares": dict(zip(names, shares.tolist(), strict=True))}
        )
    return {
        "wait_over_fcfs": band([one.ratio for one in courses]),
        "long_waits": {
            # The longest of all; of the 99.9 % quantiles and shares, the means.
            name: {
                figure: (max if figure == "max_wait_s" else np.mean)([one.long[name][figure] for one in courses])
                for figure in courses[0].long[name]
            }
            for name in courses[0].long
        },
        "throughout": {name: band([float(one.pure[i]) for one in courses]) for i, name in enumerate(names)},
        "by_period": by_period,
    }


def band(values: Sequence[float]) -> dict[str, float]:
    low, high = np.quantile(values, [0.1, 0.9])
    return {"mean": float(np.mean(values)), "p10": float(low), "p90": float(high)}


def selection_rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The policies, best first: of the log as it is compared with EASY-FCFS, of samples with the band."""
    lines = {ONLINE: found["wait_over_fcfs"], **found["throughout"]}
    resampled = found["input"]["resampled"] is not None
    rows = [
        {
            "policy": name,
            "wait/fcfs": line["mean"],
            **{figure: found["long_waits"][name][figure] for figure in (*reversed(WAITS), "day_longer")},
            **(
                {"p10": line["p10"], "p90": line["p90"]}
                if resampled
                else comparison_cells(found["over_fcfs"].get(name))
            ),
            "share": mean_share(found, name),
        }
        for name, line in lines.items()
    ]
    return sorted(rows, key=lambda row: (row["wait/fcfs"], row["policy"]))


def mean_share(found: dict[str, Any], name: str) -> float | None:
    """The share of periods in which a policy was chosen; None if the name is not a policy."""
    shares = [period["shares"].get(name) for period in found["by_period"]]
    return None if None in shares else float(np.mean(shares))
