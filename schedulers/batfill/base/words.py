"""Durations as people say them."""

from __future__ import annotations

import math

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
