"""The plug-in's own time per message: a job ends, another is submitted, and the cluster decides, while many wait."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle

import numpy as np
from table import Row, time_text
from timing import Case, Setting, by_turns, timed
from wide import wide_jobs

from batfill.learn import Judgement
from batfill.live.cluster import Cluster
from batfill.live.request import Request
from batfill.model.options import Options

MACHINES = 128
WAITING = (1_000, 10_000, 100_000)
MESSAGES = 500
BAR_S, BARRED = 1e-3, 10_000
WIDE_MACHINES, WIDE_WAITING, WIDE_BAR_S = 70_000, 1_000, 60e-6  # 50,000 jobs run


class Crowd:
    """A busy cluster on which about the same number of jobs always waits; they are submitted in the order of `jobs`."""

    def __init__(self, machines: int, waiting: int, policy: str, jobs: Iterator[tuple[float, float, int]]) -> None:
        """Fill the cluster; `jobs` gives run times, walltimes and numbers of machines, without end."""
        self.cluster = Cluster(range(machines), Options.of({"policy": policy}))
        self.jobs = jobs
        self.runtime_s: dict[str, float] = {}
        self.ends: list[tuple[float, str]] = []
        self.submitted = 0
        self.now_s = 0.0
        while self.submitted - len(self.ends) < waiting:
            self.submit()
            if self.cluster.queue.free:
                self.decide()

    def submit(self) -> None:
        """Let one more job wait."""
        name = f"w0!{self.submitted:07}"
        self.runtime_s[name], walltime_s, procs = next(self.jobs)
        self.submitted += 1
        request = Request(name, self.now_s, walltime_s, walltime_s, procs, "")
        self.cluster.submit(request, Judgement(walltime_s, small=False))

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


def any_width(seed: int) -> Iterator[tuple[float, float, int]]:
    """Jobs on any power of two of machines, a minute to two days long."""
    rng = np.random.default_rng(seed)
    while True:
        walltime_s = float(np.ceil(np.exp(rng.uniform(np.log(60), np.log(172_800)))))
        yield float(np.ceil(walltime_s * rng.uniform(0.01, 1))), walltime_s, int(2 ** rng.integers(0, 8))


def mostly_narrow(seed: int) -> Iterator[tuple[float, float, int]]:
    """The jobs of `wide.wide_jobs`, over and over."""
    jobs = wide_jobs(200_000, WIDE_MACHINES, seed)
    return cycle(zip(jobs.runtime_s.tolist(), jobs.walltime_s.tolist(), jobs.procs.tolist(), strict=True))


def mean_message_s(crowd: Crowd) -> Callable[[], float]:
    """A contender: the mean seconds of a message, its job's draw included."""

    def exchange() -> None:
        for _ in range(MESSAGES):
            crowd.message()

    return lambda: timed(exchange) / MESSAGES


def per_message(waiting: int, policy: str, setting: Setting) -> list[Row]:
    mean_s = mean_message_s(Crowd(MACHINES, waiting, policy, any_width(setting.seed)))
    mean_s()
    seconds = by_turns(setting.rounds, {"ours": mean_s})["ours"]
    bar = BAR_S if waiting == BARRED else None
    return [Row(f"{policy}, {waiting:,} waiting", time_text(seconds), figure=seconds, bar=bar, unit="s")]


def on_wide(policy: str, setting: Setting) -> list[Row]:
    crowd = Crowd(WIDE_MACHINES, WIDE_WAITING, policy, mostly_narrow(setting.seed))
    mean_s = mean_message_s(crowd)
    mean_s()
    seconds = by_turns(setting.rounds, {"ours": mean_s})["ours"]
    case = f"{policy}, {len(crowd.ends):,} running on {WIDE_MACHINES:,} machines"
    return [Row(case, time_text(seconds), figure=seconds, bar=WIDE_BAR_S, unit="s")]


def cases() -> list[Case]:
    section = "the plug-in's own time per message"
    crowds = [(policy, waiting) for policy in ("fcfs", "saf", "wfp3") for waiting in WAITING]
    return [
        *(
            Case(section, f"messages {policy} {waiting}", partial(per_message, waiting, policy), waiting == WAITING[0])
            for policy, waiting in crowds
        ),
        *(Case(section, f"messages {policy}, many running", partial(on_wide, policy)) for policy in ("fcfs", "saf")),
    ]
