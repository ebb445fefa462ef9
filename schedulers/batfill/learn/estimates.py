"""Predictors without a forest: the request, the truth, the mean of the user's last two jobs, or a regression.

Sources: Tsafrir, Etsion, Feitelson, TPDS 2007 (EASY++); Gaussier et al., SC 2015 (the regression's polynomial features
and its asymmetric loss, squared for overestimates and linear for underestimates, weighted by log(p q)); Ross, Mineiro,
Langford, UAI 2013 (NAG, normalised adaptive gradients, algorithm 2).
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from batfill.base.kernels import F8, entry, kernel
from batfill.learn import Judgement, Knowledge, SubmittedJob
from batfill.learn.quantiles import Divided
from batfill.model.jobs import DAY_S, HOUR_S, WEEK_S

if TYPE_CHECKING:
    from batfill.model.kinds import Divider

# Run times are in hours: the squared and the linear side of the loss meet at one hour.
RATE = 0.5  # eta
RIDGE = 1e-6  # of the squared norm of the weights


class UserEstimate(Knowledge):
    """The requested time p~, without classes: plain EASY."""

    name = "user"

    def judge(self, job: SubmittedJob) -> Judgement:
        return Judgement(job.expected_s, small=False)


class RuntimeClairvoyant(Knowledge):
    """The true run time p."""

    name = "runtime-clairvoyant"

    def __init__(self, runtime_s: NDArray[np.float64]) -> None:
        """`runtime_s`, shape (n_jobs,): how long each job runs, by row."""
        self.runtime_s = runtime_s

    def judge(self, job: SubmittedJob) -> Judgement:
        return Judgement(float(self.runtime_s[job.row]), small=False)


class ClassClairvoyant(Knowledge):
    """The true class, by the rolling median of the ended jobs' run times; what is expected stays p~."""

    name = "class-clairvoyant"
    classifies = True

    def __init__(self, runtime_s: NDArray[np.float64], divider: Divider) -> None:
        self.runtime_s = runtime_s
        self.divided = Divided(divider)
        self.divider_s = self.divided.value

    def judge(self, job: SubmittedJob) -> Judgement:
        small = self.runtime_s[job.row] < self.divider_s < math.inf
        return Judgement(job.expected_s, bool(small), float(small))

    def ended(self, job: SubmittedJob, runtime_s: float, end_s: float) -> None:
        self.divided.median.add(runtime_s)

    def renew(self, now_s: float) -> None:
        self.divider_s = self.divided.value


class EveryJob(Knowledge):
    """Every job is small; only the divider is learned, as of now or of the last week's end."""

    name = "all"
    classifies = True

    def __init__(self, divider: Divider, *, weekly: bool) -> None:
        self.divided, self.weekly = Divided(divider), weekly
        self.next_s: float = WEEK_S
        self.divider_s = self.divided.value

    def judge(self, job: SubmittedJob) -> Judgement:
        return Judgement(job.expected_s, self.divider_s < math.inf)

    def ended(self, job: SubmittedJob, runtime_s: float, end_s: float) -> None:
        self.divided.median.add(runtime_s)

    def renew(self, now_s: float) -> None:
        if not self.weekly or now_s >= self.next_s:
            self.next_s = (now_s // WEEK_S + 1) * WEEK_S
            self.divider_s = self.divided.value

    def renewal_s(self) -> float:
        return self.next_s if self.weekly else math.inf


class LastTwo(Knowledge):
    """EASY++: the mean run time of the user's last two ended jobs, at most the request, which is taken without two."""

    name = "easy++"
    outlived = True

    def __init__(self) -> None:
        self.last: dict[int, deque[float]] = {}

    def judge(self, job: SubmittedJob) -> Judgement:
        last = self.last.get(job.user, ())
        if len(last) < 2:
            return Judgement(job.most_s, small=False)
        return Judgement(min(max(sum(last) / 2, 1.0), job.most_s), small=False)

    def ended(self, job: SubmittedJob, runtime_s: float, end_s: float) -> None:
        self.last.setdefault(job.user, deque(maxlen=2)).append(runtime_s)


class OrderOnly(Knowledge):
    """Another predictor's run times in the queue's order; p~ stays the expected run time, which no job outlives."""

    def __init__(self, knowledge: Knowledge) -> None:
        """`knowledge`: calls no job small."""
        self.name, self.predictor = knowledge.name, knowledge

    def judge(self, job: SubmittedJob) -> Judgement:
        return Judgement(job.expected_s, small=False, key_expected_s=self.predictor.judge(job).expected_s)

    def started(self, job: SubmittedJob, start_s: float) -> None:
        self.predictor.started(job, start_s)

    def ended(self, job: SubmittedJob, runtime_s: float, end_s: float) -> None:
        self.predictor.ended(job, runtime_s, end_s)

    def renew(self, now_s: float) -> None:
        self.predictor.renew(now_s)

    def renewal_s(self) -> float:
        return self.predictor.renewal_s()


class UserHistory:
    """Summary of a user's ended jobs."""

    def __init__(self) -> None:
        self.last: deque[float] = deque(maxlen=3)  # run times in hours, the newest first
        self.jobs = 0
        self.total = 0.0
        self.procs = 0
        self.ended_s = math.nan

    def add(self, hours: float, procs: int, end_s: float) -> None:
        self.last.appendleft(hours)
        self.jobs += 1
        self.total += hours
        self.procs += procs
        self.ended_s = end_s

    def features(self, job: SubmittedJob) -> list[float]:
        """Features of the job and its user; run times in hours, 0 if there are none yet."""
        last = [*self.last, 0.0, 0.0, 0.0][:3]
        known = max(len(self.last), 1)
        mean_procs = self.procs / self.jobs if self.jobs else float(job.procs)
        day, week = (2 * math.pi * (job.submit_s % span) / span for span in (DAY_S, WEEK_S))
        return [
            1.0,
            min(job.known_request_s / HOUR_S, 1e4),
            float(job.procs),
            *last,
            sum(last[:2]) / min(known, 2),
            sum(last) / known,
            self.total / max(self.jobs, 1),
            job.procs / mean_procs,
            0.0 if math.isnan(self.ended_s) else math.log1p(job.submit_s - self.ended_s),
            math.cos(day),
            math.sin(day),
            math.cos(week),
            math.sin(week),
            float(job.known_request_s == 0),  # whether the request is unknown
        ]


N_FEATURES = len(UserHistory().features(SubmittedJob(0, 0.0, 1.0, 1, 0)))
PAIRS = np.array(
    [(i, j) for i in range(N_FEATURES) for j in range(i, N_FEATURES)]
)  # the constant makes the single ones too


class OnlineRegression(Knowledge):
    """A polynomial of degree 2 in the features of job and user, updated at each end."""

    name = "regression"
    outlived = True

    def __init__(self) -> None:
        self.users: dict[int, UserHistory] = {}
        self.seen: dict[int, NDArray[np.float64]] = {}  # features at submission, by row, until the job ends
        self.weights = np.zeros(len(PAIRS))
        self.scale = np.zeros(len(PAIRS))  # s: the largest |x| so far
        self.gradient = np.zeros(len(PAIRS))  # G: sum of squared gradients
        self.state = np.zeros(2)  # t, N

    def judge(self, job: SubmittedJob) -> Judgement:
        features = np.array(self.users.setdefault(job.user, UserHistory()).features(job))
        self.seen[job.row] = features[PAIRS[:, 0]] * features[PAIRS[:, 1]]
        if self.state[0] == 0:
            return Judgement(job.most_s, small=False)
        predicted_s = HOUR_S * float(self.weights @ self.seen[job.row])
        return Judgement(min(max(predicted_s, 1.0), job.most_s), small=False)

    def ended(self, job: SubmittedJob, runtime_s: float, end_s: float) -> None:
        hours = runtime_s / HOUR_S
        weight = math.log(max(runtime_s * job.procs, math.e))
        descend(self.seen.pop(job.row), hours, weight, RATE, self.weights, self.scale, self.gradient, self.state)
        self.users[job.user].add(hours, job.procs, end_s)


@entry(F8, float, float, float, F8, F8, F8, F8, brief=True)
@kernel
def descend(
    x: NDArray[np.float64],
    y: float,
    weight: float,
    rate: float,
    weights: NDArray[np.float64],
    scale: NDArray[np.float64],
    gradient: NDArray[np.float64],
    state: NDArray[np.float64],
) -> None:
    """One step of NAG for the loss weight * ((f - y)^2 if f >= y else y - f) + RIDGE |weights|^2."""
    f, norm = 0.0, 0.0
    for i in range(len(x)):
        size = abs(x[i])
        if size > scale[i]:
            weights[i] *= scale[i] / size
            scale[i] = size
        f += weights[i] * x[i]
        if scale[i] > 0:
            norm += (x[i] / scale[i]) ** 2
    state[0] += 1
    state[1] += norm
    slope = weight * (2 * (f - y) if f >= y else -1.0)
    pace = rate * np.sqrt(state[0] / state[1])
    for i in range(len(x)):
        g = slope * x[i] + 2 * RIDGE * weights[i]
        gradient[i] += g * g
        if gradient[i] > 0 and scale[i] > 0:
            weights[i] -= pace * g / (scale[i] * np.sqrt(gradient[i]))
