"""The 2017 study of online policy selection: policies chosen period by period on resampled logs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import Field

from batfill.base.files import digest
from batfill.model.jobs import DAY_S
from batfill.replays.found import ReadingOptions
from batfill_lab.campaigns.sections import Count, Seconds, Section, Seed, Text
from batfill_lab.online.selection import selection_and_site
from batfill_lab.search.select import Samples, compare_online, mean_share
from studies.papers.core import (
    Chart,
    Context,
    Outcome,
    Table,
    Value,
    Verdict,
    computation,
    identity_of,
    is_kept,
    kept,
    listed,
    shared,
    side_by_side,
)

PaperMethod = Literal["full", "noisy", "epsilon-greedy"]
METHOD_TITLES: dict[PaperMethod, str] = {
    "full": "FullFeedback",
    "noisy": "NoisyFeedback",
    "epsilon-greedy": "EpsilonGreedy",
}
Share = Annotated[float, Field(ge=0, le=1)]
Period = Annotated[float, Field(gt=0)]
PaperNoise = Literal["walltime"] | float
CHART_POINTS = 120  # of a chart, at most


class Choosing(Section):
    """Choices that the paper leaves open: how policies are selected, and on which logs."""

    samples: Count  # resamplings of each log
    fewer: dict[Text, Count] = Field(default_factory=dict)  # for logs too long for all of them
    weeks: Count | None = None  # length of a resampling; None for the log's
    period: Period  # Delta, in seconds
    decay: Share = 0.9  # lambda
    balance: Share = 1.0  # alpha
    epsilon: Share = 0.1
    noise: PaperNoise = "walltime"
    threshold: Seconds | None = None
    seed: Seed = 0


def selected(context: Context, label: str, method: PaperMethod, how: Choosing) -> dict[str, Any]:
    """`compare_online` on resamplings of the log: mean waits over EASY-FCFS's, and the policies chosen over time."""
    samples = samples_of(label, how)

    def make() -> dict[str, Any]:
        logs = Samples.of(context.logs[label], ReadingOptions(), resampled=True, weeks=how.weeks, seed=how.seed)
        selection, site = selection_and_site(given_to(method, how), logs.procs, "same", how.threshold)
        with context.bar(f"{label}, {METHOD_TITLES[method]}: logs", samples) as advance:
            return compare_online(logs.jobs, samples, selection, site, source={}, advance=advance)

    found: dict[str, Any] = kept(context.folder, "selected", selection_key(context, label, method, how), selected, make)
    return found


def samples_of(label: str, how: Choosing) -> int:
    """The number of resamplings of a log."""
    return how.fewer.get(label, how.samples)


def given_to(method: PaperMethod, how: Choosing) -> dict[str, Any]:
    """The options of a method."""
    options: dict[str, Any] = {"epsilon": how.epsilon}
    if method != "epsilon-greedy":
        options = {"lambda": how.decay, "alpha": how.balance}
    if method == "noisy":
        options["noise"] = str(how.noise)
    return {"select": method, "policies": "ten", "period": how.period, "seed": how.seed, **options}


def selection_key(context: Context, label: str, method: PaperMethod, how: Choosing) -> dict[str, Any]:
    """All that the selection on a log depends on."""
    given = {**given_to(method, how), "threshold": how.threshold, "weeks": how.weeks}
    return {"log": digest(context.logs[label]), "samples": samples_of(label, how), **given}


def selected_ahead(context: Context, wanted: Iterable[tuple[str, PaperMethod, Choosing]]) -> None:
    """Select on the logs, by the methods and with the choices that are wanted, side by side if not kept yet."""
    tasks = {
        identity_of(key): (label, method, shared(Choosing, how))
        for label, method, how in wanted
        if not is_kept(context.folder, "selected", key := selection_key(context, label, method, how), selected)
    }
    # The time goes with the log's length, the resamplings and the periods.
    size = {label: path.stat().st_size for label, path in context.logs.items()}
    length = {key: size[label] * samples_of(label, how) / how.period for key, (label, _, how) in tasks.items()}
    longest = [tasks[key] for key in sorted(tasks, key=lambda key: -length[key])]
    side_by_side(context, selected, longest, "selections")


# Figures 1 and 2: waits

BEST_THROUGHOUT = "best policy throughout"
AS_GOOD = 1.05  # "recovers" is a wait of at most this many times that of the best policy throughout


@computation
def online_courses(
    context: Context,
    how: Choosing,
    *,
    periods: Annotated[dict[Text, float], Field(min_length=1)],  # by their labels
) -> Outcome:
    """Figures 1 and 2: mean waits at the log's end over EASY-FCFS's, means over the resamplings; a column per log.

    Several lengths of a period stand side by side; charts and verdicts are those of the one in `period`.
    """
    tables, charts = [], []
    shown: dict[str, dict[str, float]] = {}
    choices = [how.model_copy(update={"period": period}) for period in periods.values()]
    selected_ahead(context, product(context.logs, METHOD_TITLES, choices))
    for name, period in periods.items():
        taken = how.model_copy(update={"period": period})
        found = {
            label: {title: selected(context, label, m, taken) for m, title in METHOD_TITLES.items()}
            for label in context.logs
        }
        ratios = {label: ratios_of(by_method) for label, by_method in found.items()}
        rows = (*METHOD_TITLES.values(), BEST_THROUGHOUT)
        tables.append(Table.of_rows(ratios, {row: [each[row] for each in ratios.values()] for row in rows}, name))
        if period == how.period:
            shown = ratios
            charts = [course_of(label, by_method, period) for label, by_method in found.items()]
    counts = {label: samples_of(label, how) for label in context.logs}
    best = {label: best_throughout(next(iter(by_method.values())))[0] for label, by_method in found.items()}
    notes = (f"Resamplings by weeks: {listed(counts)}.", f"Best policy throughout: {listed(best)}.")
    return Outcome(tuple(tables), verdicts_on_waits(shown), tuple(charts), notes)


def ratios_of(by_method: dict[str, Any]) -> dict[str, float]:
    """At the end of the log: of each method, and of the best policy in hindsight."""
    ratios = {title: float(found["wait_over_fcfs"]["mean"]) for title, found in by_method.items()}
    return {**ratios, BEST_THROUGHOUT: best_throughout(next(iter(by_method.values())))[1]}


def best_throughout(found: dict[str, Any]) -> tuple[str, float]:
    """The policy with the least mean wait if used throughout, and its wait over EASY-FCFS's."""
    name = min(found["throughout"], key=lambda each: (found["throughout"][each]["mean"], each))
    return name, float(found["throughout"][name]["mean"])


def course_of(label: str, by_method: dict[str, Any], period: float) -> Chart:
    """The course: mean over the resamplings, and the band from the 10th to the 90th percentile."""
    courses = [found["by_period"] for found in by_method.values()]
    step = -(-len(courses[0]) // CHART_POINTS)
    rows = [
        (
            (k + 1) * period / DAY_S,
            *(course[k]["wait_over_fcfs"][part] for course in courses for part in ("mean", "p10", "p90")),
        )
        for k in range(step - 1, min(map(len, courses)), step)
    ]
    head = ("day", *(part for title in by_method for part in (title, f"{title} p10", f"{title} p90")))
    return Chart(f"{label}-course", "bands", head, tuple(rows), "day", "mean wait / EASY-FCFS's")


def verdicts_on_waits(ratios: dict[str, dict[str, float]]) -> dict[str, Verdict]:
    """On what the abstract says."""
    full, noisy, bandit = METHOD_TITLES.values()

    def waits(row: str) -> str:
        return f"{row}: {listed({label: found[row] for label, found in ratios.items()}, ' {:.3f}')}"

    return {
        "half": Verdict(min(found[noisy] for found in ratios.values()) <= 0.5, waits(noisy)),
        "hindsight": Verdict(
            all(found[noisy] <= AS_GOOD * found[BEST_THROUGHOUT] for found in ratios.values()),
            f"{waits(noisy)}; {waits(BEST_THROUGHOUT)}",
        ),
        "bandit": Verdict(min(found[bandit] for found in ratios.values()) <= 0.4, waits(bandit)),
        "noisy-as-full": Verdict(
            all(found[noisy] <= AS_GOOD * found[full] for found in ratios.values()),
            f"{waits(full)}; {waits(noisy)}",
        ),
    }


# Figures 3 to 5: who is chosen

CHARTED = 5  # policies; the others share a line


@computation
def chosen_shares(context: Context, how: Choosing, *, method: PaperMethod) -> Outcome:
    """Figures 3 to 5: the share of the periods of all resamplings with a policy chosen, in %, a column per log."""
    selected_ahead(context, product(context.logs, [method], [how]))
    found = {label: selected(context, label, method, how) for label in context.logs}
    names = tuple(next(iter(found.values()))["throughout"])
    shares = {label: {name: mean_share(one, name) or 0.0 for name in names} for label, one in found.items()}
    first = {label: max(by_name.items(), key=lambda each: each[1]) for label, by_name in shares.items()}
    evidence = listed({label: (name, 100 * share) for label, (name, share) in first.items()}, " {} {:.0f} %")
    columns = {label: [100 * share for share in by_name.values()] for label, by_name in shares.items()}
    return Outcome(
        (Table.of_columns(columns, (name.upper() for name in names)),),
        {"one": Verdict(all(share > 0.5 for _, share in first.values()), f"chosen most: {evidence}")},
        tuple(use_shares(label, one, shares[label], how.period) for label, one in found.items()),
    )


def use_shares(label: str, found: dict[str, Any], shares: dict[str, float], period: float) -> Chart:
    """The share of the resamplings in which each of the most chosen policies was in use, by time."""
    most = sorted(shares, key=lambda name: -shares[name])[:CHARTED]
    periods = found["by_period"]
    rows = []
    for k in range(0, len(periods), -(-len(periods) // CHART_POINTS)):
        now = [periods[k]["shares"][name] for name in most]
        rows.append(((k + 0.5) * period / DAY_S, *now, max(0.0, 1 - sum(now))))
    head = ("day", *(name.upper() for name in most), "others")
    return Chart(f"{label}-shares", "lines", head, tuple(rows), "day", "share of the resamplings")


# What the paper leaves open

# The parameters of each method; a threshold and Delta apply to all.
USED_BY: dict[str, tuple[PaperMethod, ...]] = {
    "decay": ("full", "noisy"),
    "balance": ("full", "noisy"),
    "noise": ("noisy",),
    "epsilon": ("epsilon-greedy",),
}


class Change(Section):
    """Replacement of a default value."""

    period: Period | None = None
    decay: Share | None = None
    balance: Share | None = None
    epsilon: Share | None = None
    noise: PaperNoise | None = None
    threshold: Seconds | None = None


@computation
def online_choices(
    context: Context,
    how: Choosing,
    *,
    varied: Annotated[dict[Text, Change], Field(min_length=1)],  # what takes the usual values' place, by rows' labels
) -> Outcome:
    """Each open choice varied alone: mean waits over EASY-FCFS's, a column per method and log, a row per change."""
    columns = {
        f"{title}, {label}": (method, label) for label in context.logs for method, title in METHOD_TITLES.items()
    }
    changes = {"as in the other entries": Change(), **varied}
    wanted = {
        (name, label, method): how.model_copy(update=changed)
        for name, changed in ((name, change.model_dump(exclude_unset=True)) for name, change in changes.items())
        for method, label in columns.values()
        if not changed or any(method in USED_BY.get(key, (method,)) for key in changed)
    }
    selected_ahead(context, ((label, method, taken) for (_, label, method), taken in wanted.items()))
    waits: dict[tuple[str, str, str], Value] = {
        (name, label, method): float(selected(context, label, method, taken)["wait_over_fcfs"]["mean"])
        for (name, label, method), taken in wanted.items()
    }
    rows = {name: [waits.get((name, label, method)) for method, label in columns.values()] for name in changes}
    return Outcome((Table.of_rows(columns, rows),))
