"""The 2019 study of mixed policies: pure policies on weeks, the space of mixed ones, searches, learning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from batfill.base.sums import rank_correlation
from batfill.model.policy import PURE, policy_named
from batfill.workloads.formats import load_log
from batfill.workloads.times import Boundary
from batfill_lab.campaigns.sections import Count, Seconds, Section, Seed, Text
from batfill_lab.search.mixed_search import Coverage, Evolution, Features, Space
from batfill_lab.search.periods import Conditions, Periods, costs, read_periods
from batfill_lab.search.tune import Study, Units, study
from studies.papers.core import (
    Array,
    Chart,
    Context,
    Outcome,
    Table,
    Value,
    Verdict,
    chart_of_boxes,
    computation,
    is_kept,
    kept,
    listed,
    shared,
    side_by_side,
)

PURE_NAMES = tuple(name.upper() for name in PURE)
Unit = Annotated[list[Units], Field(min_length=1)]  # of the weights; each is a choice, statements are about the first
Boundaries = Annotated[list[Boundary], Field(min_length=1)]  # rules for jobs on a boundary; each is a choice
Skipped = Annotated[int, Field(ge=0)]
Times = Annotated[float, Field(ge=1)]


class Cut(Section):
    """The periods used of each log, and how they are scheduled. Logs go by the entry's labels."""

    boundary: Boundary = "submit-finish"
    days: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["month"] = 7.0
    skip: dict[Text, Skipped] = Field(default_factory=dict)  # 0 for logs not named
    count: dict[Text, Count] = Field(default_factory=dict)  # all for logs not named
    backfill: Text = "spf"
    threshold: Seconds | None = None

    @property
    def setting(self) -> Conditions:
        """The settings shared by all policies."""
        return Conditions.of(self.backfill, self.threshold)

    def periods(self, label: str, path: Path) -> Periods:
        """The periods of this log."""
        skip, count = self.skip.get(label, 0), self.count.get(label)
        return read_periods(path, days=self.days, boundary=self.boundary, skip=skip, count=count)


def period_note(label: str, periods: Periods) -> str:
    """The numbers of jobs and periods, for a note."""
    jobs = sum(len(table) for table in periods.tables)
    word = "months" if periods.choices.get("days") == "month" else "weeks"
    return f"{label}: {jobs:,} jobs in {len(periods)} {word}, {periods.numbers[0]} to {periods.numbers[-1]} of the log."


def by_period(name: str, periods: Periods, lines: dict[str, list[Value]]) -> Chart:
    """These lines over the periods."""
    word = "month" if periods.choices["days"] == "month" else "week"
    rows = tuple(zip(periods.numbers, *lines.values(), strict=True))
    return Chart(name, "lines", (word, *lines), rows, x=f"{word} of the log", y="mean bsld", log_y=True)


# The logs


@computation
def week_jobs(context: Context, *, boundaries: Boundaries) -> Outcome:
    """Table 1, jobs in weeks: a row per log with machine, jobs, mean run time (s), and mean processors of a job."""
    tables = []
    with context.bar("logs", len(boundaries) * len(context.logs)) as advance:
        for boundary in boundaries:
            rows = {}
            for label, path in context.logs.items():
                periods = read_periods(path, boundary=boundary)
                runtime_s = np.concatenate([jobs.runtime_s for jobs in periods.tables])
                procs = np.concatenate([jobs.procs for jobs in periods.tables])
                rows[label] = (periods.procs, len(procs), float(runtime_s.mean()), float(procs.mean()))
                advance(1)
            tables.append(Table.of_rows(("#CPU", "#jobs", "avg job duration", "avg job size"), rows, boundary))
    return Outcome(tuple(tables))


@computation
def longest_jobs(context: Context, *, count: Count = 10) -> Outcome:
    """Table 7: the jobs that ran longest, a row per job by its number in the log, the longest first."""
    ((_, path),) = context.logs.items()
    log = load_log(path)
    longest = np.argsort(-log["runtime_s"], kind="stable")[:count]
    fields = {"submit_time": "submit_s", "run_time": "runtime_s", "number_processors": "procs"}
    rows = {str(int(log["job"][row])): [float(log[field][row]) for field in fields.values()] for row in longest}
    return Outcome((Table.of_rows(fields, rows),))


# Pure policies


@computation
def pure_policies(
    context: Context,
    *,
    thresholds: Annotated[dict[Text, Seconds | None], Field(min_length=1)],  # by the labels of the columns
    boundaries: Boundaries,
    backfill: Text = "spf",
    skip: Skipped = 0,
    count: Count | None = None,
    min_jobs: Count = 1,
) -> Outcome:
    """Tables 3 to 6: sums over weeks of the weekly mean bounded slowdown, a row per policy, a column per threshold."""
    ((_, path),) = context.logs.items()
    policies = [policy_named(name) for name in PURE]
    tables, notes = [], []
    with context.bar("replays", len(boundaries) * len(thresholds)) as advance:
        for boundary in boundaries:
            periods = read_periods(path, boundary=boundary, skip=skip, count=count, min_jobs=min_jobs)
            columns = {}
            for name, threshold in thresholds.items():
                columns[name] = costs(periods, policies, Conditions.of(backfill, threshold)).sum(axis=1).tolist()
                advance(1)
            tables.append(Table.of_columns(columns, PURE_NAMES, boundary))
            notes.append(period_note(boundary, periods))
    return Outcome(tuple(tables), notes=tuple(notes))


class Weekly(NamedTuple):
    """The costs of the twelve pure policies on one log's periods."""

    label: str
    periods: Periods
    costs: Array  # (n_policies, n_periods), mean bounded slowdowns

    @property
    def order(self) -> list[int]:
        """The policies' indices, sorted by mean cost."""
        order: list[int] = np.argsort(self.costs.mean(axis=1), kind="stable").tolist()
        return order


def weekly_costs(context: Context, how: Cut) -> Iterator[Weekly]:
    """The costs of the pure policies on every available log."""
    policies = [policy_named(name) for name in PURE]
    for label, path in context.logs.items():
        periods = how.periods(label, path)
        with context.bar(f"periods of {label}", len(periods)) as advance:
            yield Weekly(label, periods, costs(periods, policies, how.setting, advance=advance))


@computation
def weekly_spread(context: Context, how: Cut) -> Outcome:
    """Figure 1: means over weeks, a row per policy and a column per log, with boxes of the weeks."""
    found = list(weekly_costs(context, how))
    ranking = {each.label: [PURE_NAMES[k] for k in each.order] for each in found}
    best = "; ".join(f"{label} {', '.join(order[:3])}" for label, order in ranking.items())
    place = {label: order.index("FCFS") + 1 for label, order in ranking.items()}
    return Outcome(
        tables=(Table.of_columns({each.label: each.costs.mean(axis=1).tolist() for each in found}, PURE_NAMES),),
        verdicts={
            "saf-first": Verdict(all(order[0] == "SAF" for order in ranking.values()), best),
            "short-first": Verdict(
                all(set(order[:3]) == {"SAF", "SPF", "LEXP"} for order in ranking.values()), f"the best three: {best}"
            ),
            "fcfs-late": Verdict.of(place, lambda at: at > len(PURE_NAMES) / 2, "place {} of 12"),
            "same-order": Verdict.of(likeness(found), lambda rho: rho > ALIKE_ORDERS, "Spearman {:.2f}"),
        },
        charts=tuple(
            chart_of_boxes(
                f"weekly-{each.label}",
                {PURE_NAMES[k]: each.costs[k] for k in each.order},
                y="weekly mean bsld",
                log_y=True,
            )
            for each in found
        ),
        notes=tuple(period_note(each.label, each.periods) for each in found),
    )


ALIKE_ORDERS = 0.9  # "the same general order" is at least this coefficient


def likeness(found: Sequence[Weekly]) -> dict[str, float]:
    """Spearman's coefficient of every log's order of the policies and the order by mean place on the other logs."""
    places = np.array([np.argsort(each.order) for each in found])  # (n_logs, n_policies)
    rho = {}
    for i, each in enumerate(found):
        others = np.delete(places, i, axis=0)
        rho[each.label] = rank_correlation(places[i], others.mean(axis=0)) if len(others) else 1.0
    return rho


@computation
def best_of_week(context: Context, how: Cut, *, near: Times = 1.05, far: Times = 1.25) -> Outcome:
    """Figure 2: SAF and the best pure policy of every week, in sum and by how often SAF is near or far.

    The paper says "very close" and "a significant margin": here at most `near` and at least `far` times the best.
    """
    rows, charts, notes = {}, [], []
    for label, periods, cost in weekly_costs(context, how):
        saf, best = cost[PURE_NAMES.index("SAF")], cost.min(axis=0)
        counts = (int((saf <= near * best).sum()), int((saf >= far * best).sum()), len(best))
        rows[label] = (float(saf.sum()), float(best.sum()), *counts)
        lines = {"SAF": saf.tolist(), "best pure policy": best.tolist()}
        charts.append(by_period(f"saf-and-best-{label}", periods, lines))
        notes.append(period_note(label, periods))
    columns = ("SAF, sum", "best of each week, sum", "weeks SAF is best or near", "weeks SAF is far", "weeks")
    return Outcome(
        tables=(Table.of_rows(columns, rows),),
        verdicts={
            "mostly-near": Verdict(
                all(close > weeks / 2 for *_, close, _, weeks in rows.values()),
                listed(rows, ": {2} of {4} weeks"),
            ),
            "sometimes-far": Verdict(
                all(apart > 0 for *_, apart, _ in rows.values()),
                listed(rows, ": {3} of {4} weeks"),
            ),
        },
        charts=tuple(charts),
        notes=tuple(notes),
    )


# The space of mixed policies


def space_of(units: Units, periods: Periods, n_training: int, features: Features = 3) -> Space:
    """Weights on the raw features, or on features divided by their typical values in the training periods."""
    return Space.of(features) if units == "plain" else Space.scaled(features, periods.part(0, n_training))


def coverage_of(
    context: Context, label: str, periods: Periods, setting: Conditions, space: Space, points: int
) -> Coverage:
    """A grid of mixed policies on these periods, computed once for all entries of the paper."""

    def searched() -> Array:
        with context.bar(f"periods of {label}, each under {points:,} policies", len(periods)) as advance:
            return Coverage(periods, setting, space, points, advance).costs

    key = {"periods": periods.provenance(), "setting": setting.as_dict(), **space.as_dict(), "points": points}
    return Coverage(periods, setting, space, points, known=kept(context.folder, "coverage", key, coverage_of, searched))


@computation
def space_maps(context: Context, how: Cut, *, units: Unit, points: Count = 10_002) -> Outcome:
    """Figure 4: where each week's best point lies and what it costs a week later, a row per week; two maps each."""
    ((label, path),) = context.logs.items()
    periods = how.periods(label, path)
    columns = ("best weight on q", "on p~", "on w", "its bsld", "bsld of the best of the week before", "median, q < 0",
               "median, q > 0")  # fmt: skip
    poor = 1.5  # times the week's best
    tables, charts = [], []
    after: dict[str, list[float]] = {}  # the cost of last week's best point over that of the week's own
    halves: dict[str, list[float]] = {}  # the median where q > 0 over that where q < 0
    for each in units:
        search = coverage_of(context, label, periods, how.setting, space_of(each, periods, len(periods)), points)
        rows = {f"week {number}": week_of(search, i) for i, number in enumerate(periods.numbers)}
        tables.append(Table.of_rows(columns, rows, f"{each} units"))
        after[each] = [row[4] / row[3] for row in rows.values() if row[4] is not None and row[3]]
        halves[each] = [row[6] / row[5] for row in rows.values() if row[6] is not None and row[5]]
        charts += [
            half_of(search, i, f"{each}-week-{number}", side)
            for i, number in enumerate(periods.numbers)
            for side in (-1, 1)
        ]

    def evidence(ratios: dict[str, list[float]]) -> str:
        return "; ".join(f"{name} {', '.join(f'{ratio:.2f}' for ratio in found)}" for name, found in ratios.items())

    return Outcome(
        tables=tuple(tables),
        verdicts={
            "moves": Verdict(
                all(max(ratios, default=0) > poor for ratios in after.values()),
                f"last week's best point over the best of the week: {evidence(after)}",
            ),
            "narrow-first": Verdict(
                any(max(ratios) < 1 for ratios in halves.values()),
                f"median slowdown where q > 0 over that where q < 0: {evidence(halves)}",
            ),
        },
        charts=tuple(charts),
        notes=(period_note(label, periods),),
    )


def week_of(search: Coverage, i: int) -> tuple[Value, ...]:
    """The row of one week."""
    q, cost = search.weights[:, 0], search.costs[:, i]
    best = search.place(i, i + 1)
    before = float(cost[search.place(i - 1, i)]) if i else None
    medians = (float(np.median(cost[q < 0])), float(np.median(cost[q > 0])))
    return (*search.weights[best].tolist(), float(cost[best]), before, *medians)


def half_of(search: Coverage, column: int, name: str, side: int) -> Chart:
    """One half of the sphere, q < 0 or q > 0, seen along q; both show the edge between them."""
    q, p, w = search.weights.T
    there = side * q >= 0
    values = zip((w - p)[there].tolist(), (w + p)[there].tolist(), search.costs[there, column].tolist(), strict=True)
    return Chart(
        f"{name}-q-{'positive' if side > 0 else 'negative'}",
        "map",
        ("w_minus_p", "w_plus_p", "mean bsld"),
        tuple(values),
        x="weight on w - weight on p~",
        y="weight on w + weight on p~",
    )


# Searches

FEATURE_COUNTS: tuple[Features, Features] = (3, 6)
SEARCHES = ("w*3", "xnes3", "xnes6")
ABOUT_SAME = 1.02  # results within 2 % are "the same"
NEAR = 1.10  # "the differences are minor"


@computation
def search_methods(
    context: Context,
    how: Cut,
    *,
    units: Unit,
    points: Count = 10_002,
    evaluations: Count = 1000,  # per week
    seed: Seed = 0,
) -> Outcome:
    """Figure 5: xNES and the grid, sums over the weeks of what each finds: a row per method, a column per log."""
    logs = {label: how.periods(label, path) for label, path in context.logs.items()}

    def searched(label: str, each: Units) -> Array:
        """The result of every method for every week, shape (n_methods, n_weeks)."""
        periods = logs[label]
        three = space_of(each, periods, len(periods) // 2)
        grid = coverage_of(context, label, periods, how.setting, three, points).costs.min(axis=0)
        searches = (evolution_of(periods, how, each, n, seed, evaluations) for n in FEATURE_COUNTS)
        return np.array([grid, *(evolved(context, label, search) for search in searches)])

    # The grids use all processors, the searches one each.
    cut = shared(Cut, how)
    tasks = [
        (label, cut, each, n, seed, evaluations)
        for label in sorted(logs, key=lambda label: -sum(map(len, logs[label].tables)))
        for each, n in product(units, FEATURE_COUNTS)
        if not is_kept(
            context.folder, "xnes", search_key(evolution_of(logs[label], how, each, n, seed, evaluations)), evolved
        )
    ]
    side_by_side(context, evolve, tasks, "searches by xNES")
    found = {each: {label: searched(label, each) for label in logs} for each in units}
    first = found[units[0]]
    same = {label: float((abs(np.log(c[1] / c[0])) <= np.log(ABOUT_SAME)).mean()) for label, c in first.items()}
    beyond = {label: float(c[1].sum() / c[0].sum()) for label, c in first.items()}
    six = {label: float(c[2].sum() / c[1].sum()) for label, c in first.items()}
    return Outcome(
        tables=tuple(
            Table.of_columns(
                {label: weekly.sum(axis=1).tolist() for label, weekly in by_log.items()}, SEARCHES, f"{each} units"
            )
            for each, by_log in found.items()
        ),
        verdicts={
            "same-as-grid": Verdict.of(
                same, lambda share: share > 0.5, f"{{:.0%}} of the weeks within {ABOUT_SAME - 1:.0%}"
            ),
            "near-grid": Verdict.of(beyond, lambda ratio: ratio < NEAR, "xnes3 over the grid, in sum: {:.3f}"),
            "six-little-better": Verdict.of(six, lambda ratio: 0.9 < ratio <= 1, "xnes6 over xnes3, in sum: {:.3f}"),
        },
        charts=tuple(
            by_period(f"methods-{label}", logs[label], dict(zip(SEARCHES, each.tolist(), strict=True)))
            for label, each in first.items()
        ),
        notes=tuple(period_note(label, periods) for label, periods in logs.items()),
    )


def evolve(
    context: Context, label: str, how: Cut, units: Units, features: Features, seed: int, evaluations: int
) -> None:
    """Search a log's weeks by xNES."""
    periods = how.periods(label, context.logs[label])
    evolved(context, label, evolution_of(periods, how, units, features, seed, evaluations))


def evolution_of(
    periods: Periods, how: Cut, units: Units, features: Features, seed: int, evaluations: int
) -> Evolution:
    """The search by xNES over the periods; weights are in the units of their first half."""
    space = space_of(units, periods, len(periods) // 2, features)
    return Evolution(periods, how.setting, space, seed, evaluations)


def evolved(context: Context, label: str, search: Evolution) -> Array:
    """The result of xNES for every week, shape (n_weeks,); computed once for all entries of the paper."""
    periods = search.periods

    def best_of_all() -> Array:
        result = np.empty(len(periods))
        with context.bar(f"weeks of {label}, {len(search.space.units)} features", len(periods)) as advance:
            for i in range(len(periods)):
                week = periods.part(i, i + 1)
                result[i] = costs(week, [search.best(i, i + 1)], search.conditions)[0, 0]
                advance(1)
        return result

    found: Array = kept(context.folder, "xnes", search_key(search), evolved, best_of_all)
    return found


def search_key(search: Evolution) -> dict[str, Any]:
    """All that the result of a search depends on."""
    return {
        "periods": search.periods.provenance(),
        **search.conditions.as_dict(),
        **search.as_dict(),
        "seed": search.seed,
    }


# Learning

LEARNED = ("w*", "w*train", "wgreedy")
FAR = 0.9  # "far better" is at most this many times the other
WEEK = 2.5  # the paper's figure for one week
LIKE = 1.2  # "comparable" is at most this many times the other
ALIKE = 5.0  # FCFS, SAF and w* are alike in a week if their slowdowns are this close; the figure goes up to 75


@computation
def mixed_study(
    context: Context,
    how: Cut,
    *,
    units: Unit,
    other_boundaries: Annotated[list[Boundary], Field(default_factory=list)],  # further choices, with the first units
    points: Count = 10_002,
    training: Annotated[dict[Text, Count], Field(default_factory=dict)],  # half for a log that is not named
) -> Outcome:
    """Table 2, Figures 3 and 15: w*, w*train, wgreedy and the pure policies, sums over training and testing."""
    plans = [(each, how.boundary) for each in units] + [(units[0], boundary) for boundary in other_boundaries]
    pure = [policy_named(name) for name in PURE]
    tables, charts, notes = [], [], []
    first: dict[str, Study] = {}  # under the first choice, which the verdicts are about
    for each, boundary in plans:
        choice = ", ".join(([boundary] if other_boundaries else []) + [f"{each} units"])
        taken = how.model_copy(update={"boundary": boundary})
        columns: dict[str, list[Value]] = {}
        for label, path in context.logs.items():
            periods = taken.periods(label, path)
            n = training.get(label, len(periods) // 2)
            search = coverage_of(context, label, periods, taken.setting, space_of(each, periods, n), points)
            done = study(periods, taken.setting, search, pure=pure, n_training=n, last=(1,))
            prefix = f"{label}, " if len(context.logs) > 1 else ""
            lines = [done.lines[name].costs for name in (*LEARNED, *PURE)]
            columns[f"{prefix}Training"] = [float(np.nansum(line[:n])) for line in lines]
            columns[f"{prefix}Testing"] = [float(line[n:].sum()) for line in lines]
            if (each, boundary) == plans[0]:
                first[label] = done
                charts.append(study_lines(label, done, periods))
            notes.append(f"{choice}: {period_note(label, periods)}")
        tables.append(Table.of_columns(columns, (*LEARNED, *PURE_NAMES), choice))
    notes.append("The first period has none before it; it is missing from wgreedy's sum.")
    return Outcome(tuple(tables), verdicts_on_learning(first), tuple(charts), tuple(notes))


def study_lines(label: str, done: Study, periods: Periods) -> Chart:
    """The lines of Figure 3."""
    lines = {name: done.lines[name.lower()].costs.tolist() for name in ("FCFS", "SAF", "w*train", "wgreedy", "w*")}
    finite = {name: [None if np.isnan(value) else value for value in line] for name, line in lines.items()}
    return by_period(f"by-{'month' if periods.choices['days'] == 'month' else 'week'}-{label}", periods, finite)


def verdicts_on_learning(studies: dict[str, Study]) -> dict[str, Verdict]:
    """The paper's statements about its Figure 3, by log."""
    judged = {label: measures(done) for label, done in studies.items()}

    def of(name: str, holds: Callable[[float], bool], words: str) -> Verdict:
        return Verdict.of({label: values[name] for label, values in judged.items()}, holds, words)

    return {
        "star-better": of("star", lambda ratio: ratio < FAR, "{:.2f} times the sum of the best pure policy"),
        "star-week": of("week", lambda ratio: ratio >= WEEK, "up to {:.2f} times less than that week's best"),
        "trained-second": of("place", lambda place: place <= 2, "place {:.0f} of 13 in testing"),
        "trained-like-saf": of("trained", lambda r: 1 / LIKE <= r <= LIKE, "{:.2f} times SAF's sum in testing"),
        "greedy-poor": of("greedy", lambda ratio: ratio > 1, "{:.2f} times SAF's sum"),
        "half-calm": of(
            "calm", lambda share: 0.25 <= share <= 0.75, f"FCFS, SAF and w* within {ALIKE:g} in {{:.0%}} of the weeks"
        ),
    }


def measures(done: Study) -> dict[str, float]:
    """The numbers behind the statements, for one log."""
    n = done.n_training
    pure = np.array([done.lines[name].costs for name in PURE])
    star, trained, greedy, saf = (done.lines[name].costs for name in (*LEARNED, "saf"))
    shown = np.array([done.lines["fcfs"].costs, saf, star])
    return {
        "star": float(star.sum() / pure.sum(axis=1).min()),
        "week": float((pure.min(axis=0) / star).max()),
        "place": float(1 + (pure[:, n:].sum(axis=1) < trained[n:].sum()).sum()),
        "trained": float(trained[n:].sum() / saf[n:].sum()),
        "greedy": float(greedy[1:].sum() / saf[1:].sum()),  # the first period has none before it
        "calm": float((np.ptp(shown, axis=0) <= ALIKE).mean()),
    }
