"""Plots as SVG in the page's colours: axes with lines, boxes and intervals.

Each plot is drawn twice, for wide pages and for phones; the style sheet shows one of them.
"""

from __future__ import annotations

import math
import textwrap
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from batfill.reports.palette import Style

WIDE, NARROW = 720, 360
FEWEST_TICKS = 3
CHARACTER = 7.0  # width of one at 12 px, with a margin
LINE_HEIGHT = 15  # the height of a line of text
STEPS = (1, 2, 5, 10)
Tick = tuple[float, str]  # position, label; a line break starts a second line


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At least three round numbers between two different numbers, about `most`."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = math.floor(math.log10(rough))
    steps = [k * 10.0**p for p in (power, power - 1) for k in STEPS]
    largest = min(step for step in steps if step >= rough)
    for step in sorted((step for step in set(steps) if step <= largest), reverse=True):
        found = [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
        if len(found) >= FEWEST_TICKS:
            return found
    return found


def log_ticks(low: float, high: float, most: int = 8) -> list[float]:
    """Powers of ten between two numbers > 0; with factors 2 and 5 if those are few, or round numbers if all are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5)):
        found = [step * 10.0**k for k in powers for step in steps if low <= step * 10.0**k <= high]
        if len(found) >= FEWEST_TICKS:
            return found[:: math.ceil(len(found) / most)]
    return ticks(low, high, min(most, 4))


def labelled(values: Sequence[float]) -> list[Tick]:
    """These values as ticks, with enough digits to distinguish them; thousands, millions and more by letter."""
    for digits in range(3, 12):
        words = [tick_text(value, digits) for value in values]
        if len(set(words)) == len(set(values)):
            break
    return list(zip(values, words, strict=True))


def tick_text(value: float, digits: int) -> str:
    """A number in few characters."""
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= scale:
            scale = 1e3 if letter == "k" else scale
            return f"{value / scale:,.{digits}g}{letter}"
    return f"{value:,.{max(digits, 4)}g}"


class Plot:
    """An SVG of `width` units, in pixels; `x` and `y` map values to positions."""

    def __init__(
        self,
        title: str,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        width: int = WIDE,
        x_label: str = "",
        height: int = 300,
        left: float = 64,
        log_x: bool = False,
    ) -> None:
        self.width = width
        self.x_label = wrapped(x_label, width)
        height += LINE_HEIGHT * (len(self.x_label) - 1)
        self.left, self.right, self.top = left, width - 16, 12
        self.bottom = height - 39 - LINE_HEIGHT * len(self.x_label)
        self.log_x = log_x
        self.x_range, self.y_range = x, y
        self.parts = [
            f'<svg class="plot {"wide" if width == WIDE else "narrow"}" viewBox="0 0 {width} {height}" '
            f'role="img" aria-label="{escape(title, quote=True)}"><title>{escape(title)}</title>'
        ]

    def x(self, value: float) -> float:
        """The horizontal position of a value."""
        return self.left + place_between(value, self.x_range, self.log_x) * (self.right - self.left)

    def y(self, value: float) -> float:
        """The vertical position of a value."""
        return self.bottom - place_between(value, self.y_range) * (self.bottom - self.top)

    def add(self, part: str) -> None:
        """Add an element."""
        self.parts.append(part)

    def text(self, x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> None:
        """Add text."""
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>')

    def line(
        self, x1: float, y1: float, x2: float, y2: float, ink: str = "", width: float = 1, *, tick: str = ""
    ) -> None:
        """Add a line between two positions, in this colour, or across the plot at a tick of this axis."""
        style = f'class="axis" data-tick="{tick}"' if tick else f'style="stroke:{ink}" stroke-width="{width}"'
        self.add(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>')

    def dot(self, x: float, y: float, ink: str, *, hollow: bool = False) -> None:
        """Add a disc at a position, in this colour, or a ring."""
        paint = f"fill:none;stroke:{ink};stroke-width:2" if hollow else f"fill:{ink}"
        self.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" style="{paint}"/>')

    def x_axis(self, marks: Sequence[Tick] | None = None) -> None:
        """Add ticks and the label at the bottom; the ticks are numbers by default."""
        most = 5 if self.width == NARROW else 8
        if marks is None:
            marks = labelled((log_ticks if self.log_x else ticks)(*self.x_range, most))
        for value, words in marks:
            place = self.x(value)
            self.line(place, self.top, place, self.bottom, tick="x")
            inside = min(max(place, 2.5 * CHARACTER), self.width - 2.5 * CHARACTER)
            for row, line in enumerate(words.split("\n")):
                self.text(inside, self.bottom + 15 + 14 * row, line)
        for row, line in enumerate(self.x_label):
            inside = len(line) * CHARACTER < self.right - self.left
            middle = (self.left + self.right) / 2 if inside else self.width / 2
            self.text(middle, self.bottom + 46 + LINE_HEIGHT * row, line)

    def y_axis(self, label: str) -> None:
        """Add ticks and a label at the left."""
        for value, words in labelled(ticks(*self.y_range)):
            self.line(self.left, self.y(value), self.right, self.y(value), tick="y")
            self.text(self.left - 6, self.y(value) + 4, words, "end")
        middle = (self.top + self.bottom) / 2
        self.add(
            f'<text x="14" y="{middle:.1f}" text-anchor="middle" transform="rotate(-90 14 {middle:.1f})">'
            f"{escape(label)}</text>"
        )

    def curve(self, xs: Sequence[float], ys: Sequence[float], style: Style) -> None:
        """Add a line through these values."""
        points = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(xs, ys, strict=True))
        self.add(f'<polyline points="{points}" fill="none" stroke-width="{1 if style.rest else 2}" {style.svg}/>')

    def row_name(self, middle: float, lines: Sequence[str]) -> None:
        """Add the name of a row at its left, in several lines if needed."""
        for k, line in enumerate(lines):
            self.text(self.left - 8, middle + 4 + LINE_HEIGHT * (k - (len(lines) - 1) / 2), line, "end", "name")

    def svg(self) -> str:
        """The whole."""
        return "".join([*self.parts, "</svg>"])


def both(draw: Callable[[int], Plot]) -> str:
    """The plot for wide and for narrow pages."""
    return f'<div class="plots">{"".join(draw(width).svg() for width in (WIDE, NARROW))}</div>'


def wrapped(words: str, width: float) -> list[str]:
    """The words in lines that fit this width, none truncated."""
    return textwrap.wrap(words, max(int(width / CHARACTER), 4)) or [""]


def place_between(value: float, limits: tuple[float, float], log: bool = False) -> float:
    """The position of a value between the limits, from 0 to 1."""
    low, high = limits
    if log:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low) if high > low else 0.5
