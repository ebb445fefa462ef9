"""Result files: what was found, and all that is needed to find it again. No dates and no timings: equal bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from batfill import __version__
from batfill.experiment import ENGINE
from batfill.files import json_text
from batfill.metrics import in_columns

if TYPE_CHECKING:
    from collections.abc import Mapping


def document(
    command: str, *, seed: int | None, given: Mapping[str, Any], source: Mapping[str, Any], results: Mapping[str, Any]
) -> dict[str, Any]:
    """Results first, provenance last; `given` are the command's options, `source` says what was read.

    The seed is None where nothing is random.
    """
    return {
        **results,
        "made_by": f"batfill {__version__} {command}",
        "engine": ENGINE,
        "seed": seed,
        "options": dict(given),
        "input": dict(source),
    }


def as_json(content: Mapping[str, Any]) -> str:
    """The text of a result file: keys in their order, null for what is not known."""
    return json_text(plain(content))


def plain(value: Any) -> Any:
    """The value in JSON's own types."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def as_table(rows: list[dict[str, Any]]) -> str:
    """Rows with the same keys as columns to read: words to the left, figures to the right."""
    head = list(rows[0])
    words = [k for k, name in enumerate(head) if isinstance(rows[0][name], str)]
    return in_columns([head, *([cell(row[name]) for name in head] for row in rows)], words)


def cell(value: Any) -> str:
    """One value as a reader wants it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1 else f"{value:,.2f}"
    return str(value)
