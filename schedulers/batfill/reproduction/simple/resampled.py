"""The experiment of the CCGrid 2019 paper: simple policies with a threshold on logs resampled user by user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from batfill.campaign.config import Count, Section, Seed
from batfill.reproduction.grids import Grid, longest_request_s, run_grid
from batfill.workloads.resampling import ProfileWeeks
from batfill.workloads.swf import Overrun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from batfill.reproduction.task import Task

POLICIES = ("fcfs", "spf", "sqf", "saf")
NAMES = tuple(name.upper() for name in POLICIES)
FEWEST_TRIMMED = 4  # of fewer samples none is left out


class ResampledParameters(Section):
    """How the samples are drawn and scheduled; entries with equal ones share their runs."""

    samples: Count = 10
    weeks: Count | None = None  # of a sample; as many as the log has by default
    profile_weeks: ProfileWeeks = "all"
    seed: Seed = 0
    longest_requests: Annotated[float, Field(gt=0)] = 3.0  # the threshold, in longest requests of the log
    overrun: Overrun = "kill"


def resampled(task: Task, parameters: ResampledParameters) -> Iterator[Grid]:
    """The runs on every log at hand, with all their jobs."""
    made: dict[str, Any] = {
        "samples": parameters.samples,
        "method": "users",
        "profile-weeks": parameters.profile_weeks,
    }
    if parameters.weeks is not None:
        made["weeks"] = parameters.weeks
    for label, path in task.logs.items():
        content = {
            "resamplings": made,
            "seeds": [parameters.seed],
            "policies": list(POLICIES),
            "thresholds": [parameters.longest_requests * longest_request_s(path)],
            "per-job": True,
        }
        yield run_grid(task, label, content, overrun=parameters.overrun)


def kept(values: NDArray[np.float64]) -> NDArray[np.intp]:
    """The samples without the best and the worst of them, as the paper has it; all where they are few."""
    order = np.argsort(values, kind="stable")
    return np.sort(order if len(order) < FEWEST_TRIMMED else order[1:-1])


def described(grid: Grid) -> str:
    """The threshold and the runs, for a note."""
    first = grid.rows[0]
    runs, samples = len(grid.rows), len(grid.of(POLICIES[0]))
    return f"{grid.label}: threshold {first['threshold_s']:,.0f} s, {samples} samples, {runs} runs."
