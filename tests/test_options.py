"""Options: names, defaults and checks, the same for every host."""

from __future__ import annotations

import math
import re
import subprocess
import sys

import pytest

from batfill.cluster.agent import Agent
from batfill.errors import BatfillError
from batfill.options import NAMES, OPTIONS, Options, of_arguments, tau_of


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
    with pytest.raises(BatfillError) as refused:
        Options.of({name: value})
    assert re.match(f"option {name}: .* is not a number of seconds", refused.value.on_command_line)
    assert re.match(f"option {name}_s: .* is not a number of seconds", str(refused.value))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("72000", 72_000),
        ("20h", 72_000),
        ("3d", 259_200),
        ("30min", 1800),
        ("1.5h", 5400),
        ("90 s", 90),
        ("2W", 1_209_600),
    ],
)
def test_a_duration_may_carry_a_unit(text, seconds):
    assert Options.of({"threshold": text, "divider": text}).threshold_s == seconds
    assert tau_of(text) == seconds


def test_the_table_loads_no_library_that_is_slow_to_import():
    slow = {"numpy", "numba", "scipy", "sklearn", "pydantic", "matplotlib", "pandas"}
    program = f"import sys, batfill.options; print(*({slow} & sys.modules.keys()))"
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert said.stdout.strip() == ""


def test_every_default_of_the_table_is_accepted_and_stated():
    defaults = {name: option.default for name, option in OPTIONS.items() if not option.needs}
    assert Options.of(defaults).as_dict().items() >= defaults.items()
    learned = {"knowledge": "classifier", "kill": True, "bound": True}
    of_others = ("divider", "overdue-before", "predictions", "limits")
    defaults = {name: option.default for name, option in OPTIONS.items() if name not in of_others} | learned
    assert Options.of(defaults).as_dict() == {**defaults, **dict.fromkeys(of_others)}


def test_options_that_do_nothing_at_a_cut_of_zero_are_remarked_on():
    given = {"knowledge": "classifier", "cut": 0, "train": "drift"}
    assert Options.of(given).remarks == ("option train has no effect at cut 0 without a limit: no forest is trained",)
    assert Options.of({**given, "kill": True, "max-waste": 0.1}).remarks == ()


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("geometric:3", "geometric:3"),
        (" geometric:3,1", "geometric:3"),
        ("geometric:8.16, random", "geometric:8.16,random"),
        ("geometric:2,10min,random", "geometric:2,600,random"),
    ],
)
def test_geometric_levels_are_stated_as_they_are_written(text, stated):
    given = {"knowledge": "classifier", "levels": text}
    options = Options.of(given)
    assert options.as_dict()["levels"] == stated
    assert options.as_dict()["divider-rule"] is None
    assert Options.of(options.as_dict()) == options
    assert f"levels {stated}" in options.as_text()
    assert "divider-rule" not in options.as_text()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"levels": "geometric:1.1"}, "option levels: 'geometric:1.1' has 182 dividers up to a year, and 100 are"),
        ({"levels": "geometric:3", "divider-rule": "known"}, "option divider-rule: geometric:3 does not learn"),
        ({"levels": "geometric:3", "regime": "weekly"}, "option regime: weekly and fresh differ only in learned"),
        (
            {"levels": "geometric:3,random", "knowledge": "class-clairvoyant"},
            "option levels: random dividers take the seed of knowledge classifier; write geometric:3",
        ),
    ],
)
def test_what_has_no_effect_on_geometric_levels_is_refused(given, says):
    with pytest.raises(BatfillError) as refused:
        Options.of({"knowledge": "classifier", **given})
    assert refused.value.on_command_line.startswith(says)


@pytest.mark.parametrize(
    "text", ["", "1", "nan", "inf", "x", "3,0", "3,2y", "3,400d", "3,4,5", "random", "3,random,5", "3,random,random"]
)
def test_a_text_that_is_no_geometric_levels_is_refused(text):
    with pytest.raises(BatfillError, match=f"option levels: 'geometric:{text}' is not geometric:B with a factor B > 1"):
        Options.of({"knowledge": "classifier", "levels": f"geometric:{text}"})


def test_at_a_cut_of_zero_geometric_levels_leave_a_regime_nothing_to_do():
    given = {"knowledge": "classifier", "cut": 0, "levels": "geometric:3", "regime": "decoupled"}
    assert Options.of(given).remarks == ("option regime has no effect at cut 0 without a limit: no forest is trained",)
    assert Options.of({**given, "cut": 0.5}).remarks == ()


@pytest.mark.parametrize("name", ["policy", "backfill"])
@pytest.mark.parametrize("value", [7, ["saf"], True])
def test_a_policy_must_be_a_name(name, value):
    with pytest.raises(BatfillError, match=f"option {name}: .* is not a name"):
        Options.of({name: value})


def test_the_backfill_order_may_not_be_called_same_as_a_policy():
    with pytest.raises(BatfillError, match="policy 'same' is unknown"):
        Options.of({"policy": "same"})


def test_what_only_a_live_scheduler_takes_is_refused_elsewhere_with_the_reason():
    said = "option reservation: only `batfill schedule` and the plug-in take it, as a replay counts processors"
    for refused in (Options.of, of_arguments):
        with pytest.raises(BatfillError, match=said):
            refused({"reservation": "processors"})


def test_a_live_scheduler_states_what_its_head_reserves():
    assert Agent({}).stated()["reservation"] == "processors"
    assert Agent({"reservation": "machines"}).stated()["reservation"] == "machines"
    with pytest.raises(
        BatfillError, match="option reservation: 'machine' is none of processors, machines; did you mean"
    ):
        Agent({"reservation": "machine"})
    with pytest.raises(BatfillError, match="option select: its replays reserve processors"):
        Agent({"reservation": "machines", "select": "full"})


def test_an_unknown_option_is_answered_with_the_known_ones():
    with pytest.raises(BatfillError) as refused:
        Options.of({"treshold": 1})
    assert f"option 'treshold' is unknown; known are {', '.join(NAMES)}" in refused.value.on_command_line
