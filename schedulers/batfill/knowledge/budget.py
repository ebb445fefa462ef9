"""How much may be wasted on jobs that turn out large, and the cut that stays within it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from batfill.knowledge import Job

STEP = 0.005  # by which the cut moves at each job


@dataclass(slots=True)
class Budget:
    """Keeps the share of work wasted, and of jobs killed, below what an administrator allows, at every instant.

    A small try under way counts as one that will be killed, so the limits hold whatever becomes of it. Below the limits
    the cut sinks, near them it rises: what may be spent goes to the jobs that are most probably small.
    """

    max_waste: float = math.inf  # processor-seconds of killed tries over all processor-seconds used
    max_kill_share: float = math.inf  # killed tries over jobs that have ended
    used_proc_s: float = 0.0
    wasted_proc_s: float = 0.0
    ended: int = 0
    kills: int = 0
    risked_proc_s: float = 0.0  # what the small tries under way will have wasted if all of them are killed
    risks: dict[int, float] = field(default_factory=dict)  # by row

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.max_waste < math.inf or self.max_kill_share < math.inf

    def spent(self, more_proc_s: float = 0.0, more_kills: int = 0) -> float:
        """How much of the scarcer allowance is taken, 1 for all of it, with what is at risk and this much more."""
        wasted = self.wasted_proc_s + self.risked_proc_s + more_proc_s
        kills = self.kills + len(self.risks) + more_kills
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

    def takes(self, job: Job, divider_s: float) -> bool:
        """Whether one more killed try of this job would be within the limits; if so it is at risk from now on."""
        proc_s = divider_s * job.procs
        if not job.killable or divider_s >= job.walltime_s:
            return True  # it cannot be killed
        if self.spent(proc_s, 1) > 1:
            return False
        self.risks[job.row] = proc_s
        self.risked_proc_s += proc_s
        return True

    def settle(self, job: Job, ran_s: float, *, killed: bool) -> None:
        """A try has ended, or was killed."""
        self.risked_proc_s -= self.risks.pop(job.row, 0.0)
        self.used_proc_s += ran_s * job.procs
        if killed:
            self.wasted_proc_s += ran_s * job.procs
            self.kills += 1
        else:
            self.ended += 1
