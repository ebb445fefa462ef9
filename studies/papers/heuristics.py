"""The 2023 study of regression heuristics: scores of proxy problems, polynomials fitted to them, and their results."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from batfill.base.errors import BatfillError, WorkloadError
from batfill.base.files import digest
from batfill.base.sums import rank_correlation
from batfill.engine.keys import key_at, unit_of
from batfill.model.jobs import Jobs
from batfill.model.policy import POLICIES, Policy, Term, polynomial
from batfill.replays.many import mean_bsld
from batfill.workloads import read_workload
from batfill_lab.campaigns.sections import Count, Section, Seed, Text
from batfill_lab.learning.fit import FUNCTIONS, HIGH_VIF, Fit, Powers, Weights, fit_scores, monomial
from batfill_lab.learning.proxy import N_QUEUED, Scores, Shuffle, score_jobs
from batfill_lab.search.periods import Conditions, Periods, costs_and_waits, read_periods
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

FitVariant = Literal["published pq2", "published pq", "fair pq2", "fair pq"]
TITLES = {name: name.capitalize() for name in FUNCTIONS}  # as the paper writes them
LIN, *LARGER = TITLES.values()
TERMS = FUNCTIONS["qua"]


class Fitting(Section):
    """How scores are drawn and functions fitted."""

    tuples: Annotated[dict[Text, Count], Field(min_length=1)]  # by log
    permutations: Count
    choices: Annotated[list[FitVariant], Field(min_length=1)]  # the shuffle, and the weight of a squared error
    seed: Seed = 0


def draw_of(choice: FitVariant) -> tuple[Shuffle, Weights]:
    """The shuffle and the weights of a choice."""
    shuffle, weights = choice.split()
    return "fair" if shuffle == "fair" else "published", "pq2" if weights == "pq2" else "pq"


def shuffle_of(choice: FitVariant) -> Shuffle:
    """The shuffle of a choice."""
    return draw_of(choice)[0]


def scores_of(context: Context, label: str, shuffle: Shuffle, how: Fitting) -> Scores:
    """The scores of a log's jobs, by `score_jobs`; kept for the paper's other entries.

    Raises:
        BatfillError: the log has no number of tuples, or its machine's size is unknown.
    """
    path = context.logs[label]
    if label not in how.tuples:
        raise BatfillError(f"{label}: tuples has no number for it; add one, such as {label}: 100")
    given = {"seed": how.seed, "tuples": how.tuples[label], "permutations": how.permutations, "how": shuffle}

    def make() -> dict[str, Any]:
        workload = read_workload(path)
        if workload.size is None:
            raise WorkloadError(f"{path}: does not say how many processors the machine has; add MaxProcs to its header")
        with context.bar(f"{label}, {shuffle} shuffle: tuples", how.tuples[label]) as advance:
            scores = score_jobs(workload.jobs, workload.size, **given, advance=advance)  # type: ignore[arg-type]
        return {name: getattr(scores, name) for name in Scores.__slots__}

    columns = kept(context.folder, "scores", {**given, "log": digest(path)}, scores_of, make)
    return Scores(**{name: np.array(values) for name, values in columns.items()})


def fits_of(context: Context, label: str, choice: FitVariant, how: Fitting) -> list[Fit]:
    """Lin, Qdr, Cub and Qua of a log."""
    shuffle, weights = draw_of(choice)
    scores = scores_of(context, label, shuffle, how)
    return [fit_scores(scores, name, weights) for name in FUNCTIONS]


# The fits


@computation
def fit_errors(context: Context, how: Fitting) -> Outcome:
    """Table 2: the mean absolute errors, a row per function and a column per log, for every choice."""
    tables = []
    for choice in how.choices:
        columns = {label: [found.mae for found in fits_of(context, label, choice, how)] for label in context.logs}
        tables.append(Table.of_columns(columns, TITLES.values(), choice))
    scored = [f"{32 * how.tuples[label]:,} scored jobs of {label}" for label in context.logs]
    return Outcome(tuple(tables), notes=(f"{', '.join(scored)}.",))


@computation
def fit_coefficients(context: Context, how: Fitting) -> Outcome:
    """Tables 3 to 5: a log's coefficients for every choice, and factors, which depend on none; a row per term."""
    ((label, _),) = context.logs.items()
    found = {choice: fits_of(context, label, choice, how) for choice in how.choices}
    first = found[how.choices[0]]
    coefficients = (
        by_term({TITLES[each.name]: [value for value, *_ in each.terms] for each in fits}, TERMS, choice)
        for choice, fits in found.items()
    )
    factors = by_term({f"VIF {TITLES[each.name]}": list(map(float, each.vif)) for each in first}, TERMS[1:])
    signs = {name: first[0].terms[1 + i][0] for i, name in enumerate("pqr")}
    worst = {each.name: float(each.vif.max()) for each in first}
    return Outcome(
        (*coefficients, factors),
        {
            "lin": Verdict(signs["p"] > 0 and signs["q"] > 0 and signs["r"] < 0, f"Lin: {listed(signs, ' {:.3g}')}"),
            "collinear": Verdict(
                worst["lin"] < HIGH_VIF < min(worst["cub"], worst["qua"])
                and worst["qdr"] < worst["cub"] < worst["qua"],
                "largest factors: " + listed({TITLES[name]: factor for name, factor in worst.items()}, " {:,.3g}"),
            ),
        },
        notes=(
            f"{32 * how.tuples[label]:,} scored jobs. Verdicts are on {how.choices[0]}.",
            *(first_note(context, label, shuffle, how) for shuffle in dict.fromkeys(map(shuffle_of, how.choices))),
        ),
    )


def first_note(context: Context, label: str, shuffle: Shuffle, how: Fitting) -> str:
    """How often jobs came first in the drawn orders by their place of arrival, over the share that is fair."""
    counts = scores_of(context, label, shuffle, how).firsts.reshape(-1, N_QUEUED).sum(axis=0)
    shares = counts * N_QUEUED / counts.sum()
    least, most = int(shares.argmin()), int(shares.argmax())
    return (
        f"Under the {shuffle} shuffle a job is put first between {shares[least]:.2f} times (number {least + 1} of "
        f"{N_QUEUED} to arrive) and {shares[most]:.2f} times (number {most + 1}) as often as is fair."
    )


def by_term(columns: Mapping[str, Sequence[float]], terms: Sequence[Powers], choice: str = "") -> Table:
    """A row per term; smaller functions have no value for higher terms."""
    padded: dict[str, list[Value]] = {
        name: [*each, *[None] * (len(terms) - len(each))] for name, each in columns.items()
    }
    names = (monomial(powers).replace(" ", "") or "1" for powers in terms)  # as the paper writes them
    return Table.of_columns(padded, names, choice)


@computation
def priority_maps(
    context: Context,
    how: Fitting,
    *,
    submit_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 300.0,  # r
    points: Count = 30,  # along p and along q
) -> Outcome:
    """Figure 2: how alike each function and three plain orders rank points (p, q), and maps; the first choice's."""
    rows, charts = {}, []
    for label, path in context.logs.items():
        p, q = plane(path, points)
        for found in fits_of(context, label, how.choices[0], how):
            title = TITLES[found.name]
            values = priorities(found, p, q, submit_s)
            rows[f"{title}, {label}"] = [rank_correlation(values, key) for key in (p, q, p * q)]
            places = zip((p / p.max()).tolist(), (q / q.max()).tolist(), values.tolist(), strict=True)
            head = ("p_over_longest", "q_over_machine", "priority")
            charts.append(Chart(f"{label}-{title}", "map", head, tuple(places), "p / longest", "q / machine"))
    lin = {name: area for name, (*_, area) in rows.items() if name.startswith(LIN)}
    others = [area for name, (*_, area) in rows.items() if name not in lin]
    return Outcome(
        (Table.of_rows(("SPT", "SQF", "SAF"), rows, how.choices[0]),),
        {
            "lin": Verdict(min(lin.values()) > 0.8, f"rank correlation with SAF: {listed(lin, ' {:.2f}')}"),
            "larger": Verdict(
                max(others) < min(lin.values()), f"the larger functions: {min(others):.2f} to {max(others):.2f}"
            ),
        },
        tuple(charts),
    )


def plane(path: Path, points: int) -> tuple[Array, Array]:
    """Run times up to the log's longest and widths up to its machine, each with each, shape (points^2,)."""
    workload = read_workload(path)
    assert workload.size is not None
    p = np.linspace(1, workload.jobs.runtime_s.max(), points)
    q = np.linspace(1, workload.size, points)
    return np.repeat(p, points), np.tile(q, points)


def priorities(found: Fit, p: Array, q: Array, r: float) -> Array:
    """The function's values, scaled to [0, 1]; low ones go first."""
    policy = polynomial(found.name, found.terms, "")
    values, _ = policy.lines(np.full(len(p), r), p, q.astype(np.int64))
    return np.asarray((values - values.min()) / np.ptp(values))


# The windows of a log

# The policies beside the fitted functions, as the paper calls them.
RIVALS = {"fcfs": "FCFS", "spf": "SPT", "saf": "SAF", "wfp3": "WFP3", "unicef": "UNICEF", "f2": "F2"}
IN_ORDER = Conditions(backfill=None)  # backfilling in the queue's order
PRINTED = f"{LIN}, as printed"
WindowCosts = dict[str, dict[str, list[float]]]  # by log, then by policy: its mean bounded slowdown on each window


class LogWindows(Fitting):
    """The windows, and what policies know of the jobs in them."""

    requests: Literal["users", "run times"] = "users"
    backfilling: bool
    days: Annotated[float, Field(gt=0)] = 15.0
    count: Count | None = None  # of windows, from the first; all by default


Learned = dict[str, Sequence[Term]]  # functions by their names


def costs_of(context: Context, label: str, how: LogWindows, learned: Learned) -> dict[str, list[float]]:
    """The mean bounded slowdown of each policy, the known ones first, on each of the log's windows."""
    windows = windows_of(context, label, how)

    def make() -> dict[str, Any]:
        policies = [POLICIES[name] for name in RIVALS]
        policies += [polynomial(name, terms, "") for name, terms in learned.items()]
        with context.bar(f"{label}: windows", 2 * len(windows)) as advance:
            return {
                "with_backfilling": costs_and_waits(windows, policies, IN_ORDER, advance=advance)[0],
                "without_backfilling": costs_without_backfilling(windows, policies, advance),
            }

    found = kept(context.folder, "windows", key_of_windows(windows, how, learned), costs_of, make)
    by_policy = found["with_backfilling" if how.backfilling else "without_backfilling"]
    return dict(zip((*RIVALS.values(), *learned), by_policy, strict=True))


def costs_without_backfilling(
    windows: Periods, policies: Sequence[Policy], advance: Callable[[int], None] = lambda _: None
) -> Array:
    """The mean bounded slowdowns by list scheduling, shape (n_policies, n_windows): half of the study's comparison."""
    columns = []
    for jobs in windows.tables:
        start_s = np.array([starts_without_backfilling(jobs, windows.procs, policy) for policy in policies])
        columns.append(mean_bsld(jobs, windows.procs)(start_s))
        advance(1)
    return np.array(columns).T


def starts_without_backfilling(jobs: Jobs, size: int, policy: Policy) -> Array:
    """The starts by list scheduling, nan for jobs wider than the machine: simple and slow, for small windows.

    At every submission or end, the queue's first job starts, repeatedly, until one does not fit. Policies see
    p~, or what is expected of jobs that may outlive it; jobs run min(p, walltime).
    """
    key, rise = (column.tolist() for column in policy.lines(jobs.submit_s, jobs.expected_s, jobs.procs))
    unit_s = [unit_of(policy.motion, request_s) for request_s in jobs.expected_s.tolist()]  # type: ignore[no-untyped-call]
    submit_s, procs = jobs.submit_s.tolist(), jobs.procs.tolist()
    runtime_s = np.minimum(jobs.runtime_s, jobs.walltime_s).tolist()
    start_s = np.full(len(jobs), np.nan)
    waiting: list[tuple[float, int]] = []  # (key, row) in order, by submission if keys move
    ends: list[tuple[float, int]] = []
    free, arrived = size, 0

    def head(now_s: float) -> int:
        if not policy.moves:
            return 0
        keys = [key_at(now_s, key[row], rise[row], submit_s[row], unit_s[row]) for _, row in waiting]  # type: ignore[no-untyped-call]
        return int(np.argmin(keys))

    while ends or arrived < len(jobs):
        next_s = submit_s[arrived] if arrived < len(jobs) else np.inf
        now_s = float(min(ends[0][0], next_s) if ends else next_s)
        while ends and ends[0][0] == now_s:
            free += heapq.heappop(ends)[1]
        while arrived < len(jobs) and submit_s[arrived] == now_s:
            if procs[arrived] <= size:
                insort(waiting, (0.0 if policy.moves else key[arrived], arrived))
            arrived += 1
        while waiting and procs[waiting[first := head(now_s)][1]] <= free:
            _, row = waiting.pop(first)
            free -= procs[row]
            start_s[row] = now_s
            heapq.heappush(ends, (now_s + runtime_s[row], procs[row]))
    return start_s


def windows_of(context: Context, label: str, how: LogWindows) -> Periods:
    """The windows of a log."""
    windows = read_periods(context.logs[label], days=how.days, align="first", boundary="submitted", count=how.count)
    return with_run_times(windows) if how.requests == "run times" else windows


def key_of_windows(windows: Periods, how: LogWindows, learned: Learned) -> dict[str, Any]:
    """All that the costs on windows depend on."""
    return {"windows": windows.provenance(), "requests": how.requests, "learned": learned}


def costs_by_log(context: Context, how: LogWindows, learned: Mapping[str, Learned]) -> WindowCosts:
    """The costs on the windows of all these logs under the functions given for each; side by side if not kept yet."""
    labels = sorted(learned, key=lambda label: -context.logs[label].stat().st_size)
    tasks = [
        (label, shared(LogWindows, how), learned[label])
        for label in labels
        if not is_kept(
            context.folder,
            "windows",
            key_of_windows(windows_of(context, label, how), how, learned[label]),
            costs_of,
        )
    ]
    side_by_side(context, costs_of, tasks, "windows of logs")
    return {label: costs_of(context, label, how, functions) for label, functions in learned.items()}


def with_run_times(windows: Periods) -> Periods:
    """The same windows with run times as requests; a job without run time requests one second."""
    tables = tuple(replace(jobs, walltime_s=np.maximum(jobs.runtime_s, 1)) for jobs in windows.tables)
    return replace(windows, tables=tables)


def medians(costs: WindowCosts) -> Table:
    """Over the windows, a column per log."""
    columns = {label: [float(np.median(each)) for each in by_policy.values()] for label, by_policy in costs.items()}
    return Table.of_columns(columns, next(iter(costs.values()), ()))


def box_charts(costs: WindowCosts) -> tuple[Chart, ...]:
    """A chart per log."""
    return tuple(
        chart_of_boxes(label, by_policy, of="policy", y="mean bounded slowdown", log_y=True)
        for label, by_policy in costs.items()
    )


def window_counts(costs: WindowCosts) -> str:
    """The number of windows."""
    numbers = (f"{len(next(iter(by_policy.values())))} windows of {label}" for label, by_policy in costs.items())
    return f"{', '.join(numbers)}."


@computation
def fitted_windows(context: Context, how: LogWindows) -> Outcome:
    """Figure 3: medians over the windows, each log under its own functions; verdicts are on the first choice."""
    learned: dict[str, Learned] = {
        label: {
            f"{TITLES[found.name]}, {choice}": found.terms
            for choice in how.choices
            for found in fits_of(context, label, choice, how)
        }
        for label in context.logs
    }
    costs = costs_by_log(context, how, learned)
    table = medians(costs)

    def value(name: str, label: str) -> float:
        found = table.value(f"{name}, {how.choices[0]}" if name in TITLES.values() else name, label)
        assert found is not None
        return found

    established = {label: max(value(name, label) for name in ("SPT", "SAF", "F2")) for label in costs}
    worse = {label: [name for name in LARGER if value(name, label) > established[label]] for label in costs}
    over_saf = {label: value(LIN, label) / value("SAF", label) for label in costs}
    over_fcfs = {label: [value(name, label) / value("FCFS", label) for name in (LIN, *LARGER)] for label in costs}
    return Outcome(
        (table,),
        {
            "larger": Verdict(
                all(names == LARGER for names in worse.values()),
                "worse than SPT, SAF and F2: "
                + listed({label: ", ".join(names) or "none" for label, names in worse.items()}, between="; "),
            ),
            "as-fcfs": Verdict(
                all(min(ratios[1:]) > 0.5 for ratios in over_fcfs.values()),
                "Lin, Qdr, Cub and Qua over FCFS: "
                + listed(
                    {label: tuple(each) for label, each in over_fcfs.items()}, " {:.2f}, {:.2f}, {:.2f}, {:.2f}", "; "
                ),
            ),
            "lin": Verdict(max(over_saf.values()) < 2, f"Lin over SAF: {listed(over_saf, ' {:.2f}')}"),
        },
        box_charts(costs),
        (window_counts(costs),),
    )


@computation
def lin_elsewhere(
    context: Context,
    how: LogWindows,
    *,
    fitted_to: Text,  # the log whose Lin is used in addition to the printed one, if the log is available
    printed: Annotated[list[float], Field(min_length=4, max_length=4)],  # the paper's coefficients of 1, p, q and r
) -> Outcome:
    """Figures 4 and 5: one function on other logs, medians over windows; verdicts are on the paper's coefficients."""
    learned: Learned = {PRINTED: [(value, *powers) for value, powers in zip(printed, FUNCTIONS["lin"], strict=True)]}
    if fitted_to in context.logs:
        for choice in how.choices:
            learned[f"{LIN}, {choice}"] = fits_of(context, fitted_to, choice, how)[0].terms
    costs = costs_by_log(context, how, {label: learned for label in context.logs if label != fitted_to})
    table = medians(costs)
    known = [name for name in table.rows if not name.startswith(LIN) or name == PRINTED]
    ranked = {label: sorted(known, key=lambda name: table.value(name, label) or 0.0) for label in costs}
    places = {label: names.index(PRINTED) + 1 for label, names in ranked.items()}
    return Outcome(
        (table,),
        {
            "three-lowest": Verdict(max(places.values(), default=9) <= 3, f"Lin's place among seven: {listed(places)}"),
            "fcfs": Verdict(
                all(names.index("FCFS") > max(map(names.index, ("SAF", "F2"))) for names in ranked.values()),
                "by median: " + listed({label: ", ".join(names) for label, names in ranked.items()}, between="; "),
            ),
        },
        box_charts(costs),
        (window_counts(costs),),
    )
