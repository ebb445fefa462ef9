"""Text for people: durations, instants, and lines that fit a terminal."""

from __future__ import annotations

import math
import os
import re
import sys
from textwrap import TextWrapper
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

WIDTH = 100  # columns of a line at most, and of one that no terminal shows
NARROW = 80  # columns of a terminal that does not say how many it has
TOGETHER = re.compile(r"\d (?:%|(?:d|h|min|s)\b(?: \d+ (?:h|min|s)\b)?)")  # never broken over two lines
UNITS_S = {"d": 86_400, "h": 3600, "min": 60, "s": 1}


def duration(seconds: float, *, up: bool = False) -> str:
    """Seconds in the two largest units, cut, or rounded `up`; without a zero unit.

    Examples:
        >>> duration(47), duration(13_199), duration(259_260), duration(4_690_800), duration(-90.5)
        ('47 s', '3 h 39 min', '3 d', '54 d 7 h', '-1 min 30 s')
    """
    size_s = abs(seconds)
    step_s = 3600 if size_s >= 86_400 else 60 if size_s >= 3600 else 1
    steps = round(size_s / step_s, 6)  # a mean of whole hours may come out a rounding error below
    rest, words = (math.ceil if up else math.floor)(steps) * step_s, []
    for unit, unit_s in UNITS_S.items():
        number, rest = divmod(rest, unit_s)
        if number:
            words.append(f"{number:,} {unit}")
    return f"{'-' if seconds < 0 and words else ''}{' '.join(words) or '0 s'}"


def took(seconds: float) -> str:
    """The time that something took: below a minute with milliseconds."""
    return duration(seconds) if seconds >= 60 else f"{seconds:.3f} s"


def instant(at_s: float) -> str:
    """A second of a log without dates: the day, counted from 0, and the time of day."""
    s = math.floor(at_s)
    return f"day {s // 86_400:,} {s // 3600 % 24:02}:{s // 60 % 60:02}:{s % 60:02}"


def things(number: int, name: str) -> str:
    """A number of things: "1 job", "2 jobs"."""
    return f"{number:,} {name}{'s' * (number != 1)}"


def in_a_row(words: Sequence[str]) -> str:
    """The words as a list in a sentence.

    Examples:
        >>> in_a_row(["fcfs"]), in_a_row(["fcfs", "saf", "spf"])
        ('fcfs', 'fcfs, saf and spf')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def percent(share: float) -> str:
    """A share, at least 0, in per cent: whole from 10, below with one decimal, or more if that were 0.

    Only nothing is 0 %, and only all is 100 %.

    Examples:
        >>> [percent(share) for share in (0, 0.00001, 0.0004, 0.05, 0.0521, 0.125, 0.9996, 1, 2.77)]
        ['0 %', 'under 0.01 %', '0.04 %', '5 %', '5.2 %', '13 %', '99.9 %', '100 %', '277 %']
    """
    size = 100 * share * (1 + 1e-12)  # halves are rounded up, as in the pages' scripts
    if 0 < size < 0.005:
        return "under 0.01 %"
    if 99.5 <= size < 100:
        return f"{math.floor(10 * size) / 10:g} %"
    if size >= 9.95:
        return f"{math.floor(size + 0.5):,} %"
    digits = 1 if size >= 0.05 else 2
    return f"{math.floor(size * 10**digits + 0.5) / 10**digits:g} %"


def columns(stream: TextIO | None = None) -> int:
    """The columns of the terminal that shows this stream, by default standard output; `WIDTH` if it is no terminal."""
    stream = sys.stdout if stream is None else stream
    try:
        return (os.get_terminal_size(stream.fileno()).columns or NARROW) if stream.isatty() else WIDTH
    except (AttributeError, OSError, ValueError):  # no file, or closed
        return WIDTH


def wrapped(text: str, indent: str = "", width: int | None = None) -> str:
    """The text with every line broken between words; what is broken off is indented so.

    `width` is by default that of the terminal behind standard output; lines have at most `WIDTH` columns.
    """
    width = min(columns() if width is None else width, WIDTH)
    wrapper = TextWrapper(
        width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )
    whole = TOGETHER.sub(lambda found: found[0].replace(" ", "\xa0"), text)
    lines = (line if len(line) <= width else wrapper.fill(line) for line in whole.split("\n"))
    return "\n".join(lines).replace("\xa0", " ")
