"""Numbers and durations in words, and pieces of HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def duration(seconds: float) -> str:
    """Seconds in the two largest units that fit."""
    minus, s = "-" if seconds < 0 else "", round(abs(seconds))
    days, hours, minutes = s // 86400, s // 3600 % 24, s // 60 % 60
    if days:
        return f"{minus}{days:,} d {hours} h"
    if hours:
        return f"{minus}{hours} h {minutes} min"
    return f"{minus}{minutes} min {s % 60} s" if minutes else f"{minus}{s} s"


def warning_paragraphs(warnings: Sequence[str]) -> str:
    """What makes the figures doubtful (`Workload.warnings`), a paragraph each; "" if nothing does."""
    return "".join(f'<p class="warning"><strong>Warning:</strong> {escape(warning)}.</p>' for warning in warnings)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """An HTML table whose first column heads its rows; cells are HTML already."""
    lines = ['<div class="scroll"><table>']
    if caption:
        lines.append(f"<caption>{escape(caption)}</caption>")
    lines.append(f"<thead><tr>{''.join(f'<th scope=col>{name}</th>' for name in head)}</tr></thead><tbody>")
    for first, *others in rows:
        lines.append(f"<tr><th scope=row>{first}</th>{''.join(f'<td>{cell}</td>' for cell in others)}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])
