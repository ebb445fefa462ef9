"""Durations in words."""

from __future__ import annotations

import pytest

from batfill.base.words import duration


@pytest.mark.parametrize(
    ("seconds", "cut", "up"),
    [
        (0, "0 s", "0 s"),
        (0.4, "0 s", "1 s"),
        (59.9, "59 s", "1 min"),
        (60, "1 min", "1 min"),
        (3599, "59 min 59 s", "59 min 59 s"),
        (3600 - 1e-9, "1 h", "1 h"),
        (3601, "1 h", "1 h 1 min"),
        (13_199, "3 h 39 min", "3 h 40 min"),
        (86_399, "23 h 59 min", "1 d"),
        (3 * 86_400 + 3599, "3 d", "3 d 1 h"),
        (54 * 86_400 + 6 * 3600, "54 d 6 h", "54 d 6 h"),
        (3650 * 86_400, "3,650 d", "3,650 d"),
    ],
)
def test_a_duration_has_its_two_largest_units_without_a_zero(seconds, cut, up):
    assert (duration(seconds), duration(seconds, up=True)) == (cut, up)
    assert duration(-seconds) == (f"-{cut}" if cut != "0 s" else cut)
