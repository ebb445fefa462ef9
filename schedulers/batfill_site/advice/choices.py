"""What `what_if` tries: the choices and their configurations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.errors import BatfillError
from batfill.model.jobs import HOUR_S, Jobs
from batfill.model.kinds import plain_value
from batfill.model.limits import DATED
from batfill.model.option_texts import policy_words
from batfill.model.options import (
    FIRST_TRIES,
    OPTIONS,
    PRESETS,
    SHARED_BY_CHOICES,
    SHARED_BY_ORDERS,
    SHARED_BY_TRIES,
    Options,
    of_arguments,
    with_preset,
)
from batfill.model.values import seconds_of
from batfill.replays.replay import simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from batfill.model.schedule import Schedule

THRESHOLDS_S = tuple(float(HOUR_S) * hours for hours in (6, 12, 24, 48, 96))
# Options that the choices share, if they take them.
SHARED = (*SHARED_BY_CHOICES, *SHARED_BY_ORDERS, *SHARED_BY_TRIES)
OF_TRIES = {name: value for name, value in PRESETS[FIRST_TRIES].values.items() if name in SHARED_BY_TRIES}
USUAL = {name: OPTIONS[name].default for name in SHARED} | OF_TRIES
TODAY, ORDER, THRESHOLD, KILLS = range(4)  # effort a choice requires of a site, least first
NEEDS = (  # by effort
    *("the order of arrival", "another order", "an order with a threshold of waiting time"),
    "that the batch system may kill jobs and queue them again",
)


class Choice(NamedTuple):
    """A way to schedule: its name, the name in words, its options for `Options.of`, and the effort it requires."""

    name: str
    words: str
    options: dict[str, Any]
    effort: int

    def takes(self, name: str) -> bool:
        return bool(those_that_apply({name: None}, self.options))

    def without(self, names: Collection[str]) -> Choice:
        """The same without these options; without pools, their windows are not in its calendar either."""
        options = {name: value for name, value in self.options.items() if name not in names}
        if "pool" in names and (calendar := options.get("calendar")) is not None:
            windows = tuple(window for window in calendar.windows if not window.pool)
            options["calendar"] = replace(calendar, windows=windows)
        return self._replace(options=options)

    def replay(self, jobs: Jobs, workload: Jobs, advance: Callable[[float], None]) -> Schedule:
        """The schedule of these jobs under it; `advance` is called with the share replayed since the last call."""
        return simulate(jobs, workload, Options.of(self.options), lambda n: advance(n / len(jobs)))[0]


def choices(thresholds_s: Sequence[float], small_first: bool, shared: Mapping[str, Any]) -> list[Choice]:
    """fcfs, first tries, spf, saf, and saf with thresholds; `shared`: options of SHARED, for those that take them."""
    for seconds in thresholds_s:
        seconds_of("threshold", seconds, least=1e-9)
    tried: list[tuple[dict[str, Any], int]] = [
        ({"policy": "fcfs"}, TODAY),
        *([({"preset": FIRST_TRIES}, KILLS)] if small_first else []),
        *(({"policy": name}, ORDER) for name in ("spf", "saf")),
        *(({"policy": "saf", "threshold": seconds}, THRESHOLD) for seconds in sorted(set(thresholds_s))),
    ]
    found = []
    for options, effort in tried:
        words, name = policy_words(options)
        its = {name: value for name, value in shared.items() if effort != TODAY or name not in SHARED_BY_ORDERS}
        found.append(Choice(name, words, those_that_apply(its, options) | options, effort))
        Options.of(found[-1].options)  # rejects mistakes before anything runs
    for name, value in shared.items():
        if not any(choice.takes(name) for choice in found) and value != OPTIONS[name].default:
            missing = "a threshold" if small_first else "small jobs first"
            raise BatfillError(f"option {name}: no choice takes it without {missing}; leave it out")
    return found


def shared_of(arguments: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """As `of_arguments`, for replays that share these options and have their own values of the others; None is dropped.

    Values are as in results, but for those with dates, which may be in no file.
    """
    given = of_arguments({name: value for name, value in arguments.items() if value is not None})
    if other := [name for name in given if name not in names]:
        shared = ", ".join(OPTIONS[name].argument for name in names)
        raise BatfillError(
            f"argument {OPTIONS[other[0]].argument!r}: each replay here has its own; those that they share are {shared}"
        )
    checked = {name: OPTIONS[name].check(name, value) for name, value in given.items() if value is not None}
    return {n: value if OPTIONS[n].argument in DATED else plain_value(value) for n, value in checked.items()}


def those_that_apply(shared: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    chosen = {name: option.default for name, option in OPTIONS.items()} | dict(shared) | with_preset(chosen)
    return {name: value for name, value in shared.items() if all(need.met(chosen) for need in OPTIONS[name].needs)}
