"""Entries as Markdown and charts: the papers' numbers and ours, ratios, rank agreement, statements, remarks."""

from __future__ import annotations

import re
from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.base.files import csv_text, make_folder, raw_file, write_text
from batfill.base.sums import rank_correlation
from batfill.base.version import ENGINE, __version__
from batfill.workloads.swf_log import manifest
from batfill_pages.figures import COLUMN_IN, STYLE, Figure, check_formats, file_stem, write_figure
from batfill_pages.palette import DISTINCT, Style, styles
from studies.papers.protocol import ProtocolError, Took, file_of, said

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from studies.papers.core import Chart, Outcome, Table, Value
    from studies.papers.protocol import Entry, Named, Paper, Published, Reproduced, Size

TABLE, PAGE = "table.csv", "page.md"
SCREEN_DPI = 72  # of the bitmaps in an SVG: maps
FEWEST_RANKED = 3  # fewer values may agree in order by chance
MOST_ROWS = 9  # of a table on a paper's page; of a longer one only the rank agreement is shown
MINUTE_S = 60
AGREES = 0.9  # Spearman's coefficient from which two orders are said to agree
INDEX_HEAD = """\
# Reproduced papers: what agrees and what does not

{finding}

{papers}

Each paper's page has every statement with its verdict.

## How to read a paper's page

Each section names the command that makes it alone; it prints the parameters and notes, and writes all figures
to `table.csv`.

- A table has our numbers, and in brackets the paper's. If the paper leaves a choice open, it is that of the choice that
  comes nearest by the median distance of a ratio from 1. Of a long table only the rank agreement is shown.
- **Rank agreement** is Spearman's coefficient: 1 if both put the rows of a column in the same order.
- A **statement** of the paper is judged on all logs that an entry shows, also on those that the paper does not have: it
  can fail here and hold on the paper's logs. Our figures are shown where it does.
- The papers' numbers are typed from their tables. A **dash** means that there is no figure; logs that are not at hand
  have no row.
- Ratios, agreement and verdicts are computed. The explanations under **Why** are hand-written, and printed only beside
  the logs that they are about.

## How these pages are made

`{command} --page FILE` of batfill {version} writes them from the protocols in `studies/papers/protocols`, with {seeds}.
{size} {took}

{logs}
"""
SIZES: dict[Size, str] = {
    "quick": "This is the small version (`--quick`): fewer weeks, samples or points than the papers'.",
    "usual": "This is not `--full`: some logs are resampled less often than in the papers, as the commands' notes say.",
    "full": "This is `--full`: as many resamplings as in the papers.",
}
OPTIONS: dict[Size, str] = {"quick": " --quick", "usual": "", "full": " --full"}


# Our numbers and the paper's


class Cell(NamedTuple):
    """One figure of our tables, and the paper's, also relative to the entry's reference row.

    If the paper has sorted the column by itself, `row` is a place in it, counted from 1.
    """

    row: str
    column: str
    choice: str
    paper: Value
    ours: Value
    paper_relative: Value
    ours_relative: Value
    whose: str | None = None  # the row of ours that has this place; None if the column's values belong to its rows

    @property
    def ratio(self) -> Value:
        """Ours over the paper's."""
        return quotient(self.ours, self.paper)


def cells(entry: Entry, outcome: Outcome) -> Iterator[Cell]:
    """Every figure of ours, and every published one that we have no figure for, table by table."""
    published, base = entry.published, entry.relative_to
    for table in outcome.tables:
        for column in paper_columns(entry, table):
            if published and column in published.sorted_alone:
                yield from cells_by_place(published, base, table, column)
                continue
            for row in paper_rows(entry, table):
                paper = published.value(row, column) if published else None
                ours = table.value(row, column)
                if paper is None and ours is None:
                    continue
                paper_base = published.value(base, column) if published and base else None
                ours_base = table.value(base, column) if base else None
                relative = quotient(paper, paper_base), quotient(ours, ours_base)
                yield Cell(row, column, table.choice, paper, ours, *relative)


def cells_by_place(published: Published, base: str | None, table: Table, column: str) -> Iterator[Cell]:
    """A column that the paper has sorted by itself, and ours, sorted: two sets of values, compared place by place.

    The paper's value of the reference row is that of the labelled columns, if it is the same in all columns.
    """
    paper = sorted(published.column(column))
    ours: list[tuple[float, str]] = []
    for row in published.rows:
        value = table.value(row, column)
        if value is not None:
            ours.append((value, row))
    ours.sort()
    paper_base = published.value(base, published.labelled[0]) if base and base == published.constant else None
    ours_base = table.value(base, column) if base else None
    if len(paper) == len(ours):
        for place, (printed, (own, row)) in enumerate(zip(paper, ours, strict=True), 1):
            relative = quotient(printed, paper_base), quotient(own, ours_base)
            yield Cell(str(place), column, table.choice, printed, own, *relative, row)


def paper_columns(entry: Entry, table: Table) -> list[str]:
    """The paper's columns present in the table, then the table's own; of logs, all of the entry's."""
    published = entry.published.columns if entry.published else []
    there = entry.logs if is_by_log(entry, table.columns) else table.columns
    return [*(name for name in published if name in there), *(n for n in table.columns if n not in published)]


def paper_rows(entry: Entry, table: Table) -> list[str]:
    """The paper's rows, then the table's own; of logs, none that the entry does not have."""
    published = list(entry.published.rows) if entry.published else []
    if is_by_log(entry, table.rows):
        published = [name for name in published if name in entry.logs]
    return [*published, *(name for name in table.rows if name not in published)]


def is_by_log(entry: Entry, names: Sequence[str]) -> bool:
    """Whether a table has a row or a column for every log that is available."""
    return set(names) <= set(entry.logs)


def rank_agreement(found: Sequence[Cell]) -> Value:
    """Spearman's coefficient of the cells with both values; None if they are few, or all equal, or sorted anyway."""
    labelled = (cell for cell in found if cell.whose is None)
    both = [(cell.paper, cell.ours) for cell in labelled if cell.paper is not None and cell.ours is not None]
    if len(both) < FEWEST_RANKED:
        return None
    found_rho = rank_correlation(*zip(*both, strict=True))
    return None if np.isnan(found_rho) else found_rho


def quotient(value: Value, base: Value) -> Value:
    """One divided by the other, if defined."""
    return value / base if value is not None and base else None


# Markdown


def index_of(results: Sequence[Reproduced], names: Sequence[str], folder: str) -> str:
    """The page that leads to those of the papers, in a folder next to it; `names` are the command's."""
    size = results[0].size
    given = (each.named.parameters[size].model_dump() for each in results)
    seeds = sorted({int(parameters["seed"]) for parameters in given if "seed" in parameters})
    took = [each.took for each in results if each.outcome is not None]
    known = [each for each in took if each is not None]
    wall_s, cpu_s = (sum(getattr(each, of) for each in known) for of in Took._fields)
    rows = []
    for name, entries in by_paper(results).items():
        paper, tally = entries[0].named.paper, Tally.of(entries)
        rows.append(
            (f"[{paper.title}]({folder}/{name}.md)", f"{paper.venue}{doi_of(paper)}", tally.orders, tally.statements)
        )
    return escaped(
        INDEX_HEAD.format(
            finding=Tally.of(results).finding,
            papers=markdown(("paper", "published", "tables in the published order", "statements that hold"), rows),
            command=f"batfill reproduce {' '.join(names)}{OPTIONS[size]}",
            version=__version__,
            seeds=f"seed {', '.join(map(str, seeds))}" if seeds else "no seed",
            size=SIZES[size],
            took=f"The entries took {minutes(wall_s)} to compute, and {minutes(cpu_s)} of processor time."
            if known and len(known) == len(took)
            else "How long the entries took is not known.",
            logs=logs_table(results),
        )
    )


def page_of(results: Sequence[Reproduced], index: str) -> str:
    """The page of a paper's entries, in the folder of its figures; `index` leads back."""
    paper, name = results[0].named.paper, results[0].named.paper_name
    used = {log for each in results for log in each.used}
    lead = [figure_link(each.named, chart) for each in results for chart in shown(each)][:1]
    parts = [
        f"# {paper.title}",
        Tally.of(results).finding,
        *lead,
        f"{paper.authors}, {paper.venue}{doi_of(paper)}. `batfill reproduce {name}` computes all of it; "
        f"[how to read this page]({index}#how-to-read-a-papers-page).",
        said(paper.open, used),
        *(section_of(each, brief=True) for each in results),
    ]
    return escaped("\n\n".join(part for part in parts if part)) + "\n"


def doi_of(paper: Paper) -> str:
    """Where the paper is published, as a link after its venue."""
    return f", [doi:{paper.doi}](https://doi.org/{paper.doi})" if paper.doi else ""


def by_paper(results: Sequence[Reproduced]) -> dict[str, list[Reproduced]]:
    """The entries of each paper."""
    found: dict[str, list[Reproduced]] = defaultdict(list)
    for each in results:
        found[each.named.paper_name].append(each)
    return found


def statements_of(result: Reproduced) -> list[tuple[str, bool]]:
    """What the paper says of an entry that was computed, and whether our figures show it."""
    outcome = result.outcome
    if outcome is None:
        return []
    return [(text, outcome.verdicts[name].holds) for name, text in result.named.entry.says.items()]


def agreements_of(result: Reproduced) -> list[float]:
    """The rank agreement of each column that the paper prints."""
    by_column = defaultdict(list)
    if result.outcome is not None:
        for cell in cells(result.named.entry, result.outcome):
            by_column[cell.column, cell.choice].append(cell)
    return [rho for found in by_column.values() if (rho := rank_agreement(found)) is not None]


class Tally(NamedTuple):
    """How many of some entries' statements hold, and how many of their tables have the published order of rows."""

    seen: int
    stated: int
    ordered: int
    ranked: int

    @classmethod
    def of(cls, results: Iterable[Reproduced]) -> Tally:
        """The tally of these entries."""
        results = list(results)
        seen = [holds for each in results for _, holds in statements_of(each)]
        ranked = [min(found) for each in results if (found := agreements_of(each))]
        return cls(sum(seen), len(seen), sum(least >= AGREES for least in ranked), len(ranked))

    @property
    def statements(self) -> str:
        """For a table."""
        return f"{self.seen} of {self.stated}" if self.stated else "-"

    @property
    def orders(self) -> str:
        """For a table."""
        return f"{self.ordered} of {self.ranked}" if self.ranked else "-"

    @property
    def finding(self) -> str:
        """In a sentence."""
        parts = [f"{self.statements} published statements hold on our logs"] if self.stated else []
        if self.ranked:
            parts.append(
                f"{self.orders} tables have the published order of rows in every column (Spearman's coefficient of at "
                f"least {AGREES})"
            )
        return f"**{', and '.join(parts)}.**" if parts else ""


def heading_of(named: Named) -> str:
    """The heading of an entry's section."""
    return f"{named.entry.source}: {named.entry.title}"


def minutes(seconds: float) -> str:
    """A duration for people."""
    return "less than a minute" if seconds < MINUTE_S else f"{seconds / MINUTE_S:,.0f} minutes"


def logs_table(results: Sequence[Reproduced]) -> str:
    """The logs that were used, by their file, machine and digest, and those that were not there."""
    used: dict[str, str] = {}
    for each in results:
        used |= dict(zip(each.used, each.logs.values(), strict=True))
    absent = {log for each in results for log in each.named.entry.logs.values()} - set(used)
    rows = [(file_of(log), size_of(log), f"`{sums}`") for log, sums in sorted(used.items())]
    rows += [(file_of(log), size_of(log), f"not at hand: {reason_of(log)}") for log in sorted(absent)]
    return markdown(("log", "processors", "sha256 of the file"), rows)


def size_of(log: str) -> str:
    """The machine that the list of known logs gives to a log, with what there is to say of it."""
    known = manifest().get(log)
    return f"{known.processors:,}{f' ({known.note})' if known.note else ''}" if known else "as its header says"


def reason_of(log: str) -> str:
    """How to get a log that is missing."""
    return f"`batfill workload fetch {log}` gets it" if log in manifest() else "the archive has no file of this name"


def section_of(result: Reproduced, *, brief: bool = False) -> str:
    """One entry as Markdown; brief, as on a paper's page, with its charts and without parameters, notes and ratios."""
    named, outcome, size = result.named, result.outcome, result.size
    entry = named.entry
    given = named.parameters[size].model_dump(by_alias=True, exclude_unset=True)
    taken = ", ".join(f"{name} {value_text(value, result.missing)}" for name, value in given.items())
    command = f"`batfill reproduce {named.name}{OPTIONS[size]}`"
    parts = [f"## {heading_of(named)}", f"{command} with {taken}." if taken and not brief else command]
    if size == "quick":
        parts.append(SIZES[size])
    absent = [entry.logs[label] for label in result.missing]
    missing = ", ".join(f"{file_of(log)} ({reason_of(log)})" for log in absent)
    if outcome is None:
        return "\n\n".join([*parts, f"Not run, for want of {missing}."])
    if missing and not brief:
        parts.append(f"Without {missing}.")
    found = list(cells(entry, outcome))
    if found:
        quantity = f"{entry.quantity[0].upper()}{entry.quantity[1:]}"
        tables = brief_tables(found, entry, result.missing) if brief else tables_of(found, entry.logs)
        parts += [f"{quantity}:", *tables] if tables else [f"{quantity}, in `{TABLE}`."]
    if by_place := in_order((cell for cell in found if cell.whose is not None), "column"):
        assert entry.published is not None
        parts.append(sorted_words(entry.published, by_place))
    if entry.says:
        rows = [
            (statement, "yes" if verdict.holds else "no", "" if brief and verdict.holds else verdict.evidence)
            for statement, verdict in ((each, outcome.verdicts[name]) for name, each in entry.says.items())
        ]
        width = 3 if any(evidence for *_, evidence in rows) else 2
        parts.append(markdown(("the paper says", "seen", "our figures")[:width], [row[:width] for row in rows]))
    if brief:
        parts += [figure_link(named, chart) for chart in shown(result)]
    else:
        parts += [*(f"Note: {note}" for note in outcome.notes), *ratio_lines(found)]
    if why := said(entry.why, result.used):
        parts.append(f"**Why.** {why}")
    return "\n\n".join(part.strip() for part in parts)


def sorted_words(published: Published, columns: Sequence[str]) -> str:
    """How these columns, which the paper has sorted by themselves, show it, from its own numbers."""
    words = [
        f"The paper's values of {' and of '.join(columns)} ascend from the first row to the last, as those of "
        f"{published.labelled[0]} do: each column seems sorted by itself."
    ]
    if published.constant is not None:
        fixed = published.value(published.constant, published.labelled[0])
        homes = {name: [row for row in published.rows if published.value(row, name) == fixed] for name in columns}
        elsewhere = {name: rows[0] for name, rows in homes.items() if rows and published.constant not in rows}
        if elsewhere:
            words.append(
                f"{published.constant}, which must have one value in every column, shows it: its {fixed:,.2f} stands "
                f"{' and '.join(f'in row {row} of {name}' for name, row in elsewhere.items())}."
            )
    return " ".join(words)


def ratios_of(found: Sequence[Cell]) -> dict[str, list[tuple[float, Cell]]]:
    """The ratios of every choice that has enough of them, each with its cell."""
    ratios = {
        choice: [(ratio, cell) for cell in found if cell.choice == choice and (ratio := cell.ratio) is not None]
        for choice in in_order(found, "choice")
    }
    return {choice: each for choice, each in ratios.items() if len(each) >= FEWEST_RANKED}


def nearest_of(found: Sequence[Cell]) -> str | None:
    """The choice with the least median distance of a ratio from 1; None if there are not two to choose from."""
    distance = {
        choice: float(np.median([abs(ratio - 1) for ratio, _ in each]))
        for choice, each in ratios_of(found).items()
        if choice  # columns without a choice are no choice
    }
    return min(distance, key=lambda choice: distance[choice]) if len(distance) > 1 else None


def ratio_lines(found: Sequence[Cell]) -> list[str]:
    """Ours over the paper's, the least, the median and the most of every choice, and the choice that comes nearest."""
    lines = []
    for choice, ratios in ratios_of(found).items():
        (low, least), (high, most) = (pick(ratios, key=lambda each: each[0]) for pick in (min, max))
        middle = float(np.median([ratio for ratio, _ in ratios]))
        lines.append(
            f"{f'{choice}: ' if choice else ''}{number(low)} ({place_of(least)}) to {number(high)} ({place_of(most)}), "
            f"median {number(middle)}"
        )
    if not lines:
        return []
    nearest = nearest_of(found)
    end = f" Nearest to the paper by the median distance of a ratio from 1 is {nearest}." if nearest else ""
    return [f"**Ours over the paper's.** {'; '.join(lines)}.{end}"]


def place_of(cell: Cell) -> str:
    """A cell's place, in words."""
    return f"{cell.column}, {cell.row if cell.whose is None else f'place {cell.row}'}"


def escaped(text: str) -> str:
    """The text with the asterisks and tildes of w* and p~ escaped; ** is markup."""
    return re.sub(r"(?<!\*)\*(?!\*)|~", r"\\\g<0>", text)


def figure_file(named: Named, chart: Chart) -> str:
    """The file of a chart beside its paper's page."""
    return f"{file_stem(f'{named.name}-{chart.name}')}.svg"


def figure_link(named: Named, chart: Chart) -> str:
    """The chart on its paper's page."""
    return f"![{named.entry.source} ({chart.name})]({figure_file(named, chart)})"


def tables_of(found: Sequence[Cell], logs: Iterable[str]) -> list[str]:
    """A table for each column that the paper prints, with all choices side by side, then all other columns.

    Tables of ours that have a column or a row for every log have one for those of `logs` that are missing, too.
    """
    printed = {cell.column for cell in found if cell.paper is not None}
    by_column = [beside([cell for cell in found if cell.column == name]) for name in in_order(found, "column", printed)]
    return [*by_column, *alone([cell for cell in found if cell.column not in printed], list(logs))]


def nearest_among(found: Sequence[Cell]) -> list[Cell]:
    """The figures of the columns that the paper prints, too, of the choice that comes nearest."""
    printed = {cell.column for cell in found if cell.paper is not None}
    compared = [cell for cell in found if cell.column in printed]
    if not (nearest := nearest_of(found)):
        return compared
    its_columns = {cell.column for cell in compared if cell.choice == nearest}
    return [cell for cell in compared if cell.choice == nearest or cell.column not in its_columns]


def brief_tables(found: Sequence[Cell], entry: Entry, missing: Sequence[str]) -> list[str]:
    """The tables of a paper's page: of the choice that comes nearest, ours and the paper's; then those of `tables`.

    None has a row or a column of a log that is missing.
    """
    printed = {cell.column for cell in found if cell.paper is not None}
    compared = [
        cell for cell in nearest_among(found) if cell.whose is None and not {cell.row, cell.column} & {*missing}
    ]
    own = [cell for cell in found if cell.column not in printed and cell.choice in entry.tables]
    by_choice = [[cell for cell in compared if cell.choice == choice] for choice in in_order(compared, "choice")]
    return [*filter(None, map(together, by_choice)), *alone(own, [log for log in entry.logs if log not in missing])]


def together(found: Sequence[Cell]) -> str:
    """One choice: our numbers with the paper's in brackets, if they are few, and the rank agreement of each column."""
    choice, columns, names = found[0].choice, in_order(found, "column"), in_order(found, "row")
    cells = {(cell.row, cell.column): cell for cell in found}
    rows = [[row, *(both(cells.get((row, name))) for name in columns)] for row in names if len(names) <= MOST_ROWS]
    agreement = [rank_agreement([cell for cell in found if cell.column == name]) for name in columns]
    if any(rho is not None for rho in agreement):
        rows.append(["rank agreement", *("-" if rho is None else f"{rho:.2f}" for rho in agreement)])
    title = f"ours (the paper's){f', {choice}' if choice else ''}"
    return markdown([title, *columns], rows) if rows else ""


def both(cell: Cell | None) -> str:
    """Our number, and in brackets the paper's, if it prints one."""
    if cell is None or cell.paper is None:
        return number(cell and cell.ours)
    return f"{number(cell.ours)} ({number(cell.paper)})"


def beside(found: Sequence[Cell]) -> str:
    """One column: the paper's numbers and ours, and their rank agreement."""
    choices = in_order(found, "choice")
    by_itself = any(cell.whose is not None for cell in found)
    relative = any(cell.paper_relative is not None or cell.ours_relative is not None for cell in found)
    by_place = {(cell.row, cell.choice): cell for cell in found}
    head = ["place" if by_itself else "", "paper"] + ["paper, relative"] * relative
    for choice in choices:
        head += [f"ours, {choice}" if choice else "ours"] + ["of"] * by_itself + ["ratio"] + ["relative"] * relative
    rows = []
    for row in in_order(found, "row"):
        here = [by_place.get((row, choice)) for choice in choices]
        first = next(cell for cell in here if cell)
        line = [row, number(first.paper)] + [number(first.paper_relative)] * relative
        for cell in here:
            line += [number(cell and cell.ours)] + [(cell and cell.whose) or "-"] * by_itself
            line += [number(cell and cell.ratio)] + [number(cell and cell.ours_relative)] * relative
        rows.append(line)
    title = f"**{found[0].column}**" + (", as a set of values" if by_itself else "")
    parts = [title, markdown(head, rows)]
    agreement = [
        f"{rho:.2f}{f' ({choice})' if choice else ''}"
        for choice in choices
        if (rho := rank_agreement([cell for cell in found if cell.choice == choice])) is not None
    ]
    if agreement:
        parts.append(f"Rank agreement: {', '.join(agreement)}.")
    return "\n\n".join(parts)


def alone(found: Sequence[Cell], logs: Sequence[str]) -> list[str]:
    """Columns that the paper does not print, in a table per choice."""
    parts = []
    for choice in in_order(found, "choice"):
        here = [cell for cell in found if cell.choice == choice]
        values = {(cell.row, cell.column): cell.ours for cell in here}
        columns, names = in_order(here, "column"), in_order(here, "row")
        columns, names = (list(logs) if set(each) <= set(logs) else each for each in (columns, names))
        rows = [[row, *(number(values.get((row, name))) for name in columns)] for row in names]
        parts.append(markdown([f"ours, {choice}" if choice else "ours", *columns], rows))
    return parts


def in_order(found: Iterable[Cell], field: str, among: Container[str] | None = None) -> list[str]:
    """The distinct values of a field, in order of appearance."""
    values = dict.fromkeys(getattr(cell, field) for cell in found)
    return [value for value in values if among is None or value in among]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with padded cells, readable as plain text too."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def as_csv(found: Iterable[Cell]) -> str:
    """One line per figure."""
    head = ("column", "row", "choice", "paper", "ours", "ratio", "paper_relative", "ours_relative", "whose")
    return csv_text([head, *(attrgetter(*head)(cell) for cell in found)])


def number(value: Value) -> str:
    """A number with three or four significant digits."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 100 else f"{value:.3g}"


def value_text(value: object, missing: Container[str] = ()) -> str:
    """A parameter's value as text, without what it says of logs that are missing."""
    if isinstance(value, list):
        return "/".join(value_text(each) for each in value)
    if isinstance(value, dict):
        there = {name: each for name, each in value.items() if name not in missing}
        return f"({', '.join(f'{name}: {value_text(each)}' for name, each in there.items())})" if there else "none"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)


# Files


def write_entry(result: Reproduced, formats: Sequence[str]) -> None:
    """Write the table, the figures and the page of an entry next to its result; existing files are kept.

    Raises:
        BatfillError: the folder is not writable, or a format is unknown.
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


def write_pages(results: Sequence[Reproduced], names: Sequence[str], path: Path) -> None:
    """Write the index of these entries, and to a folder of its name a page for each paper, and figures.

    Raises:
        BatfillError: a chart to show does not exist, or the folder is not writable.
    """
    folder = path.with_suffix("")
    make_folder(folder)
    for paper, entries in by_paper(results).items():
        for result in entries:
            for chart in shown(result):
                write_svg(chart, folder / figure_file(result.named, chart))
        write_text(folder / f"{paper}.md", page_of(entries, f"../{path.name}"))
    write_text(path, index_of(results, names, folder.name))


def shown(result: Reproduced) -> list[Chart]:
    """The charts that the entry's `show:` names, but for those of missing logs.

    Raises:
        ProtocolError: no log is missing, and there is no chart of the name.
    """
    charts = {chart.name: chart for chart in (result.outcome.charts if result.outcome else ())}
    for name in result.named.entry.show:
        if name not in charts and not result.missing:
            raise ProtocolError(
                f"{result.named.name}: show has no chart {name!r}; charts are {', '.join(charts) or 'none'}"
            )
    return [charts[name] for name in result.named.entry.show if name in charts]


def write_svg(chart: Chart, path: Path) -> None:
    """Write the chart without its data; small, since text stays text."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    figure = figure_of(chart)
    with mpl.rc_context(STYLE | {"svg.fonttype": "none"}):
        canvas = Canvas(figsize=(COLUMN_IN * 1.5, figure.height_in), layout="constrained")
        figure.draw(canvas.subplots())
        with raw_file(path) as stream:
            canvas.savefig(stream, format="svg", dpi=SCREEN_DPI, metadata={"Date": None})


def origin_of(result: Reproduced) -> str:
    """The header of a figure's data."""
    entry = result.named.entry
    logs = ", ".join(result.used)
    command = f"reproduce {result.named.name}{OPTIONS[result.size]}"
    return f"batfill {__version__} {command}, {entry.source}, logs {logs}, {ENGINE}"


# Charts, in the style of `batfill report --figures`


def figure_of(chart: Chart) -> Figure:
    """The chart as a figure with its data."""
    draw = DRAW[chart.kind]

    def whole(axes: Axes) -> None:
        draw(axes, chart)
        axes.set(xlabel=chart.x, ylabel=chart.y)
        if chart.log_x:
            axes.set_xscale("log")
        if chart.log_y:
            axes.set_yscale("log")

    return Figure(file_stem(chart.name), chart.head, list(chart.rows), whole)


KEY_WIDTH = 75  # letters of names that stand side by side
MARKS = "osvD^Px*+1"  # ten marks and six colours make thirty pairs


def series_styles(n: int) -> list[Style]:
    """The styles of n series; beyond the limit, the last are grey."""
    return styles(n, range(DISTINCT))


def lines(axes: Axes, chart: Chart) -> None:
    """A line for every column but the first, with gaps at None."""
    x, *series = columns(chart)
    for style, name, values in zip(series_styles(len(series)), chart.head[1:], series, strict=True):
        axes.plot(x, values, linestyle=style.line, color=style.light, label=name)
    draw_key(axes)


def points(axes: Axes, chart: Chart) -> None:
    """A mark for every value."""
    x, *series = columns(chart)
    for k, (style, name, values) in enumerate(zip(series_styles(len(series)), chart.head[1:], series, strict=True)):
        axes.plot(x, values, MARKS[k % len(MARKS)], color=style.light, label=name, markersize=2.5)
    draw_key(axes)


def bands(axes: Axes, chart: Chart) -> None:
    """A line between the least and the most."""
    x, *series = columns(chart)
    for k, (style, name) in enumerate(zip(series_styles(len(series) // 3), chart.head[1::3], strict=True)):
        values, least, most = series[3 * k : 3 * k + 3]
        axes.plot(x, values, linestyle=style.line, color=style.light, label=name)
        axes.fill_between(x, least, most, color=style.light, alpha=0.15, linewidth=0)
    draw_key(axes)


def draw_shares(axes: Axes, chart: Chart) -> None:
    """Stacked bars."""
    names, *parts = columns(chart)
    places = range(len(names))
    base = [0.0] * len(names)
    for style, part, values in zip(series_styles(len(parts)), chart.head[1:], parts, strict=True):
        axes.barh(places, values, left=base, color=style.light, label=part)
        base = [below + value for below, value in zip(base, values, strict=True)]
    axes.set_yticks(places, [str(name) for name in names])
    axes.invert_yaxis()
    draw_key(axes)


def draw_boxes(axes: Axes, chart: Chart) -> None:
    """Boxes of quartiles with whiskers to the 5th and 95th percentile."""
    keys = ("label", "whislo", "q1", "med", "q3", "whishi")
    axes.bxp([dict(zip(keys, row, strict=True)) for row in chart.rows], showfliers=False, widths=0.5)
    axes.tick_params(axis="x", labelrotation=60)


def maps(axes: Axes, chart: Chart) -> None:
    """Values over a plane, on a logarithmic scale; a red dot on the lowest."""
    x, y, values = columns(chart)
    least = min(range(len(values)), key=lambda i: values[i])
    norm = "log" if 0 < values[least] < max(values) else "linear"
    points = axes.scatter(x, y, c=values, s=6, marker="D", cmap="viridis_r", norm=norm, linewidths=0, rasterized=True)
    axes.plot(x[least], y[least], "o", color="red", markersize=4)
    axes.grid(False)
    axes.set_aspect("equal")
    axes.figure.colorbar(points, ax=axes, label=chart.head[2])


def draw_key(axes: Axes) -> None:
    """The names of the series, above the plot, where no lines run."""
    longest = max(map(len, axes.get_legend_handles_labels()[1]), default=1)
    axes.legend(fontsize=6, ncols=min(5, max(1, KEY_WIDTH // longest)), loc="lower center", bbox_to_anchor=(0.5, 1))


def columns(chart: Chart) -> list[list[float]]:
    """The chart's columns; None becomes nan, which is not drawn."""
    return [[float("nan") if value is None else value for value in column] for column in zip(*chart.rows, strict=True)]


DRAW: dict[str, Callable[[Axes, Chart], None]] = {
    "lines": lines,
    "points": points,
    "bands": bands,
    "shares": draw_shares,
    "boxes": draw_boxes,
    "map": maps,
}
