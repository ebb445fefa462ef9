"""What a scheduler may know of run times: one interface, the same in a replay, under Batsim and in a study of a log.

A knowledge is told of jobs as they are submitted and as they end, and of nothing else; only the clairvoyant ones are
given the run times, and their names say so. Who asks it is `learning.LearningReplay`, the plug-in under Batsim, and
`study` in a log as it was.

A job counts as ended for a job that is submitted at t if it ended before t, not at t: messages of one instant may come
grouped or apart, and what is known must not depend on it.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol


class SubmittedJob(NamedTuple):
    """What is known of a job at its submission."""

    row: int  # its place by (submission, id)
    submit_s: float  # r
    walltime_s: float  # p~
    procs: int  # q
    user: int  # -1 where unknown
    killable: bool = True  # whether it may be killed and started again


class Judgement(NamedTuple):
    """What a knowledge makes of a job at its submission."""

    estimate_s: float  # run time to expect; at most p~
    small: bool
    probability: float = math.nan  # that it is small, where that is learned
    level: int = 1  # of a small job: the first divider that it is thought to run shorter than, counted from 1


class Knowledge(Protocol):
    """What a scheduler may know of run times."""

    name: str
    classifies: bool  # whether jobs can be small
    outlived: bool  # whether a job may run longer than expected; its expectation is then corrected
    dividers_s: tuple[float, ...]  # in force, one per level, ascending: jobs that run shorter are small; inf for none

    def judge(self, job: SubmittedJob) -> Judgement:
        """What to make of a job that is submitted now."""
        ...

    def started(self, job: SubmittedJob, start_s: float) -> None:
        """A try begins at `start_s`, which may be told ahead of time."""
        ...

    def ended(self, job: SubmittedJob, runtime_s: float, end_s: float) -> None:
        """A job ran this long, whole, until `end_s`; calls come in the order of the ends."""
        ...

    def killed(self, job: SubmittedJob, ran_s: float) -> None:
        """A try was killed at a divider after `ran_s`."""
        ...

    def renew(self, now_s: float) -> None:
        """It is `now_s`, and all that ended before has been told; called before an instant's submissions are judged."""
        ...

    def renewal_s(self) -> float:
        """When the knowledge is next renewed as a whole; inf for never."""
        ...


class Plain:
    """What most knowledges do not need to do."""

    classifies = False
    outlived = False
    dividers_s: tuple[float, ...] = (math.inf,)

    @property
    def divider_s(self) -> float:
        """The last divider: what small and large are told by."""
        return self.dividers_s[-1]

    def started(self, job: SubmittedJob, start_s: float) -> None:
        """Nothing is learned."""

    def ended(self, job: SubmittedJob, runtime_s: float, end_s: float) -> None:
        """Nothing is learned."""

    def killed(self, job: SubmittedJob, ran_s: float) -> None:
        """Nothing is learned."""

    def renew(self, now_s: float) -> None:
        """Nothing changes with time."""

    def renewal_s(self) -> float:
        """Never."""
        return math.inf
