"""Which of many choices the charts of a comparison draw in colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.reports.palette import BEST, DISTINCT, Style, styles

if TYPE_CHECKING:
    from batfill.reports.comparison import Comparison


def styles_of(comparison: Comparison) -> list[Style]:
    """The style of each choice in every chart and table."""
    return styles(len(comparison.names), most_telling(comparison))


def most_telling(comparison: Comparison) -> list[int]:
    """The choices in colour if there are too many: the first, and the best by mean."""
    means = comparison.bsld.mean(axis=1)
    if len(means) <= DISTINCT:
        return list(range(len(means)))
    best = sorted(range(len(means)), key=lambda k: float(means[k]))[:BEST]
    return sorted({0, *best})
