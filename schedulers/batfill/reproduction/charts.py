"""Charts of outcomes, drawn from their tables in the style of `batfill report --figures`.

lines, points   the first column is x, every other one a series
bands           the same with three columns to a series: its value, the least and the most
shares          the first column names a bar, the others are its parts, stacked
boxes           a name, then the 5th, 25th, 50th, 75th and 95th percentile
map             x, y, value: a point each, light where the value is low
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.palette import DISTINCT, Style, styles
from batfill.report.figures import Figure, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from batfill.reproduction.outcome import Chart


def figure_of(chart: Chart) -> Figure:
    """The chart as a figure with its data."""
    draw = DRAW[chart.kind]

    def whole(axes: Axes) -> None:
        draw(axes, chart)
        axes.set(xlabel=chart.x, ylabel=chart.y)
        if chart.log_x:
            axes.set_xscale("log")
        if chart.log_y:
            axes.set_yscale("log")

    return Figure(plain(chart.name), chart.head, list(chart.rows), whole)


MARKS = "osvD^Px*+1"  # ten marks and six colours make thirty pairs


def drawn(n: int) -> list[Style]:
    """The styles of n series; of too many, the last are grey."""
    return styles(n, range(DISTINCT))


def lines(axes: Axes, chart: Chart) -> None:
    """A line for every column but the first; gaps where a value is None."""
    x, *series = columns(chart)
    for style, name, values in zip(drawn(len(series)), chart.head[1:], series, strict=True):
        axes.plot(x, values, linestyle=style.line, color=style.light, label=name)
    key(axes)


def points(axes: Axes, chart: Chart) -> None:
    """A mark for every value."""
    x, *series = columns(chart)
    for k, (style, name, values) in enumerate(zip(drawn(len(series)), chart.head[1:], series, strict=True)):
        axes.plot(x, values, MARKS[k % len(MARKS)], color=style.light, label=name, markersize=2.5)
    key(axes)


def bands(axes: Axes, chart: Chart) -> None:
    """A line between the least and the most."""
    x, *series = columns(chart)
    for k, (style, name) in enumerate(zip(drawn(len(series) // 3), chart.head[1::3], strict=True)):
        values, least, most = series[3 * k : 3 * k + 3]
        axes.plot(x, values, linestyle=style.line, color=style.light, label=name)
        axes.fill_between(x, least, most, color=style.light, alpha=0.15, linewidth=0)
    key(axes)


def shares(axes: Axes, chart: Chart) -> None:
    """Stacked bars."""
    names, *parts = columns(chart)
    places = range(len(names))
    base = [0.0] * len(names)
    for style, part, values in zip(drawn(len(parts)), chart.head[1:], parts, strict=True):
        axes.barh(places, values, left=base, color=style.light, label=part)
        base = [below + value for below, value in zip(base, values, strict=True)]
    axes.set_yticks(places, [str(name) for name in names])
    axes.invert_yaxis()
    key(axes)


def boxes(axes: Axes, chart: Chart) -> None:
    """Boxes of quartiles with whiskers to the 5th and 95th percentile."""
    keys = ("label", "whislo", "q1", "med", "q3", "whishi")
    axes.bxp([dict(zip(keys, row, strict=True)) for row in chart.rows], showfliers=False, widths=0.5)
    axes.tick_params(axis="x", labelrotation=60)


def maps(axes: Axes, chart: Chart) -> None:
    """Values over a plane, on a logarithmic scale; a red dot on the lowest."""
    x, y, values = columns(chart)
    least = min(range(len(values)), key=lambda i: values[i])
    norm = "log" if 0 < values[least] < max(values) else "linear"
    drawn = axes.scatter(x, y, c=values, s=6, marker="D", cmap="viridis_r", norm=norm, linewidths=0, rasterized=True)
    axes.plot(x[least], y[least], "o", color="red", markersize=4)
    axes.grid(False)
    axes.set_aspect("equal")
    axes.figure.colorbar(drawn, ax=axes, label=chart.head[2])


def key(axes: Axes) -> None:
    """The names of the series, above the plot: lines go everywhere in it."""
    axes.legend(fontsize=6, ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1))


def columns(chart: Chart) -> list[list[float]]:
    """The chart's columns; None is nan, which is not drawn."""
    return [[float("nan") if value is None else value for value in column] for column in zip(*chart.rows, strict=True)]


DRAW: dict[str, Callable[[Axes, Chart], None]] = {
    "lines": lines,
    "points": points,
    "bands": bands,
    "shares": shares,
    "boxes": boxes,
    "map": maps,
}
