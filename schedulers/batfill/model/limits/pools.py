"""Pools: what jobs take beside processors, such as power or licences, and how much of it there is.

>>> power, licences = Pools.of("pool", "power=250kW@100W, licences=40:skip")
>>> power.capacity, power.each, licences.skips
(250000, 100, True)
>>> Pools.of("pool", "power=80%@100W").on(64)[0].capacity
5120
>>> Pools.of("pool", "licences=40W@2").name
Traceback (most recent call last):
batfill.base.errors.BatfillError: option pool: licences: '2' is no amount in W, kW, MW
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError
from batfill.model.values import TOO_MUCH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.model.jobs import Jobs

# Units: the base, in which amounts are whole numbers, and how many of it one is. Jobs state amounts in those of STATED.
UNITS = {
    "": ("", 1), "W": ("W", 1), "kW": ("W", 10**3), "MW": ("W", 10**6),
    "kB": ("kB", 1), "MB": ("kB", 10**3), "GB": ("kB", 10**6), "TB": ("kB", 10**9),
    "J": ("J", 1), "kJ": ("J", 10**3), "MJ": ("J", 10**6), "GJ": ("J", 10**9), "TJ": ("J", 10**12),
    "Wh": ("J", 3600), "kWh": ("J", 3600 * 10**3), "MWh": ("J", 3600 * 10**6), "GWh": ("J", 3600 * 10**9),
}  # fmt: skip
STATED = {"": "", "W": "W", "kB": "GB"}
FIELDS = {"memory": "kB", "power|watts|.+_watts": "W", "gpu(-.+)?|license/.+": ""}  # of jobs, whose base is known
# Pools of the options `max-running`, of each user, and `energy-budget`, by names that no user can give.
RUNNING, DRAWN = "running jobs", "watts drawn"
MOST = 2**53  # an amount is exact up to here
POOL = re.compile(r"([A-Za-z_][\w./-]{0,39})=([^@:]+)(?:@([^:]+))?(?::(skip|user))?", re.ASCII)
AMOUNT = re.compile(r"(\d{1,18}(?:\.\d{1,9})?(?:[eE][-+]?\d{1,2})?) ?([A-Za-z]*)", re.ASCII)
SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,9})?) ?%", re.ASCII)
FORM = "give NAME=AMOUNT, as licences=40, power=250kW@100W or power=80%, and :skip or :user behind it"


@dataclass(frozen=True, slots=True)
class Pool:
    """What jobs take of one thing, and how much of it there is, in whole base units."""

    name: str
    capacity: int
    each: float | None = None  # what a job takes for each processor, perhaps not whole; None: what its field says
    field: str = ""  # of jobs; empty: that of the pool's name
    skips: bool = False  # whether a job that lacks it now is skipped; otherwise it waits for it, with a reservation
    of_user: bool = False  # whether each user has so much; such a pool skips
    base: str = ""  # the unit
    share: float | None = None  # of what all processors take, in per cent, if the capacity is given so

    @property
    def takes(self) -> str:
        return self.field if self.each is None else amount_text(self.each, self.base)

    @property
    def text(self) -> str:
        takes = f"@{self.takes}" if self.takes and (self.share is None or self.base) else ""
        lacking = ":user" if self.of_user else ":skip" if self.skips else ""
        there = amount_text(self.capacity, self.base) if self.share is None else f"{self.share:.12g}%"
        return f"{self.name}={there}{takes}{lacking}"

    def on(self, size: int) -> Pool:
        """The same on a machine of `size` processors, of whose draw the capacity may be a share."""
        if self.share is None:
            return self
        capacity = floor(self.share * size * (self.each or 1) / 100 * (1 + 1e-12))
        if not 1 <= capacity <= MOST:
            raise BatfillError(f"option pool: {self.text} is {capacity:,} on {size:,} processors; give an amount")
        return replace(self, capacity=capacity)

    @property
    def reserves(self) -> bool:
        return not (self.skips or self.of_user)

    @property
    def reads(self) -> str:
        """The field of jobs that it reads; empty for none."""
        return "" if self.each is not None or self.name == RUNNING else self.field or self.name

    @property
    def unused(self) -> str:
        if not self.reads:
            return "no job has a user; leave it out, or take a workload with users"
        of = " of a user" * self.of_user
        return f"no job{of} has a field {self.reads} above 0; name another, or what a processor takes, or leave it out"

    def amounts(self, jobs: Jobs) -> NDArray[np.int64]:
        amounts: NDArray[np.int64] = self.amount({self.reads: self.stated(jobs)}, jobs.procs)
        return amounts

    def stated(self, jobs: Jobs) -> Any:
        """What the jobs state in the field that it reads, (n_jobs,), nan for those that do not; or nan if none does."""
        known = jobs.amounts
        return np.nan if known is None or self.reads not in (known.dtype.names or ()) else known[self.reads]

    def odd(self, jobs: Jobs) -> str | None:
        """The id of the first job that states no amount where it should, as `amounts_of` notes it; None without any."""
        odd = np.isinf(self.stated(jobs))
        return str(jobs.ids[np.argmax(odd)]) if odd.any() else None

    def amount(self, known: Mapping[str, Any], procs: Any) -> Any:
        """What jobs of so many processors take that state these amounts by name: a number, or an array like `procs`."""
        taken = whole(known.get(self.reads, 0.0), self.base) if self.reads else 1.0
        if self.each is not None:
            taken = np.minimum(np.ceil(float(self.each) * procs - 1e-6), TOO_MUCH)  # less what a float may be off
        return np.broadcast_to(taken, np.shape(procs)).astype(np.int64)


class Pools(tuple[Pool, ...]):
    """The pools that a user has named, as the option `pool`."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return ",".join(pool.text for pool in self)

    def on(self, size: int) -> Pools:
        return Pools(pool.on(size) for pool in self)

    @classmethod
    def of(cls, option: str, value: Any) -> Pools:
        if isinstance(value, Pools):
            return value
        given = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
        if not given or not all(isinstance(one, str) for one in given):
            raise BatfillError(f"option {option}: {value!r:.60} is no pool; {FORM}")
        pools = [pool_of(option, word.strip()) for one in given for word in one.split(",")]
        names = [pool.name for pool in pools]
        if twice := [name for name in names if names.count(name) > 1]:
            raise BatfillError(f"option {option}: {twice[0]} is given twice; give each pool once")
        return cls(pools)


def pool_of(option: str, text: str) -> Pool:
    found = POOL.fullmatch(text)
    if found is None:
        raise BatfillError(f"option {option}: {text!r:.60} is no pool; {FORM}")
    name, there, takes, lacking = found.groups()
    how: dict[str, Any] = {"skips": lacking == "skip", "of_user": lacking == "user"}
    where = f"option {option}: {name}"
    if name in ("processors", "procs"):
        raise BatfillError(f"option {option}: {name} are the machine's own; --procs says how many there are")
    if share := SHARE.fullmatch(there.strip()):
        part, base = amount_of(where, takes or "1") if not takes or takes[0].isdigit() else (0, "")
        if part and 0 < float(share[1]) <= 100:
            return Pool(name, 0, part, **how, base=base, share=float(share[1]))
        raise BatfillError(
            f"{where}: {text!r:.60} is not a share, up to 100%, of what all processors take; give an amount for each, "
            "as power=80%@100W"
        )
    capacity, base = amount_of(where, there)
    if base == "J":
        raise BatfillError(f"{where}: energy is not a pool, since jobs do not give it back; give an --energy-budget")
    each, field = takes_of(where, takes or "", base)
    if each is None:
        require_unit(where, field or name, base)
    return Pool(name, int(capacity), each, field, **how, base=base)


def takes_of(where: str, text: str, base: str) -> tuple[float | None, str]:
    """What a job takes: for each processor, or None, and else the field that says it."""
    return (None, text) if not text or text[0].isalpha() or text[0] == "_" else (amount_in(where, text, base), "")


def require_unit(where: str, field: str, base: str) -> None:
    for pattern, unit in FIELDS.items():
        if re.fullmatch(pattern, field) and unit != base:
            needed = (
                f"in {STATED[unit]}; give an amount in {units_of(unit)}" if unit else "a number of pieces; give one"
            )
            raise BatfillError(f"{where}: the field {field} of jobs is {needed}, or name another field")


def units_of(base: str) -> str:
    return ", ".join(unit for unit, (of, _) in UNITS.items() if of == base and unit)


def amount_in(where: str, text: str, base: str) -> float:
    amount, found = amount_of(where, text)
    if found != base:
        needed = f"in {units_of(base)}" if base else "without a unit"
        raise BatfillError(f"{where}: {text!r:.60} is no amount {needed}")
    return amount


def amount_of(where: str, text: str) -> tuple[float, str]:
    """An amount in base units, at least one, and the base; pieces are whole."""
    found = AMOUNT.fullmatch(text.strip())
    if found is None or found[2] not in UNITS:
        known = ", ".join(unit for unit in UNITS if unit)
        raise BatfillError(f"{where}: {text!r:.60} is no amount: a number, and for a unit one of {known}")
    base, scale = UNITS[found[2]]
    amount = round(float(found[1]) * scale, 6)
    if not 1 <= amount <= MOST or not (base or amount.is_integer()):
        of = f"a number of {base}" if base else "a whole number of pieces"
        raise BatfillError(f"{where}: {text!r:.60} is not {of} from 1 to {MOST:,}")
    return int(amount) if amount.is_integer() else amount, base


def amount_text(amount: float, base: str) -> str:
    """An amount in the largest unit in which it is a short number."""
    if amount != int(amount):
        return f"{amount:.15g}{base}"
    amount = int(amount)
    units = [(scale, unit) for unit, (of, scale) in UNITS.items() if of == base]
    scale, unit = max(one for one in units if one[0] == 1 or (amount >= one[0] and amount * 1000 % one[0] == 0))
    whole, part = divmod(amount, scale)
    return f"{whole}{f'.{part * 1000 // scale:03}'.rstrip('0').rstrip('.')}{unit}"


def scales(base: str) -> dict[int, str]:
    """The units of a pool's base, or watt-hours for "J", each by how many of the base it is."""
    return {n: unit for unit, (of, n) in UNITS.items() if of == base and (base != "J" or unit.endswith("Wh"))}


def unit_for(most: float, units: dict[int, str]) -> tuple[int, str]:
    scale = max((scale for scale in units if scale <= most), default=min(units))
    return scale, units[scale]


def rounded_text(amount: float, base: str, *, beside: float = 0, between: str = "") -> str:
    """An amount, or joules, in four digits of its largest unit, or that of an amount `beside` it; pieces are exact."""
    scale, unit = unit_for(beside or amount, scales(base))
    digits = f"{amount / scale:.4g}" if scale > 1 else amount
    return f"{float(digits):,.15g}{between}{unit}".rstrip()


def whole(known: Any, base: str) -> Any:
    """What jobs state, in whole base units, a part counting as one; nan is nothing."""
    amounts = np.ceil(np.round(np.nan_to_num(known, posinf=TOO_MUCH) * UNITS[STATED[base]][1], 3))
    return np.minimum(amounts, TOO_MUCH)


def wanted(pools: Iterable[Pool], jobs: Jobs) -> NDArray[np.int64]:
    """What each job takes of each pool, (n_jobs, n_pools); (0, 0) without pools."""
    columns = [pool.amounts(jobs) for pool in pools]
    return np.ascontiguousarray(np.stack(columns, axis=1)) if columns else np.zeros((0, 0), np.int64)


def rejected(jobs: Jobs, size: int, pools: Sequence[Pool], amounts: NDArray[np.int64]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = jobs.procs > size
    for pool, taken in zip(pools, amounts.T, strict=True):
        found = found | ((taken > pool.capacity) & ((jobs.user >= 0) | (not pool.of_user)))
    return found


def may_run_short(pool: Pool, amounts: NDArray[np.int64], procs: NDArray[np.int64], size: int) -> bool:
    """Whether jobs on `size` processors could ever together want more than there is of a pool that never changes.

    A pool that skips also has to suffice for a job that waits, for processors too, beside those that run: with less it
    would be skipped. Jobs that take at most `there` / `size` for each processor take at most `there` together.
    """
    there = pool.capacity - (0 if pool.reserves else amounts.max(initial=0))
    return pool.of_user or bool((amounts * (size * (1 + 1e-9)) > there * procs.astype(np.float64)).any())
