"""Durations in words."""

from __future__ import annotations

import pytest

from batfill.base.words import duration, percent
from batfill_pages.words import growth, signed, slowdown
from batfill_site.advice.fill import percent as percent_of_what_if
from batfill_site.score import percent as percent_of_fidelity


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


@pytest.mark.parametrize(
    ("share", "words"),
    [
        *((0, "0 %"), (1e-9, "under 0.01 %"), (0.0004, "0.04 %"), (0.0521, "5.2 %"), (0.05, "5 %"), (0.105, "11 %")),
        *((0.995, "99.5 %"), (0.99999, "99.9 %"), (1, "100 %"), (2.77, "277 %")),
    ],
)
def test_a_share_is_rounded_by_one_rule_on_every_page(share, words):
    assert percent(share) == words == percent_of_fidelity(share) == percent_of_what_if(share).replace("\u00a0", " ")


def test_no_difference_is_minus_nothing():
    assert [slowdown(value) for value in (-0.04, -0.001, 0.0, 9.96, -29.4)] == ["−0.04", "0", "0", "10", "−29"]
    assert [signed(value) for value in (-0.001, 0.04)] == ["0", "+0.04"]
    assert growth(600, 3 * 86_400).replace("\u00a0", " ") == "+10 min (+0.2 %)"
    assert growth(0, 60) == "as long"
