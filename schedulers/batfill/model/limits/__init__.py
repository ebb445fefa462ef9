"""What limits jobs beside processors and order: windows, a gate, pools, a budget, and running jobs of a user.

Loads no library that is slow to import, as `options` does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError

if TYPE_CHECKING:
    from batfill.model.jobs import Jobs
    from batfill.model.limits.calendar import Calendar
    from batfill.model.limits.dates import Change
    from batfill.model.limits.energy import Budget
    from batfill.model.limits.gate import Gate
    from batfill.model.limits.pools import Pool, Pools

DATED = ("calendar", "backfill_while", "energy_budget")  # limits with dates


class Limits:
    """The limits that options and rules have, and what follows from all of them together."""

    __slots__ = ()

    calendar: Calendar | None  # windows of processors and pools
    backfill_while: Gate | None  # when jobs are backfilled; None for always
    pool: Pools | None
    energy_budget: Budget | None  # with what jobs draw of it, once a pool has said it
    max_running: int | None  # how many jobs of a user may run at once; None for any number

    @property
    def pools(self) -> tuple[Pool, ...]:
        return self.pool or ()

    @property
    def dated(self) -> dict[str, Any]:
        """The limits in force that have dates, at which decisions are made, too."""
        return {name: one for name in DATED if (one := getattr(self, name)) is not None}

    @property
    def changes(self) -> list[Change]:
        if not self.dated:
            return []
        from batfill.model.limits.dates import in_time

        return in_time(date for one in self.dated.values() for date in one.changes)

    @property
    def taken(self) -> list[tuple[str, Pool]]:
        """All pools, each behind the option that it is of; a limit of running jobs is one, of which each takes one."""
        limit, budget = self.max_running, self.energy_budget
        pools = [("pool", pool) for pool in self.pools]
        if budget is not None and budget.pool is not None:
            pools.append(("energy-budget", budget.pool))
        if limit is None:
            return pools
        from batfill.model.limits.pools import RUNNING, Pool

        return [("max-running", Pool(RUNNING, limit, of_user=True)), *pools]

    @property
    def all_pools(self) -> tuple[Pool, ...]:
        """The pools in the engine's order: those that reserve, of which a budget's is last, others, those of users."""
        return tuple(sorted((pool for _, pool in self.taken), key=lambda pool: (pool.of_user, not pool.reserves)))

    @property
    def fields(self) -> set[str]:
        read = {pool.reads for _, pool in self.taken if pool.reads}
        return read | {"resources"} if read else read

    @property
    def file_digests(self) -> dict[str, str]:
        return {f"{name}_sha256": one.digest for name, one in self.dated.items() if hasattr(one, "digest")}

    def require_taken(self, jobs: Jobs, source: str) -> None:
        """Refuse a pool of which no job takes anything, and fields that a pool reads and are no amounts."""
        from batfill.model.limits.pools import DRAWN

        for name, pool in self.taken if len(jobs) else ():
            amounts, where = pool.amounts(jobs), f"{source}: option {name}"
            if not (amounts * ((jobs.user >= 0) | (not pool.of_user))).any():
                raise BatfillError(f"{where}: {pool.unused}")
            if (odd := pool.odd(jobs)) is not None:
                raise BatfillError(f"{where}: {pool.reads} of job {odd} is no number >= 0; correct it")
            if pool.name == DRAWN and (most := amounts > pool.capacity).any():
                raise BatfillError(
                    f"{where}: job {jobs.ids[most.argmax()]} draws more than {pool.capacity:,} W, up to which sums are "
                    "exact; correct it"
                )
