"""Options: names, defaults and checks, the same for every host."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from batfill.base.errors import BatfillError
from batfill.live.agent import Agent
from batfill.model import arguments
from batfill.model.options import ARGUMENTS, OPTIONS, Options, of_arguments, plans_machines
from batfill.model.values import tau_of


def test_the_defaults_are_easy_fcfs():
    for given in ({}, dict.fromkeys(("backfill", "threshold", "small")), {"backfill": "same", "small": "none"}):
        options = Options.of(given)
        assert options.policy.name == "fcfs"
        assert (options.backfill, options.threshold_s, options.divider_s) == (None, math.inf, math.inf)


@pytest.mark.parametrize("name", ["threshold", "divider"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "inf", "nan", "-5", "7 apples", "", True, [1], {}])
def test_seconds_must_be_a_number_that_is_not_negative(name, value):
    with pytest.raises(BatfillError) as refused:
        Options.of({"small": "all", name: value})
    assert re.match(f"option {name}: .* is not a (number of seconds|duration)", refused.value.on_command_line)
    assert re.match(f"option {OPTIONS[name].argument}: .* is not a (number of seconds|duration)", str(refused.value))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("72000", 72_000),
        ("20h", 72_000),
        ("1d12h", 129_600),
        (" 1 d 12 h ", 129_600),
        ("3 h 39 min", 13_140),
        ("3d", 259_200),
        ("30min", 1800),
        ("1.5h", 5400),
        ("90 s", 90),
        ("2W", 1_209_600),
    ],
)
def test_a_duration_may_carry_a_unit(text, seconds):
    assert Options.of({"threshold": text, "small": "class", "divider": text, "kill": "always"}).threshold_s == seconds
    assert tau_of(text) == seconds


TRIES = {"small": "forest", "kill": "needed"}


@pytest.mark.parametrize(
    "value", ["1_000", "\uff11\uff12", "\u0661\u0662", "9" * 310, 10**310, f"1e{'9' * 9}", "0x10", "1 000"]
)
@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if not option.kind.choices])
def test_a_number_is_in_the_digits_0_to_9_and_a_float_can_hold_it(name, value):
    given = {name: value} if name == "policy" else {**TRIES, name: value}
    with pytest.raises(BatfillError) as refused:
        Options.of(given)
    assert len(str(refused.value)) < 1000
    for form in ("mixed:{},0,0,0,0,0", "aged:{},1,1"):
        with pytest.raises(BatfillError):
            Options.of({"policy": form.format(value)})


def test_the_word_for_none_counts_as_given_and_a_check_never_gives_none():
    for name, option in OPTIONS.items():
        if option.off is not None:
            assert option.check(name, f" {option.off.upper()}") == option.off
            assert Options.of({name: option.off}) == Options.of({})


def types_of(option):
    """What Python takes as a value of the option, for type checkers; a preset for live schedulers alone is none."""
    known = [f'"{word}"' for word in option.kind.choices if not plans_machines(word)]
    return " | ".join(
        [*([f"Literal[{', '.join(known)}]"] if known else []), *filter(None, [option.kind.typed]), "None"]
    )


def test_type_checkers_read_what_the_rows_of_the_options_say():
    _, fields = Path(arguments.__file__).read_text().split('default."""\n\n')
    made = [f"    {name}: {types_of(option)}\n" for name, option in ARGUMENTS.items() if name != "policy"]
    assert fields == "".join(made), f"the fields are now\n{''.join(made)}"


def test_every_default_of_the_table_is_accepted_and_stated():
    defaults = {name: option.default for name, option in OPTIONS.items() if not option.needs}
    assert Options.of(defaults).as_dict().items() >= defaults.items()
    of_others = ("overdue", "predict", "predict-for")
    defaults = {name: option.default for name, option in OPTIONS.items()} | {"small": "forest"}
    assert Options.of(defaults).as_dict() == {**defaults, **dict.fromkeys(of_others)}


@pytest.mark.parametrize(
    ("given", "stated"),
    [
        ({"small": "class", "divider": 600}, {"kill": "needed", "divider": 600.0}),
        ({"small": "all"}, {"kill": "needed", "divider": "median", "seed": None}),
        ({"small": "perfect", "kill": "never", "divider": "median/1"}, {"kill": "never", "divider": "median"}),
        ({"predict": "easy++"}, {"predict-for": "order", "kill": None}),
        ({"predict": "easy++", "policy": "wfp3"}, {"predict-for": "all"}),
        ({"predict": "easy++", "backfill": "sexp"}, {"predict-for": "all"}),
    ],
)
def test_what_is_not_given_follows_from_what_is(given, stated):
    options = Options.of(given)
    assert options.as_dict().items() >= stated.items()
    assert Options.of(options.as_dict()) == options


@pytest.mark.parametrize("width", ["1/16", "6.25%", 0.0625])
def test_a_width_is_a_share_in_any_form_and_at_least_one_processor(width):
    options = Options.of({"small": "all", "small-width": width})
    assert [options.widest_try(size) for size in (8, 16, 31, 32, 100)] == [1, 1, 1, 2, 6]


@pytest.mark.parametrize("name", ["policy", "backfill"])
@pytest.mark.parametrize("value", [7, ["saf"], True])
def test_a_policy_must_be_a_name(name, value):
    with pytest.raises(BatfillError, match=f"option {name}: .* is not a name"):
        Options.of({name: value})


def test_the_backfill_order_may_not_be_called_same_as_a_policy():
    with pytest.raises(BatfillError, match="policy 'same' is unknown"):
        Options.of({"policy": "same"})


def test_what_only_a_live_scheduler_takes_is_refused_elsewhere_with_the_reason():
    said = "only `batfill schedule` and the plug-in take it, as a replay counts processors"
    for refused in (Options.of, of_arguments):
        with pytest.raises(BatfillError, match=f"option plan: {said}"):
            refused({"plan": "scratch"})
    with pytest.raises(BatfillError, match=f"option reservation machines: {said}"):
        Options.of({"reservation": "machines"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"depth": 2},
            "backfill.while, max.running, pool, energy.budget: with reservation kept one job of all that wait",
        ),
        (
            {"max-running": 3},
            "options depth, tested, calendar, backfill.while, max.running, pool, energy.budget: with reservation kept",
        ),
        ({"small": "all", "kill": "needed"}, "option kill: needed compares reservations of processors; choose always"),
    ],
)
def test_what_makes_the_reservation_anew_is_refused_where_it_is_kept(given, said):
    with pytest.raises(BatfillError, match=said):
        Options.of({"reservation": "kept", **given})
    assert Options.of({"reservation": "kept", "small": "all", "divider": 60}).kill == "always"


def test_a_live_scheduler_states_what_its_head_reserves():
    assert Agent({}).stated()["reservation"] == "processors"
    assert Agent({"reservation": "machines"}).stated()["reservation"] == "machines"
    assert Agent({"reservation": "machines", "small": "all"}).stated()["kill"] == "always"
    with pytest.raises(BatfillError, match="option kill: needed compares reservations"):
        Agent({"reservation": "machines", "small": "all", "kill": "needed"})
    with pytest.raises(
        BatfillError, match="option reservation: 'machine' is none of processors, kept, machines; did you mean"
    ):
        Agent({"reservation": "machine"})
    with pytest.raises(BatfillError, match="option select: its replays reserve processors"):
        Agent({"reservation": "machines", "select": "full"})


def test_an_unknown_option_is_answered_with_the_known_ones():
    with pytest.raises(BatfillError) as refused:
        Options.of({"treshold": 1})
    assert f"option 'treshold' is unknown; known are {', '.join(OPTIONS)}" in refused.value.on_command_line
