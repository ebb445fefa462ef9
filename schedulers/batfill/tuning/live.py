"""The choice of policies under Batsim: a cluster that replays its own last period under each of them, and switches."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.cluster import Cluster, Start
from batfill.easy import AWAY, Rules
from batfill.errors import BatfillError
from batfill.jobs import UNKNOWN, JobTable
from batfill.options import USER
from batfill.tuning import feedback
from batfill.tuning.online import BEFORE_S
from batfill.waiting import clear

if TYPE_CHECKING:
    from collections.abc import Iterable

    from batfill.options import Options
    from batfill.policies import Policy
    from batfill.tuning.selection import Selection

log = logging.getLogger("batfill")


class SelectingCluster(Cluster):
    """A cluster that renews its policy after each period, counted from second 0.

    What a period taught is worked out when the first message after its end arrives, before anything of that message
    is known to it.
    """

    def __init__(self, machines: Iterable[int], options: Options, selection: Selection) -> None:
        super().__init__(machines, options)
        self.selector = selection.selector(feedback.Rules(self.size, options.backfill, options.threshold_s))
        self.backfills_same = options.backfill is None
        self.period_s = selection.period_s
        self.periods = 0  # that have ended
        self.from_s = BEFORE_S
        self.end_s: dict[int, float] = {}  # by row, of the jobs that ended in the running period
        self.started_s: dict[int, float] = {}  # by row, of the jobs here that have started
        self.just_ended: list[int] = []  # rows, in the message being handled
        self.present: set[int] = set()  # rows of the jobs that were here in the running period
        self.adopt(self.selector.begin())

    @staticmethod
    def check(options: Options) -> None:
        """Raise BatfillError where jobs are also classified or predicted, which the replays know nothing of."""
        if options.divider_s < math.inf or options.learning.knowledge != USER:
            raise BatfillError("option select: replays of the past know no divider and no knowledge; leave one out")

    def submit(self, job: str, submit_s: float, walltime_s: float, procs: int, **more: Any) -> bool:
        """As in any cluster, and remembered for the period."""
        taken = super().submit(job, submit_s, walltime_s, procs, **more)
        if taken:
            self.present.add(self.rows[job])
        return taken

    def end(self, job: str, *, again: bool = False) -> None:
        """As in any cluster, and remembered for the period."""
        self.just_ended.append(self.rows[job])
        super().end(job, again=again)

    def decide(self, now_s: float) -> list[Start]:
        """As in any cluster, by the policy of the period that `now_s` is in."""
        while now_s > (until_s := (self.periods + 1) * self.period_s):
            self.renew(until_s)
        self.end_s |= dict.fromkeys(self.just_ended, now_s)
        self.just_ended.clear()
        started = super().decide(now_s)
        for start in started:
            self.started_s[self.rows[start.job]] = now_s
        return started

    def renew(self, until_s: float) -> None:
        """Learn from the period that ended at `until_s`, and order by the next one's policy."""
        before = self.selector.over_budget
        self.adopt(self.selector.renew(self.past(until_s)))
        if self.selector.over_budget > before:
            log.warning("the replays of the period to %.0f s took longer than the budget; nothing is learned", until_s)
        self.present -= set(self.end_s)
        for row in self.end_s:
            del self.started_s[row]  # it has started, or it could not have ended
        self.end_s.clear()
        self.from_s = until_s
        self.periods += 1

    def past(self, until_s: float) -> feedback.Past:
        """What is known of the period: who was here, who started and who ended when."""
        rows = [row for _, _, row in self.by_age if row in self.present and self.jobs[row]["submit_s"] <= until_s]
        start_s = np.array([self.started_s.get(row, math.nan) for row in rows])
        ended = np.array([row in self.end_s for row in rows], bool)
        entries = self.jobs[rows]
        end_s = np.array([self.end_s.get(row, math.nan) for row in rows])
        walltime_s = self.walltime_s[rows]
        n = len(rows)
        jobs = JobTable(
            ids=np.array([self.names[row] for row in rows], object),
            submit_s=entries["submit_s"].astype(np.float64),
            runtime_s=np.where(ended, end_s - start_s, walltime_s),
            walltime_s=walltime_s,
            procs=entries["procs"].astype(np.int64),
            user=np.full(n, -1, np.int64),
            job_class=np.full(n, UNKNOWN, np.int8),
            own_end=True,
        )
        return feedback.Past(jobs, start_s, ended, self.from_s, until_s)

    def adopt(self, policy: Policy) -> None:
        """Order the waiting jobs, and backfill where that is by the queue's order, by this policy."""
        self.policy = policy
        if self.backfills_same:
            self.backfill = policy
        rules = self.rules
        self.rules = Rules(
            policy.kind, policy.weight, rules.backfill_same, self.backfill.kind, self.backfill.weight, rules.threshold_s
        )
        clear(self.waiting)
        for row in self.rows.values():
            entry = self.jobs[row]
            if (section := int(entry["section"])) == AWAY:
                continue
            self.order(row)
            self.wait(row, section)

    def order(self, row: int) -> None:
        """Compute the keys of a job."""
        entry = self.jobs[row : row + 1]
        known = entry["submit_s"], entry["estimate_s"], entry["procs"]
        entry["key"] = self.policy.fixed_key(*known)
        entry["backfill_key"] = self.backfill.fixed_key(*known)
