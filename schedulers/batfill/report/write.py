"""`report.html`: everything about some runs in one file that needs nothing else."""

from __future__ import annotations

from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from batfill import __version__
from batfill.errors import BatfillError
from batfill.metrics import TAU_S
from batfill.report.comparison import comparisons
from batfill.report.data import run_data
from batfill.report.runs import find_runs
from batfill.report.sections import asset, comparison_section, run_section
from batfill.workloads.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from batfill.report.comparison import Comparison
    from batfill.report.runs import Run

FILE_NAME = "report.html"
SCRIPTS = ("columns.js", "run.js", "view.js", "canvas.js", "colours.js", "gantt.js", "curve.js", "filter.js", "main.js")
MOST_ROWS = 600_000  # tries in one page, of all runs together; 300,000 jobs take about 3 MB


def write_report(
    places: Sequence[Path],
    output: Path | None = None,
    *,
    tau_s: float = TAU_S,
    overdue_s: float | None = None,
    seed: int = 0,
    figures: Sequence[str] = (),
    command: str = "",
    advance: Callable[[int], None] = lambda _: None,
) -> list[Path]:
    """Write the report of the runs in these places, and the figures of their comparisons; returns what was written.

    Args:
        places: folders that hold runs, `_jobs.csv` files or their prefixes.
        output: the page; by default `report.html` in the first place's folder. Figures go beside it.
        tau_s: the bound of the bounded slowdown.
        overdue_s: jobs that waited longer are marked; the viewer may say another limit.
        seed: of the bootstrap.
        figures: formats of matplotlib's, such as pdf.
        command: the command line that asked for it.
        advance: is told of every run that is in the page.

    Raises:
        BatfillError: a place holds no run, a file cannot be used, or an option cannot.
    """
    if not tau_s > 0:
        raise BatfillError(f"--tau: {tau_s!r} is not a number of seconds > 0")
    if overdue_s is not None and not overdue_s >= 0:
        raise BatfillError(f"--threshold: {overdue_s!r} is not a number of seconds >= 0")
    if seed < 0:
        raise BatfillError(f"--seed: {seed} is not a whole number >= 0")
    if figures:
        from batfill.report.figures import check_formats

        check_formats(figures)
    runs = find_runs(places)
    page = output or (places[0] if places[0].is_dir() else places[0].parent) / FILE_NAME
    groups = comparisons(runs, tau_s)
    explore = sum(len(run) for run in runs) <= MOST_ROWS or len(runs) == 1
    sections, data = [], []
    for number, comparison in enumerate(groups):
        sections.append(comparison_section(comparison, number, seed=seed))
    for number, run in enumerate(runs):
        sections.append(run_section(run, number, tau_s=tau_s, overdue_s=overdue_s, explore=explore))
        data += [run_data(run, number, tau_s)] * explore
        advance(1)
    write_text(page, html_page(runs, groups, sections, data, seed=seed, command=command))
    if not figures:
        return [page]
    from batfill.report.figures import write_figures

    return [page, *write_figures(runs, groups, page.parent, figures, tau_s=tau_s, seed=seed)]


def html_page(
    runs: Sequence[Run],
    groups: Sequence[Comparison],
    sections: Sequence[str],
    data: Sequence[str],
    *,
    seed: int,
    command: str,
) -> str:
    """The page of these sections, with its style, its script and where everything came from."""
    names = [run.name for run in runs[:4]] + ["..."] * (len(runs) > 4)
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs: {', '.join(names)}"
    links = [
        *((f"comparison-{k}", f"Comparison of {len(group.names)} runs") for k, group in enumerate(groups)),
        *((f"run-{k}", run.name) for k, run in enumerate(runs)),
    ]
    contents = "".join(f'<a href="#{anchor}">{escape(words)}</a>' for anchor, words in links)
    inputs = "".join(f"<li>{escape(str(run.path))}: sha256 {run.digest}</li>" for run in runs)
    made_by = f"batfill {__version__}"
    asked = f" by <code>{escape(command)}</code>" if command else ""
    return Template(asset("page.html")).substitute(
        generator=made_by,
        title=escape(title),
        subtitle="Schedules of parallel jobs: who waited, for how long, and where they ran.",
        style=asset("report.css"),
        contents=f'<nav aria-label="Contents">{contents}</nav>' if len(links) > 1 else "",
        body="\n".join(sections),
        provenance=f"<p>Made by {made_by}{asked}, seed {seed}, from</p><ul>{inputs}</ul>",
        data="\n".join(data),
        script="\n".join(asset(name) for name in SCRIPTS),
    )
