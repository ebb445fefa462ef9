"""The rules by which a queue is ordered, backfilled and cleared of tries: what every host passes on whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from batfill.engine.records import EVERY_JOB as EVERY_JOB
from batfill.engine.records import QueueRules
from batfill.model.limits import Limits

if TYPE_CHECKING:
    from batfill.model.limits.calendar import Calendar
    from batfill.model.limits.energy import Budget
    from batfill.model.limits.gate import Gate
    from batfill.model.limits.pools import Pool
    from batfill.model.policy import Policy


@dataclass(frozen=True, slots=True)
class Rules(Limits, QueueRules):
    """The rules in force in a queue, with all dates in seconds of the log; `Options.rules` makes them."""

    policy: Policy  # the queue's order
    backfill: Policy | None = None  # the order in which jobs are tried for backfilling; None for the queue's own
    kills: bool = True  # whether a small job that still runs at its divider is killed, and queued again as large
    bound: bool = False  # whether a job that may be killed is expected to end at the divider at the latest
    calendar: Calendar | None = None
    backfill_while: Gate | None = None
    energy_budget: Budget | None = None
    max_running: int | None = None
    pools: tuple[Pool, ...] = ()

    @property
    def planned(self) -> bool:
        """Whether the rule is that of a plan, even where the engine finds the same starts without one."""
        return self.depth != 1 or self.tested != EVERY_JOB or bool(self.dated) or bool(self.all_pools)
