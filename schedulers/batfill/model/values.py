"""Checks of a user's values: from what JSON or the command line gives to the value in use, or a line that says why not.

Loads no library that is slow to import, as `options` does not.
"""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from batfill.base.errors import LARGEST, BatfillError, PolicyError, nearest, whole_from

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


# The names of the policies of batfill.model.policy, and the forms of the others.
POLICY_NAMES = (
    *("fcfs", "lcfs", "spf", "lpf", "sqf", "lqf", "saf", "laf", "srf", "lrf", "sexp", "lexp", "wfp3", "unicef"),
    *("f1", "f2", "f3", "f4"),
)
MIXED, AGED, IN_FILE = "mixed:a,b,c,d,e,f", "aged:c,alpha,beta", "NAME@FILE.json"
MOST_S = 1e12  # no date or duration of a log exceeds it, as batfill.model.jobs.LONGEST_S says
GATE = "the gate"  # what a gate's dates are of, in place of a pool's name
MEMORY = "memory"  # the amount for which SWF has a column
TOO_MUCH = 2.0**54  # stands for any amount that is larger than every capacity
MOST_SAMPLES = 10_000  # resampled logs of a log; more is a mistake
UNITS_S = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
QUANTITY = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)([A-Za-z]*)")
PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21, "Y": 1e24}
SPEED_UNITS = {
    prefix + unit: scale for unit in ("f", "flops", "Flops", "") for prefix, scale in (PREFIXES | {"K": 1e3}).items()
}
DURATION = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([a-z]*)", re.ASCII)
PARTS = re.compile("(?a)" + "".join(rf"(?:(?P<{unit[0]}>\d+)\s*{unit}\s*)?" for unit in ("w", "d", "h", "m(in)?", "s")))
UNREQUESTED = ("refuse", "runtime", "none", "queue", "user-max")  # the words of batfill.model.jobs.Unrequested
NUMBER = re.compile(r"[+-]?(?:\d+|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)", re.ASCII | re.IGNORECASE)
WHOLE = re.compile(r"[+-]?\d{1,3999}", re.ASCII)  # Python converts no longer ones
ONE_OF = re.compile(r"1/([1-9]\d{0,5})", re.ASCII)
PER_CENT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*%", re.ASCII)


def quantity(text: str, units: Mapping[str, float]) -> float | None:
    """The number in this text times its unit's size; None if it is not a number with one of the units."""
    match = QUANTITY.fullmatch(text.strip())
    return float(match[1]) * units[match[2]] if match and match[2] in units else None


def of_numpy(value: Any) -> Any:
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value


def number_or_text(value: Any) -> Any:
    """A word of the command line as JSON has it: a number if it is one, in the digits 0 to 9 without separators."""
    word = value.strip() if isinstance(value, str) else ""
    if not NUMBER.fullmatch(word):
        return of_numpy(value)
    return int(word) if WHOLE.fullmatch(word) else float(word)


def is_finite(value: Any) -> bool:
    """Whether the value is a number that a float can hold."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def number_of(name: str, value: Any, least: float, most: float, rule: str, *, given: Any = None) -> float:
    """The value, a finite number from `least` to `most`; `rule` describes this range, and the message shows `given`."""
    number = of_numpy(value)
    if not is_finite(number) or not least <= number <= most:
        raise BatfillError(f"option {name}: {value if given is None else given!r:.60} is not {rule}")
    return float(number)


def speed_given(name: str, value: Any) -> float:
    number = quantity(value, SPEED_UNITS) if isinstance(value, str) else value
    rule = "a finite number of operations per second > 0, as 1e9 or 1Gf"
    return number_of(name, number, 1e-300, math.inf, rule, given=value)


def seconds_of(name: str, value: Any, *, least: float = 0.0, most: float = math.inf, or_else: str = "") -> float:
    """The value as a finite number of seconds, at least `least`: a number, or text such as 72000, 20h, 1.5d, 1d12h."""
    number = value = of_numpy(value)
    number = value.total_seconds() if hasattr(value, "total_seconds") else number
    text = value.strip().lower() if isinstance(value, str) else ""
    if (found := DURATION.fullmatch(text)) and found[2] in UNITS_S:
        number = float(found[1]) * UNITS_S[found[2]]
    elif text and (found := PARTS.fullmatch(text)):
        number = sum(float(part or 0) * UNITS_S[unit] for unit, part in found.groupdict().items())
    rule = f"a number of seconds {'> 0' if least else '>= 0'}, as 72000, 20h, 1d12h or 30min{or_else}"
    return number_of(name, number, least, most, rule + f", up to {most:g}" * (most < math.inf), given=value)


def part_of(name: str, value: Any, *, most: float = math.inf, positive: bool = False) -> float:
    """The value as a share from 0 to `most`: a number up to 1, also as text, or text such as 10% or 1/16."""
    text = value.strip() if isinstance(value, str) else ""
    number = number_or_text(value)
    if per_cent := PER_CENT.fullmatch(text):
        number = float(per_cent[1]) / 100
    elif positive and (below := ONE_OF.fullmatch(text)):
        number = 1 / int(below[1])
    elif is_finite(number) and number > 1:  # meant as per cent
        number = None
    rule = f"a share {'>' if positive else '>='} 0{' and at most 1' if most == 1 else ''}, as 10% or 0.1"
    return number_of(name, number, 1e-300 if positive else 0, most, rule, given=value)


probability_of = partial(part_of, most=1)  # a share of the whole
width_of = partial(part_of, most=1, positive=True)  # a share of the machine
tau_of = partial(seconds_of, "tau", least=1e-9)  # the bound of the bounded slowdown


def machines_of(name: str, value: Any) -> float:
    rule = "a number of machines > 0, as 32, or none"
    return number_of(name, number_or_text(value), 1e-9, math.inf, rule, given=value)


def number_from(name: str, value: Any, least: int = 1, remedy: str = "") -> int:
    """The value, which must be a whole number from `least` on; `remedy` ends the message."""
    number = of_numpy(value)
    if type(number) is not int or not least <= number <= LARGEST:
        raise BatfillError(f"option {name}: {value!r:.60} is not {whole_from(least)}{remedy}")
    return number


seed_of = partial(number_from, least=0, remedy="; try 0")  # random number generators accept all of these


def count_of(name: str, value: Any, *, least: int = 0, word: str = "all", example: int = 2) -> int | str:
    """The value as a number of jobs: a whole number from `least` on, also as text, or the word for no limit."""
    number = number_or_text(value)
    if isinstance(number, str) and number.strip().lower() == word:
        return word
    return number_from(name, number, least, f"; try {example}, or {word}")


def unrequested_of(name: str, value: Any) -> str | float:
    """What stands in for a missing request: one of UNREQUESTED, or a limit in seconds, whole if it is whole."""
    if isinstance(value, str) and value in UNREQUESTED:
        return value
    from batfill.model.jobs import LONGEST_S

    seconds = seconds_of(name, value, least=1e-9, or_else=f", nor one of {', '.join(UNREQUESTED)}")
    number_of(name, seconds, 0, LONGEST_S, f"at most {LONGEST_S:g} s", given=value)
    return int(seconds) if seconds == int(seconds) else seconds


def text_of(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BatfillError(f"option {name}: {value!r:.60} is not a name; try 'fcfs', or see `batfill policies`")
    return value


def one_of(name: str, value: Any, known: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in known:
        suggested = nearest(value, known) if isinstance(value, str) else ""
        raise BatfillError(f"option {name}: {value!r:.60} is none of {', '.join(known)}{suggested}")
    return value


def has_policy_name(text: str, names: Collection[str] = POLICY_NAMES) -> bool:
    """Whether this text is one of these names; other forms are for `policy_named` to read."""
    name, colon, _ = text.strip().lower().partition(":")
    if "@" in text or (colon and name in ("mixed", "aged")):
        return False
    if colon or name not in names:
        known = f"known are {', '.join(names)}, {IN_FILE}, {MIXED}, and {AGED}"
        raise PolicyError(f"policy {text!r} is unknown; {known}{nearest(name, names)}")
    return True


def function_of(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise BatfillError(f"argument {name}: {value!r:.60} is no function; leave it out, or give one")
    return value


def as_word(value: Any) -> str:
    """A value as in the `options` line of a text."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def finite(value: float) -> float | None:
    """The value; None if it is infinite, which means that an option is off."""
    return value if math.isfinite(value) else None
