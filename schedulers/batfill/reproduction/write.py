"""The files of a reproduced entry: its result, its table, its figures and its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill import __version__
from batfill.experiment import ENGINE
from batfill.files import make_folder, raw_file, write_text
from batfill.report.figures import check_formats, write_figure
from batfill.reproduction.charts import figure_of
from batfill.reproduction.compare import cells
from batfill.reproduction.page import as_csv, escaped, figure_file, page_of, section_of
from batfill.reproduction.protocol import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from batfill.reproduction.outcome import Chart
    from batfill.reproduction.run import Reproduced

TABLE, PAGE = "table.csv", "page.md"
SCREEN_DPI = 72  # of what is drawn as pixels in an SVG: maps


def write_entry(result: Reproduced, formats: Sequence[str]) -> None:
    """Write the table, the figures and the page of an entry beside its result; what is there already stays.

    Raises:
        BatfillError: the folder cannot be written, or a format is unknown.
    """
    assert result.outcome is not None
    check_formats(formats)
    folder, entry = result.folder, result.named.entry
    make_folder(folder)
    write_text(folder / TABLE, as_csv(cells(entry, result.outcome)))
    write_text(folder / PAGE, escaped(section_of(result)) + "\n")
    for chart in result.outcome.charts:
        figure = figure_of(chart)
        wanted = [kind for kind in formats if not (result.again and (folder / f"{figure.name}.{kind}").is_file())]
        if wanted:
            write_figure(figure, folder, wanted, origin_of(result))


def write_page(results: Sequence[Reproduced], names: Sequence[str], path: Path) -> None:
    """Write the page of these entries, asked for by these names, and its figures into a folder of the page's name.

    Raises:
        BatfillError: a chart to show is not there, or the folder cannot be written.
    """
    figures = path.with_suffix("")
    for result in results:
        for name in result.named.entry.show if result.outcome else ():
            make_folder(figures)
            write_svg(shown(result, name), figures / figure_file(result.named, name))
    write_text(path, page_of(results, names, figures.name))


def shown(result: Reproduced, name: str) -> Chart:
    """The chart of this name."""
    charts = {chart.name: chart for chart in (result.outcome.charts if result.outcome else ())}
    if name not in charts:
        raise ProtocolError(
            f"{result.named.name}: show has no chart {name!r}; charts are {', '.join(charts) or 'none'}"
        )
    return charts[name]


def write_svg(chart: Chart, path: Path) -> None:
    """The chart alone, without its data; small, since its words stay text."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    from batfill.report.figures import COLUMN_IN, STYLE

    figure = figure_of(chart)
    with mpl.rc_context(STYLE | {"svg.fonttype": "none"}):
        canvas = Canvas(figsize=(COLUMN_IN * 1.5, figure.height_in), layout="constrained")
        figure.draw(canvas.subplots())
        with raw_file(path) as stream:
            canvas.savefig(stream, format="svg", dpi=SCREEN_DPI, metadata={"Date": None})


def origin_of(result: Reproduced) -> str:
    """What stands atop the data of a figure."""
    entry = result.named.entry
    logs = ", ".join(entry.logs.values())
    quick = " --quick" if result.quick else ""
    return f"batfill {__version__} reproduce {result.named.name}{quick}, {entry.source}, logs {logs}, {ENGINE}"
