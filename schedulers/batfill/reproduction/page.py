"""Outcomes as Markdown: the paper's numbers beside ours, what agrees, what does not, and why as far as it is known."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from batfill.reproduction.compare import Cell, cells, rank_agreement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from batfill.reproduction.outcome import Value
    from batfill.reproduction.run import Reproduced

HEAD = """\
# The papers' numbers beside ours

Made by `batfill reproduce all --page docs/reproduction.md` from the protocols in `expe/papers`; every section says the
command that makes it alone. A ratio is ours over the paper's; what is relative is over the value of the same column in
the row that is 1. Rank agreement is Spearman's coefficient: 1 where both put the rows of a column in the same order.
Numbers of the papers are typed from their tables; a dash stands where the paper prints none, or where the log is not at
hand here."""


def page_of(results: Sequence[Reproduced], figures: str = "") -> str:
    """The page of several entries; `figures` is the folder of the figures to show, seen from the page."""
    parts = [HEAD]
    paper_name = ""
    for result in results:
        paper = result.named.paper
        if result.named.paper_name != paper_name:
            paper_name = result.named.paper_name
            parts.append(f"## {paper.title}\n\n{paper.authors}, {paper.venue}. `batfill reproduce {paper_name}`")
            parts.append(paper.open)
        parts.append(section_of(result, figures))
    return "\n\n".join(parts) + "\n"


def section_of(result: Reproduced, figures: str = "") -> str:
    """One entry as Markdown."""
    named, outcome = result.named, result.outcome
    entry = named.entry
    parameters = named.quick if result.quick else named.parameters
    taken = ", ".join(f"{name} {said(value)}" for name, value in parameters.model_dump(by_alias=True).items())
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
    if outcome.verdicts:
        rows = [
            (entry.says[name], "yes" if verdict.holds else "no", verdict.evidence)
            for name, verdict in outcome.verdicts.items()
        ]
        parts.append(markdown(("the paper says", "seen", "our figures"), rows))
    parts += [f"![{name}]({figures}/{named.name.replace('/', '-')}-{name}.svg)" for name in entry.show if figures]
    parts += [f"Note: {note}" for note in outcome.notes]
    parts += [f"**Agrees.** {entry.agrees}", f"**Differs.** {entry.differs}", f"**Why.** {entry.because}"]
    return "\n\n".join(part.strip() for part in parts)


def tables_of(found: Sequence[Cell]) -> list[str]:
    """A table per column, in which all choices stand side by side."""
    choices = list(dict.fromkeys(cell.choice for cell in found))
    relative = any(cell.paper_relative is not None or cell.ours_relative is not None for cell in found)
    parts = []
    for column in dict.fromkeys(cell.column for cell in found):
        here = [cell for cell in found if cell.column == column]
        by_place = {(cell.row, cell.choice): cell for cell in here}
        head = ["", "paper"] + ["paper, relative"] * relative
        for choice in choices:
            name = f"ours, {choice}" if choice else "ours"
            head += [name, "ratio"] + ["relative"] * relative
        rows = []
        for row in dict.fromkeys(cell.row for cell in here):
            of_row = [by_place[row, choice] for choice in choices if (row, choice) in by_place]
            line = [row, number(of_row[0].paper)] + [number(of_row[0].paper_relative)] * relative
            for choice in choices:
                cell = by_place.get((row, choice))
                line += [number(cell and cell.ours), number(cell and cell.ratio)]
                line += [number(cell and cell.ours_relative)] * relative
            rows.append(line)
        parts.append(f"**{column}**\n\n{markdown(head, rows)}")
        agreement = [
            f"{rho:.2f}{f' ({choice})' if choice else ''}"
            for choice in choices
            if (rho := rank_agreement([cell for cell in here if cell.choice == choice])) is not None
        ]
        if agreement:
            parts.append(f"Rank agreement: {', '.join(agreement)}.")
    return parts


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


def said(value: object) -> str:
    """A parameter's value in words."""
    if isinstance(value, list):
        return "/".join(said(each) for each in value)
    if isinstance(value, dict):
        return f"({', '.join(f'{name}: {said(each)}' for name, each in value.items())})"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)
