"""The predictor that the options choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.errors import BatfillError
from batfill.knowledge.classifier import Classifier
from batfill.knowledge.estimates import (
    ClassClairvoyant,
    LastTwo,
    OnlineRegression,
    OrderOnly,
    RuntimeClairvoyant,
    UserEstimate,
)
from batfill.options import CLAIRVOYANT, KNOWLEDGES, ORDER, USER, one_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from batfill.jobs import Clock, JobTable
    from batfill.knowledge import Knowledge
    from batfill.options import Learning


def make(learning: Learning, jobs: JobTable | None, clock: Clock | None) -> Knowledge:
    """A fresh predictor.

    Args:
        learning: the options in force.
        jobs: the run times for a clairvoyant predictor; None if they are not available.
        clock: the log's; None if the workload has no dates.

    Raises:
        BatfillError: the predictor is clairvoyant and there are no run times.
    """
    knowledge = everywhere(learning, jobs, clock)
    return OrderOnly(knowledge) if learning.predictions == ORDER else knowledge


def everywhere(learning: Learning, jobs: JobTable | None, clock: Clock | None) -> Knowledge:
    """The predictor, whose predictions are used everywhere; as `make`."""
    if learning.knowledge in CLAIRVOYANT:
        if jobs is None:
            raise BatfillError(f"option knowledge: {learning.knowledge} needs true run times, which only a replay has")
        runtime_s: NDArray[np.float64] = np.minimum(jobs.runtime_s, jobs.walltime_s)
        if learning.knowledge == "runtime-clairvoyant":
            return RuntimeClairvoyant(np.maximum(runtime_s, 1e-9))
        return ClassClairvoyant(runtime_s, learning.settings.levels)
    if learning.knowledge == "classifier":
        return Classifier(learning.settings, clock)
    one_of("knowledge", learning.knowledge, KNOWLEDGES)
    plain: dict[str, Callable[[], Knowledge]] = {
        USER: UserEstimate,
        "easy++": LastTwo,
        "regression": OnlineRegression,
    }
    return plain[learning.knowledge]()
