"""Parses the text of accounting records into numbers, compiled: rows into fields, fields into times, counts and codes.

A field is a span of bytes, `text[start:end]`. The functions read the common forms of a field; a rare form is marked as
hard, and the caller reads it in plain Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.engine.jit import compiled
from batfill.jobs import DAY_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

READ, LOCAL, HARD = 0, 1, 2  # what a span's number is: final; seconds of a clock in the cluster's zone; not read
CUT = 4  # added to READ or LOCAL: a fraction was cut off
DURATION_DIGITS = 11
TASKS = 32  # bits of a task's number in a job's key


@compiled(__file__)
def split_rows(
    text: NDArray[np.uint8],
    n_columns: int,
    name_column: int,
    barred: bool,
    wanted: NDArray[np.int64],
    bars: NDArray[np.int32],
    spans: NDArray[np.int32],
) -> Any:
    """Fill `spans` with the wanted columns of each row that is not blank: (rows, lines read, the wrong columns or -1).

    Args:
        text: whole lines, each ended by a newline; columns are separated by bars.
        n_columns: of each row.
        name_column: the one column that may hold bars itself, or -1.
        barred: whether each row ends with a bar.
        wanted: the columns to find, (n_wanted,).
        bars: scratch, (>= bytes of the longest line + 2,).
        spans: out, (>= lines, n_wanted, 2), first and one-past-last byte.

    Reading stops at a row with another number of columns; `lines read` is then that line, counted from 0.
    """
    n_rows = line = at = 0
    while at < text.size:
        while at + 2 < text.size and text[at] == 0xEF and text[at + 1] == 0xBB and text[at + 2] == 0xBF:
            at += 3  # a byte order mark
        bars[0] = at - 1
        n_bars = 1
        blank = True
        while text[at] != 10:
            c = text[at]
            if c == 124:
                bars[n_bars] = at
                n_bars += 1
                blank = False
            elif blank and not (c == 32 or 9 <= c <= 13 or 28 <= c <= 31):
                blank = False
            at += 1
        end = at
        while end > bars[0] + 1 and text[end - 1] == 13:
            end -= 1
        at += 1
        if not blank:
            bars[n_bars] = end
            found = n_bars
            if bars[n_bars - 1] + 1 == end and (found == n_columns + 1 or (barred and found > n_columns)):
                found -= 1
            extra = found - n_columns
            if extra < 0 or (extra > 0 and name_column < 0):
                return n_rows, line, found
            for place in range(wanted.size):
                column = wanted[place]
                first = column if column <= name_column or name_column < 0 else column + extra
                last = column if column < name_column or name_column < 0 else column + extra
                spans[n_rows, place, 0] = bars[first] + 1
                spans[n_rows, place, 1] = bars[last + 1]
            n_rows += 1
        line += 1
    return n_rows, line, -1


@compiled(__file__)
def _digits(text: NDArray[np.uint8], start: int, end: int) -> Any:
    """The number in text[start:end], at most 2^62, or -1 if a byte is no digit; -1 for no byte."""
    if start >= end:
        return -1
    number = 0
    for at in range(start, end):
        c = text[at]
        if c < 48 or c > 57:
            return -1
        if number < 2**58:
            number = number * 10 + (int(c) - 48)
    return number


@compiled(__file__)
def parse_counts(text: NDArray[np.uint8], spans: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
    """Fill `counts`, (n,), with whole numbers; -1 for anything else."""
    for row in range(spans.shape[0]):
        counts[row] = _digits(text, spans[row, 0], spans[row, 1])


@compiled(__file__)
def parse_times(
    text: NDArray[np.uint8],
    spans: NDArray[np.int32],
    seconds: NDArray[np.int64],
    kinds: NDArray[np.int8],
) -> None:
    """Fill `seconds`, (n,), with times, 0 for none, and `kinds`, (n,), with READ, LOCAL or HARD, plus CUT.

    Seconds since 1970 are digits. A date is YYYY-MM-DD, T or a blank, and HH:MM:SS; it is LOCAL, unless an offset from
    UTC follows (+HH, +HH:MM, +HHMM, Z). A fraction of a second is cut off, which CUT says if it is not 0.
    """
    for row in range(spans.shape[0]):
        start, end = spans[row, 0], spans[row, 1]
        seconds[row] = 0
        kinds[row] = READ
        if start >= end:
            continue
        number = _digits(text, start, end)
        if number >= 0:
            seconds[row] = number
            continue
        kinds[row] = HARD
        if (
            end - start < 19
            or text[start + 4] != 45
            or text[start + 7] != 45
            or (text[start + 10] != 84 and text[start + 10] != 32)
            or text[start + 13] != 58
            or text[start + 16] != 58
        ):
            continue
        year, month, day = (
            _digits(text, start, start + 4),
            _digits(text, start + 5, start + 7),
            _digits(text, start + 8, start + 10),
        )
        hour, minute, second = (
            _digits(text, start + 11, start + 13),
            _digits(text, start + 14, start + 16),
            _digits(text, start + 17, start + 19),
        )
        if not (year >= 1970 and 1 <= month <= 12 and 1 <= day <= _month_days(year, month)):
            continue
        if not (0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 59):
            continue
        offset = 0
        kind = LOCAL
        at = start + 19
        cut = 0
        if at < end and text[at] == 46:
            at += 1
            while at < end and 48 <= text[at] <= 57:
                if text[at] != 48:
                    cut = CUT
                at += 1
        if at < end and text[at] == 90 and at + 1 == end:
            kind, at = READ, end
        elif at < end and (text[at] == 43 or text[at] == 45):
            hours = _digits(text, at + 1, min(at + 3, end))
            rest = at + 3
            if rest < end and text[rest] == 58:
                rest += 1
            minutes = _digits(text, rest, end) if rest < end else 0
            if end - at >= 3 and hours >= 0 and minutes >= 0 and (rest >= end or end - rest == 2):
                offset = hours * 3600 + minutes * 60
                if text[at] == 45:
                    offset = -offset
                kind, at = READ, end
        if at == end:
            kinds[row] = kind + cut
            seconds[row] = _days(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second - offset


@compiled(__file__)
def _month_days(year: int, month: int) -> Any:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@compiled(__file__)
def _days(year: int, month: int, day: int) -> Any:
    """Days from 1970-01-01 to this date: years begin in March, so that the leap day is the last."""
    if month <= 2:
        year -= 1
        month += 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 1 - 719468


@compiled(__file__)
def parse_durations(
    text: NDArray[np.uint8],
    spans: NDArray[np.int32],
    bare_s: int,
    seconds: NDArray[np.int64],
    kinds: NDArray[np.int8],
) -> None:
    """Fill `seconds`, (n,), with durations, 0 for none, and `kinds`, (n,), with READ or HARD.

    A duration is [days-]hours:minutes:seconds, or a whole number of `bare_s` seconds.
    """
    for row in range(spans.shape[0]):
        start, end = spans[row, 0], spans[row, 1]
        seconds[row] = 0
        kinds[row] = READ
        if start >= end:
            continue
        number = _digits(text, start, end)
        if number >= 0 and end - start <= DURATION_DIGITS:
            seconds[row] = number * bare_s
            continue
        kinds[row] = HARD
        days = 0
        at = start
        while at < end and text[at] != 45:
            at += 1
        if at < end:
            days = _digits(text, start, at)
            start = at + 1
            if days < 0 or days > 10**9:
                continue
        if end - start < 7 or text[end - 3] != 58 or text[end - 6] != 58:
            continue
        hours, minutes, rest = (
            _digits(text, start, end - 6),
            _digits(text, end - 5, end - 3),
            _digits(text, end - 2, end),
        )
        if hours < 0 or end - 6 - start > DURATION_DIGITS or minutes < 0 or rest < 0:
            continue
        kinds[row] = READ
        seconds[row] = days * DAY_S + hours * 3600 + minutes * 60 + rest


@compiled(__file__)
def parse_job_ids(
    text: NDArray[np.uint8],
    spans: NDArray[np.int32],
    keys: NDArray[np.int64],
    components: NDArray[np.int32],
    kinds: NDArray[np.int8],
) -> None:
    """Fill `keys`, `components` and `kinds`, each (n,), from Slurm's JobID: 7, 7_3 (task of an array), 7+0 (component).

    Equal keys are equal texts before the plus; a component is -1 for none. Numbers with leading zeros are HARD.
    """
    for row in range(spans.shape[0]):
        start, end = spans[row, 0], spans[row, 1]
        kinds[row] = HARD
        components[row] = -1
        under = plus = end
        for at in range(start, end):
            if text[at] == 95 and under == end:
                under = at
            elif text[at] == 43:
                plus = at
        if plus < under < end:
            continue
        job = _digits(text, start, min(under, plus))
        if job < 0 or job >= 2**31 or (text[start] == 48 and min(under, plus) > start + 1):
            continue
        task = -1
        if under < end:
            task = _digits(text, under + 1, plus)
            if task < 0 or task >= 2**31 or (text[under + 1] == 48 and plus > under + 2):
                continue
        if plus < end:
            part = _digits(text, plus + 1, end)
            if part < 0 or part > 2**24 or (text[plus + 1] == 48 and end > plus + 2):
                continue
            components[row] = part
        keys[row] = (job << TASKS) | (task + 1)
        kinds[row] = READ


@compiled(__file__)
def intern(
    text: NDArray[np.uint8],
    spans: NDArray[np.int32],
    first: int,
    slots: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    pool: NDArray[np.uint8],
    ends: NDArray[np.int64],
    n_names: int,
    codes: NDArray[np.int32],
) -> Any:
    """Fill codes[first:] with the number of each text: (rows done, names); it stops where the names need more space.

    Args:
        text: bytes.
        spans: (n, 2), of the texts.
        first: the row to begin with.
        slots: in and out, (a power of two,): a name's number by its hash, -1 where free; at most half is filled.
        hashes: in and out, (>= names,).
        pool: in and out: the names' bytes, one after the other.
        ends: in and out, (>= names,): where each name ends in the pool.
        n_names: the number of names.
        codes: out, (n,).
    """
    mask = slots.size - 1
    for row in range(first, spans.shape[0]):
        start, end = spans[row, 0], spans[row, 1]
        value = np.uint64(14695981039346656037)  # FNV-1a
        for at in range(start, end):
            value = (value ^ np.uint64(text[at])) * np.uint64(1099511628211)
        value ^= value >> np.uint64(29)
        place = np.int64(value & np.uint64(mask))
        while True:
            name = slots[place]
            if name < 0:
                used = ends[n_names - 1] if n_names > 0 else 0
                if n_names >= ends.size or 2 * (n_names + 1) > slots.size or used + end - start > pool.size:
                    return row, n_names
                for at in range(start, end):
                    pool[used + at - start] = text[at]
                ends[n_names] = used + end - start
                hashes[n_names] = value
                slots[place] = n_names
                name = n_names
                n_names += 1
                break
            if hashes[name] == value:
                begin = ends[name - 1] if name > 0 else 0
                if ends[name] - begin == end - start:
                    same = True
                    for at in range(start, end):
                        if pool[begin + at - start] != text[at]:
                            same = False
                            break
                    if same:
                        break
            place = (place + 1) & mask
        codes[row] = name
    return spans.shape[0], n_names


@compiled(__file__)
def rehash(hashes: NDArray[np.uint64], n_names: int, slots: NDArray[np.int32]) -> None:
    """Fill `slots`, all -1, as `intern` does, with the numbers of the names that have these hashes."""
    mask = slots.size - 1
    for name in range(n_names):
        place = np.int64(hashes[name] & np.uint64(mask))
        while slots[place] >= 0:
            place = (place + 1) & mask
        slots[place] = name


@compiled(__file__)
def peak(starts: NDArray[np.uint64], ends: NDArray[np.uint64]) -> Any:
    """The most processors in use at once; those of a job are free at the instant it ends.

    Args:
        starts: (n,), sorted: each job's start in the upper 32 bits, its processors in the lower ones.
        ends: (n,), sorted: each job's end and processors, alike.
    """
    low = np.uint64(0xFFFFFFFF)
    used = most = np.int64(0)
    done = 0
    for row in range(starts.size):
        while done < ends.size and (ends[done] >> np.uint64(32)) <= (starts[row] >> np.uint64(32)):
            used -= np.int64(ends[done] & low)
            done += 1
        used += np.int64(starts[row] & low)
        most = max(most, used)
    return most
