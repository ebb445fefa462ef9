"""The charts of a comparison, as SVG."""

from __future__ import annotations

import math
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from batfill.model.jobs import HOUR_S
from batfill.model.metrics import on_front
from batfill.reports.palette import BEST, DISTINCT, MEAN_BSLD, Style, styles
from batfill.reports.svg import CHARACTER, LINE_HEIGHT, Plot, both, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


def rows_chart(
    title: str,
    names: Sequence[str],
    limits: tuple[float, float],
    x_label: str,
    mark: Callable[[Plot, int, float], None],
    *,
    log_x: bool = False,
    zero: bool = False,
) -> str:
    """A row for each name, with what `mark` adds to the plot for row k at this height; `zero` adds a line at 0."""

    def draw(width: int) -> Plot:
        left = min(max(len(name) for name in names) * CHARACTER + 12, NAMES_SHARE * width)
        rows = [wrapped(name, left - 12) for name in names]
        heights = [max(30, LINE_HEIGHT * len(row) + 8) for row in rows]
        height = 66 + sum(heights)
        plot = Plot(title, limits, (0, 1), width=width, x_label=x_label, height=height, left=left, log_x=log_x)
        plot.x_axis()
        if zero:
            plot.line(plot.x(0), plot.top, plot.x(0), plot.bottom, "var(--soft)", 1.5)
        for k, lines in enumerate(rows):
            y = plot.top + sum(heights[:k]) + heights[k] / 2
            plot.row_name(y, lines)
            mark(plot, k, y)
        return plot

    return both(draw)


def difference_chart(comparison: Comparison, differences: Sequence[Difference]) -> str:
    """The mean paired difference of bsld from the first choice, with its interval."""
    first = comparison.names[0]
    ends = [end for d in differences for end in (d.bsld.value, d.bsld.low, d.bsld.high) if math.isfinite(end)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    margin = (high - low) * 0.05 or 1.0
    drawn = styles_of(comparison)

    def mark(plot: Plot, k: int, y: float) -> None:
        found, ink = differences[k].bsld, drawn[k + 1].ink
        if found.bounded:
            plot.line(plot.x(found.low), y, plot.x(found.high), y, ink, 3)
        plot.dot(plot.x(found.value), y, ink)

    return rows_chart(
        f"{comparison.title}: mean difference of the bounded slowdown from {first}, 95 % confidence intervals",
        [d.name for d in differences],
        (low - margin, high + margin),
        f"{MEAN_BSLD} minus that of {first} (left of 0: lower)",
        mark,
        zero=True,
    )


def box_chart(comparison: Comparison) -> str:
    """A box per choice: its means of bsld by period, on a logarithmic scale."""
    boxes = comparison.boxes()
    drawn = styles_of(comparison)

    def mark(plot: Plot, k: int, y: float) -> None:
        low, left, middle, right, high = (plot.x(value) for value in boxes[k][1:])
        ink = drawn[k].ink
        plot.line(low, y, high, y, ink, 1.5)
        plot.add(
            f'<rect x="{left:.1f}" y="{y - 8:.1f}" width="{max(right - left, 1):.1f}" height="16" '
            f'fill-opacity="0.45" style="fill:{ink};stroke:{ink}"/>'
        )
        plot.line(middle, y - 8, middle, y + 8, ink, 3)

    return rows_chart(
        f"{comparison.title}: bounded slowdown by {comparison.periods} of each choice: median, quartiles, and "
        "5th to 95th percentile",
        comparison.names,
        (min(box.low for box in boxes) / 1.2, max(box.high for box in boxes) * 1.2),
        f"{MEAN_BSLD} of {comparison.periods}",
        mark,
        log_x=True,
    )


def classes_chart(comparison: Comparison, waits_s: Sequence[tuple[float | None, float]]) -> str:
    """A row per choice: the mean waits of small and of large jobs, in hours.

    Args:
        comparison: of the choices.
        waits_s: of each, small (None without any) and large.
    """
    most = max(value for pair in waits_s for value in pair if value is not None) / HOUR_S
    drawn = styles_of(comparison)

    def mark(plot: Plot, k: int, y: float) -> None:
        (small_s, large_s), ink = waits_s[k], drawn[k].ink
        large = plot.x(large_s / HOUR_S)
        if small_s is not None:
            small = plot.x(small_s / HOUR_S)
            plot.line(small, y, large, y, ink, 1.5)
            plot.dot(small, y, ink, hollow=True)
        plot.dot(large, y, ink)

    return rows_chart(
        f"{comparison.title}: mean wait of small and of large jobs under each choice",
        comparison.names,
        (0, most * 1.05 or 1.0),
        "mean wait, hours: ring small jobs, disc large jobs",
        mark,
    )


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
