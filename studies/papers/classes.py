"""The 2022 study of small jobs first: a classifier on recorded logs, and replays that use its predictions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from batfill.base.errors import BatfillError
from batfill.base.files import digest
from batfill.learn.habits import CATEGORIES, FEATURE_NAMES
from batfill.model.jobs import DAY_S, WEEK_S, Jobs
from batfill.model.options import REQUEST as USER
from batfill.model.options import Options
from batfill.replays.replay import simulate
from batfill.workloads.formats import load_log
from batfill.workloads.swf import workload_of
from batfill.workloads.swf_log import COMPLETED
from batfill_lab.campaigns.sections import Count, Section, Seed, Text
from batfill_lab.studied import studied
from studies.papers.classification import CORRELATION_LAGS, LoggedJobs, autocorrelations, classify_log, read_jobs
from studies.papers.core import (
    Array,
    Chart,
    Context,
    Grid,
    Outcome,
    Table,
    Value,
    Verdict,
    chart_of_boxes,
    computation,
    is_kept,
    kept,
    listed,
    run_grid,
    shared,
    side_by_side,
)

Rows = Literal["all that ran", "completed"]
ChosenRows = Annotated[list[Rows], Field(min_length=1)]  # of a log; each is a choice
ClassifierVariant = Literal["decoupled known", "decoupled week", "fresh known"]
Choices = Annotated[list[ClassifierVariant], Field(min_length=1)]  # the regime and the divider's rule
Policies = Annotated[list[Text], Field(min_length=1)]
Days = Annotated[float, Field(gt=0)]
LABELS = {"fcfs": "FCFS", "wfp3": "WFP", "spf": "SPF", "saf": "SAF"}  # as the paper calls them
PAPER_TAU_S = 60.0


def policy_title(policy: str) -> str:
    """The policy's name in tables."""
    return LABELS.get(policy, policy.upper())


def rules_of(choice: ClassifierVariant) -> tuple[str, str]:
    """The regime and the divider's rule of a choice."""
    regime, rule = choice.split()
    return regime, rule


# Tables 2 to 4 and Figure 2: the logs


@computation
def job_sizes(context: Context, *, of: Literal["jobs", "area"], rows: ChosenRows) -> Outcome:
    """Tables 2 and 3, small and large jobs: the divider and shares of the jobs, or shares of the area p q.

    A row per log; every choice of rows has its own divider.
    """
    small = ("Small non premature (%)", "Small premature (%)")
    columns = ("Divider (s)" if of == "jobs" else "Large (%)", *small)
    tables, notes = [], []
    for choice in rows:
        found = {label: premature_shares(path, choice, of) for label, path in context.logs.items()}
        tables.append(Table.of_rows(columns, {label: values for label, (values, _) in found.items()}, choice))
        counts = (f"{n:,} rows of {label}" for label, (_, n) in found.items())
        notes.append(f"{choice}: {', '.join(counts)}.")
    return Outcome(tuple(tables), notes=tuple(notes))


def premature_shares(path: Path, rows: Rows, of: Literal["jobs", "area"]) -> tuple[tuple[float, ...], int]:
    """The three figures of a log, and the number of rows behind them."""
    log = load_log(path)
    taken = log["runtime_s"] > 0
    if rows == "completed":
        taken &= log["status"] == COMPLETED
    runtime_s, requested_s = log["runtime_s"][taken], log["requested_s"][taken]
    small_below_s = float(np.median(runtime_s))
    small = runtime_s < small_below_s
    premature = small & (requested_s > small_below_s)
    weight = np.ones(len(runtime_s)) if of == "jobs" else runtime_s * log.needed_procs[taken]
    percents = [float(100 * weight[part].sum() / weight.sum()) for part in (~small, small & ~premature, premature)]
    return (small_below_s if of == "jobs" else percents[0], *percents[1:]), len(runtime_s)


@computation
def class_features(context: Context) -> Outcome:
    """Table 4, the classifier's features: the number of features of each type."""
    lags = [name for name in FEATURE_NAMES if name.startswith("lag ")]
    aggregates = [name for name in FEATURE_NAMES if name.startswith("share ")]
    job = [name for name in FEATURE_NAMES if name in ("p~", "q")]
    counts = {
        "Job features": len(job),
        "Temporal features": len(FEATURE_NAMES) - len(job) - len(lags) - len(aggregates),
        "Lag features": len(lags),
        "Aggregation features": len(aggregates),
    }
    table = Table.of_columns({"features": map(float, counts.values())}, counts)
    return Outcome((table,), notes=(f"In the order of the forest: {', '.join(FEATURE_NAMES)}.",))


@computation
def category_autocorrelation(context: Context, *, user: int) -> Outcome:
    """Figure 2: the similarity of neighbours' run times, median and quartiles over the categories of a user."""
    ((_, path),) = context.logs.items()
    jobs = read_jobs(path)
    own = jobs.user == user
    names = [f"(u, {name})" for name in CATEGORIES]
    by_place: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in autocorrelations(jobs):
        if row["user"] == user and np.isfinite(row["autocorrelation"]):
            by_place[row["category"], row["lag"]].append(row["autocorrelation"])
    lags = range(1, CORRELATION_LAGS + 1)
    quartiles = np.array([[quartiles_of(by_place[name, lag]) for name in names] for lag in lags])  # (lag, name, 3)
    by_size = quartiles[:, names.index("(u, q)"), 0]
    near, far = by_size[:3].mean(), by_size[3:].mean()
    head = ("lag", *(part for name in names for part in (name, f"{name} q1", f"{name} q3")))
    curves = tuple((lag, *quartiles[lag - 1].ravel().tolist()) for lag in lags)
    return Outcome(
        (Table.of_rows(names, {f"lag {lag}": quartiles[lag - 1, :, 0].tolist() for lag in (1, 2, 3, 5, 10, 20)}),),
        {
            "first-lags": Verdict(
                float(near) > float(far),
                f"(u, q): {near:.2f} over lags 1 to 3, {far:.2f} over lags 4 to {CORRELATION_LAGS}",
            )
        },
        (Chart("autocorrelation", "bands", head, curves, "lag", "autocorrelation"),),
        (
            f"User {user} submitted {int(own.sum()):,} jobs with "
            f"{len(np.unique(jobs.procs[own]))} widths and {len(np.unique(jobs.known_request_s[own]))} "
            "requested times.",
        ),
    )


def quartiles_of(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, then the lower and the upper quartile; nan without values."""
    if not values:
        return (float("nan"),) * 3
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return middle, low, high


# Tables 5 and 6, Figures 4 and 5: the classifier on logs as they were


class Studied(Section):
    """Settings of the study."""

    choices: Choices
    only_first: list[Text] = Field(default_factory=list)  # logs too long for any but the first choice
    first_weeks: dict[Text, Count] = Field(default_factory=dict)  # for logs too long to study whole
    weeks: Count | None = None  # of each log, from its start
    seed: Seed = 0


def study_of(context: Context, label: str, choice: ClassifierVariant, how: Studied) -> dict[str, Any] | None:
    """Total counts (`total`), counts per week (`weeks`), and each training's feature importances (`importances`).

    None if the log is too long for this choice.
    """
    if label in how.only_first and choice != how.choices[0]:
        return None
    path = context.logs[label]
    regime, rule = rules_of(choice)
    settings = studied({"small": "forest", "regime": regime, "divider-rule": rule, "seed": how.seed})

    def make() -> dict[str, Any]:
        jobs = first(read_jobs(path), weeks_studied(label, how))
        with context.bar(f"{label}, {choice}: jobs", len(jobs)) as advance:
            done = classify_log(jobs, settings, advance)
        return {"total": done.total().as_dict(), "weeks": done.weeks(), "importances": done.importances}

    found: dict[str, Any] = kept(context.folder, "studies", key_of_study(path, label, choice, how), study_of, make)
    return found


def weeks_studied(label: str, how: Studied) -> int | None:
    """The weeks of a log that are studied, from its first; None for all."""
    return how.weeks or how.first_weeks.get(label)


def key_of_study(path: Path, label: str, choice: ClassifierVariant, how: Studied) -> dict[str, Any]:
    """All that a study depends on."""
    return {"log": digest(path), "weeks": weeks_studied(label, how), "choice": choice, "seed": how.seed}


def studies_ahead(context: Context, how: Studied, choices: Sequence[ClassifierVariant]) -> None:
    """Make the studies that are not kept yet, side by side, the longest logs first."""
    logs = sorted(context.logs.items(), key=lambda log: -log[1].stat().st_size)
    tasks = [
        (label, choice, shared(Studied, how))
        for label, path in logs
        for choice in choices
        if (label not in how.only_first or choice == how.choices[0])
        and not is_kept(context.folder, "studies", key_of_study(path, label, choice, how), study_of)
    ]
    side_by_side(context, study_of, tasks, "studies of logs")


def first(jobs: LoggedJobs, weeks: int | None) -> LoggedJobs:
    """The jobs submitted in the first `weeks` weeks; all for None."""
    n = len(jobs) if weeks is None else int((jobs.submit_s < weeks * WEEK_S).sum())
    columns = {each.name: getattr(jobs, each.name) for each in fields(jobs)}
    cut: dict[str, Any] = {name: each[:n] for name, each in columns.items() if isinstance(each, np.ndarray)}
    return replace(jobs, **cut)


RATES = {"Accuracy (%)": "accuracy", "Precision (%)": "precision", "Recall (%)": "recall"}
ERRORS = {"False Large (%)": "false_large", "False Small (%)": "false_small"}


@computation
def classifier_quality(context: Context, how: Studied, *, figures: Literal["rates", "errors"] = "rates") -> Outcome:
    """Tables 5 and 6 and Figure 4, the classifier's quality: the three rates, or two readings of the errors.

    A row per log, for every choice.
    """
    studies_ahead(context, how, how.choices)
    found = {
        choice: {label: done for label in context.logs if (done := study_of(context, label, choice, how)) is not None}
        for choice in how.choices
    }
    tables = []
    for choice, studies in found.items():
        totals = {label: done["total"] for label, done in studies.items()}
        if figures == "rates":
            rows = {label: [percentage(total[name]) for name in RATES.values()] for label, total in totals.items()}
            tables.append(Table.of_rows(RATES, rows, choice))
            continue
        readings: dict[str, Callable[[dict[str, Any], str], Value]] = {
            "of those judged so": lambda total, name: percentage(total[f"{name}_rate"]),
            "of all jobs": lambda total, name: 100 * total[name] / total["jobs"],
        }
        for reading, share in readings.items():
            errors = {label: [share(total, name) for name in ERRORS.values()] for label, total in totals.items()}
            tables.append(Table.of_rows(ERRORS, errors, f"{choice}, {reading}"))
    judged_first = found[how.choices[0]]
    least = {label: min(done["total"][name] for name in RATES.values()) for label, done in judged_first.items()}
    weekly = {
        label: float(np.median([row["accuracy"] for row in done["weeks"] if row["accuracy"] is not None]))
        for label, done in judged_first.items()
    }
    return Outcome(
        tuple(tables),
        {
            "above-78": Verdict(min(least.values()) > 0.78, f"the least of the three: {in_percent(least)}"),
            "weekly": Verdict(min(weekly.values()) > 0.75, f"accuracy of the median week: {in_percent(weekly)}"),
        },
        tuple(weeks_of(label, done["weeks"]) for label, done in judged_first.items()),
    )


def percentage(share: Value) -> Value:
    """A share in per cent."""
    return None if share is None else 100 * share


def in_percent(shares: dict[str, float]) -> str:
    """The shares of all logs."""
    return listed({label: 100 * share for label, share in shares.items()}, " {:.1f} %")


def weeks_of(label: str, weeks: list[dict[str, Any]]) -> Chart:
    """The quality by week."""
    rows = tuple((row["week"], *(row[name] for name in RATES.values())) for row in weeks)
    return Chart(f"{label}-weeks", "lines", ("week", *RATES.values()), rows, "week", "share")


TEMPORAL = ("hour", "weekday", "day of month", "month", "week of year", "quarter")


@computation
def classifier_importances(context: Context, how: Studied) -> Outcome:
    """Figure 5: the median over the trainings of each feature's share of the decrease of Gini impurity, by log.

    Only forests of the first choice count.
    """
    studies_ahead(context, how, how.choices[:1])
    studies = {label: study_of(context, label, how.choices[0], how) for label in context.logs}
    trained = {
        label: {name: [row[name] for row in done["importances"]] for name in FEATURE_NAMES}
        for label, done in studies.items()
        if done and done["importances"]
    }
    columns = {
        label: {name: float(np.median(each)) for name, each in by_name.items()} for label, by_name in trained.items()
    }
    return Outcome(
        (Table.of_columns({label: found.values() for label, found in columns.items()}, FEATURE_NAMES),),
        verdicts_on_importances(columns),
        tuple(chart_of_boxes(label, by_name, of="feature", y="importance") for label, by_name in trained.items()),
    )


def verdicts_on_importances(columns: dict[str, dict[str, float]]) -> dict[str, Verdict]:
    """The study's statements about importance."""
    top = {label: max(found, key=lambda name: found[name]) for label, found in columns.items()}
    lags = {
        label: all(
            found[f"lag 1 (u, {name})"] > found[f"lag 2 (u, {name})"] > found[f"lag 3 (u, {name})"]
            for name in ("p~", "q", "day")
        )
        for label, found in columns.items()
    }
    temporal = {label: sum(found[name] for name in TEMPORAL) for label, found in columns.items()}
    pairs = {
        label: (share, 1 - share - columns[label]["p~"] - columns[label]["q"]) for label, share in temporal.items()
    }
    return {
        "request": Verdict(
            2 * list(top.values()).count("p~") > len(top),
            f"most important: {listed(top)}",
        ),
        "lags": Verdict(all(lags.values()), listed({label: "yes" if falls else "no" for label, falls in lags.items()})),
        "temporal": Verdict(
            all(share < others for share, others in pairs.values()),
            f"temporal in sum, lags and shares in sum: {listed(pairs, ' {:.2f}, {:.2f}')}",
        ),
    }


# Figures 6 to 9 and Table 7: replays with knowledge of run times

UNBOUND = {"kill": "always", "bound": False}  # as the paper kills
PERFECT = {"small": "perfect", "kill": "never"}
RUNTIME = {"predict": "runtime", "predict-for": "all"}

# The scenarios of Figure 9, each with more information, or more use of it, than the one before.
BASE, CLASSIFIED, IDEMPOTENT, BY_CLASS, BY_RUNTIME = SCENARIOS = (
    "base",
    "classification",
    "classification-idempotent",
    "class-clairvoyant",
    "runtime-clairvoyant",
)


class Replayed(Section):
    """The orders, and the part of a log."""

    policies: Policies
    first_days: dict[Text, Days] = Field(default_factory=dict)  # for logs too long to replay whole
    days: Days | None = None  # of each log, from its start
    seed: Seed = 0

    def grid(self, context: Context, label: str, content: dict[str, Any]) -> Grid:
        """The campaign of these sections on the part of the log that is replayed."""
        days = self.days or self.first_days.get(label)
        part = {} if days is None else {"windows": {"days": days, "count": 1, "align": "first"}}
        return run_grid(context, label, {**content, "tau": PAPER_TAU_S, **part}, overrun="keep")


class Replays(Replayed):
    """The knowledge of run times."""

    fewer: dict[Text, list[Text]] = Field(default_factory=dict)  # the policies for logs too long for all of them
    regime: Literal["decoupled", "fresh"]
    divider_rule: Literal["known", "week"]


class JobsOfRun(NamedTuple):
    """The jobs of a run that were not rejected; arrays of shape (n_jobs,)."""

    submit_s: Array
    end_s: Array
    runtime_s: Array
    bsld: Array


class Runs:
    """All scenarios under all policies on one log."""

    def __init__(self, grid: Grid, policies: Sequence[str]) -> None:
        """`grid` has its runs policy by policy, each in the order of SCENARIOS."""
        self.label, self.grid, self.policies = grid.label, grid, policies
        self.rows = dict(zip(product(policies, SCENARIOS), grid.rows, strict=True))

    def mean(self, policy: str, scenario: str) -> float:
        """The mean bounded slowdown."""
        return float(self.rows[policy, scenario]["mean_bsld"])

    def gain(self, policy: str, scenario: str) -> float:
        """The reduction relative to the base, in per cent."""
        return 100 * (1 - self.mean(policy, scenario) / self.mean(policy, BASE))

    def jobs(self, policy: str, scenario: str) -> JobsOfRun:
        """Times and slowdowns of the jobs, in the same order for all runs."""
        found = self.grid.jobs(self.rows[policy, scenario], "submit_s", "start_s", "end_s", "bsld")
        return JobsOfRun(found["submit_s"], found["end_s"], found["end_s"] - found["start_s"], found["bsld"])

    @cached_property
    def small_below_s(self) -> float:
        """The median run time of the whole log."""
        return float(np.median(self.jobs(self.policies[0], BASE).runtime_s))


def runs_of(context: Context, label: str, how: Replays) -> Runs:
    """The runs of a log; entries with equal settings share them."""
    learned = {"small": "forest", "kill": "never", "regime": how.regime, "divider-rule": how.divider_rule}
    policies = how.fewer.get(label, how.policies)
    content = {
        "policies": policies,
        "knowledge": [USER, learned, {**learned, **UNBOUND}, PERFECT, RUNTIME],
        "seeds": [how.seed],
        "per-job": True,
    }
    return Runs(how.grid(context, label, content), policies)


ABOUT_EQUAL = 1.2  # two are about equal if the worse is at most this many times the better
RANGES = {"fcfs": (33, 79), "spf": (3, 32), "saf": (10, 51)}  # of gains over the seven logs, in per cent
Scenario = Literal["classification", "classification-idempotent", "class-clairvoyant", "runtime-clairvoyant"]


@computation
def classified_gains(
    context: Context, how: Replays, *, scenarios: Annotated[list[Scenario], Field(min_length=1)]
) -> Outcome:
    """Figures 6 and 9: what each scenario gains over the same policy with users' requests in %, a column per log.

    The charts are the cumulative bounded slowdowns of Figure 6.
    """
    found = [runs_of(context, label, how) for label in context.logs]
    rows = {
        policy_title(policy) if len(scenarios) == 1 else f"{policy_title(policy)}, {scenario}": [
            runs.gain(policy, scenario) if policy in runs.policies else None for runs in found
        ]
        for policy in how.policies
        for scenario in scenarios
    }
    bases = (
        f"{runs.label} {', '.join(f'{policy_title(policy)} {runs.mean(policy, BASE):.2f}' for policy in runs.policies)}"
        for runs in found
    )
    return Outcome(
        (Table.of_rows((runs.label for runs in found), rows),),
        verdicts_on_gains(found),
        tuple(sums_of(runs) for runs in found),
        (f"Mean bounded slowdown of the bases: {'; '.join(bases)}.",),
    )


def sums_of(runs: Runs) -> Chart:
    """The running sum of bounded slowdowns of ended jobs, under every policy, base and classified.

    There is a point for every hundredth of the time.
    """
    pairs = [(policy, scenario) for policy in runs.policies for scenario in (BASE, IDEMPOTENT)]
    jobs = [runs.jobs(policy, scenario) for policy, scenario in pairs]
    at_s = np.linspace(0, max(each.end_s.max() for each in jobs), 101)
    curves = []
    for each in jobs:
        order = np.argsort(each.end_s)
        sums = np.concatenate([[0.0], np.cumsum(each.bsld[order])])
        curves.append(sums[np.searchsorted(each.end_s[order], at_s, side="right")].tolist())
    head = tuple(
        f"{policy_title(policy)}{' classified' if scenario == IDEMPOTENT else ''}" for policy, scenario in pairs
    )
    rows = tuple(zip((at_s / DAY_S).tolist(), *curves, strict=True))
    return Chart(f"{runs.label}-cumulative", "lines", ("day", *head), rows, "day", "sum of bounded slowdowns")


def verdicts_on_gains(found: Sequence[Runs]) -> dict[str, Verdict]:
    """The statements, on every policy and log that was run."""
    cases = [(runs, policy) for runs in found for policy in runs.policies]

    def compared(better: str, worse: str, *, times: float = 1.0, most: bool = False) -> Verdict:
        """Whether one scenario has less than `times` the slowdown of another, in all or in most cases."""
        not_so = [
            f"{runs.label} {policy_title(policy)} ({runs.mean(policy, better):.2f}, {runs.mean(policy, worse):.2f})"
            for runs, policy in cases
            if not runs.mean(policy, better) < times * runs.mean(policy, worse)
        ]
        evidence = f"so in {len(cases) - len(not_so)} of {len(cases)}"
        holds = 2 * len(not_so) < len(cases) if most else not not_so
        return Verdict(holds, evidence + (f"; not so: {', '.join(not_so)}" if not_so else ""))

    gains = {(runs.label, policy): runs.gain(policy, IDEMPOTENT) for runs, policy in cases if policy in RANGES}
    within = all(RANGES[policy][0] <= gain <= RANGES[policy][1] for (_, policy), gain in gains.items())
    return {
        "reduces": compared(IDEMPOTENT, BASE),
        "without-killing": compared(CLASSIFIED, BASE, most=True),
        "killing": compared(IDEMPOTENT, CLASSIFIED, most=True),
        "close": compared(IDEMPOTENT, BY_CLASS, times=ABOUT_EQUAL),
        "class": compared(BY_CLASS, IDEMPOTENT),
        "runtime": compared(BY_RUNTIME, BY_CLASS),
        "order": order_of_bases(found),
        "ranges": Verdict(within, by_case(gains, " {:.0f} %")),
    }


def order_of_bases(found: Sequence[Runs]) -> Verdict:
    """SAF and SPF about equal, then WFP, then FCFS; on the logs that were run under all of them."""
    bases = {
        runs.label: tuple(runs.mean(policy, BASE) for policy in ("saf", "spf", "wfp3", "fcfs"))
        for runs in found
        if set(runs.policies) == set(LABELS)
    }
    holds = all(
        max(saf, spf) <= ABOUT_EQUAL * min(saf, spf) and max(saf, spf) < wfp < fcfs
        for saf, spf, wfp, fcfs in bases.values()
    )
    evidence = listed(bases, " SAF {:.1f}, SPF {:.1f}, WFP {:.1f}, FCFS {:.1f}", "; ")
    return Verdict(holds and bool(bases), evidence or "no log was run under all four")


def by_case(values: dict[tuple[str, str], float], words: str) -> str:
    """The values by log and policy."""
    return listed({f"{label} {policy_title(policy)}": value for (label, policy), value in values.items()}, words)


@computation
def classified_months(context: Context, how: Replays) -> Outcome:
    """Figure 7: the share of the months whose mean bounded slowdown falls, in %: a row per policy, a column per log."""
    found = [runs_of(context, label, how) for label in context.logs]
    pairs = {
        (runs.label, policy): [monthly(runs.jobs(policy, scenario)) for scenario in (BASE, IDEMPOTENT)]
        for runs in found
        for policy in runs.policies
    }
    falls = {key: 100 * float((after < before).mean()) for key, (before, after) in pairs.items()}
    rows = {policy_title(policy): [falls.get((runs.label, policy)) for runs in found] for policy in how.policies}
    counts = listed({runs.label: len(pairs[runs.label, runs.policies[0]][0]) for runs in found})
    return Outcome(
        (Table.of_rows((runs.label for runs in found), rows),),
        {"most": Verdict(min(falls.values()) > 50, f"months that fall: {by_case(falls, ' {:.0f} %')}")},
        tuple(
            marks(
                runs.label,
                "month's mean bsld, base",
                [policy_title(policy) for policy in runs.policies],
                (
                    (policy_title(policy), float(before), float(after))
                    for policy in runs.policies
                    for before, after in zip(*pairs[runs.label, policy], strict=True)
                ),
            )
            for runs in found
        ),
        (f"Months are 30 days; jobs count where they were submitted. Months with jobs: {counts}.",),
    )


THIRTY_DAYS_S = 30 * DAY_S


def monthly(jobs: JobsOfRun) -> Array:
    """The mean bounded slowdown of the jobs submitted in each month with any, shape (n_months,)."""
    month = (jobs.submit_s // THIRTY_DAYS_S).astype(np.int64)
    count = np.bincount(month)
    return np.asarray((np.bincount(month, weights=jobs.bsld)[count > 0]) / count[count > 0])


def marks(label: str, x: str, names: Sequence[str], points: Iterable[tuple[str, float, float]]) -> Chart:
    """A mark per point, with its series' name: below the diagonal classification is better."""
    rows = [(before, *(after if name == column else None for column in names)) for name, before, after in points]
    head = ("base", *names)
    return Chart(label, "points", head, tuple(rows), x, "classification-idempotent", log_x=True, log_y=True)


@computation
def classified_sizes(context: Context, how: Replays) -> Outcome:
    """Figure 8: how the mean bounded slowdown of small and of large jobs changes, in %: by policy and size, and log."""
    found = [runs_of(context, label, how) for label in context.logs]
    means = {
        (runs.label, policy, size): means_of(runs, policy, size)
        for runs in found
        for policy in runs.policies
        for size in SIZES
    }
    change = {key: 100 * (after / before - 1) for key, (before, after) in means.items()}
    by_size = {
        size: {(label, policy): value for (label, policy, each), value in change.items() if each == size}
        for size in SIZES
    }
    rows = {
        f"{policy_title(policy)}, {size}": [change.get((runs.label, policy, size)) for runs in found]
        for policy in how.policies
        for size in SIZES
    }
    return Outcome(
        (Table.of_rows((runs.label for runs in found), rows),),
        {
            size: Verdict(
                all(value < 0 if size == "small" else value <= 15 for value in values.values()),
                f"{size}: {by_case(values, ' {:+.0f} %')}",
            )
            for size, values in by_size.items()
        },
        tuple(
            marks(
                runs.label,
                "mean bsld, base",
                SIZES,
                ((size, *means[runs.label, policy, size]) for policy in runs.policies for size in SIZES),
            )
            for runs in found
        ),
        tuple(f"{runs.label}: small is below {runs.small_below_s:g} s, the median of the whole log." for runs in found),
    )


SIZES = ("small", "large")


def means_of(runs: Runs, policy: str, size: str) -> tuple[float, float]:
    """The mean bounded slowdown of the log's small or large jobs, in the base and with classification and killing."""
    jobs = [runs.jobs(policy, scenario) for scenario in (BASE, IDEMPOTENT)]
    before, after = (each.bsld[(each.runtime_s < runs.small_below_s) == (size == "small")].mean() for each in jobs)
    return float(before), float(after)


@computation
def predicted_run_times(
    context: Context,
    how: Replays,
    *,
    backfills: list[Text],  # under which run times are predicted; the first is that of the classification, too
) -> Outcome:
    """Table 7, classification and predictions: gains over EASY-FCFS in %, a row per log, a table per backfill."""
    predicted = {label: predictions(context, label, how, backfills) for label in context.logs}
    classified: dict[str, dict[str, float]] = {}
    for label in context.logs:
        runs = runs_of(context, label, how)
        if "fcfs" not in runs.policies:
            raise BatfillError(f"{label}: gains are over EASY-FCFS; put fcfs among its policies")
        base = runs.mean("fcfs", BASE)
        classified[label] = {
            f"{policy_title(policy)}-CI": 100 * (1 - runs.mean(policy, IDEMPOTENT) / base)
            for policy in ("fcfs", "spf")
            if policy in runs.policies
        }
    orders = {"same": "backfill in the queue's order", "spf": "backfill shortest first"}
    columns = {
        "EASY++": "easy++",
        "EASY++, its authors": "easy++",
        "regression, its authors": "regression",
        "users' requests": USER,  # what the order of backfilling gains alone
    }
    tables = [
        Table.of_rows(
            columns,
            {label: [by[backfill][name] for name in columns.values()] for label, by in predicted.items()},
            orders.get(backfill, f"backfill {backfill}"),
        )
        for backfill in backfills
    ]
    names = ("FCFS-CI", "SPF-CI")
    ours = {label: [found.get(name) for name in names] for label, found in classified.items()}
    best = {
        label: max(gain for found in by.values() for name, gain in found.items() if name != USER)
        for label, by in predicted.items()
    }
    # What the predictions gain beyond the order of backfilling that they are used with.
    beyond = {
        label: tuple(
            max(found[name] - found[USER] for found in by.values()) for name in next(iter(by.values())) if name != USER
        )
        for label, by in predicted.items()
    }
    evidence = {label: (listed(found, " {:.0f}"), best[label]) for label, found in classified.items()}
    return Outcome(
        (*tables, Table.of_rows(names, ours)),
        {
            "better": Verdict(
                all(min(classified[label].values()) > best[label] for label in best),
                listed(evidence, " {}, best prediction {:.0f}", "; "),
            ),
            "predictions": Verdict(
                all(min(gains) > 0 for gains in beyond.values()),
                "EASY++ and the regression beyond users' requests under the same backfilling, at best, in points: "
                + listed(beyond, " {:+.0f} and {:+.0f}"),
            ),
        },
    )


def predictions(context: Context, label: str, how: Replays, backfills: list[str]) -> dict[str, dict[str, float]]:
    """By backfill and knowledge: the gain over EASY-FCFS, backfilled in the queue's order, in per cent."""
    names = (USER, "easy++", "regression")
    content = {"policies": ["fcfs"], "backfills": backfills, "knowledge": [known(name) for name in names]}
    mean = {(row["backfill"], row["knowledge"]): row["mean_bsld"] for row in how.grid(context, label, content).rows}
    base = mean["same", USER]
    return {backfill: {name: 100 * (1 - mean[backfill, name] / base) for name in names} for backfill in backfills}


def known(predictor: str) -> str | dict[str, str]:
    """The options of a predictor as its authors use it, in the whole decision."""
    return predictor if predictor == USER else {"predict": predictor, "predict-for": "all"}


# Every job tried, instead of a classifier

TRIED = "every job tried"  # for one divider, then killed and requeued as large if it still runs


@computation
def tried_jobs(context: Context, how: Replays) -> Outcome:
    """Killing without a classifier: gains over the base in %, and what they cost; a column per log.

    Every job counts as small, and is killed at the divider if it runs on: only the divider is learned.
    """
    learned = {"small": "forest", "regime": how.regime, "divider-rule": how.divider_rule, **UNBOUND}
    known = {
        BASE: USER,
        IDEMPOTENT: learned,
        TRIED: {"small": "all", "kill": "always", "regime": how.regime},
        BY_CLASS: PERFECT,
    }
    found: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for label in context.logs:
        policies = how.fewer.get(label, how.policies)
        # The settings of Figures 6 to 9, which share the first two and the last.
        content = {"policies": policies, "knowledge": list(known.values()), "seeds": [how.seed], "per-job": True}
        rows = how.grid(context, label, content).rows
        found[label] = dict(zip(product(policies, known), rows, strict=True))

    def table(title: str, of: Callable[[dict[str, Any], dict[str, Any]], float]) -> Table:
        rows = {
            f"{policy_title(policy)}, {scenario}": [
                of(by[policy, scenario], by[policy, BASE]) if (policy, scenario) in by else None
                for by in found.values()
            ]
            for policy in how.policies
            for scenario in list(known)[1:]
        }
        return Table.of_rows(found, rows, title)

    means = {
        f"{label} {policy_title(policy)}": (by[policy, IDEMPOTENT]["mean_bsld"], by[policy, TRIED]["mean_bsld"])
        for label, by in found.items()
        for policy in dict.fromkeys(policy for policy, _ in by)
    }
    return Outcome(
        (
            table("gain (%)", lambda row, base: 100 * (1 - row["mean_bsld"] / base["mean_bsld"])),
            table("longest wait over the base's", lambda row, base: row["max_wait_s"] / base["max_wait_s"]),
            table("tries killed", lambda row, base: row["requeued"]),
            table("work wasted on them (%)", lambda row, base: 100 * row["wasted"]),
        ),
        {
            "little-left": Verdict(
                all(classified <= ABOUT_EQUAL * tried for classified, tried in means.values()),
                f"mean bounded slowdown of the classifier with killing, and with {TRIED}: "
                + listed(means, " {:.2f} and {:.2f}"),
            )
        },
    )


# What the study leaves open


@computation
def classified_regimes(
    context: Context,
    how: Replayed,
    *,
    choices: Choices,
    thresholds: Annotated[dict[Text, float | None], Field(min_length=1)],  # by their labels
) -> Outcome:
    """How recent the information is, the divider, the threshold: gains over EASY-FCFS without a threshold in %.

    A row per choice and threshold, a column per policy.
    """
    ((label, _),) = context.logs.items()
    known: list[Any] = [USER]
    for choice in choices:
        regime, rule = rules_of(choice)
        known.append({"small": "forest", **UNBOUND, "regime": regime, "divider-rule": rule})
    content = {
        "policies": how.policies,
        "thresholds": list(thresholds.values()),
        "knowledge": known,
        "seeds": [how.seed],
    }
    cases = product(how.policies, thresholds, ("base", *choices))
    rows = how.grid(context, label, content).rows
    mean = {case: row["mean_bsld"] for case, row in zip(cases, rows, strict=True)}
    base = next(iter(mean.values()))
    gains = {
        f"{choice}, {threshold}": [100 * (1 - mean[policy, threshold, choice] / base) for policy in how.policies]
        for choice in ("base", *choices)
        for threshold in thresholds
    }
    table = Table.of_rows((f"{policy_title(policy)}-CI" for policy in how.policies), gains)
    return Outcome((table,), notes=(f"{policy_title(how.policies[0])} has a mean bounded slowdown of {base:.2f}.",))


@computation
def clairvoyant_rows(context: Context, *, policies: Policies, rows: ChosenRows) -> Outcome:
    """What perfect knowledge gains over users' requests in %, a column per log, with all rows or completed ones.

    The study does not say which it replayed; its Figure 9 and Table 2 hang on it.
    """
    scenarios = {BY_CLASS: PERFECT, BY_RUNTIME: RUNTIME}
    names = [f"{policy_title(policy)}, {scenario}" for policy in policies for scenario in scenarios]
    tables, notes = [], []
    with context.bar("replays", len(context.logs) * len(rows) * len(policies)) as advance:
        for choice in rows:
            columns: dict[str, list[float]] = {}
            for label, path in context.logs.items():
                workload = workload_with(path, choice)
                bases, gains = {}, []
                for policy in policies:
                    base, *known = (replayed_bsld(workload, policy, each) for each in ({}, *scenarios.values()))
                    bases[policy_title(policy)] = base
                    gains += [100 * (1 - mean / base) for mean in known]
                    advance(1)
                columns[label] = gains
                jobs = f"{choice}, {label}: {len(workload.jobs):,} jobs"
                notes.append(f"{jobs}; users' requests give {listed(bases, ' {:.2f}')}.")
            tables.append(Table.of_columns(columns, names, choice))
    return Outcome(tuple(tables), notes=tuple(notes))


def workload_with(path: Path, rows: Rows) -> Jobs:
    """The workload of these rows of the log."""
    log = load_log(path)
    if rows == "completed":
        log = replace(log, rows=log.rows[log["status"] == COMPLETED])
    return workload_of(path, log)


def replayed_bsld(workload: Jobs, policy: str, known: dict[str, str]) -> float:
    """The mean bounded slowdown of a replay of the workload under these options."""
    schedule, _ = simulate(workload.jobs, workload, Options.of({"policy": policy, **known}))
    return schedule.summary(PAPER_TAU_S).mean_bsld
