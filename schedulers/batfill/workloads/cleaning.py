"""Cleans a log: drops rows by rules, and fills in unknown processors; every such row is counted.

The rules `wide`, `processors` and `times` are those of the bandit paper of 2017 (section 6.1.1); the flurries are those
that the archive's headers name, as filters:

    filter     = part { "or" part }
    part       = factor { "and" factor }
    factor     = "not" factor | "(" filter ")" | comparison
    comparison = field operator value { "," value } | value operator field [ operator value ]
    value      = number [ unit ] | number "-" number | date [ time ]

Examples are `user=204 and (job>=274118 and job<=303564)` and `submit<=2012-02-03 00:00:00`. Several values, and ranges
(both ends included), are allowed with = and != only. Dates, and the hour of the day of a submission, are in the users'
time zone; times are in seconds unless another unit follows (`runtime>=18 hours`). Case does not matter; `&&`, `||`,
`==` and `<>` are accepted too.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.errors import WorkloadError
from batfill.base.version import __version__
from batfill.model.jobs import DAY_S, HOUR_S
from batfill.workloads.swf_log import FIELD, SwfLog, header_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.model.jobs import Clock

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
ORDERS: dict[str, Callable[[NDArray[np.float64], float], Any]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
FILTER_UNITS_S = {"s": 1, "second": 1, "min": 60, "minute": 60, "h": HOUR_S, "hour": HOUR_S, "day": DAY_S}
QUARTER_S = 900  # time zones differ by whole quarters of an hour
UNITS = "|".join(FILTER_UNITS_S)
NUMBER = r"\d+(?:\.\d+)?"
DATE = r"\d{4}-\d\d-\d\d(?:[ t]+\d\d:\d\d(?::\d\d)?)?"
VALUE = rf"(?:{DATE}|{NUMBER}\s*(?:-|\.\.)\s*{NUMBER}|-?{NUMBER}(?:\s*(?:{UNITS})s?\b)?)"
WORD = re.compile(
    rf"""(?:(?P<left>{VALUE})\s*(?P<turned><=|>=|<|>)\s*)? (?P<field>[a-z][a-z_]*)
    (?:\s*(?P<operator><=|>=|==|!=|<>|[=<>])\s*(?P<values>{VALUE}(?:\s*,\s*{VALUE})*))?""",
    re.VERBOSE,
)
NAMED = re.compile(r"^(?:note:)?\s*(.*?)\s*\(([\d,]+) (?:jobs?|rows?|records?)(?: removed)?\)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class Cleaned:
    """A cleaned log, and the number of rows each rule dropped or changed; a row counts for the first rule only."""

    log: SwfLog
    dropped: dict[str, int]
    changed: dict[str, int]


def wide(log: SwfLog, procs: int | None) -> Rows:
    if procs is None:
        raise WorkloadError("the rule `wide` needs the machine's size, which the header does not give; pass --procs")
    return (log["procs"] > procs) | (log["requested_procs"] > procs)


def duplicates(log: SwfLog, procs: int | None) -> Rows:
    """Rows equal to an earlier one in all 18 fields."""
    _, job, times_used = np.unique(log["job"], return_inverse=True, return_counts=True)
    shared = np.flatnonzero(times_used[job] > 1)  # equal rows have equal job numbers, which few rows share
    again = np.zeros(len(log), bool)
    again[shared] = True
    again[shared[np.unique(log.rows[shared], axis=0, return_index=True)[1]]] = False
    return again


# The rows that each rule drops.
CLEANING_RULES: dict[str, Callable[[SwfLog, int | None], Rows]] = {
    "wide": wide,
    "processors": lambda log, _: ~((log["procs"] > 0) | (log["requested_procs"] > 0)),
    "times": lambda log, _: (log["runtime_s"] < 0) | (log["submit_s"] < 0),
    "ran": lambda log, _: ~(log["runtime_s"] > 0),
    "duplicates": duplicates,
}
BANDIT = ("wide", "processors", "times")


def clean(
    log: SwfLog,
    *,
    rules: Sequence[str] = (*BANDIT, "ran"),
    procs: int | None = None,
    statuses: Sequence[int] = (),
    flurries: Sequence[str] = (),
) -> Cleaned:
    """The log without the rows dropped by the rules in the given order, then by statuses, then by flurries."""
    dropped: dict[str, int] = {}
    keep = np.ones(len(log), bool)

    def drop(name: str, rows: Rows) -> None:
        dropped[name] = int((rows & keep).sum())
        keep[rows] = False

    for name in rules:
        if name not in CLEANING_RULES:
            raise WorkloadError(f"no cleaning rule {name!r}; there are {', '.join(CLEANING_RULES)}")
        drop(name, CLEANING_RULES[name](log, procs))
    if statuses:
        drop(f"status not {' or '.join(map(str, statuses))}", ~np.isin(log["status"], list(statuses)))
    for text in flurries:
        drop(f"flurry {text}", matching(log, text))
    if not keep.any():
        why = ", ".join(f"{name} {count}" for name, count in dropped.items() if count)
        raise WorkloadError(f"cleaning drops all {len(log)} rows ({why}); use fewer rules")
    changed: dict[str, int] = {}
    cleaned = log.as_listed().select(keep)
    rows = cleaned.rows  # a copy
    if "processors" in rules:
        allocated, requested = rows[:, FIELD["procs"]], rows[:, FIELD["requested_procs"]]
        unknown_allocated, unknown_requested = ~(allocated > 0), ~(requested > 0)
        allocated[unknown_allocated] = requested[unknown_allocated]
        requested[unknown_requested] = allocated[unknown_requested]
        changed["processors filled in"] = int((unknown_allocated | unknown_requested).sum())
    changes = "; ".join(
        [f"{name}: {count} rows dropped" for name, count in dropped.items()]
        + [f"{name}: {count} rows changed" for name, count in changed.items()]
    )
    counted = tuple(
        comment._replace(text=f"; MaxRecords: {len(rows)}") if header_name(comment.text) == "maxrecords" else comment
        for comment in cleaned.comments
    )
    cleaned = replace(cleaned, comments=counted).noted(f"cleaned by batfill {__version__}: {changes}")
    return Cleaned(cleaned, dropped, changed)


# Filters


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
        goes_on = open_text and (_is_open(open_text) or re.match(r"(?i)(and|or)\b|\)|&&|\|\|", line))
        text = f"{open_text} {line}" if goes_on else line
        if match := NAMED.match(text):
            found.append(HeaderFilter(match[1], int(match[2].replace(",", "") or 0)))
            text = ""
        open_text = text if re.search(r"[<>=]", text) else ""
    return found


def _is_open(text: str) -> bool:
    return text.count("(") > text.count(")") or bool(re.search(r"(?i)(\b(and|or)|&&|\|\||[<>=,])$", text))


def matching(log: SwfLog, text: str) -> Rows:
    """The rows that a filter matches, by the grammar above; WorkloadError if it is none, or needs dates."""
    compared: dict[str, Rows] = {}

    def mistake(what: str) -> WorkloadError:
        return WorkloadError(
            f"filter {text!r}: {what[:60]!r} is not understood; a filter compares fields with numbers or dates, joined "
            f"by and, or, not and parentheses; fields are {', '.join(FILTER_FIELDS)}"
        )

    def named(found: re.Match[str]) -> str:
        if found["field"] in ("and", "or", "not") and found[0] == found["field"]:
            return found[0]
        name = f"_{len(compared)}"
        try:
            compared[name] = compared_rows(log, text, found)
        except (KeyError, ValueError, AttributeError):
            raise mistake(found[0]) from None
        return f" {name} "

    def rows_of(node: ast.expr) -> Rows:
        if isinstance(node, ast.BoolOp):
            join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return np.asarray(join.reduce([rows_of(part) for part in node.values]), bool)
        if isinstance(node, ast.UnaryOp):
            return ~rows_of(node.operand)
        if not isinstance(node, ast.Name):
            raise SyntaxError
        return compared[node.id]

    joined = text.lower().replace("&&", " and ").replace("||", " or ")
    if rest := re.sub(r"[\s()]", "", WORD.sub("", joined)):
        raise mistake(rest)
    try:
        return rows_of(ast.parse(" ".join(WORD.sub(named, joined).split()), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise mistake(text) from None


def compared_rows(log: SwfLog, text: str, found: re.Match[str]) -> Rows:
    """The rows that a comparison matches; KeyError, ValueError or AttributeError if it is none."""
    name, operator = FILTER_FIELDS[found["field"]], found["operator"]
    column = column_of(log, text, name)
    if operator in ORDERS or found["left"]:
        sides = [(TURNED.get(found["turned"]), found["left"]), (operator, found["values"])]
        given = [(ORDERS[order or ""], value_in(log, text, name, value)) for order, value in sides if value]
        both: Rows = np.logical_and.reduce([order(column, value) for order, value in given])
        return both
    spans = [re.fullmatch(rf"({NUMBER})\s*(?:-|\.\.)\s*({NUMBER})", one.strip()) for one in found["values"].split(",")]
    ends = [
        (float(span[1]), float(span[2])) if span else (value_in(log, text, name, one),) * 2
        for span, one in zip(spans, found["values"].split(","), strict=True)
    ]
    among: Rows = np.logical_or.reduce([(column >= low) & (column <= high) for low, high in ends])
    return among if operator in ("=", "==") else ~among & ~np.isnan(column)


def value_in(log: SwfLog, text: str, name: str, value: str) -> float:
    if name in DATED and re.fullmatch(DATE, value.strip()):
        return log_clock(log, text).second_of(value)
    number, unit = re.fullmatch(rf"\s*(-?{NUMBER})\s*(\w*)\s*", value).groups()  # type: ignore[union-attr]
    if unit and not name.endswith("_s"):
        raise ValueError(unit)
    return float(number) * (FILTER_UNITS_S.get(unit) or FILTER_UNITS_S[unit.removesuffix("s")] if unit else 1)


def column_of(log: SwfLog, text: str, name: str) -> NDArray[np.float64]:
    """The values of a filter's field, shape (n_rows,); nan for unknown dates and hours."""
    submit_s = np.where(log["submit_s"] >= 0, log["submit_s"], np.nan)
    start_s = np.where(log["wait_s"] >= 0, submit_s + log["wait_s"], np.nan)
    end_s = np.where(log["runtime_s"] >= 0, start_s + log["runtime_s"], np.nan)
    dates = {"submit_s": submit_s, "start_s": start_s, "end_s": end_s}
    if name != "hour":
        return dates[name] if name in dates else log[name]
    clock = log_clock(log, text)
    known = ~np.isnan(submit_s)
    quarters, place = np.unique((clock.unix_start_s + submit_s[known]) // QUARTER_S, return_inverse=True)
    hours = np.array([clock.date(q * QUARTER_S - clock.unix_start_s).hour for q in quarters.tolist()], np.float64)
    hour = np.full(len(log), np.nan)
    hour[known] = hours[place]
    return hour


def log_clock(log: SwfLog, text: str) -> Clock:
    clock = log.clock
    if clock is None:
        raise WorkloadError(
            f"filter {text!r}: the log's header has no UnixStartTime, so its dates and hours are not known; "
            "add the line `; UnixStartTime: SECONDS` to it, or leave the filter out"
        )
    return clock
