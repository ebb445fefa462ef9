"""Colours, dashes and words of charts: one list for the page's own SVG, its script, and matplotlib's figures.

It draws with what it is given and imports no matplotlib: pages need none.

Series k has the colour k mod 6 and one of four dash patterns, so that 24 series are 24 pairs. Any two colours are at
least 20 apart (CIEDE2000) to a normal eye and to one without the red, green or blue cones (Machado, Oliveira and
Fernandes, IEEE TVCG 15(6), 2009, severity 1), and each has a contrast of 3 with its paper.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from matplotlib.figure import Figure

LIGHT = ("#0011dd", "#dd7711", "#338877", "#660044", "#aa77ee", "#004400")  # on white
DARK = ("#aa44cc", "#ddee33", "#009977", "#ee2200", "#ddaaff", "#88ffdd")  # on the page's dark paper
DASHES: tuple[tuple[float, ...], ...] = ((), (8, 3), (2, 2.5), (9, 3, 2, 3))  # lengths of ink and gap, in points
DISTINCT = len(LIGHT) * len(DASHES)
BEST = 8  # of more series than that, so many are drawn in colour
REST = ("#a9b1ba", "#56606c")  # of all others, on light and on dark paper

# What a job's colour says, from good to bad: its class of bounded slowdown, its fate, or its width.
JOBS = ("#4f7cac", "#9bd0e6", "#e6b840", "#c2412d")
IN_ORDER, FAILED = "#9aa3ad", "#5b2a86"

BSLD = "bounded slowdown"
MEAN_BSLD = f"mean {BSLD}"
TITLE_CHARACTERS_PER_IN = 19  # of a figure's title, 7 pt


class Style(NamedTuple):
    """How a series is drawn."""

    light: str  # colour on light paper
    dark: str  # and on dark paper
    dash: tuple[float, ...]  # lengths of ink and gap; () is a whole line
    ink: str  # the colour in the page's CSS, light or dark as the reader's system is
    rest: bool = False  # whether it stands in grey behind the others

    @property
    def line(self) -> str | tuple[float, tuple[float, ...]]:
        """The dashes as matplotlib's `linestyle`, whose lengths are in line widths."""
        return (0, tuple(length / 2 for length in self.dash)) if self.dash else "-"

    @property
    def svg(self) -> str:
        """The stroke as SVG's attributes."""
        dash = f' stroke-dasharray="{" ".join(f"{length:g}" for length in self.dash)}"' if self.dash else ""
        return f'style="stroke:{self.ink}"{dash}'


def style(k: int) -> Style:
    """The style of series k of at most `DISTINCT`; a second round through the colours has other dashes.

    Neighbours differ in both, so that six series can also be told apart in black and white print.
    """
    assert 0 <= k < DISTINCT
    hue, turn = k % len(LIGHT), k // len(LIGHT)
    return Style(LIGHT[hue], DARK[hue], DASHES[(hue + turn) % len(DASHES)], f"var(--series-{hue})")


def styles(n: int, chosen: Collection[int] = ()) -> list[Style]:
    """The styles of n series, in order; of more than `DISTINCT` those not chosen are grey."""
    if n <= DISTINCT:
        return [style(k) for k in range(n)]
    grey = Style(*REST, (), "var(--series-rest)", rest=True)
    place = {k: i for i, k in enumerate(sorted(chosen))}
    return [style(place[k]) if k in place else grey for k in range(n)]


def css() -> str:
    """The colours of series as CSS's custom properties, by what the reader's system prefers; print is light."""
    light, dark = (
        " ".join([*(f"--series-{k}: {c};" for k, c in enumerate(colours)), f"--series-rest: {rest};"])
        for colours, rest in zip((LIGHT, DARK), REST, strict=True)
    )
    return f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"


def colour_script() -> str:
    """The colours of jobs, as constants of the page's script."""
    return f"const PALETTE = {list(JOBS)}, GREY = '{IN_ORDER}', FAILED_INK = '{FAILED}';"


def dress(canvas: Figure, title: str) -> None:
    """Put the title above a figure's plots and the key of all below, both whole; the figure grows by as much."""
    height_in = float(canvas.get_figheight())
    if title:
        words = folded(title, int(canvas.get_figwidth() * TITLE_CHARACTERS_PER_IN))
        canvas.suptitle(words, fontsize=7)
        height_in += 0.13 * (words.count("\n") + 1)
    named: dict[str, Any] = {}  # a name is said once
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
    """The words in lines of at most so many characters."""
    return "\n".join(textwrap.wrap(words, characters)) or words
