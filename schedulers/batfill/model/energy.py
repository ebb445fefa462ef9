"""An energy budget: joules that become available evenly over a period, and what jobs draw of them.

>>> budget = Budget.of("energy-budget", "2MWh@0..3d,watts=100W,idle=20kW")
>>> budget.rate_w, budget.name
(27777, '2MWh@0..259200,watts=100W,idle=20kW')
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError
from batfill.model.calendar import Change, as_field, date_of
from batfill.model.pools import MOST, Pool, amount_of, amount_text
from batfill.model.values import seconds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.model.jobs import Clock

POWER, ENERGY = "power", "energy"  # the pool that says by default what jobs draw, and the one that a plan keeps of it
JOULES = {
    "J": 1, "kJ": 10**3, "MJ": 10**6, "GJ": 10**9, "TJ": 10**12,
    "Wh": 3600, "kWh": 3600 * 10**3, "MWh": 3600 * 10**6, "GWh": 3600 * 10**9,
}  # fmt: skip
BUDGET = re.compile(r"([\d.]{1,15}) ?([A-Za-z]+)@(.+?)\.\.([^,]+)((?:,[^,]+)*)", re.ASCII)
FORM = "give AMOUNT@BEGIN..END, as 2MWh@0..3d, and behind it ,watts=100W or ,watts=FIELD, ,idle=20kW, ,head-holds"


@dataclass(frozen=True, slots=True)
class Budget:
    """Joules that become available evenly from `begin` until `end`, and what jobs draw."""

    joules: int
    begin: Any  # seconds of the log, or a date
    end: Any
    watts: str = ""  # what jobs draw, as behind a pool's @; empty: what they take of the pool `power`
    idle_w: int = 0  # what the machine draws without jobs
    holds: bool = False  # whether reservations hold joules, too
    each: int | None = None  # what `watts` means, as in a `Pool`
    field: str = ""

    @classmethod
    def of(cls, option: str, value: Any) -> Budget:
        """The budget that a text names.

        Raises:
            BatfillError: it names none.
        """
        if isinstance(value, Budget):
            return value
        found = BUDGET.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is None or found[2] not in JOULES:
            raise BatfillError(f"option {option}: {value!r:.60} is no budget; {FORM}; units are {', '.join(JOULES)}")
        number, unit, begin, end, words = found.groups()
        try:
            joules = round(float(number) * JOULES[unit], 3)
        except ValueError:
            joules = 0.0
        if not 0 < joules <= MOST:
            raise BatfillError(f"option {option}: {number}{unit} is no amount of energy from 1 J to {MOST:,} J")
        dates = [second_or_date(option, name, text) for name, text in (("begin", begin), ("end", end))]
        given: dict[str, Any] = {}
        for word in words.split(",")[1:]:
            name, equals, text = (part.strip() for part in word.partition("="))
            if name in given or (name, equals) not in (("watts", "="), ("idle", "="), ("head-holds", "")):
                raise BatfillError(f"option {option}: {word!r:.60} is not part of a budget, or given twice; {FORM}")
            given[name] = text
        idle_w = watts_of(option, given["idle"]) if "idle" in given else 0
        watts, each = given.get("watts", ""), None
        if watts[:1].isdigit():
            each = watts_of(option, watts)
            watts = amount_text(each, "W")
        field = "" if each is not None else watts
        made = cls(int(joules), dates[0], dates[1], watts, idle_w, "head-holds" in given, each, field)
        made.check(option)
        return made

    def check(self, option: str = "energy-budget") -> None:
        """Refuse a period that is none, and energy that does not suffice for idle machines.

        Raises:
            BatfillError: it does not.
        """
        naive = [date for date in (self.begin, self.end) if isinstance(date, datetime) and date.tzinfo is None]
        if naive:
            text = naive[0].isoformat()
            raise BatfillError(f"option {option}: {text} has no time zone; add one, as {text}+01:00")
        if isinstance(self.begin, datetime) != isinstance(self.end, datetime):
            raise BatfillError(f"option {option}: {self.name}: seconds and dates are mixed; give both in one form")
        if not self.begin < self.end:
            raise BatfillError(f"option {option}: {self.name}: the period ends before it begins; give BEGIN..END")
        if self.rate_w <= self.idle_w:
            raise BatfillError(
                f"option {option}: {self.name}: the energy gives {self.rate_w:,} W, and idle machines draw "
                f"{self.idle_w:,} W; give more, or a shorter period"
            )

    @property
    def name(self) -> str:
        """As a user writes it."""
        units = [(scale, unit) for unit, scale in JOULES.items() if self.joules * 1000 % scale == 0]
        scale, unit = max(one for one in units if self.joules >= one[0])
        begin, end = (as_field(date) for date in (self.begin, self.end))
        watts = f",watts={self.watts}" if self.watts else ""
        idle = f",idle={amount_text(self.idle_w, 'W')}" if self.idle_w else ""
        return f"{self.joules / scale:.15g}{unit}@{begin}..{end}{watts}{idle}{',head-holds' * self.holds}"

    @property
    def span_s(self) -> float:
        """The length of the period."""
        span = self.end - self.begin
        return float(span if isinstance(span, (int, float)) else span.total_seconds())

    @property
    def rate_w(self) -> int:
        """The whole watts at which energy becomes available."""
        return int(self.joules // self.span_s)

    def on(self, clock: Clock | None, pools: Sequence[Pool]) -> Budget:
        """The same in whole seconds of a log with this clock, with what jobs draw, if a pool says it.

        Raises:
            BatfillError: there are dates and no clock, or nothing says what jobs draw.
        """
        dates = []
        for date in (self.begin, self.end):
            if isinstance(date, datetime) and clock is None:
                raise BatfillError(
                    f"option energy-budget: {date.isoformat()} is a date, and the workload has no clock; give seconds"
                )
            dates.append(float(round(clock.second(date) if clock and isinstance(date, datetime) else date)))
        power = next((pool for pool in pools if pool.name == POWER and pool.base == "W"), None)
        if not self.watts and power is None:
            raise BatfillError(
                f"option energy-budget: {self.name} does not say what jobs draw; add ,watts=100W for each processor, "
                "or ,watts=FIELD, or a pool power"
            )
        made = replace(self, begin=dates[0], end=dates[1])
        if power is not None and not self.watts:
            made = replace(made, each=power.each, field="" if power.each is not None else power.field or power.name)
        made.check()
        return made

    # In seconds, and with what jobs draw

    @property
    def pool(self) -> Pool:
        """What jobs draw, as a pool of which there is always enough."""
        return Pool(ENERGY, MOST, self.each, self.field, base="W")

    @property
    def changes(self) -> list[Change]:
        """The dates at which the period begins and ends, at which nothing else changes."""
        return [Change(float(date), "", 0, -inf, 0) for date in (self.begin, self.end)]


def second_or_date(option: str, name: str, text: str) -> Any:
    """A date of a clock, or seconds, which may have a unit.

    Raises:
        BatfillError: it is neither.
    """
    try:
        return float(seconds_of(option, text))
    except BatfillError:
        return date_of(f"option {option}", name, text)


def watts_of(option: str, text: str) -> int:
    """Whole watts.

    Raises:
        BatfillError: the text states none.
    """
    watts, base = amount_of(f"option {option}", text)
    if base != "W":
        raise BatfillError(f"option {option}: {text!r:.60} has no watts; give them as 100W or 20kW")
    return watts
