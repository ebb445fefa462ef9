"""The predictor that the options choose."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np

from batfill.base.errors import BatfillError
from batfill.learn.classifier import Classifier
from batfill.learn.estimates import (
    ClassClairvoyant,
    EveryJob,
    LastTwo,
    OnlineRegression,
    OrderOnly,
    RuntimeClairvoyant,
    UserEstimate,
)
from batfill.model.options import EVERY, FOREST, ORDER, PERFECT, REQUEST, RUNTIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from batfill.learn import Knowledge
    from batfill.model.jobs import Clock, Jobs
    from batfill.model.options import Options


def make(options: Options, jobs: Jobs | None, clock: Clock | None) -> Knowledge:
    """A fresh predictor; `jobs` have the run times for a clairvoyant one."""
    knowledge = everywhere(options, jobs, clock)
    return OrderOnly(knowledge) if options.predict_for == ORDER else knowledge


def everywhere(options: Options, jobs: Jobs | None, clock: Clock | None) -> Knowledge:
    """The predictor, whose predictions are used everywhere; as `make`."""
    if options.own is not None:
        own: Knowledge = deepcopy(options.own)
        return own
    if options.small == PERFECT or options.predict == RUNTIME:
        if jobs is None:
            which = "small perfect" if options.small == PERFECT else "predict runtime"
            raise BatfillError(f"option {which}: needs true run times, which only a replay has")
        runtime_s: NDArray[np.float64] = np.minimum(jobs.runtime_s, jobs.walltime_s)
        if options.predict == RUNTIME:
            return RuntimeClairvoyant(np.maximum(runtime_s, 1e-9))
        return ClassClairvoyant(runtime_s, options.divider)
    if options.small == EVERY:
        return EveryJob(options.divider, weekly=options.study.regime == "decoupled")
    if options.small == FOREST:
        return Classifier(options, clock)
    plain: dict[str, Callable[[], Knowledge]] = {
        REQUEST: UserEstimate,
        "easy++": LastTwo,
        "regression": OnlineRegression,
    }
    return plain[options.predict]()
