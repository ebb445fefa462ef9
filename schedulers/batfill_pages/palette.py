"""Colours, dashes and legends of matplotlib's figures, and the page's colours of jobs.

The page's other colours are roles, in `assets/report.css`. This module imports no matplotlib, which pages do not need.

Series k has the colour k mod 6 and one of four dash patterns, so 24 series are distinct. Any two colours are at least
20 apart (CIEDE2000) in normal vision and with the red, green or blue cones missing (Machado, Oliveira and Fernandes,
IEEE TVCG 15(6), 2009, severity 1), and each has a contrast of 3 with white.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from matplotlib.figure import Figure

LIGHT = ("#0011dd", "#dd7711", "#338877", "#660044", "#aa77ee", "#004400")  # on white
DASHES: tuple[tuple[float, ...], ...] = ((), (8, 3), (2, 2.5), (9, 3, 2, 3))  # lengths of ink and gap, in points
DISTINCT = len(LIGHT) * len(DASHES)
BEST = 8  # number of series in colour if there are more than `DISTINCT`
REST = ("#a9b1ba", "#56606c")  # of all others: light, and dark

# Colours of jobs, from good to bad: by class of bounded slowdown, by outcome, or by width.
JOBS = ("#4f7cac", "#9bd0e6", "#e6b840", "#c2412d")
IN_ORDER, FAILED = "#9aa3ad", "#5b2a86"

BSLD = "bounded slowdown"
MEAN_BSLD = f"mean {BSLD}"
TITLE_CHARACTERS_PER_IN = 19  # of a figure's title, 7 pt


class Style(NamedTuple):
    """The style of a series."""

    light: str  # colour on a light background
    dash: tuple[float, ...]  # lengths of ink and gap; () is a solid line
    rest: bool = False  # whether it is grey, behind the others

    @property
    def line(self) -> str | tuple[float, tuple[float, ...]]:
        return (0, tuple(length / 2 for length in self.dash)) if self.dash else "-"


def style(k: int) -> Style:
    """The style of series k of at most `DISTINCT`: neighbours differ in colour and dashes, also in black and white."""
    hue, turn = k % len(LIGHT), k // len(LIGHT)
    return Style(LIGHT[hue], DASHES[(hue + turn) % len(DASHES)])


def styles(n: int, chosen: Collection[int] = ()) -> list[Style]:
    """The styles of n series, in order; of more than `DISTINCT`, those not chosen are grey."""
    if n <= DISTINCT:
        return [style(k) for k in range(n)]
    grey = Style(REST[0], (), rest=True)
    place = {k: i for i, k in enumerate(sorted(chosen))}
    return [style(place[k]) if k in place else grey for k in range(n)]


def colour_script() -> str:
    return f"const PALETTE = {list(JOBS)}, GREY = '{IN_ORDER}', FAILED_INK = '{FAILED}';"


def dress(canvas: Figure, title: str) -> None:
    """Put the title, of one line, above a figure's plots and the legend below; the figure grows accordingly."""
    height_in = float(canvas.get_figheight())
    if title:
        most = int(canvas.get_figwidth() * TITLE_CHARACTERS_PER_IN)
        canvas.suptitle(textwrap.shorten(title, most, placeholder=" ..."), fontsize=7)
        height_in += 0.13
    named: dict[str, Any] = {}  # each name appears once
    for axes in canvas.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    labels, handles = list(named), list(named.values())
    if handles:
        labels = [folded(label) for label in labels]
        longest = max(len(line) for label in labels for line in label.split("\n"))
        columns = max(int(canvas.get_figwidth() / (0.45 + 0.06 * longest)), 1)
        lines = sum(label.count("\n") + 1 for label in labels)
        height_in += 0.13 * (-(-lines // columns) + 1)
        canvas.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=6.5, handlelength=3)
    canvas.set_figheight(height_in)


def folded(words: str, characters: int = 48) -> str:
    return "\n".join(textwrap.wrap(words, characters)) or words
