"""Options: names, defaults and checks, the same for every host."""

from __future__ import annotations

import math

import pytest

from batfill.errors import BatfillError
from batfill.options import NAMES, Options


def test_the_defaults_are_easy_fcfs():
    for given in ({}, dict.fromkeys(("backfill", "threshold", "divider")), {"backfill": "same"}):
        options = Options.of(given)
        assert options.policy.name == "fcfs"
        assert (options.backfill, options.threshold_s, options.divider_s) == (None, math.inf, math.inf)


def test_every_option_is_taken():
    given = {"policy": "saf", "backfill": "mixed:0,1,0,0,0,0", "threshold": 200_000, "divider": 0.5}
    options = Options.of(given)
    assert options.policy.name == "saf"
    assert options.backfill.name == "mixed:0,1,0,0,0,0"
    assert (options.threshold_s, options.divider_s) == (200_000, 0.5)


def test_a_threshold_of_zero_is_a_threshold():
    assert Options.of({"threshold": 0}).threshold_s == 0


@pytest.mark.parametrize("name", ["threshold", "divider"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "inf", "nan", "-5", "7 apples", "", True, [1], {}])
def test_seconds_must_be_a_number_that_is_not_negative(name, value):
    with pytest.raises(BatfillError, match=f"option {name}: .* is not a number of seconds"):
        Options.of({name: value})


@pytest.mark.parametrize("name", ["policy", "backfill"])
@pytest.mark.parametrize("value", [7, ["saf"], True])
def test_a_policy_must_be_a_name(name, value):
    with pytest.raises(BatfillError, match=f"option {name}: .* is not a name"):
        Options.of({name: value})


def test_the_backfill_order_may_not_be_called_same_as_a_policy():
    with pytest.raises(BatfillError, match="policy 'same' is unknown"):
        Options.of({"policy": "same"})


def test_an_unknown_option_is_answered_with_the_known_ones():
    with pytest.raises(BatfillError, match=f"option 'treshold' is unknown; known are {', '.join(NAMES)}"):
        Options.of({"treshold": 1})
