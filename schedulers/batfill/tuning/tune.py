"""The 2019 study of mixed policies on any log: w*, w*train, wgreedy, and the walk forward it left open.

- w*        each period under the policy that is best on that very period: an upper bound
- w*train   one policy, with the least total cost on the training periods; it is tested on the others only
- wgreedy   each period under the best policy of the period before
- last k    each period under the policy with the least total cost on the k periods before: k = 1 is wgreedy
- pure k    the same among the pure policies only, as online selection with full feedback does
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from batfill.errors import BatfillError, require
from batfill.metrics import TAU_S, long_waits
from batfill.policy import PURE, policy_named
from batfill.progress import patient_progress
from batfill.stats import comparison_warnings, paired
from batfill.tuning.periods import Conditions, costs_and_waits, read_periods, training_of
from batfill.tuning.results import Found, comparison_cells, document, recommendation
from batfill.tuning.search import EVALUATIONS, POINTS, Coverage, Evolution, Features, Space

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.jobs import Overrun, Unrequested, Workload
    from batfill.policy import Policy
    from batfill.processes import Bar
    from batfill.stats import Paired
    from batfill.tuning.periods import Periods
    from batfill.tuning.search import Search
    from batfill.workloads.splitting import Boundary

HINDSIGHT = "w*"  # the line that no scheduler could follow
SearchMethod = Literal["coverage", "xnes"]
Units = Literal["typical", "plain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPlan:
    """The search and the comparisons of a study."""

    method: SearchMethod = "coverage"  # every point of a grid, or xNES
    features: Features = 3  # number of weights; a grid has 3
    units: Units = "typical"  # of the features: their mean over the training periods, or seconds and processors
    points: int | None = None  # of the grid, at least; None for POINTS
    evaluations: int | None = None  # of xNES, per question; None for EVALUATIONS
    seed: int = 0  # of xNES and the intervals
    training: int | None = None  # periods for training w*train; None for half of them
    last: tuple[int, ...] = (1, 4)  # number of past periods each walk forward uses
    policies: tuple[str, ...] = PURE  # compared unchanged
    baseline: str = "saf"  # one of `policies`, which all others are compared with
    maps: Path | None = None  # a folder for a map of the grid for each period

    def __post_init__(self) -> None:
        """Refuse choices that contradict each other.

        Raises:
            BatfillError: they do.
        """
        policy_named(self.baseline)
        grid = self.method == "coverage"
        other, given, usual = (
            ("evaluations", self.evaluations, EVALUATIONS) if grid else ("points", self.points, POINTS)
        )
        refused = {
            f"the baseline {self.baseline} is not among the policies compared; "
            f"add --policy {self.baseline}": self.baseline not in self.policies,
            "a grid over 6 features is too large; use --method xnes, or --features 3": grid and self.features != 3,
            f"--{other}: --method {self.method} does not use it; leave it out": given not in (None, usual),
            "only a grid can be drawn; leave --maps out, or use --method coverage": self.maps is not None and not grid,
        }
        for message, applies in refused.items():
            if applies:
                raise BatfillError(message)

    def search(
        self, periods: Periods, conditions: Conditions, n_training: int, advance: Callable[[int], None]
    ) -> Search:
        """The search, in the units of the first `n_training` periods; a grid is replayed now, calling `advance`."""
        features = self.features
        scaled = self.units == "typical"
        space = Space.scaled(features, periods.part(0, n_training)) if scaled else Space.of(features)
        if self.method == "coverage":
            return Coverage(periods, conditions, space, POINTS if self.points is None else self.points, advance)
        evaluations = EVALUATIONS if self.evaluations is None else self.evaluations
        return Evolution(periods, conditions, space, self.seed, evaluations)

    def steps(self, n_periods: int) -> int:
        """The number of steps `tune` reports: one per period of a grid, or per search of xNES."""
        if self.method == "coverage":
            return n_periods
        return n_periods + 1 + sum(n_periods - k for k in self.last if k > 1)


def tune(
    log: Workload | str | Path,
    *,
    procs: int | None = None,
    method: SearchMethod = "coverage",
    features: Features = 3,
    units: Units = "typical",
    points: int | None = None,
    evaluations: int | None = None,
    seed: int = 0,
    backfill: Policy | str = "spf",
    threshold_s: float | None = None,
    tau_s: float = TAU_S,
    days: float | Literal["month"] = 7,
    boundary: Boundary = "submit-finish",
    skip: int = 0,
    count: int | None = None,
    min_jobs: int = 1,
    training: int | None = None,
    last: Sequence[int] = (1, 4),
    policies: Sequence[str] = (),
    baseline: str = "saf",
    maps: str | Path | None = None,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    bar: Bar | None = None,
) -> Found:
    """Search mixed policies on a log's weeks, and test the result on the weeks that follow.

    Args:
        log: a workload or a file, as for `read_workload`.
        procs: the machine's size; by default the log's.
        method: evaluate a whole grid ("coverage"), or search by "xnes".
        features: weigh q, p~ and w (3), or also p~/q, (w+p~)/p~ and p~ q (6, xnes only).
        units: weights count per "typical" value of a feature, or per second and processor ("plain").
        points: of the grid, at least; 10,000 by default.
        evaluations: of xnes, policies evaluated per question; 1,000 by default.
        seed: of xnes and of the intervals.
        backfill: the order of backfilling; spf as in the 2019 study.
        threshold_s: jobs that have waited longer come first.
        tau_s: the bound of the bounded slowdown.
        days: length of a period, or "month" for calendar months.
        boundary: which jobs a period keeps; see `splitting.windows`.
        skip: leave out this many periods at the start.
        count: use this many consecutive periods.
        min_jobs: leave out periods with fewer jobs.
        training: number of training periods, from the first; half of them by default.
        last: walk forward: tune on this many past periods for each period.
        policies: compared in addition to the twelve pure ones, by name.
        baseline: the policy that all are compared with.
        maps: of a grid: a folder for a map of each period.
        overrun: see `read_workload`.
        unrequested: see `read_workload`.
        bar: makes progress bars; by default one appears after two seconds.

    Returns:
        The content of the result file; its rows are the lines of the study, see `study`. The policy found is
        `["trained"]`, which `replay` accepts.

    Raises:
        BatfillError: the log is unusable, the choices contradict each other, or there are too few periods.

    Examples:
        >>> from batfill.workloads import generate_workload
        >>> found = tune(generate_workload(jobs=300, procs=32, seed=1), days=0.5, points=6, last=[1])
        >>> found["trained"].startswith("mixed:"), "w*train" in found.to_pandas()["policy"].tolist()
        (True, True)
    """
    conditions = Conditions.of(backfill, threshold_s, tau_s)
    plan = StudyPlan(
        method=method,
        features=features,
        units=units,
        points=points,
        evaluations=evaluations,
        seed=seed,
        training=training,
        last=tuple(last),
        policies=(*PURE, *policies),
        baseline=baseline,
        maps=None if maps is None else Path(maps),
    )
    periods = read_periods(
        log,
        procs=procs,
        days=days,
        boundary=boundary,
        skip=skip,
        count=count,
        min_jobs=min_jobs,
        overrun=overrun,
        unrequested=unrequested,
    )
    with (bar or patient_progress)("searches" if method == "xnes" else "periods", plan.steps(len(periods))) as advance:
        return tune_on(periods, conditions, plan, advance)


def tune_on(
    periods: Periods, conditions: Conditions, plan: StudyPlan, advance: Callable[[int], None] = lambda _: None
) -> Found:
    """The result file of a study on these periods; see `study` for its lines.

    Args:
        periods: where to search and test.
        conditions: backfilling and threshold.
        plan: what to search and compare.
        advance: called with the number of steps done, of `plan.steps`.

    Raises:
        BatfillError: the plan's choices contradict each other, or there are too few periods.
    """
    if plan.method == "xnes":
        require("tune", "cmaes")
    if plan.maps is not None:
        require("report", "matplotlib")
    n_training = training_of(len(periods), plan.training, max(plan.last, default=1))
    search = plan.search(periods, conditions, n_training, advance)
    done = study(
        periods,
        conditions,
        search,
        pure=[policy_named(name) for name in plan.policies],
        n_training=n_training,
        last=plan.last,
        advance=(lambda _: None) if plan.method == "coverage" else advance,
    )
    if plan.maps is not None and isinstance(search, Coverage):
        from batfill.tuning.maps import draw_maps  # matplotlib is slow to import, and maps are rare

        draw_maps(search, periods, plan.maps)
    content = document(
        "tune",
        seed=plan.seed,
        given={**conditions.as_dict(), **search.as_dict(), "training": n_training, "last": list(plan.last)},
        source=periods.provenance(),
        results=results_of(done, periods, plan.baseline, plan.seed),
    )
    remarks = [content["recommendation"]["text"], *content["warnings"], f"w*train is {content['trained']}"]
    return Found(content, rows_of(content), "\n".join(remarks))


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One way to choose policies: its choice in each period, the cost and the waits."""

    policies: tuple[str | None, ...]  # None until enough periods have passed
    costs: NDArray[np.float64]  # (n_periods,), nan if it did not choose
    waits_s: list[NDArray[np.float64]]  # by period, of the jobs that ran, (n_jobs,); (0,) if it did not choose


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Every line of a study over the same periods; the first `n_training` are for training."""

    lines: dict[str, Line]
    n_training: int

    def total(self, name: str, first: int, stop: int | None = None) -> float:
        """The sum of a line's costs over the periods from `first` up to but not including `stop`."""
        return float(self.lines[name].costs[first:stop].sum())

    def sums(self) -> list[dict[str, Any]]:
        """Table 2: every line's sums over the training and testing periods (null if unknown), and its long waits.

        The 99.9 % quantile and the maximum are over all jobs of the testing periods.
        """

        def known(value: float) -> float | None:
            return None if np.isnan(value) else value

        rows = [
            {
                "policy": name,
                "training": known(self.total(name, 0, self.n_training)),
                "testing": known(self.total(name, self.n_training)),
                **long_waits(np.concatenate(line.waits_s[self.n_training :])),
            }
            for name, line in self.lines.items()
        ]
        return sorted(rows, key=lambda row: (row["testing"], row["policy"]))

    def against(self, baseline: str, *, seed: int) -> dict[str, Paired]:
        """The testing costs of every line that could be used, relative to the baseline's.

        Not of w*, which sees the period that it chooses for.
        """
        usable = {name: line for name, line in self.lines.items() if name not in (baseline, HINDSIGHT)}
        costs = np.array([line.costs[self.n_training :] for line in usable.values()])
        found = paired(costs, self.lines[baseline].costs[self.n_training :], seed=seed)
        return dict(zip(usable, found, strict=True))


def study(
    periods: Periods,
    conditions: Conditions,
    search: Search,
    *,
    pure: Sequence[Policy],
    n_training: int,
    last: Sequence[int] = (1, 4),
    advance: Callable[[int], None] = lambda _: None,
) -> Study:
    """Compare `pure` policies with those that the search finds; all choices but w* see only earlier periods.

    Args:
        periods: where everything is replayed.
        conditions: backfilling and threshold, the same for all.
        search: over these very periods and conditions.
        pure: policies compared unchanged.
        n_training: number of training periods of w*train, at least the longest of `last`, so that sums over the
            others are fair.
        last: number of past periods each walk forward uses; "last 1" is called wgreedy.
        advance: called with 1 after every search.
    """
    assert max(last, default=1) <= n_training < len(periods)
    n = len(periods)

    def found(first: int, stop: int) -> Policy:
        policy = search.best(first, stop)
        advance(1)
        return policy

    best = [found(i, i + 1) for i in range(n)]
    trained = found(0, n_training)
    chosen: dict[str, list[Policy | None]] = {HINDSIGHT: [*best], "w*train": [trained] * n}
    for k in last:
        ahead = [best[i - 1] if k == 1 else found(i - k, i) for i in range(k, n)]
        chosen["wgreedy" if k == 1 else f"last {k}"] = [None] * k + ahead

    known, waits_s = costs_and_waits(periods, pure, conditions)
    lines = {
        policy.name: Line((policy.name,) * n, known[row], [waited[row] for waited in waits_s])
        for row, policy in enumerate(pure)
    }
    for k in last:
        lines[f"pure {k}"] = choice_of(known, waits_s, [policy.name for policy in pure], k)
    for name, policies in chosen.items():
        line = Line(tuple(p.name if p else None for p in policies), np.full(n, np.nan), [np.empty(0)] * n)
        for i, policy in enumerate(policies):
            if policy is not None:
                cost, (waited,) = costs_and_waits(periods.part(i, i + 1), [policy], conditions)
                line.costs[i], line.waits_s[i] = cost[0, 0], waited[0]
        lines[name] = line
    return Study(lines, n_training)


def choice_of(costs: NDArray[np.float64], waits_s: Sequence[NDArray[np.float64]], names: Sequence[str], k: int) -> Line:
    """Each period under the policy with the least cost in the k periods before.

    Args:
        costs: shape (n_policies, n_periods).
        waits_s: by period, shape (n_policies, n_jobs).
        names: of the policies.
        k: number of periods.
    """
    n = costs.shape[1]
    chosen = [int(costs[:, i - k : i].sum(axis=1).argmin()) for i in range(k, n)]
    return Line(
        (*(None,) * k, *(names[row] for row in chosen)),
        np.concatenate([np.full(k, np.nan), costs[chosen, np.arange(k, n)]]),
        [np.empty(0)] * k + [waits_s[i][row] for i, row in enumerate(chosen, k)],
    )


def results_of(done: Study, periods: Periods, baseline: str, seed: int) -> dict[str, Any]:
    """Sums, comparisons, the recommendation, the policies found, and the cost of every period."""
    found = (HINDSIGHT, "w*train")
    sums = done.sums()
    compared = done.against(policy_named(baseline).name, seed=seed)
    testing = len(periods) - done.n_training
    return {
        "sums": sums,
        "baseline": baseline,
        "testing_over_baseline": {name: one.as_dict() for name, one in compared.items()},
        "recommendation": recommendation(
            compared,
            {row["policy"]: row for row in sums},
            policy_named(baseline).name,
            what="the mean bounded slowdown",
            periods=f"{testing} testing periods",
        ),
        "warnings": comparison_warnings(compared, testing, "testing periods"),
        "trained": done.lines["w*train"].policies[0],
        "by_period": [
            {
                "period": number,
                "jobs": len(jobs),
                "mean_bsld": {name: line.costs[i] for name, line in done.lines.items()},
                "policies": {
                    name: line.policies[i]
                    for name, line in done.lines.items()
                    if name in found or None in line.policies
                },
            }
            for i, (number, jobs) in enumerate(zip(periods.numbers, periods.tables, strict=True))
        ],
    }


def rows_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The table to show: every line's sums, its testing sum relative to the baseline's, and its long waits."""
    testing = {row["policy"]: row["testing"] for row in found["sums"]}
    base = testing[policy_named(found["baseline"]).name]
    return [
        {
            **{name: row[name] for name in ("policy", "training", "testing")},
            f"testing/{found['baseline']}": row["testing"] / base,
            **comparison_cells(found["testing_over_baseline"].get(row["policy"])),
            **{name: row[name] for name in ("p999_wait_s", "max_wait_s")},
        }
        for row in found["sums"]
    ]


def period_length(days: float | None, months: bool) -> float | Literal["month"]:
    """The length of a period in days, or "month" for calendar months; a week by default.

    Raises:
        BatfillError: both are given.
    """
    if months and days is not None:
        raise BatfillError("--days and --months both set the length of a period; leave one of them out")
    return "month" if months else 7 if days is None else days


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Comma-separated whole numbers above 0.

    Raises:
        BatfillError: the text is something else.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) > 0 for word in words):
        raise BatfillError(f"{option} {text!r} is not a list of whole numbers above 0; try 1,4")
    return tuple(int(word) for word in words)
