"""Options in words, as results, pages and charts name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batfill.model.kinds import OFF
from batfill.model.options import ALL, LIVE, NO_PRESET, OPTIONS, PRESETS, named_values
from batfill.model.policy import order_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from batfill.model.kinds import Option


def described(given: Mapping[str, Any]) -> str:
    """The options in short: the preset or the policy, and each that is neither the default nor the preset's.

    >>> described({"policy": "saf", "backfill": "spf", "threshold": 200000})
    'saf, backfill spf, threshold 200000 s'
    >>> from batfill.model.options import Options
    >>> described(Options.of({"preset": "first-tries", "threshold": "20h"}).as_dict())
    'first-tries, threshold 72000 s'
    """
    first = "policy" if (given.get("preset") or NO_PRESET) == NO_PRESET else "preset"
    parts = [str(given.get(first, OPTIONS[first].default))]
    parts += [f"{name} {option.with_unit(value)}" for name, option, value in unusual(given) if name != first]
    return ", ".join(parts)


def unusual(given: Mapping[str, Any]) -> Iterator[tuple[str, Option, Any]]:
    """Name, row and value of these options that are neither the default nor the preset's; not the preset itself."""
    usual_ones = named_values(given)
    for name, option in (OPTIONS | LIVE).items():
        value = given.get(name)
        if name != "preset" and value is not None and value != usual_ones.get(name, option.default):
            yield name, option, value


def policy_words(given: Mapping[str, Any] | str) -> tuple[str, str]:
    """The name in words of these options, or of a policy, and the short one for charts.

    >>> policy_words("spf"), policy_words({"policy": "saf", "threshold": 86400})
    (('Shortest first', 'spf'), ('Smallest area first, 24 h threshold', 'saf + 24 h'))
    >>> policy_words({"policy": "fcfs", "depth": "all", "backfill": "saf"})
    ('First come, first served, backfill saf, every job reserved', 'fcfs, backfill saf, every job reserved')
    """
    given = {"policy": given} if isinstance(given, str) else given
    preset = given.get("preset") or NO_PRESET
    named = preset in PRESETS and PRESETS[preset].title
    policy = str(given.get("policy", OPTIONS["policy"].default))
    long, short = (named, preset.replace("-", " ")) if named else order_words(policy)
    if preset != NO_PRESET and not named:
        long, short = f"{long}, preset {preset}", f"{short}, preset {preset}"
    for name, option, value in unusual(given):
        if name == "policy" and not named:
            continue
        if name == "threshold" and value != OFF:
            long, short = f"{long}, {threshold_text(value)} threshold", f"{short} + {threshold_text(value)}"
        else:
            words = (
                RESERVED.get(value, f"{value} reservations") if name == "depth" else f"{name} {option.with_unit(value)}"
            )
            long, short = f"{long}, {words}", f"{short}, {words}"
    return long, short


RESERVED = {0: "no reservation", ALL: "every job reserved"}


def threshold_text(seconds: float) -> str:
    """Whole hours or minutes if exact, else seconds, so that different thresholds have different texts."""
    unit_s, unit = next((one for one in ((3600, "h"), (60, "min")) if seconds % one[0] == 0), (1, "s"))
    return f"{seconds / unit_s:,.12g} {unit}"
