"""The plug-in's own time per message: a job ends, another is submitted, and the cluster decides, while many wait."""

from __future__ import annotations

import heapq
from functools import partial

import numpy as np
from table import Row, time_text
from timing import Case, Setting, by_turns, timed

from batfill.cluster import Cluster
from batfill.options import Options

MACHINES = 128
WAITING = (1_000, 10_000, 100_000)
MESSAGES = 500
BAR_S, BARRED = 1e-3, 10_000


class Crowd:
    """A busy cluster on which about so many seeded jobs always wait."""

    def __init__(self, waiting: int, policy: str, seed: int) -> None:
        self.cluster = Cluster(range(MACHINES), Options.of({"policy": policy}))
        self.rng = np.random.default_rng(seed)
        self.runtime_s: dict[str, float] = {}
        self.ends: list[tuple[float, str]] = []
        self.submitted = 0
        self.now_s = 0.0
        for _ in range(waiting):
            self.submit()
        self.decide()

    def submit(self) -> None:
        """Let one more job wait: any power of two of machines, a minute to two days."""
        name = f"w0!{self.submitted:07}"
        walltime_s = float(np.ceil(np.exp(self.rng.uniform(np.log(60), np.log(172_800)))))
        self.runtime_s[name] = np.ceil(walltime_s * self.rng.uniform(0.01, 1))
        self.submitted += 1
        self.cluster.submit(name, self.now_s, walltime_s, int(2 ** self.rng.integers(0, 8)))

    def decide(self) -> None:
        """Start what the cluster starts."""
        for start in self.cluster.decide(self.now_s):
            heapq.heappush(self.ends, (self.now_s + self.runtime_s[start.job], start.job))

    def message(self) -> None:
        """One job ends and one comes."""
        self.now_s, name = heapq.heappop(self.ends)
        self.cluster.end(name)
        self.submit()
        self.decide()


def per_message(waiting: int, policy: str, setting: Setting) -> list[Row]:
    crowd = Crowd(waiting, policy, setting.seed)

    def exchange() -> None:
        for _ in range(MESSAGES):
            crowd.message()

    def mean_s() -> float:
        return timed(exchange) / MESSAGES

    mean_s()
    seconds = by_turns(setting.rounds, {"ours": mean_s})["ours"]
    return [
        Row(
            f"{policy}, {waiting:,} waiting",
            time_text(seconds),
            figure=seconds,
            bar=BAR_S if waiting == BARRED else None,
            unit="s",
        )
    ]


def cases() -> list[Case]:
    return [
        Case(
            "the plug-in's own time per message",
            f"messages {policy} {waiting}",
            partial(per_message, waiting, policy),
            quick=waiting == WAITING[0],
        )
        for policy in ("fcfs", "saf", "wfp3")
        for waiting in WAITING
    ]
