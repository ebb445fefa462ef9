"""Pools: what jobs take beside processors, such as power or licences, and how much of it there is.

>>> power, licences = Pools.of("power=250kW@100W, licences=40:skip").pools
>>> power.capacity, power.each, licences.skips
(250000, 100, True)
>>> Pools.of("licences=40W@2").name
Traceback (most recent call last):
batfill.base.errors.BatfillError: option pool: licences: 40W and 2 have different units; give both in one
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.model.jobs import JobTable

# Units: the base, in which amounts are whole numbers, and how many of it one is. Jobs state amounts in those of STATED.
UNITS = {
    "": ("", 1), "W": ("W", 1), "kW": ("W", 10**3), "MW": ("W", 10**6),
    "kB": ("kB", 1), "MB": ("kB", 10**3), "GB": ("kB", 10**6), "TB": ("kB", 10**9),
}  # fmt: skip
STATED = {"": "", "W": "W", "kB": "GB"}
RUNNING = "running jobs"  # the pool of each user behind `max-running`
MOST = 2**53  # an amount is exact up to here,
TOO_MUCH = 2.0**54  # and this stands for any that is larger than every capacity
POOL = re.compile(r"([A-Za-z_][\w./-]{0,39})=([^@:]+)(?:@([^:]+))?(?::(skip|user))?", re.ASCII)
AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?([A-Za-z]*)", re.ASCII)
FORM = "give NAME=AMOUNT, as licences=40 or power=250kW@100W, and :skip or :user behind it"


@dataclass(frozen=True, slots=True)
class Pool:
    """What jobs take of one thing, and how much of it there is, in whole base units."""

    name: str
    capacity: int
    each: int | None = None  # what a job takes for each processor; None: what its field says
    field: str = ""  # of jobs; empty: that of the pool's name
    skips: bool = False  # whether a job that lacks it now is skipped; otherwise it waits for it, with a reservation
    of_user: bool = False  # whether each user has so much; such a pool skips
    base: str = ""  # the unit

    @property
    def text(self) -> str:
        """As a user writes it."""
        takes = "" if self.each is None else f"@{amount_text(self.each, self.base)}"
        takes = f"@{self.field}" if self.field else takes
        return f"{self.name}={amount_text(self.capacity, self.base)}{takes}{self.lacking}"

    @property
    def lacking(self) -> str:
        """The word for what becomes of a job that lacks it."""
        return ":user" if self.of_user else ":skip" if self.skips else ""

    @property
    def reserves(self) -> bool:
        """Whether a job that lacks it gets a reservation."""
        return not (self.skips or self.of_user)

    def amounts(self, jobs: JobTable) -> NDArray[np.int64]:
        """What each job takes, (n_jobs,)."""
        if self.name == RUNNING:
            return np.ones(len(jobs), np.int64)
        if self.each is not None:
            amounts: NDArray[np.float64] = np.minimum(float(self.each) * jobs.procs, TOO_MUCH)
        else:
            known = stated(jobs, self.field or self.name)
            amounts = np.zeros(len(jobs)) if known is None else whole(known, self.base)
        return amounts.astype(np.int64)

    def amount(self, known: Mapping[str, float], procs: int) -> int:
        """What a job of so many processors takes that states these amounts by name."""
        if self.name == RUNNING:
            return 1
        if self.each is not None:
            return self.each * procs
        return int(whole(known.get(self.field or self.name, 0.0), self.base))


@dataclass(frozen=True, slots=True)
class Pools:
    """The pools that a user has named, as the option `pool`."""

    pools: tuple[Pool, ...]

    @property
    def name(self) -> str:
        """As a user writes them."""
        return ",".join(pool.text for pool in self.pools)

    @classmethod
    def of(cls, value: Any, option: str = "pool") -> Pools:
        """The pools that a text names, or several.

        Raises:
            BatfillError: it names none.
        """
        if isinstance(value, Pools):
            return value
        given: list[Any] = [value]
        if isinstance(value, Iterable) and not isinstance(value, str):
            given = list(value)
        if not given or not all(isinstance(one, str) for one in given):
            raise BatfillError(f"option {option}: {value!r:.60} is no pool; {FORM}")
        words = [word.strip() for one in given for word in one.split(",")]
        pools = tuple(pool_of(option, word) for word in words)
        names = [pool.name for pool in pools]
        if twice := [name for name in names if names.count(name) > 1]:
            raise BatfillError(f"option {option}: {twice[0]} is given twice; give each pool once")
        return cls(pools)


def pool_of(option: str, text: str) -> Pool:
    """The pool that a text names.

    Raises:
        BatfillError: it names none.
    """
    found = POOL.fullmatch(text)
    if found is None:
        raise BatfillError(f"option {option}: {text!r:.60} is no pool; {FORM}")
    name, there, takes, lacking = found.groups()
    if name in ("processors", "procs"):
        raise BatfillError(f"option {option}: {name} are the machine's own; --procs says how many there are")
    where = f"option {option}: {name}"
    capacity, base = amount_of(where, there)
    each, field = None, takes or ""
    if field[:1].isdigit():
        each, other = amount_of(where, field)
        if other != base:
            raise BatfillError(f"{where}: {there} and {field} have different units; give both in one")
        field = ""
    if capacity == 0:
        raise BatfillError(f"{where}: {there} is nothing; give what there is, or leave the pool out")
    return Pool(name, capacity, each, field, skips=lacking == "skip", of_user=lacking == "user", base=base)


def amount_of(where: str, text: str) -> tuple[int, str]:
    """An amount in whole base units, and the base.

    Raises:
        BatfillError: it is none.
    """
    found = AMOUNT.fullmatch(text.strip())
    if found is None or found[2] not in UNITS:
        known = ", ".join(unit for unit in UNITS if unit)
        hint = "; energy is not a pool, since jobs do not give it back" if found and found[2].endswith("Wh") else ""
        raise BatfillError(f"{where}: {text!r:.60} is no amount: a number, and for a unit one of {known}{hint}")
    base, scale = UNITS[found[2]]
    amount = round(float(found[1]) * scale, 6)
    if amount > MOST or amount != int(amount):
        raise BatfillError(f"{where}: {text!r:.60} is not a whole number of {base or 'pieces'} up to {MOST:,}")
    return int(amount), base


def amount_text(amount: int, base: str) -> str:
    """An amount in the largest unit in which it is a short number."""
    units = [(scale, unit) for unit, (of, scale) in UNITS.items() if of == base]
    scale, unit = max(one for one in units if one[0] == 1 or (amount >= one[0] and amount * 1000 % one[0] == 0))
    whole, part = divmod(amount, scale)
    return f"{whole}{f'.{part * 1000 // scale:03}'.rstrip('0').rstrip('.')}{unit}"


def whole(known: Any, base: str) -> Any:
    """What jobs state, in whole base units, a part counting as one; nan is nothing."""
    amounts = np.ceil(np.round(np.nan_to_num(known, posinf=TOO_MUCH) * UNITS[STATED[base]][1], 3))
    return np.minimum(amounts, TOO_MUCH)


def stated(jobs: JobTable, field: str) -> NDArray[np.float64] | None:
    """What jobs state in a field, (n_jobs,), nan for those that do not; None if none does."""
    known = jobs.amounts
    if known is None or field not in (known.dtype.names or ()):
        return None
    values: NDArray[np.float64] = known[field]
    return values


def wanted(pools: Iterable[Pool], jobs: JobTable) -> NDArray[np.int64]:
    """What each job takes of each pool, (n_jobs, n_pools); (0, 0) without pools."""
    columns = [pool.amounts(jobs) for pool in pools]
    return np.ascontiguousarray(np.stack(columns, axis=1)) if columns else np.zeros((0, 0), np.int64)


def rejected(jobs: JobTable, size: int, pools: Sequence[Pool], amounts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The jobs that want more processors or more of a pool than there are, (n_jobs,)."""
    found: NDArray[np.bool_] = jobs.procs > size
    for pool, taken in zip(pools, amounts.T, strict=True):
        found = found | ((taken > pool.capacity) & ((jobs.user >= 0) | (not pool.of_user)))
    return found


def may_run_short(pool: Pool, amounts: NDArray[np.int64], procs: NDArray[np.int64], size: int) -> bool:
    """Whether jobs on `size` processors could ever together want more than there is of a pool that never changes."""
    return pool.of_user or bool((amounts * (size * (1 + 1e-9)) > pool.capacity * procs.astype(np.float64)).any())


def in_order(pools: Iterable[Pool]) -> tuple[Pool, ...]:
    """The pools as the engine takes them: those that reserve, others of the machine, those of users."""
    return tuple(sorted(pools, key=lambda pool: (pool.of_user, not pool.reserves)))
