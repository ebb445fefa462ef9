"""Outcomes as Markdown: the paper's numbers beside ours, what agrees, what does not, and why as far as it is known."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from batfill.report.figures import plain
from batfill.reproduction.compare import Cell, cells, rank_agreement

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from batfill.reproduction.outcome import Value
    from batfill.reproduction.protocol import Named
    from batfill.reproduction.run import Reproduced

HEAD = """\
# The papers' numbers beside ours

Made by `batfill reproduce {names} --page FILE` from the protocols in `expe/papers`; every section says the command that
makes it alone. A ratio is ours over the paper's; what is relative is over the value of the same column in the row that
is 1. Rank agreement is Spearman's coefficient: 1 where both put the rows of a column in the same order. Numbers of the
papers are typed from their tables; a dash stands where the paper prints none, or where the log is not at hand here."""


def page_of(results: Sequence[Reproduced], names: Sequence[str], figures: str) -> str:
    """The page of these entries, which were asked for by these names; its figures are in a folder beside it."""
    parts = [HEAD.format(names=" ".join(names)), overview(results)]
    paper_name = ""
    for result in results:
        paper = result.named.paper
        if result.named.paper_name != paper_name:
            paper_name = result.named.paper_name
            parts.append(f"## {paper.title}\n\n{paper.authors}, {paper.venue}. `batfill reproduce {paper_name}`")
            parts.append(paper.open)
        parts.append(section_of(result, figures))
    return escaped("\n\n".join(parts)) + "\n"


def overview(results: Sequence[Reproduced]) -> str:
    """A line per entry: how far orders agree, in the columns that the paper prints, and what was seen."""
    rows = []
    for result in results:
        entry, outcome = result.named.entry, result.outcome
        line = [result.named.name, entry.source]
        if outcome is None:
            rows.append([*line, "-", "not run"])
            continue
        by_column = defaultdict(list)
        for cell in cells(entry, outcome):
            by_column[cell.column, cell.choice].append(cell)
        agreements = [rho for found in by_column.values() if (rho := rank_agreement(found)) is not None]
        agreement = f"{min(agreements):.2f} to {max(agreements):.2f}" if agreements else "-"
        seen = sum(outcome.verdicts[name].holds for name in entry.says)
        rows.append([*line, agreement, f"{seen} of {len(entry.says)}" if entry.says else "-"])
    return markdown(("entry", "in the paper", "rank agreement", "statements seen"), rows)


def section_of(result: Reproduced, figures: str = "") -> str:
    """One entry as Markdown."""
    named, outcome = result.named, result.outcome
    entry = named.entry
    parameters = named.quick if result.quick else named.parameters
    taken = ", ".join(
        f"{name} {in_words(value)}" for name, value in parameters.model_dump(by_alias=True, exclude_unset=True).items()
    )
    parts = [
        f"### {entry.source}: {entry.title}",
        f"`batfill reproduce {named.name}{' --quick' if result.quick else ''}`" + (f" with {taken}." if taken else ""),
    ]
    if result.quick:
        parts.append("This is the small version: fewer weeks, samples or points than the paper's.")
    if outcome is None:
        return "\n\n".join([*parts, f"Not run: {', '.join(result.missing)} is not at hand."])
    if result.missing:
        parts.append(f"Without {', '.join(result.missing)}, not at hand.")
    found = list(cells(entry, outcome))
    if found:
        parts.append(f"{entry.quantity[0].upper()}{entry.quantity[1:]}:")
        parts += tables_of(found)
    if entry.says:
        rows = [
            (statement, "yes" if outcome.verdicts[name].holds else "no", outcome.verdicts[name].evidence)
            for name, statement in entry.says.items()
        ]
        parts.append(markdown(("the paper says", "seen", "our figures"), rows))
    parts += [f"![{name}]({figures}/{figure_file(named, name)})" for name in entry.show if figures]
    parts += [f"Note: {note}" for note in outcome.notes]
    parts += [f"**Agrees.** {entry.agrees}", f"**Differs.** {entry.differs}", f"**Why.** {entry.because}"]
    return "\n\n".join(part.strip() for part in parts)


def escaped(text: str) -> str:
    """The text with the stars and tildes of w* and p~ kept from being markup; ** is markup."""
    return re.sub(r"(?<!\*)\*(?!\*)|~", r"\\\g<0>", text)


def figure_file(named: Named, chart: str) -> str:
    """The file of a chart in the folder of the page's figures."""
    return f"{plain(f'{named.name}-{chart}')}.svg"


def tables_of(found: Sequence[Cell]) -> list[str]:
    """Columns that the paper prints, each in a table in which all choices stand side by side, then all others."""
    printed = {cell.column for cell in found if cell.paper is not None}
    by_column = [beside([cell for cell in found if cell.column == name]) for name in in_order(found, "column", printed)]
    return [*by_column, *alone([cell for cell in found if cell.column not in printed])]


def beside(found: Sequence[Cell]) -> str:
    """One column: the paper's numbers and ours, and how far their orders agree."""
    choices = in_order(found, "choice")
    relative = any(cell.paper_relative is not None or cell.ours_relative is not None for cell in found)
    by_place = {(cell.row, cell.choice): cell for cell in found}
    head = ["", "paper"] + ["paper, relative"] * relative
    for choice in choices:
        head += [f"ours, {choice}" if choice else "ours", "ratio"] + ["relative"] * relative
    rows = []
    for row in in_order(found, "row"):
        here = [by_place.get((row, choice)) for choice in choices]
        first = next(cell for cell in here if cell)
        line = [row, number(first.paper)] + [number(first.paper_relative)] * relative
        for cell in here:
            line += [number(cell and cell.ours), number(cell and cell.ratio)]
            line += [number(cell and cell.ours_relative)] * relative
        rows.append(line)
    parts = [f"**{found[0].column}**", markdown(head, rows)]
    agreement = [
        f"{rho:.2f}{f' ({choice})' if choice else ''}"
        for choice in choices
        if (rho := rank_agreement([cell for cell in found if cell.choice == choice])) is not None
    ]
    if agreement:
        parts.append(f"Rank agreement: {', '.join(agreement)}.")
    return "\n\n".join(parts)


def alone(found: Sequence[Cell]) -> list[str]:
    """Columns that the paper does not print, in a table per choice."""
    parts = []
    for choice in in_order(found, "choice"):
        here = [cell for cell in found if cell.choice == choice]
        values = {(cell.row, cell.column): cell.ours for cell in here}
        columns = in_order(here, "column")
        rows = [[row, *(number(values.get((row, name))) for name in columns)] for row in in_order(here, "row")]
        parts.append(markdown([f"ours, {choice}" if choice else "ours", *columns], rows))
    return parts


def in_order(found: Iterable[Cell], field: str, among: Container[str] | None = None) -> list[str]:
    """The different values of a field, in the order in which they come."""
    values = dict.fromkeys(getattr(cell, field) for cell in found)
    return [value for value in values if among is None or value in among]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are padded, so that it reads well as plain text too."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def as_csv(found: Iterable[Cell]) -> str:
    """One line per figure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("column", "row", "choice", "paper", "ours", "ratio", "paper_relative", "ours_relative"))
    writer.writerows(
        (c.column, c.row, c.choice, c.paper, c.ours, c.ratio, c.paper_relative, c.ours_relative) for c in found
    )
    return text.getvalue()


def number(value: Value) -> str:
    """Three or four digits that count."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 100 else f"{value:.3g}"


def in_words(value: object) -> str:
    """A parameter's value in words."""
    if isinstance(value, list):
        return "/".join(in_words(each) for each in value)
    if isinstance(value, dict):
        return f"({', '.join(f'{name}: {in_words(each)}' for name, each in value.items())})"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)
