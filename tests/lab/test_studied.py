"""The settings of papers' studies: outside the scheduler's table, checked, and stated where they are not the usual."""

from __future__ import annotations

import pytest

from batfill.base.errors import BatfillError
from batfill.model.options import OPTIONS, Options, Study
from batfill_lab.studied import STUDIED, stated, studied


def test_the_settings_are_beside_the_options_and_change_none_of_them():
    given = {"policy": "saf", "small": "all", "kill": "always"}
    options = studied({**given, "bound": False, "regime": "decoupled", "divider-rule": "week"})
    assert options.study == Study(bound=False, regime="decoupled", divider_rule="week")
    assert stated(options) == {"bound": False, "regime": "decoupled", "divider-rule": "week"}
    assert options.as_dict() == Options.of(given).as_dict()
    assert (options.bound, Options.of(given).bound, stated(studied(given))) == (False, True, {})
    assert not STUDIED.keys() & OPTIONS.keys()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"regime": "stale"}, "regime: 'stale' is none of fresh, decoupled"),
        ({"bound": "perhaps"}, "bound"),
        ({"divider-rule": "month"}, "divider.rule: 'month' is none of known, week"),
    ],
)
def test_a_value_of_a_setting_is_checked_and_the_scheduler_knows_none(given, says):
    with pytest.raises(BatfillError, match=says):
        studied({"small": "forest", **given})
    with pytest.raises(BatfillError, match=r"is unknown"):
        Options.of({"small": "forest", **given})
