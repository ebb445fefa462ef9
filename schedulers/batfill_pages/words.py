"""Numbers, durations and dates as text, and pieces of HTML."""

from __future__ import annotations

import re
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import quote

from batfill.base import version
from batfill.base.words import duration, instant, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from batfill.model.jobs import Clock
    from batfill_pages.stats import Paired


def date_text(at_s: float, clock: Clock | None) -> str:
    """A second of the log as text: its date in the log's zone, or day and time of day if the log has no clock."""
    if clock is not None:
        return clock.date(at_s).strftime("%-d %b %Y %H:%M:%S")
    return instant(at_s)


def zone_text(clock: Clock) -> str:
    """The zone of a clock's dates: its name, or its offset from UTC."""
    return "UTC; the log does not say its time zone" if clock.zone_name == "UTC" else clock.zone_name


def interval_text(found: Paired, write: Callable[[float], str]) -> str:
    """The ends of a confidence interval as text; "none" if there are too few periods for one."""
    return f"{write(found.low)} to {write(found.high)}" if found.bounded else "none"


def warning_paragraphs(warnings: Sequence[str]) -> str:
    """Reasons to doubt the figures (`Jobs.warnings`), a paragraph each; "" if there are none."""
    return "".join(f'<p class="warning"><strong>Warning:</strong> {escape(warning)}.</p>' for warning in warnings)


def asset(name: str, place: str = "batfill_pages") -> str:
    """The text of a file in a package's folder of assets."""
    return files(place).joinpath("assets", name).read_text("utf-8")


def no_break(words: str) -> str:
    """The words with no-break spaces, so that no number is parted from its unit, as HTML."""
    return escape(words).replace(" ", "\u00a0")


def units_kept(html: str) -> str:
    """The HTML with each number on one line with its unit."""
    return re.sub(r"(?<=\d) (?=(?:d|h|min|s|%)(?!\w))", "\u00a0", html)


def duration_html(seconds: float) -> str:
    """A duration on one line, with a true minus."""
    return no_break(duration(seconds).replace("-", "−"))


def count(number: float) -> str:
    """A whole number with its thousands separated."""
    return f"{number:,.0f}".replace("-", "−")


def slowdown(value: float) -> str:
    """A slowdown, or a ratio: whole from 10, else one decimal, or two if that were 0; with a true minus."""
    size = abs(value) * (1 + 1e-12)  # halves away from 0, as in the page's script
    if size < 0.005:
        return "0"
    return f"{'−' if value < 0 else ''}{size:,.{0 if size >= 9.95 else 1 if size >= 0.05 else 2}f}"


def signed(value: float) -> str:
    """A difference of slowdowns with its sign."""
    words = slowdown(value)
    return words if words.startswith("−") or words == "0" else f"+{words}"


def growth(longer_s: float, base_s: float) -> str:
    """A difference of waits, and what share of the base it is: "+10 min (+0.2 %)"; "as long" without one."""
    if longer_s == 0:
        return "as long"
    sign = "−" if longer_s < 0 else "+"
    share = f" ({sign}{percent(abs(longer_s) / base_s)})" if base_s else ""
    return f"{sign}{no_break(duration(abs(longer_s)))}{share}".replace(" %", "\u00a0%")


def log_name(name: str) -> str:
    """A log's name on every page: that of its file without year, version and suffix.

    >>> log_name("SDSC-DS-2004-2.1-cln.swf.gz"), log_name("ours.json")
    ('SDSC-DS', 'ours')
    """
    return re.sub(r"(-\d{4}-\d[\d.]*(-cln)?)?\.(swf|json)(\.(gz|xz|bz2))?$", "", name)


def submission_dates(submit_s: NDArray[np.float64], clock: Clock | None) -> str:
    """A log's dates on every page: the days of its first and last submission, or the time between them."""
    first_s, last_s = float(submit_s.min()), float(submit_s.max())
    if clock is None:
        return f"submitted within {duration(last_s - first_s)}"
    first, last = (clock.date(at_s).strftime("%-d %b %Y") for at_s in (first_s, last_s))
    return f"submitted {first} to {last}" if first != last else f"submitted on {first}"


def terms(tau: str, *, tries: bool) -> str:
    """What the words of the answer mean, and where the documentation explains them."""
    least = f", run times counted as at least {no_break(tau)}" if tau else ""
    words = [f"<b>Slowdown</b>: the mean over the jobs of (wait + run time) / run time{least}; 1 is no wait."]
    if tries:
        words.append(
            "<b>Try</b>: one start of a job. A <b>kill</b> ends a try: what it computed is lost, and the job is queued "
            "again and starts from the beginning."
        )
    return f'<p class="note terms">{" ".join(words)} More: {guide("how-to/reports", "how to read this page")}.</p>'


def described(rows: Iterable[tuple[str, str]]) -> str:
    """Names, each with its words, as a list."""
    return f'<dl class="made">{"".join(f"<dt>{escape(name)}</dt><dd>{escape(said)}</dd>" for name, said in rows)}</dl>'


def folded(summary: str, content: str) -> str:
    """A part of the page that opens at a click."""
    return f"<details><summary>{summary}</summary>{content}</details>"


def code(text: str) -> str:
    """Commands or a file, as they are."""
    return f"<pre tabindex=0>{escape(text)}</pre>"


def guide(page: str, words: str, anchor: str = "") -> str:
    """A link to a page of the documentation, such as "how-to/reports"; its name if the site's address is unknown."""
    if version.DOCUMENTATION:
        return f'<a href="{escape(version.DOCUMENTATION)}/{page}.html{anchor}">{escape(words)}</a>'
    return f"{escape(words)} (<code>docs/{page}.md</code>)"


def job_link(job: str, number: int, words: str = "") -> str:
    """A link to why a job waited in the run of this number; its name says "job" unless there are other words."""
    place = f"&amp;run={number}" if number else ""
    return f'<a href="#job={quote(job)}{place}">{words or f"job&nbsp;{escape(job)}"}</a>'


def policy_html(long: str, short: str) -> str:
    """A policy's name, with its symbol beneath."""
    return f'{escape(long)}<span class="sub">{escape(short)}</span>' if short != long else escape(long)


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str = "",
    *,
    left: Collection[int] = (),
    marks: Sequence[str] = (),
) -> str:
    """An HTML table; where it is too wide it scrolls beside its first column, which holds row headers.

    Args:
        head: the columns' names, as the cells HTML already.
        rows: of cells.
        caption: above the table.
        left: columns of words, which are aligned to the left; the first always is.
        marks: attributes of each row.
    """
    sides = [' class="left"' if k in left else "" for k in range(len(head))]
    lines = ['<div class="scroll"><table>']
    if caption:
        lines.append(f"<caption>{escape(caption)}</caption>")
    names = (f"<th scope=col{side}>{name}</th>" for side, name in zip(sides, head, strict=True))
    lines.append(f"<thead><tr>{''.join(names)}</tr></thead><tbody>")
    for k, (first, *others) in enumerate(rows):
        cells = (f"<td{side}>{cell}</td>" for side, cell in zip(sides[1:], others, strict=True))
        lines.append(f"<tr{f' {marks[k]}' if marks else ''}><th scope=row>{first}</th>{''.join(cells)}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])
