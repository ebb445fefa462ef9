"""The knowledge that a scheduler's options choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.errors import BatfillError
from batfill.knowledge.classifier import Classifier
from batfill.knowledge.estimates import ClassClairvoyant, LastTwo, OnlineRegression, RuntimeClairvoyant, UserEstimate
from batfill.options import CLAIRVOYANT, KNOWLEDGES, USER, one_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from batfill.jobs import Clock, JobTable
    from batfill.knowledge import Knowledge
    from batfill.options import Learning


def make(learning: Learning, jobs: JobTable | None, clock: Clock | None) -> Knowledge:
    """The knowledge, which knows nothing yet.

    Args:
        learning: what was chosen.
        jobs: whose run times a clairvoyant knowledge reads; None if they are not at hand.
        clock: the log's; None if the workload does not say when it was.

    Raises:
        BatfillError: the knowledge is clairvoyant and there is nothing to see.
    """
    if learning.knowledge in CLAIRVOYANT:
        if jobs is None:
            raise BatfillError(f"option knowledge: {learning.knowledge} knows the future, which only a replay has")
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
