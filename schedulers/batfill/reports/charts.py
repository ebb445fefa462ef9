"""The charts of a comparison, as SVG."""

from __future__ import annotations

import math
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from batfill.jobs import HOUR_S
from batfill.metrics import on_front
from batfill.reports.palette import BEST, DISTINCT, MEAN_BSLD, Style, styles
from batfill.reports.svg import CHARACTER, LINE_HEIGHT, Plot, both, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.reports.comparison import Comparison, Difference

NAMES_SHARE = 0.44  # largest share of a chart's width for the names of its rows


def cumulative_chart(comparison: Comparison) -> str:
    """The bsld of the items so far, over the number of all items, with its legend."""
    points, sums = comparison.cumulative()
    drawn = styles_of(comparison)

    def draw(width: int) -> Plot:
        plot = Plot(
            f"{comparison.title}: bounded slowdown summed over the {comparison.items} so far, "
            f"divided by the number of all {comparison.items}",
            (float(points[0]), max(float(points[-1]), float(points[0]) + 1e-3)),
            (0, max(float(sums.max()) * 1.05, 1e-9)),
            width=width,
            x_label=comparison.axis,
        )
        plot.x_axis(comparison.marks(points, 4 if width < 500 else 7))
        plot.y_axis(f"sum of bsld / {comparison.items}")
        for k in sorted(range(len(drawn)), key=lambda k: not drawn[k].rest):  # grey behind the others
            plot.curve(points.tolist(), sums[k].tolist(), drawn[k])
        return plot

    names = [(style, name) for style, name in zip(drawn, comparison.names, strict=True) if not style.rest]
    if len(names) < len(drawn):
        names.append((next(style for style in drawn if style.rest), f"the other {len(drawn) - len(names)}"))
    return both(draw) + series_key(names)


def series_key(names: Sequence[tuple[Style, str]]) -> str:
    """The names of these series with their lines."""
    items = "".join(f"<li>{sample(style)}{escape(name)}</li>" for style, name in names)
    return f'<ul class="key">{items}</ul>'


def sample(style: Style) -> str:
    """A sample of the series' line."""
    return (
        '<svg class="sample" viewBox="0 0 34 10" aria-hidden="true">'
        f'<line x1="1" y1="5" x2="33" y2="5" stroke-width="3" {style.svg}/></svg> '
    )


def styles_of(comparison: Comparison) -> list[Style]:
    """The style of each choice in every chart and table."""
    return styles(len(comparison.names), most_telling(comparison))


def most_telling(comparison: Comparison) -> list[int]:
    """The choices in colour if there are too many: the first, the advised one, and the best by mean."""
    means = comparison.bsld.mean(axis=1)
    if len(means) <= DISTINCT:
        return list(range(len(means)))
    best = sorted(range(len(means)), key=lambda k: float(means[k]))[:BEST]
    return sorted({0, *best, *([] if comparison.advised is None else [comparison.advised])})


def rows_plot(
    title: str, names: Sequence[str], limits: tuple[float, float], width: int, x_label: str, *, log_x: bool = False
) -> tuple[Plot, list[tuple[float, list[str]]]]:
    """A plot with a row for each name, and each row's middle and wrapped name."""
    left = min(max(len(name) for name in names) * CHARACTER + 12, NAMES_SHARE * width)
    lines = [wrapped(name, left - 12) for name in names]
    heights = [max(30, LINE_HEIGHT * len(row) + 8) for row in lines]
    height = 66 + sum(heights)
    plot = Plot(title, limits, (0, 1), width=width, x_label=x_label, height=height, left=left, log_x=log_x)
    middles = [plot.top + sum(heights[:k]) + heights[k] / 2 for k in range(len(names))]
    return plot, list(zip(middles, lines, strict=True))


def difference_chart(comparison: Comparison, differences: Sequence[Difference]) -> str:
    """The mean paired difference of bsld from the first choice, with its interval."""
    first = comparison.names[0]
    ends = [end for d in differences for end in (d.bsld.value, d.bsld.low, d.bsld.high) if math.isfinite(end)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    margin = (high - low) * 0.05 or 1.0
    drawn = styles_of(comparison)

    def draw(width: int) -> Plot:
        plot, rows = rows_plot(
            f"{comparison.title}: mean difference of the bounded slowdown from {first}, 95 % confidence intervals",
            [d.name for d in differences],
            (low - margin, high + margin),
            width,
            f"{MEAN_BSLD} minus that of {first} (left of 0: lower)",
        )
        plot.x_axis()
        plot.line(plot.x(0), plot.top, plot.x(0), plot.bottom, "var(--soft)", 1.5)
        for k, (d, (y, lines)) in enumerate(zip(differences, rows, strict=True)):
            ink = drawn[k + 1].ink
            plot.row_name(y, lines)
            if d.bsld.bounded:
                plot.line(plot.x(d.bsld.low), y, plot.x(d.bsld.high), y, ink, 3)
            plot.dot(plot.x(d.bsld.value), y, ink)
        return plot

    return both(draw)


def box_chart(comparison: Comparison) -> str:
    """A box per choice: its means of bsld by period, on a logarithmic scale."""
    boxes = comparison.boxes()
    drawn = styles_of(comparison)
    limits = min(box.low for box in boxes) / 1.2, max(box.high for box in boxes) * 1.2

    def draw(width: int) -> Plot:
        plot, rows = rows_plot(
            f"{comparison.title}: bounded slowdown by {comparison.periods} of each choice: median, quartiles, and "
            "5th to 95th percentile",
            comparison.names,
            limits,
            width,
            f"{MEAN_BSLD} of {comparison.periods}",
            log_x=True,
        )
        plot.x_axis()
        for box, style, (y, lines) in zip(boxes, drawn, rows, strict=True):
            low, left, middle, right, high = (plot.x(value) for value in box[1:])
            plot.row_name(y, lines)
            plot.line(low, y, high, y, style.ink, 1.5)
            plot.add(
                f'<rect x="{left:.1f}" y="{y - 8:.1f}" width="{max(right - left, 1):.1f}" height="16" '
                f'fill-opacity="0.45" style="fill:{style.ink};stroke:{style.ink}"/>'
            )
            plot.line(middle, y - 8, middle, y + 8, style.ink, 3)
        return plot

    return both(draw)


def classes_chart(comparison: Comparison, waits_s: Sequence[tuple[float | None, float]]) -> str:
    """A row per choice: the mean waits of small and of large jobs, in hours.

    Args:
        comparison: of the choices.
        waits_s: of each, small (None without any) and large.
    """
    hours = [tuple(None if s is None else s / HOUR_S for s in pair) for pair in waits_s]
    most = max(value for pair in hours for value in pair if value is not None)
    drawn = styles_of(comparison)

    def draw(width: int) -> Plot:
        plot, rows = rows_plot(
            f"{comparison.title}: mean wait of small and of large jobs under each choice",
            comparison.names,
            (0, most * 1.05 or 1.0),
            width,
            "mean wait, hours: ring small jobs, disc large jobs",
        )
        plot.x_axis()
        for (small, large), style, (y, lines) in zip(hours, drawn, rows, strict=True):
            plot.row_name(y, lines)
            assert large is not None
            if small is not None:
                plot.line(plot.x(small), y, plot.x(large), y, style.ink, 1.5)
                plot.dot(plot.x(small), y, style.ink, hollow=True)
            plot.dot(plot.x(large), y, style.ink)
        return plot

    return both(draw)


def front_chart(comparison: Comparison) -> str:
    """Mean bounded slowdown of jobs over their longest wait, a mark per choice; a line joins those that none beats."""
    longest_h, mean = comparison.wait_s.max(axis=1) / HOUR_S, comparison.bsld.mean(axis=1)
    xs, ys = longest_h.tolist(), mean.tolist()
    drawn = styles_of(comparison)
    front = sorted((xs[k], ys[k]) for k in on_front(mean, longest_h).nonzero()[0])

    def draw(width: int) -> Plot:
        plot = Plot(
            f"{comparison.title}: mean bounded slowdown over the longest wait of each choice",
            (min(xs) * 0.95, max(xs) * 1.05 or 1.0),
            (0, max(ys) * 1.05),
            width=width,
            x_label="longest wait, hours",
        )
        plot.x_axis()
        plot.y_axis(MEAN_BSLD)
        for (x1, y1), (x2, y2) in pairwise(front):
            plot.line(plot.x(x1), plot.y(y1), plot.x(x2), plot.y(y1), "var(--soft)", 1.5)
            plot.line(plot.x(x2), plot.y(y1), plot.x(x2), plot.y(y2), "var(--soft)", 1.5)
        for k, (x, y, style) in enumerate(zip(xs, ys, drawn, strict=True), 1):
            plot.dot(plot.x(x), plot.y(y), style.ink)
            if not style.rest:  # a disc has no dashes to be known by
                plot.text(plot.x(x) + 7, plot.y(y) - 5, str(k), "start")
        return plot

    named = enumerate(zip(drawn, comparison.names, strict=True), 1)
    return both(draw) + series_key([(style, f"{k}: {name}") for k, (style, name) in named if not style.rest])
