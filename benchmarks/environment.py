"""The environments for reinforcement learning: what a decision costs, from the action to the next observation."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from logs import SDSC
from table import Row, time_text
from timing import Case, Setting, by_turns

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # for the studies
COPIES, VISIBLE = 1024, 128
WARM_UP, STEPS = 900, 100  # steps: copies that began together spread over their episodes first
BAR_S = 1e-6  # a million decisions a second on two cores
PLAIN_JOBS = 1_024


def stepping(semantics: str, jobs: int, seed: int) -> tuple[object, object]:
    """A contender, seconds a decision with valid actions at random, and the mean number of visible jobs."""
    if semantics == "easy":
        from batfill_lab.env import SchedulingVectorEnv as Environments
    else:
        from studies.rlscheduler.environments import RLSchedulerVectorEnv as Environments

    env = Environments(SDSC.path, COPIES, jobs=jobs, visible=VISIBLE, copy=False)
    random = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    seen = [observation["action_mask"].sum(axis=1)]

    def run(steps: int) -> float:
        decisions, seconds = 0, 0.0
        for _ in range(steps):
            decisions += COPIES - int(env.episodes.done.sum())
            actions = (random.random(COPIES) * seen[-1]).astype(np.int64)
            began = time.perf_counter()
            observation = env.step(actions)[0]
            seconds += time.perf_counter() - began
            seen.append(observation["action_mask"].sum(axis=1))
        return seconds / decisions

    run(WARM_UP)
    seen[:-1] = []
    return partial(run, STEPS), lambda: float(np.mean(seen))


def plain_python(seed: int) -> float:
    """Seconds a decision of a plain Python simulator of RLScheduler's rules, which observes nothing."""
    sys.path.insert(0, str(ROOT / "tests"))
    from gym_oracle import Simulator
    from studies.rlscheduler.schedgym import read_gym_log

    log = read_gym_log(SDSC.path)
    columns = (log.jobs.submit_s, log.jobs.runtime_s, log.jobs.request_s, log.jobs.procs)
    jobs = list(zip(*(column.tolist() for column in columns), strict=True))
    random = np.random.default_rng(seed)
    machine = {"nodes": log.machine.nodes, "procs_per_node": log.machine.procs_per_node}
    start = int(random.integers(len(jobs) - PLAIN_JOBS))
    simulator = Simulator(jobs, start=start, n=PLAIN_JOBS, **machine)
    began, deciding, decisions = time.perf_counter(), True, 0
    while deciding:
        row = simulator.queue[int(random.random() * len(simulator.queue))]
        deciding = simulator.pick(row, True)
        decisions += 1
    return (time.perf_counter() - began) / decisions


def decisions(semantics: str, jobs: int, setting: Setting) -> list[Row]:
    """The row of an environment; beside it the plain Python simulator, for the rules that it has."""
    case = f"{semantics}, episodes of {jobs} jobs of SDSC-SP2, {VISIBLE} visible, {len(os.sched_getaffinity(0))} cores"
    if find_spec("gymnasium") is None:
        return [Row(case, "skipped: gymnasium is not installed")]
    ours, visible = stepping(semantics, jobs, setting.seed)
    contenders = {"ours": ours} | ({"plain": partial(plain_python, setting.seed)} if semantics != "easy" else {})
    seconds = by_turns(setting.rounds, contenders)
    beside = (
        f"plain Python {time_text(seconds['plain'])}" if "plain" in seconds else f"{1 / seconds['ours']:,.0f} a second"
    )
    case += f", {visible():.1f} seen"
    return [Row(case, f"{time_text(seconds['ours'])} a decision", beside, seconds["ours"], BAR_S, "s")]


def cases() -> list[Case]:
    """Both simulators, and short and long episodes."""
    return [
        Case("environments", f"{semantics}, {jobs} jobs", partial(decisions, semantics, jobs))
        for semantics, jobs in (("easy", 256), ("easy", 1024), ("RLScheduler", 256))
    ]
