"""What policies cost on periods: the mean bounded slowdown of each policy on each period."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.metrics import TAU_S
from batfill.options import SAME, Options, tau_of
from batfill.policies import POLICIES
from batfill.replay import mean_bsld, replay_many

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.policies import Policy
    from batfill.tuning.weeks import Periods

# The twelve pure policies of the 2019 study of mixed policies, Section 4.2.
PURE = ("fcfs", "lcfs", "spf", "lpf", "sqf", "lqf", "saf", "laf", "lexp", "sexp", "lrf", "srf")


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for all policies that are compared. The default is the 2019 study's, without its threshold."""

    backfill: Policy | None = POLICIES["spf"]  # None for the queue's own order
    threshold_s: float = math.inf  # Theta
    tau_s: float = TAU_S

    @classmethod
    def of(cls, backfill: str, threshold: float | None, tau_s: float = TAU_S) -> Setting:
        """The setting of options as a command line gives them.

        Raises:
            BatfillError: a value is not what it must be.
        """
        shared = Options.of({"backfill": backfill, "threshold": threshold})
        return cls(backfill=shared.backfill, threshold_s=shared.threshold_s, tau_s=tau_of(tau_s))

    def as_dict(self) -> dict[str, Any]:
        """What result files say of it."""
        return {
            "backfill": self.backfill.name if self.backfill else SAME,
            "threshold": None if math.isinf(self.threshold_s) else self.threshold_s,
            "tau_s": self.tau_s,
        }


def costs(
    periods: Periods,
    policies: Sequence[Policy],
    setting: Setting,
    *,
    threads: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> NDArray[np.float64]:
    """The mean bounded slowdown of every policy on every period, shape (n_policies, n_periods).

    `advance` is told of every period done.
    """
    result = np.empty((len(policies), len(periods)))
    for column, jobs in enumerate(periods.tables):
        result[:, column] = replay_many(
            jobs,
            periods.procs,
            policies,
            backfill=setting.backfill,
            threshold_s=setting.threshold_s,
            measure=mean_bsld(jobs, periods.procs, setting.tau_s),
            threads=threads,
        )
        advance(1)
    return result
