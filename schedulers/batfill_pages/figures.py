"""Figures for papers, one or two columns wide, each with its data as CSV and its caption."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, replace
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError, require
from batfill.base.files import csv_text, raw_file, write_text
from batfill.base.version import __version__
from batfill.base.words import duration
from batfill.model.jobs import DAY_S
from batfill_pages.palette import BEST, BSLD, MEAN_BSLD, Style, dress, folded, styles
from batfill_pages.single import wait_grid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from numpy.typing import NDArray

    from batfill.model.jobs import Clock
    from batfill_pages.comparison import Comparison, Difference
    from batfill_pages.runs import ReportedRun
    from batfill_pages.single import WaitGrid
    from batfill_pages.stats import Paired

FIGURE_FORMATS = ("pdf", "svg", "png")
COLUMN_IN, PAGE_IN = 3.5, 7.16  # one column and both of the two-column styles of IEEE and ACM, within a twentieth
FEW = 10  # values: fewer are drawn as dots and not as a box
HEAT = ("#fff6ee", "#fcdfc4", "#f3b27a", "#ad430a", "#6e2805")  # as on the pages
MOST_NAMED = 6  # choices in a caption
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
    title: str = ""  # of one line
    log: str = ""  # which log, machine and runs
    caption: str = ""  # sentences: what is seen, and the options


def check_formats(formats: Sequence[str]) -> None:
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
    columns: int = 1,
    tau_s: float,
    seed: int,
    origin: str,
) -> list[Path]:
    """Write figures of these runs and comparisons to the folder, with `origin` atop their data; returns the files."""
    grids = [wait_grid(run) for run in runs]
    highest_s = max((float(np.nanmax(grid.mean_wait_s, initial=60.0)) for grid in grids), default=60.0)
    figures = [wait_figure(run, grid, highest_s) for run, grid in zip(runs, grids, strict=True)]
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
    made = (replace(figure, caption=f"{figure.log}. {figure.caption} Tau is {tau_s:g} s.") for figure in figures)
    return [path for figure in made for path in write_figure(figure, folder, formats, origin, columns)]


def write_figure(figure: Figure, folder: Path, formats: Sequence[str], origin: str, columns: int = 1) -> list[Path]:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    paths = [folder / f"{figure.name}.{kind}" for kind in (*formats, "csv", *(["txt"] if figure.caption else []))]
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(PAGE_IN if columns == 2 else COLUMN_IN, figure.height_in), layout="constrained")
        figure.draw(canvas.subplots())
        dress(canvas, figure.title)
        for path in paths[: len(formats)]:
            save_figure(canvas, path, figure.title, figure.caption)
    write_text(paths[len(formats)], f"# {origin}\n{csv_text([figure.head, *figure.rows])}")
    if figure.caption:
        write_text(paths[-1], f"{figure.title}. {figure.caption}\n")
    return paths


def save_figure(canvas: Canvas, path: Path, title: str, caption: str) -> None:
    """Write a figure without a date, so that equal ones are equal files; the caption describes it in its metadata."""
    kind = path.suffix[1:]
    metadata: dict[str, dict[str, str | None]] = {
        "pdf": {"CreationDate": None, "Title": title, "Subject": caption},
        "svg": {"Date": None, "Creator": f"batfill {__version__}", **({"Title": title} if title else {})},
        "png": {"Title": title, "Description": caption},
    }
    content = io.BytesIO()
    canvas.savefig(content, format=kind, metadata=metadata[kind])
    drawing = content.getvalue()
    if kind == "svg" and caption:
        described = f' role="img">\n <desc>{escape(caption)}</desc>\n <title>'.encode()
        drawing = drawing.replace(b">\n <title>", described, 1)
    with raw_file(path) as stream:
        stream.write(drawing)


def listed(names: Sequence[str], values: Iterable[str]) -> str:
    pairs = [f"{name}: {value}" for name, value in zip(names, values, strict=True)]
    more = len(pairs) - MOST_NAMED
    return "; ".join([*pairs[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])


def keyed(names: Sequence[str], drawn: Sequence[Style]) -> list[str]:
    rest = sum(style.rest for style in drawn)
    return [f"the other {rest}" if style.rest else name for name, style in zip(names, drawn, strict=True)]


def draw_series(axes: Axes, style: Style, name: str, x: Any, y: Any, **how: Any) -> None:
    order, width = (1.5, 0.5) if style.rest else (2.0, 1.2)
    axes.plot(x, y, linestyle=style.line, color=style.light, label=name, zorder=order, linewidth=width, **how)


def comparison_figures(comparison: Comparison, suffix: str, seed: int) -> list[Figure]:
    names, best = comparison.names, np.argsort(comparison.bsld.mean(axis=1), kind="stable")[:BEST].tolist()
    drawn = styles(len(names), {0, *best})
    (points, sums), clock = comparison.cumulative(), comparison.clock

    def draw_cumulative(axes: Axes) -> None:
        at = points if clock is None else [clock.date(day * DAY_S) for day in points.tolist()]
        for style, name, curve in zip(drawn, keyed(names, drawn), sums, strict=True):
            draw_series(axes, style, name, at, curve)
        if clock is not None:
            date_axis(axes, clock)
        axes.set(xlabel=comparison.axis, ylabel=f"sum of bsld / {comparison.items}", ylim=(0, None))

    differences, title = comparison.differences(seed), comparison.title

    def draw_differences(axes: Axes) -> None:
        for k, d in enumerate(differences):
            if d.bsld.bounded:
                axes.plot([d.bsld.low, d.bsld.high], [k, k], color=drawn[k + 1].light)
            axes.plot(d.bsld.value, k, "o", color=drawn[k + 1].light, markersize=4)
        axes.axvline(0, color="0.4", linewidth=0.8)
        axes.set(xlabel=folded(f"{MEAN_BSLD} minus that of {names[0]}", 28), ylim=(len(differences) - 0.5, -0.5))
        axes.set_yticks(range(len(differences)), [folded(d.name, NAME_CHARACTERS) for d in differences])

    def ends(found: Paired) -> list[float | None]:
        return [found.as_dict()[name] for name in ("value", "low", "high")]

    each, periods, few = comparison.period_bsld, comparison.periods, comparison.n_periods < FEW
    spread = np.quantile(each, [0.05, 0.25, 0.5, 0.75, 0.95], axis=1).T

    def draw_periods(axes: Axes) -> None:
        axes.set(xlabel=f"{MEAN_BSLD} of {periods}")
        log_axis(axes)
        for k, (style, values, (low, quartile, median, upper, high)) in enumerate(
            zip(drawn, each, spread, strict=True)
        ):
            if few:
                axes.plot(values, np.full(len(values), k), "o", color=style.light, alpha=0.7, markersize=4)
                continue
            axes.plot([low, high], [k, k], color=style.light)
            axes.plot([quartile, upper], [k, k], color=style.light, alpha=0.5, linewidth=8, solid_capstyle="butt")
            axes.plot(median, k, "|", color="black", markersize=8)
        axes.set_yticks(range(len(names)), [folded(name, NAME_CHARACTERS) for name in names])
        axes.set_ylim(len(names) - 0.5, -0.5)

    return [
        Figure(
            f"cumulative-bsld{suffix}",
            ("submitted_days" if comparison.items == "jobs" else "pieces_in_order", *names),
            list(zip(points.tolist(), *sums.tolist(), strict=True)),
            draw_cumulative,
            title=f"{BSLD} so far".capitalize(),
            log=title,
            caption=f"The {BSLD} summed over the {comparison.items} in their order and divided by their number: each "
            f"line ends at the mean, {listed(names, (f'{curve[-1]:,.1f}' for curve in sums))}.",
        ),
        distribution_figure(names, list(comparison.bsld), suffix, comparison.items, drawn, title),
        Figure(
            f"differences{suffix}",
            ("run", "bsld", "bsld_low", "bsld_high", "wait_s", "wait_s_low", "wait_s_high", "better", "worse"),
            [(d.name, *ends(d.bsld), *ends(d.wait_s), d.better, d.worse) for d in differences],
            draw_differences,
            height_in=0.7 + 0.25 * len(differences),
            title=f"Differences from {names[0]}",
            log=title,
            caption=f"The {MEAN_BSLD} minus that of {names[0]}, with 95 % intervals over "
            f"{comparison.blocks}, left of 0 if lower: "
            f"{listed([d.name for d in differences], map(difference_text, differences))}.",
        ),
        Figure(
            f"{comparison.periods}-bsld{suffix}",
            ("run", *(map(str, range(1, comparison.n_periods + 1)) if few else ("p5", "p25", "p50", "p75", "p95"))),
            [(name, *values) for name, values in zip(names, (each if few else spread).tolist(), strict=True)],
            draw_periods,
            height_in=0.7 + 0.25 * len(names),
            title=f"{MEAN_BSLD} of {periods}".capitalize(),
            log=title,
            caption=f"The {MEAN_BSLD} of {comparison.n_periods:,} {periods}, "
            + ("a dot each" if few else "as median, middle half, and 5th to 95th percentile")
            + f"; the medians are {listed(names, (f'{median:,.1f}' for median in spread[:, 2]))}.",
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
    shares = np.linspace(0, 1, 201)
    columns = [np.quantile(bsld, shares, method="inverted_cdf") if len(bsld) else shares * np.nan for bsld in bslds]

    def draw(axes: Axes) -> None:
        for style, name, column in zip(drawn, keyed(names, drawn), columns, strict=True):
            draw_series(axes, style, name, column, shares, drawstyle="steps-post")
        axes.set(xlabel=BSLD, ylabel=f"share of the {items}", ylim=(0, 1))
        log_axis(axes)

    rows = list(zip(shares.tolist(), *(column.tolist() for column in columns), strict=True))
    head = ("share", *names)
    halves = listed(names, (f"{column[100]:,.1f}" for column in columns))
    caption = f"The share of the {items} whose {BSLD} is at most the value on the axis; half have at most {halves}."
    words = f"{BSLD} of {items}".capitalize()
    return Figure(f"distribution-bsld{suffix}", head, rows, draw, title=words, log=title, caption=caption)


def date_axis(axes: Axes, clock: Clock) -> None:
    dates: Any = import_module("matplotlib.dates")  # which has no types
    ticks = dates.AutoDateLocator(tz=clock.zone, minticks=3, maxticks=6)
    axes.xaxis.set_major_locator(ticks)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(ticks, tz=clock.zone))


def log_axis(axes: Axes) -> None:
    from matplotlib.ticker import LogFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(LogFormatter())
    axes.xaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False))


def difference_text(d: Difference) -> str:
    value = f"{d.bsld.value:+,.1f}"
    ends = f"{d.bsld.low:+,.1f} to {d.bsld.high:+,.1f}" if d.bsld.bounded else "too few for an interval"
    return f"{value} ({ends})"


def wait_figure(run: ReportedRun, grid: WaitGrid, highest_s: float) -> Figure:
    """Mean waiting time by width and length; `highest_s` is the darkest colour, the same for all runs."""

    def draw(axes: Axes) -> None:
        from matplotlib.colors import LinearSegmentedColormap, SymLogNorm

        axes.grid(False)
        shade = SymLogNorm(60, vmin=0, vmax=highest_s)
        axes.imshow(grid.mean_wait_s, cmap=LinearSegmentedColormap.from_list("heat", HEAT), aspect="auto", norm=shade)
        for (i, k), wait_s in np.ndenumerate(grid.mean_wait_s):
            if grid.jobs[i, k]:
                ink = "white" if shade(wait_s) > 0.65 else "black"
                words = re.sub(r"([a-z]) ", r"\1\n", duration(wait_s))  # a line per unit
                axes.text(k, i, words, color=ink, ha="center", va="center", fontsize=6.5)
        axes.set_xticks(range(len(grid.lengths)), grid.lengths, fontsize=6.5)
        axes.set_yticks(range(len(grid.widths)), list(grid.widths))
        axes.set(xlabel="run time", ylabel="processors")

    rows: list[tuple[object, ...]] = [
        (width, length, int(grid.jobs[i, k]), float(grid.mean_wait_s[i, k]))
        for i, width in enumerate(grid.widths)
        for k, length in enumerate(grid.lengths)
    ]
    head = ("processors", "ran", "jobs", "mean_wait_s")
    wait_s = run.wait_s[run.final]
    caption = (
        f"The mean wait of the jobs by their processors and the time they ran, of {int(grid.jobs.sum()):,} jobs; over "
        f"all of them {duration(float(wait_s.mean())) if len(wait_s) else 'unknown'}, the longest wait "
        f"{duration(float(wait_s.max(initial=0.0)))}. A colour is the same wait in all figures made together."
    )
    title = f"Mean wait, {run.name}"
    name = f"waiting-{file_stem(run.name)}"
    return Figure(
        name, head, rows, draw, height_in=0.6 + 0.34 * len(grid.widths), title=title, log=run.title, caption=caption
    )


def file_stem(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)
