"""Options: names, defaults and checks, the same for every host."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import pytest

from batfill.base.errors import BatfillError
from batfill.live.agent import Agent
from batfill.model import arguments
from batfill.model.options import ARGUMENTS, OPTIONS, Options, of_arguments, plans_machines
from batfill.model.policy import Policy
from batfill.model.values import part_of, tau_of
from golden_text import check


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
        ("1h30M", 5400),
        ("20m", 1200),
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
    path = Path(arguments.__file__)
    before, fields = path.read_text().split('default."""\n\n')
    made = "".join(f"    {name}: {types_of(option)}\n" for name, option in ARGUMENTS.items() if name != "policy")
    if os.environ.get("BATFILL_REWRITE"):
        path.write_text(f'{before}default."""\n\n{made}')
    else:
        assert fields == made


def test_every_default_of_the_table_is_accepted_and_stated():
    defaults = {name: option.default for name, option in OPTIONS.items() if not option.needs}
    assert Options.of(defaults).as_dict().items() >= defaults.items()
    of_others = ("overdue", "preempt", "preempt-exempt", "requeue-delay", "predict", "predict-for")
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


def test_a_share_above_the_whole_is_given_in_per_cent():
    assert (part_of("it", "250%"), part_of("it", "0.5"), part_of("it", 1)) == (2.5, 0.5, 1.0)
    for number in (2.5, "2.5", -0.1, "1/2"):
        with pytest.raises(BatfillError, match=r"is not a share >= 0, as 10% or 0\.1"):
            part_of("it", number)


@pytest.mark.parametrize("width", ["1/16", "6.25%", 0.0625])
def test_a_width_is_a_share_in_any_form_and_at_least_one_processor(width):
    options = Options.of({"small": "all", "small-width": width})
    assert [options.widest_try(size) for size in (8, 16, 31, 32, 100)] == [1, 1, 1, 2, 6]


def test_a_live_scheduler_states_what_its_head_reserves():
    assert Agent({}).stated()["reservation"] == "processors"
    assert Agent({"reservation": "machines"}).stated()["reservation"] == "machines"
    assert Agent({"reservation": "machines", "small": "all"}).stated()["kill"] == "always"
    assert Options.of({"reservation": "kept", "small": "all", "divider": 60}).kill == "always"


KEPT, SMALL = {"reservation": "kept"}, {"small": "all"}
URGENT = {"urgent": "queue=3"}
PREEMPT = {**URGENT, "preempt": "youngest"}
MISTAKEN = [
    *({"treshold": 1}, {"policy": 7}, {"policy": ["saf"]}, {"backfill": True}, {"policy": "same"}, {"plan": "scratch"}),
    *({"reservation": "machines"}, {"reservation": "machine"}, {"preset": "x"}, {"preset": "conservative_bf"}),
    *({**KEPT, "depth": 2}, {**KEPT, "max-running": 3}, {**KEPT, **SMALL, "kill": "needed"}, {"small": "some"}),
    *({"depth": "all", "backfill": "spf"}, {"depth": 0, "backfill": "spf"}, {"depth": 1.5}, {"tested": 0}),
    *({"predict": "magic"}, {"kill": "always"}, {"divider": 600}, {"small-width": 0.5}, {"small": "class"}),
    *({"small": "class", "divider": "median/4"}, {**SMALL, "kill": "never"}, {**SMALL, "kill": "yes"}),
    *({**SMALL, "small-width": "1/0"}, {**SMALL, "small-width": 6.25}, {**SMALL, "divider": "mean"}),
    *({**SMALL, "seed": 2}, {"small": "forest", "seed": 1.5}, {**SMALL, "predict": "easy++"}, {"predict-for": "all"}),
    *({"predict": "easy++", "predict-for": "some"}, {"overdue": "half"}, {"overdue": "small", "threshold": 5}),
    *({"predict": "easy++", "predict-for": "order", **order} for order in ({"policy": "wfp3"}, {"backfill": "sexp"})),
    *({"policy": f"aged:{numbers}"} for numbers in ("-1,1,1", "1,5,0", "1,0,-5", "nan,1,1", "1")),
    *({"policy": f"mixed:{numbers}"} for numbers in ("0,0,0,0,0,0", "1,2", "1,2,3,4,5,x")),
    *({**SMALL, "stand-back": 0}, {**SMALL, "kill": "always", "stand-back": 5}, {"max-running": "x"}),
    *({"urgent": word} for word in ("queue", "share:200%", "share:5%,seed=x", "list:no-such-file", 3)),
    *({"preempt": "youngest"}, {**URGENT, "preempt": "oldest"}, {**URGENT, "preempt-exempt": 60}, {**URGENT, **KEPT}),
    *({**PREEMPT, "preempt-exempt": "soon"}, {**PREEMPT, "requeue-delay": -1}, {**PREEMPT, "checkpoint": "1h,cost=x"}),
    *(
        {**PREEMPT, "requeue-delay": "1e300"},
        {**PREEMPT, "checkpoint": "60s,cost=1h"},
        {**PREEMPT, "checkpoint": "1e13"},
    ),
    *({**PREEMPT, "checkpoint": 0}, {"checkpoint": "1h"}, {**PREEMPT, "small": "forest"}),
]
LIVE = [
    *({"reservation": "machines", **SMALL, "kill": "needed"}, {"reservation": "machines", "select": "full"}),
    *({"plan": "x"}, {"unlimited": "x"}, {"plan": "kept"}, {"select": "full", "policy": "saf"}),
    *({**PREEMPT, "checkpoint": "1h"}, {"select": "full", **URGENT}, {"preset": "conservative_bf", **URGENT}),
    *({"reservation": "machines", **URGENT}, {**URGENT, "small": "forest"}),
]


@pytest.mark.parametrize(
    ("options", "idle"),
    [
        ({"predict": "easy++"}, "fcfs"),
        ({"predict": "runtime", "policy": "sqf"}, "sqf"),
        ({"predict": "easy++", "predict-for": "all"}, None),
        ({"predict": "easy++", "policy": "saf"}, None),
        ({"predict": "easy++", "backfill": "spf"}, None),
        ({"predict": "easy++", "policy": "wfp3"}, None),
        ({"predict": "easy++", "policy": "mixed:0,1,0,0,0,-1"}, None),  # of jobs on one processor alone it does nothing
        ({"predict": "easy++", "policy": Policy("long", key=lambda r, p, q: p > 4 * 3600)}, None),
        ({}, None),
    ],
)
def test_predictions_that_no_order_uses_are_said_to_do_nothing(options, idle):
    found = Options.of({"policy": "fcfs", **options}).warnings
    why = f"option predict did nothing: the order of {idle} is not by run times; choose predict-for all"
    assert [line.replace("easy++", "") for line in found] == ([why] if idle else [])


def test_a_mistaken_option_is_answered_with_what_it_may_be():
    said = []
    for given in [*MISTAKEN, *LIVE]:
        with pytest.raises(BatfillError) as refused:
            Agent(given) if given in LIVE else Options.of(given)
        said += [", ".join(f"{name} {value}" for name, value in given.items()), f"  {refused.value.on_command_line}"]
    check("refused-options", "\n".join(said))
    with pytest.raises(BatfillError, match="option plan: only `batfill schedule` and the plug-in take it"):
        of_arguments({"plan": "scratch"})
