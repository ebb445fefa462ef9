"""The rules by which a queue is ordered, backfilled and cleared of tries: what every host passes on whole."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from batfill.base.errors import BatfillError
from batfill.engine.records import EVERY_JOB as EVERY_JOB
from batfill.engine.records import QueueRules
from batfill.model.pools import RUNNING, Pool, in_order

if TYPE_CHECKING:
    from batfill.model.calendar import Calendar
    from batfill.model.dates import Change
    from batfill.model.energy import Budget
    from batfill.model.gate import Gate
    from batfill.model.policy import Policy


@dataclass(frozen=True, slots=True)
class Rules(QueueRules):
    """The rules in force in a queue; `Options.rules` makes them of what a user chose.

    Raises:
        BatfillError: a time is not a number of seconds; from `__init__`.
    """

    policy: Policy  # the queue's order
    backfill: Policy | None = None  # the order in which jobs are tried for backfilling; None for the queue's own
    kills: bool = True  # whether a small job that still runs at its divider is killed, and queued again as large
    bound: bool = False  # whether a job that may be killed is expected to end at the divider at the latest
    calendar: Calendar | None = None  # windows of processors and pools, in seconds of the log
    backfill_while: Gate | None = None  # when jobs are backfilled, in seconds of the log; None for always
    energy_budget: Budget | None = None  # in seconds of the log, with what jobs draw
    max_running: int = EVERY_JOB  # how many jobs of a user may run at once; EVERY_JOB for any number
    pools: tuple[Pool, ...] = ()  # what jobs take beside processors

    def __post_init__(self) -> None:
        if not self.threshold_s >= 0:
            raise BatfillError(f"threshold_s: {self.threshold_s!r} is not a number of seconds >= 0; inf is for none")
        if not self.divider_s > 0:
            raise BatfillError(f"divider_s: {self.divider_s!r} is not a number of seconds > 0")
        if not self.stand_back > 0:
            raise BatfillError(f"stand_back: {self.stand_back!r} is not a number of machines > 0; inf is for never")
        if self.stand_back < math.inf and not self.spares:
            raise BatfillError("stand_back: it needs spares")
        if self.depth < 0:
            raise BatfillError(f"depth: {self.depth!r} is not a number of reservations >= 0")
        if self.tested < 1:
            raise BatfillError(f"tested: {self.tested!r} is not a number of jobs > 0")
        if self.max_running < 1:
            raise BatfillError(f"max_running: {self.max_running!r} is not a number of jobs > 0")
        if self.keeps and (self.planned or self.spares):
            raise BatfillError("keeps: the head keeps one reservation, without a plan, and no try is spared")
        if self.depth in (0, EVERY_JOB) and self.backfill is not None:
            raise BatfillError(
                "backfill: an order of its own begins behind the last reservation: give a depth of at least 1, but not "
                "that of all jobs"
            )

    @property
    def planned(self) -> bool:
        """Whether the rule is that of a plan, even where the engine finds the same starts without one."""
        return self.depth != 1 or self.tested != EVERY_JOB or bool(self.dated) or bool(self.all_pools)

    @property
    def dated(self) -> list[Calendar | Budget]:
        """What has dates at which decisions are made, too: a calendar, a gate, an energy budget."""
        dated = (self.calendar, self.backfill_while, self.energy_budget)
        return [given for given in dated if given is not None]

    @property
    def changes(self) -> list[Change]:
        """All these dates, in order."""
        dates = [one for given in self.dated for one in given.changes]
        return sorted(dates, key=lambda date: (date.at_s, date.amount < 0, date.fails))

    @property
    def all_pools(self) -> tuple[Pool, ...]:
        """The pools in the engine's order; a limit of running jobs is one of each user, of which a job takes one.

        What jobs draw of a budget is the last of those that reserve.
        """
        drawn = () if self.energy_budget is None or self.energy_budget.pool is None else (self.energy_budget.pool,)
        limit = (Pool(RUNNING, self.max_running, of_user=True),) if self.limits_users else ()
        return in_order((*limit, *self.pools, *drawn))

    @property
    def limits_users(self) -> bool:
        """Whether a user may have only so many running jobs."""
        return self.max_running < EVERY_JOB
