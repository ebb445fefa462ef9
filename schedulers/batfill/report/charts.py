"""The charts of a comparison, as SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.report.svg import COLOURS, Plot, colour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.report.comparison import Comparison, Difference

ROW = 30
NAMES_WIDTH = 190
MOST_CURVES = len(COLOURS)


def cumulative_chart(comparison: Comparison) -> str:
    """The bsld of the items so far, over the number of all items."""
    points, sums = comparison.cumulative()
    shown = most_telling(comparison)
    plot = Plot(
        f"Bounded slowdown summed over the {comparison.items} so far, divided by the number of all {comparison.items}",
        (0, max(float(points[-1]), 1e-3)),
        (0, max(float(sums[shown].max()) * 1.05, 1e-9)),
    )
    plot.x_axis(comparison.axis)
    plot.y_axis(f"sum of bsld / {comparison.items}")
    for k in shown:
        plot.curve(points.tolist(), sums[k].tolist(), k)
    plot.key([(k, comparison.names[k]) for k in shown])
    return plot.svg()


def most_telling(comparison: Comparison) -> list[int]:
    """The choices that are drawn where all would be too many: the first, and those with the lowest mean."""
    means = comparison.bsld.mean(axis=1)
    best = sorted(range(1, len(means)), key=lambda k: float(means[k]))[: MOST_CURVES - 1]
    return [0, *sorted(best)]


def difference_chart(differences: Sequence[Difference], first: str) -> str:
    """The mean paired difference of bsld from the first run, with its interval."""
    low = min(0.0, *(d.bsld.low for d in differences))
    high = max(0.0, *(d.bsld.high for d in differences))
    margin = (high - low) * 0.05 or 1.0
    plot = Plot(
        f"Mean difference of the bounded slowdown from {first}, with 95 % confidence intervals",
        (low - margin, high + margin),
        (0, len(differences)),
        height=60 + ROW * len(differences),
        left=NAMES_WIDTH,
    )
    plot.x_axis(f"mean bsld minus that of {first} (left of 0: lower)")
    plot.line(plot.x(0), plot.top, plot.x(0), plot.bottom, COLOURS[-1], 1.5)
    for k, d in enumerate(differences):
        y = plot.y(len(differences) - k - 0.5)
        plot.text(plot.left - 8, y + 4, d.name, "end", "name")
        plot.line(plot.x(d.bsld.low), y, plot.x(d.bsld.high), y, colour(k + 1), 3)
        plot.add(f'<circle cx="{plot.x(d.bsld.mean):.1f}" cy="{y:.1f}" r="5" fill="{colour(k + 1)}"/>')
    return plot.svg()


def box_chart(comparison: Comparison) -> str:
    """A box per choice: its means of bsld by period, on a logarithmic scale."""
    boxes = comparison.boxes()
    plot = Plot(
        f"Bounded slowdown by {comparison.periods} of each choice: median, quartiles, and 5th to 95th percentile",
        (min(box.low for box in boxes) / 1.2, max(box.high for box in boxes) * 1.2),
        (0, len(boxes)),
        height=60 + ROW * len(boxes),
        left=NAMES_WIDTH,
        log_x=True,
    )
    plot.x_axis(f"mean bsld of {comparison.periods}")
    for k, box in enumerate(boxes):
        y = plot.y(len(boxes) - k - 0.5)
        low, left, middle, right, high = (plot.x(value) for value in box[1:])
        plot.text(plot.left - 8, y + 4, box.name, "end", "name")
        plot.line(low, y, high, y, colour(k), 1.5)
        plot.add(
            f'<rect x="{left:.1f}" y="{y - 8:.1f}" width="{max(right - left, 1):.1f}" height="16" '
            f'fill="{colour(k)}" fill-opacity="0.45" stroke="{colour(k)}"/>'
        )
        plot.line(middle, y - 8, middle, y + 8, colour(k), 3)
    return plot.svg()
