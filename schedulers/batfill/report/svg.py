"""Plots as SVG in the page's own colours: an area with axes, into which lines, boxes and intervals are drawn."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Differ in lightness as well as in hue, and once more in their dashes.
COLOURS = ("#4f7cac", "#c2412d", "#b8860b", "#2a9d8f", "#8d6cab", "#7a5230", "#d4709b", "#6b7785")
DASHES = ("", "7 3", "2 3", "9 3 2 3")


def colour(k: int) -> str:
    """The colour of the k-th run."""
    return COLOURS[k % len(COLOURS)]


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two numbers."""
    rough = (high - low) / most or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(k for k in (1, 2, 5, 10) if k * power >= rough) * power
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between two numbers > 0, with twos and fives where those are few."""
    steps = (1, 2, 5) if high / low < 1000 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**k for k in powers for step in steps if low <= step * 10.0**k <= high]


class Plot:
    """An SVG of 720 units in width; `x` and `y` turn values into places."""

    def __init__(
        self,
        title: str,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        height: int = 300,
        left: int = 64,
        log_x: bool = False,
    ) -> None:
        self.left, self.right, self.top, self.bottom = left, 706, 12, height - 40
        self.log_x = log_x
        self.x_range, self.y_range = x, y
        self.parts = [
            f'<svg class="plot" viewBox="0 0 720 {height}" role="img" aria-label="{escape(title, quote=True)}">'
            f"<title>{escape(title)}</title>"
        ]

    def x(self, value: float) -> float:
        """The place of a value from left to right."""
        return self.left + share(value, self.x_range, self.log_x) * (self.right - self.left)

    def y(self, value: float) -> float:
        """The place of a value from bottom to top."""
        return self.bottom - share(value, self.y_range) * (self.bottom - self.top)

    def add(self, part: str) -> None:
        """Draw one more element."""
        self.parts.append(part)

    def text(self, x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> None:
        """Write these words."""
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = "", width: float = 1) -> None:
        """A line between two places; without a colour, in that of the axes."""
        style = f'stroke="{stroke}" stroke-width="{width}"' if stroke else 'class="axis"'
        self.add(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>')

    def x_axis(self, label: str, scale: float = 1.0) -> None:
        """Ticks and a label at the bottom; values are divided by `scale` before they are written."""
        low, high = self.x_range[0] / scale, self.x_range[1] / scale
        for tick in log_ticks(low, high) if self.log_x else ticks(low, high):
            self.line(self.x(tick * scale), self.top, self.x(tick * scale), self.bottom)
            self.text(self.x(tick * scale), self.bottom + 15, f"{tick:,g}")
        self.text((self.left + self.right) / 2, self.bottom + 33, label)

    def y_axis(self, label: str) -> None:
        """Ticks and a label at the left."""
        for tick in ticks(*self.y_range):
            self.line(self.left, self.y(tick), self.right, self.y(tick))
            self.text(self.left - 6, self.y(tick) + 4, f"{tick:,g}", "end")
        middle = (self.top + self.bottom) / 2
        self.add(
            f'<text x="14" y="{middle:.1f}" text-anchor="middle" transform="rotate(-90 14 {middle:.1f})">'
            f"{escape(label)}</text>"
        )

    def curve(self, xs: Sequence[float], ys: Sequence[float], k: int) -> None:
        """The k-th run's line through these values."""
        points = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(xs, ys, strict=True))
        self.add(
            f'<polyline points="{points}" fill="none" stroke="{colour(k)}" stroke-width="2" '
            f'stroke-dasharray="{DASHES[k % len(DASHES)]}"/>'
        )

    def key(self, names: Sequence[tuple[int, str]]) -> None:
        """The names of these curves with their lines, in the upper left corner."""
        for row, (k, name) in enumerate(names):
            y = self.top + 12 + 17 * row
            self.add(
                f'<line x1="{self.left + 8}" y1="{y}" x2="{self.left + 38}" y2="{y}" stroke="{colour(k)}" '
                f'stroke-width="2" stroke-dasharray="{DASHES[k % len(DASHES)]}"/>'
            )
            self.text(self.left + 44, y + 4, name, "start", "name")

    def svg(self) -> str:
        """The whole."""
        return "".join([*self.parts, "</svg>"])


def share(value: float, limits: tuple[float, float], log: bool = False) -> float:
    """How far a value is from the first limit to the second, from 0 to 1."""
    low, high = limits
    if log:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low) if high > low else 0.5
