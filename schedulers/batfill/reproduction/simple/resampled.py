"""The experiment of the CCGrid 2019 paper: simple policies with a threshold on logs resampled user by user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from batfill.reproduction.grids import Grid, longest_request_s, run_grid
from batfill.schema import Count, Section, Seed
from batfill.workloads.resampling import ProfileWeeks
from batfill.workloads.swf import Overrun

if TYPE_CHECKING:
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
    # The threshold in longest requests of the log, null for none; each is a choice, and statements are about the first.
    longest_requests: Annotated[list[Annotated[float, Field(gt=0)] | None], Field(min_length=1)]
    overrun: Overrun = "kill"


def resampled(task: Task, parameters: ResampledParameters) -> dict[str, list[Grid]]:
    """The runs on every log at hand, with all their jobs, by the choice of a threshold."""
    made: dict[str, Any] = {"samples": parameters.samples, "method": "users", "profile-weeks": parameters.profile_weeks}
    if parameters.weeks is not None:
        made["weeks"] = parameters.weeks
    found: dict[str, list[Grid]] = {choice_of(each): [] for each in parameters.longest_requests}
    for label, path in task.logs.items():
        longest_s = longest_request_s(path)
        thresholds = [each and each * longest_s for each in parameters.longest_requests]
        content = {
            "resamplings": made,
            "seeds": [parameters.seed],
            "policies": list(POLICIES),
            "thresholds": thresholds,
            "per-job": True,
        }
        grid = run_grid(task, label, content, overrun=parameters.overrun)
        for grids, threshold in zip(found.values(), thresholds, strict=True):
            grids.append(grid._replace(rows=[row for row in grid.rows if row["threshold_s"] == threshold]))
    return found


def choice_of(longest_requests: float | None) -> str:
    """The words for a threshold."""
    return "no threshold" if longest_requests is None else f"threshold {longest_requests:g} longest requests"


def kept(values: NDArray[np.float64]) -> NDArray[np.intp]:
    """The samples without the best and the worst of them, as the paper has it; all where they are few."""
    order = np.argsort(values, kind="stable")
    return np.sort(order if len(order) < FEWEST_TRIMMED else order[1:-1])


def described(found: dict[str, list[Grid]]) -> tuple[str, ...]:
    """A note: the samples, and every log's thresholds."""
    thresholds = ", ".join(
        f"{grid.label} {grid.rows[0]['threshold_s']:,.0f} s"
        for grids in found.values()
        for grid in grids
        if grid.rows[0]["threshold_s"] is not None
    )
    samples = len(next(iter(found.values()))[0].of(POLICIES[0]))
    return (f"{samples} samples of each log; thresholds {thresholds or 'none'}.",)
