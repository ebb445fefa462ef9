"""An energy budget: joules that become available evenly over a period, and what jobs draw of them.

>>> budget = Budget.of("energy-budget", "2MWh@0..3d,watts=100W,idle=20kW")
>>> budget.rate_w, budget.name
(27777, '2MWh@0..259200,watts=100W,idle=20kW')
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError
from batfill.model.limits.dates import Change, as_field, date_of, require_one_form, second
from batfill.model.limits.pools import DRAWN, MOST, Pool, amount_in, amount_text, require_unit, takes_of
from batfill.model.values import seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from batfill.model.jobs import Clock

WHERE = "option energy-budget"  # for messages about a budget in force
POWER = "power"  # the pool that says by default what jobs draw
BUDGET = re.compile(r"([^@]+)@(.+?)\.\.([^,]+)((?:,[^,]+)*)", re.ASCII)
FORM = "give AMOUNT@BEGIN..END, as 2MWh@0..3d, and behind it ,watts=100W or ,watts=FIELD, ,idle=20kW, ,head-holds"


@dataclass(frozen=True, slots=True)
class Budget:
    """Joules that become available evenly from `begin` until `end`, and what jobs draw."""

    joules: int
    begin: Any  # seconds of the log, or a date
    end: Any
    idle_w: int = 0  # what the machine draws without jobs
    holds: bool = False  # whether reservations hold joules, too
    pool: Pool | None = None  # what jobs draw, of which there is always enough; None until a pool says it

    @classmethod
    def of(cls, option: str, value: Any) -> Budget:
        if isinstance(value, Budget):
            return value
        where, found = f"option {option}", BUDGET.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is None:
            raise BatfillError(f"{where}: {value!r:.60} is no budget; {FORM}")
        energy, begin, end, words = found.groups()
        from_s, until_s = (second_or_date(where, name, text) for name, text in (("begin", begin), ("end", end)))
        given: dict[str, Any] = {}
        for word in words.split(",")[1:]:
            name, equals, text = (part.strip() for part in word.partition("="))
            known = (name, equals) in (("watts", "="), ("idle", "="), ("head-holds", ""))
            if name in given or not known or (equals and not text):
                raise BatfillError(f"{where}: {word!r:.60} is not part of a budget, or given twice; {FORM}")
            given[name] = text
        idle_w = ceil(amount_in(where, given["idle"], "W")) if "idle" in given else 0
        pool = Pool(DRAWN, MOST, *takes_of(where, given["watts"], "W"), base="W") if "watts" in given else None
        if pool is not None and pool.field:
            require_unit(where, pool.field, "W")
        made = cls(int(amount_in(where, energy, "J")), from_s, until_s, idle_w, "head-holds" in given, pool)
        made.check(where)
        return made

    def check(self, where: str) -> None:
        require_one_form(where, (self.begin, self.end))
        if not self.span_s >= 1:
            raise BatfillError(f"{where}: {self.name}: the period does not last for a second; give BEGIN..END")
        if self.rate_w <= self.idle_w:
            raise BatfillError(
                f"{where}: {self.name}: the energy gives {self.rate_w:,} W, and idle machines draw {self.idle_w:,} W; "
                "give more, or a shorter period"
            )

    @property
    def name(self) -> str:
        begin, end = (as_field(date) for date in (self.begin, self.end))
        watts = f",watts={self.pool.takes}" if self.pool else ""
        idle = f",idle={amount_text(self.idle_w, 'W')}" if self.idle_w else ""
        return f"{amount_text(self.joules, 'J')}@{begin}..{end}{watts}{idle}{',head-holds' * self.holds}"

    @property
    def span_s(self) -> float:
        span = self.end - self.begin
        return float(span if isinstance(span, (int, float)) else span.total_seconds())

    @property
    def rate_w(self) -> int:
        return int(self.joules // self.span_s)

    def on(self, clock: Clock | None) -> Budget:
        begin, end = (float(round(second(WHERE, date, clock))) for date in (self.begin, self.end))
        made = replace(self, begin=begin, end=end)
        made.check(WHERE)
        return made

    def drawn_by(self, pools: Iterable[Pool]) -> Budget:
        power = next((pool for pool in pools if pool.name == POWER and pool.base == "W"), None)
        if self.pool is None and power is None:
            raise BatfillError(
                f"{WHERE}: {self.name} does not say what jobs draw; add ,watts=100W for each processor, or "
                ",watts=FIELD, or a pool power"
            )
        return replace(self, pool=self.pool or (power and Pool(DRAWN, MOST, power.each, power.reads, base="W")))

    # In seconds, and with what jobs draw

    @property
    def changes(self) -> list[Change]:
        """The dates at which the period begins and ends, at which nothing else changes."""
        return [Change(float(date), "", 0, -inf, 0) for date in (self.begin, self.end)]


def second_or_date(where: str, name: str, text: str) -> Any:
    """A date of a clock, or seconds, which may have a unit."""
    try:
        return float(seconds_of(name, text))
    except BatfillError:
        return date_of(where, name, text)
