"""Maps of the search space, one per period: the quality of every grid point (Figure 4 of the 2019 study).

The sphere |q| + |p~| + |w| = 1 is shown from both sides, q < 0 left and q > 0 right. The weights of p~ and w run along
the two diagonals; light is good, and the red dot marks the best point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from batfill.base.files import make_folder, raw_file
from batfill.base.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from batfill.search.mixed_search import Coverage
    from batfill.search.periods import Periods


def draw_maps(search: Coverage, periods: Periods, folder: Path) -> None:
    """Write FOLDER/period-0070.png and so on; equal costs give equal bytes.

    Raises:
        WorkloadError: the folder cannot be written.
    """
    make_folder(folder)
    for column, number in enumerate(periods.numbers):
        figure = one_map(search, column, f"{periods.source}, period {number}")
        with raw_file(folder / f"period-{number:04}.png") as file:
            figure.savefig(file, format="png", dpi=100, metadata={"Software": f"batfill {__version__}"})


def one_map(search: Coverage, column: int, title: str) -> Figure:
    """The map of one period."""
    q, p, w = search.weights.T
    cost = search.costs[:, column]
    # Both sides share the edge q = 0, and both draw it.
    least, most = float(cost.min()), float(cost.max())
    norm = LogNorm(least, most) if most > least > 0 else None
    best = search.place(column, column + 1)
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, side, name in zip(figure.subplots(1, 2), (q <= 0, q >= 0), ("q < 0", "q > 0"), strict=True):
        drawn = axes.scatter((w - p)[side], (w + p)[side], c=cost[side], s=9, marker="D", cmap="viridis_r", norm=norm)
        if side[best]:
            axes.plot(w[best] - p[best], w[best] + p[best], "o", color="red", markersize=7)
        axes.set(title=name, xlabel="weight of w - weight of p~", ylabel="weight of w + weight of p~", aspect="equal")
    figure.colorbar(drawn, ax=figure.axes, label="mean bounded slowdown")
    figure.suptitle(f"{title}: best {least:.3g}")
    return figure
