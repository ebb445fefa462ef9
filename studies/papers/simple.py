"""The CCGrid 2019 paper: simple policies with a threshold instead of EASY, on logs resampled user by user."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from batfill.model.jobs import DAY_S, WEEK_S, Overrun
from batfill.model.metrics import bounded_slowdown, per_processor_slowdown
from batfill.workloads.describe import PREMATURE
from batfill.workloads.formats import load_log
from batfill.workloads.swf import machine_size
from batfill.workloads.swf_log import COMPLETED
from batfill.workloads.times import ProfileWeeks, offered_load
from batfill_lab.campaigns.sections import Count, Section, Seed
from studies.papers.core import (
    Array,
    Chart,
    Context,
    Grid,
    Outcome,
    Table,
    Verdict,
    chart_of_boxes,
    computation,
    listed,
    longest_request_s,
    run_grid,
)

COMPARED = ("fcfs", "spf", "sqf", "saf")
COMPARED_NAMES = FCFS, SPF, SQF, SAF = tuple(name.upper() for name in COMPARED)
MEAN_MONTH_S = 365.25 / 12 * DAY_S
FEWEST_TRIMMED = 4  # with fewer samples, none is left out
LongestRequests = Annotated[float, Field(gt=0)]


class Resampled(Section):
    """How the samples are drawn and scheduled; entries with equal settings share runs."""

    samples: Count = 10
    weeks: Count | None = None  # of a sample; the log's by default
    profile_weeks: ProfileWeeks = "all"
    seed: Seed = 0
    # The threshold in longest requests of the log, null for none; each is a choice, and statements are about the first.
    longest_requests: Annotated[list[LongestRequests | None], Field(min_length=1)]
    overrun: Overrun = "kill"


def resampled(context: Context, how: Resampled) -> dict[str, dict[str, Grid]]:
    """The runs with all their jobs, by choice of threshold and by log."""
    made: dict[str, Any] = {"samples": how.samples, "method": "users", "profile-weeks": how.profile_weeks}
    if how.weeks is not None:
        made["weeks"] = how.weeks
    found: dict[str, dict[str, Grid]] = {threshold_words(each): {} for each in how.longest_requests}
    for label, path in context.logs.items():
        longest_s = longest_request_s(path)
        thresholds = [each and each * longest_s for each in how.longest_requests]
        content = {
            "resamplings": made,
            "seeds": [how.seed],
            "policies": list(COMPARED),
            "thresholds": thresholds,
            "per-job": True,
        }
        grid = run_grid(context, label, content, overrun=how.overrun)
        for grids, threshold in zip(found.values(), thresholds, strict=True):
            grids[label] = grid._replace(rows=[row for row in grid.rows if row["threshold_s"] == threshold])
    return found


def threshold_words(longest_requests: float | None) -> str:
    """A threshold as text."""
    return "no threshold" if longest_requests is None else f"threshold {longest_requests:g} longest requests"


def sample_note(found: dict[str, dict[str, Grid]]) -> tuple[str, ...]:
    """A note: the samples, and every log's thresholds."""
    thresholds = ", ".join(
        f"{label} {grid.rows[0]['threshold_s']:,.0f} s"
        for grids in found.values()
        for label, grid in grids.items()
        if grid.rows[0]["threshold_s"] is not None
    )
    grid, *_ = next(iter(found.values())).values()
    return (f"{len(grid.of(COMPARED[0]))} samples of each log; thresholds {thresholds or 'none'}.",)


# Tables II and III: the logs


@computation
def log_figures(context: Context) -> Outcome:
    """Table II, a row per log; utilisation is the load offered by the jobs that ran."""
    rows = {}
    for label, path in context.logs.items():
        log = load_log(path)
        procs = machine_size(path, log, None)
        months = float(np.ptp(log["submit_s"])) / MEAN_MONTH_S
        rows[label] = (procs, len(log), 100 * offered_load(log, procs) if procs else None, months)
    return Outcome((Table.of_rows(("# CPUs", "# Jobs", "Util %", "Duration (months)"), rows),))


@computation
def premature_share(context: Context, *, times: Annotated[float, Field(gt=1)] = PREMATURE) -> Outcome:
    """Table III: premature jobs in % of the jobs that ran, of all rows and of the completed ones, a row per log.

    They requested at least `times` what they ran; the paper says 100.
    """
    shares: dict[str, list[float]] = {"jobs that ran": [], "all rows": [], "completed": []}
    for path in context.logs.values():
        log = load_log(path)
        runtime_s = log["runtime_s"]
        premature = log["requested_s"] >= times * runtime_s.clip(min=1)
        counted = (runtime_s > 0, runtime_s == runtime_s, log["status"] == COMPLETED)
        for choice, rows in zip(shares.values(), counted, strict=True):
            choice.append(100 * float(premature[rows].mean()))
    name = "% of premature jobs"
    return Outcome(tuple(Table.of_columns({name: each}, context.logs, choice) for choice, each in shares.items()))


# Table IV: premature jobs


@computation
def premature_slowdown(context: Context, how: Resampled) -> Outcome:
    """Table IV: slowdown of premature jobs over that of the others, a row per policy and a column per log.

    It is the mean over the samples of the ratio of both means.
    """
    found = resampled(context, how)
    ratios = {
        choice: {label: dict(zip(COMPARED_NAMES, premature_ratios(grid), strict=True)) for label, grid in grids.items()}
        for choice, grids in found.items()
    }
    first = next(iter(ratios.values()))
    amplified = {label: (each[SPF] / each[FCFS], each[SAF] / each[FCFS]) for label, each in first.items()}
    least = {label: min(each.values()) for label, each in first.items()}
    return Outcome(
        tables=tuple(
            Table.of_columns({label: each.values() for label, each in logs.items()}, COMPARED_NAMES, choice)
            for choice, logs in ratios.items()
        ),
        verdicts={
            "worse-off": Verdict.of(least, lambda ratio: ratio > 1, "{:.2f} at the least"),
            "amplified": Verdict(
                sum(each > 1 for pair in amplified.values() for each in pair) > len(amplified),
                "SPF and SAF over FCFS: " + listed(amplified, " {:.2f} and {:.2f}"),
            ),
        },
        notes=sample_note(found),
    )


def premature_ratios(grid: Grid) -> list[float]:
    """The mean over the samples, by policy."""
    return [float(np.mean([premature_ratio(grid, row) for row in grid.of(policy)])) for policy in COMPARED]


def premature_ratio(grid: Grid, row: dict[str, Any]) -> float:
    """The ratio of one run."""
    jobs = grid.jobs(row, "start_s", "end_s", "walltime_s", "bsld")
    premature = jobs["walltime_s"] >= PREMATURE * (jobs["end_s"] - jobs["start_s"])
    return float(jobs["bsld"][premature].mean() / jobs["bsld"][~premature].mean())


# Figure 1: means over the jobs that have finished, week by week

OBJECTIVES = ("slowdown", "waiting time", "pp-slowdown")
CLOSE = 1.1  # "close to the best" is at most this many times the best


@computation
def cumulative_means(context: Context, how: Resampled) -> Outcome:
    """Figure 1: the gain over FCFS in %, a column per objective and a row per log and policy; curves."""
    found = resampled(context, how)
    bands = {choice: {label: bands_of(grid) for label, grid in grids.items()} for choice, grids in found.items()}
    first = next(iter(bands.values()))
    return Outcome(
        tables=tuple(final_gains(choice, logs) for choice, logs in bands.items()),
        verdicts=verdicts_on_means(first),
        charts=tuple(curves(label, name, each) for label, of in first.items() for name, each in of.items()),
        notes=sample_note(found),
    )


def final_gains(choice: str, bands: dict[str, dict[str, Array]]) -> Table:
    """The gains in % at the end of the log, the largest of all logs first."""
    rows = {
        f"{label}, {policy}": [100 * (1 - float(each[k, 1, -1] / each[0, 1, -1])) for each in by_objective.values()]
        for label, by_objective in bands.items()
        for k, policy in enumerate(COMPARED_NAMES)
        if policy != FCFS
    }
    largest = [max(column) for column in zip(*rows.values(), strict=True)]
    return Table.of_rows(OBJECTIVES, {"largest gain over the logs": largest, **rows}, choice)


def bands_of(grid: Grid) -> dict[str, Array]:
    """By objective: least, mean and most over the samples that are kept, shape (n_policies, 3, n_weeks)."""
    runs = [[cumulative(grid, row) for row in grid.of(policy)] for policy in COMPARED]
    weeks = min(len(curve) for of_policy in runs for curve in of_policy)
    # (n_policies, n_samples, n_weeks, n_objectives)
    stacked = np.array([[curve[:weeks] for curve in of_policy] for of_policy in runs])
    return {name: np.array([trimmed(each) for each in stacked[..., i]]) for i, name in enumerate(OBJECTIVES)}


def cumulative(grid: Grid, row: dict[str, Any]) -> Array:
    """At the end of each week over the jobs that have ended by then, from the first week in which one has.

    Shape (n_weeks, n_objectives).
    """
    jobs = grid.jobs(row, "start_s", "end_s", "wait_s", "procs")
    wait_s, runtime_s = jobs["wait_s"], jobs["end_s"] - jobs["start_s"]
    values = (bounded_slowdown(wait_s, runtime_s), wait_s, per_processor_slowdown(wait_s, runtime_s, jobs["procs"]))
    week = (jobs["end_s"] // WEEK_S).astype(np.int64)
    counts = np.cumsum(np.bincount(week))
    sums = np.array([np.cumsum(np.bincount(week, weights=each)) for each in values])
    return np.asarray((sums / np.maximum(counts, 1)).T)


def trimmed(samples: Array) -> list[Array]:
    """Least, mean and most over the samples kept; `samples` has shape (n_samples, n_weeks)."""
    kept = samples[without_extremes(samples[:, -1])]
    return [kept.min(axis=0), kept.mean(axis=0), kept.max(axis=0)]


def without_extremes(values: Array) -> NDArray[np.intp]:
    """The samples without the best and the worst, as in the paper; all if there are few."""
    order = np.argsort(values, kind="stable")
    return np.sort(order if len(order) < FEWEST_TRIMMED else order[1:-1])


def curves(label: str, objective: str, bands: Array) -> Chart:
    """The mean of each policy between its least and its most."""
    head = ["week"]
    columns = [list(range(1, bands.shape[2] + 1))]
    for name, (least, mean, most) in zip(COMPARED_NAMES, bands.tolist(), strict=True):
        head += [name, f"{name} least", f"{name} most"]
        columns += [mean, least, most]
    rows = tuple(zip(*columns, strict=True))
    name, unit = objective.replace(" ", "-"), " (s)" if objective == "waiting time" else ""
    return Chart(f"{name}-{label}", "bands", tuple(head), rows, x="week", y=f"mean {objective}{unit}")


def verdicts_on_means(bands: dict[str, dict[str, Array]]) -> dict[str, Verdict]:
    """Statements of Sections V.A and V.B about the figure."""
    oblivious, pp, close = [], [], {}
    for label, by_objective in bands.items():
        for name, each in by_objective.items():
            mean = dict(zip(COMPARED_NAMES, each[:, 1, -1], strict=True))
            if max(mean[SPF], mean[SAF]) >= min(mean[FCFS], mean[SQF]):
                oblivious.append(f"{label}, {name}")
            close[f"{label}, {name}"] = float(mean[SAF] / min(mean.values()))
        if min(mean, key=lambda policy: mean[policy]) != SAF:  # of the last objective
            pp.append(label)
    worst = max(close, key=lambda each: close[each])
    return {
        "estimates-help": Verdict.unless(oblivious, "so for every log and objective"),
        "saf-pp": Verdict.unless(pp, "so for every log", ", "),
        "saf-close": Verdict(close[worst] <= CLOSE, f"at most {close[worst]:.2f} times the best ({worst})"),
    }


# Figures 2 to 4: who waits, how long, and who is backfilled


@computation
def most_delayed(context: Context, how: Resampled, *, top: Count = 100) -> Outcome:
    """Figure 2: the median width of each sample's jobs with the highest slowdowns, a row per policy; boxes per log."""
    found = resampled(context, how)
    widths = {
        choice: {label: widths_by_policy(grid, top) for label, grid in grids.items()} for choice, grids in found.items()
    }
    medians = {
        choice: {
            label: {name: float(np.median(each)) for name, each in by_policy.items()}
            for label, by_policy in logs.items()
        }
        for choice, logs in widths.items()
    }
    first = next(iter(medians))
    pairs = {label: (each[SPF], each[SAF]) for label, each in medians[first].items()}
    return Outcome(
        tables=tuple(
            Table.of_columns({label: each.values() for label, each in logs.items()}, COMPARED_NAMES, choice)
            for choice, logs in medians.items()
        ),
        verdicts={
            "spf-delays-narrow": Verdict(
                all(spf < saf for spf, saf in pairs.values()),
                "medians under SPF and SAF: " + listed(pairs, " {:g} and {:g}"),
            )
        },
        charts=tuple(
            chart_of_boxes(f"width-{label}", by_policy, y="processors", log_y=True)
            for label, by_policy in widths[first].items()
        ),
        notes=sample_note(found),
    )


def widths_by_policy(grid: Grid, top: int) -> dict[str, NDArray[np.int64]]:
    """The processors of the most delayed jobs, `top` of each sample."""
    return {
        name: np.concatenate([widths_of(grid.jobs(row, "bsld", "procs"), top) for row in grid.of(policy)])
        for policy, name in zip(COMPARED, COMPARED_NAMES, strict=True)
    }


def widths_of(jobs: dict[str, NDArray[Any]], top: int) -> NDArray[np.int64]:
    """The processors of a run's most delayed jobs, shape (top,)."""
    return np.asarray(jobs["procs"][np.argsort(-jobs["bsld"], kind="stable")[:top]])


BSLD_CLASSES = {
    "1": "share_bsld_1",
    "1 to 10": "share_bsld_10",
    "10 to 100": "share_bsld_100",
    "above 100": "share_bsld_above",
}
AT_ONCE, WAITED = "more jobs at once under SAF than FCFS (points)", "fewer jobs above 100 under SAF (times)"
EXCEPTION = (SPF, "1 to 10")  # the paper's own


@computation
def slowdown_classes(context: Context, how: Resampled) -> Outcome:
    """Figure 3: jobs by bounded slowdown; the largest differences of FCFS and SAF, then shares in % by policy."""
    found = resampled(context, how)
    shares = {choice: {label: shares_of(grid) for label, grid in grids.items()} for choice, grids in found.items()}
    first = next(iter(shares.values()))
    worse = [
        f"{label}, {policy}, {name}"
        for label, by_policy in first.items()
        for policy, each in by_policy.items()
        for name, share in each.items()
        if (
            share < by_policy[FCFS][name]
            if name == "1"
            else share > by_policy[FCFS][name] and (policy, name) != EXCEPTION
        )
    ]
    return Outcome(
        tables=tuple(table_of_shares(choice, each) for choice, each in shares.items()),
        verdicts={"all-classes": Verdict.unless(worse, "so for every log")},
        charts=tuple(
            Chart(
                f"classes-{label}",
                "shares",
                ("policy", *BSLD_CLASSES),
                tuple((policy, *each.values()) for policy, each in by_policy.items()),
                x="share of the jobs (%)",
            )
            for label, by_policy in first.items()
        ),
        notes=sample_note(found),
    )


def shares_of(grid: Grid) -> dict[str, dict[str, float]]:
    """Means over the samples in %, by policy and class."""
    return {
        name: {
            each: float(100 * np.mean([row[column] for row in grid.of(policy)]))
            for each, column in BSLD_CLASSES.items()
        }
        for policy, name in zip(COMPARED, COMPARED_NAMES, strict=True)
    }


def table_of_shares(choice: str, shares: dict[str, dict[str, dict[str, float]]]) -> Table:
    """A column per log, after the largest."""
    pairs = [(each[FCFS], each[SAF]) for each in shares.values()]
    at_once = [saf["1"] - fcfs["1"] for fcfs, saf in pairs]
    fewer = [fcfs["above 100"] / saf["above 100"] if saf["above 100"] else None for fcfs, saf in pairs]
    rows: dict[str, tuple[float | None, ...]] = {
        AT_ONCE: (max(at_once), *at_once),
        WAITED: (max((each for each in fewer if each is not None), default=None), *fewer),
    }
    for policy in COMPARED_NAMES:
        for name in BSLD_CLASSES:
            rows[f"{policy}, bsld {name} (%)"] = (None, *(each[policy][name] for each in shares.values()))
    return Table.of_rows(("largest", *shares), rows, choice)


FEWER = "fewer than under FCFS (%)"


@computation
def backfilled(context: Context, how: Resampled) -> Outcome:
    """Figure 4: backfilled jobs, how many fewer than under FCFS and how many, means over the samples by policy."""
    found = resampled(context, how)
    counts = {choice: {label: counts_of(grid) for label, grid in grids.items()} for choice, grids in found.items()}
    first = next(iter(counts.values()))
    most = {label: int(each[COMPARED_NAMES.index(SQF)].max()) for label, each in first.items()}
    return Outcome(
        tables=tuple(table_of_counts(choice, each) for choice, each in counts.items()),
        verdicts={"none-under-sqf": Verdict.of(most, lambda count: count == 0, "{:,} in the sample that has the most")},
        charts=tuple(
            chart_of_boxes(
                f"backfilled-{label}", dict(zip(COMPARED_NAMES, each.tolist(), strict=True)), y="jobs backfilled"
            )
            for label, each in first.items()
        ),
        notes=sample_note(found),
    )


def counts_of(grid: Grid) -> NDArray[np.int64]:
    """Shape (n_policies, n_samples)."""
    return np.array([[row["backfilled"] for row in grid.of(policy)] for policy in COMPARED])


def table_of_counts(choice: str, counts: dict[str, NDArray[np.int64]]) -> Table:
    """The columns of one choice."""
    means = {label: each.mean(axis=1) for label, each in counts.items()}
    fewer = {label: 100 * (1 - each / each[0]) for label, each in means.items()}
    columns = {
        f"mean over the logs: {FEWER}": np.mean(list(fewer.values()), axis=0),
        **{f"{label}: {FEWER}": each for label, each in fewer.items()},
        **{f"{label}: jobs": each for label, each in means.items()},
    }
    return Table.of_columns({name: each.tolist() for name, each in columns.items()}, COMPARED_NAMES, choice)


# Proposition 1: smallest request first backfills nothing


@computation
def no_backfilling(context: Context, *, longest_requests: LongestRequests = 3.0, overrun: Overrun = "kill") -> Outcome:
    """Proposition 1: jobs backfilled on whole logs, a row per log; the threshold is in longest requests of the log."""
    columns = {"SQF, no threshold": ("sqf", False), "SQF, threshold": ("sqf", True), "FCFS": ("fcfs", False)}
    rows, jobs = {}, {}
    for label, path in context.logs.items():
        threshold = longest_requests * longest_request_s(path)
        content = {"policies": ["fcfs", "sqf"], "thresholds": [None, threshold]}
        grid = run_grid(context, label, content, overrun=overrun)
        counts = {(row["policy"], row["threshold_s"] is not None): row["backfilled"] for row in grid.rows}
        rows[label] = [counts[key] for key in columns.values()]
        jobs[label] = grid.rows[0]["jobs"]
    return Outcome(
        tables=(Table.of_rows(columns, rows),),
        verdicts={"none": Verdict(not any(row[0] for row in rows.values()), f"jobs replayed: {listed(jobs, ' {:,}')}")},
    )
