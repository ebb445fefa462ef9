"""How much may be wasted on jobs that turn out large, and the cut that stays within it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.knowledge import Job

STEP = 0.005  # by which the cut moves at each job


@dataclass(slots=True)
class Budget:
    """Keeps the share of work wasted, and of kills per job, below what an administrator allows, at every instant.

    A small job under way counts as one whose tries will all be killed, so the limits hold whatever becomes of it. Below
    the limits the cut sinks, near them it rises: what may be spent goes to the jobs that are most probably small.
    """

    max_waste: float = math.inf  # processor-seconds of killed tries over all processor-seconds used
    max_kill_share: float = math.inf  # killed tries over jobs that have ended
    used_proc_s: float = 0.0
    wasted_proc_s: float = 0.0
    ended: int = 0
    kills: int = 0
    risked_proc_s: float = 0.0  # what the small jobs under way will have wasted if all their tries are killed
    risked_kills: int = 0
    risks: dict[int, list[float]] = field(default_factory=dict)  # by row: of each try that may be killed, in turn

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.max_waste < math.inf or self.max_kill_share < math.inf

    def spent(self, more_proc_s: float = 0.0, more_kills: int = 0) -> float:
        """How much of the scarcer allowance is taken, 1 for all of it, with what is at risk and this much more."""
        wasted = self.wasted_proc_s + self.risked_proc_s + more_proc_s
        kills = self.kills + self.risked_kills + more_kills
        shares = [
            value / (most * whole) if most * whole > 0 else math.inf
            for value, most, whole in (
                (wasted, self.max_waste, self.used_proc_s),
                (float(kills), self.max_kill_share, float(self.ended)),
            )
            if most < math.inf
        ]
        return max(shares, default=0.0)

    def moved(self, cut: float) -> float:
        """The cut for the next job."""
        return min(max(cut + (STEP if self.spent() > 0.9 else -STEP), 0.0), 1.0)

    def takes(self, job: Job, dividers_s: Sequence[float]) -> bool:
        """Whether the limits allow this job to be killed at each of these; if so that is at risk from now on."""
        tries = [divider_s * job.procs for divider_s in dividers_s if job.killable and divider_s < job.walltime_s]
        if tries and self.spent(sum(tries), len(tries)) > 1:
            return False
        self.risk(job, tries)
        return True

    def risk(self, job: Job, tries: list[float]) -> None:
        """Let these be the job's tries that may still be killed, by what each wastes then."""
        before = self.risks.pop(job.row, [])
        self.risked_proc_s += sum(tries) - sum(before)
        self.risked_kills += len(tries) - len(before)
        if tries:
            self.risks[job.row] = tries

    def settle(self, job: Job, ran_s: float, *, killed: bool) -> None:
        """A try has ended, or was killed."""
        self.risk(job, self.risks.get(job.row, [])[1:] if killed else [])
        self.used_proc_s += ran_s * job.procs
        if killed:
            self.wasted_proc_s += ran_s * job.procs
            self.kills += 1
        else:
            self.ended += 1
