"""Our figures beside a paper's: ratios, and whether both put things in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import rankdata

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from batfill.reproduction.outcome import Outcome, Table, Value
    from batfill.reproduction.protocol import Entry

FEWEST_RANKED = 3  # fewer values are in the same order by chance


class Cell(NamedTuple):
    """One figure of one of our tables, and the paper's; the last two are over those of the entry's reference row."""

    row: str
    column: str
    choice: str
    paper: Value
    ours: Value
    paper_relative: Value
    ours_relative: Value

    @property
    def ratio(self) -> Value:
        """Ours over the paper's."""
        return over(self.ours, self.paper)


def cells(entry: Entry, outcome: Outcome) -> Iterator[Cell]:
    """Every figure of ours, and every published one that we have none for, table by table."""
    published, base = entry.published, entry.relative_to
    for table in outcome.tables:
        for column in columns_of(entry, table):
            for row in rows_of(entry, table):
                paper = published.value(row, column) if published else None
                ours = table.value(row, column)
                if paper is None and ours is None:
                    continue
                paper_base = published.value(base, column) if published and base else None
                ours_base = table.value(base, column) if base else None
                yield Cell(row, column, table.choice, paper, ours, over(paper, paper_base), over(ours, ours_base))


def columns_of(entry: Entry, table: Table) -> list[str]:
    """The paper's columns that the table has, then the table's own."""
    theirs = entry.published.columns if entry.published else []
    return [*(name for name in theirs if name in table.columns), *(n for n in table.columns if n not in theirs)]


def rows_of(entry: Entry, table: Table) -> list[str]:
    """The paper's rows, then the table's own."""
    theirs = list(entry.published.rows) if entry.published else []
    return [*theirs, *(name for name in table.rows if name not in theirs)]


def rank_agreement(found: Sequence[Cell]) -> Value:
    """Spearman's coefficient of the cells that both have; None where they are few, or all are alike."""
    both = [(cell.paper, cell.ours) for cell in found if cell.paper is not None and cell.ours is not None]
    if len(both) < FEWEST_RANKED:
        return None
    ranks = [rankdata(values) for values in zip(*both, strict=True)]
    if any(np.ptp(each) == 0 for each in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def over(value: Value, base: Value) -> Value:
    """The one divided by the other, where that means something."""
    return value / base if value is not None and base else None
