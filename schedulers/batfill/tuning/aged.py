"""Aged orders searched on a log's past weeks for one that keeps the long waits, and tested on the weeks that follow.

Long waits last longer than a week, so the log is not cut: every order is replayed once over the whole log, and a choice
at the start of a week sees of these replays what had happened by then. What the choices would have done is one replay
each, which runs under the baseline until the training weeks are over, and from then on under what was chosen.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.errors import BatfillError, WorkloadError, whole_from
from batfill.jobs import DAY_S, Workload
from batfill.metrics import TAU_S, bounded_slowdown, long_waits, on_front
from batfill.options import number_of, seed_of
from batfill.policy import Policy, aged, policy_named, require_order
from batfill.progress import patient_progress
from batfill.replays import EngineReplay, thread_pool
from batfill.replays import replay as replay_schedule
from batfill.stats import comparison_warnings, paired
from batfill.tables import as_table
from batfill.tuning.periods import Conditions, training_of
from batfill.tuning.results import Found, comparison_cells, document, recommendation
from batfill.workloads import opened
from batfill.workloads.splitting import MOST_WINDOWS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from batfill.jobs import JobTable, Overrun, Unrequested
    from batfill.processes import Bar

POINTS = 64
C_S = (3_600.0, 1_000_000.0)  # the range of c, evenly on a log scale
MARGIN = 0.125  # exponents are drawn from this far beyond [0, 1] and cut, so that a tenth each is 0 and 1
UNTUNED = aged(50_000, 1 / 3, 0)  # what to use without a search: SPF, softened by the cube root and by age
TRAINED, FORWARD = "trained", "walk forward"


@dataclass(frozen=True, slots=True)
class Order:
    """A queue's order and its threshold."""

    policy: Policy
    threshold_s: float = math.inf

    @property
    def name(self) -> str:
        """For tables."""
        return self.policy.name + ("" if math.isinf(self.threshold_s) else f", threshold {self.threshold_s:g}")


def aged_points(n: int, seed: int) -> NDArray[np.float64]:
    """Their c in seconds, alpha and beta: `n` aged orders that cover the family evenly, shape (n, 3).

    An additive recurrence with the powers of the generalised golden ratio, from a random start: any first points of it
    are spread evenly. Source: Roberts, "The Unreasonable Effectiveness of Quasirandom Sequences", 2018 (R_3).

    Args:
        n: >= 1.
        seed: of the start.
    """
    golden = 1.2207440846057596  # the root of x^4 = x + 1
    start = np.random.default_rng(seed).random(3)
    share = (start + np.arange(n)[:, None] * golden ** -np.arange(1.0, 4.0)) % 1
    low, high = np.log(C_S)
    c_s = np.exp(low + share[:, 0] * (high - low))
    exponents = np.clip(share[:, 1:] * (1 + 2 * MARGIN) - MARGIN, 0, 1)
    return np.column_stack([c_s.round(), exponents.round(3)])


def candidates(n: int, seed: int, threshold_s: float) -> list[Order]:
    """The orders searched: UNTUNED and `n` points, and with a threshold each of them with it as well."""
    policies = [UNTUNED, *(aged(*point) for point in aged_points(n, seed).tolist())]
    thresholds = [math.inf] if math.isinf(threshold_s) else [math.inf, threshold_s]
    return [Order(policy, seconds) for policy in policies for seconds in thresholds]


# What is kept


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much the long waits may grow over the baseline's, as shares; inf for no bound."""

    longest: float
    p999: float

    @classmethod
    def of(cls, longest: float | None, p999: float | None) -> Bounds:
        """The bounds, from options; without any, the longest wait may not grow.

        Raises:
            BatfillError: one is not a share >= 0.
        """
        for name, value in (("max-wait-growth", longest), ("p999-wait-growth", p999)):
            if value is not None:
                number_of(name, value, 0, math.inf, "a share >= 0, such as 10% or 0.1")
        if longest is None and p999 is None:
            longest = 0.0
        return cls(math.inf if longest is None else longest, math.inf if p999 is None else p999)

    def keep(self, figures: NDArray[np.float64], base: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which of these, (n, FIGURES), have long waits within the bounds over the baseline's, (FIGURES,)."""
        within = np.ones(len(figures), bool)
        for column, growth in ((P999, self.p999), (LONGEST, self.longest)):
            if math.isfinite(growth):
                within &= figures[:, column] <= (1 + growth) * base[column]
        return within

    def __str__(self) -> str:
        named = (("longest", self.longest), ("99.9 %", self.p999))
        return " and ".join(
            f"a {name} wait at most {growth:.0%} above" if growth else f"a {name} wait no longer than"
            for name, growth in named
            if math.isfinite(growth)
        )


# A schedule's figures
FIGURES = 3
COST, P999, LONGEST = range(FIGURES)


def figures_until(
    jobs: JobTable, start_s: NDArray[np.float64], until_s: float, tau_s: float = TAU_S
) -> NDArray[np.float64]:
    """The mean bounded slowdown, the 99.9 % quantile and the maximum of the waits, as known at `until_s`; (FIGURES,).

    They are over the jobs submitted before then, at least one; a job that has not started has waited until then. The
    run time of a job that has not ended is taken from the log, the one thing not known at that instant.

    Args:
        jobs: none wider than the machine.
        start_s: shape (n_jobs,).
        until_s: inf for the whole schedule.
        tau_s: the bound of the bounded slowdown.
    """
    known = slice(0, int(np.searchsorted(jobs.submit_s, until_s)))
    submit_s = jobs.submit_s[known]
    wait_s = np.minimum(start_s[known], until_s) - submit_s
    runtime_s = np.minimum(jobs.runtime_s, jobs.walltime_s)[known]
    long = long_waits(wait_s)
    return np.array([bounded_slowdown(wait_s, runtime_s, tau_s).mean(), long["p999_wait_s"], long["max_wait_s"]])


def chosen(figures: NDArray[np.float64], base: NDArray[np.float64], bounds: Bounds) -> int | None:
    """The cheapest of those that keep the bounds and cost less than the baseline, the first of equals; None if none.

    Args:
        figures: of every candidate, (n, FIGURES).
        base: the baseline's, (FIGURES,).
        bounds: on the long waits.
    """
    able = np.flatnonzero(bounds.keep(figures, base) & (figures[:, COST] < base[COST]))
    return int(able[figures[able, COST].argmin()]) if len(able) else None


def on_a_front(figures: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Those that no other beats in cost and 99.9 % wait, or in cost and longest wait; shape (n,)."""
    cost = figures[:, COST]
    return on_front(cost, figures[:, P999]) | on_front(cost, figures[:, LONGEST])


# The search and its test


@dataclass(frozen=True, slots=True, eq=False)
class Weeks:
    """A log's jobs and the periods in which they are compared."""

    jobs: JobTable  # none wider than the machine
    size: int  # m
    period_s: float
    n_training: int
    conditions: Conditions  # its threshold is the baseline's

    @property
    def n(self) -> int:
        """The number of periods, from the first submission to the last."""
        return int(self.jobs.submit_s[-1] // self.period_s) + 1

    @property
    def places(self) -> NDArray[np.int64]:
        """The period of each job's submission, shape (n_jobs,)."""
        return np.asarray(self.jobs.submit_s // self.period_s, np.int64)

    @property
    def starts_s(self) -> list[float]:
        """The beginning of each testing period."""
        return [i * self.period_s for i in range(self.n_training, self.n)]

    def starts_under(self, order: Order) -> NDArray[np.float64]:
        """All jobs' starts, shape (n_jobs,), if this order is used throughout."""
        backfill = self.conditions.backfill
        return replay_schedule(
            self.jobs, self.size, order.policy, backfill=backfill, threshold_s=order.threshold_s
        ).start_s

    def courses(self, orders: Sequence[Order], advance: Callable[[int], None]) -> NDArray[np.float64]:
        """What is known of each order at the beginning of each testing period, and at last in the end.

        Shape (n_orders, n_testing + 1, FIGURES).
        """

        def course(order: Order) -> NDArray[np.float64]:
            start_s = self.starts_under(order)
            ends = (*self.starts_s, math.inf)
            return np.array([figures_until(self.jobs, start_s, until_s, self.conditions.tau_s) for until_s in ends])

        found = []
        with thread_pool(len(os.sched_getaffinity(0))) as pool:
            for one in pool.map(course, orders):
                found.append(one)
                advance(1)
        return np.array(found)

    def trained_on(self, baseline: Order) -> EngineReplay:
        """A replay under the baseline that stops just before the first testing period."""
        run = EngineReplay(
            self.jobs,
            self.size,
            baseline.policy,
            backfill=self.conditions.backfill,
            threshold_s=baseline.threshold_s,
        )
        run.advance(before(self.starts_s[0]))
        return run

    def starts_ahead(self, run: EngineReplay, ahead: Sequence[Order]) -> NDArray[np.float64]:
        """All jobs' starts, shape (n_jobs,), if the replay goes on under `ahead`, an order for each testing period."""
        run, last = run.fork(), None
        for order, end_s in zip(ahead, [*self.starts_s[1:], math.inf], strict=True):
            if order != last:
                run.change_rules(order.policy, backfill=self.conditions.backfill, threshold_s=order.threshold_s)
                last = order
            run.advance(before(end_s))
        return run.schedule().start_s

    def by_period(self, start_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of the bounded slowdowns of the jobs submitted in each testing period, shape (n_testing,)."""
        runtime_s = np.minimum(self.jobs.runtime_s, self.jobs.walltime_s)
        bsld = bounded_slowdown(start_s - self.jobs.submit_s, runtime_s, self.conditions.tau_s)
        return np.bincount(self.places, bsld, self.n)[self.n_training :].astype(np.float64)

    @property
    def tested(self) -> NDArray[np.int64]:
        """The number of jobs submitted in each testing period, shape (n_testing,)."""
        return np.bincount(self.places, minlength=self.n)[self.n_training :]


def before(instant_s: float) -> float:
    """The last instant before this one, whose own jobs then meet the new rules; inf stays."""
    return instant_s if math.isinf(instant_s) else math.nextafter(instant_s, -math.inf)


def weeks_of(jobs: JobTable, size: int, days: float, training: int | None, conditions: Conditions) -> Weeks:
    """The periods of a log, the first half of them for training by default.

    Raises:
        BatfillError: there are too few or too many, or `days` is not a length.
    """
    number_of("days", days, 1e-300, math.inf, "a finite number > 0")
    if float(jobs.submit_s[-1]) / days / DAY_S > MOST_WINDOWS:
        raise BatfillError(f"days {days:g}: more than {MOST_WINDOWS} periods; give longer --days")
    weeks = Weeks(jobs, size, days * DAY_S, 0, conditions)
    return Weeks(jobs, size, weeks.period_s, training_of(weeks.n, training), conditions)


def tune_aged(
    log: Workload | str | Path,
    *,
    procs: int | None = None,
    points: int = POINTS,
    seed: int = 0,
    backfill: Policy | str | None = None,
    threshold_s: float | None = None,
    tau_s: float = TAU_S,
    days: float = 7,
    training: int | None = None,
    max_wait_growth: float | None = None,
    p999_wait_growth: float | None = None,
    policies: Sequence[str] = (),
    baseline: str = "saf",
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    bar: Bar | None = None,
) -> Found:
    """Search aged orders on a log's first weeks for one that keeps the long waits, and test it on the later ones.

    The log is replayed whole; `trained` is the order chosen once, after the training weeks, and `walk forward` chooses
    again at the beginning of every testing week, from all weeks before. Each takes the order with the lowest mean
    bounded slowdown among those that keep the bounds on the weeks it sees, or stays with the baseline.

    Args:
        log: a workload or a file, as for `read_workload`.
        procs: the machine's size; by default the log's.
        points: number of orders searched, beside `aged:50000,1/3,0`.
        seed: of the points and of the intervals.
        backfill: the order of backfilling; the queue's own by default.
        threshold_s: the baseline's; the aged orders are searched without it and with it.
        tau_s: the bound of the bounded slowdown.
        days: length of a period, from the first submission.
        training: number of training periods, from the first; half of them by default.
        max_wait_growth: how much longer than the baseline's the longest wait may be, as a share; 0 by default if
            `p999_wait_growth` is not given either.
        p999_wait_growth: the same for the 99.9 % quantile of the waits.
        policies: compared in addition, by name, with the baseline's threshold.
        baseline: the policy that all are compared with, by name.
        overrun: see `read_workload`; for a file only.
        unrequested: see `read_workload`; for a file only.
        bar: makes progress bars; by default one appears after two seconds.

    Returns:
        The content of the result file; its rows are the lines of the study. `["trained"]` and `["latest"]`, the choices
        from the training weeks and from all, have a `policy`, which `replay` accepts, and a `threshold`; `["orders"]`
        has the figures of every order over the whole log, and whether it is on the front.

    Raises:
        BatfillError: the log is unusable, a value is invalid, or there are too few periods.

    Examples:
        >>> from batfill.workloads import generate_workload
        >>> log = generate_workload(jobs=300, procs=32, seed=1)
        >>> found = tune_aged(log, days=0.5, points=6, max_wait_growth=0.1)
        >>> sorted(found.to_pandas()["policy"])
        ['aged:50000,0.3333333333333333,0', 'saf', 'trained', 'walk forward']
        >>> len(found["orders"])
        7
    """
    bounds = Bounds.of(max_wait_growth, p999_wait_growth)
    seed_of("seed", seed)
    if points < 1:
        raise BatfillError(f"points: {points} is not {whole_from(1)}")
    conditions = Conditions.of("same" if backfill is None else backfill, threshold_s, tau_s)
    usual = Order(policy_named(baseline), conditions.threshold_s)
    others = [Order(policy_named(name), conditions.threshold_s) for name in policies]
    for order in (usual, *others):
        require_order(order.policy, "tune compares orders")
    workload, size = opened(log, procs=procs, overrun=overrun, unrequested=unrequested)
    ran = workload.jobs.procs <= size
    if not ran.any():
        raise WorkloadError(f"{workload.name}: no job fits {size} processors; give a larger --procs")
    weeks = weeks_of(workload.jobs.select(ran), size, days, training, conditions)
    orders = candidates(points, seed, conditions.threshold_s)
    with (bar or patient_progress)("orders", len(orders) + 1) as advance:
        base, *known = weeks.courses([usual, *orders], advance)
    content = document(
        "tune",
        seed=seed,
        given={
            "family": "aged",
            "points": points,
            **conditions.as_dict(),
            "days": days,
            "training": weeks.n_training,
            "max_wait_growth": None if math.isinf(bounds.longest) else bounds.longest,
            "p999_wait_growth": None if math.isinf(bounds.p999) else bounds.p999,
        },
        source={
            "source": workload.name,
            "source_sha256": workload.digest,
            "procs": size,
            "overrun": workload.overrun,
            "unrequested": workload.unrequested,
            "warnings": list(workload.warnings),
        },
        results=results_of(weeks, usual, others, orders, np.array(known), base, bounds, seed),
    )
    return Found(content, rows_of(content), remarks_of(content, bounds))


def results_of(
    weeks: Weeks,
    usual: Order,
    others: Sequence[Order],
    orders: Sequence[Order],
    known: NDArray[np.float64],
    base: NDArray[np.float64],
    bounds: Bounds,
    seed: int,
) -> dict[str, Any]:
    """Every line's test, the choices, and the figures of all orders in hindsight.

    Args:
        weeks: the log.
        usual: the baseline.
        others: compared in addition.
        orders: searched.
        known: see `Weeks.courses`; of the orders.
        base: the same of the baseline, (n_testing + 1, FIGURES).
        bounds: on the long waits.
        seed: of the intervals.
    """
    places = [chosen(known[:, i], base[i], bounds) for i in range(len(base))]
    ahead = [usual if place is None else orders[place] for place in places]
    testing = len(base) - 1
    lines = {
        usual.name: [usual] * testing,
        TRAINED: [ahead[0]] * testing,
        FORWARD: ahead[:-1],
        **{order.name: [order] * testing for order in (Order(UNTUNED), *others) if order != usual},
    }
    run, tested = weeks.trained_on(usual), weeks.tested
    starts = {name: weeks.starts_ahead(run, used) for name, used in lines.items()}
    costs = {name: weeks.by_period(start_s) for name, start_s in starts.items()}
    new = weeks.jobs.submit_s >= weeks.starts_s[0]
    waits = {name: long_waits((start_s - weeks.jobs.submit_s)[new]) for name, start_s in starts.items()}
    with_jobs, names = tested > 0, [name for name in lines if name != usual.name]
    compared = dict(
        zip(
            names,
            paired(np.array([costs[name][with_jobs] for name in names]), costs[usual.name][with_jobs], seed=seed),
            strict=True,
        )
    )
    front = on_a_front(known[:, -1])
    return {
        "sums": sorted(
            ({"policy": name, "mean_bsld": float(costs[name].sum() / tested.sum()), **waits[name]} for name in lines),
            key=lambda row: (row["mean_bsld"], row["policy"]),
        ),
        "baseline": usual.name,
        "testing_over_baseline": {name: one.as_dict() for name, one in compared.items()},
        "recommendation": recommendation(
            compared, waits, usual.name, what="the mean bounded slowdown", periods=f"{with_jobs.sum()} testing periods"
        ),
        "warnings": list(comparison_warnings(compared, int(with_jobs.sum()), "testing periods")),
        "trained": choice_of(ahead[0], stays=places[0] is None),
        "latest": choice_of(ahead[-1], stays=places[-1] is None),
        "orders": [
            {**choice_of(order), **described(figures), "front": bool(kept)}
            for order, figures, kept in zip(orders, known[:, -1], front, strict=True)
        ],
        "baseline_throughout": described(base[-1]),
        "by_period": [
            {
                "period": weeks.n_training + i,
                "jobs": int(tested[i]),
                "sum_bsld": {name: float(cost[i]) for name, cost in costs.items()},
                "order": ahead[i].name,
            }
            for i in range(testing)
        ],
    }


def choice_of(order: Order, **more: Any) -> dict[str, Any]:
    """An order, for result files: `stays` says that it is the baseline, as no other can be chosen."""
    threshold_s = None if math.isinf(order.threshold_s) else order.threshold_s
    return {"policy": order.policy.name, "threshold": threshold_s, **more}


def described(figures: NDArray[np.float64]) -> dict[str, float]:
    """A schedule's figures by name, from shape (FIGURES,)."""
    cost, p999_s, longest_s = figures.tolist()
    return {"mean_bsld": cost, "p999_wait_s": p999_s, "max_wait_s": longest_s}


def rows_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The table to show: every line's mean bounded slowdown on the testing weeks, over the baseline's, and waits."""
    [base] = [row["mean_bsld"] for row in found["sums"] if row["policy"] == found["baseline"]]
    return [
        {
            "policy": row["policy"],
            "testing": row["mean_bsld"],
            "testing/baseline": row["mean_bsld"] / base,
            **comparison_cells(found["testing_over_baseline"].get(row["policy"])),
            **{name: row[name] for name in ("p999_wait_s", "max_wait_s")},
        }
        for row in found["sums"]
    ]


def remarks_of(found: dict[str, Any], bounds: Bounds) -> str:
    """What stands below the table: the recommendation, warnings, the choices, and the front in hindsight."""
    lines = [found["recommendation"]["text"], *found["warnings"]]
    for name, weeks in (("trained", "the training weeks"), ("latest", "all weeks")):
        choice = found[name]
        if choice["stays"]:
            lines.append(
                f"{name}: stay with {found['baseline']}; no order searched has {bounds} its own and a lower mean "
                f"bounded slowdown on {weeks}"
            )
        else:
            lines.append(f"{name}: {named(choice)}, chosen on {weeks} by {bounds} that of {found['baseline']}")
    front = sorted((order for order in found["orders"] if order["front"]), key=lambda order: order["mean_bsld"])
    base = {"order": found["baseline"], **found["baseline_throughout"]}
    figures = ("mean_bsld", "p999_wait_s", "max_wait_s")
    table = [base, *({"order": named(order), **{name: order[name] for name in figures}} for order in front)]
    head = "The baseline and the front of the orders, each used on all weeks (in hindsight):"
    return "\n".join([*lines, "", head, as_table(table)])


def named(choice: dict[str, Any]) -> str:
    """A choice as a line of a table: what `--policy` and `--threshold` take."""
    threshold = choice["threshold"]
    return str(choice["policy"]) + ("" if threshold is None else f", threshold {threshold:g}")
