"""Scores of a workload's proxy problems and the polynomials fitted to them, for the entries of the 2023 study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from batfill.errors import BatfillError, WorkloadError
from batfill.files import digest
from batfill.reproduction.shared import kept
from batfill.schema import Count, Section, Seed, Text
from batfill.tuning.heuristics import FUNCTIONS, Fit, Weights, fit
from batfill.tuning.proxy import Scores, Shuffle, score_jobs
from batfill.workloads import read_workload

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

Choice = Literal["published pq2", "published pq", "fair pq2", "fair pq"]
TITLES = {name: name.capitalize() for name in FUNCTIONS}  # as the paper writes them


class Fitting(Section):
    """How scores are drawn and what is fitted to them."""

    tuples: Annotated[dict[Text, Count], Field(min_length=1)]  # by log
    permutations: Count
    choices: Annotated[list[Choice], Field(min_length=1)]  # the shuffle, and what a squared error is weighted by
    seed: Seed = 0


def drawn(choice: Choice) -> tuple[Shuffle, Weights]:
    """The shuffle and the weights of a choice."""
    shuffle, weights = choice.split()
    return "fair" if shuffle == "fair" else "published", "pq2" if weights == "pq2" else "pq"


def scores_of(task: Task, label: str, shuffle: Shuffle, how: Fitting) -> Scores:
    """The scores of a log's jobs, as `score_jobs` draws them; kept for the paper's other entries.

    Raises:
        BatfillError: there is no number of tuples for the log, or its machine's size is not known.
    """
    path = task.logs[label]
    if label not in how.tuples:
        raise BatfillError(f"{label}: tuples says no number for it; add one, such as {label}: 100")
    given = {"seed": how.seed, "tuples": how.tuples[label], "permutations": how.permutations, "how": shuffle}

    def make() -> dict[str, Any]:
        workload = read_workload(path)
        if workload.procs is None:
            raise WorkloadError(f"{path}: does not say how many processors the machine has; add MaxProcs to its header")
        with task.bar(f"{label}, {shuffle} shuffle: tuples", how.tuples[label]) as advance:
            scores = score_jobs(workload.jobs, workload.procs, **given, advance=advance)  # type: ignore[arg-type]
        return {name: getattr(scores, name) for name in Scores.__slots__}

    columns = kept(task.folder, "scores", {**given, "log": digest(path)}, "tuning", make)
    return Scores(**{name: np.array(values) for name, values in columns.items()})


def fits_of(task: Task, label: str, choice: Choice, how: Fitting) -> list[Fit]:
    """Lin, Qdr, Cub and Qua of a log."""
    shuffle, weights = drawn(choice)
    scores = scores_of(task, label, shuffle, how)
    return [fit(scores, name, weights) for name in FUNCTIONS]
