"""What an agent is rewarded for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from batfill.model.metrics import TAU_S, bounded_slowdown

if TYPE_CHECKING:
    from collections.abc import Mapping

# Of jobs that start: (wait_s, runtime_s, procs), each of shape (n_started,), to a value each. A job counts in the step
# in which it starts, and the sum is divided by the episode's jobs: the rewards of an episode add up to the mean value.
Reward = Callable[[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]], NDArray[np.float64]]

REWARDS: Mapping[str, str] = {
    "bsld": "minus the mean bounded slowdown",
    "wait": "minus the mean wait, in hours",
    "utilisation": "the share of the processors in use from the first submission to the last end, at the end",
}


def reward_named(name: str, tau_s: float = TAU_S) -> Reward | None:
    """The values of started jobs of a reward in REWARDS; None for the one that is given at the end."""
    if name == "bsld":
        return lambda wait_s, runtime_s, procs: -bounded_slowdown(wait_s, runtime_s, tau_s)
    if name == "wait":
        return lambda wait_s, runtime_s, procs: -wait_s / 3600
    return None
