"""Checks of a user's values: from what JSON or the command line gives to the value in use, or a line that says why not.

Loads no library that is slow to import, as `options` does not.
"""

from __future__ import annotations

import math
import re
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
MOST_SAMPLES = 10_000  # resampled logs of a log; more is a mistake
UNITS_S = {"": 1, "s": 1, "sec": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
QUANTITY = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)([A-Za-z]*)")
PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21, "Y": 1e24}
SPEED_UNITS = {
    prefix + unit: scale for unit in ("f", "flops", "Flops", "") for prefix, scale in (PREFIXES | {"K": 1e3}).items()
}
DURATION = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([a-z]*)", re.ASCII)
PARTS = re.compile("".join(rf"(?:(?P<{unit}>\d+)\s*{unit}\s*)?" for unit in ("w", "d", "h", "min", "s")), re.ASCII)
UNREQUESTED = ("refuse", "runtime", "none", "queue", "user-max")  # the words of batfill.model.jobs.Unrequested
NUMBER = re.compile(r"[+-]?(?:\d+|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)", re.ASCII | re.IGNORECASE)
WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
MOST_DIGITS = 4000  # of a whole number; Python converts no more of them
ONE_OF = re.compile(r"1/([1-9]\d{0,5})", re.ASCII)
PER_CENT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*%", re.ASCII)


def quantity(text: str, units: Mapping[str, float]) -> float | None:
    """The number in this text times its unit's size; None if it is not a number with one of the units."""
    match = QUANTITY.fullmatch(text.strip())
    return float(match[1]) * units[match[2]] if match and match[2] in units else None


def speed_given(name: str, value: Any) -> float:
    """A speed in operations per second, from a number or text such as 1Gf."""
    rule = "a finite number of operations per second > 0, as 1e9 or 1Gf"
    return number_of(
        name, quantity(value, SPEED_UNITS) or value if isinstance(value, str) else value, 1e-300, math.inf, rule
    )


def seconds_of(name: str, value: Any, *, least: float = 0.0) -> float:
    """The value as a finite number of seconds, at least `least`: a number, or text such as 72000, 20h, 1.5d, 1d12h.

    Raises:
        BatfillError: it is something else.
    """
    value = of_numpy(value)
    number = value.total_seconds() if hasattr(value, "total_seconds") else value
    if isinstance(value, str) and (found := DURATION.fullmatch(value.strip().lower())) and found[2] in UNITS_S:
        number = float(found[1]) * UNITS_S[found[2]]
    elif isinstance(value, str) and value.strip() and (found := PARTS.fullmatch(value.strip().lower())):
        number = sum(float(part or 0) * UNITS_S[unit] for unit, part in found.groupdict().items())
    return number_of(
        name,
        number,
        least,
        math.inf,
        f"a number of seconds {'>= 0' if least == 0 else '> 0'}, as 72000, 20h, 1d12h or 30min",
    )


def of_numpy(value: Any) -> Any:
    """The value in Python's type if it is a number of NumPy, and as it is otherwise."""
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value


def number_or_text(value: Any) -> Any:
    """A word of the command line as JSON has it: a number if it is one, in the digits 0 to 9 without separators."""
    word = value.strip() if isinstance(value, str) else ""
    if not NUMBER.fullmatch(word):
        return value
    return int(word) if WHOLE.fullmatch(word) and len(word) < MOST_DIGITS else float(word)


def is_finite(value: Any) -> bool:
    """Whether the value is a number that a float can hold."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def number_of(name: str, value: Any, least: float, most: float, rule: str) -> float:
    """The value, which must be a finite number from `least` to `most`; `rule` describes this range."""
    value = of_numpy(value)
    if not is_finite(value) or not least <= value <= most:
        raise BatfillError(f"option {name}: {value!r:.60} is not {rule}")
    return float(value)


def part_of(name: str, value: Any, *, most: float = math.inf, positive: bool = False) -> float:
    """The value as a share from 0 to `most`: a number such as 0.1, also as text, or text such as 10%."""
    per_cent = PER_CENT.fullmatch(value.strip()) if isinstance(value, str) else None
    number = float(per_cent[1]) / 100 if per_cent else number_or_text(of_numpy(value))
    rule = f"a share {'>' if positive else '>='} 0{' and at most 1' if most == 1 else ''}, as 10% or 0.1"
    wrong = not is_finite(number)
    if per_cent is None and not wrong and 1 < number <= 100 * most:
        raise BatfillError(f"option {name}: {value!r:.60} is more than the whole; write {value}% for per cent")
    if wrong or not 0 <= number <= most or (positive and number == 0):
        raise BatfillError(f"option {name}: {value!r:.60} is not {rule}")
    return float(number)


def probability_of(name: str, value: Any) -> float:
    """The value as a share of the whole, as for `part_of`."""
    return part_of(name, value, most=1)


def width_of(name: str, value: Any) -> float:
    """The value as a share of the machine above 0, as for `part_of`, or as 1/16."""
    if isinstance(value, str) and (found := ONE_OF.fullmatch(value.strip())):
        return 1 / int(found[1])
    return part_of(name, value, most=1, positive=True)


def tau_of(value: Any) -> float:
    """The bound of the bounded slowdown, in seconds.

    Raises:
        BatfillError: it is not a finite number > 0.
    """
    return seconds_of("tau", value, least=1e-9)


def text_of(name: str, value: Any) -> str:
    """The value, which must be text."""
    if not isinstance(value, str):
        raise BatfillError(f"option {name}: {value!r:.60} is not a name; try 'fcfs', or see `batfill policies`")
    return value


def one_of(name: str, value: Any, known: Sequence[str]) -> str:
    """The value, which must be one of these."""
    if not isinstance(value, str) or value not in known:
        suggested = nearest(value, known) if isinstance(value, str) else ""
        raise BatfillError(f"option {name}: {value!r:.60} is none of {', '.join(known)}{suggested}")
    return value


def truth(name: str, value: Any) -> bool:
    """The value, which must be true or false."""
    if not isinstance(value, bool):
        raise BatfillError(f"option {name}: {value!r:.60} is neither true nor false")
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


def noise_of(name: str, value: Any) -> float | str:
    """The value as "walltime" or a number >= 0."""
    if value == "walltime":
        return "walltime"
    return number_of(name, number_or_text(value), 0, math.inf, "walltime or a number >= 0, as 0.5")


def machines_of(name: str, value: Any) -> float:
    """The value as a number of machines > 0, also as text."""
    number = number_or_text(of_numpy(value))
    return number_of(name, number, 1e-9, math.inf, "a number of machines > 0, as 32, or none")


def unrequested_of(name: str, value: Any) -> str | float:
    """What stands in for a missing request: one of UNREQUESTED, or a limit in seconds, whole if it is a whole number.

    Raises:
        BatfillError: it is neither.
    """
    if isinstance(value, str) and value in UNREQUESTED:
        return value
    from batfill.model.jobs import LONGEST_S

    try:
        seconds = number_of(name, seconds_of(name, value, least=1e-9), 0, LONGEST_S, "")
    except BatfillError:
        raise BatfillError(
            f"option {name}: {value!r:.60} is none of {', '.join(UNREQUESTED)}, nor a limit > 0 such as 3600 or 24h"
        ) from None
    return int(seconds) if seconds == int(seconds) else seconds


def number_from(name: str, value: Any, least: int = 1, remedy: str = "") -> int:
    """The value, which must be a whole number from `least` on; `remedy` ends the message."""
    number = of_numpy(value)
    if type(number) is not int or not least <= number <= LARGEST:
        raise BatfillError(f"option {name}: {value!r:.60} is not {whole_from(least)}{remedy}")
    return number


def function_of(name: str, value: Any) -> Any:
    """The value of an argument, which must be a function, or None."""
    if value is not None and not callable(value):
        raise BatfillError(f"argument {name}: {value!r:.60} is no function; leave it out, or give one")
    return value


def seed_of(name: str, value: Any) -> int:
    """The value, which must be a whole number that all random number generators accept."""
    return number_from(name, value, 0, "; try 0")


def count_of(name: str, value: Any, *, least: int = 0, word: str = "all", example: int = 2) -> int | str:
    """The value as a number of jobs: a whole number from `least` on, also as text, or the word for no limit."""
    number = number_or_text(of_numpy(value))
    if isinstance(number, str) and number.strip().lower() == word:
        return word
    if type(number) is not int or not least <= number <= LARGEST:
        raise BatfillError(f"option {name}: {value!r:.60} is neither {whole_from(least)} nor {word}; try {example}")
    return number


def as_word(value: Any) -> str:
    """A value as in the `options` line of a text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def finite(value: float) -> float | None:
    """The value; None if it is infinite, which means that an option is off."""
    return value if math.isfinite(value) else None
