"""Result files: findings with everything needed to repeat them. No dates, no timings: equal runs give equal bytes."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill import __version__
from batfill.experiment import ENGINE
from batfill.files import json_text, write_text
from batfill.jobs import data_frame
from batfill.metrics import in_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd


def document(
    command: str, *, seed: int | None, given: Mapping[str, Any], source: Mapping[str, Any], results: Mapping[str, Any]
) -> dict[str, Any]:
    """Results first, provenance last; `given` are the command's options, `source` describes the input.

    The seed is None if nothing is random.
    """
    return {
        **results,
        "made_by": f"batfill {__version__} {command}",
        "engine": ENGINE,
        "seed": seed,
        "options": dict(given),
        "input": dict(source),
    }


class Found(dict[str, Any]):
    """The content of a result file: a dict displayed as the table that the command prints.

    Attributes:
        rows: the table, a dict per row with equal keys.
        remark: a line below it.
    """

    def __init__(self, content: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], remark: str = "") -> None:
        super().__init__(content)
        self.rows, self.remark = rows, remark

    def as_text(self) -> str:
        """The rows as a table, and the remark."""
        return as_table(self.rows) + (f"\n\n{self.remark}" if self.remark else "")

    __repr__ = as_text

    def _repr_html_(self) -> str:
        """The rows as a table, for notebooks."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.rows[0])
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell(value))}</td>' for value in row.values())}</tr>" for row in self.rows
        )
        below = f"<p>{escape(self.remark)}</p>" if self.remark else ""
        return f"<table><tr>{head}</tr>{body}</table>{below}"

    def as_json(self) -> str:
        """The text of the result file, without the final newline."""
        return as_json(self)

    def save(self, path: str | Path) -> None:
        """Write the result file, as the command's `--out` does."""
        write_text(Path(path), self.as_json() + "\n")

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a frame; its `attrs` hold the options and the input, if known. Needs pandas."""
        rows = [{name or "verdict": value for name, value in row.items()} for row in self.rows]
        return data_frame(rows, **{name: self[name] for name in ("options", "input") if name in self})


def as_json(content: Mapping[str, Any]) -> str:
    """The text of a result file: keys in order, null for unknown values."""
    return json_text(plain(content))


def plain(value: Any) -> Any:
    """The value in JSON's types."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def as_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A text table of rows with equal keys: words left-aligned, figures right-aligned."""
    head = list(rows[0])
    words = [k for k, name in enumerate(head) if isinstance(rows[0][name], str)]
    return in_columns([head, *([cell(row[name]) for name in head] for row in rows)], words)


def cell(value: Any) -> str:
    """One value, formatted."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1 else f"{value:,.2f}"
    return str(value)
