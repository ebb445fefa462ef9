"""What a scheduler may know of run times: one interface for replays, for Batsim and for studies of a log.

A predictor (a `Knowledge`) sees a job's request at submission and its run time at completion, and nothing else. The
request is the user's: a limit that was raised to the run time, or made from it, would tell the run time. Only the
clairvoyant ones see run times, as their names say. `replays.learning`, the scheduler under Batsim and studies of logs
drive it.

At a submission at t, only jobs that ended strictly before t count as ended: Batsim may send the events of one instant
in one message or in several, and predictions must not depend on that.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class SubmittedJob(NamedTuple):
    """A job's request, as known at its submission."""

    row: int  # index in the order (submission, id)
    submit_s: float  # r
    expected_s: float  # p~, which may have been raised to the run time: for limits, never for learning
    procs: int  # q
    user: int  # -1 if unknown
    killable: bool = True  # whether it may be killed and restarted
    request_s: float | None = None  # as the log has it, nan if unknown; None: p~
    id: str = ""

    @property
    def known_request_s(self) -> float:
        """The user's request, which learners read; 0, which no request is, if it is unknown."""
        request_s = self.expected_s if self.request_s is None else self.request_s
        return request_s if request_s < math.inf else 0.0

    @property
    def most_s(self) -> float:
        """The longest run time to predict: the user's request if it is known, and at most p~."""
        return min(self.known_request_s or math.inf, self.expected_s)


class Judgement(NamedTuple):
    """What a predictor says of a job at its submission."""

    expected_s: float  # expected run time; at most p~
    small: bool = False
    probability: float = math.nan  # of being small, if that is learned
    key_expected_s: float | None = None  # p~ of the keys; None: `expected_s`


class Knowledge:
    """A predictor of run times or classes; as it stands here it learns nothing and has no divider."""

    name: str
    classifies = False  # whether it calls jobs small or large
    outlived = False  # whether jobs may outlive what is expected of them, which is then corrected
    divider_s = math.inf  # in force: jobs that run shorter are small; inf for none

    def judge(self, job: SubmittedJob) -> Judgement:
        """Judge a job that is submitted now."""
        raise NotImplementedError

    def started(self, job: SubmittedJob, start_s: float) -> None:
        """A try starts at `start_s`; may be called ahead of time."""

    def ended(self, job: SubmittedJob, runtime_s: float, end_s: float) -> None:
        """A job completed at `end_s` after `runtime_s`; calls come in order of the ends."""

    def killed(self, job: SubmittedJob, ran_s: float) -> None:
        """A try was killed at a divider after `ran_s`."""

    def renew(self, now_s: float) -> None:
        """Update at `now_s`, after all earlier ends were reported and before the instant's submissions are judged."""

    def renewal_s(self) -> float:
        """When the next retraining is due; inf for never."""
        return math.inf
