"""Choosers of the next period's policy, by the waits of past periods under all policies or under the one used."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

Method = Literal["full", "noisy", "epsilon-greedy", "ucb1", "exp3"]


class Chooser(Protocol):
    """Chooses one of n policies for each period."""

    needs_all: bool  # learns from the costs of all policies, or only from that of the one used

    def choose(self) -> int:
        """The policy of the next period."""

    def learn(self, costs: NDArray[np.float64], n_jobs: int) -> None:
        """Learn from the last period: total waits in seconds, shape (n,), nan if unknown, and the number of jobs."""


class Hindsight:
    """The policy with the least weighted sum of past costs: equation 3 of the 2017 bandit paper.

    w(P) = 1/T sum over periods t of (l_t / sum l)^alpha lambda^(T-1-t) w_t(P); l is the number of jobs submitted. The
    first policy wins ties and the first period.
    """

    needs_all = True

    def __init__(self, n: int, *, decay: float, balance: float) -> None:
        """`decay` is lambda, 1 for no forgetting; `balance` is alpha, 0 to weight short and long periods equally."""
        self.n = n
        self.decay, self.balance = decay, balance
        self.costs: list[NDArray[np.float64]] = []
        self.jobs: list[int] = []

    def estimates(self) -> NDArray[np.float64]:
        """w(P), shape (n,); zeros before the first period."""
        total = sum(self.jobs)
        if total == 0:
            return np.zeros(self.n)
        periods = len(self.costs)
        weights = (np.array(self.jobs) / total) ** self.balance * self.decay ** np.arange(periods - 1, -1, -1)
        return np.asarray(weights @ np.array(self.costs) / periods)

    def choose(self) -> int:
        return int(self.estimates().argmin())

    def learn(self, costs: NDArray[np.float64], n_jobs: int) -> None:
        self.costs.append(costs)
        self.jobs.append(n_jobs)


class Bandit:
    """Base of the bandits: per policy, the mean waits per job of the periods in which it was used."""

    needs_all = False

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self.rng = np.random.default_rng([seed, 1])
        self.seen: list[list[float]] = [[] for _ in range(n)]
        self.used = 0  # the policy of the current period

    def learn(self, costs: NDArray[np.float64], n_jobs: int) -> None:
        """Store the used policy's mean wait; a period without jobs is skipped."""
        if n_jobs:
            self.seen[self.used].append(float(costs[self.used]) / n_jobs)

    def means(self) -> NDArray[np.float64]:
        return np.array([np.mean(costs) if costs else np.inf for costs in self.seen])

    def worst(self) -> float:
        """The largest cost so far, which scales rewards into [0, 1]; 1 if there is none."""
        return max((cost for costs in self.seen for cost in costs), default=0.0) or 1.0


class EpsilonGreedy(Bandit):
    """The policy with the least mean cost so far, or any with probability epsilon: Algorithm 2 of the 2017 paper."""

    def __init__(self, n: int, seed: int, *, epsilon: float) -> None:
        super().__init__(n, seed)
        self.epsilon = epsilon

    def choose(self) -> int:
        explore = self.rng.random() < self.epsilon
        self.used = int(self.rng.integers(self.n) if explore else self.means().argmin())
        return self.used


class UpperConfidence(Bandit):
    """UCB1: each policy once, then the one with the highest upper bound. Source: Auer et al., Machine Learning 2002.

    A reward is 1 - cost / the largest cost so far: UCB1 needs rewards in [0, 1], and waits have no bound.
    """

    def choose(self) -> int:
        counts = np.array([len(costs) for costs in self.seen])
        if (counts == 0).any():
            self.used = int(counts.argmin())
        else:
            bounds = 1 - self.means() / self.worst() + np.sqrt(2 * math.log(counts.sum()) / counts)
            self.used = int(bounds.argmax())
        return self.used


class Exponential(Bandit):
    """EXP3, with rewards as in `UpperConfidence`. Source: Auer et al., SIAM Journal on Computing 2002."""

    def __init__(self, n: int, seed: int, *, gamma: float) -> None:
        super().__init__(n, seed)
        self.gamma = gamma
        self.log_weights = np.zeros(n)

    def chances(self) -> NDArray[np.float64]:
        weights = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray((1 - self.gamma) * weights / weights.sum() + self.gamma / self.n)

    def choose(self) -> int:
        self.used = int(self.rng.choice(self.n, p=self.chances()))
        return self.used

    def learn(self, costs: NDArray[np.float64], n_jobs: int) -> None:
        """Raise the weight of the rewarded policy, the more the less likely it was."""
        if n_jobs:
            chance = self.chances()[self.used]
            super().learn(costs, n_jobs)
            reward = 1 - self.seen[self.used][-1] / self.worst()
            self.log_weights[self.used] += self.gamma * reward / (chance * self.n)


def chooser(method: Method, n: int, *, seed: int, options: Mapping[str, float]) -> Chooser:
    """The chooser of this name among n policies; `options` has all of its options."""
    if method == "epsilon-greedy":
        return EpsilonGreedy(n, seed, epsilon=options["epsilon"])
    if method == "ucb1":
        return UpperConfidence(n, seed)
    if method == "exp3":
        return Exponential(n, seed, gamma=options["gamma"])
    return Hindsight(n, decay=options["lambda"], balance=options["alpha"])
