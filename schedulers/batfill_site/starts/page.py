"""The page of `batfill when`: each waiting job with the interval of its start as a bar, and why it waits."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from batfill_pages.words import asset, duration_html, table
from batfill_pages.write import html_page, made_from
from batfill_site.starts.why_not import Instants

if TYPE_CHECKING:
    from batfill_site.starts.forecast import Estimates


SEARCH = (
    '<form class="tools search" role="search" autocomplete="off"><label>Job, date or reason contains '
    '<input name="words" type="search"></label><output aria-live="polite"></output></form>'
)


def as_page(found: Estimates, source: str, command: str) -> str:
    """The HTML page; `source` is where the state comes from."""
    instants = Instants(found.now_s, found.state.clock)
    rows = list(found)
    last_s = max((row["to_s"] - found.now_s for row in rows if not math.isnan(row["to_s"])), default=0.0) or 1.0

    def bar(row: dict[str, Any]) -> str:
        if math.isnan(row["to_s"]):
            return ""
        low, middle, high = (100 * (row[name] - found.now_s) / last_s for name in ("from_s", "start_s", "to_s"))
        return f'<span class="span"><i style="left:{low:.1f}%;width:{high - low:.1f}%"></i>' + (
            f'<b style="left:{middle:.1f}%"></b></span>'
        )

    cells = [
        (
            escape(row["job_id"]),
            escape(instants.text(row["start_s"])),
            escape(instants.between(row["from_s"], row["to_s"])),
            f'<span class="line" tabindex=0>{escape(row["why"])}</span>',
            f"{row['procs']:,}",
            bar(row),
        )
        for row in rows
    ]
    drawn = f"from now to {duration_html(last_s)} later"
    head = ("job", "expected", found.interval, "why not now", "processors", drawn)
    left_out = f"<p>{escape(found.without)}.</p>" if found.left_out else ""
    section = (
        f'<section id="queue" class="queue"><p class="answer">{escape(found.head)}</p>{left_out}'
        f"{f'{SEARCH}{table(head, cells, left=(3,))}' if rows else ''}"
        f"<p class=note>A bar is the interval, its mark the expected start. {escape(found.how)}</p></section>"
    )
    return html_page(
        f"{source} at {instants.full(found.now_s)}",
        [section, made_from("", command, [])],
        scripts=[asset("when.js", __package__)],
        styles=[asset("when.css", __package__)],
    )
