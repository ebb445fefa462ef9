"""Texts of accounting records as numbers: names, times, durations and counts, by columns or one by one."""

from __future__ import annotations

import math
import re
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import WorkloadError
from batfill.base.files import decompressed, whole_lines
from batfill.model.jobs import DAY_S, zone_named

LAST_S = 2**32 - 1  # the year 2106
# What is returned for a time, a count or a duration that is no such value; `add_ended` counts each.
ODD = -1  # a text that is not understood
UNLIMITED, PARTITION_LIMIT = -2, -3
NO_TIMES = frozenset(("", "Unknown", "None", "N/A"))
QUARTER_S = 900
CLOCK_S = (DAY_S, 3600, 60, 1)  # the units of a clock's numbers, the last ones of fewer
CLOCK = re.compile(r"(?:(\d{1,11})-(?!(?:\d+:){3}))?((?:\d{1,11}:){0,3}\d{1,11})(?:\.\d{1,11})?", re.ASCII)
EPOCH = re.compile(r"[0-9]{1,18}(?:\.[0-9]*)?")
DAY_0 = datetime(1970, 1, 1)
MARKS = re.compile(rb"^(?:\xef\xbb\xbf)+", re.MULTILINE)  # byte order marks, which begin a line


class Names:
    """Texts and their numbers, from 1 in the order of appearance; 0 is the empty text."""

    def __init__(self) -> None:
        self._codes = defaultdict[str, int](count().__next__)  # a new text gets the next number
        self.codes([""])

    def __iter__(self) -> Iterator[str]:
        return iter(self._codes)

    def codes(self, texts: Sequence[str]) -> NDArray[np.int32]:
        return np.fromiter(map(self._codes.__getitem__, texts), np.int32, len(texts))


def each(texts: Sequence[str], read: Callable[[str], Any]) -> NDArray[np.int64]:
    """The numbers that `read` returns for each text, (n, ...); it reads equal texts once."""
    names = Names()
    codes = names.codes(texts)
    return np.array([read(text) for text in names], np.int64)[codes]


def lines_of(path: Path, odd: Callable[[int], None] = lambda number: None) -> Iterator[tuple[int, str]]:
    r"""Each line that is not blank of a text file, plain or compressed, with its number from 1; no byte order mark.

    `odd` gets the numbers of lines not in UTF-8, of which each such byte becomes a text such as \xfc, so that different
    names stay different.
    """
    number = 0
    with decompressed(path) as content:
        for piece in whole_lines(path, content):
            whole = MARKS.sub(b"", piece) if BOM_UTF8 in piece else piece
            while b"\r\n" in whole:
                whole = whole.replace(b"\r\n", b"\n")
            for line in whole.split(b"\n")[:-1]:
                number += 1
                try:
                    text = line.decode()
                except UnicodeDecodeError:
                    odd(number)
                    text = line.decode("utf-8", "backslashreplace")
                if text and not text.isspace():
                    yield number, text


class Times(NamedTuple):
    """A column of times, (n,) each."""

    seconds: NDArray[np.int64]  # since 1970, 0 for none, ODD for a text that is not understood
    later_s: NDArray[np.int64]  # to the other reading of a local time: > 0 if the clock repeats it, < 0 if it skips it
    bare: NDArray[np.bool_]  # whether it is a date without a time zone, read in that of the cluster

    @classmethod
    def of(cls, seconds: NDArray[Any]) -> Times:
        whole = np.asarray(seconds, np.int64)
        return cls(whole, np.zeros(len(whole), np.int64), np.zeros(len(whole), bool))


def zone_of(name: str) -> tzinfo:
    zone = UTC if name == "UTC" else zone_named(name)
    if zone is None:
        raise WorkloadError(f"no time zone {name!r}; name one such as Europe/Paris or UTC")
    return zone


def unix_times(local_s: NDArray[np.int64], zone: tzinfo) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Seconds since 1970 of a clock's seconds in this zone, (n,), and what its other reading adds, as in `Times`.

    The zone's offset is looked up once in a quarter of an hour, since offsets change only then. Seconds that are no
    known time get the offset of the nearest one, since Python has no dates for them.
    """
    if zone is UTC:
        return local_s, np.zeros(len(local_s), np.int64)
    quarters, of = np.unique(np.clip(local_s, 0, LAST_S) // QUARTER_S, return_inverse=True)

    def offsets(fold: int) -> NDArray[np.int64]:
        dates = (datetime.fromtimestamp(quarter * QUARTER_S, UTC) for quarter in quarters.tolist())
        known = (date.replace(tzinfo=zone, fold=fold).utcoffset() for date in dates)
        return np.array([offset.total_seconds() if offset else 0 for offset in known], np.int64)[of]

    first = offsets(0)
    return local_s - first, first - offsets(1)


def read_times(texts: Sequence[str], zone: tzinfo) -> Times:
    """The times in these texts: seconds since 1970, or dates, which without an offset are in this zone."""
    seconds, bare = each(texts, clock_time).T
    times = Times.of(seconds)._replace(bare=bare > 0)
    local_s, times.later_s[times.bare] = unix_times(seconds[times.bare], zone)
    seconds[times.bare] = np.where((local_s >= 1) & (local_s <= LAST_S), local_s, ODD)
    return times


def clock_time(text: str) -> tuple[int, bool]:
    """Seconds since 1970, or ODD, and whether they are those of a local clock."""
    text = text.strip()
    if text in NO_TIMES:
        return 0, False
    if "-" not in text and EPOCH.fullmatch(text):
        return epoch(text), False
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return ODD, False
    if not text.isascii():
        return ODD, False
    if date.tzinfo is None:
        since = date - DAY_0
        return since.days * DAY_S + since.seconds, True
    seconds = math.floor(date.timestamp())
    return (seconds if 1 <= seconds <= LAST_S else ODD), False


def epoch(text: str) -> int:
    """Seconds since 1970 written as a number, 0 for no time; ODD for anything else."""
    return min(int(text.partition(".")[0]), LAST_S + 1) if EPOCH.fullmatch(text) else ODD


def limit_of(text: str, *, bare: float) -> int:
    """Seconds as `clock_seconds`, 0 for none, and else UNLIMITED, PARTITION_LIMIT or ODD."""
    words = {"": 0, "unlimited": UNLIMITED, "infinite": UNLIMITED, "partition_limit": PARTITION_LIMIT}
    text = text.strip().lower()
    if text in words:
        return words[text]
    seconds = clock_seconds(text, bare=bare)
    return ODD if seconds is None else min(int(seconds), LAST_S + 1)


def clock_seconds(text: str, *, bare: float) -> float | None:
    """Seconds of [days-]hours:minutes:seconds, days by : as PBS has them, minutes:seconds or `bare` s; else None."""
    found = CLOCK.fullmatch(text)
    if found is None:
        return None
    numbers = [int(part) for part in found[2].split(":")]
    if found[1]:  # days-hours[:minutes[:seconds]]
        numbers = [int(found[1]), *numbers, 0, 0][: len(CLOCK_S)]
    elif len(numbers) == 1:
        return float(text) * bare
    return float(sum(number * unit_s for number, unit_s in zip(numbers, CLOCK_S[-len(numbers) :], strict=True)))


def count_of(text: str) -> int:
    """A positive whole number, or 0."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 and int(text) < 2**31 else 0
