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

from batfill.base.errors import BatfillError, require
from batfill.model.metrics import TAU_S, long_waits
from batfill.model.policy import PURE, policy_named
from batfill.replays.found import Found, document
from batfill_lab.search.judged import Seeded, judged, rows_over
from batfill_lab.search.mixed_search import EVALUATIONS, POINTS, Coverage, Evolution, Features, Space
from batfill_lab.search.periods import Conditions, costs_and_waits, read_periods, training_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.model.jobs import Jobs
    from batfill.model.policy import Policy
    from batfill.workloads.times import Boundary
    from batfill_lab.search.mixed_search import Search
    from batfill_lab.search.periods import Periods

HINDSIGHT = "w*"  # the line that no scheduler could follow
TRAINED = "w*train"
SearchMethod = Literal["coverage", "xnes"]
Units = Literal["typical", "plain"]


@dataclass(frozen=True, kw_only=True)
class StudyPlan(Seeded):
    """What `tune` takes: the periods, the search, and what is compared with the twelve pure policies."""

    backfill: Policy | str | None = "spf"  # the order of backfilling; as in the 2019 study
    threshold_s: float | None = None  # jobs that have waited longer come first
    tau_s: float = TAU_S  # the bound of the bounded slowdown
    training: int | None = None  # number of training periods, from the first; half of them by default
    policies: Sequence[str] = ()  # compared in addition, by name
    baseline: str = "saf"  # the policy that all are compared with, by name
    days: float | Literal["month"] = 7  # length of a period, or "month" for calendar months
    boundary: Boundary = "submit-finish"  # which jobs a period keeps; see `times.windows`
    skip: int = 0  # leave out this many periods at the start
    count: int | None = None  # use this many consecutive periods
    min_jobs: int = 1  # leave out periods with fewer jobs
    # See `tune` for the others.
    method: SearchMethod = "coverage"
    features: Features = 3
    units: Units = "typical"
    points: int | None = None
    evaluations: int | None = None
    last: tuple[int, ...] = (1, 4)

    def __post_init__(self) -> None:
        super().__post_init__()
        policy_named(self.baseline)
        if self.baseline not in self.compared:
            raise BatfillError(
                f"the baseline {self.baseline} is not among the policies compared; add --policy {self.baseline}"
            )
        grid = self.method == "coverage"
        if grid and self.features != 3:
            raise BatfillError("a grid over 6 features is too large; use --method xnes, or --features 3")
        if (self.evaluations not in (None, EVALUATIONS)) if grid else (self.points not in (None, POINTS)):
            other = "evaluations" if grid else "points"
            raise BatfillError(f"--{other}: --method {self.method} does not use it; leave it out")

    @property
    def compared(self) -> tuple[str, ...]:
        return (*PURE, *self.policies)

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
    log: Jobs | str | Path,
    *,
    method: SearchMethod = "coverage",
    features: Features = 3,
    units: Units = "typical",
    points: int | None = None,
    evaluations: int | None = None,
    last: Sequence[int] = (1, 4),
    **testing: Any,
) -> Found:
    """Search mixed policies on a log's weeks, and test the result on the weeks that follow.

    Args:
        log: a workload or a file, as for `read_workload`.
        method: evaluate a whole grid ("coverage"), or search by "xnes".
        features: weigh q, p~ and w (3), or also p~/q, (w+p~)/p~ and p~ q (6, xnes only).
        units: weights count per "typical" value of a feature, its mean over the training periods, or per second and
            processor ("plain").
        points: of the grid, at least; 10,000 by default.
        evaluations: of xnes, policies evaluated per question; 1,000 by default.
        last: walk forward: tune on this many past periods for each period.
        **testing: days, boundary, skip, count and min_jobs cut the log into periods; training, policies (beside the
            twelve pure ones), baseline, backfill, threshold_s, tau_s, seed, bar, procs, overrun, unrequested: see
            `StudyPlan`.

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
    searched: dict[str, Any] = {"method": method, "features": features, "units": units, "points": points}
    searched |= {"evaluations": evaluations, "last": tuple(last)}
    plan = StudyPlan.of(**searched, **testing)
    cut = {name: getattr(plan, name) for name in ("days", "boundary", "skip", "count", "min_jobs")}
    periods = read_periods(log, **cut, **plan.reading)
    with plan.progress("searches" if method == "xnes" else "periods", plan.steps(len(periods))) as advance:
        return tune_on(periods, plan, advance)


def tune_on(periods: Periods, plan: StudyPlan, advance: Callable[[int], None] = lambda _: None) -> Found:
    """The result file of a study on these periods; see `study` for its lines, and `plan.steps` for the progress."""
    if plan.method == "xnes":
        require("tune", "cmaes")
    conditions = Conditions.of(plan.backfill, plan.threshold_s, plan.tau_s)
    n_training = training_of(len(periods), plan.training, max(plan.last, default=1))
    search = plan.search(periods, conditions, n_training, advance)
    done = study(
        periods,
        conditions,
        search,
        pure=[policy_named(name) for name in plan.compared],
        n_training=n_training,
        last=plan.last,
        advance=(lambda _: None) if plan.method == "coverage" else advance,
    )
    content = document(
        "tune",
        seed=plan.seed,
        given={**conditions.as_dict(), **search.as_dict(), "training": n_training, "last": list(plan.last)},
        source=periods.provenance(),
        results=study_results(done, periods, plan.baseline, plan.seed),
    )
    remarks = [content["recommendation"]["text"], *content["warnings"], f"w*train is {content['trained']}"]
    return Found(content, study_rows(content), "\n".join(remarks))


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

    def sums(self) -> list[dict[str, Any]]:
        """Table 2: sums over the training and testing periods (null if unknown), and the testing jobs' long waits."""
        rows = []
        for name, line in self.lines.items():
            training, testing = (float(part.sum()) for part in np.split(line.costs, [self.n_training]))
            waits_s = np.concatenate(line.waits_s[self.n_training :])
            known = None if np.isnan(training) else training
            rows.append({"policy": name, "training": known, "testing": testing, **long_waits(waits_s)})
        return sorted(rows, key=lambda row: (row["testing"], row["policy"]))

    def judged(self, baseline: str, *, seed: int) -> dict[str, Any]:
        """By the testing periods, every line that could be used: not w*, which sees the period that it chooses for."""
        return judged(
            {name: line.costs[self.n_training :] for name, line in self.lines.items() if name != HINDSIGHT},
            {row["policy"]: row for row in self.sums()},
            baseline,
            seed=seed,
            over="testing_over_baseline",
            what="the mean bounded slowdown",
            periods="testing periods",
        )


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

    The search is over these very periods and conditions. `n_training` periods are those of w*train, at least the
    longest of `last`, so that sums over the others are fair. `last`: how many past periods each walk forward uses;
    "last 1" is called wgreedy. `advance` is called with 1 after every search.
    """
    assert max(last, default=1) <= n_training < len(periods)
    n = len(periods)

    def found(first: int, stop: int) -> Policy:
        policy = search.best(first, stop)
        advance(1)
        return policy

    best = [found(i, i + 1) for i in range(n)]
    trained = found(0, n_training)
    ahead = {k: [best[i - 1] if k == 1 else found(i - k, i) for i in range(k, n)] for k in last}
    costs, waits_s = costs_and_waits(periods, pure, conditions)
    chosen: dict[str, Sequence[Policy | None]] = {policy.name: [policy] * n for policy in pure}
    chosen |= {f"pure {k}": [*[None] * k, *(pure[row] for row in looking_back(costs, k))] for k in last}
    chosen |= {HINDSIGHT: best, TRAINED: [trained] * n}
    chosen |= {"wgreedy" if k == 1 else f"last {k}": [*[None] * k, *policies] for k, policies in ahead.items()}
    played = {(i, policy.name): (costs[row, i], waits_s[i][row]) for row, policy in enumerate(pure) for i in range(n)}

    def play(i: int, policy: Policy | None) -> tuple[float, NDArray[np.float64]]:
        if policy is None:
            return np.nan, np.empty(0)
        if (i, policy.name) not in played:
            cost, [waited_s] = costs_and_waits(periods.part(i, i + 1), [policy], conditions)
            played[i, policy.name] = cost[0, 0], waited_s[0]
        return played[i, policy.name]

    lines = {}
    for name, policies in chosen.items():
        each = [play(i, policy) for i, policy in enumerate(policies)]
        names = tuple(policy.name if policy else None for policy in policies)
        lines[name] = Line(names, np.array([cost for cost, _ in each]), [waited_s for _, waited_s in each])
    return Study(lines, n_training)


def looking_back(costs: NDArray[np.float64], k: int) -> list[int]:
    """The row of `costs`, (n_policies, n_periods), with the least in the k periods before each from the k-th on."""
    return [int(costs[:, i - k : i].sum(axis=1).argmin()) for i in range(k, costs.shape[1])]


def study_results(done: Study, periods: Periods, baseline: str, seed: int) -> dict[str, Any]:
    return {
        "sums": done.sums(),
        "baseline": baseline,
        **done.judged(policy_named(baseline).name, seed=seed),
        "trained": done.lines[TRAINED].policies[0],
        "by_period": [
            {
                "period": number,
                "jobs": len(jobs),
                "mean_bsld": {name: line.costs[i] for name, line in done.lines.items()},
                "policies": {
                    name: line.policies[i]
                    for name, line in done.lines.items()
                    if name in (HINDSIGHT, TRAINED) or None in line.policies
                },
            }
            for i, (number, jobs) in enumerate(zip(periods.numbers, periods.tables, strict=True))
        ],
    }


def study_rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The table to show: every line's sums, its testing sum relative to the baseline's, and its long waits."""
    baseline = policy_named(found["baseline"]).name
    figures = {name: name for name in ("training", "testing")}
    ratio = f"testing/{found['baseline']}"
    return rows_over(found["sums"], found["testing_over_baseline"], baseline, figures, ratio=ratio)


def period_length(days: float | None, months: bool) -> float | Literal["month"]:
    """The length of a period in days, or "month" for calendar months; a week by default."""
    if months and days is not None:
        raise BatfillError("--days and --months both set the length of a period; leave one of them out")
    return "month" if months else 7 if days is None else days


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) > 0 for word in words):
        raise BatfillError(f"{option} {text!r} is not a list of whole numbers above 0; try 1,4")
    return tuple(int(word) for word in words)
