"""`report.html`: everything about some runs in one self-contained file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from batfill.base.doors import door
from batfill.base.errors import BatfillError
from batfill.base.files import digest, require_other, write_text
from batfill.base.progress import patient_progress
from batfill.base.version import __version__
from batfill.batsim_files.results import REPORT_PAGE, written_by_run
from batfill.model.metrics import TAU_S
from batfill.model.values import seed_of
from batfill_pages.comparison import comparisons, several
from batfill_pages.comparison_page import comparison_section, comparison_title
from batfill_pages.data import run_data
from batfill_pages.palette import colour_script
from batfill_pages.run_page import run_line, run_section, run_title
from batfill_pages.runs import find_runs
from batfill_pages.sample import SAMPLE_ROWS, sampled
from batfill_pages.uses import uses_of
from batfill_pages.words import asset, html_of, part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from batfill.batsim_files.results import Results
    from batfill.replays.result import Result
    from batfill_pages.runs import ReportedRun

SCRIPTS = (
    *("columns.js", "run.js", "panels.js", "course.js", "view.js", "colours.js", "gantt.js", "curve.js"),
    *("filter.js", "main.js"),
)


def report(
    *runs: Any,
    out: str | Path | None = None,
    tau_s: float = TAU_S,
    overdue_s: float | None = None,
    seed: int = 0,
    figures: Sequence[str] = (),
    columns: int = 1,
) -> list[Path]:
    """Write a self-contained HTML page about runs: Gantt charts, curves, tables; several runs are compared.

    Args:
        *runs: results of replays; folders with runs, prefixes of runs' files, such as that of `Result.to_batsim`, and
            folders of campaigns. Also a list of these, or a dict of results by name.
        out: the page; by default `report.html` in the first folder, or here. Figures go next to it.
        tau_s: the bound of the bounded slowdown.
        overdue_s: mark jobs that waited longer.
        seed: of the intervals, and of the sample.
        figures: also write figures for papers, each with its data, in these formats: "pdf", "svg", "png".
        columns: their width, one column of a two-column page or both (2).

    Returns:
        The files written, the page first.

    Raises:
        BatfillError: there is no run, one has not ended, or a file or an option is unusable.

    Examples:
        >>> import tempfile
        >>> from batfill.replays.replay import replay
        >>> fcfs, saf = (replay("workloads/sample.json", name) for name in ("fcfs", "saf"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [page.name for page in report({"today": fcfs, "tried": saf}, out=f"{folder}/both.html")]
        ['both.html']
    """
    given = several(runs)
    places = [Path(one) for _, one in given if isinstance(one, (str, Path))]
    results = [(name, one) for name, one in given if not isinstance(one, (str, Path))]
    if wrong := [one for _, one in results if not hasattr(one, "to_batsim")]:
        raise BatfillError(f"report: {wrong[0]!r:.80} is no result of a replay, folder or prefix of files")
    if unfinished := [one for _, one in results if not one.ended]:
        left = unfinished[0].not_ended
        raise BatfillError(f"report: {left:,} jobs have not ended in a replay; run it to its end")
    if not given:
        raise BatfillError("report: there is no run; give results of replays, or a folder")
    page = Path(REPORT_PAGE) if out is None and not places else None if out is None else Path(out)
    how: dict[str, Any] = {"tau_s": tau_s, "overdue_s": overdue_s, "seed": seed, "figures": figures, "columns": columns}
    with patient_progress("runs read and described") as advance:
        return write_report(places, page, replays=as_runs(results), advance=advance, **how)


def as_runs(results: Sequence[tuple[str | None, Result]]) -> list[ReportedRun]:
    """The results as runs, as if their files had been written."""
    with TemporaryDirectory() as folder:
        for number, (_, result) in enumerate(results, start=1):
            result.to_batsim(Path(folder) / f"replay-{number:03}")
        runs = find_runs([Path(folder)]) if results else []
    return [
        replace(run, name=run.name if name is None else name, path=Path(run.path.name))
        for run, (name, _) in zip(runs, results, strict=True)
    ]


def write_report(
    places: Sequence[Path],
    output: Path | None = None,
    *,
    tau_s: float = TAU_S,
    overdue_s: float | None = None,
    seed: int = 0,
    figures: Sequence[str] = (),
    columns: int = 1,
    replays: Sequence[ReportedRun] = (),
    known: Mapping[Path, Results] | None = None,
    command: str = "",
    advance: Callable[[int], None] = lambda _: None,
) -> list[Path]:
    """As `report`, of places and of further runs in `replays`; `known` are the contents of files that have been read.

    `command` is the command line, for the page; `advance` is called with 1 after each run that was read or described.
    """
    if not tau_s > 0:
        raise BatfillError(f"--tau: {tau_s!r} is not a number of seconds > 0")
    if overdue_s is not None and not overdue_s >= 0:
        raise BatfillError(f"--threshold: {overdue_s!r} is not a number of seconds >= 0")
    seed_of("seed", seed)
    if figures:
        from batfill_pages.figures import check_formats

        check_formats(figures)
    campaigns = {place: parts for place in places if (parts := campaign_in(place)) is not None}
    runs = find_runs([place for place in places if place not in campaigns], known=known, advance=advance)
    runs += replays
    if output is not None:
        require_other("--out", output, (path for run in runs for path in written_by_run(run.path)[:-1]))
    page = output or (places[0] if places[0].is_dir() else places[0].parent) / REPORT_PAGE
    groups = [group for parts in campaigns.values() for group in parts.comparisons] + comparisons(runs, tau_s)
    whole = sum(min(len(run), SAMPLE_ROWS) for run in runs)  # if these are too many, each run has fewer
    most_rows = SAMPLE_ROWS if whole <= 2 * SAMPLE_ROWS else max(2 * SAMPLE_ROWS // len(runs), 1)
    warned = [text for parts in campaigns.values() for text in parts.warnings]
    alone, single = len(groups) == 1, len(runs) == 1 and not groups
    sections = [comparison_section(group, k, seed=seed, alone=alone) for k, group in enumerate(groups)]
    sections.append(part("warnings", warned))
    data = []
    sections += ["<h2>Each run</h2>"] if runs and not single else []
    for number, run in enumerate(runs):
        sample, uses = sampled(run, most_rows, seed), uses_of(run)
        shown: dict[str, Any] = {"sample": sample, "alone": single, "explained": bool(groups) or number > 0}
        sections.append(run_section(run, number, uses, tau_s=tau_s, overdue_s=overdue_s, **shown))
        data.append(run_data(run, uses, tau_s, sample))
        advance(1)
    inputs = [(path, digest(path)) for parts in campaigns.values() for path in parts.files]
    inputs += [(run.path, run.digest) for run in runs]
    titles = [comparison_title(group) for group in groups]
    names = [run_title(run) for run in runs]
    kind, parts = ("comparison", titles) if titles else ("run", names)
    links = [(f"{kind}-{k}", title) for k, title in enumerate(parts)]
    compared = [group.log or group.title for group in groups]
    title = f"{len(groups)} comparisons: {few(compared)}" if len(groups) > 1 else few(parts)
    origin = f"batfill {__version__}, tau {tau_s:g} s, seed {seed}"
    sections.append(part("made_from", origin, command, inputs))
    log = groups[0].about if alone else run_line(runs[0]) if single else ""
    names_of_scripts = ("draw.js", *SCRIPTS * bool(runs), *("compare.js",) * bool(groups))
    scripts = [colour_script(), *map(asset, names_of_scripts)]
    content = {"title": title, "log": log, "links": links, "sections": sections, "data": data, "scripts": scripts}
    content |= {"generator": f"batfill {__version__}", "styles": [asset("report.css")]}
    write_text(page, html_of("page.html.j2", content))
    if not figures:
        return [page]
    from batfill_pages.figures import write_figures

    sums = ", ".join(f"{path.name} sha256 {known}" for path, known in inputs)
    how: dict[str, Any] = {"columns": columns, "tau_s": tau_s, "seed": seed, "origin": f"{origin}, {sums}"}
    return [page, *write_figures(runs, groups, page.parent, figures, **how)]


def campaign_in(place: Path) -> Any:
    if not any(any(folder.glob("*.parquet")) for folder in (place, place / "parts")):
        return None  # pages about single runs do not need a campaign's libraries
    return door("campaign_parts")(place)


def few(names: Sequence[str]) -> str:
    return f"{'; '.join(names[:3])}{f'; {len(names) - 3} more' * (len(names) > 3)}"
