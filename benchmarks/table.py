"""What the suite prints: one row per measurement, with the ratio checked against its bar."""

from __future__ import annotations

from dataclasses import dataclass

HEADINGS = ("case", "ours", "beside it", "figure", "bar", "")
NONE = "-"
SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement. `figure` is what the bar is for; `unit` says how it is written (see `figure_text`)."""

    case: str
    ours: str
    beside: str = NONE
    figure: float | None = None
    bar: float | None = None
    unit: str = "x"

    @property
    def verdict(self) -> str:
        """Whether the bar is kept; "" where there is none, or nothing to compare with."""
        if self.bar is None or self.figure is None:
            return ""
        return "ok" if self.figure <= self.bar else "MISSED"

    @property
    def cells(self) -> tuple[str, ...]:
        """The row's texts, as HEADINGS."""
        bar = NONE if self.bar is None else figure_text(self.bar, self.unit)
        figure = NONE if self.figure is None else figure_text(self.figure, self.unit)
        return self.case, self.ours, self.beside, figure, bar, self.verdict


def figure_text(value: float, unit: str) -> str:
    """A ratio ("x"), seconds ("s"), bytes a job ("B"), megabytes ("MB"), or a growth exponent ("n", as a power)."""
    if unit == "s":
        return time_text(value)
    return {"x": f"{value:.3g}x", "B": f"{value:.0f} B", "MB": f"{value:.4g} MB", "n": f"n^{value:.2f}"}[unit]


def time_text(seconds: float) -> str:
    """Three digits and a unit that suits them."""
    size, unit = next((scale for scale in SCALES if seconds >= scale[0]), SCALES[-1])
    return f"{float(f'{seconds / size:.3g}'):g} {unit}"


def as_text(sections: dict[str, list[Row]]) -> str:
    """The sections' rows under one set of columns."""
    grids = {section: [row.cells for row in rows] for section, rows in sections.items()}
    every = [HEADINGS, *(cells for grid in grids.values() for cells in grid)]
    widths = [max(len(cells[column]) for cells in every) for column in range(len(HEADINGS))]

    def line(cells: tuple[str, ...]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return "  ".join(padded).rstrip()

    lines = [line(HEADINGS), "  ".join("-" * width for width in widths).rstrip()]
    for section, grid in grids.items():
        lines += [f"[{section}]", *(line(cells) for cells in grid)]
    return "\n".join(lines)
