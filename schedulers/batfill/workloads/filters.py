"""Parses the filters that the archive's cleaned logs name in their headers, and finds the rows they match.

    filter     = part { "or" part }
    part       = factor { "and" factor }
    factor     = "not" factor | "(" filter ")" | comparison
    comparison = field operator value
    value      = number | date [ time ]

Examples are `user=204 and (job>=274118 and job<=303564)` and `submit<=2012-02-03 00:00:00`. Dates, and the hour of the
day of a submission, are in the users' time zone; times are in seconds. Case does not matter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.errors import WorkloadError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.model.jobs import Clock
    from batfill.workloads.swf_log import SwfLog

    Rows = NDArray[np.bool_]

# The fields of filters: columns of the log, or values computed from several (see `column_of`).
FILTER_FIELDS = {
    "job": "job", "id": "job", "user": "user", "group": "group", "queue": "queue", "partition": "partition",
    "status": "status", "executable": "executable", "application": "executable", "app": "executable",
    "procs": "procs", "processors": "procs", "nodes": "procs", "size": "procs",
    "requested_procs": "requested_procs", "req_procs": "requested_procs", "requested_time": "requested_s",
    "req_time": "requested_s", "submit": "submit_s", "wait": "wait_s", "start": "start_s", "end": "end_s",
    "runtime": "runtime_s", "cpu": "cpu_s", "think": "think_s", "memory": "memory_kb", "hour": "hour",
}  # fmt: skip
DATED = ("submit_s", "start_s", "end_s")  # fields that can be compared with a date
OPERATORS: dict[str, Callable[[NDArray[np.float64], float], Any]] = {
    "=": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
QUARTER_S = 900  # time zones differ by whole quarters of an hour
TOKEN = re.compile(
    r"""\s*(?:
    (?P<date>\d{4}-\d\d-\d\d(?:[ T]+\d\d:\d\d(?::\d\d)?)?)
    | (?P<number>-?\d+(?:\.\d+)?)
    | (?P<operator><=|>=|!=|[=<>])
    | (?P<word>[a-z][a-z_]*)
    | (?P<mark>[()])
    )""",
    re.VERBOSE,
)
DEEPEST = 50  # nested parentheses; a header is untrusted input
NAMED = re.compile(r"^(?:note:)?\s*(.*?)\s*\(([\d,]+) (?:jobs?|rows?|records?)(?: removed)?\)$", re.IGNORECASE)


class HeaderFilter(NamedTuple):
    """A filter that a header names, and the number of jobs it removed, by the header."""

    text: str
    removed: int


def header_filters(header: Sequence[str]) -> list[HeaderFilter]:
    """The filters of a cleaned log's header: `<filter> (<n> jobs removed)`, each on one line or broken at and / or."""
    found = []
    open_text = ""
    for comment in header:
        line = " ".join(comment.lstrip("; \t").split())
        goes_on = open_text and (_is_open(open_text) or re.match(r"(?i)(and|or)\b|\)", line))
        text = f"{open_text} {line}" if goes_on else line
        if match := NAMED.match(text):
            found.append(HeaderFilter(match[1], int(match[2].replace(",", "") or 0)))
            text = ""
        open_text = text if re.search(r"[<>=]", text) else ""
    return found


def _is_open(text: str) -> bool:
    return text.count("(") > text.count(")") or bool(re.search(r"(?i)(\b(and|or)|[<>=])$", text))


def matching(log: SwfLog, text: str) -> Rows:
    """The rows that a filter matches, by the grammar at the top of this file.

    Raises:
        WorkloadError: the text is not such a filter, or uses dates or hours of a log whose header has no UnixStartTime.
    """
    parser = _FilterParser(log, text)
    rows = parser.any_of(0)
    if parser.at < len(parser.tokens):
        raise parser.mistake("and, or, or the end")
    return rows


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


class _FilterParser:
    """Parses the filter from left to right; the methods for grammar rules return the rows that match."""

    def __init__(self, log: SwfLog, text: str) -> None:
        self.log, self.text = log, text
        self.tokens: list[_Token] = []
        self.at = 0
        lower, start = text.lower().rstrip(), 0
        while start < len(lower):
            match = TOKEN.match(lower, start)
            if not match or not match.lastgroup:
                raise self.mistake("a field, a number or a date", start)
            kind = match.lastgroup
            self.tokens.append(_Token(kind, match[kind], match.start(kind)))
            start = match.end()

    def mistake(self, wanted: str, start: int | None = None) -> WorkloadError:
        """The error for a token other than `wanted`, at `start` or the current position."""
        if start is None:
            start = self.tokens[self.at].start if self.at < len(self.tokens) else len(self.text)
        found = repr(self.text[start:].strip()[:40]) if self.text[start:].strip() else "the end"
        return WorkloadError(
            f"filter {self.text!r}: {found} stands where {wanted} should; a filter compares fields with numbers or "
            f"dates, joined by and, or, not and parentheses; fields are {', '.join(FILTER_FIELDS)}"
        )

    def take(self, kind: str, *texts: str) -> str | None:
        """Consume and return the next token's text if it is of this kind and, if given, one of these texts."""
        if self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.kind == kind and (not texts or token.text in texts):
                self.at += 1
                return token.text
        return None

    def any_of(self, depth: int) -> Rows:
        rows = self.all_of(depth)
        while self.take("word", "or"):
            rows = rows | self.all_of(depth)
        return rows

    def all_of(self, depth: int) -> Rows:
        rows = self.factor(depth)
        while self.take("word", "and"):
            rows = rows & self.factor(depth)
        return rows

    def factor(self, depth: int) -> Rows:
        if depth > DEEPEST:
            raise self.mistake("a comparison, not one more parenthesis or not,")
        if self.take("word", "not"):
            return ~self.factor(depth + 1)
        if self.take("mark", "("):
            rows = self.any_of(depth + 1)
            if not self.take("mark", ")"):
                raise self.mistake("a closing parenthesis")
            return rows
        return self.comparison()

    def comparison(self) -> Rows:
        name = self.field()
        operator = self.take("operator")
        if operator is None:
            raise self.mistake("a comparison such as = or <=")
        value = self.value(name)
        column = column_of(self.log, self.text, name)
        return np.asarray(OPERATORS[operator](column, value) & ~np.isnan(column), bool)

    def field(self) -> str:
        """Consume a field; returns the name of its column."""
        if name := self.take("word", *FILTER_FIELDS):
            return FILTER_FIELDS[name]
        raise self.mistake("a field")

    def value(self, name: str) -> float:
        """Consume a value for this column."""
        if number := self.take("number"):
            return float(number)
        if name in DATED and (date := self.take("date")):
            try:
                return log_clock(self.log, self.text).second_of(date)
            except ValueError:
                self.at -= 1
                raise self.mistake("a date that exists") from None
        raise self.mistake(f"a number{' or a date' * (name in DATED)}")


def column_of(log: SwfLog, text: str, name: str) -> NDArray[np.float64]:
    """The values of a filter's field, shape (n_rows,); nan for unknown dates and hours."""
    submit_s = np.where(log["submit_s"] >= 0, log["submit_s"], np.nan)
    start_s = np.where(log["wait_s"] >= 0, submit_s + log["wait_s"], np.nan)
    if name == "submit_s":
        return submit_s
    if name == "start_s":
        return start_s
    if name == "end_s":
        return np.where(log["runtime_s"] >= 0, start_s + log["runtime_s"], np.nan)
    if name != "hour":
        return log[name]
    clock = log_clock(log, text)
    known = ~np.isnan(submit_s)
    quarters, place = np.unique((clock.unix_start_s + submit_s[known]) // QUARTER_S, return_inverse=True)
    hours = np.array([clock.date(q * QUARTER_S - clock.unix_start_s).hour for q in quarters.tolist()], np.float64)
    hour = np.full(len(log), np.nan)
    hour[known] = hours[place]
    return hour


def log_clock(log: SwfLog, text: str) -> Clock:
    """The log's clock.

    Raises:
        WorkloadError: the header does not give it.
    """
    clock = log.clock
    if clock is None:
        raise WorkloadError(
            f"filter {text!r}: the log's header has no UnixStartTime, so its dates and hours are not known; "
            "add the line `; UnixStartTime: SECONDS` to it, or leave the filter out"
        )
    return clock
