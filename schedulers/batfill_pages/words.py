"""Numbers, durations and dates as text, and pieces of HTML."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup

from batfill.base import version
from batfill.base.words import duration, instant, percent, things

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np
    from jinja2 import Environment
    from numpy.typing import NDArray

    from batfill.model.jobs import Clock
    from batfill_pages.stats import Paired


def date_text(at_s: float, clock: Clock | None) -> str:
    return instant(at_s) if clock is None else clock.date(at_s).strftime("%-d %b %Y %H:%M:%S")


def zone_text(clock: Clock) -> str:
    return "UTC; the log does not say its time zone" if clock.zone_name == "UTC" else clock.zone_name


def interval_text(found: Paired, write: Callable[[float], str]) -> str:
    """The ends of a confidence interval as text; "none" if there are too few periods for one."""
    return f"{write(found.low)} to {write(found.high)}" if found.bounded else "none"


def asset(name: str, place: str = "batfill_pages") -> str:
    return files(place).joinpath("assets", name).read_text("utf-8")


def no_break(words: str) -> str:
    return words.replace(" ", "\u00a0")


def units_kept(html: str) -> str:
    """The text or HTML with each number on one line with its unit."""
    return type(html)(re.sub(r"(?<=\d) (?=(?:d|h|min|s|%)(?!\w))", "\u00a0", html))


def duration_html(seconds: float) -> str:
    return no_break(duration(seconds).replace("-", "−"))


def count(number: float) -> str:
    return f"{number:,.0f}".replace("-", "−")


def slowdown(value: float) -> str:
    """A slowdown, or a ratio: whole from 10, else one decimal, or two if that were 0; with a true minus."""
    size = abs(value) * (1 + 1e-12)  # halves away from 0, as in the page's script
    if size < 0.005:
        return "0"
    return f"{'−' if value < 0 else ''}{size:,.{0 if size >= 9.95 else 1 if size >= 0.05 else 2}f}"


def signed(value: float) -> str:
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


def id_in_log(job: str, log: str = "") -> str:
    """A job's id as the log of this name has it: the numbers of SWF are padded with zeros, and other ids stay."""
    return job.lstrip("0") or job if job.isdigit() and ".json" not in log else job


def submission_dates(submit_s: NDArray[np.float64], clock: Clock | None) -> str:
    """The days of a log's first and last submission, or the time between them."""
    first_s, last_s = float(submit_s.min()), float(submit_s.max())
    if clock is None:
        return f"submitted within {duration(last_s - first_s)}"
    first, last = (clock.date(at_s).strftime("%-d %b %Y") for at_s in (first_s, last_s))
    return f"submitted {first} to {last}" if first != last else f"submitted on {first}"


def guide(page: str, words: str, anchor: str = "") -> Markup:
    """A link to a page of the documentation, such as "how-to/reports"; its name if the site's address is unknown."""
    if version.DOCUMENTATION:
        return Markup('<a href="{}/{}.html{}">{}</a>').format(version.DOCUMENTATION, page, anchor, words)
    return Markup("{} (<code>docs/{}.md</code>)").format(words, page)


@cache
def templates() -> Environment:
    """The templates of pages: what they are given is escaped, unless it is `Markup`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("batfill_pages", "assets")
    found = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    found.filters |= {"count": count, "duration": duration_html, "json": script_json, "percent": percent}
    found.filters |= {"signed": signed, "slowdown": slowdown, "unbroken": no_break, "units_kept": units_kept}
    found.globals |= {"growth": growth, "guide": guide, "quote": quote, "things": things}
    return found


def html_of(template: str, known: Mapping[str, Any]) -> str:
    return templates().get_template(template).render(known)


def said(template: str, known: Mapping[str, Any], part: str, *given: Any) -> Markup:
    """A macro of a template as HTML: its lines as one, and each number on one line with its unit."""
    html = getattr(templates().get_template(template, globals=dict(known)).module, part)(*given)
    return Markup(units_kept(re.sub("[ \n]+", " ", html).strip()))


def part(name: str, *given: Any, **how: Any) -> str:
    return str(getattr(templates().get_template("parts.html.j2").module, name)(*given, **how))


def script_json(data: object) -> Markup:
    """JSON in a script element, which no name in it ends."""
    return Markup(json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", **how: Any) -> str:
    """The table of `assets/parts.html.j2`; head and cells are HTML already."""
    cells = [[Markup(cell) for cell in row] for row in (head, *rows)]
    return part("table", cells[0], cells[1:], caption, **how)
