"""An answer to a site: a headline, one table, a picture, a few lines, and details; as text, JSON or a page.

Sentences mark **bold** and `code`, and durations hold no-break spaces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from batfill.base.files import json_text
from batfill.base.tables import text_html
from batfill.base.version import __version__
from batfill.base.words import duration as cut_duration
from batfill.replays.found import Found
from batfill_pages.palette import colour_script
from batfill_pages.words import asset, guide, html_of, no_break, submission_dates, templates, units_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from batfill.model.jobs import Clock

MOST_LINES, COLUMNS = 9, 80
MARKS = r"\*\*|`"  # of sentences, which a terminal has not
NB, MINUS = "\u00a0", "\u2212"


class Table(NamedTuple):
    """Rows of words below a head; on a page a row picks a point of the picture."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    picks: Sequence[int | None] = ()  # which each row picks, if any
    left: int = -1  # a further column of words, as the first is
    stops: bool = False  # whether the k-th row is the slider's k-th stop


class Detail(NamedTuple):
    """What is one click, or --details, away."""

    title: str
    sentences: Sequence[str] = ()
    table: Table | None = None
    code: str = ""

    @property
    def there(self) -> bool:
        return bool(self.table.rows if self.table else self.sentences or self.code)


class Screen(NamedTuple):
    """What is said first, of the answer or of a point of the picture."""

    headline: str
    table: Table
    lines: Mapping[str, str]  # a sentence each, by what it is about; empty ones are not there
    taken: bool = False  # whether the headline advises a change

    @property
    def first(self) -> dict[str, str]:
        return dict([(name, text) for name, text in self.lines.items() if text][:MOST_LINES])


class Share(NamedTuple):
    """How many of some jobs or users wait less, about as long and longer."""

    of: str
    counts: Sequence[int]
    words: Sequence[str]  # that say the counts


class Bar(NamedTuple):
    """A group of jobs beside the bar that shows how its mean wait changes."""

    by: str
    name: str
    change_s: float
    unclear: bool  # whether it may be chance
    words: str
    longest: str  # the longest wait, or what else stands behind the bar


class Point(NamedTuple):
    """A choice in the picture, and what is said if it is chosen."""

    name: str
    slowdown: float
    longest_s: float
    screen: Screen
    shares: Sequence[Share]
    bars: Sequence[Bar]

    @property
    def key(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


class Stop(NamedTuple):
    """A place of the slider: how much longer the longest wait may be, and the point that is advised there."""

    grown: str
    longest: float | None  # s
    take: int


class Picture(NamedTuple):
    """Slowdown and longest wait of each point; the slider moves the limit."""

    points: Sequence[Point]
    shown: int
    whose: str  # the first point's, in words
    base: str
    caption: str
    chance: str = "may be chance"
    stops: Sequence[Stop] = ()
    given: int = 0
    least_s: float = 60.0  # a change of less has no bar
    sure: bool = True  # whether the row of what is shown is marked

    def as_dict(self) -> dict[str, Any]:
        points = [
            {"name": units_kept(p.name), "key": p.key, "slowdown": p.slowdown, "longest": p.longest_s}
            for p in self.points
        ]
        base = {"whose": self.whose, "name": self.base}
        stops = [stop._asdict() for stop in self.stops]
        return {"choices": points, "limits": stops, "given": self.given, "seen": self.shown, "base": base}


class Bars(NamedTuple):
    """A picture without choices: groups of jobs, with their simulated mean waits beside the logged ones."""

    bars: Sequence[Bar]
    least_s: float = 1.0

    @classmethod
    def of_waits(cls, groups: Iterable[tuple[str, str, float, float]]) -> Bars:
        """What jobs are grouped by, each group, and its mean waits, simulated and logged."""
        bars = [
            Bar(by, name, mean_s - logged_s, False, change(mean_s - logged_s), duration(logged_s))
            for by, name, mean_s, logged_s in groups
        ]
        return cls(bars)


class Span(NamedTuple):
    """An interval, and a value in it, as parts of the picture's width."""

    name: str
    low: float
    middle: float
    high: float
    words: str


class Spans(NamedTuple):
    """A picture of intervals below each other."""

    spans: Sequence[Span]
    caption: str


@dataclass(frozen=True)
class Answer:
    """One answer, whatever model it is from."""

    title: str
    about: str  # the log's jobs, machine and dates
    screen: Screen
    picture: Picture | Bars | Spans
    details: Sequence[Detail]
    data: Mapping[str, Any]  # every figure, for JSON
    cautions: Sequence[str] = ()  # to read before the figures
    terms: str = ""  # what words mean,
    guide: str = ""  # and the page of the documentation that says more
    assumed: str = ""  # of the site, and how to say it; "" for nothing
    more: str = "All choices, statistics and commands"  # what the details have

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what is said, and every figure."""
        lines = {name: plain(text) for name, text in self.screen.first.items()}
        found: dict[str, Any] = stored({**self.data, "headline": plain(self.screen.headline), "lines": lines})
        return found

    def as_json(self) -> str:
        """One object."""
        return json_text(self.as_dict())

    def as_text(self, *, details: bool = False) -> str:
        """One screen of a terminal of 80 columns, behind the details if they are wanted."""
        lines = []
        for one in self.all_details if details else ():
            lines += [one.title, *map(filled, one.sentences), *columns(one.table), *one.code.splitlines(), ""]
        lines += [
            filled(f"{self.title.partition(': ')[0]}: {self.about}"),
            *([filled(f"Assumed: {self.assumed}.")] if self.assumed else []),
            *(filled(f"Warning: {text}.") for text in self.cautions),
        ]
        lines += [filled(self.screen.headline), *columns(self.screen.table)]
        lines += [filled(f"{name}: {text}") for name, text in self.screen.first.items()]
        lines.append(f"{self.more}: --details; as a page: --out FILE.html")
        return "\n".join(lines).replace(NB, " ")

    @property
    def all_details(self) -> list[Detail]:
        said, first = self.screen.lines, self.screen.first
        more = [f"{name}: {text}" for name, text in said.items() if text and name not in first]
        return [one for one in (Detail("More", more), *self.details) if one.there]

    def as_page(self, command: str = "", inputs: Mapping[str, str] | None = None) -> str:
        """A page in one file; `inputs` are files and their sha256."""
        known = {"answer": self, "marked": marked, "command": command, "inputs": inputs or {}}
        known["more"] = guide(self.guide, "What all of this means")
        drawn = [asset("what-if.js", "batfill_site")] if isinstance(self.picture, Picture) else []
        page = {
            "title": self.title,
            "log": marked(self.about),
            "sections": [templates().from_string(asset("answer.html.j2", "batfill_site")).render(known)],
            "styles": [asset("report.css"), asset("what-if.css", "batfill_site")],
            "scripts": [colour_script(), asset("draw.js"), *drawn],
            "generator": f"batfill {__version__}",
        }
        return html_of("page.html.j2", {"links": (), "data": (), **page})


class Answered:
    """What gives an `answer()` gives it as a dict, as JSON and as text, too."""

    def answer(self) -> Answer:
        """In a headline, a table, lines and details."""
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the figures, and what is said."""
        return self.answer().as_dict()

    def as_json(self) -> str:
        """One object."""
        return self.answer().as_json()

    def as_text(self, *, details: bool = False) -> str:
        """One screen of a terminal of 80 columns, behind the details if they are wanted."""
        return self.answer().as_text(details=details)

    __repr__ = as_text

    def _repr_html_(self) -> str:
        return text_html(self.as_text())


class FoundAnswer(Answered, Found):
    """A result file that is displayed as an answer."""

    as_json = Found.as_json

    def __init__(self, content: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], answer: Answer) -> None:
        super().__init__(content, rows, plain(answer.screen.headline))
        self._answer = answer

    def answer(self) -> Answer:
        """In a headline, a table, lines and details."""
        return self._answer


def marked(text: str) -> Markup:
    """A sentence as HTML: **bold**, `code`, flags in colour, options, and numbers with their units, on one line."""
    html = units_kept(escape(text)).replace("=", "=<wbr>").replace("▲", '<span class="pays">▲</span>')
    html = re.sub(r"(?<![\w-])--[a-z-]+", r'<span style="white-space: nowrap">\g<0></span>', html)
    html = re.sub("`([^`]+)`", r"<code>\1</code>", html)
    return Markup(re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html))


def stored(value: Any) -> Any:
    """As JSON has it: records by the names of their fields, and texts, also people's names, with plain spaces."""
    for name in ("as_dict", "_asdict"):
        if hasattr(value, name):
            return stored(getattr(value, name)())
    if isinstance(value, dict):
        return {name: stored(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(stored, value))
    return value.replace(NB, " ") if isinstance(value, str) else value


def plain(text: str) -> str:
    """A sentence as a terminal and JSON have it."""
    return re.sub(MARKS, "", text).replace(NB, " ")


def duration(seconds: float) -> str:
    """As everywhere, but below 10 s with tenths; every duration in an answer is written here."""
    at = round(seconds, 1) if abs(seconds) < 10 else seconds
    return no_break(f"{at} s" if abs(at) < 10 and at % 1 else cut_duration(at)).replace("-", MINUS)


def change(longer_s: float) -> str:
    said = duration(abs(longer_s))
    return said if said.startswith(f"0{NB}") else f"{MINUS if longer_s < 0 else '+'}{said}"


def around(mean: float, margin: float, write: Callable[[float], str] = duration) -> str:
    """A mean and half of its interval, in minutes if that is some."""
    if margin >= (60 if abs(mean) >= 1800 else 300):
        mean, margin = (60 * round(seconds / 60) for seconds in (mean, margin))
    return f"{write(mean)} ±{NB}{duration(margin)}"


def dates_text(submit_s: NDArray[np.float64], clock: Clock | None) -> str:
    return submission_dates(submit_s, clock).replace(" ", NB).replace(f"{NB}to{NB}", " to ")


def filled(text: str) -> str:
    return fill(
        re.sub(MARKS, "", text), COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def columns(table: Table | None) -> list[str]:
    """The rows, if there are any, as lines; where they would be too long, the names have lines of their own."""
    if table is None or not table.rows:
        return []
    rows = [[re.sub(MARKS, "", cell) for cell in row] for row in (table.head, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if table.left > 0:
        widths[table.left] = -widths[table.left]
    gap = "  " if sum(map(abs, widths)) + 2 * len(widths) - 2 <= COLUMNS else " "
    alone = sum(map(abs, widths)) + len(widths) - 1 > COLUMNS
    lines = []
    for name, *cells in rows:
        lines += [filled(name)] if alone and name else []
        first = " " if alone else name.ljust(widths[0])
        cells = [
            cell.rjust(width) if width >= 0 else cell.ljust(-width)
            for cell, width in zip(cells, widths[1:], strict=True)
        ]
        lines.append(gap.join([first, *cells]).rstrip())
    return lines
