"""Figures for papers, one column of a two-column page wide, each with its data as CSV."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError, require
from batfill.base.files import csv_text, raw_file, write_text
from batfill.base.words import duration
from batfill.model.jobs import HOUR_S
from batfill.reports.charts import styles_of
from batfill.reports.palette import BSLD, MEAN_BSLD, Style, dress, folded, styles
from batfill.reports.single import wait_grid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from batfill.base.stats import Paired
    from batfill.reports.comparison import Comparison
    from batfill.reports.runs import ReportedRun

FIGURE_FORMATS = ("pdf", "svg", "png")
COLUMN_IN = 3.5  # the width of a column in the two-column styles of IEEE and ACM, within a twentieth
NAME_CHARACTERS = 26  # in a line of a row's name
STYLE: Any = {
    "font.size": 8,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "grid.linewidth": 0.3,
    "lines.linewidth": 1.2,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # TrueType, as publishers require
    "svg.hashsalt": "batfill",  # equal data give equal files
    "savefig.dpi": 300,
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing, and the table it shows."""

    name: str
    head: tuple[str, ...]
    rows: list[tuple[object, ...]]
    draw: Callable[[Axes], None]
    height_in: float = 2.3  # of the plot, without title and legend
    title: str = ""


def check_formats(formats: Sequence[str]) -> None:
    """Refuse unknown formats before anything is written.

    Raises:
        BatfillError: a format is unknown, or matplotlib is not installed.
    """
    if unknown := [name for name in formats if name not in FIGURE_FORMATS]:
        raise BatfillError(
            f"--figures: {unknown[0]!r} is none of {', '.join(FIGURE_FORMATS)}; separate several by commas"
        )
    require("report", "matplotlib")


def write_figures(
    runs: Sequence[ReportedRun],
    groups: Sequence[Comparison],
    folder: Path,
    formats: Sequence[str],
    *,
    tau_s: float,
    seed: int,
    origin: str,
) -> list[Path]:
    """Write figures of these runs and comparisons to the folder, with `origin` atop their data; returns the files."""
    figures = [wait_figure(run) for run in runs]
    for k, comparison in enumerate(groups):
        suffix = f"-{k + 1}" if len(groups) > 1 else ""
        figures += comparison_figures(comparison, suffix, seed)
    if not groups:
        figures += [
            distribution_figure(
                [run.name], [run.bsld(tau_s)[run.final]], f"-{file_stem(run.name)}", "jobs", styles(1), run.title
            )
            for run in runs
        ]
    return [path for figure in figures for path in write_figure(figure, folder, formats, origin)]


def write_figure(figure: Figure, folder: Path, formats: Sequence[str], origin: str) -> list[Path]:
    """Write the figure in every format, and its data."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    written = []
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(COLUMN_IN, figure.height_in), layout="constrained")
        figure.draw(canvas.subplots())
        dress(canvas, figure.title)
        for kind in formats:
            path = folder / f"{figure.name}.{kind}"
            dateless = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
            with raw_file(path) as stream:
                canvas.savefig(stream, format=kind, metadata=dateless)
            written.append(path)
    path = folder / f"{figure.name}.csv"
    write_text(path, f"# {origin}\n{csv_text([figure.head, *figure.rows])}")
    return [*written, path]


def keyed(names: Sequence[str], drawn: Sequence[Style]) -> list[str]:
    """Each series' name in the legend; the grey ones share one entry."""
    rest = sum(style.rest for style in drawn)
    return [f"the other {rest}" if style.rest else name for name, style in zip(names, drawn, strict=True)]


def draw_series(axes: Axes, style: Style, name: str, x: Any, y: Any, **how: Any) -> None:
    """Draw a line with a legend entry; grey ones go behind the others."""
    order, width = (1.5, 0.5) if style.rest else (2.0, 1.2)
    axes.plot(x, y, linestyle=style.line, color=style.light, label=name, zorder=order, linewidth=width, **how)


def comparison_figures(comparison: Comparison, suffix: str, seed: int) -> list[Figure]:
    """Cumulative curves, distributions, paired differences and weekly boxes."""
    names, drawn = comparison.names, styles_of(comparison)
    points, sums = comparison.cumulative()

    def draw_cumulative(axes: Axes) -> None:
        for style, name, curve in zip(drawn, keyed(names, drawn), sums, strict=True):
            draw_series(axes, style, name, points, curve)
        if marks := comparison.marks(points, 4):
            axes.set_xticks(*zip(*marks, strict=True))
        axes.set(xlabel=comparison.axis, ylabel=f"sum of bsld / {comparison.items}", ylim=(0, None))

    differences, title = comparison.differences(seed), comparison.title

    def draw_differences(axes: Axes) -> None:
        for k, d in enumerate(differences):
            if d.bsld.bounded:
                axes.plot([d.bsld.low, d.bsld.high], [k, k], color=drawn[k + 1].light)
            axes.plot(d.bsld.value, k, "o", color=drawn[k + 1].light, markersize=4)
        axes.axvline(0, color="0.4", linewidth=0.8)
        axes.set(xlabel=folded(f"{MEAN_BSLD} minus that of {names[0]}"), ylim=(len(differences) - 0.5, -0.5))
        axes.set_yticks(range(len(differences)), [folded(d.name, NAME_CHARACTERS) for d in differences])

    def ends(found: Paired) -> list[float | None]:
        return [found.as_dict()[name] for name in ("value", "low", "high")]

    boxes = comparison.boxes()

    def draw_boxes(axes: Axes) -> None:
        stats = [
            {
                "label": folded(b.name, NAME_CHARACTERS),
                "whislo": b.low,
                "q1": b.quartile,
                "med": b.median,
                "q3": b.upper_quartile,
                "whishi": b.high,
            }
            for b in boxes
        ]
        drawing = axes.bxp(stats, showfliers=False, widths=0.5, orientation="horizontal", patch_artist=True)
        for box, median, style in zip(drawing["boxes"], drawing["medians"], drawn, strict=True):
            box.set(facecolor=style.light, alpha=0.5)
            median.set_color("black")
        axes.set(xlabel=f"{MEAN_BSLD} of {comparison.periods}", xscale="log")
        axes.invert_yaxis()

    return [
        Figure(
            f"cumulative-bsld{suffix}",
            ("submitted_days" if comparison.items == "jobs" else "pieces_in_order", *names),
            list(zip(points.tolist(), *sums.tolist(), strict=True)),
            draw_cumulative,
            title=f"{title}: {BSLD} so far",
        ),
        distribution_figure(names, list(comparison.bsld), suffix, comparison.items, drawn, title),
        Figure(
            f"differences{suffix}",
            ("run", "bsld", "bsld_low", "bsld_high", "wait_s", "wait_s_low", "wait_s_high", "better", "worse"),
            [(d.name, *ends(d.bsld), *ends(d.wait_s), d.better, d.worse) for d in differences],
            draw_differences,
            height_in=0.7 + 0.25 * len(differences),
            title=f"{title}: paired differences, 95 % intervals",
        ),
        Figure(
            f"{comparison.periods}-bsld{suffix}",
            ("run", "p5", "p25", "p50", "p75", "p95"),
            [tuple(b) for b in boxes],
            draw_boxes,
            height_in=0.7 + 0.25 * len(boxes),
            title=f"{title}: {BSLD} by {comparison.periods}, 5th to 95th percentile",
        ),
    ]


def distribution_figure(
    names: Sequence[str],
    bslds: Iterable[NDArray[np.float64]],
    suffix: str,
    items: str,
    drawn: Sequence[Style],
    title: str,
) -> Figure:
    """The cumulative distribution of the items' bounded slowdown."""
    shares = np.linspace(0, 1, 201)
    columns = [np.quantile(bsld, shares, method="inverted_cdf") if len(bsld) else shares * np.nan for bsld in bslds]

    def draw(axes: Axes) -> None:
        for style, name, column in zip(drawn, keyed(names, drawn), columns, strict=True):
            draw_series(axes, style, name, column, shares, drawstyle="steps-post")
        axes.set(xlabel=BSLD, ylabel=f"share of the {items}", xscale="log", ylim=(0, 1))

    rows = list(zip(shares.tolist(), *(column.tolist() for column in columns), strict=True))
    head = ("share", *names)
    return Figure(f"distribution-bsld{suffix}", head, rows, draw, title=f"{title}: share of {items} by {BSLD}")


def wait_figure(run: ReportedRun) -> Figure:
    """Mean waiting time by width and length."""
    grid = wait_grid(run)
    hours = grid.mean_wait_s / HOUR_S

    def draw(axes: Axes) -> None:
        axes.grid(False)
        image = axes.imshow(hours, cmap="cividis_r", aspect="auto", norm="symlog")  # linear up to 2 h
        axes.set_xticks(range(len(grid.lengths)), [words.removeprefix("up to ") for words in grid.lengths])
        axes.set_yticks(range(len(grid.widths)), list(grid.widths))
        axes.set(xlabel="time run, up to", ylabel="processors")
        axes.figure.colorbar(image, ax=axes, label="mean wait (h)")

    rows: list[tuple[object, ...]] = [
        (width, length, int(grid.jobs[i, k]), float(grid.mean_wait_s[i, k]))
        for i, width in enumerate(grid.widths)
        for k, length in enumerate(grid.lengths)
    ]
    head = ("processors", "ran", "jobs", "mean_wait_s")
    title = f"{run.title}: mean wait (longest {duration(float(run.wait_s[run.final].max(initial=0.0)))})"
    return Figure(f"waiting-{file_stem(run.name)}", head, rows, draw, title=title)


def file_stem(name: str) -> str:
    """The name as part of a file name."""
    return re.sub(r"[^\w.-]+", "-", name)
