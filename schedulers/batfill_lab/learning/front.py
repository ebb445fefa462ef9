"""The output of `classify` and `frontier`: tables, summaries and figures about learned run times."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.axes import in_words, log_waits
from batfill.base.files import all_or_none, csv_text, make_folder, whole_file, write_json, write_text
from batfill.base.version import __version__
from batfill.base.words import duration
from batfill.learn.habits import CATEGORIES, FEATURE_NAMES
from batfill.model.options import as_line
from batfill_lab.learning.classify import CORRELATION_LAGS, autocorrelations
from batfill_lab.learning.frontier import PERFECT, POINT_COLUMNS, SHARED
from batfill_pages.figures import FEW, PAGE_IN, STYLE, save_figure
from batfill_pages.palette import DISTINCT, MEAN_BSLD, dress, style, styles

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from batfill_lab.learning.classify import ClassifiedLog
    from batfill_lab.learning.frontier import Point


def write_study(done: ClassifiedLog, folder: Path) -> None:
    """Write summary.json, weeks, importances, jobs and autocorrelations as Parquet, and four figures with captions.

    Raises:
        BatfillError: the folder cannot be created.
    """
    from matplotlib import rc_context

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
    with all_or_none(), rc_context(STYLE):
        write_json(folder / "summary.json", done.as_dict())
        for name, columns in tables.items():
            write_table(columns, folder / f"{name}.parquet", done.as_dict())
        for name, drawing in study_figures(done, alike).items():
            drawing.save(folder / f"{name}.svg")


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


class Drawing(NamedTuple):
    """A figure over both columns of a page, what stands above it, and what is seen, with the options."""

    canvas: Figure
    title: str
    caption: str

    def save(self, path: Path) -> None:
        """Write it as SVG, and its caption beside it."""
        dress(self.canvas, self.title)
        save_figure(self.canvas, path, self.title, self.caption)
        write_text(path.with_suffix(".txt"), f"{self.title}. {self.caption}\n")


def empty_figure(x: str, y: str, height_in: float = 3.2) -> tuple[Figure, Any]:
    """A figure with one pair of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PAGE_IN, height_in), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlabel=x, ylabel=y)
    return figure, axes


def whole_ticks(axis: Axis) -> None:
    """Ticks at whole numbers only, of counts."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def study_figures(done: ClassifiedLog, alike: list[dict[str, Any]]) -> dict[str, Drawing]:
    """The figures of a study by name."""
    chosen, log = done.settings, f"{done.jobs.name}, {len(done.jobs):,} jobs"
    options = (
        f"Regime {chosen.regime}, divider rule {chosen.divider_rule}, cut {chosen.cut:g}, seed {chosen.seed}; "
        f"batfill {__version__}."
    )
    n = len(done.importances)
    spread = "a dot for each" if n < FEW else "as median, middle half and whiskers"
    return {
        "quality": Drawing(
            quality_figure(done),
            f"{log}: how right the classifier was",
            f"Accuracy, precision and recall of the classes small and large in each week. {options}",
        ),
        "confusion": Drawing(
            confusion_figure(done),
            f"{log}: true and false classes",
            f"The jobs of each week by the class that they were judged, and whether that was true. {options}",
        ),
        "importances": Drawing(
            importance_figure(done),
            f"{log}: importance of each feature",
            f"The share of the forest's splits that use each feature, over {n} trainings, {spread}. {options}",
        ),
        "autocorrelation": Drawing(
            autocorrelation_figure(alike),
            f"{log}: run times within a category",
            "The autocorrelation of run times of jobs of the same user and the same value: the median over the "
            f"categories, and their middle half, at each lag. Batfill {__version__}.",
        ),
    }


def quality_figure(done: ClassifiedLog) -> Figure:
    """Accuracy, precision and recall per week (Figure 4)."""
    figure, axes = empty_figure("week", "share")
    weeks = done.weeks()
    for k, name in enumerate(("accuracy", "precision", "recall")):
        values = [np.nan if row[name] is None else row[name] for row in weeks]
        numbers, drawn = [row["week"] for row in weeks], style(k)
        axes.plot(numbers, values, label=name, color=drawn.light, linestyle=drawn.line)
    axes.set_ylim(0, 1)
    whole_ticks(axes.xaxis)
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
    whole_ticks(axes.xaxis)
    whole_ticks(axes.yaxis)
    return figure


def importance_figure(done: ClassifiedLog) -> Figure:
    """The distribution over the trainings of each feature's importance (Figure 5)."""
    figure, axes = empty_figure("importance, share of the forest's splits", "feature", 4.4)
    columns = [[row[name] for row in done.importances] for name in FEATURE_NAMES]
    if len(done.importances) < FEW:
        for k, values in enumerate(columns, start=1):
            axes.plot(values, [k] * len(values), "o", color=style(0).light, alpha=0.7, markersize=3)
    else:
        axes.boxplot(columns, orientation="horizontal", flierprops={"markersize": 2})
    axes.set_yticks(range(1, len(FEATURE_NAMES) + 1), FEATURE_NAMES, fontsize=6.5)
    axes.invert_yaxis()
    return figure


def autocorrelation_figure(alike: list[dict[str, Any]]) -> Figure:
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
    whole_ticks(axes.xaxis)
    return figure


def write_frontier(points: list[Point], folder: Path, provenance: dict[str, Any]) -> None:
    """Write frontier.csv, frontier.svg, waits.svg, and frontier.json, which includes provenance and waits by group.

    Raises:
        BatfillError: the folder cannot be created.
    """
    from matplotlib import rc_context

    make_folder(folder)
    rows = [point.as_dict() for point in points]
    with all_or_none(), rc_context(STYLE):
        write_json(folder / "frontier.json", {**provenance, "points": [point.whole() for point in points]})
        write_text(folder / "frontier.csv", csv_text([POINT_COLUMNS, *(row.values() for row in rows)]))
        frontier_figure(points, provenance).save(folder / "frontier.svg")
        waits_figure(points, provenance).save(folder / "waits.svg")


def log_of(made: dict[str, Any]) -> str:
    """The log and its machine, as a sentence; `made` as `provenance`."""
    return f"{made['workload']} on {made['procs']:,} processors."


def options_of(made: dict[str, Any]) -> str:
    """The options of all points, as a sentence; `made` as `provenance`."""
    options = as_line({name: made["options"][name] for name in SHARED})
    return f"Tau {made['tau_s']:g} s, {options}; batfill {made['version']}."


BESIDE: dict[str, Any] = {"xytext": (3, 3), "textcoords": "offset points", "fontsize": 6.5}


def frontier_figure(points: list[Point], made: dict[str, Any]) -> Drawing:
    """Mean bounded slowdown over wasted work, a line per policy and protected share; `made` as `provenance`."""
    figure, axes = empty_figure("killed tries, share of the work", MEAN_BSLD)
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
                markersize=4,
                color=of_line.light,
                alpha=1 - share / 2,
                label=policy if share == 0 else f"{policy}, {share:.0%} protected",
            )
            for point in line:
                axes.annotate(f"{point.cut:g}", (point.waste, point.mean_bsld), **BESIDE)
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g} %")
    return Drawing(
        figure,
        "What killed tries cost and gain",
        f"{log_of(made)} The {MEAN_BSLD} over the share of the work that killed tries cost, with the classifier's cut "
        f"beside each mark. {options_of(made)}",
    )


def waits_figure(points: list[Point], made: dict[str, Any]) -> Drawing:
    """Mean bounded slowdown over the longest wait, with the front, and waits of large jobs over those of small ones.

    `made` as for `frontier_figure`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PAGE_IN, 2.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.set(xlabel="longest wait", ylabel=MEAN_BSLD)
    right.set(xlabel="mean wait of small jobs", ylabel="mean wait of large jobs")
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
            if not here:
                continue
            drawn: dict[str, Any] = {
                "marker": marker,
                "markersize": 5,
                "color": of_line.light,
                "linestyle": "",
                "label": f"{policy}, {words}",
            }
            left.plot([p.max_wait_s for p in here], [p.mean_bsld for p in here], **drawn)
            both = [(p.small_mean_wait_s, p) for p in here if p.small_mean_wait_s is not None]
            right.plot([s for s, _ in both], [p.large_mean_wait_s for _, p in both], **drawn)
            for small_s, point in both if kind == "forest" else []:
                left.annotate(f"{point.cut:g}", (point.max_wait_s, point.mean_bsld), **BESIDE)
                right.annotate(f"{point.cut:g}", (small_s, point.large_mean_wait_s), **BESIDE)
    front = sorted((point.max_wait_s, point.mean_bsld) for point in points if point.front)
    left.step(*zip(*front, strict=True), where="post", color="grey", linewidth=1, label="the front", zorder=0)
    log_waits(left.xaxis)
    in_words(right.xaxis)
    in_words(right.yaxis)
    return Drawing(
        figure,
        "Who pays for killed tries",
        f"{log_of(made)} Left, the {MEAN_BSLD} over the longest wait: no choice but perfect classes is below and left "
        "of the front. Right, the mean wait of large jobs over that of small ones, which ran for less than "
        f"{duration(made['small_below_s'])}, the median. Cuts are beside their marks. {options_of(made)}",
    )
