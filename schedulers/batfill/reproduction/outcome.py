"""What an entry of a paper came to: figures under the paper's labels, verdicts on what it says, and charts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

Value = float | None  # None where it cannot be known

PERCENTILES = (5, 25, 50, 75, 95)

Kind = Literal["lines", "points", "bands", "boxes", "shares", "map"]


@dataclass(frozen=True, slots=True)
class Table:
    """Our figures: `values[i][k]` is that of `rows[i]` and `columns[k]`, under the labels of the published table."""

    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    choice: str = ""  # what was taken where the paper leaves it open; tables of several choices stand side by side

    def value(self, row: str, column: str) -> Value:
        """Our figure; None where there is none."""
        if row not in self.rows or column not in self.columns:
            return None
        return self.values[self.rows.index(row)][self.columns.index(column)]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether something that the paper says was seen, and the figures it was told by."""

    holds: bool
    evidence: str

    @classmethod
    def of(cls, values: Mapping[str, float], holds: Callable[[float], bool], words: str) -> Verdict:
        """Whether it holds for the value of every log; the words have a place for a value."""
        evidence = ", ".join(f"{label}: {words.format(value)}" for label, value in values.items())
        return cls(all(holds(value) for value in values.values()), evidence)


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure as the table that it is drawn from; see `charts` for what each kind makes of its columns."""

    name: str  # of the file, without a suffix
    kind: Kind
    head: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    x: str = ""  # labels of the axes
    y: str = ""
    log_x: bool = False
    log_y: bool = False


def box_chart(
    name: str, samples: Mapping[str, NDArray[Any] | Sequence[float]], *, y: str, log_y: bool = False
) -> Chart:
    """A box for each of these samples, by what they are called."""
    rows = tuple((label, *np.percentile(values, PERCENTILES).tolist()) for label, values in samples.items())
    return Chart(name, "boxes", ("of", *(f"p{share}" for share in PERCENTILES)), rows, y=y, log_y=log_y)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything an entry came to. Equal inputs give equal outcomes: no dates and no timings."""

    tables: tuple[Table, ...] = ()
    verdicts: dict[str, Verdict] = field(default_factory=dict)  # by the keys that an entry's `says:` may have
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader must know of this very run: rows left out, values that were derived

    def as_dict(self) -> dict[str, Any]:
        """For result files; `of_dict` reads it back."""
        return asdict(self)

    @classmethod
    def of_dict(cls, stored: dict[str, Any]) -> Outcome:
        """The outcome that `as_dict` made this of, after a trip through JSON."""

        def rows_of(given: Any) -> tuple[tuple[Any, ...], ...]:
            return tuple(tuple(row) for row in given)

        return cls(
            tables=tuple(
                Table(tuple(t["columns"]), tuple(t["rows"]), rows_of(t["values"]), t["choice"])
                for t in stored["tables"]
            ),
            verdicts={name: Verdict(**v) for name, v in stored["verdicts"].items()},
            charts=tuple(
                Chart(**{**c, "head": tuple(c["head"]), "rows": rows_of(c["rows"])}) for c in stored["charts"]
            ),
            notes=tuple(stored["notes"]),
        )
