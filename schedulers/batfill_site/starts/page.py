"""The page of `batfill when`: each waiting job with the interval of its start as a bar, and why it waits."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from batfill.base.words import things
from batfill_pages.words import duration_html, table
from batfill_pages.write import html_page, made_from
from batfill_site.starts.when import SHARE
from batfill_site.starts.why_not import Instants

if TYPE_CHECKING:
    from batfill_site.starts.when import Estimates


def as_page(found: Estimates, source: str, command: str) -> str:
    """The HTML page; `source` is where the state comes from."""
    instants = Instants(found.now_s, found.clock)
    rows = list(found)
    last_s = max((row["to_s"] - found.now_s for row in rows), default=0.0) or 1.0

    def bar(row: dict[str, Any]) -> str:
        low, middle, high = (100 * (row[name] - found.now_s) / last_s for name in ("from_s", "start_s", "to_s"))
        return f'<span class="span"><i style="left:{low:.1f}%;width:{high - low:.1f}%"></i>' + (
            f'<b style="left:{middle:.1f}%"></b></span>'
        )

    cells = [
        (
            escape(row["job_id"]),
            f"{row['procs']:,}",
            escape(instants.text(row["start_s"])),
            bar(row),
            escape(f"{instants.text(row['from_s'])} to {instants.text(row['to_s'])}"),
            escape(row["why"]),
        )
        for row in rows
    ]
    drawn = f"from now to {duration_html(last_s)} later"
    head = ("job", "processors", "expected", drawn, f"{SHARE:.0%} interval", "why not now")
    left_out = f"<p>{escape(found.without)}.</p>" if found.left_out else ""
    section = (
        f'<section id="queue"><p class="answer">{things(len(rows), "job")} waiting on '
        f"{things(found.size, 'processor')}.</p>{left_out}{table(head, cells, left=(len(head) - 1,)) if rows else ''}"
        f"<p class=note>A bar is the interval of {SHARE:.0%} of the starts, its mark the expected one. "
        f"{escape(found.how)}</p></section>"
    )
    title = f"{source} at {instants.full(found.now_s)}"
    return html_page(title, [section, made_from("", command, [])])
