"""The page of `batfill when`: the queue with its intervals as bars, and why each job waits."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from batfill.replays.when import SHARE, WITHIN_S
from batfill.replays.why_not import Instants
from batfill.reports.charts import rows_chart
from batfill.reports.words import table
from batfill.reports.write import html_page

if TYPE_CHECKING:
    from batfill.replays.when import Estimates
    from batfill.reports.svg import Plot

MOST_BARS = 60
INK = "var(--soft)"


def as_page(found: Estimates, source: str, command: str) -> str:
    """The HTML page; `source` is where the state comes from."""
    instants = Instants(found.now_s, found.clock)
    rows = list(found)
    title = f"{source} at {instants.full(found.now_s)}"
    shown = rows[:MOST_BARS]
    bars = [[(row[name] - found.now_s) / 3600 for name in ("from_s", "start_s", "to_s")] for row in shown]

    def mark(plot: Plot, k: int, y: float) -> None:
        low, middle, high = map(plot.x, bars[k])
        plot.line(low, y, high, y, INK, 7)
        plot.dot(middle, y, INK)

    chart = (
        rows_chart(
            f"{title}: when each waiting job is expected to start",
            [row["job_id"] for row in shown],
            (0.0, max(high for _, _, high in bars) * 1.05 or 1.0),
            f"hours from now: the expected start, and the interval of {SHARE:.0%} of the starts",
            mark,
        )
        if rows
        else "<p>No job waits.</p>"
    )
    cells = [
        (
            escape(row["job_id"]),
            f"{row['procs']:,}",
            escape(instants.text(row["start_s"])) + (" (later than promised)" if row["late"] else ""),
            escape(f"{instants.text(row['from_s'])} to {instants.text(row['to_s'])}"),
            *(f"{row[name]:.0%}" for name in WITHIN_S),
            escape(row["why"]),
        )
        for row in rows
    ]
    within = [name.removeprefix("within_").replace("10min", "10 min") for name in WITHIN_S]
    head = ("job", "processors", "expected", f"{SHARE:.0%} interval", *within, "why not now")
    more = f"<p class=note>The picture shows the first {MOST_BARS} of {len(rows):,} jobs.</p>" * (len(rows) > MOST_BARS)
    section = (
        f'<section id="queue"><h2>{len(rows):,} waiting jobs on {found.size:,} processors</h2>{chart}{more}'
        f"{table(head, cells) if rows else ''}<p class=note>{escape(found.how)}</p></section>"
    )
    made = f"<details><summary>Command</summary><pre>{escape(command)}</pre></details>"
    return html_page(title, [section, made], log=escape(source))
