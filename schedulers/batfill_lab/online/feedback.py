"""Each policy's cost in the period that just ended, from what was known at its end and nothing else.

A policy's cost in a period is the waiting time within it: each job counts from its submission, or the period's start
if later, to its start, or the period's end if it still waits. Every policy starts from the cluster's actual state. The
run time of a job that has not ended is unknown; in these replays it runs as long as it is expected to at that time.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from batfill.engine.running import corrected
from batfill.model.policy import POLICIES
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from batfill.model.jobs import Jobs
    from batfill.model.policy import Policy

Noise = Literal["none", "walltime"] | float
SLICES = 16  # number of times each replay checks its budget


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """What is known at the end of a period; columns of shape (n_jobs,) in the job table's order."""

    jobs: Jobs  # submitted by its end, none wider than the machine; run times are read only of those that ended
    start_s: NDArray[np.float64]  # nan if a job has not started by the period's end
    ended: NDArray[np.bool_]  # whether it has ended by then
    from_s: float
    until_s: float

    @property
    def submitted(self) -> int:
        return int((self.jobs.submit_s > self.from_s).sum())

    def waited_s(self, start_s: NDArray[np.float64]) -> float:
        """The total waiting time in the period, if jobs start at `start_s` (nan for those that do not)."""
        began_s = np.maximum(self.jobs.submit_s, self.from_s)
        left_s = np.where(np.isnan(start_s), self.until_s, np.minimum(start_s, self.until_s))
        return float(np.maximum(left_s - began_s, 0).sum())


FCFS = Rules(POLICIES["fcfs"])


@dataclass(frozen=True, slots=True)
class Site:
    """A machine and the rules shared by all policies compared on it."""

    size: int  # m
    rules: Rules = FCFS  # under each of the policies, whatever the policy here

    def under(self, policy: Policy) -> Rules:
        return replace(self.rules, policy=policy)


def expected_runtimes(past: Past) -> NDArray[np.float64]:
    """The run times expected at the period's end: p~, and of a running job that has outlived it the corrected time."""
    jobs, expected_s = past.jobs, past.jobs.expected_s.copy()
    outlived = jobs.outlives & ~past.ended & (past.start_s + expected_s <= past.until_s)
    for row in np.flatnonzero(outlived):
        expected_s[row], _ = corrected(past.until_s, past.start_s[row], expected_s[row], 0, np.inf, np.inf)
    return expected_s


def known_runtimes(past: Past, noise: Noise, rng: np.random.Generator) -> NDArray[np.float64]:
    """The run times to replay with: observed for ended jobs, expected for the others.

    Noise makes the simulator less exact: "walltime" knows no run times at all; a number is the standard deviation of
    the logarithm of a factor on observed run times (p~ stays the limit of a job that has not outlived it).
    """
    jobs, expected_s = past.jobs, expected_runtimes(past)
    if noise == "walltime":
        return expected_s
    seen_s = np.minimum(jobs.runtime_s, jobs.walltime_s)
    if noise != "none":
        limit_s = np.where(jobs.expected_s < jobs.walltime_s, np.inf, jobs.walltime_s)
        seen_s = np.minimum(seen_s * rng.lognormal(sigma=noise, size=len(seen_s)), limit_s)
    return np.where(past.ended, seen_s, expected_s)


def replay_from(past: Past, site: Site, runtime_s: NDArray[np.float64], policy: Policy) -> tuple[EngineReplay, Past]:
    """A replay in the cluster's state at the period's start, and the part of the past that is in it."""
    end_s = past.start_s + np.minimum(past.jobs.runtime_s, past.jobs.walltime_s)
    kept = ~(past.ended & (end_s <= past.from_s))
    left = Past(past.jobs.select(kept), past.start_s[kept], past.ended[kept], past.from_s, past.until_s)
    running = left.start_s <= past.from_s
    # However short noise makes a running job, it has not ended by the period's start.
    runtime_s = np.where(running, np.maximum(runtime_s[kept], past.from_s - left.start_s), runtime_s[kept])
    walltime_s = np.maximum(left.jobs.walltime_s, runtime_s)
    table = replace(left.jobs, runtime_s=runtime_s, walltime_s=walltime_s)
    run = EngineReplay(table, site.size, site.under(policy))
    run.begin_at(past.from_s, left.start_s)
    return run, left


def period_costs(
    past: Past,
    policies: Sequence[Policy],
    site: Site,
    *,
    noise: Noise = "none",
    rng: np.random.Generator,
    budget_s: float = math.inf,
) -> NDArray[np.float64] | None:
    """The waiting time in the period under each policy, in seconds, shape (n_policies,); None if over budget.

    All policies meet the same run times, see `known_runtimes` for the noise. `budget_s` is wall-clock time: all or
    nothing, since comparing only some policies would be unfair.
    """
    deadline = time.monotonic() + budget_s
    runtime_s = known_runtimes(past, noise, rng)
    first, left = replay_from(past, site, runtime_s, policies[0])
    result = np.empty(len(policies))
    for i, policy in enumerate(policies):
        run = first.fork()
        run.queue.change_rules(site.under(policy))
        stops = [past.until_s] if math.isinf(budget_s) else np.linspace(past.from_s, past.until_s, SLICES + 1)[1:]
        for until_s in stops:
            run.advance(until_s)
            if time.monotonic() > deadline:
                return None
        result[i] = left.waited_s(run.start_s)
    return result
