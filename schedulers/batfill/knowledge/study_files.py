"""A study as files: tables in Parquet, figures in SVG, and the whole in JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.knowledge.features import CATEGORIES, NAMES
from batfill.knowledge.study import LAGS, Study, autocorrelations
from batfill.workloads.files import make_folder, whole_file, write_text

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure


def write_study(done: Study, folder: Path) -> list[Path]:
    """Write summary.json, weeks, importances, jobs and autocorrelations as Parquet, and four figures; their paths.

    Raises:
        BatfillError: the folder cannot be made.
    """
    make_folder(folder)
    alike = autocorrelations(done.jobs)
    jobs = done.jobs
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
        "autocorrelation": autocorrelation_figure(alike),
    }
    made = [folder / "summary.json"]
    write_text(made[0], json.dumps(done.as_dict(), indent=1) + "\n")
    for name, columns in tables.items():
        made.append(folder / f"{name}.parquet")
        write_table(columns, made[-1], done.as_dict())
    for name, figure in figures.items():
        made.append(folder / f"{name}.svg")
        with whole_file(made[-1]) as file:
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "batfill"})
    return made


def columns_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Rows of equal keys as columns."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}


def write_table(columns: dict[str, Any], path: Path, whole: dict[str, Any]) -> None:
    """One table as Parquet; `whole` goes into its metadata under batfill.study."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(columns).replace_schema_metadata({b"batfill.study": json.dumps(whole).encode()})
    with whole_file(path) as file:
        pq.write_table(table, file, compression="zstd")


def empty_figure(title: str, x: str, y: str) -> tuple[Figure, Any]:
    """A figure with one pair of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.set(title=title, xlabel=x, ylabel=y)
    return figure, axes


def name_of(done: Study) -> str:
    """What was studied, for a title."""
    return f"{done.jobs.name}, regime {done.settings.regime}, seed {done.settings.seed}"


def quality_figure(done: Study) -> Figure:
    """Accuracy, precision and recall per week (Figure 4)."""
    figure, axes = empty_figure(name_of(done), "week", "share")
    weeks = done.weeks()
    for name in ("accuracy", "precision", "recall"):
        values = [np.nan if row[name] is None else row[name] for row in weeks]
        axes.plot([row["week"] for row in weeks], values, label=name, linewidth=1)
    axes.set_ylim(0, 1)
    axes.legend(ncols=3)
    return figure


def confusion_figure(done: Study) -> Figure:
    """Jobs per week by what they were judged and what they were."""
    figure, axes = empty_figure(name_of(done), "week", "jobs")
    weeks = done.weeks()
    names = ("true_small", "true_large", "false_small", "false_large")
    counts = [[row[name] for row in weeks] for name in names]
    if weeks:
        axes.stackplot([row["week"] for row in weeks], counts, labels=[name.replace("_", " ") for name in names])
        axes.legend(ncols=4, loc="upper left")
    return figure


def importance_figure(done: Study) -> Figure:
    """The spread over the trainings of each feature's importance (Figure 5)."""
    figure, axes = empty_figure(name_of(done), "importance", "")
    if done.importances:
        axes.boxplot([[row[name] for row in done.importances] for name in NAMES], orientation="horizontal")
        axes.set_yticks(range(1, len(NAMES) + 1), NAMES, fontsize=7)
        axes.invert_yaxis()
    return figure


def autocorrelation_figure(alike: list[dict[str, Any]]) -> Figure:
    """The median over the categories, and the middle half, at each lag (Figure 2)."""
    figure, axes = empty_figure("run times within a category", "lag", "autocorrelation")
    lags = np.arange(1, LAGS + 1)
    for name in CATEGORIES:
        rows = [row for row in alike if row["category"] == f"(u, {name})" and not np.isnan(row["autocorrelation"])]
        if not rows:
            continue
        at_lag = [[row["autocorrelation"] for row in rows if row["lag"] == lag] for lag in lags]
        low, middle, high = (np.array([np.quantile(values, q) for values in at_lag]) for q in (0.25, 0.5, 0.75))
        axes.plot(lags, middle, label=f"(u, {name})")
        axes.fill_between(lags, low, high, alpha=0.2)
    if axes.lines:
        axes.legend()
    return figure
