"""Aged orders searched on a log's past weeks for one that keeps the long waits, and tested on the weeks that follow.

Long waits last longer than a week, so the log is not cut: every order is replayed once over the whole log, and a choice
at the start of a week sees of these replays what had happened by then. What the choices would have done is one replay
each, which runs under the baseline until the training weeks are over, and from then on under what was chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError, whole_from
from batfill.base.tables import as_table
from batfill.model.jobs import DAY_S, Workload
from batfill.model.metrics import TAU_S, bounded_slowdown, long_waits, on_front
from batfill.model.options import finite
from batfill.model.policy import Policy, aged, policy_named
from batfill.model.rules import Rules
from batfill.model.values import number_of
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from batfill.replays.many import in_threads
from batfill.search.fidelity import graded
from batfill.search.periods import Conditions, training_of
from batfill.search.results import WAITS, Found, Testing, document, judged, rows_over
from batfill.workloads.splitting import MOST_WINDOWS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from batfill.model.jobs import JobTable

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
        return choice_line(choice_of(self))


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
NAMES = ("mean_bsld", *WAITS)
FIGURES = len(NAMES)
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

    @classmethod
    def of(cls, jobs: JobTable, size: int, days: float, training: int | None, conditions: Conditions) -> Weeks:
        """The periods of a log, the first half of them for training by default.

        Raises:
            BatfillError: there are too few or too many, or `days` is not a length.
        """
        number_of("days", days, 1e-300, math.inf, "a finite number > 0")
        if float(jobs.submit_s[-1]) / days / DAY_S > MOST_WINDOWS:
            raise BatfillError(f"days {days:g}: more than {MOST_WINDOWS} periods; give longer --days")
        weeks = cls(jobs, size, days * DAY_S, 0, conditions)
        return replace(weeks, n_training=training_of(weeks.n, training))

    @property
    def n(self) -> int:
        """The number of periods, from the first submission to the last."""
        return int(self.jobs.submit_s[-1] // self.period_s) + 1

    @property
    def starts_s(self) -> list[float]:
        """The beginning of each testing period."""
        return [i * self.period_s for i in range(self.n_training, self.n)]

    def starts_under(self, order: Order) -> NDArray[np.float64]:
        """All jobs' starts, shape (n_jobs,), if this order is used throughout."""
        return replay_jobs(self.jobs, self.size, self.rules(order)).start_s

    def rules(self, order: Order) -> Rules:
        """The queue's rules under this order."""
        return Rules(order.policy, self.conditions.backfill, order.threshold_s)

    def courses(self, orders: Sequence[Order], advance: Callable[[int], None]) -> NDArray[np.float64]:
        """What is known of each order at the beginning of each testing period, and at last in the end.

        Shape (n_orders, n_testing + 1, FIGURES).
        """

        def course(order: Order) -> NDArray[np.float64]:
            start_s = self.starts_under(order)
            ends = (*self.starts_s, math.inf)
            return np.array([figures_until(self.jobs, start_s, until_s, self.conditions.tau_s) for until_s in ends])

        return np.array(in_threads(course, orders, advance))

    def trained_on(self, baseline: Order) -> EngineReplay:
        """A replay under the baseline that stops just before the first testing period."""
        run = EngineReplay(self.jobs, self.size, self.rules(baseline))
        run.advance(before(self.starts_s[0]))
        return run

    def starts_ahead(self, run: EngineReplay, ahead: Sequence[Order]) -> NDArray[np.float64]:
        """All jobs' starts, shape (n_jobs,), if the replay goes on under `ahead`, an order for each testing period."""
        run, last = run.fork(), None
        for order, end_s in zip(ahead, [*self.starts_s[1:], math.inf], strict=True):
            if order != last:
                run.queue.change_rules(self.rules(order))
                last = order
            run.advance(before(end_s))
        return run.schedule().start_s

    def by_period(self, start_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of the bounded slowdowns of the jobs submitted in each testing period, shape (n_testing,)."""
        runtime_s = np.minimum(self.jobs.runtime_s, self.jobs.walltime_s)
        return self.sums(bounded_slowdown(start_s - self.jobs.submit_s, runtime_s, self.conditions.tau_s))

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of the values, shape (n_jobs,), of the jobs submitted in each testing period, shape (n_testing,)."""
        place = np.asarray(self.jobs.submit_s // self.period_s, np.int64)
        return np.bincount(place, values, self.n)[self.n_training :].astype(np.float64)

    @property
    def tested(self) -> NDArray[np.int64]:
        """The number of jobs submitted in each testing period, shape (n_testing,)."""
        return self.sums(np.ones(len(self.jobs))).astype(np.int64)


def before(instant_s: float) -> float:
    """The last instant before this one, whose own jobs then meet the new rules; inf stays."""
    return instant_s if math.isinf(instant_s) else math.nextafter(instant_s, -math.inf)


def tune_aged(
    log: Workload | str | Path,
    *,
    points: int = POINTS,
    days: float = 7,
    max_wait_growth: float | None = None,
    p999_wait_growth: float | None = None,
    **testing: Any,
) -> Found:
    """Search aged orders on a log's first weeks for one that keeps the long waits, and test it on the later ones.

    The log is replayed whole; `trained` is the order chosen once, after the training weeks, and `walk forward` chooses
    again at the beginning of every testing week, from all weeks before. Each takes the order with the lowest mean
    bounded slowdown among those that keep the bounds on the weeks it sees, or stays with the baseline.

    Args:
        log: a workload or a file, as for `read_workload`.
        points: number of orders searched, beside `aged:50000,1/3,0`.
        days: length of a period, from the first submission.
        max_wait_growth: how much longer than the baseline's the longest wait may be, as a share; 0 by default if
            `p999_wait_growth` is not given either.
        p999_wait_growth: the same for the 99.9 % quantile of the waits.
        **testing: training, policies, baseline, backfill, threshold_s, tau_s, seed, bar, procs, overrun, unrequested:
            see `Testing`. The threshold is that of the baseline and of `policies`; the aged orders are searched
            without it and with it.

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
    given = Testing.of(**testing)
    if points < 1:
        raise BatfillError(f"points: {points} is not {whole_from(1)}")
    conditions = Conditions.of(given.backfill, given.threshold_s, given.tau_s)
    threshold_s = conditions.threshold_s
    used = [Order(policy_named(name), threshold_s) for name in (given.baseline, *given.policies)]
    workload, jobs, size = given.jobs(log)
    weeks = Weeks.of(jobs, size, days, given.training, conditions)
    orders = candidates(points, given.seed, threshold_s)
    with given.progress("orders", len(orders) + 1) as advance:
        known = weeks.courses([used[0], *orders], advance)
    content = document(
        "tune",
        seed=given.seed,
        given={
            "family": "aged",
            "points": points,
            **conditions.as_dict(),
            "days": days,
            "training": weeks.n_training,
            "max_wait_growth": finite(bounds.longest),
            "p999_wait_growth": finite(bounds.p999),
        },
        source={
            "source": workload.name,
            "source_sha256": workload.digest,
            "procs": size,
            "overrun": workload.overrun,
            "unrequested": workload.unrequested,
            "warnings": list(workload.warnings),
        },
        results=aged_results(weeks, used, orders, known, bounds, given.seed),
    )
    over, figures = content["testing_over_baseline"], {"testing": "mean_bsld"}
    rows = rows_over(content["sums"], over, content["baseline"], figures, ratio="testing/baseline")
    return graded(Found(content, rows, remarks_of(content, bounds)), log, given.reading)


def aged_results(
    weeks: Weeks,
    used: Sequence[Order],
    orders: Sequence[Order],
    known: NDArray[np.float64],
    bounds: Bounds,
    seed: int,
) -> dict[str, Any]:
    """Every line's test, the choices, and the figures of all orders in hindsight.

    Args:
        weeks: the log.
        used: the baseline, and what is compared in addition.
        orders: searched.
        known: see `Weeks.courses`; of the baseline and the orders.
        bounds: on the long waits.
        seed: of the intervals.
    """
    (usual, *others), base, known = used, known[0], known[1:]
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
    starts = {name: weeks.starts_ahead(run, line) for name, line in lines.items()}
    costs = {name: weeks.by_period(start_s) for name, start_s in starts.items()}
    new = weeks.jobs.submit_s >= weeks.starts_s[0]
    waits = {name: long_waits((start_s - weeks.jobs.submit_s)[new]) for name, start_s in starts.items()}
    return {
        "sums": sorted(
            ({"policy": name, "mean_bsld": float(costs[name].sum() / tested.sum()), **waits[name]} for name in lines),
            key=lambda row: (row["mean_bsld"], row["policy"]),
        ),
        "baseline": usual.name,
        **judged(
            {name: cost[tested > 0] for name, cost in costs.items()},
            waits,
            usual.name,
            seed=seed,
            over="testing_over_baseline",
            what="the mean bounded slowdown",
            periods="testing periods",
        ),
        "trained": choice_of(ahead[0], stays=places[0] is None),
        "latest": choice_of(ahead[-1], stays=places[-1] is None),
        "orders": [
            {**choice_of(order), **described(figures), "front": bool(kept)}
            for order, figures, kept in zip(orders, known[:, -1], on_a_front(known[:, -1]), strict=True)
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
    return {"policy": order.policy.name, "threshold": finite(order.threshold_s), **more}


def described(figures: NDArray[np.float64]) -> dict[str, float]:
    """A schedule's figures by name, from shape (FIGURES,)."""
    return dict(zip(NAMES, figures.tolist(), strict=True))


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
            lines.append(f"{name}: {choice_line(choice)}, chosen on {weeks} by {bounds} that of {found['baseline']}")
    front = sorted((order for order in found["orders"] if order["front"]), key=lambda order: order["mean_bsld"])
    table = [
        {"order": found["baseline"], **found["baseline_throughout"]},
        *({"order": choice_line(order), **{name: order[name] for name in NAMES}} for order in front),
    ]
    head = "The baseline and the front of the orders, each used on all weeks (in hindsight):"
    return "\n".join([*lines, "", head, as_table(table)])


def choice_line(choice: dict[str, Any]) -> str:
    """A choice as a line of a table: what `--policy` and `--threshold` take."""
    threshold = choice["threshold"]
    return str(choice["policy"]) + ("" if threshold is None else f", threshold {threshold:g}")
