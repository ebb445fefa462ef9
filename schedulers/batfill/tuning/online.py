"""The choice of a policy at each period's end, in a replay: the cluster's own course, switched as it goes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from batfill.replay import Replay, Schedule
from batfill.tuning.feedback import Noise, Past, Rules, period_costs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from batfill.jobs import JobTable
    from batfill.policies import Policy
    from batfill.tuning.bandits import Chooser

BEFORE_S = -1.0  # where the first period begins, so that what happens at second 0 belongs to it


@dataclass
class Selector:
    """Learns from each period what its chooser wants to know, and chooses again; in replay and under Batsim alike."""

    policies: Sequence[Policy]
    chooser: Chooser
    rules: Rules
    noise: Noise
    rng: np.random.Generator  # of the noise
    budget_s: float = math.inf  # for all replays of one period
    chosen: list[int] = field(default_factory=list)  # by period
    over_budget: int = 0  # periods that taught nothing because their replays took too long

    def begin(self) -> Policy:
        """The first period's policy."""
        return self.choose()

    def renew(self, past: Past) -> Policy:
        """The next period's policy, the last one having gone like this."""
        costs: NDArray[np.float64] | None
        if self.chooser.needs_all:
            costs = period_costs(
                past, self.policies, self.rules, noise=self.noise, rng=self.rng, budget_s=self.budget_s
            )
        else:
            costs = np.full(len(self.policies), np.nan)
            costs[self.chosen[-1]] = past.waited_s(past.start_s)
        if costs is None:
            self.over_budget += 1
        else:
            self.chooser.learn(costs, past.submitted)
        return self.choose()

    def choose(self) -> Policy:
        """Let the chooser choose, and remember it."""
        self.chosen.append(self.chooser.choose())
        return self.policies[self.chosen[-1]]


def select_online(jobs: JobTable, selector: Selector, period_s: float) -> Schedule:
    """Replay the workload, changing the policy after each period as the selector says; `selector.chosen` has them.

    Period t is (t period_s, (t + 1) period_s], the first one with its begin; jobs wider than the machine are rejected.
    """
    rules = selector.rules
    run = Replay(jobs, rules.size, selector.begin(), backfill=rules.backfill, threshold_s=rules.threshold_s)
    from_s = BEFORE_S
    for period in count(1):
        until_s = period * period_s
        if run.advance(until_s):
            return run.schedule()
        policy = selector.renew(past_of(run, from_s, until_s))
        run.change_rules(policy, backfill=rules.backfill, threshold_s=rules.threshold_s)
        from_s = until_s
    raise AssertionError("a workload has an end")


def past_of(run: Replay, from_s: float, until_s: float) -> Past:
    """What a replay that stands at `until_s` has shown, of the jobs that matter in the period from `from_s`."""
    n = run.submitted
    start_s = run.start_s[:n]
    end_s = start_s + run.events.duration_s[:n]
    ended = end_s <= until_s
    matters = ~(end_s <= from_s) & (run.table.procs[:n] <= run.size)
    rows = np.flatnonzero(matters)
    return Past(run.table.select(rows), start_s[rows], ended[rows], from_s, until_s)
