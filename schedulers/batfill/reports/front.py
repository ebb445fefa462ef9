"""The output of `classify` and `frontier`: tables, summaries and figures about learned run times."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.files import all_or_none, csv_text, make_folder, whole_file, write_json, write_text
from batfill.base.version import __version__
from batfill.learn.habits import CATEGORIES, FEATURE_NAMES
from batfill.model.jobs import HOUR_S
from batfill.model.options import as_line
from batfill.reports.palette import DISTINCT, MEAN_BSLD, dress, style, styles
from batfill.search.classify import CORRELATION_LAGS, autocorrelations
from batfill.search.frontier import PERFECT, POINT_COLUMNS, SHARED

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from batfill.search.classify import ClassifiedLog
    from batfill.search.frontier import Point


def write_study(done: ClassifiedLog, folder: Path) -> list[Path]:
    """Write summary.json, weeks, importances, jobs and autocorrelations as Parquet, and four figures; their paths.

    Raises:
        BatfillError: the folder cannot be created.
    """
    make_folder(folder)
    jobs, alike = done.jobs, autocorrelations(done.jobs)
    tables: dict[str, dict[str, Any]] = {
        "weeks": columns_of(done.weeks()),
        "importances": columns_of(done.importances),
        "jobs": {
            "job": jobs.number,
            "submit_s": jobs.submit_s,
            "runtime_s": jobs.runtime_s,
            "judged_small": done.small,
            "small": done.truth,
            "probability": done.probability,
            "divider_s": done.divider_s,
        },
        "autocorrelation": columns_of(alike),
    }
    figures = {
        "quality": quality_figure(done),
        "confusion": confusion_figure(done),
        "importances": importance_figure(done),
        "autocorrelation": autocorrelation_figure(done, alike),
    }
    made = [folder / "summary.json"]
    with all_or_none():
        write_json(made[0], done.as_dict())
        for name, columns in tables.items():
            made.append(folder / f"{name}.parquet")
            write_table(columns, made[-1], done.as_dict())
        for name, figure in figures.items():
            made.append(folder / f"{name}.svg")
            save_svg(figure, made[-1])
    return made


def save_svg(figure: Figure, path: Path) -> None:
    """Write the figure as SVG, without a date: equal figures give equal bytes."""
    with whole_file(path) as file:
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "batfill"})


def columns_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Rows with equal keys as columns."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}


def write_table(columns: dict[str, Any], path: Path, whole: dict[str, Any]) -> None:
    """Write a table as Parquet, with `whole` in its metadata under batfill.study."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(columns).replace_schema_metadata({b"batfill.study": json.dumps(whole).encode()})
    with whole_file(path) as file:
        pq.write_table(table, file, compression="zstd")


def empty_figure(x: str, y: str, height_in: float = 4.5) -> tuple[Figure, Any]:
    """A figure with one pair of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, height_in), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlabel=x, ylabel=y)
    return figure, axes


def study_title(done: ClassifiedLog, what: str) -> str:
    """A figure's title: content, log, and settings."""
    chosen = done.settings
    return (
        f"{done.jobs.name}, {len(done.jobs):,} jobs: {what}; regime {chosen.regime}, "
        f"divider rule {chosen.divider_rule}, cut {chosen.cut:g}, seed {chosen.seed}; batfill {__version__}"
    )


def quality_figure(done: ClassifiedLog) -> Figure:
    """Accuracy, precision and recall per week (Figure 4)."""
    figure, axes = empty_figure("week", "share")
    weeks = done.weeks()
    for k, name in enumerate(("accuracy", "precision", "recall")):
        values = [np.nan if row[name] is None else row[name] for row in weeks]
        drawn = style(k)
        axes.plot(
            [row["week"] for row in weeks], values, label=name, linewidth=1, color=drawn.light, linestyle=drawn.line
        )
    axes.set_ylim(0, 1)
    dress(figure, study_title(done, "how right the classifier was, week by week"))
    return figure


def confusion_figure(done: ClassifiedLog) -> Figure:
    """Jobs per week by predicted and true class."""
    figure, axes = empty_figure("week", "jobs")
    weeks = done.weeks()
    names = ("true_small", "true_large", "false_small", "false_large")
    counts = [[row[name] for row in weeks] for name in names]
    if weeks:
        numbers, labels = [row["week"] for row in weeks], [name.replace("_", " ") for name in names]
        axes.stackplot(numbers, counts, labels=labels, colors=[style(k).light for k in range(len(names))])
    dress(figure, study_title(done, "jobs by what they were judged, and whether that was true, week by week"))
    return figure


def importance_figure(done: ClassifiedLog) -> Figure:
    """The distribution over the trainings of each feature's importance (Figure 5)."""
    figure, axes = empty_figure("importance, share of the forest's splits", "feature")
    if done.importances:
        axes.boxplot([[row[name] for row in done.importances] for name in FEATURE_NAMES], orientation="horizontal")
        axes.set_yticks(range(1, len(FEATURE_NAMES) + 1), FEATURE_NAMES, fontsize=7)
        axes.invert_yaxis()
    dress(figure, study_title(done, "importance of each feature over the trainings"))
    return figure


def autocorrelation_figure(done: ClassifiedLog, alike: list[dict[str, Any]]) -> Figure:
    """The median over the categories, and the middle half, at each lag (Figure 2)."""
    figure, axes = empty_figure("lag, jobs of the same category", "autocorrelation of run times")
    lags = np.arange(1, CORRELATION_LAGS + 1)
    for k, name in enumerate(CATEGORIES):
        rows = [row for row in alike if row["category"] == f"(u, {name})" and not np.isnan(row["autocorrelation"])]
        if not rows:
            continue
        at_lag = [[row["autocorrelation"] for row in rows if row["lag"] == lag] for lag in lags]
        low, middle, high = (np.array([np.quantile(values, q) for values in at_lag]) for q in (0.25, 0.5, 0.75))
        drawn = style(k)
        axes.plot(lags, middle, label=f"(u, {name}): median", color=drawn.light, linestyle=drawn.line)
        axes.fill_between(lags, low, high, alpha=0.2, color=drawn.light, label=f"(u, {name}): middle half")
    dress(figure, f"{done.jobs.name}, {len(done.jobs):,} jobs: run times within a category; batfill {__version__}")
    return figure


def write_frontier(points: list[Point], folder: Path, provenance: dict[str, Any]) -> None:
    """Write frontier.csv, frontier.svg, waits.svg, and frontier.json, which includes provenance and waits by group.

    Raises:
        BatfillError: the folder cannot be created.
    """
    make_folder(folder)
    rows = [point.as_dict() for point in points]
    with all_or_none():
        write_json(folder / "frontier.json", {**provenance, "points": [point.whole() for point in points]})
        write_text(folder / "frontier.csv", csv_text([POINT_COLUMNS, *(row.values() for row in rows)]))
        save_svg(frontier_figure(points, provenance), folder / "frontier.svg")
        save_svg(waits_figure(points, provenance), folder / "waits.svg")


def frontier_figure(points: list[Point], made: dict[str, Any]) -> Figure:
    """Mean bounded slowdown over wasted work, a line per policy and protected share; `made` as `provenance`."""
    figure, axes = empty_figure("killed tries, share of the work", f"{MEAN_BSLD} (tau {made['tau_s']:g} s)", 5)
    policies = list(dict.fromkeys(point.policy for point in points))
    for policy, of_line in zip(policies, styles(len(policies), range(DISTINCT)), strict=True):
        of_policy = [point for point in points if point.policy == policy]
        for point in of_policy:
            if point.small in ("none", "perfect"):
                perfect = point.small == PERFECT["small"]
                axes.axhline(
                    point.mean_bsld,
                    color=of_line.light,
                    linestyle=":" if perfect else "-.",
                    linewidth=1,
                    label=f"{policy}, perfect classes" if perfect else f"{policy}, nothing killed",
                )
        learned = [point for point in of_policy if point.small in ("all", "forest")]
        for share in sorted({point.protected for point in learned}):
            line = sorted((p for p in learned if p.protected == share), key=lambda p: p.waste)
            axes.plot(
                [p.waste for p in line],
                [p.mean_bsld for p in line],
                marker="o",
                color=of_line.light,
                alpha=1 - share / 2,
                label=policy if share == 0 else f"{policy}, {share:.0%} protected",
            )
            for point in line:
                axes.annotate(f"{point.cut:g}", (point.waste, point.mean_bsld), fontsize=7)
    forest = as_line({name: made["options"][name] for name in SHARED})
    dress(
        figure,
        f"{made['workload']} on {made['procs']:,} processors: what kills cost and gain, by the classifier's cut "
        f"(beside each mark); {forest}; batfill {made['version']}",
    )
    return figure


def waits_figure(points: list[Point], made: dict[str, Any]) -> Figure:
    """Mean bounded slowdown over the longest wait, with the front, and waits of large jobs over those of small ones.

    `made` as for `frontier_figure`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.set(xlabel="longest wait, hours", ylabel=f"{MEAN_BSLD} (tau {made['tau_s']:g} s)")
    right.set(xlabel="mean wait of small jobs, hours", ylabel="mean wait of large jobs, hours")
    policies = list(dict.fromkeys(point.policy for point in points))
    kinds = {
        "none": ("X", "nothing killed"),
        "perfect": ("*", "perfect classes"),
        "forest": ("o", "cuts"),
        "all": ("o", "all"),
    }
    for policy, of_line in zip(policies, styles(len(policies), range(DISTINCT)), strict=True):
        for kind, (marker, words) in kinds.items():
            here = [point for point in points if (point.policy, point.small) == (policy, kind)]
            drawn: dict[str, Any] = {
                "marker": marker,
                "color": of_line.light,
                "linestyle": "",
                "label": f"{policy}, {words}",
            }
            left.plot([p.max_wait_s / HOUR_S for p in here], [p.mean_bsld for p in here], **drawn)
            both = [(p.small_mean_wait_s, p) for p in here if p.small_mean_wait_s is not None]
            right.plot([s / HOUR_S for s, _ in both], [p.large_mean_wait_s / HOUR_S for _, p in both], **drawn)
            for small_s, point in both if kind == "forest" else []:
                left.annotate(f"{point.cut:g}", (point.max_wait_s / HOUR_S, point.mean_bsld), fontsize=7)
                right.annotate(f"{point.cut:g}", (small_s / HOUR_S, point.large_mean_wait_s / HOUR_S), fontsize=7)
    front = sorted((point.max_wait_s / HOUR_S, point.mean_bsld) for point in points if point.front)
    left.step(*zip(*front, strict=True), where="post", color="grey", linewidth=1, label="the front", zorder=0)
    shared = as_line({name: made["options"][name] for name in SHARED})
    dress(
        figure,
        f"{made['workload']} on {made['procs']:,} processors: no choice but perfect classes is below and left of the "
        f"front; small jobs ran for less than {made['small_below_s']:g} s, the median; cuts beside their "
        f"marks; {shared}; batfill {made['version']}",
    )
    return figure
